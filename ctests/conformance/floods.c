// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Traffic that a provider must survive without help of the application: both sides at once, many peers, self.
#include "transfer.h"

enum { BIG = 8 << 20 };

BOTH(both_send_8_mib_first, EP_RELIABLE, 0, "Both ends send 8 MiB before either posts a receive: no deadlock, and the posts do not block")
{
	PAIR(t);
	struct side *sides[2] = { &t->a, &t->b };
	struct op sends[2], recvs[2];
	struct buf in[2];

	for (unsigned i = 0; i < 2; i++) {
		sends[i] = op_of(SEND, tagged, new_buf(t, BIG, i + 1), sides[i]->peer);
		op_post(t, sides[i]->ep, &sends[i]);
	}
	for (unsigned i = 0; i < 100; i++)
		progress(t);
	for (unsigned i = 0; i < 2; i++) {
		in[i] = new_buf(t, BIG, 0);
		recvs[i] = op_of(RECV, tagged, in[i], FI_ADDR_UNSPEC);
		op_post(t, sides[i]->ep, &recvs[i]);
	}
	for (unsigned i = 0; i < 2; i++) {
		CHECK_EQ(done(t, sides[i]->rxcq, recvs[i].ctx, RECEIVED(tagged)).len, BIG);
		CHECK(holds(in[i], BIG, 2 - i));
		done(t, sides[i]->txcq, sends[i].ctx, SENT(tagged));
	}
}

BOTH(both_send_many, EP_RELIABLE, 0, "Both ends send 32 messages of 1 MiB at once and receive them")
{
	enum { COUNT = 32, LEN = 1 << 20 };

	PAIR(t);
	struct side *sides[2] = { &t->a, &t->b };
	struct op recvs[2][COUNT];
	struct buf in[2][COUNT], out[2] = { new_buf(t, LEN, 1), new_buf(t, LEN, 2) };
	unsigned received[2] = { 0 }, sent[2] = { 0 }, posted[2] = { 0 };

	for (unsigned i = 0; i < 2; i++)
		for (unsigned k = 0; k < COUNT; k++) {
			in[i][k] = new_buf(t, LEN, 0);
			recvs[i][k] = op_of(RECV, tagged, in[i][k], FI_ADDR_UNSPEC);
			op_post(t, sides[i]->ep, &recvs[i][k]);
		}
	for (uint64_t limit = now_ms() + 2 * t->limit_ms; sent[0] + sent[1] + received[0] + received[1] < 4 * COUNT;) {
		for (unsigned i = 0; i < 2; i++) {
			struct fi_cq_tagged_entry comp;
			struct op send = op_of(SEND, tagged, out[i], sides[i]->peer);

			if (posted[i] < COUNT && !op_try(sides[i]->ep, &send))
				posted[i]++;
			if (fi_cq_read(sides[i]->txcq, &comp, 1) == 1)
				sent[i]++;
			if (fi_cq_read(sides[i]->rxcq, &comp, 1) == 1) {
				CHECK(comp.op_context == recvs[i][received[i]].ctx);
				CHECK(holds(in[i][received[i]], LEN, 2 - i));
				received[i]++;
			}
		}
		if (now_ms() > limit)
			FAIL("sent %u %u, received %u %u of %u", sent[0], sent[1], received[0], received[1], COUNT);
	}
}

BOTH(many_unexpected, EP_RELIABLE, 0, "A thousand messages sent while nothing is posted are all received, in order")
{
	enum { COUNT = 1000, LEN = 256 };
	struct buf out = new_buf(t, LEN, 1), in = new_buf(t, LEN, 0);
	unsigned posted = 0, received = 0, completed = 0;

	PAIR(t);
	for (uint64_t limit = now_ms() + t->limit_ms, stuck = 0; received < COUNT || completed < COUNT;) {
		struct fi_cq_tagged_entry comp = { 0 };
		struct op send = op_of(SEND, tagged, part(out, 0, 1 + posted % LEN), t->a.peer);

		if (posted < COUNT && !op_try(t->a.ep, &send)) {
			posted++;
			stuck = 0;
		} else {
			stuck++;
		}
		if (fi_cq_read(t->a.txcq, &comp, 1) == 1)
			completed++;
		progress(t);
		if (posted < COUNT && stuck < 1000) // no receive until the provider accepts no more
			continue;
		struct op recv = op_of(RECV, tagged, in, FI_ADDR_UNSPEC);
		if (received < COUNT) {
			op_post(t, t->b.ep, &recv);
			ONCE(t, fi_cq_read(t->b.rxcq, &comp, 1) == 1);
			CHECK(comp.op_context == recv.ctx);
			CHECK_EQ(comp.len, 1 + received % LEN);
			CHECK(holds(in, comp.len, 1));
			received++;
		}
		if (now_ms() > limit)
			FAIL("%u posted, %u complete, %u received", posted, completed, received);
	}
}

BOTH(ipv6, EP_RELIABLE, 0, "Messages cross between IPv6 addresses")
{
	struct fi_info *info = NULL;

	if (t->info->addr_format != FI_SOCKADDR_IN)
		SKIP("not a provider of IP addresses");
	if (fi_getinfo(t->version, "::1", NULL, FI_SOURCE, t->hints, &info))
		SKIP("no IPv6 loopback");
	CHECK_EQ(info->addr_format, FI_SOCKADDR_IN6);
	fi_freeinfo(t->info);
	t->info = info;
	PAIR(t);
	struct op send = op_of(SEND, tagged, new_buf(t, 100000, 1), t->a.peer);
	struct op recv = op_of(RECV, tagged, new_buf(t, 100000, 0), FI_ADDR_UNSPEC);

	round_trip(t);
	op_post(t, t->a.ep, &send);
	op_post(t, t->b.ep, &recv);
	CHECK_EQ(done(t, t->b.rxcq, recv.ctx, RECEIVED(tagged)).len, 100000);
	done(t, t->a.txcq, send.ctx, SENT(tagged));
	round_trip(t);
}

BOTH(to_self, EP_RDM, 0, "An endpoint can send to its own address, small and large, posted before and after")
{
	static const size_t lens[] = { 0, 8, 200, 20000, 3 << 20 };
	struct side self = { 0 };
	fi_addr_t me = 0;

	open_group(t, &self, 1, &me);
	for (unsigned i = 0; i < 10; i++) {
		size_t len = lens[i / 2];
		struct buf in = new_buf(t, len, 0);
		struct op recv = op_of(RECV, tagged, in, FI_ADDR_UNSPEC), send = op_of(SEND, tagged, new_buf(t, len, i + 1), me);

		if (i % 2)
			op_post(t, self.ep, &recv);
		op_post(t, self.ep, &send);
		if (!(i % 2))
			op_post(t, self.ep, &recv);
		CHECK_EQ(done(t, self.rxcq, recv.ctx, RECEIVED(tagged)).len, len);
		CHECK(holds(in, len, i + 1));
		done(t, self.txcq, send.ctx, SENT(tagged));
	}
}

BOTH(self_among_peers, EP_AV, 0, "Messages to self do not disturb those with a peer")
{
	struct side sides[2] = { 0 };
	fi_addr_t at[4];

	open_group(t, sides, 2, at);
	for (unsigned round = 0; round < 20; round++) {
		struct buf in[4];
		struct op recvs[4];

		for (unsigned i = 0; i < 4; i++) { // i / 2 sends to i % 2
			struct op send = op_of(SEND, tagged, new_buf(t, 64, 10 + i), at[i]);

			in[i] = new_buf(t, 64, 0);
			recvs[i] = op_of(RECV, tagged, in[i], FI_ADDR_UNSPEC);
			send.tag = recvs[i].tag = 100 + i;
			op_post(t, sides[i % 2].ep, &recvs[i]);
			op_post(t, sides[i / 2].ep, &send);
			done(t, sides[i % 2].rxcq, recvs[i].ctx, RECEIVED(tagged));
			CHECK(holds(in[i], 64, 10 + i));
			done(t, sides[i / 2].txcq, send.ctx, SENT(tagged));
		}
	}
}

BOTH(all_to_all, EP_RDM, 0, "Sixteen endpoints, each sending to all at once: every connection comes up, every message arrives")
{
	enum { COUNT = 16, LEN = 512 };
	struct side sides[COUNT] = { 0 };
	fi_addr_t at[COUNT * COUNT];
	struct buf in[COUNT], out[COUNT];
	unsigned posted[COUNT] = { 0 }, sent[COUNT] = { 0 }, received[COUNT] = { 0 }, left = 2 * COUNT * COUNT;

	open_group(t, sides, COUNT, at);
	for (unsigned i = 0; i < COUNT; i++) {
		out[i] = new_buf(t, LEN, i + 1);
		in[i] = new_buf(t, LEN * COUNT, 0);
		for (unsigned k = 0; k < COUNT; k++) {
			struct op recv = op_of(RECV, tagged, part(in[i], k * LEN, LEN), FI_ADDR_UNSPEC);

			recv.tag = k; // the tag of the k-th sender, if the messages are tagged
			op_post(t, sides[i].ep, &recv);
		}
	}
	for (uint64_t limit = now_ms() + 2 * t->limit_ms; left;) {
		for (unsigned i = 0; i < COUNT; i++) {
			struct fi_cq_tagged_entry comp;
			unsigned to = (i + posted[i]) % COUNT;
			struct op send = op_of(SEND, tagged, out[i], at[i * COUNT + to]);

			send.tag = i;
			if (posted[i] < COUNT && !op_try(sides[i].ep, &send))
				posted[i]++;
			while (fi_cq_read(sides[i].txcq, &comp, 1) == 1)
				sent[i]++, left--;
			while (fi_cq_read(sides[i].rxcq, &comp, 1) == 1)
				received[i]++, left--;
		}
		if (now_ms() > limit)
			FAIL("%u completions missing; endpoint 0 posted %u, sent %u, received %u", left, posted[0], sent[0],
			     received[0]);
	}
	for (unsigned i = 0; i < COUNT; i++) {
		bool seen[COUNT] = { 0 };

		for (unsigned k = 0; k < COUNT; k++) {
			unsigned from = 0;

			while (from < COUNT && !filled(in[i].mem + k * LEN, LEN, from + 1))
				from++;
			CHECK(from < COUNT && !seen[from]);
			if (tagged)
				CHECK_EQ(from, k);
			seen[from] = true;
		}
	}
}

TEST(fi_msg, first_contact, EP_RDM, FI_MSG | FI_TAGGED | FI_RMA, "Operations of every kind posted before a first connection is up arrive in order")
{
	enum { COUNT = 40 };
	struct side sides[2] = { 0 };
	fi_addr_t at[4];
	struct region region;
	struct buf in[COUNT], read = new_buf(t, 100, 0);
	struct op recvs[COUNT];
	unsigned completions = 0;

	open_group(t, sides, 2, at);
	region = new_region(t, &sides[1], new_buf(t, 4096, 0), FI_REMOTE_READ | FI_REMOTE_WRITE);
	for (unsigned i = 0; i < COUNT; i++) {
		in[i] = new_buf(t, i % 5 == 4 ? 100000 : 100, 0);
		recvs[i] = op_of(RECV, i % 2, in[i], FI_ADDR_UNSPEC);
		op_post(t, sides[1].ep, &recvs[i]);
	}
	for (unsigned i = 0; i < COUNT; i++) {
		struct buf out = new_buf(t, in[i].len, i + 1);
		struct op send = op_of(i % 5 == 1 ? INJECT : i % 5 == 2 ? SENDMSG : SEND, i % 2, out, at[1]);

		if (send.form == INJECT && out.len > t->info->tx_attr->inject_size)
			send.form = SEND;
		send.flags = FI_DELIVERY_COMPLETE;
		op_post(t, sides[0].ep, &send);
		if (send.form == INJECT)
			memset(host_view(out.mem), 0xff, out.len);
		else
			completions++;
		if (i % 8)
			continue;
		POST(t, fi_write(sides[0].ep, out.mem, 100, out.desc, at[1], region.at, region.key, new_ctx()));
		POST(t, fi_read(sides[0].ep, read.mem, 100, read.desc, at[1], region.at, region.key, new_ctx()));
		completions += 2;
	}
	for (unsigned i = 0; i < COUNT; i++) {
		CHECK_EQ(done(t, sides[1].rxcq, recvs[i].ctx, RECEIVED(i % 2)).len, in[i].len);
		CHECK(holds(in[i], in[i].len, i + 1));
	}
	for (unsigned i = 0; i < completions; i++)
		wait_comp(t, sides[0].txcq, NULL);
	nothing(sides[0].txcq);
	CHECK(holds(read, 100, COUNT - 7));
}

BOTH(simultaneous_first_send, EP_RDM, 0, "Two endpoints that send to each other at the same moment, a hundred times over, lose nothing")
{
	enum { ROUNDS = 100, LEN = 32 };

	for (unsigned round = 0; round < ROUNDS; round++) {
		struct side sides[2] = { 0 };
		fi_addr_t at[4];
		struct op sends[2], recvs[2];
		bool posted[2] = { false, false };

		open_group(t, sides, 2, at);
		for (unsigned i = 0; i < 2; i++) {
			recvs[i] = op_of(RECV, tagged, new_buf(t, LEN, 0), FI_ADDR_UNSPEC);
			op_post(t, sides[i].ep, &recvs[i]);
			sends[i] = op_of(SEND, tagged, new_buf(t, LEN, 1), at[i * 2 + 1 - i]);
		}
		for (uint64_t limit = now_ms() + t->limit_ms; !posted[0] || !posted[1];) {
			for (unsigned i = 0; i < 2; i++)
				posted[i] = posted[i] || !op_try(sides[i].ep, &sends[i]);
			for (unsigned i = 0; i < 2; i++) {
				fi_cq_read(sides[i].txcq, NULL, 0);
				fi_cq_read(sides[i].rxcq, NULL, 0);
			}
			if (now_ms() > limit)
				FAIL("round %u: posted %d %d", round, posted[0], posted[1]);
		}
		for (unsigned i = 0; i < 2; i++) {
			done(t, sides[i].rxcq, recvs[i].ctx, RECEIVED(tagged));
			done(t, sides[i].txcq, sends[i].ctx, SENT(tagged));
		}
		for (unsigned i = 0; i < 2; i++) {
			shut(t, &sides[i].ep->fid);
			shut(t, &sides[i].txcq->fid);
			shut(t, &sides[i].rxcq->fid);
			shut(t, &sides[i].av->fid);
		}
	}
}

BOTH(full_queue_of_sends_and_injects, EP_RELIABLE, 0, "Sends and injects posted in turn until -FI_EAGAIN, nobody receiving: all arrive whole and in order, and posting goes on")
{
	enum { MOST = 20000, SLOTS = 256, MOST_SENT = 1000 + 256 };
	unsigned posted = 0, refused = 0, received = 0;
	size_t inject = t->info->tx_attr->inject_size;
	size_t room = inject > MOST_SENT ? inject : MOST_SENT;
	struct buf out[SLOTS], in = new_buf(t, room, 0);

	t->hints->domain_attr->progress = FI_PROGRESS_MANUAL;
	env_info(t);
	PAIR(t, .tx_flags = FI_SELECTIVE_COMPLETION);
	round_trip_between(t, &t->a, &t->b);
	for (unsigned i = 0; i < SLOTS; i++)
		out[i] = new_buf(t, room, i + 1);
	struct op recv = op_of(RECV, tagged, in, FI_ADDR_UNSPEC);

	for (uint64_t limit = now_ms() + t->limit_ms; received < posted || posted < MOST;) {
		struct fi_cq_tagged_entry comp = { 0 };
		ssize_t rc = 0;

		while (posted < MOST) {
			unsigned i = posted % SLOTS;
			bool small = posted % 3 == 0;
			struct op op = op_of(small ? INJECT : SEND, tagged, part(out[i], 0, small ? posted % (inject + 1) : 1000 + i), t->a.peer);

			rc = op_try(t->a.ep, &op);
			if (rc)
				break;
			posted++;
		}
		CHECK(rc == 0 || rc == -FI_EAGAIN);
		refused += rc != 0;
		// Takes some messages before the next ones are posted, so the queue is full most of the time.
		for (unsigned k = 0; k < 100 && received < posted; k++) {
			unsigned i = received % SLOTS;

			op_post(t, t->b.ep, &recv);
			comp = done(t, t->b.rxcq, recv.ctx, RECEIVED(tagged));
			CHECK_EQ(comp.len, received % 3 == 0 ? received % (inject + 1) : 1000 + i);
			CHECK(holds(in, comp.len, i + 1));
			received++;
		}
		fi_cq_read(t->a.txcq, NULL, 0);
		if (now_ms() > limit)
			FAIL("%u posted, %u refused, %u received", posted, refused, received);
	}
	nothing(t->a.txcq);
	nothing(t->b.rxcq);
	if (!refused)
		SKIP("never refused");
}
