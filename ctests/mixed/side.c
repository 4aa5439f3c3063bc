// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The process: its options, the library it uses, the lines it exchanges with its partner, the bytes it verifies.
#define _GNU_SOURCE
#include "side.h"

#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <time.h>
#include <unistd.h>

struct options options = { .rounds = 1, .limit_ms = 9500, .provider = "tcp" };

static char place[256] = "starting";

// ---- Current activity

void doing(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(place, sizeof(place), format, args);
	va_end(args);
}

void fail(const char *file, int line, const char *format, ...)
{
	va_list args;

	printf("%s:%d: ", file, line);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("; at: %s\n", place);
	fflush(stdout);
	_exit(1);
}

static void time_is_up(int signal)
{
	static const char text[] = "\nstopped at: ";

	(void) signal;
	if (write(1, text, sizeof(text) - 1) > 0 && write(1, place, strlen(place)) > 0 && write(1, "\n", 1) > 0)
		_exit(1);
	_exit(2);
}

uint64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t) now.tv_sec * 1000000 + (uint64_t) now.tv_nsec / 1000;
}

unsigned chance(unsigned below)
{
	static uint64_t state;

	state = (state ? state : options.seed * 2 + options.server + 1) * 6364136223846793005u + 1442695040888963407u;
	return (unsigned) (state >> 33) % below;
}

// ---- Lines. "> text" is for the partner, "! text" for the runner, anything else is output.

static void line(char kind, const char *format, va_list args)
{
	printf("%c ", kind);
	vprintf(format, args);
	printf("\n");
	fflush(stdout);
}

void say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	line('>', format, args);
	va_end(args);
}

void ask(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	line('!', format, args);
	va_end(args);
}

const char *hear(struct link *link)
{
	static char held[MAX_LINE], answer[MAX_LINE];
	static size_t len;

	for (unsigned turn = 0;; turn++) {
		char *end = memchr(held, '\n', len);
		struct pollfd in = { .fd = 0, .events = POLLIN };
		ssize_t got;

		if (end) {
			size_t used = (size_t) (end - held) + 1;

			memcpy(answer, held, used - 1);
			answer[used - 1] = 0;
			len -= used;
			memmove(held, held + used, len);
			return answer;
		}
		// Makes progress without taking completions.
		if (link && link->cq)
			fi_cq_read(link->cq, NULL, 0);
		if (poll(&in, 1, !link || !link->cq ? -1 : turn > 100) != 1)
			continue;
		got = read(0, held + len, sizeof(held) - len);
		if (got <= 0)
			FAIL("the partner is gone");
		len += (size_t) got;
	}
}

void expect(struct link *link, const char *line)
{
	const char *heard = hear(link);

	if (strcmp(heard, line))
		FAIL("the partner says \"%s\", not \"%s\"", heard, line);
}

void meet(struct link *link, const char *where)
{
	say("%s", where);
	expect(link, where);
}

void say_bytes(const void *bytes, size_t len)
{
	char text[MAX_LINE] = "";

	CHECK(len * 2 < sizeof(text));
	for (size_t i = 0; i < len; i++)
		sprintf(text + 2 * i, "%02x", ((const uint8_t *) bytes)[i]);
	say("%s", text);
}

size_t hear_bytes(struct link *link, void *bytes, size_t max)
{
	const char *text = hear(link);
	size_t len = strlen(text) / 2;

	CHECK(len <= max);
	for (size_t i = 0; i < len; i++) {
		unsigned byte;

		CHECK(sscanf(text + 2 * i, "%2x", &byte) == 1);
		((uint8_t *) bytes)[i] = (uint8_t) byte;
	}
	return len;
}

// ---- Bytes. A message shifted, repeated, or of another seed differs in nearly every byte.

enum { POISON = 0xe5, GUARD = 64 };

static uint64_t word_at(size_t i, uint64_t seed)
{
	uint64_t word = (i + 1) * 0x9e3779b97f4a7c15u ^ (seed + 1) * 0xd6e8feb86659fd93u;

	return word ^ word >> 29;
}

void fill(uint8_t *mem, size_t len, uint64_t seed)
{
	for (size_t i = 0; i < len; i += 8) {
		uint64_t word = word_at(i, seed);

		memcpy(mem + i, &word, len - i < 8 ? len - i : 8);
	}
}

void verify(const uint8_t *mem, size_t len, uint64_t seed)
{
	for (size_t i = 0; i < len; i += 8) {
		uint64_t word = word_at(i, seed);

		if (!memcmp(mem + i, &word, len - i < 8 ? len - i : 8))
			continue;
		for (size_t k = i; k < i + 8 && k < len; k++)
			if (mem[k] != ((uint8_t *) &word)[k - i])
				FAIL("byte %zu of %zu is %#x, not %#x", k, len, mem[k], ((uint8_t *) &word)[k - i]);
	}
}

struct buf new_buf(size_t len)
{
	struct buf buf = { malloc(len + GUARD), len };

	CHECK(buf.mem);
	poison(buf);
	return buf;
}

void free_buf(struct buf buf)
{
	free(buf.mem);
}

void poison(struct buf buf)
{
	memset(buf.mem, POISON, buf.len + GUARD);
}

void verify_buf(struct buf buf, size_t len, uint64_t seed)
{
	verify(buf.mem, len, seed);
	for (size_t i = len; i < len + GUARD; i++)
		if (buf.mem[i] != POISON)
			FAIL("byte %zu behind a message of %zu was written", i - len, len);
}

void verify_guard(struct buf buf)
{
	verify_buf((struct buf){ buf.mem + buf.len, 0 }, 0, 0);
}

// ---- The process

// Prints the path of the loaded library, so that no run passes with the wrong one.
static void show_library(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char row[MAX_LINE], *path;

	CHECK(maps);
	while (fgets(row, sizeof(row), maps))
		if ((path = strchr(row, '/')) && strstr(path, "/libfabric")) {
			path[strcspn(path, "\n")] = 0;
			ask("library %u.%u %s", FI_MAJOR(fi_version()), FI_MINOR(fi_version()), path);
			break;
		}
	fclose(maps);
}

static bool option(const char *text)
{
	const char *value = strchr(text, '=');
	struct {
		const char *name;
		bool *flag;
		unsigned *number;
	} known[] = {
		{ "server", &options.server, NULL },	 { "msg", &options.msg, NULL },
		{ "tagged", &options.tagged, NULL },	 { "delivery", &options.delivery, NULL },
		{ "late", &options.late, NULL },	 { "waits", &options.waits, NULL },
		{ "basic", &options.basic, NULL },	 { "client_first", &options.client_first, NULL },
		{ "dgram", &options.dgram, NULL },	 { "atomics", &options.atomics, NULL },
		{ "linked", &options.linked, NULL },
		{ "plain", &options.plain, NULL },
		{ "rounds", NULL, &options.rounds },	 { "seed", NULL, &options.seed },
		{ "life", NULL, &options.life },	 { "limit_ms", NULL, &options.limit_ms },
	};
	size_t len = value ? (size_t) (value - text) : strlen(text);

	for (unsigned i = 0; i < sizeof(known) / sizeof(*known); i++) {
		if (strlen(known[i].name) != len || strncmp(known[i].name, text, len) || (value != NULL) == (known[i].flag != NULL))
			continue;
		if (value)
			*known[i].number = (unsigned) strtoul(value + 1, NULL, 0);
		else
			*known[i].flag = true;
		return true;
	}
	if (value && !strncmp(text, "port", len)) {
		options.port = value + 1;
		return true;
	}
	if (value && !strncmp(text, "provider", len)) {
		options.provider = value + 1;
		return true;
	}
	if (!value || strncmp(text, "sizes", len))
		return false;
	while (*value && options.size_count < MAX_SIZES)
		options.sizes[options.size_count++] = strtoull(value + 1, (char **) &value, 0);
	return true;
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "pingpong", case_pingpong }, { "late", case_late },	      { "window", case_window },
	{ "data", case_data },	       { "inject", case_inject },     { "multi", case_multi },
	{ "rma", case_rma },	       { "connect", case_connect },   { "crossing", case_crossing },
	{ "restart", case_restart },   { "atomic", case_atomic },
};

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, MAX_LINE);
	signal(SIGTERM, time_is_up);
	signal(SIGPIPE, SIG_IGN);
	for (int i = 2; i < argc; i++)
		if (!option(argv[i]))
			FAIL("unknown option %s", argv[i]);
	show_library();
	for (unsigned i = 0; argc > 1 && i < sizeof(cases) / sizeof(*cases); i++)
		if (!strcmp(cases[i].name, argv[1])) {
			cases[i].run();
			ask("passed");
			return 0;
		}
	FAIL("usage: mixed CASE OPTION...");
}
