// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Options, the selection of instances, the report. Exit status 0 if nothing failed, 1 if something failed, 2 on wrong
//! usage.
#define _GNU_SOURCE
#include "harness.h"

#include <ctype.h>
#include <unistd.h>

enum { MAX_PAIRS = 64, MAX_PROVS = 16, MAX_TEXTS = 32 };

// A line of the file for option -x: an instance that is expected to fail with the library for which the file was
// written.
struct expected {
	char prov[64], type[16], test[160], reason[256];
	bool maybe, used;
	struct expected *next;
};

static struct {
	const char *provs[MAX_PROVS], *type, *texts[MAX_TEXTS];
	unsigned nprovs, ntexts, jobs, limit_s;
	bool list, markdown, verbose, debug;
} opt = { .jobs = 1, .limit_s = 30 };
static struct expected *expected;
static unsigned counts[3];

static void usage(void)
{
	fprintf(stderr,
		"usage: conformance [options]\n"
		"  -p PROVIDER   only this provider (repeatable; \"core\": tests without a provider)\n"
		"  -e TYPE       only this endpoint type: rdm, msg, dgram\n"
		"  -k TEXT       only tests whose page:rule contains TEXT (repeatable)\n"
		"  -x FILE       expected failures, for runs on another library\n"
		"  -j N          run N tests at a time\n"
		"  -t SECONDS    limit of one test (30)\n"
		"  -l, -m        list the tests; list them as Markdown\n"
		"  -6            IP providers on ::1 (127.0.0.1)\n"
		"  -v            show what passing tests print\n"
		"  -d            run the first test that fits in this process, for a debugger\n");
	exit(2);
}

static char *trimmed(char *text)
{
	size_t len = strlen(text);

	while (len && isspace((unsigned char)text[len - 1]))
		text[--len] = '\0';
	while (isspace((unsigned char)*text))
		text++;
	return text;
}

// Lines: `provider/ep_type page:rule  reason`. Either part of the first word may be `*`. A `?` before the line means
// that the test may also pass. `#` begins a comment line.
static void read_expected(const char *path)
{
	FILE *in = fopen(path, "r");
	char line[512];

	if (!in) {
		perror(path);
		exit(2);
	}
	while (fgets(line, sizeof(line), in)) {
		struct expected *entry;
		char *text = trimmed(line);
		int used = 0;

		if (!*text || *text == '#')
			continue;
		entry = calloc(1, sizeof(*entry));
		if (*text == '?') {
			entry->maybe = true;
			text = trimmed(text + 1);
		}
		if (sscanf(text, "%63[^/]/%15s %159s%n", entry->prov, entry->type, entry->test, &used) != 3) {
			fprintf(stderr, "%s: not understood: %s\n", path, text);
			exit(2);
		}
		snprintf(entry->reason, sizeof(entry->reason), "%s", trimmed(text + used));
		entry->next = expected;
		expected = entry;
	}
	fclose(in);
}

static const char *prov_of(const struct instance *instance)
{
	return instance->prov ? instance->prov : "core";
}

static struct expected *expectation(const struct instance *instance)
{
	char name[160];

	snprintf(name, sizeof(name), "%s:%s", instance->test->page, instance->test->rule);
	for (struct expected *at = expected; at; at = at->next)
		if ((!strcmp(at->prov, "*") || !strcmp(at->prov, prov_of(instance))) &&
		    (!strcmp(at->type, "*") || !strcmp(at->type, ep_type_name(instance->type))) &&
		    !strcmp(at->test, name))
			return at;
	return NULL;
}

static void judge(const struct instance *instance, struct result *result)
{
	struct expected *entry = expectation(instance);
	char reason[sizeof(result->reason) + sizeof(entry->reason) + 32];

	if (!entry || result->outcome == SKIPPED)
		return;
	entry->used = true;
	if (result->outcome == FAILED) {
		result->outcome = SKIPPED;
		snprintf(reason, sizeof(reason), "expected: %s; %s", entry->reason, result->reason);
	} else if (!entry->maybe) {
		result->outcome = FAILED;
		snprintf(reason, sizeof(reason), "passes although listed as an expected failure");
	} else {
		return;
	}
	snprintf(result->reason, sizeof(result->reason), "%.*s", (int)sizeof(result->reason) - 1, reason);
}

static void report(const struct instance *instance, struct result *result)
{
	static const char *const words[] = { "ok  ", "FAIL", "skip" };

	judge(instance, result);
	counts[result->outcome]++;
	printf("%s %s/%s %s:%s%s%s%s\n", words[result->outcome], prov_of(instance), ep_type_name(instance->type),
	       instance->test->page, instance->test->rule, result->reason[0] ? " (" : "", result->reason,
	       result->reason[0] ? ")" : "");
	if (result->output && (opt.verbose || result->outcome == FAILED))
		for (char *line = strtok(result->output, "\n"); line; line = strtok(NULL, "\n"))
			printf("     | %s\n", line);
	fflush(stdout);
}

static bool chosen(const struct test *test)
{
	char name[160];

	snprintf(name, sizeof(name), "%s:%s", test->page, test->rule);
	if (!opt.ntexts)
		return true;
	for (unsigned i = 0; i < opt.ntexts; i++)
		if (strstr(name, opt.texts[i]))
			return true;
	return false;
}

static bool wanted_prov(const char *prov)
{
	if (!opt.nprovs)
		return true;
	for (unsigned i = 0; i < opt.nprovs; i++)
		if (!strcmp(opt.provs[i], prov))
			return true;
	return false;
}

static const char *where_text(unsigned where)
{
	static char text[64];

	snprintf(text, sizeof(text), "%s%s%s%s%s", where & EP_RDM ? " rdm" : "", where & EP_MSG ? " msg" : "",
		 where & EP_DGRAM ? " dgram" : "", where & CORE ? " core" : "", where & OURS_ONLY ? " ours" : "");
	return text + 1;
}

static const char *difference(const struct test *test)
{
	char name[160];

	snprintf(name, sizeof(name), "%s:%s", test->page, test->rule);
	for (struct expected *at = expected; at; at = at->next)
		if (!strcmp(at->test, name))
			return at->reason;
	return "";
}

static void markdown_head(void)
{
	printf("# Conformance: the rules and their tests\n\n"
	       "Written by `make -C ctests/conformance docs`; not to be edited. Each rule of a manual page, in our words, has\n"
	       "a test named after it in ctests/conformance, which runs for every provider and endpoint type that offers what\n"
	       "it needs. Pages whose names are no manual page: `badinput` holds calls that no correct program makes, `wire_*`\n"
	       "what a transport does with the bytes of a peer. `ours` marks what only this library promises. The last column\n"
	       "says where release 2.6.0 of the original does something else (provider tcp).\n");
}

static void list_tests(void)
{
	const char *page = "";

	if (opt.markdown)
		markdown_head();

	for (struct test *test = test_list(); test; test = test->next) {
		const char *file = strrchr(test->file, '/');

		if (!chosen(test))
			continue;
		file = file ? file + 1 : test->file;
		if (!opt.markdown) {
			printf("%s:%s\t%s\t%s\t%s:%d\n", test->page, test->rule, where_text(test->where), test->text, file,
			       test->line);
			continue;
		}
		if (strcmp(page, test->page))
			printf("\n## %s\n\n| Rule | Test | Runs on | In | Original library |\n|---|---|---|---|---|\n",
			       page = test->page);
		printf("| %s | `%s` | %s | %s | %s |\n", test->text, test->rule, where_text(test->where), file,
		       difference(test));
	}
}

static unsigned where_of(enum fi_ep_type type)
{
	return type == FI_EP_RDM ? EP_RDM : type == FI_EP_MSG ? EP_MSG : type == FI_EP_DGRAM ? EP_DGRAM : 0;
}

static size_t choose(struct instance **list)
{
	static char provs[MAX_PAIRS][64];
	static enum fi_ep_type types[MAX_PAIRS];
	size_t pairs = offered(provs, types, MAX_PAIRS), count = 0;

	*list = NULL;
	for (struct test *test = test_list(); test; test = test->next) {
		if (!chosen(test))
			continue;
		*list = realloc(*list, (count + pairs + 1) * sizeof(**list));
		if ((test->where & CORE) && !opt.type && wanted_prov("core"))
			(*list)[count++] = (struct instance){ .test = test };
		for (size_t i = 0; i < pairs; i++)
			if ((test->where & where_of(types[i])) && wanted_prov(provs[i]) &&
			    (!opt.type || !strcmp(opt.type, ep_type_name(types[i]))))
				(*list)[count++] = (struct instance){ test, provs[i], types[i] };
	}
	return count;
}

int main(int argc, char **argv)
{
	struct instance *list;
	size_t count;
	int c;

	while ((c = getopt(argc, argv, "p:e:k:x:j:t:lmvd6")) != -1) {
		switch (c) {
		case 'p':
			if (opt.nprovs == MAX_PROVS)
				usage();
			opt.provs[opt.nprovs++] = optarg;
			break;
		case 'e':
			opt.type = optarg;
			break;
		case 'k':
			if (opt.ntexts == MAX_TEXTS)
				usage();
			opt.texts[opt.ntexts++] = optarg;
			break;
		case 'x':
			read_expected(optarg);
			break;
		case 'j':
			opt.jobs = strtoul(optarg, NULL, 10) ?: 1;
			break;
		case 't':
			opt.limit_s = strtoul(optarg, NULL, 10) ?: 1;
			break;
		case 'm':
			opt.markdown = true; // fall through
		case 'l':
			opt.list = true;
			break;
		case 'v':
			opt.verbose = true;
			break;
		case '6':
			over_ipv6 = true;
			break;
		case 'd':
			opt.debug = true;
			break;
		default:
			usage();
		}
	}
	if (optind != argc)
		usage();
	if (opt.list) {
		list_tests();
		return 0;
	}
	count = choose(&list);
	if (!count) {
		fprintf(stderr, "conformance: no test fits\n");
		return 2;
	}
	if (opt.debug)
		run_here(list);
	if (run_all(list, count, opt.jobs, opt.limit_s, report))
		return 2;
	free(list);
	printf("%u passed, %u failed, %u skipped\n", counts[PASSED], counts[FAILED], counts[SKIPPED]);
	return counts[FAILED] != 0;
}
