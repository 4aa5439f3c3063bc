// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Prints the result of fi_tostr for every type, with every flag and enumerator and with many structs: fi_fabric(3).
//
// tostr.expected is the output of release 2.6.0. Usage: tostr | diff - tostr.expected

#define _GNU_SOURCE

#include <arpa/inet.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#define POINTER(n) ((void *) (uintptr_t) (n))

// Objects whose address appears in a text lie here, so that the text is the same in every run.
static char *const arena = POINTER(0x200000000000);
#define AT(offset) ((void *) (arena + (offset)))

// Numbers in the headers and numbers outside them: old, frozen and invented ones.
static const uint32_t enumerators[] = {
	0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29,
	30, 31, 32, 33, 34, 35, 36, 40, 64, 128, 255, 256, 257, 258, 259, 260, 264, 265, 266, 1000, 4096, 65536,
	0x7fffffff, 0x80000000, 0x80000001, 0x80000005, 0xfffffffe, 0xffffffff,
};

static const struct {
	enum fi_type type;
	const char *name;
} flag_types[] = {
	{FI_TYPE_CAPS, "caps"},
	{FI_TYPE_OP_FLAGS, "op_flags"},
	{FI_TYPE_MSG_ORDER, "msg_order"},
	{FI_TYPE_MODE, "mode"},
	{FI_TYPE_CQ_EVENT_FLAGS, "cq_event_flags"},
	{FI_TYPE_MR_MODE, "mr_mode"},
}, enum_types[] = {
	{FI_TYPE_EP_TYPE, "ep_type"},
	{FI_TYPE_ADDR_FORMAT, "addr_format"},
	{FI_TYPE_THREADING, "threading"},
	{FI_TYPE_PROGRESS, "progress"},
	{FI_TYPE_PROTOCOL, "protocol"},
	{FI_TYPE_AV_TYPE, "av_type"},
	{FI_TYPE_ATOMIC_TYPE, "atomic_type"},
	{FI_TYPE_ATOMIC_OP, "atomic_op"},
	{FI_TYPE_EQ_EVENT, "eq_event"},
	{FI_TYPE_OP_TYPE, "op_type"},
	{FI_TYPE_COLLECTIVE_OP, "collective_op"},
	{FI_TYPE_HMEM_IFACE, "hmem_iface"},
	{FI_TYPE_CQ_FORMAT, "cq_format"},
	{FI_TYPE_LOG_LEVEL, "log_level"},
	{FI_TYPE_LOG_SUBSYS, "log_subsys"},
	{FI_TYPE_CQ_WAIT_COND, "cq_wait_cond"},
	{FI_TYPE_WAIT_OBJ, "wait_obj"},
};

static void show(const char *label, const void *data, enum fi_type type)
{
	const char *text = fi_tostr(data, type);

	printf("== %s\n%s\n", label, text ? text : "(null)");
}

static void flags_and_enumerators(void)
{
	char label[128];

	for (size_t i = 0; i < sizeof flag_types / sizeof *flag_types; i++) {
		for (int bit = -1; bit <= 64; bit++) {
			uint64_t flags = bit < 0 ? 0 : bit == 64 ? UINT64_MAX : 1ull << bit;

			snprintf(label, sizeof label, "%s 0x%llx", flag_types[i].name, (unsigned long long) flags);
			show(label, &flags, flag_types[i].type);
		}
	}
	for (size_t i = 0; i < sizeof enum_types / sizeof *enum_types; i++) {
		for (size_t k = 0; k < sizeof enumerators / sizeof *enumerators; k++) {
			snprintf(label, sizeof label, "%s %u", enum_types[i].name, enumerators[k]);
			show(label, &enumerators[k], enum_types[i].type);
		}
	}
}

static void types(void)
{
	char label[64];
	uint64_t zero[64] = {0};

	// texts.c checks the version itself.
	// The man page requires no data for the version; release 2.6.0 returns no text for it either.
	for (int type = 0; type < 40; type++) {
		if (type == FI_TYPE_VERSION)
			continue;
		snprintf(label, sizeof label, "type %d of nothing", type);
		show(label, NULL, (enum fi_type) type);
	}
	for (int type = 36; type < 45; type++) {
		snprintf(label, sizeof label, "type %d", type);
		show(label, zero, (enum fi_type) type);
	}
	show("type -1", zero, (enum fi_type) -1);
	show("type 0x7fffffff", zero, (enum fi_type) 0x7fffffff);
}

static struct fi_tx_attr tx_attr(void)
{
	return (struct fi_tx_attr) {
		.caps = FI_MSG | FI_TAGGED | FI_RMA | FI_SEND | FI_READ | FI_WRITE,
		.mode = FI_CONTEXT | FI_MSG_PREFIX,
		.op_flags = FI_COMPLETION | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE,
		.msg_order = FI_ORDER_SAS | FI_ORDER_RMA_WAW | FI_ORDER_ATOMIC_RAR,
		.comp_order = 8,
		.inject_size = 64,
		.size = 256,
		.iov_limit = 4,
		.rma_iov_limit = 3,
		.tclass = FI_TC_LOW_LATENCY,
	};
}

static struct fi_rx_attr rx_attr(void)
{
	return (struct fi_rx_attr) {
		.caps = FI_MSG | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_DIRECTED_RECV | FI_SOURCE,
		.mode = FI_RX_CQ_DATA | FI_ASYNC_IOV,
		.op_flags = FI_MULTI_RECV | FI_COMPLETION,
		.msg_order = FI_ORDER_SAS,
		.comp_order = 7,
		.total_buffered_recv = 11,
		.size = 12,
		.iov_limit = 13,
	};
}

static struct fi_ep_attr ep_attr(uint8_t *key, size_t key_size)
{
	return (struct fi_ep_attr) {
		.type = FI_EP_RDM,
		.protocol = FI_PROTO_XNET,
		.protocol_version = 17,
		.max_msg_size = SIZE_MAX,
		.msg_prefix_size = 24,
		.max_order_raw_size = 1,
		.max_order_war_size = 2,
		.max_order_waw_size = 3,
		.mem_tag_format = 0xaaaa5555aaaa5555,
		.tx_ctx_cnt = 5,
		.rx_ctx_cnt = SIZE_MAX,
		.auth_key_size = key_size,
		.auth_key = key,
	};
}

static struct fi_domain_attr domain_attr(char *name)
{
	return (struct fi_domain_attr) {
		.domain = POINTER(0x1234),
		.name = name,
		.threading = FI_THREAD_COMPLETION,
		.control_progress = FI_PROGRESS_AUTO,
		.progress = FI_PROGRESS_MANUAL,
		.resource_mgmt = FI_RM_ENABLED,
		.av_type = FI_AV_TABLE,
		.mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY,
		.mr_key_size = 8,
		.cq_data_size = 4,
		.cq_cnt = 1,
		.ep_cnt = 2,
		.tx_ctx_cnt = 3,
		.rx_ctx_cnt = 40,
		.max_ep_tx_ctx = 5,
		.max_ep_rx_ctx = 6,
		.max_ep_stx_ctx = 7,
		.max_ep_srx_ctx = 80,
		.cntr_cnt = 9,
		.mr_iov_limit = 10,
		.caps = FI_LOCAL_COMM | FI_REMOTE_COMM | FI_SHARED_AV,
		.mode = FI_CONTEXT2,
		.auth_key = (uint8_t *) "key",
		.auth_key_size = 3,
		.max_err_data = 64,
		.mr_cnt = 65535,
		.tclass = FI_TC_BULK_DATA,
		.max_ep_auth_key = 21,
		.max_group_id = 22,
		.max_cntr_value = UINT64_MAX,
		.max_err_cntr_value = 24,
	};
}

static struct fi_fabric_attr fabric_attr(char *name, char *provider)
{
	return (struct fi_fabric_attr) {
		.fabric = POINTER(0xabcdef),
		.name = name,
		.prov_name = provider,
		.prov_version = FI_VERSION(206, 3),
		.api_version = FI_VERSION(1, 18),
	};
}

static void attributes(void)
{
	uint8_t key[64];
	struct fi_tx_attr tx = tx_attr();
	struct fi_rx_attr rx = rx_attr();
	struct fi_ep_attr ep = ep_attr(NULL, 0);
	struct fi_domain_attr domain = domain_attr("the domain");
	struct fi_fabric_attr fabric = fabric_attr("the fabric", "prov;ofi_x");
	char label[64];

	for (size_t i = 0; i < sizeof key; i++)
		key[i] = (uint8_t) (i * 5);

	show("tx_attr", &tx, FI_TYPE_TX_ATTR);
	show("rx_attr", &rx, FI_TYPE_RX_ATTR);
	show("ep_attr", &ep, FI_TYPE_EP_ATTR);
	show("domain_attr", &domain, FI_TYPE_DOMAIN_ATTR);
	show("fabric_attr", &fabric, FI_TYPE_FABRIC_ATTR);

	static const size_t sizes[] = {1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		snprintf(label, sizeof label, "ep_attr key of %zu", sizes[i]);
		ep = ep_attr(key, sizes[i]);
		show(label, &ep, FI_TYPE_EP_ATTR);
	}
	ep = ep_attr(NULL, 8);
	show("ep_attr size without key", &ep, FI_TYPE_EP_ATTR);
	ep = ep_attr(key, 0);
	show("ep_attr key without size", &ep, FI_TYPE_EP_ATTR);
	for (uint64_t format = 0; format < 4; format++) {
		snprintf(label, sizeof label, "ep_attr tag format %d", (int) format);
		ep = ep_attr(NULL, 0);
		ep.mem_tag_format = format;
		show(label, &ep, FI_TYPE_EP_ATTR);
	}

	memset(&tx, 0, sizeof tx);
	memset(&rx, 0, sizeof rx);
	memset(&ep, 0, sizeof ep);
	memset(&domain, 0, sizeof domain);
	memset(&fabric, 0, sizeof fabric);
	show("tx_attr zero", &tx, FI_TYPE_TX_ATTR);
	show("rx_attr zero", &rx, FI_TYPE_RX_ATTR);
	show("ep_attr zero", &ep, FI_TYPE_EP_ATTR);
	show("domain_attr zero", &domain, FI_TYPE_DOMAIN_ATTR);
	show("fabric_attr zero", &fabric, FI_TYPE_FABRIC_ATTR);

	memset(&tx, 0xff, sizeof tx);
	memset(&rx, 0xff, sizeof rx);
	memset(&ep, 0xff, sizeof ep);
	ep.auth_key = NULL;
	memset(&domain, 0xff, sizeof domain);
	domain.name = NULL;
	domain.auth_key = NULL;
	memset(&fabric, 0xff, sizeof fabric);
	fabric.name = fabric.prov_name = NULL;
	show("tx_attr ones", &tx, FI_TYPE_TX_ATTR);
	show("rx_attr ones", &rx, FI_TYPE_RX_ATTR);
	show("ep_attr ones", &ep, FI_TYPE_EP_ATTR);
	show("domain_attr ones", &domain, FI_TYPE_DOMAIN_ATTR);
	show("fabric_attr ones", &fabric, FI_TYPE_FABRIC_ATTR);

	static const uint32_t classes[] = {
		FI_TC_UNSPEC, FI_TC_DSCP, FI_TC_LABEL, FI_TC_BEST_EFFORT, FI_TC_LOW_LATENCY, FI_TC_DEDICATED_ACCESS,
		FI_TC_BULK_DATA, FI_TC_SCAVENGER, FI_TC_NETWORK_CTRL, FI_TC_DSCP | 46, FI_TC_LABEL | 7, FI_TC_LABEL - 1,
		5, 511, 519, 1000,
	};
	for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
		tx = tx_attr();
		tx.tclass = classes[i];
		snprintf(label, sizeof label, "tx_attr traffic class %u", classes[i]);
		show(label, &tx, FI_TYPE_TX_ATTR);
		domain = domain_attr("d");
		domain.tclass = classes[i];
		snprintf(label, sizeof label, "domain_attr traffic class %u", classes[i]);
		show(label, &domain, FI_TYPE_DOMAIN_ATTR);
	}
	for (unsigned i = 0; i < 5; i++) {
		domain = domain_attr("d");
		domain.resource_mgmt = (enum fi_resource_mgmt) i;
		snprintf(label, sizeof label, "domain_attr resource management %u", i);
		show(label, &domain, FI_TYPE_DOMAIN_ATTR);
	}
}

// The function of an object appends its text to the content of the buffer. The output shows the length that it gets.
static int own_text(const struct fid *fid, char *buf, size_t len)
{
	size_t used = strlen(buf);

	snprintf(buf + used, len - used, "    object of class %zu has %zu bytes\n", fid->fclass, len);
	return 0;
}

static int failing_text(const struct fid *fid, char *buf, size_t len)
{
	size_t used = strlen(buf);

	(void) fid;
	snprintf(buf + used, len - used, "half");
	return -FI_ENOSYS;
}

static void show_info(const char *label, const struct fi_info *info)
{
	show(label, info, FI_TYPE_INFO);
}

// Every format with an address at both ends; some formats have a fixed size, others are text.
static void addresses(struct fi_info *info)
{
	static const uint32_t formats[] = {
		FI_FORMAT_UNSPEC, FI_SOCKADDR, FI_SOCKADDR_IN, FI_SOCKADDR_IN6, FI_SOCKADDR_IB, 5, 6, 7, FI_ADDR_MLX,
		FI_ADDR_STR, FI_ADDR_PSMX2, FI_ADDR_IB_UD, FI_ADDR_EFA, FI_ADDR_PSMX3, FI_ADDR_OPX, FI_ADDR_CXI,
		FI_ADDR_UCX, FI_SOCKADDR_IP, 18, 1000, 0x80000003,
	};
	static const char *ipv6[] = {
		"::", "::1", "fe80::1", "2001:db8::ff00:42:8329", "::ffff:10.1.2.3", "1:2:3:4:5:6:7:8",
		"1:0:0:4:5:0:0:8", "64:ff9b::c000:221", "::10.1.2.3", "::1:10.1.2.3", "1:0:3:4:5:6:7:8", "1::8",
		"0:1:2:3:4:5:6:7", "0:0:1::", "::2:0:0",
	};
	static const char *patterns[] = {"counting", "zero", "ones", "high bits", "low bits"};
	uint8_t *bytes = AT(0);
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(65535)};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(7471), .sin6_scope_id = 3};
	struct sockaddr_un un = {.sun_family = AF_UNIX, .sun_path = "/nowhere"};
	char string[] = "fi_shm://123:0:text";
	char label[128];

	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
		info->addr_format = formats[i];
		for (size_t k = 0; k < sizeof patterns / sizeof *patterns; k++) {
			if (formats[i] == FI_SOCKADDR_IN || formats[i] == FI_SOCKADDR_IN6)
				break;
			for (size_t byte = 0; byte < 128; byte++)
				bytes[byte] = (uint8_t) (k == 0 ? byte * 7 + 1 : k == 1 ? 0 : k == 2 ? 0xff : k == 3 ? 0x80 : 1);
			// An unknown address family, for the formats that have a family.
			bytes[0] = bytes[64] = 0x7f;
			bytes[1] = bytes[65] = 0;
			info->src_addr = bytes;
			info->src_addrlen = 64;
			info->dest_addr = bytes + 64;
			info->dest_addrlen = 64;
			if (formats[i] == FI_ADDR_STR) {
				info->src_addr = string;
				info->src_addrlen = sizeof string;
				info->dest_addr = NULL;
				info->dest_addrlen = 0;
			}
			snprintf(label, sizeof label, "info with address of format %u, %s", formats[i], patterns[k]);
			show_info(label, info);
		}
		inet_pton(AF_INET, "192.168.10.254", &in.sin_addr);
		info->src_addr = &in;
		info->src_addrlen = sizeof in;
		info->dest_addr = &in6;
		info->dest_addrlen = sizeof in6;
		for (size_t k = 0; k < sizeof ipv6 / sizeof *ipv6; k++) {
			if (formats[i] != FI_SOCKADDR && formats[i] != FI_SOCKADDR_IN6 && formats[i] != FI_SOCKADDR_IP)
				break;
			inet_pton(AF_INET6, ipv6[k], &in6.sin6_addr);
			if (formats[i] == FI_SOCKADDR_IN6) {
				info->src_addr = &in6;
				info->src_addrlen = sizeof in6;
			}
			snprintf(label, sizeof label, "info with IPv6 address %s of format %u", ipv6[k], formats[i]);
			show_info(label, info);
		}
		if (formats[i] == FI_SOCKADDR_IN) {
			info->dest_addr = &in;
			info->dest_addrlen = sizeof in;
			show_info("info with IPv4 addresses", info);
			in.sin_addr.s_addr = 0;
			in.sin_port = 0;
			show_info("info with IPv4 wildcards", info);
			in.sin_port = htons(65535);
		}
		if (formats[i] == FI_SOCKADDR) {
			info->src_addr = &un;
			info->src_addrlen = sizeof un;
			info->dest_addr = NULL;
			show_info("info with unix address", info);
		}
	}
	info->addr_format = FI_FORMAT_UNSPEC;
	info->src_addr = info->dest_addr = NULL;
	info->src_addrlen = info->dest_addrlen = 0;
}

static void infos(void)
{
	struct fi_tx_attr tx = tx_attr();
	struct fi_rx_attr rx = rx_attr();
	struct fi_ep_attr ep = ep_attr(NULL, 0);
	struct fi_domain_attr domain = domain_attr("eth0");
	struct fi_fabric_attr fabric = fabric_attr("10.0.0.0/8", "tcp");
	struct fi_info info;
	struct fi_info other;

	memset(&info, 0, sizeof info);
	show_info("info zero", &info);
	memset(&other, 0, sizeof other);
	other.caps = FI_MSG;
	info = (struct fi_info) {
		.next = &other,
		.caps = FI_MSG | FI_RMA | FI_TAGGED | FI_ATOMIC | FI_MULTI_RECV,
		.mode = FI_CONTEXT,
		.addr_format = FI_SOCKADDR_IN,
		/* A used-up connection request: the memory is gone. */
		.handle = (struct fid *) 0x1000,
		.tx_attr = &tx,
		.rx_attr = &rx,
		.ep_attr = &ep,
		.domain_attr = &domain,
		.fabric_attr = &fabric,
	};
	show_info("info", &info);
	info.handle = NULL;
	info.tx_attr = NULL;
	show_info("info without tx_attr", &info);
	info.rx_attr = NULL;
	show_info("info without rx_attr", &info);
	info.ep_attr = NULL;
	show_info("info without ep_attr", &info);
	info.domain_attr = NULL;
	show_info("info without domain_attr", &info);
	info.fabric_attr = NULL;
	show_info("info without fabric_attr", &info);
	info.src_addrlen = 16;
	info.dest_addrlen = 16;
	show_info("info with sizes of addresses but none", &info);
	addresses(&info);
}

static void objects(void)
{
	struct fi_ops ops = {.size = sizeof ops, .tostr = own_text};
	struct fi_ops failing = {.size = sizeof ops, .tostr = failing_text};
	struct fi_ops old = {.size = offsetof(struct fi_ops, tostr), .tostr = own_text};
	struct fi_ops none = {.size = sizeof ops};
	struct fid_nic *nic = AT(0x100);
	struct fi_info info = {.caps = FI_MSG, .nic = nic};
	char label[64];

	*nic = (struct fid_nic) {.fid = {.fclass = FI_CLASS_NIC, .ops = &ops}};
	for (size_t class = 0; class < 33; class++) {
		struct fid fid = {.fclass = class, .ops = &ops};

		snprintf(label, sizeof label, "object of class %zu", class);
		show(label, &fid, FI_TYPE_FID);
	}
	show_info("info with nic", &info);
	show("nic", &nic->fid, FI_TYPE_FID);
	nic->fid.ops = &failing;
	show_info("info with failing nic", &info);
	show("failing nic", &nic->fid, FI_TYPE_FID);
	nic->fid.ops = &old;
	show_info("info with old nic", &info);
	show("old nic", &nic->fid, FI_TYPE_FID);
	nic->fid.ops = &none;
	show_info("info with nic without text", &info);
	show("nic without text", &nic->fid, FI_TYPE_FID);
}

static void queues(void)
{
	char label[64];
	uint8_t *error = AT(0x200);
	struct fi_av_attr av = {
		.type = FI_AV_MAP,
		.rx_ctx_bits = 3,
		.count = 1000,
		.ep_per_node = 4,
		.name = "the av",
		.map_addr = POINTER(0xa000),
		.flags = FI_EVENT | FI_READ | FI_SYMMETRIC,
	};
	struct fi_cq_attr cq = {
		.size = 77,
		.flags = FI_AFFINITY,
		.format = FI_CQ_FORMAT_TAGGED,
		.wait_obj = FI_WAIT_FD,
		.signaling_vector = -5,
		.wait_cond = FI_CQ_COND_THRESHOLD,
		.wait_set = POINTER(0xb000),
	};
	struct fi_cntr_attr cntr = {
		.events = FI_CNTR_EVENTS_COMP,
		.wait_obj = FI_WAIT_MUTEX_COND,
		.wait_set = POINTER(0xc000),
		.flags = 5,
	};
	struct fi_cq_err_entry entry = {
		.op_context = POINTER(0xd000),
		.flags = FI_SEND | FI_TAGGED,
		.len = 11,
		.buf = POINTER(0xe000),
		.data = 12,
		.tag = 0x1234567890,
		.olen = 13,
		.err = FI_ETRUNC,
		.prov_errno = -14,
		.err_data = error,
		.err_data_size = 0,
		.src_addr = 15,
	};

	for (size_t i = 0; i < 40; i++)
		error[i] = (uint8_t) (i * 9);
	show("av_attr", &av, FI_TYPE_AV_ATTR);
	show("cq_attr", &cq, FI_TYPE_CQ_ATTR);
	show("cntr_attr", &cntr, FI_TYPE_CNTR_ATTR);
	show("cq_err_entry", &entry, FI_TYPE_CQ_ERR_ENTRY);
	static const size_t sizes[] = {1, 7, 8, 9, 16, 17, 40};
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		entry.err_data_size = sizes[i];
		snprintf(label, sizeof label, "cq_err_entry with %zu bytes of data", sizes[i]);
		show(label, &entry, FI_TYPE_CQ_ERR_ENTRY);
	}
	entry.err_data = NULL;
	show("cq_err_entry with a size only", &entry, FI_TYPE_CQ_ERR_ENTRY);
	static const int errors[] = {0, 1, 11, 22, 61, 110, 113, 125, 255, 256, 257, 271, 272, 300, -5, INT_MIN};
	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
		entry.err = errors[i];
		snprintf(label, sizeof label, "cq_err_entry with error %d", errors[i]);
		show(label, &entry, FI_TYPE_CQ_ERR_ENTRY);
	}
	for (unsigned i = 0; i < 4; i++) {
		cntr.events = (enum fi_cntr_events) i;
		snprintf(label, sizeof label, "cntr_attr with events %u", i);
		show(label, &cntr, FI_TYPE_CNTR_ATTR);
	}

	memset(&av, 0, sizeof av);
	memset(&cq, 0, sizeof cq);
	memset(&cntr, 0, sizeof cntr);
	memset(&entry, 0, sizeof entry);
	show("av_attr zero", &av, FI_TYPE_AV_ATTR);
	show("cq_attr zero", &cq, FI_TYPE_CQ_ATTR);
	show("cntr_attr zero", &cntr, FI_TYPE_CNTR_ATTR);
	show("cq_err_entry zero", &entry, FI_TYPE_CQ_ERR_ENTRY);
	memset(&av, 0xff, sizeof av);
	av.name = NULL;
	memset(&cq, 0xff, sizeof cq);
	memset(&cntr, 0xff, sizeof cntr);
	memset(&entry, 0xff, sizeof entry);
	entry.err_data = NULL;
	entry.err = FI_EOTHER;
	show("av_attr ones", &av, FI_TYPE_AV_ATTR);
	show("cq_attr ones", &cq, FI_TYPE_CQ_ATTR);
	show("cntr_attr ones", &cntr, FI_TYPE_CNTR_ATTR);
	show("cq_err_entry ones", &entry, FI_TYPE_CQ_ERR_ENTRY);
}

static void regions(void)
{
	char label[64];
	struct iovec *iov = AT(0x300);
	uint8_t key[20] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20};
	struct fi_mr_attr mr = {
		.mr_iov = iov,
		.iov_count = 3,
		.access = FI_SEND | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE,
		.offset = 5,
		.requested_key = 0xfedc,
		.context = POINTER(0x9000),
		.auth_key_size = 20,
		.auth_key = key,
		.iface = FI_HMEM_CUDA,
		.device.cuda = 2,
		.hmem_data = POINTER(0x8000),
		.page_size = 4096,
		.base_mr = POINTER(0x7000),
		.sub_mr_cnt = 6,
	};

	show("mr_attr", &mr, FI_TYPE_MR_ATTR);
	for (unsigned i = 0; i < 8; i++) {
		mr.iface = (enum fi_hmem_iface) i;
		mr.device.reserved = 0x1122334455667788;
		snprintf(label, sizeof label, "mr_attr of memory kind %u", i);
		show(label, &mr, FI_TYPE_MR_ATTR);
	}
	mr.iov_count = 0;
	show("mr_attr without pieces", &mr, FI_TYPE_MR_ATTR);
	mr.mr_iov = NULL;
	mr.auth_key = NULL;
	mr.auth_key_size = 0;
	show("mr_attr without key", &mr, FI_TYPE_MR_ATTR);
	memset(&mr, 0, sizeof mr);
	show("mr_attr zero", &mr, FI_TYPE_MR_ATTR);
	memset(&mr, 0xff, sizeof mr);
	mr.mr_iov = NULL;
	mr.iov_count = 0;
	mr.auth_key = NULL;
	show("mr_attr ones", &mr, FI_TYPE_MR_ATTR);
}

// Texts of the caller that do not fit, and a buffer that is too small.
static void limits(void)
{
	char name[20000];
	char buf[64];
	struct fi_fabric_attr fabric = fabric_attr(name, "p");
	uint64_t caps = FI_MSG | FI_RMA | FI_TAGGED;
	char *text;

	memset(name, 'n', sizeof name);
	name[sizeof name - 1] = 0;
	show("fabric_attr with a long name", &fabric, FI_TYPE_FABRIC_ATTR);
	for (size_t len = 1; len <= 32; len++) {
		memset(buf, '#', sizeof buf);
		text = fi_tostr_r(buf, len, &caps, FI_TYPE_CAPS);
		printf("== caps in %zu bytes\n%s %.*s|\n", len, text == buf ? "same" : "other", 40, buf);
	}
	memset(buf, '#', sizeof buf);
	buf[63] = 0;
	text = fi_tostr_r(buf, 0, &caps, FI_TYPE_CAPS);
	printf("== caps in 0 bytes\n%s %s\n", text == buf ? "same" : text ? "other" : "null", buf);
	text = fi_tostr_r(buf, sizeof buf, NULL, FI_TYPE_CAPS);
	printf("== nothing in a buffer\n%s\n", text ? text : "(null)");
	printf("== the same buffer each time\n%d\n", fi_tostr(&caps, FI_TYPE_CAPS) == fi_tostr(&caps, FI_TYPE_MODE));
}

int main(void)
{
	if (mmap(arena, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != arena) {
		perror("mmap");
		return 1;
	}
	flags_and_enumerators();
	types();
	attributes();
	infos();
	objects();
	queues();
	regions();
	limits();
	return 0;
}
