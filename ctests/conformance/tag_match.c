// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_tagged(3): matching of receives and messages. Every rule holds whichever of the two came first.
#include "transfer.h"

enum { LEN = 16 };

static void send_tag(struct env *t, uint64_t tag, unsigned seed)
{
	post_tsend(t, &t->a, new_buf(t, LEN, seed), tag);
}

// The next completion must be this receive with this message.
static void got(struct env *t, void *ctx, struct buf in, uint64_t tag, unsigned seed)
{
	struct fi_cq_tagged_entry comp = done(t, t->b.rxcq, ctx, FI_TAGGED | FI_RECV);

	CHECK_EQ(comp.tag, tag);
	CHECK_EQ(comp.len, LEN);
	CHECK(holds(in, LEN, seed));
}

struct post {
	struct buf in;
	void *ctx;
};

static struct post post(struct env *t, uint64_t tag, uint64_t ignore)
{
	struct post post = { .in = new_buf(t, LEN, 0) };

	post.ctx = post_trecv(t, &t->b, post.in, tag, ignore);
	return post;
}

TEST(fi_tagged, exact_tags, EP_RELIABLE, FI_TAGGED, "Each message meets the receive with its tag, whatever the order of either")
{
	enum { COUNT = 50 };
	struct post posts[COUNT];

	PAIR(t);
	for (unsigned i = 0; i < COUNT; i++)
		posts[i] = post(t, i, 0);
	for (unsigned i = 0; i < COUNT; i++)
		send_tag(t, (i * 7) % COUNT, i + 1);
	for (unsigned i = 0; i < COUNT; i++)
		got(t, posts[(i * 7) % COUNT].ctx, posts[(i * 7) % COUNT].in, (i * 7) % COUNT, i + 1);
}

TEST(fi_tagged, exact_tags_unexpected, EP_RELIABLE, FI_TAGGED, "Buffered messages are found by tag, in reverse of their arrival")
{
	enum { COUNT = 50 };

	PAIR(t);
	for (unsigned i = 0; i < COUNT; i++)
		send_tag(t, i, i + 1);
	turn(t);
	for (unsigned i = COUNT; i-- > 0;) {
		struct post p = post(t, i, 0);

		got(t, p.ctx, p.in, i, i + 1);
	}
}

TEST(fi_tagged, all_64_bits, EP_RELIABLE, FI_TAGGED, "Every bit of a tag that mem_tag_format offers counts")
{
	struct post posts[64];
	uint64_t format = t->info->ep_attr->mem_tag_format;
	unsigned bits = 0;

	PAIR(t);
	if (format == 0)
		SKIP("mem_tag_format is 0");
	while (bits < 64 && format >> bits)
		bits++;
	for (unsigned i = 0; i < bits; i++)
		posts[i] = post(t, UINT64_C(1) << i, 0);
	for (unsigned i = bits; i-- > 0;)
		send_tag(t, UINT64_C(1) << i, i + 1);
	for (unsigned i = bits; i-- > 0;)
		got(t, posts[i].ctx, posts[i].in, UINT64_C(1) << i, i + 1);
}

TEST(fi_tagged, ignored_bits, EP_RELIABLE, FI_TAGGED, "Bits set in ignore are not compared; the completion holds the sender's tag")
{
	PAIR(t);
	for (unsigned unexpected = 0; unexpected < 2; unexpected++) {
		struct post p = { 0 };

		if (!unexpected)
			p = post(t, UINT64_C(0xab00), 0xff);
		send_tag(t, 0xac17, 1); // differs in a compared bit
		send_tag(t, 0xab17, 2);
		turn(t);
		if (unexpected)
			p = post(t, UINT64_C(0xab00), 0xff);
		got(t, p.ctx, p.in, 0xab17, 2);
		p = post(t, 0, ~UINT64_C(0));
		got(t, p.ctx, p.in, 0xac17, 1);
	}
}

TEST(fi_tagged, ignored_bits_of_receive, EP_RELIABLE, FI_TAGGED, "Ignored bits may be set in the receive's own tag")
{
	struct post p;

	PAIR(t);
	p = post(t, 0xabff, 0xff);
	send_tag(t, 0xab00, 1);
	got(t, p.ctx, p.in, 0xab00, 1);
}

TEST(fi_tagged, first_posted_wins, EP_RELIABLE, FI_TAGGED, "Of several receives that match, the one posted first is taken, exact or not")
{
	PAIR(t);
	for (unsigned exact_first = 0; exact_first < 2; exact_first++) {
		struct post first = post(t, 5, exact_first ? 0 : ~UINT64_C(0));
		struct post second = post(t, 5, exact_first ? ~UINT64_C(0) : 0);
		struct post third = post(t, 4, 3);

		send_tag(t, 5, 1);
		send_tag(t, 5, 2);
		send_tag(t, 5, 3);
		got(t, first.ctx, first.in, 5, 1);
		got(t, second.ctx, second.in, 5, 2);
		got(t, third.ctx, third.in, 5, 3);
	}
}

TEST(fi_tagged, first_sent_wins, EP_RELIABLE, FI_TAGGED, "Of several buffered messages that match, the one sent first is taken")
{
	PAIR(t);
	for (unsigned i = 0; i < 10; i++)
		send_tag(t, 100 + i % 2, i + 1);
	turn(t);
	for (unsigned i = 1; i < 10; i += 2) { // the odd ones first, by exact tag
		struct post p = post(t, 101, 0);

		got(t, p.ctx, p.in, 101, i + 1);
	}
	for (unsigned i = 0; i < 10; i += 2) { // the remaining ones by mask
		struct post p = post(t, 100, 1);

		got(t, p.ctx, p.in, 100, i + 1);
	}
}

TEST(fi_tagged, same_tag_in_order, EP_RELIABLE, FI_TAGGED, "Messages with the same tag keep their order, half of them before and half behind their receives")
{
	enum { COUNT = 100 };
	struct post posts[COUNT];

	PAIR(t);
	for (unsigned i = 0; i < COUNT / 2; i++)
		send_tag(t, TAG, i + 1);
	turn(t);
	for (unsigned i = 0; i < COUNT; i++)
		posts[i] = post(t, TAG, 0);
	for (unsigned i = COUNT / 2; i < COUNT; i++)
		send_tag(t, TAG, i + 1);
	for (unsigned i = 0; i < COUNT; i++)
		got(t, posts[i].ctx, posts[i].in, TAG, i + 1);
}

TEST(fi_tagged, no_match_waits, EP_RELIABLE, FI_TAGGED, "A message that no receive matches does not hold up those behind it")
{
	struct post p, late;

	PAIR(t);
	p = post(t, 2, 0);
	send_tag(t, 1, 1);
	send_tag(t, 2, 2);
	got(t, p.ctx, p.in, 2, 2);
	late = post(t, 1, 0);
	got(t, late.ctx, late.in, 1, 1);
}

TEST(fi_tagged, tagged_and_untagged_apart, EP_RELIABLE, FI_TAGGED | FI_MSG, "A tagged message never meets an untagged receive, nor the reverse")
{
	struct buf plain = new_buf(t, LEN, 0);
	struct post p;
	void *ctx;

	PAIR(t);
	ctx = post_recv(t, &t->b, plain);
	p = post(t, 0, ~UINT64_C(0));
	post_send(t, &t->a, new_buf(t, LEN, 1));
	send_tag(t, 9, 2);
	done(t, t->b.rxcq, ctx, FI_MSG | FI_RECV);
	CHECK(holds(plain, LEN, 1));
	got(t, p.ctx, p.in, 9, 2);
	// The tagged message comes first, its receive last: that order does not affect the untagged message after it.
	ctx = post_recv(t, &t->b, plain);
	send_tag(t, 9, 3);
	post_send(t, &t->a, new_buf(t, LEN, 4));
	done(t, t->b.rxcq, ctx, FI_MSG | FI_RECV);
	CHECK(holds(plain, LEN, 4));
	p = post(t, 9, 0);
	got(t, p.ctx, p.in, 9, 3);
}

TEST(fi_tagged, cancel_among_equals, EP_RELIABLE, FI_TAGGED, "A cancelled receive is out of the matching: the next that matches is taken")
{
	struct post a, b, c;

	PAIR(t);
	a = post(t, 7, 0);
	b = post(t, 7, 0);
	c = post(t, 0, ~UINT64_C(0));
	OK(fi_cancel(&t->b.ep->fid, a.ctx));
	failed(t, t->b.rxcq, a.ctx, FI_ECANCELED);
	send_tag(t, 7, 1);
	send_tag(t, 7, 2);
	got(t, b.ctx, b.in, 7, 1);
	got(t, c.ctx, c.in, 7, 2);
}

// A plain list that implements the man page, compared with the library over random posts and sends.
TEST(fi_tagged, random_against_model, EP_RELIABLE, FI_TAGGED, "Random receives and messages pair up as the first-posted rule says")
{
	enum { STEPS = 2000, TAGS = 4 };
	struct item {
		uint64_t tag, ignore;
		struct post post;
		unsigned seed;
		bool used;
	} *posts = calloc(STEPS, sizeof(*posts)), *sends = calloc(STEPS, sizeof(*sends));
	unsigned nposts = 0, nsends = 0, open = 0;
	uint64_t random = 12345;

	CHECK(posts && sends);
	PAIR(t);
	for (unsigned step = 0; step < STEPS; step++) {
		struct item *match = NULL, *mine;
		bool is_post;

		random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
		is_post = (random >> 33) & 1;
		if (open > 40) // do not run into the provider's limit of buffered messages
			is_post = true;
		mine = is_post ? &posts[nposts++] : &sends[nsends++];
		mine->tag = (random >> 40) % TAGS;
		mine->ignore = is_post && (random >> 50) % 3 == 0 ? (random >> 55) % TAGS : 0;
		mine->seed = step % 250 + 1;
		if (is_post) {
			for (unsigned i = 0; i < nsends && !match; i++)
				if (!sends[i].used && !((sends[i].tag ^ mine->tag) & ~mine->ignore))
					match = &sends[i];
			mine->post = post(t, mine->tag, mine->ignore);
		} else {
			for (unsigned i = 0; i < nposts && !match; i++)
				if (!posts[i].used && !((posts[i].tag ^ mine->tag) & ~posts[i].ignore))
					match = &posts[i];
			send_tag(t, mine->tag, mine->seed);
			open++;
		}
		if (!match)
			continue;
		match->used = mine->used = true;
		open--;
		got(t, is_post ? mine->post.ctx : match->post.ctx, is_post ? mine->post.in : match->post.in,
		    is_post ? match->tag : mine->tag, is_post ? match->seed : mine->seed);
	}
	free(posts);
	free(sends);
}

TEST(fi_tagged, tagged_and_untagged_in_order, EP_RELIABLE, FI_TAGGED | FI_MSG, "FI_ORDER_SAS holds among tagged and untagged messages: their receives complete in the order sent")
{
	enum { COUNT = 60 };
	static const size_t lens[] = { 10, 40000, 0, 2000, 500000 };
	void *ctx[COUNT];

	if (!(t->info->tx_attr->msg_order & t->info->rx_attr->msg_order & FI_ORDER_SAS))
		SKIP("FI_ORDER_SAS is not offered");
	PAIR(t);
	for (unsigned i = 0; i < COUNT; i++) {
		struct buf in = new_buf(t, lens[i % 5], 0);

		ctx[i] = i % 3 ? post_recv(t, &t->b, in) : post_trecv(t, &t->b, in, 7, 0);
	}
	for (unsigned i = 0; i < COUNT; i++) {
		struct buf out = new_buf(t, lens[i % 5], i + 1);

		i % 3 ? post_send(t, &t->a, out) : post_tsend(t, &t->a, out, 7);
	}
	struct expected_recv all[COUNT];

	for (unsigned i = 0; i < COUNT; i++)
		all[i] = (struct expected_recv){ ctx[i], FI_RECV | (i % 3 ? FI_MSG : FI_TAGGED), lens[i % 5] };
	all_done(t, t->b.rxcq, all, COUNT);
}
