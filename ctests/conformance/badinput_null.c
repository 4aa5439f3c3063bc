// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Bad input: calls every function of the headers, as the symbol that this library exports, with a null object.
//!
//! In C the inline functions dereference the object in the caller's code, so only the exported symbols can check it.
//! All arguments are zero: a call that checks its object first returns an error, any other crashes.
#define _GNU_SOURCE
#include "harness.h"

#include <dlfcn.h>

typedef long long (*any_call)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
			      uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

static long long call_with_zeros(const char *name)
{
	void *symbol = dlvsym(RTLD_DEFAULT, name, "FABRIC_RS_1.0");
	any_call call;

	if (!symbol)
		FAIL("%s is not exported", name);
	memcpy(&call, &symbol, sizeof(call));
	return call(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
}

static void check_invalid(const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		int rc = (int)call_with_zeros(names[i]);

		if (rc != -FI_EINVAL)
			FAIL("%s with a null object gave %s, not -FI_EINVAL", names[i], rc_name(rc));
	}
}

#define CHECK_INVALID(...)                                                                                             \
	do {                                                                                                           \
		static const char *const names[] = { __VA_ARGS__ };                                                    \
		check_invalid(names, sizeof(names) / sizeof(names[0]));                                                \
	} while (0)

TEST(badinput, null_object_control, CORE | OURS_ONLY, 0, "Control functions with a null object give -FI_EINVAL")
{
	CHECK_INVALID("fi_close", "fi_control", "fi_alias", "fi_get_val", "fi_set_val", "fi_open_ops", "fi_set_ops",
		      "fi_export_fid", "fi_import_fid");
}

TEST(badinput, null_object_open, CORE | OURS_ONLY, 0, "Opening on a null fabric or domain gives -FI_EINVAL")
{
	CHECK_INVALID("fi_domain", "fi_domain2", "fi_domain_bind", "fi_passive_ep", "fi_eq_open", "fi_wait_open",
		      "fi_endpoint", "fi_endpoint2", "fi_scalable_ep", "fi_cq_open", "fi_cntr_open", "fi_poll_open",
		      "fi_av_open", "fi_stx_context", "fi_srx_context", "fi_tx_context", "fi_rx_context",
		      "fi_query_atomic", "fi_query_collective");
}

TEST(badinput, null_object_queues, CORE | OURS_ONLY, 0, "Queue, counter, poll and wait calls on a null object give -FI_EINVAL")
{
	CHECK_INVALID("fi_cq_read", "fi_cq_readfrom", "fi_cq_readerr", "fi_cq_sread", "fi_cq_sreadfrom", "fi_cq_signal",
		      "fi_eq_read", "fi_eq_readerr", "fi_eq_write", "fi_eq_sread", "fi_cntr_add", "fi_cntr_adderr",
		      "fi_cntr_set", "fi_cntr_seterr", "fi_cntr_wait", "fi_trywait", "fi_wait", "fi_poll",
		      "fi_poll_add", "fi_poll_del");
	CHECK_EQ(call_with_zeros("fi_cntr_read"), 0);
	CHECK_EQ(call_with_zeros("fi_cntr_readerr"), 0);
	CHECK_EQ(call_with_zeros("fi_cq_strerror"), 0);
	CHECK_EQ(call_with_zeros("fi_eq_strerror"), 0);
}

TEST(badinput, null_object_memory, CORE | OURS_ONLY, 0, "Memory region and address vector calls on a null object give -FI_EINVAL")
{
	CHECK_INVALID("fi_mr_reg", "fi_mr_regv", "fi_mr_regattr", "fi_mr_raw_attr", "fi_mr_map_raw", "fi_mr_unmap_key",
		      "fi_mr_bind", "fi_mr_refresh", "fi_mr_enable", "fi_av_bind", "fi_av_insert", "fi_av_insertsvc",
		      "fi_av_insertsym", "fi_av_remove", "fi_av_lookup", "fi_av_insert_auth_key",
		      "fi_av_lookup_auth_key", "fi_av_set_user_id", "fi_av_set", "fi_av_set_union",
		      "fi_av_set_intersect", "fi_av_set_diff", "fi_av_set_insert", "fi_av_set_remove",
		      "fi_av_set_addr");
	CHECK_EQ(call_with_zeros("fi_mr_desc"), 0);
	CHECK(call_with_zeros("fi_mr_key") == (long long)FI_KEY_NOTAVAIL);
	CHECK_EQ(call_with_zeros("fi_av_straddr"), 0);
}

TEST(badinput, null_object_endpoint, CORE | OURS_ONLY, 0, "Endpoint and connection calls on a null object give -FI_EINVAL")
{
	CHECK_INVALID("fi_ep_bind", "fi_pep_bind", "fi_scalable_ep_bind", "fi_enable", "fi_cancel", "fi_setopt",
		      "fi_getopt", "fi_ep_alias", "fi_rx_size_left", "fi_tx_size_left", "fi_setname", "fi_getname",
		      "fi_getpeer", "fi_listen", "fi_connect", "fi_accept", "fi_reject", "fi_shutdown", "fi_join",
		      "fi_join_collective");
	CHECK(call_with_zeros("fi_mc_addr") == (long long)FI_ADDR_NOTAVAIL);
}

TEST(badinput, null_object_message, CORE | OURS_ONLY, 0, "Message and tagged calls on a null endpoint give -FI_EINVAL")
{
	CHECK_INVALID("fi_recv", "fi_recvv", "fi_recvmsg", "fi_send", "fi_sendv", "fi_sendmsg", "fi_inject",
		      "fi_senddata", "fi_injectdata", "fi_trecv", "fi_trecvv", "fi_trecvmsg", "fi_tsend", "fi_tsendv",
		      "fi_tsendmsg", "fi_tinject", "fi_tsenddata", "fi_tinjectdata");
}

TEST(badinput, null_object_rma, CORE | OURS_ONLY, 0, "RMA and atomic calls on a null endpoint give -FI_EINVAL")
{
	CHECK_INVALID("fi_read", "fi_readv", "fi_readmsg", "fi_write", "fi_writev", "fi_writemsg", "fi_inject_write",
		      "fi_writedata", "fi_inject_writedata", "fi_atomic", "fi_atomicv", "fi_atomicmsg",
		      "fi_inject_atomic", "fi_fetch_atomic", "fi_fetch_atomicv", "fi_fetch_atomicmsg",
		      "fi_compare_atomic", "fi_compare_atomicv", "fi_compare_atomicmsg", "fi_atomicvalid",
		      "fi_fetch_atomicvalid", "fi_compare_atomicvalid");
}

TEST(badinput, null_object_collective, CORE | OURS_ONLY, 0, "Collective calls on a null endpoint give -FI_EINVAL")
{
	CHECK_INVALID("fi_barrier", "fi_barrier2", "fi_broadcast", "fi_alltoall", "fi_allreduce", "fi_allgather",
		      "fi_reduce_scatter", "fi_reduce", "fi_scatter", "fi_gather");
}

TEST(badinput, null_object_profile, CORE | OURS_ONLY, 0, "Profiling calls on a null object give -FI_EINVAL, or nothing where they return nothing")
{
	CHECK_INVALID("fi_profile_query_vars", "fi_profile_query_events", "fi_profile_read_u64",
		      "fi_profile_register_callback", "fi_profile_open", "fi_profile_close");
	call_with_zeros("fi_profile_reset");
	call_with_zeros("fi_profile_start_reads");
	call_with_zeros("fi_profile_end_reads");
}

TEST(badinput, null_object_core, CORE | OURS_ONLY, 0, "The functions of the core with null arguments answer and do not crash")
{
	fi_freeinfo(NULL);
	fi_freeparams(NULL);
	CHECK_RC(fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, NULL, NULL), -FI_EINVAL);
	CHECK_RC(fi_fabric(NULL, NULL, NULL), -FI_EINVAL);
	CHECK_RC(fi_fabric2(NULL, NULL, 0, NULL), -FI_EINVAL);
	CHECK(fi_open(FI_VERSION(2, 6), NULL, NULL, 0, 0, NULL, NULL) < 0);
	CHECK(fi_getparams(NULL, NULL) < 0);
	CHECK(fi_tostr_r(NULL, 0, NULL, FI_TYPE_INFO) == NULL);
}
