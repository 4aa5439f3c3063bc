// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_shm(7), runtime parameters: the effects of the FI_SHM_ variables, with unchanged data.
#include "process.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LEN = 64, LARGE = 3 << 20 };

static const uint64_t CAPS = FI_MSG | FI_TAGGED | FI_RMA;

// ---- The same data, within a process and between two

// Large and small messages in both directions, and memory that is read and written.
static void talk(struct env *t, struct side *side, struct process *other)
{
	static const size_t lens[] = { 0, LEN, 5000, 70000, LARGE };
	struct buf mem = new_buf(t, LARGE, 1);
	struct region region = new_region(t, side, mem, FI_REMOTE_READ | FI_REMOTE_WRITE);
	uint64_t own[2] = { region.at, region.key }, theirs[2];
	struct fi_cq_tagged_entry comp;
	char word;

	tell(other, own, sizeof(own));
	hear(t, other, theirs, sizeof(theirs));
	for (unsigned i = 0; i < 20; i++) {
		size_t len = lens[i % 5];
		struct buf in = new_buf(t, len, 0), read = new_buf(t, len, 0);

		post_send(t, side, new_buf(t, len, i + 1));
		POST(t, fi_read(side->ep, read.mem, len, read.desc, side->peer, theirs[0], theirs[1], new_ctx()));
		post_recv(t, side, in);
		for (unsigned k = 0; k < 3; k++)
			wait_comp(t, side->rxcq, &comp);
		CHECK(holds(in, len, i + 1));
		CHECK(holds(read, len, 1));
	}
	nothing(side->rxcq);
	tell(other, "", 1); // the other's requests are answered until it is done, too
	hear(t, other, &word, 1);
}

static const char *prov;

static void start(struct env *t)
{
	start_as(t, prov, FI_EP_RDM, CAPS);
}

static void talk_back(struct env *t, struct process *parent)
{
	struct side side = { 0 };

	open_end(t, &side, FI_WAIT_NONE);
	meet(t, &side, parent);
	talk(t, &side, parent);
}

static void with(struct env *t, const char *provider, const char *const *variables)
{
	struct process child;

	for (; *variables; variables += 2)
		setenv(variables[0], variables[1], 1);
	prov = provider;
	start(t);
	child = start_process(t, talk_back);
	open_end(t, &t->a, FI_WAIT_NONE);
	meet(t, &t->a, &child);
	talk(t, &t->a, &child);
	join_process(t, &child);
	mixed_traffic(t, false);
	pair_close(t);
	mixed_traffic(t, true);
}

#define SETTINGS(RULE, WHERE, TEXT, ...)                                                                               \
	TEST(fi_shm, RULE, CORE | (WHERE), 0, "Traffic in a process and between two arrives " TEXT)                    \
	{                                                                                                              \
		with(t, "shm", (const char *[]){ __VA_ARGS__, NULL });                                                 \
	}                                                                                                              \
	TEST(fi_shm, RULE##_sm2, CORE | (WHERE), 0, "Traffic in a process and between two on sm2 arrives " TEXT)       \
	{                                                                                                              \
		with(t, "sm2", (const char *[]){ __VA_ARGS__, NULL });                                                 \
	}

SETTINGS(defaults, OURS_ONLY, "with the defaults", "FI_SHM_DISABLE_CMA", "0")
SETTINGS(no_cma, OURS_ONLY, "without CMA", "FI_SHM_DISABLE_CMA", "1")
SETTINGS(smallest_ring, OURS_ONLY, "through the smallest rings", "FI_SHM_RING_SIZE", "1")
SETTINGS(smallest_ring_no_cma, OURS_ONLY, "through the smallest rings without CMA", "FI_SHM_RING_SIZE", "1", "FI_SHM_DISABLE_CMA", "1")
SETTINGS(odd_ring, OURS_ONLY, "through rings of an odd size", "FI_SHM_RING_SIZE", "12345")
SETTINGS(largest_ring, OURS_ONLY, "through rings larger than can be", "FI_SHM_RING_SIZE", "99999999999")
SETTINGS(nonsense_ring, OURS_ONLY, "with a ring size that is no number", "FI_SHM_RING_SIZE", "large")
SETTINGS(rendezvous, OURS_ONLY, "with a rendezvous for all but small tagged messages", "FI_SHM_MAX_SAVED_SIZE", "128")
SETTINGS(few_saved, OURS_ONLY, "with room for 100000 bytes of unexpected messages", "FI_SHM_MAX_SAVED_BYTES", "100000")
SETTINGS(manual, OURS_ONLY, "without a progress thread", "FI_SHM_DISABLE_AUTO_PROGRESS", "1")

// ---- Settings that an application can see

TEST(fi_shm, queue_sizes, CORE | OURS_ONLY, 0, "FI_SHM_TX_SIZE and FI_SHM_RX_SIZE are the queue sizes and the most to be asked for; so many operations may be posted before -FI_EAGAIN")
{
	setenv("FI_SHM_TX_SIZE", "37", 1);
	setenv("FI_SHM_RX_SIZE", "41", 1);
	start_as(t, "shm", FI_EP_RDM, FI_MSG);
	CHECK_EQ(t->info->tx_attr->size, 37);
	CHECK_EQ(t->info->rx_attr->size, 41);
	PAIR(t);
	round_trip(t);
	for (unsigned i = 0; i < 37; i++) {
		struct op op = op_of(SEND, false, new_buf(t, 400000, 1), t->a.peer);

		OK(op_try(t->a.ep, &op));
	}
	for (unsigned i = 0; i < 41; i++) {
		struct op op = op_of(RECV, false, new_buf(t, 400000, 0), FI_ADDR_UNSPEC);

		OK(op_try(t->b.ep, &op));
	}
	for (unsigned i = 0; i < 37; i++) {
		wait_comp(t, t->b.rxcq, NULL);
		wait_comp(t, t->a.txcq, NULL);
	}
	t->hints->tx_attr->size = 38;
	CHECK_RC(env_try_info(t), -FI_ENODATA);
	t->hints->tx_attr->size = 37;
	t->hints->rx_attr->size = 42;
	CHECK_RC(env_try_info(t), -FI_ENODATA);
	t->hints->rx_attr->size = 41;
	OK(env_try_info(t));
}

TEST(fi_shm, queue_sizes_not_of_sm2, CORE | OURS_ONLY, 0, "The queue sizes of sm2 are not those of FI_SHM_TX_SIZE and FI_SHM_RX_SIZE")
{
	setenv("FI_SHM_TX_SIZE", "37", 1);
	setenv("FI_SHM_RX_SIZE", "41", 1);
	start_as(t, "sm2", FI_EP_RDM, FI_MSG);
	CHECK_EQ(t->info->tx_attr->size, 1024);
	CHECK_EQ(t->info->rx_attr->size, 1024);
}

TEST(fi_shm, large_ones_wait_at_their_sender, CORE | OURS_ONLY, 0, "FI_SHM_MAX_SAVED_SIZE: a tagged message that is larger is not sent before a receive has matched, whatever follows it; one that is not is")
{
	static const size_t lens[] = { 128, 129, 500, 1000, 5000, 20000 };

	setenv("FI_SHM_MAX_SAVED_SIZE", "128", 1);
	start_as(t, "shm", FI_EP_RDM, FI_MSG | FI_TAGGED);
	PAIR(t);
	round_trip(t);
	for (unsigned i = 0; i < sizeof(lens) / sizeof(*lens); i++) {
		struct buf in = new_buf(t, lens[i], 0);
		struct op send = op_of(SEND, true, new_buf(t, lens[i], i + 1), t->a.peer);
		struct op recv = op_of(RECV, true, in, FI_ADDR_UNSPEC);

		op_post(t, t->a.ep, &send);
		if (lens[i] <= 128)
			done(t, t->a.txcq, send.ctx, FI_TAGGED | FI_SEND);
		round_trip(t); // only its completions exist
		nothing(t->a.txcq);
		op_post(t, t->b.ep, &recv);
		done(t, t->b.rxcq, recv.ctx, FI_TAGGED | FI_RECV);
		if (lens[i] > 128)
			done(t, t->a.txcq, send.ctx, FI_TAGGED | FI_SEND);
		CHECK(holds(in, lens[i], i + 1));
	}
}

static unsigned threads(void)
{
	DIR *dir = opendir("/proc/self/task");
	unsigned count = 0;

	CHECK(dir);
	for (struct dirent *entry; (entry = readdir(dir));)
		count += entry->d_name[0] != '.';
	closedir(dir);
	return count;
}

static void auto_progress(struct env *t, const char *disabled)
{
	setenv("FI_SHM_DISABLE_AUTO_PROGRESS", disabled, 1);
	start_as(t, "shm", FI_EP_RDM, FI_MSG);
	t->hints->domain_attr->progress = FI_PROGRESS_AUTO;
	env_info(t);
	PAIR(t);
	round_trip(t);
}

TEST(fi_shm, auto_progress_disabled, CORE | OURS_ONLY, 0, "FI_SHM_DISABLE_AUTO_PROGRESS: there is no thread, whatever was asked for")
{
	unsigned before = threads();

	auto_progress(t, "1");
	CHECK_EQ(threads(), before);
}

TEST(fi_shm, auto_progress_by_thread, CORE | OURS_ONLY, 0, "FI_PROGRESS_AUTO: a large message arrives while nobody calls")
{
	struct buf in, out;

	auto_progress(t, "0");
	in = new_buf(t, LARGE, 0);
	out = new_buf(t, LARGE, 1);
	post_recv(t, &t->b, in);
	post_send(t, &t->a, out);
	for (uint64_t limit = now_ms() + t->limit_ms; !filled_by_now(in.mem, LARGE, 1); usleep(1000))
		if (now_ms() > limit)
			FAIL("nothing arrives");
	wait_comp(t, t->b.rxcq, NULL);
	wait_comp(t, t->a.txcq, NULL);
}

// ---- Peers that do not exist

static void nobody(struct env *t, const char *provider)
{
	static const enum form forms[] = { SEND, SENDMSG, SENDDATA };
	uint64_t begun;
	fi_addr_t peer;
	void *ctx[6];

	setenv("FI_SHM_CONN_TIMEOUT", "500", 1);
	start_as(t, provider, FI_EP_RDM, CAPS);
	PAIR(t);
	round_trip(t);
	CHECK_RC(fi_av_insert(t->a.av, "fi_ns://nobody:1", 1, &peer, 0, NULL), 1);
	for (unsigned round = 0; round < 2; round++) {
		struct buf out = new_buf(t, LARGE, 1);
		struct op op;

		begun = now_ms();
		for (unsigned i = 0; i < 5; i++) {
			op = op_of(forms[i % 3], i % 2, part(out, 0, i == 4 ? LARGE : LEN), peer);
			ctx[i] = op.ctx;
			op_post(t, t->a.ep, &op);
		}
		ctx[5] = new_ctx();
		POST(t, fi_write(t->a.ep, out.mem, LEN, out.desc, peer, 0, 1, ctx[5]));
		for (unsigned i = 0; i < 6; i++)
			failed(t, t->a.txcq, ctx[i], FI_ECONNREFUSED);
		CHECK(now_ms() - begun >= 400);
		CHECK(now_ms() - begun < t->limit_ms / 2);
		round_trip(t);
	}
}

TEST(fi_shm, nobody_appears, CORE | OURS_ONLY, 0, "Operations for a peer that does not appear within FI_SHM_CONN_TIMEOUT end in FI_ECONNREFUSED, in their order; the next ones too")
{
	nobody(t, "shm");
}

TEST(fi_shm, nobody_appears_sm2, CORE | OURS_ONLY, 0, "Operations on sm2 for a peer that does not appear within FI_SHM_CONN_TIMEOUT end in FI_ECONNREFUSED, in their order; the next ones too")
{
	nobody(t, "sm2");
}

static void appears(struct env *t, const char *timeout)
{
	char name[ADDR_ROOM];
	struct buf in;
	size_t len;
	void *sent;

	setenv("FI_SHM_CONN_TIMEOUT", timeout, 1);
	start_as(t, "shm", FI_EP_RDM, FI_MSG);
	len = put_unused(t, name);
	open_bound_ep(t, &t->a);
	OK(fi_enable(t->a.ep));
	CHECK_RC(fi_av_insert(t->a.av, name, 1, &t->a.peer, 0, NULL), 1);
	sent = post_send(t, &t->a, new_buf(t, LARGE, 1));
	for (uint64_t until = now_ms() + 300; now_ms() < until;)
		progress(t);
	nothing(t->a.txcq);
	set_source(t->info, name, len);
	open_bound_ep(t, &t->b);
	OK(fi_enable(t->b.ep));
	in = new_buf(t, LARGE, 0);
	post_recv(t, &t->b, in);
	wait_comp(t, t->b.rxcq, NULL);
	CHECK(holds(in, LARGE, 1));
	done(t, t->a.txcq, sent, FI_MSG | FI_SEND);
}

TEST(fi_shm, appears_in_time, CORE | OURS_ONLY, 0, "Operations for a peer that appears before FI_SHM_CONN_TIMEOUT is over are done then")
{
	appears(t, "9000");
}

TEST(fi_shm, no_connect_limit, CORE | OURS_ONLY, 0, "FI_SHM_CONN_TIMEOUT=0: operations wait without a limit until their peer appears")
{
	appears(t, "0");
}

// ---- A folder for the sockets

static unsigned files(const char *folder)
{
	DIR *dir = opendir(folder);
	unsigned count = 0;

	CHECK(dir);
	for (struct dirent *entry; (entry = readdir(dir));)
		count += entry->d_name[0] != '.';
	closedir(dir);
	return count;
}

static const char *new_folder(void)
{
	static char folder[] = "/tmp/conformance-XXXXXX";

	CHECK(mkdtemp(folder));
	setenv("FI_SHM_FOLDER", folder, 1);
	return folder;
}

// The endpoint cannot be opened, and the log contains the reason.
static void refused_folder(struct env *t, const char *why)
{
	char log[64], line[4096];
	struct fid_ep *ep;
	bool said = false;
	FILE *file;
	int rc;

	snprintf(log, sizeof(log), "/tmp/conformance-log-%d", (int)getpid());
	unlink(log);
	setenv("FI_LOG_LEVEL", "warn", 1);
	setenv("FI_LOG_LOCATION", log, 1);
	start_as(t, "shm", FI_EP_RDM, FI_MSG);
	open_domain(t);
	rc = fi_endpoint(t->domain, t->info, &ep, NULL);
	CHECK((file = fopen(log, "r")));
	while (fgets(line, sizeof(line), file))
		said |= strstr(line, "cannot open") && strstr(line, why);
	fclose(file);
	unlink(log);
	CHECK_RC(rc, -FI_EACCES);
	CHECK(said);
}

TEST(fi_shm, folder_open_to_others, CORE | OURS_ONLY, 0, "An FI_SHM_FOLDER that other users can write to is refused, -FI_EACCES")
{
	const char *folder = new_folder();

	CHECK(!chmod(folder, 0777));
	refused_folder(t, "other users can write to");
	CHECK_EQ(files(folder), 0);
	CHECK(!rmdir(folder));
}

TEST(fi_shm, folder_of_another_user, CORE | OURS_ONLY, 0, "An FI_SHM_FOLDER that belongs to another user is refused, -FI_EACCES")
{
	const char *folder = new_folder();

	if (chown(folder, 12345, 12345)) {
		rmdir(folder);
		SKIP("only root can give files away");
	}
	refused_folder(t, "belongs to user 12345");
	CHECK_EQ(files(folder), 0);
	CHECK(!rmdir(folder));
}

TEST(fi_shm, folder, CORE | OURS_ONLY, 0, "With FI_SHM_FOLDER processes meet in that folder, in which nothing is left when their endpoints are closed")
{
	const char *folder = new_folder();
	struct side side = { 0 };
	struct process child;

	start_as(t, "shm", FI_EP_RDM, CAPS);
	child = start_process(t, talk_back);
	open_end(t, &side, FI_WAIT_NONE);
	CHECK(files(folder) >= 1);
	meet(t, &side, &child);
	talk(t, &side, &child);
	join_process(t, &child);
	mixed_traffic(t, false);
	pair_close(t);
	shut(t, &side.ep->fid);
	CHECK_EQ(files(folder), 0);
	CHECK(!rmdir(folder));
}
