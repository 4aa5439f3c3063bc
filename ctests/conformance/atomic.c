// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_atomic(3): every operation on every type in every form of call, compared with the page's formulas as the C
//! compiler computes them; refused calls; completions, counters, order; and atomicity with several initiators.
#include "transfer.h"

#include <complex.h>
#include <pthread.h>

enum { ROOM = 4096, AT = 64 };

#define RW (FI_REMOTE_READ | FI_REMOTE_WRITE)
#define CHANGED (FI_ATOMIC | FI_WRITE)
#define FETCHED (FI_ATOMIC | FI_READ)
#define OPS 20

// ---- The types

// Bits of a whole number in the small formats. Only numbers of few bits are used.
static unsigned small_bits(long v, unsigned mantissa, unsigned exponent)
{
	unsigned long size = v < 0 ? -v : v;
	unsigned power = 0;

	if (!v)
		return 0;
	while (size >> (power + 1))
		power++;
	return (v < 0) << (mantissa + exponent) | (power + (1u << (exponent - 1)) - 1) << mantissa |
	       (unsigned)(((size - (1ul << power)) << mantissa) >> power);
}

struct type {
	enum fi_datatype datatype;
	size_t size;
	size_t used; // bytes of a part that are used
	bool is_signed, is_complex, is_integer;
};

#define REALS(X)                                                                                                       \
	X(FI_INT8, int8_t, true) X(FI_UINT8, uint8_t, true) X(FI_INT16, int16_t, true) X(FI_UINT16, uint16_t, true)    \
	X(FI_INT32, int32_t, true) X(FI_UINT32, uint32_t, true) X(FI_INT64, int64_t, true)                             \
	X(FI_UINT64, uint64_t, true) X(FI_INT128, __int128, true) X(FI_UINT128, unsigned __int128, true)               \
	X(FI_FLOAT, float, false) X(FI_DOUBLE, double, false) X(FI_LONG_DOUBLE, long double, false)
#define COMPLEXES(X)                                                                                                   \
	X(FI_FLOAT_COMPLEX, float complex, float) X(FI_DOUBLE_COMPLEX, double complex, double)                         \
	X(FI_LONG_DOUBLE_COMPLEX, long double complex, long double)
#define SMALL(X) X(FI_FLOAT16, 2, 10, 5) X(FI_BFLOAT16, 2, 7, 8) X(FI_FLOAT8_E4M3, 1, 3, 4) X(FI_FLOAT8_E5M2, 1, 2, 5)

#define LD_USED(T) (_Generic((T)0, long double: 10, long double complex: 10, float complex: 4, double complex: 8, default: sizeof(T)))
static const struct type types[] = {
#define X(D, T, INTEGER) { D, sizeof(T), LD_USED(T), (T)-1 < (T)1, false, INTEGER },
	REALS(X)
#undef X
#define X(D, T, PART) { D, sizeof(T), LD_USED(T), true, true, false },
	COMPLEXES(X)
#undef X
#define X(D, SIZE, MANTISSA, EXPONENT) { D, SIZE, SIZE, true, false, false },
	SMALL(X)
#undef X
};
enum { TYPES = sizeof(types) / sizeof(types[0]), MOST = 32 };

// Writes the whole number re + im i in the type's format. Unused bytes are zero.
static void put(const struct type *type, void *out, long re, long im)
{
	memset(out, 0, type->size);
	switch (type->datatype) {
#define X(D, T, INTEGER)                                                                                               \
	case D: {                                                                                                      \
		T v = (T)re;                                                                                           \
		memcpy(out, &v, type->used);                                                                           \
		return;                                                                                                \
	}
		REALS(X)
#undef X
#define X(D, T, PART)                                                                                                  \
	case D: {                                                                                                      \
		PART v[2] = { (PART)re, (PART)im };                                                                    \
		memcpy(out, &v[0], type->used);                                                                        \
		memcpy((uint8_t *)out + sizeof(v[0]), &v[1], type->used);                                              \
		return;                                                                                                \
	}
		COMPLEXES(X)
#undef X
#define X(D, SIZE, MANTISSA, EXPONENT)                                                                                 \
	case D: {                                                                                                      \
		unsigned v = small_bits(re, MANTISSA, EXPONENT);                                                       \
		memcpy(out, &v, SIZE);                                                                                 \
		return;                                                                                                \
	}
		SMALL(X)
#undef X
	default:
		FAIL("no such type: %d", type->datatype);
	}
}

struct number {
	long re, im;
};

static bool is_compare(enum fi_op op)
{
	return op >= FI_CSWAP && op <= FI_MSWAP;
}

// The page's list: whether the calls of a family (0, FI_FETCH_ATOMIC, FI_COMPARE_ATOMIC) have the operation.
static bool in_family(uint64_t family, enum fi_op op)
{
	if (is_compare(op))
		return family == FI_COMPARE_ATOMIC;
	if (op == FI_ATOMIC_READ)
		return family == FI_FETCH_ATOMIC;
	return family != FI_COMPARE_ATOMIC;
}

static bool for_type(const struct type *type, enum fi_op op)
{
	switch (op) {
	case FI_BOR: case FI_BAND: case FI_BXOR: case FI_MSWAP:
		return type->is_integer;
	case FI_MIN: case FI_MAX: case FI_CSWAP_LE: case FI_CSWAP_LT: case FI_CSWAP_GE: case FI_CSWAP_GT:
		return !type->is_complex;
	default:
		return true;
	}
}

// The page's formulas for whole numbers.
static struct number formula(const struct type *type, enum fi_op op, struct number a, struct number b, struct number c)
{
	bool at = a.re || (type->is_complex && a.im), bt = b.re || (type->is_complex && b.im);
	bool same = a.re == c.re && (!type->is_complex || a.im == c.im);

	switch (op) {
	case FI_MIN: return b.re < a.re ? b : a;
	case FI_MAX: return b.re > a.re ? b : a;
	case FI_SUM: return (struct number){ a.re + b.re, a.im + b.im };
	case FI_DIFF: return (struct number){ a.re - b.re, a.im - b.im };
	case FI_PROD:
		if (!type->is_complex)
			return (struct number){ a.re * b.re, 0 };
		return (struct number){ a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re };
	case FI_LOR: return (struct number){ at || bt, 0 };
	case FI_LAND: return (struct number){ at && bt, 0 };
	case FI_LXOR: return (struct number){ at != bt, 0 };
	case FI_BOR: return (struct number){ a.re | b.re, 0 };
	case FI_BAND: return (struct number){ a.re & b.re, 0 };
	case FI_BXOR: return (struct number){ a.re ^ b.re, 0 };
	case FI_ATOMIC_READ: return a;
	case FI_ATOMIC_WRITE: return b;
	case FI_CSWAP: return same ? b : a;
	case FI_CSWAP_NE: return same ? a : b;
	case FI_CSWAP_LE: return c.re <= a.re ? b : a;
	case FI_CSWAP_LT: return c.re < a.re ? b : a;
	case FI_CSWAP_GE: return c.re >= a.re ? b : a;
	case FI_CSWAP_GT: return c.re > a.re ? b : a;
	case FI_MSWAP: return (struct number){ (b.re & c.re) | (a.re & ~c.re), 0 };
	default: FAIL("no such operation: %d", op);
	}
}

// Whether the values are equal, apart from the sign of zeros and from unused bytes.
static bool equal(const struct type *type, const void *got, const void *want)
{
	size_t parts = type->is_complex ? 2 : 1, size = type->size / parts;

	for (size_t i = 0; i < parts; i++) {
		uint8_t x[MOST], y[MOST];

		memcpy(x, (const uint8_t *)got + i * size, type->used);
		memcpy(y, (const uint8_t *)want + i * size, type->used);
		for (uint8_t *v = x; !type->is_integer && v; v = v == x ? y : NULL) {
			bool zero = !(v[type->used - 1] & 0x7f);

			for (size_t k = 0; k + 1 < type->used; k++)
				zero = zero && !v[k];
			if (zero)
				v[type->used - 1] = 0;
		}
		if (memcmp(x, y, type->used))
			return false;
	}
	return true;
}

// ---- Calls

enum shape { PLAIN, VECTOR, MESSAGE, INJECTED, SHAPES };

// One operation on `count` elements with equal values.
struct job {
	const struct type *type;
	enum fi_op op;
	uint64_t family;
	size_t count;
	struct buf operand, compare, result;
	uint64_t flags;
	void *ctx;
};

// Uses two local buffers in the shapes that take several, and two remote ranges if the provider allows that.
static ssize_t call(struct env *t, struct region *target, size_t at, enum shape shape, struct job *job)
{
	size_t size = job->type->size, first = (job->count + 1) / 2, rest = job->count - first, pieces = rest ? 2 : 1;
	struct fi_ioc out[2] = { { job->operand.mem, first }, { job->operand.mem + first * size, rest } };
	struct fi_ioc cmp[2] = { { job->compare.mem, rest }, { job->compare.mem + rest * size, first } };
	struct fi_ioc in[2] = { { job->result.mem, first }, { job->result.mem + first * size, rest } };
	struct fi_rma_ioc remote[2] = {
		{ target->at + at, rest ? rest : first, target->key },
		{ target->at + at + rest * size, first, target->key },
	};
	size_t places = pieces <= t->info->tx_attr->rma_iov_limit ? pieces : 1;
	void *desc[2] = { job->operand.desc, job->operand.desc }, *cdesc[2] = { job->compare.desc, job->compare.desc };
	void *rdesc[2] = { job->result.desc, job->result.desc };
	struct fi_msg_atomic msg = {
		.msg_iov = out, .desc = desc, .iov_count = pieces, .addr = t->a.peer, .rma_iov = remote, .rma_iov_count = places,
		.datatype = job->type->datatype, .op = job->op, .context = job->ctx, .data = DATA,
	};

	if (!rest)
		cmp[0].count = first;
	if (places < pieces)
		remote[0].count = job->count;
	if (shape == INJECTED)
		return fi_inject_atomic(t->a.ep, job->operand.mem, job->count, t->a.peer, target->at + at, target->key, msg.datatype, msg.op);
	if (job->family == FI_COMPARE_ATOMIC) {
		if (shape == PLAIN)
			return fi_compare_atomic(t->a.ep, job->operand.mem, job->count, desc[0], job->compare.mem, cdesc[0],
						 job->result.mem, rdesc[0], t->a.peer, target->at + at, target->key,
						 msg.datatype, msg.op, job->ctx);
		if (shape == VECTOR)
			return fi_compare_atomicv(t->a.ep, out, desc, pieces, cmp, cdesc, pieces, in, rdesc, pieces, t->a.peer,
						  target->at + at, target->key, msg.datatype, msg.op, job->ctx);
		return fi_compare_atomicmsg(t->a.ep, &msg, cmp, cdesc, pieces, in, rdesc, pieces, job->flags);
	}
	if (job->family == FI_FETCH_ATOMIC) {
		if (shape == PLAIN)
			return fi_fetch_atomic(t->a.ep, job->op == FI_ATOMIC_READ ? NULL : job->operand.mem, job->count, desc[0],
					       job->result.mem, rdesc[0], t->a.peer, target->at + at, target->key,
					       msg.datatype, msg.op, job->ctx);
		if (shape == VECTOR)
			return fi_fetch_atomicv(t->a.ep, out, desc, pieces, in, rdesc, pieces, t->a.peer, target->at + at,
						target->key, msg.datatype, msg.op, job->ctx);
		return fi_fetch_atomicmsg(t->a.ep, &msg, in, rdesc, pieces, job->flags);
	}
	if (shape == PLAIN)
		return fi_atomic(t->a.ep, job->operand.mem, job->count, desc[0], t->a.peer, target->at + at, target->key,
				 msg.datatype, msg.op, job->ctx);
	if (shape == VECTOR)
		return fi_atomicv(t->a.ep, out, desc, pieces, t->a.peer, target->at + at, target->key, msg.datatype, msg.op, job->ctx);
	return fi_atomicmsg(t->a.ep, &msg, job->flags);
}

static struct job job_of(struct env *t, const struct type *type, enum fi_op op, uint64_t family, size_t count)
{
	return (struct job){
		.type = type, .op = op, .family = family, .count = count, .ctx = new_ctx(),
		.operand = new_buf(t, count * type->size, 0), .compare = new_buf(t, count * type->size, 0),
		.result = new_buf(t, count * type->size, 0),
	};
}

static const struct type *type_of(enum fi_datatype datatype)
{
	for (unsigned i = 0; i < TYPES; i++)
		if (types[i].datatype == datatype)
			return &types[i];
	FAIL("no such type: %d", datatype);
}

// Fetches one byte. When it returns, all operations that a posted before have been executed at b. Returns the first
// byte of the region.
static uint8_t flush(struct env *t, struct region *target)
{
	struct buf in = new_buf(t, 1, 0);
	void *ctx = new_ctx();

	POST(t, fi_fetch_atomic(t->a.ep, NULL, 1, NULL, in.mem, in.desc, t->a.peer, target->at, target->key, FI_UINT8,
				FI_ATOMIC_READ, ctx));
	done(t, t->a.txcq, ctx, FETCHED);
	return *in.mem;
}

static struct region open_target(struct env *t)
{
	return new_region(t, &t->b, new_buf(t, ROOM, 0), RW);
}

static void one_case(struct env *t, struct region *target, enum shape shape, struct job *job, const struct number *v)
{
	const struct type *type = job->type;
	uint8_t want[MOST], before[MOST], *mem = target->buf.mem + AT;
	struct number result = formula(type, job->op, v[0], v[1], v[2]);

	put(type, want, result.re, result.im);
	put(type, before, v[0].re, v[0].im);
	memset(target->buf.mem, 0, ROOM);
	for (size_t i = 0; i < job->count; i++) {
		put(type, mem + i * type->size, v[0].re, v[0].im);
		put(type, job->operand.mem + i * type->size, v[1].re, v[1].im);
		put(type, job->compare.mem + i * type->size, v[2].re, v[2].im);
	}
	memset(job->result.mem, 0x55, job->result.len);
	if (shape == INJECTED && job->count * type->size > t->info->tx_attr->inject_size)
		return;
	POST(t, call(t, target, AT, shape, job));
	if (shape != INJECTED)
		done(t, t->a.txcq, job->ctx, job->family ? FETCHED : CHANGED);
	if (!job->family)
		flush(t, target);
	for (size_t i = 0; i < job->count; i++) {
		if (!equal(type, mem + i * type->size, want))
			FAIL("type %d op %d shape %d element %zu: target is wrong (%ld %ld %ld)", type->datatype, job->op, shape, i,
			     v[0].re, v[1].re, v[2].re);
		if (job->family && !equal(type, job->result.mem + i * type->size, before))
			FAIL("type %d op %d shape %d element %zu: result is wrong", type->datatype, job->op, shape, i);
	}
	CHECK(untouched(part(target->buf, 0, AT), 0));
	CHECK(untouched(target->buf, AT + job->count * type->size));
}

static void all_cases(struct env *t, uint64_t family, unsigned shapes)
{
	static const struct number values[][3] = {
		{ { 1, 2 }, { 2, -1 }, { 1, 2 } }, { { 3, 1 }, { 2, 3 }, { 2, 1 } }, { { 2, 0 }, { 2, 2 }, { 3, 0 } },
		{ { 0, 0 }, { 1, 0 }, { 0, 0 } },  { { 3, 0 }, { 0, 0 }, { 1, 1 } }, { { -1, 1 }, { -3, 1 }, { -1, -1 } },
	};
	struct region target;
	unsigned served = 0;

	PAIR(t);
	target = open_target(t);
	for (unsigned i = 0; i < TYPES; i++) {
		for (enum fi_op op = 0; op < OPS; op++) {
			size_t count = 0;
			int rc = family == FI_COMPARE_ATOMIC ? fi_compare_atomicvalid(t->a.ep, types[i].datatype, op, &count) :
				 family == FI_FETCH_ATOMIC   ? fi_fetch_atomicvalid(t->a.ep, types[i].datatype, op, &count) :
							       fi_atomicvalid(t->a.ep, types[i].datatype, op, &count);

			if (!in_family(family, op) || !for_type(&types[i], op)) {
				CHECK_RC(rc, -FI_EOPNOTSUPP);
				continue;
			}
			if (rc == -FI_EOPNOTSUPP && (!is_ours() || is_layered(t)))
				continue;
			OK(rc);
			CHECK(count > 0);
			served++;
			for (unsigned shape = 0; shape < SHAPES; shape++) {
				struct job job = job_of(t, &types[i], op, family, count < 3 ? count : 3);

				if (!(shapes & 1u << shape))
					continue;
				for (unsigned k = 0; k < sizeof(values) / sizeof(values[0]); k++) {
					if (!types[i].is_signed && (values[k][0].re < 0 || (op == FI_DIFF && values[k][0].re < values[k][1].re)))
						continue;
					one_case(t, &target, shape, &job, values[k]);
				}
			}
		}
	}
	CHECK(served);
	nothing(t->a.txcq);
	nothing(t->b.rxcq);
}

TEST(fi_atomic, base, EP_RELIABLE, FI_ATOMIC, "fi_atomic carries out every operation that fi_atomicvalid lists, on every type, and changes nothing around")
{
	all_cases(t, 0, 1 << PLAIN);
}

TEST(fi_atomic, base_vector, EP_RELIABLE, FI_ATOMIC, "So does fi_atomicv, with operands in pieces")
{
	all_cases(t, 0, 1 << VECTOR);
}

TEST(fi_atomic, base_message, EP_RELIABLE, FI_ATOMIC, "So does fi_atomicmsg, with pieces on both sides")
{
	all_cases(t, 0, 1 << MESSAGE);
}

TEST(fi_atomic, base_inject, EP_RELIABLE, FI_ATOMIC, "So does fi_inject_atomic, without a completion")
{
	all_cases(t, 0, 1 << INJECTED);
}

TEST(fi_atomic, fetch, EP_RELIABLE, FI_ATOMIC, "fi_fetch_atomic and its forms do the same and bring the values before")
{
	all_cases(t, FI_FETCH_ATOMIC, 1 << PLAIN | 1 << VECTOR | 1 << MESSAGE);
}

TEST(fi_atomic, compare, EP_RELIABLE, FI_ATOMIC, "fi_compare_atomic and its forms change what the comparison says, and bring the values before")
{
	all_cases(t, FI_COMPARE_ATOMIC, 1 << PLAIN | 1 << VECTOR | 1 << MESSAGE);
}

TEST(fi_atomic, unaligned, EP_RELIABLE | OURS_ONLY, FI_ATOMIC, "Elements may stand at any address")
{
	struct region target;

	PAIR(t);
	target = open_target(t);
	for (unsigned i = 0; i < TYPES; i++) {
		struct job job = job_of(t, &types[i], FI_SUM, FI_FETCH_ATOMIC, 3);
		uint8_t want[MOST];
		size_t count;

		if (is_layered(t) && fi_fetch_atomicvalid(t->a.ep, types[i].datatype, FI_SUM, &count))
			continue;
		for (size_t at = 0; at < 4; at++) {
			for (unsigned k = 0; k < 3; k++) {
				put(&types[i], target.buf.mem + AT + at + k * types[i].size, 1, 2);
				put(&types[i], job.operand.mem + k * types[i].size, 2, 1);
			}
			POST(t, call(t, &target, AT + at, PLAIN, &job));
			done(t, t->a.txcq, job.ctx, FETCHED);
			put(&types[i], want, 3, 3);
			for (unsigned k = 0; k < 3; k++)
				CHECK(equal(&types[i], target.buf.mem + AT + at + k * types[i].size, want));
		}
	}
}

// ---- What is offered

TEST(fi_atomic, query, EP_RELIABLE, FI_ATOMIC, "fi_query_atomic says the same as the valid calls, and the size of an element")
{
	PAIR(t);
	for (unsigned i = 0; i < TYPES; i++)
		for (enum fi_op op = 0; op < OPS; op++)
			for (unsigned f = 0; f < 3; f++) {
				uint64_t family = f == 0 ? 0 : f == 1 ? FI_FETCH_ATOMIC : FI_COMPARE_ATOMIC;
				struct fi_atomic_attr attr = { 77, 77 };
				size_t count = 0;
				int valid = f == 2 ? fi_compare_atomicvalid(t->a.ep, types[i].datatype, op, &count) :
					    f == 1 ? fi_fetch_atomicvalid(t->a.ep, types[i].datatype, op, &count) :
						     fi_atomicvalid(t->a.ep, types[i].datatype, op, &count);

				CHECK_RC(fi_query_atomic(t->domain, types[i].datatype, op, &attr, family), valid);
				if (valid) {
					CHECK(attr.size == 77 && attr.count == 77);
					continue;
				}
				CHECK_EQ(attr.count, count);
				CHECK_EQ(attr.size, types[i].size);
			}
}

TEST(fi_atomic, query_wrong, EP_RELIABLE | OURS_ONLY, FI_ATOMIC, "Both flags, unknown ones and no room are refused; tagged targets and what is no type or operation are not supported")
{
	struct fi_atomic_attr attr;
	size_t count;

	PAIR(t);
	CHECK_RC(fi_query_atomic(t->domain, FI_INT8, FI_SUM, &attr, FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC), -FI_EINVAL);
	CHECK_RC(fi_query_atomic(t->domain, FI_INT8, FI_SUM, &attr, FI_MORE), -FI_EBADFLAGS);
	CHECK_RC(fi_query_atomic(t->domain, FI_INT8, FI_SUM, NULL, 0), -FI_EINVAL);
	CHECK_RC(fi_query_atomic(t->domain, FI_INT8, FI_SUM, &attr, FI_TAGGED), -FI_EOPNOTSUPP);
	CHECK_RC(fi_query_atomic(t->domain, FI_VOID, FI_SUM, &attr, 0), -FI_EOPNOTSUPP);
	CHECK_RC(fi_query_atomic(t->domain, FI_INT8, FI_NOOP, &attr, 0), -FI_EOPNOTSUPP);
	CHECK_RC(fi_query_atomic(t->domain, -1, -1, &attr, 0), -FI_EOPNOTSUPP);
	CHECK_RC(fi_atomicvalid(t->a.ep, FI_INT8, FI_SUM, NULL), -FI_EINVAL);
	CHECK_RC(fi_fetch_atomicvalid(t->a.ep, 20, FI_SUM, &count), -FI_EOPNOTSUPP);
	CHECK_RC(fi_compare_atomicvalid(t->a.ep, FI_INT8, 20, &count), -FI_EOPNOTSUPP);
}

TEST(fi_atomic, largest, EP_RELIABLE, FI_ATOMIC, "A call takes as many elements as the valid call says, and refuses one more with -FI_EMSGSIZE")
{
	static const enum fi_op ops[3] = { FI_SUM, FI_SUM, FI_CSWAP };
	static const uint64_t families[3] = { 0, FI_FETCH_ATOMIC, FI_COMPARE_ATOMIC };

	PAIR(t);
	for (unsigned f = 0; f < 3; f++) {
		struct fi_atomic_attr attr;
		struct region target;
		struct job job;

		OK(fi_query_atomic(t->domain, FI_UINT64, ops[f], &attr, families[f]));
		job = job_of(t, type_of(FI_UINT64), ops[f], families[f], attr.count + 1);
		for (size_t i = 0; i < attr.count; i++)
			((uint64_t *)job.operand.mem)[i] = i;
		target = new_region(t, &t->b, new_buf(t, (attr.count + 1) * 8, 0), RW);
		flush(t, &target); // connected
		CHECK_RC(call(t, &target, 0, PLAIN, &job), -FI_EMSGSIZE);
		job.count--;
		POST(t, call(t, &target, 0, PLAIN, &job));
		done(t, t->a.txcq, job.ctx, families[f] ? FETCHED : CHANGED);
		flush(t, &target);
		for (size_t i = 0; i < attr.count; i++)
			CHECK_EQ(((uint64_t *)target.buf.mem)[i], i);
		CHECK_EQ(((uint64_t *)target.buf.mem)[attr.count], 0);
	}
}

TEST(fi_atomic, wrong_arguments, EP_RELIABLE | OURS_ONLY, FI_ATOMIC, "No elements, pieces that do not agree, missing memory and flags that there are not are refused at once")
{
	struct region target;
	struct job job;
	struct fi_ioc one = { 0 }, two = { 0 };
	struct fi_rma_ioc remote = { 0 };
	struct fi_msg_atomic msg = { 0 };

	PAIR(t);
	target = open_target(t);
	job = job_of(t, type_of(FI_INT32), FI_SUM, 0, 2);
	job.count = 0;
	CHECK_RC(call(t, &target, 0, PLAIN, &job), -FI_EINVAL);
	job.count = 2;
	job.op = FI_ATOMIC_READ;
	CHECK_RC(call(t, &target, 0, PLAIN, &job), -FI_EOPNOTSUPP);
	job.op = FI_CSWAP;
	CHECK_RC(call(t, &target, 0, PLAIN, &job), -FI_EOPNOTSUPP);

	one = (struct fi_ioc){ job.operand.mem, 1 };
	two = (struct fi_ioc){ job.result.mem, 2 };
	remote = (struct fi_rma_ioc){ target.at, 1, target.key };
	msg = (struct fi_msg_atomic){ .msg_iov = &one, .iov_count = 1, .addr = t->a.peer, .rma_iov = &remote, .rma_iov_count = 1,
				      .datatype = FI_INT32, .op = FI_SUM };
	CHECK_RC(fi_fetch_atomicmsg(t->a.ep, &msg, &two, NULL, 1, 0), -FI_EINVAL);
	CHECK_RC(fi_fetch_atomicmsg(t->a.ep, &msg, NULL, NULL, 0, 0), -FI_EINVAL);
	CHECK_RC(fi_fetch_atomicmsg(t->a.ep, &msg, &two, NULL, 5, 0), -FI_EINVAL);
	CHECK_RC(fi_atomicmsg(t->a.ep, NULL, 0), -FI_EINVAL);
	CHECK_RC(fi_atomicmsg(t->a.ep, &msg, FI_TAGGED), -FI_EOPNOTSUPP);
	CHECK_RC(fi_atomicmsg(t->a.ep, &msg, FI_PEEK), -FI_EBADFLAGS);
	CHECK_RC(fi_fetch_atomicmsg(t->a.ep, &msg, &one, NULL, 1, FI_REMOTE_CQ_DATA), -FI_EBADFLAGS);
	if (!(t->info->caps & FI_FENCE))
		CHECK_RC(fi_atomicmsg(t->a.ep, &msg, FI_FENCE), -FI_EBADFLAGS); // was not requested
	remote.count = 2;
	CHECK_RC(fi_atomicmsg(t->a.ep, &msg, 0), -FI_EINVAL);
	remote.count = 1;
	msg.rma_iov_count = 5;
	CHECK_RC(fi_atomicmsg(t->a.ep, &msg, 0), -FI_EINVAL);
	msg.rma_iov_count = 0;
	CHECK_RC(fi_atomicmsg(t->a.ep, &msg, 0), -FI_EINVAL);
	CHECK_RC(fi_atomic(t->a.ep, NULL, 1, NULL, t->a.peer, target.at, target.key, FI_INT32, FI_SUM, NULL), -FI_EINVAL);
	CHECK_RC(fi_compare_atomic(t->a.ep, job.operand.mem, 1, NULL, NULL, NULL, job.result.mem, NULL, t->a.peer, target.at,
				   target.key, FI_INT32, FI_CSWAP, NULL),
		 -FI_EINVAL);
	CHECK(untouched(target.buf, 0));
}

TEST(fi_atomic, not_asked_for, EP_RELIABLE | OURS_ONLY, FI_RMA, "Without FI_ATOMIC an endpoint has no such calls")
{
	size_t count;

	PAIR(t);
	CHECK_EQ(t->info->caps & FI_ATOMIC, 0);
	CHECK_RC(fi_atomicvalid(t->a.ep, FI_INT8, FI_SUM, &count), -FI_ENOSYS);
	CHECK_RC(fi_inject_atomic(t->a.ep, "", 1, t->a.peer, 0, 0, FI_INT8, FI_SUM), -FI_ENOSYS);
}

static void modifier(struct env *t, uint64_t modifiers, int base, int read, int fetch)
{
	size_t count;

	t->hints->caps = FI_ATOMIC | modifiers;
	env_info(t);
	PAIR(t);
	CHECK_RC(fi_atomicvalid(t->a.ep, FI_INT8, FI_SUM, &count), base);
	CHECK_RC(fi_fetch_atomicvalid(t->a.ep, FI_INT8, FI_ATOMIC_READ, &count), read);
	CHECK_RC(fi_fetch_atomicvalid(t->a.ep, FI_INT8, FI_SUM, &count), fetch);
	CHECK_RC(fi_compare_atomicvalid(t->a.ep, FI_INT8, FI_CSWAP, &count), fetch);
}

TEST(fi_atomic, only_writes, EP_RELIABLE | OURS_ONLY, FI_ATOMIC, "With FI_WRITE alone only base operations can be begun")
{
	modifier(t, FI_WRITE | FI_REMOTE_WRITE, 0, -FI_EOPNOTSUPP, -FI_EOPNOTSUPP);
}

TEST(fi_atomic, only_reads, EP_RELIABLE | OURS_ONLY, FI_ATOMIC, "With FI_READ alone only reads can be begun")
{
	modifier(t, FI_READ | FI_REMOTE_READ, -FI_EOPNOTSUPP, 0, -FI_EOPNOTSUPP);
}

TEST(fi_atomic, size_options, EP_RELIABLE | OURS_ONLY, FI_ATOMIC, "FI_OPT_MAX_ATOMIC_SIZE and FI_OPT_INJECT_ATOMIC_SIZE bound the calls, and the valid calls say so")
{
	size_t size, len = sizeof(size), count;
	struct side *a = &t->a;
	uint64_t value[4] = { 0 };

	open_bound_ep(t, a);
	OK(fi_getopt(&a->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MAX_ATOMIC_SIZE, &size, &len));
	CHECK(size >= 64 && size <= t->info->ep_attr->max_msg_size);
	size++;
	CHECK_RC(fi_setopt(&a->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MAX_ATOMIC_SIZE, &size, len), -FI_EINVAL);
	size = 16;
	OK(fi_setopt(&a->ep->fid, FI_OPT_ENDPOINT, FI_OPT_MAX_ATOMIC_SIZE, &size, len));
	OK(fi_getopt(&a->ep->fid, FI_OPT_ENDPOINT, FI_OPT_INJECT_ATOMIC_SIZE, &size, &len));
	// A provider may need room for more than the operands.
	CHECK(size >= 8 && (size <= t->info->tx_attr->inject_size || on_device()));
	size = 8;
	OK(fi_setopt(&a->ep->fid, FI_OPT_ENDPOINT, FI_OPT_INJECT_ATOMIC_SIZE, &size, len));
	if (t->type == FI_EP_RDM)
		OK(fi_enable(a->ep));
	OK(fi_atomicvalid(a->ep, FI_UINT64, FI_SUM, &count));
	CHECK_EQ(count, 2);
	CHECK_RC(fi_atomic(a->ep, value, 3, NULL, 0, 0, 0, FI_UINT64, FI_SUM, NULL), -FI_EMSGSIZE);
	CHECK_RC(fi_inject_atomic(a->ep, value, 2, 0, 0, 0, FI_UINT64, FI_SUM), -FI_EINVAL);
}

// ---- Completions, counters, order

static uint64_t sum_with(struct env *t, struct region *target, uint64_t flags, bool completes)
{
	struct job job = job_of(t, type_of(FI_UINT64), FI_SUM, 0, 1);

	*(uint64_t *)job.operand.mem = 5;
	job.flags = flags;
	POST(t, call(t, target, 0, MESSAGE, &job));
	if (flags & FI_INJECT)
		*(uint64_t *)job.operand.mem = 999;
	if (completes)
		done(t, t->a.txcq, job.ctx, CHANGED);
	// A thread of the library may still be executing it, unless the operation was delivered.
	return __atomic_load_n((uint64_t *)target->buf.mem, __ATOMIC_RELAXED);
}

TEST(fi_atomic, levels, EP_RELIABLE, FI_ATOMIC, "With FI_DELIVERY_COMPLETE the target has changed when the operation completes; the weaker levels complete too")
{
	struct region target;

	PAIR(t);
	target = open_target(t);
	CHECK_EQ(sum_with(t, &target, FI_COMPLETION | FI_DELIVERY_COMPLETE, true), 5);
	sum_with(t, &target, FI_COMPLETION | FI_TRANSMIT_COMPLETE, true);
	sum_with(t, &target, FI_COMPLETION | FI_INJECT_COMPLETE, true);
	sum_with(t, &target, FI_COMPLETION | FI_INJECT, true);
	CHECK_EQ(sum_with(t, &target, FI_COMPLETION | FI_INJECT | FI_DELIVERY_COMPLETE, true), 25);
	nothing(t->a.txcq);
}

TEST(fi_atomic, default_levels, EP_RELIABLE, FI_ATOMIC, "FI_DELIVERY_COMPLETE as default flag holds for fi_atomic")
{
	struct region target;
	struct job job;

	PAIR(t, .tx_op_flags = FI_DELIVERY_COMPLETE);
	target = open_target(t);
	job = job_of(t, type_of(FI_UINT8), FI_ATOMIC_WRITE, 0, 1);
	*job.operand.mem = 77;
	POST(t, call(t, &target, 3, PLAIN, &job));
	done(t, t->a.txcq, job.ctx, CHANGED);
	CHECK_EQ(target.buf.mem[3], 77);
}

TEST(fi_atomic, selective, EP_RELIABLE, FI_ATOMIC, "With FI_SELECTIVE_COMPLETION only operations with FI_COMPLETION are reported")
{
	struct region target;

	PAIR(t, .tx_flags = FI_SELECTIVE_COMPLETION);
	target = open_target(t);
	sum_with(t, &target, 0, false);
	sum_with(t, &target, FI_COMPLETION | FI_DELIVERY_COMPLETE, true);
	CHECK_EQ(*(uint64_t *)target.buf.mem, 10);
	nothing(t->a.txcq);
}

TEST(fi_atomic, remote_data, EP_RELIABLE | OURS_ONLY, FI_ATOMIC, "FI_REMOTE_CQ_DATA of a base operation is reported at the target, after the change")
{
	struct region target;
	struct fi_cq_tagged_entry entry;

	if (is_layered(t))
		SKIP("not offered");
	PAIR(t);
	target = open_target(t);
	sum_with(t, &target, FI_COMPLETION | FI_REMOTE_CQ_DATA, true);
	entry = done(t, t->b.rxcq, NULL, FI_ATOMIC | FI_REMOTE_WRITE | FI_REMOTE_CQ_DATA);
	CHECK_EQ(entry.data, DATA);
	CHECK_EQ(*(uint64_t *)target.buf.mem, 5);
}

TEST(fi_atomic, inject_size, EP_RELIABLE, FI_ATOMIC, "fi_inject_atomic takes inject_size bytes, and leaves the buffer at once")
{
	struct region target;
	struct job job;
	size_t size, count;

	PAIR(t);
	size = t->info->tx_attr->inject_size;
	if (!size)
		SKIP("nothing is injected");
	OK(fi_atomicvalid(t->a.ep, FI_UINT8, FI_ATOMIC_WRITE, &count));
	size = size < count ? size : count;
	target = new_region(t, &t->b, new_buf(t, size + 1, 0), RW);
	job = job_of(t, type_of(FI_UINT8), FI_ATOMIC_WRITE, 0, size);
	fill(job.operand.mem, size, 9);
	POST(t, call(t, &target, 0, INJECTED, &job));
	memset(host_view(job.operand.mem), 0, size);
	flush(t, &target);
	CHECK(holds(target.buf, size, 9));
	nothing(t->a.txcq);
}

TEST(fi_atomic, counters, EP_RELIABLE, FI_ATOMIC | FI_RMA_EVENT, "Counters: FI_WRITE and FI_REMOTE_WRITE for base operations, FI_READ and FI_REMOTE_READ for those with a result")
{
	struct region target;
	struct fid_cntr *cntr[4];
	static const uint64_t flags[4] = { FI_WRITE, FI_READ, FI_REMOTE_WRITE, FI_REMOTE_READ };
	struct job base, fetch, compare;

	if (t->type != FI_EP_RDM)
		SKIP("the pair is bound by hand");
	for (unsigned i = 0; i < 2; i++) {
		struct side *side = i ? &t->b : &t->a;

		open_domain(t);
		for (unsigned k = 2 * i; k < 2 * i + 2; k++)
			cntr[k] = open_cntr(t, FI_WAIT_NONE);
		open_bound_ep(t, side);
		for (unsigned k = 2 * i; k < 2 * i + 2; k++)
			OK(fi_ep_bind(side->ep, &cntr[k]->fid, flags[k]));
		OK(fi_enable(side->ep));
		side->namelen = sizeof(side->name);
		OK(fi_getname(&side->ep->fid, side->name, &side->namelen));
	}
	CHECK_EQ(fi_av_insert(t->a.av, t->b.name, 1, &t->a.peer, 0, NULL), 1);
	target = open_target(t);
	base = job_of(t, type_of(FI_UINT32), FI_SUM, 0, 1);
	fetch = job_of(t, type_of(FI_UINT32), FI_SUM, FI_FETCH_ATOMIC, 1);
	compare = job_of(t, type_of(FI_UINT32), FI_CSWAP, FI_COMPARE_ATOMIC, 1);
	for (unsigned i = 0; i < 3; i++)
		POST(t, call(t, &target, 0, PLAIN, &base));
	POST(t, call(t, &target, 0, PLAIN, &fetch));
	POST(t, call(t, &target, 0, PLAIN, &compare));
	POST(t, call(t, &target, 0, INJECTED, &base));
	ONCE(t, fi_cntr_read(cntr[0]) == 4 && fi_cntr_read(cntr[1]) == 2);
	ONCE(t, fi_cntr_read(cntr[2]) == 4 && fi_cntr_read(cntr[3]) == 2);
	turn(t);
	CHECK_EQ(fi_cntr_read(cntr[2]), 4);
	CHECK_EQ(fi_cntr_read(cntr[3]), 2);
}

TEST(fi_atomic, order, EP_RELIABLE, FI_ATOMIC | FI_RMA, "Operations of one connection happen in the order of the calls: FI_ORDER_ATOMIC_RAW, FI_ORDER_ATOMIC_WAW, FI_ORDER_RAW")
{
	enum { ROUNDS = 300 };
	static const uint64_t need[] = { FI_ORDER_ATOMIC_RAW, FI_ORDER_ATOMIC_WAW, FI_ORDER_RAW };
	struct region target;
	struct buf in, out;
	void *ctx = new_ctx();

	for (unsigned i = 0; i < 3; i++)
		need_order(t, need[i]);
	in = new_buf(t, 2 * ROUNDS * 8, 0);
	out = new_buf(t, ROUNDS * 8, 0);
	PAIR(t);
	target = open_target(t);
	for (unsigned i = 0; i < ROUNDS; i++) {
		((uint64_t *)out.mem)[i] = i + 1;
		POST(t, fi_atomic(t->a.ep, out.mem + 8 * i, 1, out.desc, t->a.peer, target.at, target.key, FI_UINT64, FI_ATOMIC_WRITE, ctx));
		POST(t, fi_fetch_atomic(t->a.ep, NULL, 1, NULL, in.mem + 16 * i, in.desc, t->a.peer, target.at, target.key,
					FI_UINT64, FI_ATOMIC_READ, ctx));
		POST(t, fi_read(t->a.ep, in.mem + 16 * i + 8, 8, in.desc, t->a.peer, target.at, target.key, ctx));
	}
	for (unsigned i = 0; i < 3 * ROUNDS; i++) {
		struct fi_cq_tagged_entry entry;

		wait_comp(t, t->a.txcq, &entry);
	}
	for (unsigned i = 0; i < ROUNDS; i++) {
		CHECK_EQ(((uint64_t *)in.mem)[2 * i], i + 1);
		CHECK_EQ(((uint64_t *)in.mem)[2 * i + 1], i + 1);
	}
}

TEST(fi_atomic, fenced, EP_RELIABLE, FI_ATOMIC | FI_FENCE, "A fenced operation comes after all before it, and completes")
{
	struct region target;
	struct job job;

	PAIR(t);
	target = open_target(t);
	job = job_of(t, type_of(FI_UINT64), FI_SUM, FI_FETCH_ATOMIC, 1);
	*(uint64_t *)job.operand.mem = 1;
	for (unsigned i = 0; i < 10; i++) {
		job.flags = FI_COMPLETION | (i % 3 ? FI_FENCE : 0);
		POST(t, call(t, &target, 0, MESSAGE, &job));
	}
	for (unsigned i = 0; i < 10; i++)
		done(t, t->a.txcq, job.ctx, FETCHED);
	CHECK_EQ(*(uint64_t *)target.buf.mem, 10);
	CHECK_EQ(*(uint64_t *)job.result.mem, 9);
}

TEST(fi_atomic, many, EP_RELIABLE, FI_ATOMIC, "Many operations posted at once are all carried out, and every result is another")
{
	enum { COUNT = 2000 };
	struct region target;
	struct buf one = new_buf(t, 8, 0), in = new_buf(t, COUNT * 8, 0);
	bool seen[COUNT] = { false };
	void *ctx = new_ctx();
	unsigned posted = 0, completed = 0;

	PAIR(t);
	target = open_target(t);
	*(uint64_t *)one.mem = 1;
	for (uint64_t limit = now_ms() + t->limit_ms; completed < COUNT;) {
		struct fi_cq_tagged_entry entry[16];
		ssize_t n;

		if (now_ms() > limit)
			FAIL("%u of %d completed", completed, COUNT);
		progress(t);
		while (posted < COUNT && !fi_fetch_atomic(t->a.ep, one.mem, 1, one.desc, in.mem + 8 * posted, in.desc, t->a.peer,
							  target.at, target.key, FI_UINT64, FI_SUM, ctx))
			posted++;
		n = fi_cq_read(t->a.txcq, entry, 16);
		CHECK(n > 0 || n == -FI_EAGAIN);
		completed += n > 0 ? n : 0;
	}
	for (unsigned i = 0; i < COUNT; i++) {
		uint64_t before = ((uint64_t *)in.mem)[i];

		CHECK(before < COUNT && !seen[before]);
		seen[before] = true;
	}
}

// ---- Several initiators, several domains

enum { ACTORS = 2, EACH = 3000, KINDS = 4 };

// A domain of its own over shared memory, driven by its own thread. Each actor operates on the memory of the other.
struct actor {
	struct env *t;
	struct fid_ep *ep;
	struct fid_cq *cq;
	struct fid_av *av;
	fi_addr_t peer;
	uint64_t at, key;
	struct actor *other;
	bool completed;
};

static struct shared {
	uint64_t word;
	double real;
	unsigned __int128 wide;
	uint8_t odd[16]; // contains a word at its second byte
} shared;

static const struct {
	enum fi_datatype datatype;
	size_t offset;
} kinds[KINDS] = {
	{ FI_UINT64, offsetof(struct shared, word) },
	{ FI_DOUBLE, offsetof(struct shared, real) },
	{ FI_UINT128, offsetof(struct shared, wide) },
	{ FI_UINT64, offsetof(struct shared, odd) + 1 },
};

static void open_actor(struct env *t, struct actor *actor)
{
	struct fi_cq_attr cq = { .format = FI_CQ_FORMAT_TAGGED, .size = 256 };
	struct fi_av_attr av = { .type = FI_AV_TABLE };
	struct fid_domain *domain;
	struct fid_mr *mr;

	actor->t = t;
	OK(fi_domain(t->fabric, t->info, &domain, NULL));
	keep(t, &domain->fid);
	OK(fi_cq_open(domain, &cq, &actor->cq, NULL));
	keep(t, &actor->cq->fid);
	OK(fi_av_open(domain, &av, &actor->av, NULL));
	keep(t, &actor->av->fid);
	OK(fi_mr_reg(domain, &shared, sizeof(shared), RW, 0, ++t->next_key, 0, &mr, NULL));
	keep(t, &mr->fid);
	OK(fi_endpoint(domain, t->info, &actor->ep, NULL));
	keep(t, &actor->ep->fid);
	OK(fi_ep_bind(actor->ep, &actor->cq->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_ep_bind(actor->ep, &actor->av->fid, 0));
	OK(fi_enable(actor->ep));
	actor->at = rma_addr(t, &shared, 0);
	actor->key = fi_mr_key(mr);
}

static void *act(void *argument)
{
	struct actor *actor = argument;
	uint64_t deadline = now_ms() + actor->t->limit_ms;
	unsigned __int128 one[KINDS] = { 1, 0, 1, 1 }, result[KINDS];
	unsigned posted = 0, completed = 0;

	*(double *)&one[1] = 1;
	while (!actor->completed || !__atomic_load_n(&actor->other->completed, __ATOMIC_ACQUIRE)) {
		struct fi_cq_tagged_entry entry[8];
		ssize_t n;

		if (now_ms() > deadline)
			FAIL("%u operations posted, %u completed", posted, completed);
		while (posted < EACH * KINDS && posted - completed < 64) {
			unsigned kind = posted % KINDS;
			ssize_t rc = fi_fetch_atomic(actor->ep, &one[kind], 1, NULL, &result[kind], NULL, actor->peer,
						     actor->other->at + kinds[kind].offset, actor->other->key,
						     kinds[kind].datatype, FI_SUM, NULL);

			if (rc == -FI_EAGAIN)
				break;
			OK(rc);
			posted++;
		}
		n = fi_cq_read(actor->cq, entry, 8);
		if (n != -FI_EAGAIN)
			CHECK(n > 0);
		completed += n > 0 ? n : 0;
		if (completed == EACH * KINDS)
			__atomic_store_n(&actor->completed, true, __ATOMIC_RELEASE);
	}
	return NULL;
}

TEST(fi_atomic, two_domains, EP_RDM, FI_ATOMIC, "Operations through two openings of a domain of the same name on the same elements are atomic")
{
	struct actor actors[ACTORS] = { 0 };
	pthread_t threads[ACTORS];
	uint64_t odd;

	open_fabric(t);
	memset(&shared, 0, sizeof(shared));
	for (unsigned i = 0; i < ACTORS; i++) {
		open_actor(t, &actors[i]);
		actors[i].other = &actors[!i];
	}
	for (unsigned i = 0; i < ACTORS; i++) {
		char name[ADDR_ROOM];
		size_t len = sizeof(name);

		OK(fi_getname(&actors[!i].ep->fid, name, &len));
		CHECK_EQ(fi_av_insert(actors[i].av, name, 1, &actors[i].peer, 0, NULL), 1);
	}
	for (unsigned kind = 0; kind < KINDS; kind++) {
		size_t count;

		OK_OR_SKIP(fi_fetch_atomicvalid(actors[0].ep, kinds[kind].datatype, FI_SUM, &count));
	}
	for (unsigned i = 0; i < ACTORS; i++)
		CHECK(!pthread_create(&threads[i], NULL, act, &actors[i]));
	for (unsigned i = 0; i < ACTORS; i++)
		pthread_join(threads[i], NULL);
	memcpy(&odd, shared.odd + 1, 8);
	CHECK_EQ(shared.word, ACTORS * EACH);
	CHECK_EQ((long long)shared.real, ACTORS * EACH);
	CHECK_EQ((long long)shared.wide, ACTORS * EACH);
	CHECK_EQ(odd, ACTORS * EACH);
}

TEST(fi_atomic, to_oneself, EP_RDM, FI_ATOMIC, "An endpoint can operate on memory of its own")
{
	struct region target;
	struct buf operand = new_buf(t, 8, 0), in = new_buf(t, 8, 0);
	fi_addr_t self;
	void *ctx = new_ctx();

	PAIR(t);
	CHECK_EQ(fi_av_insert(t->a.av, t->a.name, 1, &self, 0, NULL), 1);
	target = new_region(t, &t->a, new_buf(t, ROOM, 0), RW);
	*(uint64_t *)operand.mem = 3;
	for (unsigned i = 0; i < 3; i++) {
		POST(t, fi_fetch_atomic(t->a.ep, operand.mem, 1, operand.desc, in.mem, in.desc, self, target.at, target.key, FI_UINT64, FI_SUM, ctx));
		done(t, t->a.txcq, ctx, FETCHED);
		CHECK_EQ(*(uint64_t *)in.mem, 3 * i);
	}
	CHECK_EQ(*(uint64_t *)target.buf.mem, 9);
}

// ---- Operations that must be refused

static void refused(struct env *t, uint64_t access, uint64_t offset, uint64_t key_offset, uint64_t family, enum fi_op op)
{
	struct region target = new_region(t, &t->b, new_buf(t, ROOM, 0), access);
	struct job job = job_of(t, type_of(FI_UINT32), op, family, 2);
	struct fi_cq_err_entry err = { 0 };

	memset(host_view(job.operand.mem), 1, job.operand.len);
	target.key += key_offset;
	job.flags = FI_COMPLETION | FI_DELIVERY_COMPLETE;
	POST(t, call(t, &target, offset, MESSAGE, &job));
	wait_err(t, t->a.txcq, &err);
	CHECK(err.op_context == job.ctx);
	CHECK(err.err > 0);
	if ((kind_flags(err.flags) & (FI_ATOMIC | FI_READ | FI_WRITE)) != (family ? FETCHED : CHANGED))
		FAIL("flags of the error entry: 0x%" PRIx64, err.flags);
	CHECK(untouched(target.buf, 0) && untouched(job.result, 0));
}

#define REFUSED(RULE, TEXT, ...)                                                                                       \
	TEST(fi_atomic, RULE, EP_RELIABLE, FI_ATOMIC, TEXT " ends in an error entry and changes nothing")              \
	{                                                                                                              \
		PAIR(t);                                                                                               \
		refused(t, __VA_ARGS__);                                                                               \
	}
REFUSED(unknown_key, "An operation with a key that the target does not have", RW, 0, 0x5150, 0, FI_SUM)
REFUSED(unknown_key_fetch, "A fetch with a key that the target does not have", RW, 0, 0x5150, FI_FETCH_ATOMIC, FI_SUM)
REFUSED(past_end, "An operation that reaches past the end of the region", RW, ROOM - 4, 0, 0, FI_SUM)
REFUSED(past_end_compare, "A comparison that reaches past the end of the region", RW, ROOM - 4, 0, FI_COMPARE_ATOMIC, FI_CSWAP_NE)
REFUSED(no_write_right, "A change of a region registered for FI_REMOTE_READ alone", FI_REMOTE_READ, 0, 0, 0, FI_SUM)
REFUSED(no_read_right, "A read of a region registered for FI_REMOTE_WRITE alone", FI_REMOTE_WRITE, 0, 0, FI_FETCH_ATOMIC, FI_ATOMIC_READ)
