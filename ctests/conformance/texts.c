// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_errno(3), fi_fabric(3), fi_control(3): error numbers and their texts, values as text, commands of any object.
#include "harness.h"

#include <pthread.h>

// ---- fi_errno(3)

#define CODES(X)                                                                                                       \
	X(ENOENT) X(EIO) X(E2BIG) X(EBADF) X(EAGAIN) X(ENOMEM) X(EACCES) X(EBUSY) X(ENODEV) X(EINVAL) X(EMFILE)        \
	X(ENOSPC) X(ENOSYS) X(EWOULDBLOCK) X(ENOMSG) X(ENODATA) X(EOVERFLOW) X(EMSGSIZE) X(ENOPROTOOPT) X(EOPNOTSUPP)  \
	X(EADDRINUSE) X(EADDRNOTAVAIL) X(ENETDOWN) X(ENETUNREACH) X(ECONNABORTED) X(ECONNRESET) X(ENOBUFS) X(EISCONN)  \
	X(ENOTCONN) X(ESHUTDOWN) X(ETIMEDOUT) X(ECONNREFUSED) X(EHOSTDOWN) X(EHOSTUNREACH) X(EALREADY) X(EINPROGRESS)  \
	X(EREMOTEIO) X(ECANCELED) X(EKEYREJECTED)

#define OWN_CODES(X)                                                                                                   \
	X(EOTHER) X(ETOOSMALL) X(EOPBADSTATE) X(EAVAIL) X(EBADFLAGS) X(ENOEQ) X(EDOMAIN) X(ENOCQ) X(ECRC) X(ETRUNC)    \
	X(ENOKEY) X(ENOAV) X(EOVERRUN) X(ENORX) X(ENOMR) X(EFIREWALLADDR)

#define AS_FI(CODE) FI_##CODE,

TEST(fi_errno, every_code_has_a_text, CORE, 0, "fi_strerror describes every code of the page, each in its own words, and no code is one of another meaning")
{
	static const int codes[] = { 0, CODES(AS_FI) OWN_CODES(AS_FI) };
	enum { COUNT = sizeof(codes) / sizeof(codes[0]) };
	char texts[COUNT][128];

	for (int i = 0; i < COUNT; i++) {
		const char *text = fi_strerror(codes[i]);

		CHECK(text && *text && strlen(text) < sizeof(texts[i]));
		strcpy(texts[i], text);
		for (int k = 0; k < i; k++)
			if (codes[k] != codes[i] && !strcmp(texts[k], texts[i]))
				FAIL("%d and %d are both \"%s\"", codes[k], codes[i], text);
	}
}

TEST(fi_errno, system_codes, CORE, 0, "The codes that the system has too have the system's numbers")
{
#define SAME(CODE) CHECK_EQ(FI_##CODE, CODE);
	CODES(SAME)
}

TEST(fi_errno, own_codes, CORE, 0, "The codes that only fabrics have begin at 256, above the system's")
{
	static const int codes[] = { OWN_CODES(AS_FI) };

	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		CHECK(codes[i] >= FI_ERRNO_OFFSET && codes[i] < FI_ERRNO_MAX);
}

TEST(fi_errno, unknown_codes, CORE, 0, "fi_strerror has a text for numbers that are no code, negative ones too")
{
	static const int codes[] = { -1, -FI_EINVAL, FI_ERRNO_MAX, 100000, 1 << 30, INT32_MAX, INT32_MIN };

	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		const char *text = fi_strerror(codes[i]);

		CHECK(text && *text);
	}
}

// ---- fi_fabric(3): fi_tostr, fi_tostr_r

TEST(fi_fabric, tostr_of_info, EP_ANY, FI_MSG, "fi_tostr prints an fi_info with all its parts")
{
	const char *text = fi_tostr(t->info, FI_TYPE_INFO);

	CHECK(text);
	CHECK(strstr(text, t->info->fabric_attr->prov_name));
	CHECK(strstr(text, t->info->domain_attr->name));
	CHECK(strstr(text, "fi_tx_attr") && strstr(text, "fi_rx_attr") && strstr(text, "fi_ep_attr"));
	CHECK(strstr(text, "fi_domain_attr") && strstr(text, "fi_fabric_attr"));
}

TEST(fi_fabric, tostr_of_version, CORE, 0, "FI_TYPE_VERSION: the version of the library")
{
	uint32_t version = fi_version();
	char want[32];
	const char *text;
	int dummy = 0;

	snprintf(want, sizeof(want), "%u.%u.", FI_MAJOR(version), FI_MINOR(version));
	text = fi_tostr(&dummy, FI_TYPE_VERSION);
	CHECK(text && !strncmp(text, want, strlen(want)));
}

TEST(fi_fabric, tostr_r_respects_the_buffer, EP_ANY, FI_MSG, "fi_tostr_r writes into the caller's buffer, no byte more than it has, and returns its start")
{
	static char whole[1 << 16], buf[1 << 16];
	size_t len;

	CHECK(fi_tostr_r(whole, sizeof(whole), t->info, FI_TYPE_INFO) == whole);
	CHECK_STR(fi_tostr(t->info, FI_TYPE_INFO), whole);
	len = strlen(whole);
	for (size_t room = 1; room <= len + 1; room += 1 + room / 8) {
		memset(buf, 0x5a, sizeof(buf));
		CHECK(fi_tostr_r(buf, room, t->info, FI_TYPE_INFO) == buf);
		CHECK(memchr(buf, 0, room));
		for (size_t i = room; i < len + 64; i++)
			CHECK_EQ(buf[i], 0x5a);
	}
}

static void *tostr_main(void *arg)
{
	static const char *const want[2] = { "FI_EP_MSG", "FI_EP_RDM" };
	char text[64];

	for (int i = 0; i < 20000; i++) {
		enum fi_ep_type type = i & 1 ? FI_EP_RDM : FI_EP_MSG;

		if (strcmp(fi_tostr_r(text, sizeof(text), &type, FI_TYPE_EP_TYPE), want[i & 1]))
			*(_Atomic bool *)arg = true;
	}
	return NULL;
}

TEST(fi_fabric, tostr_r_in_threads, CORE, 0, "fi_tostr_r is re-entrant: threads do not disturb each other")
{
	pthread_t threads[4];
	_Atomic bool wrong = false;

	for (int i = 0; i < 4; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, tostr_main, (void *)&wrong), 0);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	CHECK(!wrong);
}

// ---- fi_control(3)

TEST(fi_control, unknown_value, EP_ANY, FI_MSG, "fi_get_val and fi_set_val of a parameter that an object does not have are refused")
{
	struct fid_cq *cq = open_cq(t, FI_CQ_FORMAT_MSG, FI_WAIT_NONE);
	struct fid *fids[] = { &t->fabric->fid, &t->domain->fid, &cq->fid };
	uint64_t value = 77;

	for (size_t i = 0; i < sizeof(fids) / sizeof(fids[0]); i++) {
		CHECK(fi_get_val(fids[i], 0x7ffffff, &value) < 0);
		CHECK_EQ(value, 77);
		CHECK(fi_set_val(fids[i], 0x7ffffff, &value) < 0);
	}
}

TEST(fi_control, alias_of_others, EP_ANY, FI_MSG, "fi_alias of an object that has no aliases is refused and gives none")
{
	struct fid_cq *cq = open_cq(t, FI_CQ_FORMAT_MSG, FI_WAIT_NONE);
	struct fid *fids[] = { &t->fabric->fid, &t->domain->fid, &cq->fid };

	for (size_t i = 0; i < sizeof(fids) / sizeof(fids[0]); i++) {
		struct fid *alias = NULL;

		CHECK(fi_alias(fids[i], &alias, 0) < 0);
		CHECK(!alias);
	}
}
