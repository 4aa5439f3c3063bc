// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_cq(3): error entries, their place in the queue, their data, the entry's size by API version, error strings.
#include "harness.h"

TEST(fi_cq, readerr_empty, EP_ANY, FI_MSG, "fi_cq_readerr without an error entry gives -FI_EAGAIN")
{
	struct fi_cq_err_entry err = { 0 };

	PAIR(t);
	CHECK_RC(fi_cq_readerr(t->b.rxcq, &err, 0), -FI_EAGAIN);
	flow_run(t, 0, 1);
	ONCE(t, filled_by_now(t->flow->in[0], FLOW_LEN, 0));
	CHECK_RC(fi_cq_readerr(t->b.rxcq, &err, 0), -FI_EAGAIN);
}

TEST(fi_cq, error_entry_names_the_operation, EP_ANY, FI_MSG, "An error entry carries the operation's context, its flags and a positive error code")
{
	struct fi_cq_err_entry err = { 0 };

	PAIR(t);
	flow_error(t, 0);
	wait_err(t, t->b.rxcq, &err);
	CHECK(err.op_context == &t->flow->rx[0]);
	CHECK_EQ(err.err, FI_ECANCELED);
	CHECK_EQ(err.flags & (FI_MSG | FI_RECV | FI_SEND | FI_TAGGED), FI_MSG | FI_RECV);
	CHECK_EQ(err.olen, 0);
}

TEST(fi_cq, error_blocks_reads, EP_ANY, FI_MSG, "Reads give -FI_EAVAIL until the error entry has been read, then -FI_EAGAIN")
{
	struct fi_cq_tagged_entry entry;
	struct fi_cq_err_entry err = { 0 };
	fi_addr_t src;

	PAIR(t);
	flow_error(t, 0);
	ONCE(t, fi_cq_read(t->b.rxcq, &entry, 1) == -FI_EAVAIL);
	CHECK_RC(fi_cq_read(t->b.rxcq, &entry, 1), -FI_EAVAIL);
	CHECK_RC(fi_cq_readfrom(t->b.rxcq, &entry, 1, &src), -FI_EAVAIL);
	CHECK_RC(fi_cq_readerr(t->b.rxcq, &err, 0), 1);
	CHECK_RC(fi_cq_readerr(t->b.rxcq, &err, 0), -FI_EAGAIN);
	CHECK_RC(fi_cq_read(t->b.rxcq, &entry, 1), -FI_EAGAIN);
}

TEST(fi_cq, error_waits_its_turn, EP_ANY, FI_MSG, "Completions before an error entry are read first, in the same order as they happened")
{
	struct fi_cq_tagged_entry entries[8];
	struct fi_cq_err_entry err = { 0 };
	unsigned before = 0;
	ssize_t rc;

	PAIR(t);
	flow_run(t, 0, 3);
	ONCE(t, filled_by_now(t->flow->in[2], FLOW_LEN, 2));
	flow_error(t, 3);
	while (before < 3) {
		ONCE(t, (rc = fi_cq_read(t->b.rxcq, entries, 8)) != -FI_EAGAIN);
		CHECK(rc > 0);
		for (int i = 0; i < rc; i++)
			CHECK(entries[i].op_context == &t->flow->rx[before++]);
	}
	wait_err(t, t->b.rxcq, &err);
	CHECK(err.op_context == &t->flow->rx[3]);
	flow_run(t, 4, 1);
	wait_comp(t, t->b.rxcq, &entries[0]);
	CHECK(entries[0].op_context == &t->flow->rx[4]);
}

TEST(fi_cq, several_errors, EP_ANY, FI_MSG, "Several error entries are read one by one")
{
	bool seen[4] = { false };

	PAIR(t);
	for (unsigned i = 0; i < 4; i++)
		flow_error(t, i);
	for (unsigned i = 0; i < 4; i++) {
		struct fi_cq_err_entry err = { 0 };
		ptrdiff_t which;

		wait_err(t, t->b.rxcq, &err);
		which = (struct fi_context2 *)err.op_context - t->flow->rx;
		CHECK(which >= 0 && which < 4 && !seen[which]);
		seen[which] = true;
	}
}

TEST(fi_cq, error_without_completion, EP_ANY, FI_MSG, "An operation whose success would not be reported is reported when it fails")
{
	struct fi_cq_err_entry err = { 0 };

	PAIR(t, .rx_flags = FI_SELECTIVE_COMPLETION);
	flow_error(t, 0);
	wait_err(t, t->b.rxcq, &err);
	CHECK_EQ(err.err, FI_ECANCELED);
}

TEST(fi_cq, truncated_receive, EP_AV, FI_MSG, "A message larger than its buffer is an error entry FI_ETRUNC with the lost length, or is cut")
{
	static char in[64], out[64];
	struct fi_context2 ctx[2];
	struct fi_cq_err_entry err = { 0 };
	struct fi_cq_tagged_entry entry;
	void *in_desc, *out_desc;
	ssize_t rc;

	PAIR(t);
	in_desc = reg_desc(t, in, sizeof(in), FI_RECV);
	out_desc = reg_desc(t, out, sizeof(out), FI_SEND);
	fill(out, sizeof(out), 3);
	POST(t, fi_recv(t->b.ep, in, 24, in_desc, FI_ADDR_UNSPEC, &ctx[0]));
	POST(t, fi_send(t->a.ep, out, 64, out_desc, t->a.peer, &ctx[1]));
	ONCE(t, (rc = fi_cq_read(t->b.rxcq, &entry, 1)) != -FI_EAGAIN);
	if (rc == 1) { // fi_domain(3): a provider may truncate and succeed
		CHECK_EQ(entry.len, 24);
		return;
	}
	CHECK_RC(rc, -FI_EAVAIL);
	CHECK_RC(fi_cq_readerr(t->b.rxcq, &err, 0), 1);
	CHECK_EQ(err.err, FI_ETRUNC);
	CHECK(err.op_context == &ctx[0]);
	CHECK_EQ(err.olen, 40);
	for (size_t i = 24; i < sizeof(in); i++)
		CHECK_EQ(in[i], 0);
}

// ---- Error data

TEST(fi_cq, err_data_own_buffer, EP_ANY, FI_MSG, "With a buffer of its own the caller gets at most that much error data, and its size")
{
	struct fi_cq_err_entry err = { 0 };
	uint8_t data[64];

	memset(data, 0xa5, sizeof(data));
	PAIR(t);
	flow_error(t, 0);
	err.err_data = data;
	err.err_data_size = 16;
	wait_err(t, t->b.rxcq, &err);
	CHECK(err.err_data_size <= 16);
	CHECK(err.err_data == data);
	for (size_t i = 16; i < sizeof(data); i++)
		CHECK_EQ(data[i], 0xa5);
}

TEST(fi_cq, err_data_size_zero, EP_ANY, FI_MSG, "With err_data_size 0 the caller's buffer is ignored; any data is the provider's")
{
	struct fi_cq_err_entry err = { 0 };
	uint8_t data[64];

	memset(data, 0xa5, sizeof(data));
	PAIR(t);
	flow_error(t, 0);
	err.err_data = data;
	wait_err(t, t->b.rxcq, &err);
	for (size_t i = 0; i < sizeof(data); i++)
		CHECK_EQ(data[i], 0xa5);
	CHECK(!err.err_data_size || err.err_data);
}

// Reads an error entry like a program that was compiled with an older header: its entry is shorter. The inline function
// of today's header writes src_addr itself, so the function table is called directly.
static void check_entry_size(struct env *t, uint32_t version, size_t size)
{
	union {
		struct fi_cq_err_entry entry;
		uint8_t bytes[256];
	} buf;
	struct fi_cq_tagged_entry entry;

	env_version(t, version);
	PAIR(t);
	CHECK_EQ(t->fabric->api_version, version);
	flow_error(t, 0);
	ONCE(t, fi_cq_read(t->b.rxcq, &entry, 1) == -FI_EAVAIL);
	memset(&buf, 0xa5, sizeof(buf));
	buf.entry.err_data = NULL;
	if (size > offsetof(struct fi_cq_err_entry, err_data_size))
		buf.entry.err_data_size = 0;
	CHECK_RC(t->b.rxcq->ops->readerr(t->b.rxcq, &buf.entry, 0), 1);
	CHECK_EQ(buf.entry.err, FI_ECANCELED);
	CHECK(buf.entry.op_context == &t->flow->rx[0]);
	for (size_t i = size; i < sizeof(buf); i++)
		if (buf.bytes[i] != 0xa5)
			FAIL("byte %zu is written, an entry of that version has %zu", i, size);
}

TEST(fi_cq, entry_size_api_1_4, EP_ANY, FI_MSG, "API 1.4: the error entry ends before err_data_size")
{
	check_entry_size(t, FI_VERSION(1, 4), offsetof(struct fi_cq_err_entry, err_data_size));
}

TEST(fi_cq, entry_size_api_1_5, EP_ANY, FI_MSG, "API 1.5 to 1.19: the error entry ends before src_addr")
{
	check_entry_size(t, FI_VERSION(1, 5), offsetof(struct fi_cq_err_entry, src_addr));
}

TEST(fi_cq, entry_size_api_1_19, EP_ANY, FI_MSG, "API 1.19: the error entry ends before src_addr")
{
	check_entry_size(t, FI_VERSION(1, 19), offsetof(struct fi_cq_err_entry, src_addr));
}

TEST(fi_cq, entry_size_api_1_20, EP_ANY, FI_MSG, "API 1.20: the error entry has src_addr and nothing behind it")
{
	check_entry_size(t, FI_VERSION(1, 20), sizeof(struct fi_cq_err_entry));
}

TEST(fi_cq, err_data_ignored_before_1_5, EP_ANY, FI_MSG, "API below 1.5: the caller's err_data is ignored on input")
{
	struct fi_cq_err_entry err = { 0 };
	uint8_t data[64];

	memset(data, 0xa5, sizeof(data));
	env_version(t, FI_VERSION(1, 4));
	PAIR(t);
	flow_error(t, 0);
	err.err_data = data;
	err.err_data_size = sizeof(data);
	wait_err(t, t->b.rxcq, &err);
	for (size_t i = 0; i < sizeof(data); i++)
		CHECK_EQ(data[i], 0xa5);
	CHECK_EQ(err.err_data_size, sizeof(data)); // not part of that version's entry
}

// ---- Strings

TEST(fi_cq, strerror_gives_text, EP_ANY, FI_MSG, "fi_cq_strerror gives a printable string, also for codes it does not know")
{
	struct fid_cq *cq = open_cq(t, FI_CQ_FORMAT_MSG, FI_WAIT_NONE);
	static const int codes[] = { 0, FI_EIO, -FI_EIO, FI_ETRUNC, 1 << 30, -(1 << 30) };

	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		const char *text = fi_cq_strerror(cq, codes[i], NULL, NULL, 0);

		CHECK(text && strlen(text) > 0 && strlen(text) < 256);
	}
}

TEST(fi_cq, strerror_respects_the_buffer, EP_ANY, FI_MSG, "A caller's buffer gets the text, ended by NUL, and not a byte more than it has")
{
	struct fid_cq *cq = open_cq(t, FI_CQ_FORMAT_MSG, FI_WAIT_NONE);
	const char *text = fi_cq_strerror(cq, FI_EIO, NULL, NULL, 0);
	char buf[256];

	for (size_t len = 1; len < 64; len++) {
		memset(buf, 0x5a, sizeof(buf));
		CHECK(fi_cq_strerror(cq, FI_EIO, NULL, buf, len));
		CHECK(memchr(buf, 0, len));
		CHECK(!strncmp(buf, text, len - 1));
		for (size_t i = len; i < sizeof(buf); i++)
			CHECK_EQ(buf[i], 0x5a);
	}
}

TEST(fi_cq, strerror_of_an_error, EP_ANY, FI_MSG, "prov_errno and err_data of an entry can be passed to fi_cq_strerror")
{
	struct fi_cq_err_entry err = { 0 };

	PAIR(t);
	flow_error(t, 0);
	wait_err(t, t->b.rxcq, &err);
	CHECK(fi_cq_strerror(t->b.rxcq, err.prov_errno, err.err_data, NULL, 0));
}
