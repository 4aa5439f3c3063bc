// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Four processes exchange tagged messages, writes that are read back, and fetching atomics, each with all others. All
//! bytes encode sender, receiver and number of the message. Now and then a process is killed at any point, and another
//! takes its place. Operations of the others with the killed process must end in error in time. Everything else must
//! arrive, once and in order, and nothing may be left behind.
#define _GNU_SOURCE
#include "side.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SLOTS = 4, DEPTH = 3, AHEAD = 12, MAX = 1 << 20, AREA = 64 << 10, ENDS_WITHIN_MS = 2000, STALLS_MS = 20000 };
static const size_t sizes[] = { 1, 8, 56, 57, 300, 513, 4096, 16300, 16384, 20000, 65536, 140000, MAX };

// Memory that all processes share. The parent writes `killed`, `stop` and `end`; each process writes its own slot.
static struct board {
	atomic_uint stop, end;
	struct slot {
		atomic_uint life;   // number of the process in this place so far; set when its name and region are valid
		atomic_uint killed; // the last life that was killed
		_Atomic uint64_t killed_at;
		char name[256];
		uint64_t key, at;
		// Counts of the present life: messages sent to each process, and whether all its work is done.
		atomic_uint sent[SLOTS], all_done;
		_Atomic uint64_t got[SLOTS]; // messages received from each process: the life of the sender, and their number
		_Atomic uint64_t messages, bytes, writes, atomics, errors;
	} slot[SLOTS];
} *board;

enum kind { SEND, RECV, WRITE, READ, ADD, KINDS };
static const char *const kinds[] = { "send", "receive", "write", "read", "atomic" };

struct work {
	struct op op; // first member: completions return its address
	enum kind kind;
	bool busy;
	uint64_t since;
	unsigned seq;
	uint8_t *mem;
};

// The state of another process in this process.
struct peer {
	unsigned life;
	fi_addr_t addr;
	bool failed; // an operation has ended in error: no more is posted
	bool gone;   // no operation is in flight any more
	bool cancelled;
	unsigned sent, posted, received, writes, adds;
	uint64_t last_add, value, heard;
	struct work send[DEPTH], recv[DEPTH], rma;
	struct fid_mr *mr; // of the buffer into which RMA reads
	enum kind step;
};

static struct peer peers[SLOTS];
static struct side side;
static unsigned me, my_life;
static uint64_t *region; // SLOTS areas that the others write, and SLOTS numbers to which they add

static uint64_t mark(unsigned from, unsigned from_life, unsigned to, unsigned to_life, unsigned seq)
{
	return (uint64_t) from << 62 | (uint64_t) to << 60 | (uint64_t) from_life << 46 | (uint64_t) to_life << 32 | seq;
}

static size_t size_of(uint64_t mark)
{
	uint64_t mixed = (mark ^ mark >> 29) * 0xbf58476d1ce4e5b9u;

	mixed = (mixed ^ mixed >> 32) % 64;
	// Large messages are rarer.
	return sizes[mixed < 50 ? mixed % 9 : 9 + mixed % 4];
}

static bool is_shot(unsigned p)
{
	return atomic_load(&board->slot[p].killed) >= peers[p].life;
}

static void in_time(unsigned p, struct work *work)
{
	uint64_t now = now_us(), since = work->since, shot;

	if (!work->busy)
		return;
	if (!is_shot(p)) {
		if (work->kind != RECV && now > since + STALLS_MS * 1000ull)
			FAIL("a %s with process %u, which lives, does not end", kinds[work->kind], p);
		return;
	}
	shot = atomic_load(&board->slot[p].killed_at);
	since = since > shot ? since : shot;
	// A receive matches messages of any process, so it is cancelled before it has to end.
	if ((work->kind != RECV || peers[p].cancelled) && now > since + ENDS_WITHIN_MS * 1000ull)
		FAIL("a %s with process %u, life %u (%s), does not end %llu ms after that was shot; posted %lld ms before; number "
		     "%u of %u, at %s%s", kinds[work->kind], p, peers[p].life, board->slot[p].name,
		     (unsigned long long) (now - since) / 1000, (long long) (shot - work->since) / 1000, work->seq, peers[p].sent,
		     peers[p].failed ? "failed, " : "", peers[p].cancelled ? "cancelled" : "");
}

// Handles the result of posting. After -FI_EAGAIN the operation is not posted; other errors count as errors of the
// operation.
static void posted(unsigned p, struct work *work, ssize_t rc)
{
	work->op.done = rc && rc != -FI_EAGAIN;
	work->op.error = work->op.done ? (int) -rc : 0;
	work->busy = rc != -FI_EAGAIN;
	if (work->busy && work->kind == SEND)
		peers[p].sent++;
}

static void begin(struct work *work, enum kind kind)
{
	work->op = (struct op){ 0 };
	work->kind = kind;
	work->since = now_us();
}

static void post_next(unsigned p)
{
	struct peer *peer = &peers[p];
	struct slot *slot = &board->slot[p];
	bool stop = atomic_load(&board->stop);

	for (unsigned i = 0; i < DEPTH; i++) {
		struct work *work = &peer->recv[i];

		if (!work->busy && !peer->cancelled) {
			uint64_t tag = mark(p, peer->life, me, my_life, peer->posted);

			begin(work, RECV);
			work->seq = peer->posted;
			posted(p, work, fi_trecv(side.ep, work->mem, MAX, NULL, FI_ADDR_UNSPEC, tag & ~0xffffffffull, 0xffffffff,
						 &work->op.context));
			peer->posted += work->busy;
		}
	}
	if (stop || peer->failed)
		return;
	// Messages must be sent in the order of their numbers, so one that has to wait delays the next.
	for (unsigned i = 0; i < DEPTH; i++) {
		struct work *work = &peer->send[(peer->sent) % DEPTH];
		uint64_t tag = mark(me, my_life, p, peer->life, peer->sent);
		size_t len = size_of(tag);

		uint64_t got = atomic_load(&slot->got[me]);

		// A sender is at most AHEAD messages before the receiver, and sends only to a process that expects this life.
		// Otherwise the messages of a short life would be kept for ever.
		if (work->busy || got >> 32 != my_life || peer->sent - (uint32_t) got >= AHEAD)
			break;
		begin(work, SEND);
		work->seq = peer->sent;
		fill(work->mem, len, tag);
		posted(p, work, fi_tsend(side.ep, work->mem, len, NULL, peer->addr, tag, &work->op.context));
		if (!work->busy)
			break;
	}
	if (!peer->rma.busy) {
		struct work *work = &peer->rma;
		uint64_t from = mark(me, my_life, p, peer->life, peer->writes), at = slot->at + me * AREA;
		size_t len = size_of(from) > AREA ? AREA : size_of(from);

		begin(work, peer->step);
		switch (peer->step) {
		case WRITE: {
			struct iovec iov = { work->mem, len };
			struct fi_rma_iov to = { at, len, slot->key };
			struct fi_msg_rma msg = { .msg_iov = &iov, .iov_count = 1, .addr = peer->addr, .rma_iov = &to,
						  .rma_iov_count = 1, .context = &work->op.context };

			fill(work->mem, len, from);
			posted(p, work, fi_writemsg(side.ep, &msg, FI_COMPLETION | FI_DELIVERY_COMPLETE));
			break;
		}
		case READ:
			memset(work->mem, 0xe5, len);
			posted(p, work, fi_read(side.ep, work->mem, len, NULL, peer->addr, at, slot->key, &work->op.context));
			break;
		default: {
			static const uint64_t one = 1;

			posted(p, work, fi_fetch_atomic(side.ep, &one, 1, NULL, &peer->value, NULL, peer->addr,
							slot->at + SLOTS * AREA + 8 * me, slot->key, FI_UINT64, FI_SUM,
							&work->op.context));
		}
		}
	}
}

static void count(_Atomic uint64_t *what, uint64_t by)
{
	atomic_fetch_add(what, by);
}

static void completed(unsigned p, struct work *work)
{
	struct peer *peer = &peers[p];
	struct slot *mine = &board->slot[me];
	uint64_t from;
	size_t len;

	work->busy = false;
	if (work->op.error) {
		if (!is_shot(p) && !(work->kind == RECV && atomic_load(&board->end)))
			FAIL("a %s with process %u, life %u, which lives, ends in error: %s", kinds[work->kind], p, peer->life,
			     fi_strerror(work->op.error));
		if (work->kind != RECV)
			peer->failed = true;
		count(&mine->errors, 1);
		return;
	}
	switch (work->kind) {
	case SEND:
		count(&mine->messages, 1);
		break;
	case RECV:
		from = mark(p, peer->life, me, my_life, work->seq);
		if (work->op.len != size_of(from))
			FAIL("message %u of process %u, life %u, has %zu bytes, not %zu", work->seq, p, peer->life, work->op.len,
			     size_of(from));
		verify(work->mem, work->op.len, from, "message");
		peer->received++;
		peer->heard = now_us();
		atomic_store(&mine->got[p], (uint64_t) peer->life << 32 | peer->received);
		count(&mine->bytes, work->op.len);
		break;
	case WRITE:
		peer->step = READ;
		break;
	case READ:
		from = mark(me, my_life, p, peer->life, peer->writes);
		len = size_of(from) > AREA ? AREA : size_of(from);
		verify(work->mem, len, from, "read back");
		peer->writes++;
		peer->step = ADD;
		count(&mine->writes, 1);
		break;
	default:
		if (peer->adds && peer->value != peer->last_add + 1)
			FAIL("an atomic fetches %llu after %llu", (unsigned long long) peer->value,
			     (unsigned long long) peer->last_add);
		peer->last_add = peer->value;
		peer->adds++;
		peer->step = WRITE;
		count(&mine->atomics, 1);
	}
}

static void each_work(unsigned p, void (*with)(unsigned, struct work *))
{
	for (unsigned i = 0; i < DEPTH; i++) {
		with(p, &peers[p].send[i]);
		with(p, &peers[p].recv[i]);
	}
	with(p, &peers[p].rma);
}

static void settle(unsigned p, struct work *work)
{
	if (work->busy && work->op.done)
		completed(p, work);
}

static unsigned left;

static void is_left(unsigned p, struct work *work)
{
	(void) p;
	left += work->busy;
}

static void cancel_receives(unsigned p)
{
	for (unsigned i = 0; i < DEPTH; i++)
		if (peers[p].recv[i].busy) {
			peers[p].recv[i].since = now_us();
			fi_cancel(&side.ep->fid, &peers[p].recv[i].op.context);
		}
	peers[p].cancelled = true;
}

// Follows the life of the process in this place: connects to a new process, and waits for the operations of a killed
// one.
static void follow(unsigned p)
{
	struct peer *peer = &peers[p];
	unsigned life = atomic_load(&board->slot[p].life);

	if (peer->life && is_shot(p) && !peer->gone) {
		uint64_t shot = atomic_load(&board->slot[p].killed_at);

		// Messages that the killed process had sent completely still arrive. They are received, so that they do not take room
		// of others.
		if (!peer->cancelled && now_us() > (shot > peer->heard ? shot : peer->heard) + 300000)
			cancel_receives(p);
		left = 0;
		each_work(p, is_left);
		if (peer->cancelled && !left) {
			peer->gone = true;
			OK(fi_av_remove(side.av, &peer->addr, 1, 0));
		}
	}
	if (life != peer->life && (peer->gone || !peer->life)) {
		peer->addr = insert(&side, board->slot[p].name);
		peer->failed = peer->gone = peer->cancelled = false;
		peer->sent = peer->posted = peer->received = peer->writes = peer->adds = 0;
		peer->step = WRITE;
		peer->life = life;
		atomic_store(&board->slot[me].got[p], (uint64_t) life << 32);
	}
}

static void work(void *slot_number)
{
	struct slot *mine;
	struct fid_mr *mr;
	uint64_t idle = 0, stopped = 0;
	unsigned told = 0;
	size_t len = SLOTS * AREA + SLOTS * 8;

	me = (unsigned) (uintptr_t) slot_number;
	mine = &board->slot[me];
	my_life = atomic_load(&mine->life) + 1;
	mix_chance(me * 1000 + my_life);
	open_side(&side);
	CHECK(!posix_memalign((void **) &region, 4096, len));
	memset(region, 0, len);
	OK(fi_mr_reg(side.domain, region, len, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, me + 1, 0, &mr, NULL));
	for (unsigned p = 0; p < SLOTS; p++) {
		for (unsigned i = 0; i < DEPTH; i++)
			CHECK((peers[p].send[i].mem = malloc(MAX)) && (peers[p].recv[i].mem = malloc(MAX)));
		CHECK((peers[p].rma.mem = malloc(AREA)));
		atomic_store(&mine->sent[p], 0);
		atomic_store(&mine->got[p], 0);
	}
	memcpy(mine->name, side.name, sizeof(mine->name));
	mine->key = fi_mr_key(mr);
	mine->at = side.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? (uintptr_t) region : 0;
	atomic_store(&mine->life, my_life);
	while (!atomic_load(&board->end)) {
		bool done = atomic_load(&board->stop);

		look(&side);
		for (unsigned p = 0; p < SLOTS; p++) {
			struct peer *peer = &peers[p];
			bool all;

			if (p == me)
				continue;
			follow(p);
			if (!peer->life || peer->gone) {
				done = false;
				continue;
			}
			each_work(p, settle);
			each_work(p, in_time);
			post_next(p);
			if (!atomic_load(&board->stop))
				continue;
			stopped = stopped ? stopped : now_us();
			// All messages were sent, and all messages of the other process were received.
			left = 0;
			each_work(p, is_left);
			all = left == DEPTH && !is_shot(p) && atomic_load(&board->slot[p].life) == peer->life;
			if (all)
				atomic_store(&mine->sent[p], peer->sent + 1);
			if (now_us() > stopped + 8000000 && told++ < SLOTS)
				printf("%s: with process %u, life %u: %u under way, %u sent, %u received of %d\n", who, p, peer->life, left,
				       peer->sent, peer->received, (int) atomic_load(&board->slot[p].sent[me]) - 1);
			done &= all && atomic_load(&board->slot[p].sent[me]) == peer->received + 1;
		}
		if (done)
			atomic_store(&mine->all_done, 1);
		// In every other life the process blocks for a moment between its polls while it has nothing to do.
		if (my_life % 2 == me % 2 && ++idle % 16 == 0) {
			struct fi_cq_tagged_entry entry;
			ssize_t rc = fi_cq_sread(side.cq, &entry, 1, NULL, 2);

			if (rc == 1) {
				struct op *op = entry.op_context;

				op->len = entry.len;
				op->done = true;
			}
		} else if (idle++ % 64 == 0) {
			sched_yield();
		}
	}
	for (unsigned p = 0; p < SLOTS; p++)
		if (p != me)
			cancel_receives(p);
	look(&side);
	OK(fi_close(&mr->fid));
	close_side(&side);
}

// ---- The parent

static const char *const names[SLOTS] = { "process 0", "process 1", "process 2", "process 3" };

static pid_t begin_life(unsigned slot)
{
	unsigned before = atomic_load(&board->slot[slot].life);
	pid_t pid = start(names[slot], work, (void *) (uintptr_t) slot);

	wait_for(&board->slot[slot].life, before + 1, 10000, "a new process has a name");
	return pid;
}

static unsigned left_behind(const char *folder, bool say)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	unsigned count = 0;

	while (dir && (entry = readdir(dir)))
		// Named address vectors do not count: no process here has one, but other programs may.
		if (strstr(entry->d_name, "ironfabric") && !strstr(entry->d_name, "ironfabric-av-")) {
			count++;
			if (say)
				printf("left in %s: %s\n", folder, entry->d_name);
		}
	if (dir)
		closedir(dir);
	return count;
}

static unsigned listeners_of(pid_t pid)
{
	FILE *file = fopen("/proc/net/unix", "r");
	char row[512], name[64];
	unsigned count = 0;

	CHECK(file);
	snprintf(name, sizeof(name), "@ironfabric/shm/%u/%d:", geteuid(), pid);
	while (fgets(row, sizeof(row), file))
		count += strstr(row, name) != NULL;
	fclose(file);
	return count;
}

void case_kill(void)
{
	unsigned before = left_behind("/dev/shm", false) + left_behind("/tmp", false), kills = 0, fds = 0, fds_end;
	uint64_t end = now_us() + seconds * 1000000ull, total[5] = { 0 }, progress;
	size_t kib = 0, kib_end;
	pid_t pids[SLOTS], all[4096];
	int status;

	board = shared_page(sizeof(*board));
	for (unsigned i = 0; i < SLOTS; i++)
		pids[i] = begin_life(i);
	while (now_us() < end) {
		unsigned victim = 1 + (unsigned) chance(SLOTS - 1);
		struct slot *slot = &board->slot[victim];

		// Mostly early, so that the process dies while it connects; sometimes in full traffic.
		usleep((unsigned) chance(chance(3) ? 60000 : 800000));
		for (unsigned i = 0; i < SLOTS; i++)
			if (waitpid(pids[i], &status, WNOHANG))
				FAIL("process %u has ended, status %#x", i, status);
		atomic_store(&slot->killed_at, now_us());
		atomic_store(&slot->killed, atomic_load(&slot->life));
		kill(pids[victim], SIGKILL);
		CHECK(waitpid(pids[victim], &status, 0) == pids[victim] && WIFSIGNALED(status));
		all[kills++ % 4096] = pids[victim];
		atomic_store(&slot->killed_at, now_us());
		if (chance(2))
			usleep((unsigned) chance(200000));
		pids[victim] = begin_life(victim);
		if (kills == 5) {
			usleep(500000);
			fds = count_fds(pids[0]), kib = resident_kib(pids[0]);
		}
	}
	progress = atomic_load(&board->slot[0].messages);
	usleep(2500000);
	for (unsigned i = 0; i < SLOTS; i++)
		if (waitpid(pids[i], &status, WNOHANG))
			FAIL("process %u has ended, status %#x", i, status);
	if (atomic_load(&board->slot[0].messages) == progress)
		FAIL("no message in 2.5 s in which nobody was shot");
	fds_end = count_fds(pids[0]), kib_end = resident_kib(pids[0]);
	atomic_store(&board->stop, 1);
	for (unsigned i = 0; i < SLOTS; i++)
		wait_for(&board->slot[i].all_done, 1, 15000, "everything that was sent has come");
	atomic_store(&board->end, 1);
	for (unsigned i = 0; i < SLOTS; i++)
		ended_well(pids[i], 10000);
	for (unsigned i = 0; i < SLOTS; i++) {
		struct slot *slot = &board->slot[i];

		total[0] += slot->messages, total[1] += slot->bytes, total[2] += slot->writes;
		total[3] += slot->atomics, total[4] += slot->errors;
	}
	for (unsigned i = 0; i < kills && i < 4096; i++)
		if (listeners_of(all[i]))
			FAIL("process %d is gone, its sockets are not", all[i]);
	if (left_behind("/dev/shm", false) + left_behind("/tmp", false) > before &&
	    left_behind("/dev/shm", true) + left_behind("/tmp", true) > before)
		FAIL("files were left behind");
	printf("%u killed; %llu messages, %llu MiB, %llu writes read back, %llu atomics, %llu operations with the dead; "
	       "descriptors %u, then %u; %zu KiB, then %zu\n", kills, (unsigned long long) total[0],
	       (unsigned long long) total[1] >> 20, (unsigned long long) total[2], (unsigned long long) total[3],
	       (unsigned long long) total[4], fds, fds_end, kib, kib_end);
	CHECK(kills >= 3 && total[0] > 100 && total[2] > 100 && total[3] > 100 && total[4] > 0);
	// At most one connection more in each direction than at the first measurement.
	if (fds && fds_end > fds + 2 * (SLOTS - 1))
		FAIL("descriptors of the survivor grew from %u to %u", fds, fds_end);
	if (kib && kib_end > kib + 16384)
		FAIL("memory of the survivor grew from %zu to %zu KiB", kib, kib_end);
}
