/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Inline functions that call a named function of the library, beside the symbols of their names: fi_allocinfo,
 * fi_import, fi_import_log, fi_param_get_*. The others are compared by inline.py. Each case runs in a process of its
 * own, because an imported log stays.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_ext.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

static int failures;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("line %d, %s: %s\n", __LINE__, symbols ? "symbol" : "inline", #condition);      \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)

/* The function of that name: the header's, or the library's. */
#define NAMED(name) (symbols ? (__typeof__(&name)) dlsym(RTLD_DEFAULT, #name) : name)

static int lines_seen;

static int log_enabled(const struct fi_provider *prov, enum fi_log_level level, enum fi_log_subsys subsys,
                       uint64_t flags)
{
    (void) prov, (void) subsys, (void) flags;
    return level == FI_LOG_WARN;
}

static int log_ready(const struct fi_provider *prov, enum fi_log_level level, enum fi_log_subsys subsys,
                     uint64_t flags, uint64_t *showtime)
{
    (void) showtime;
    return log_enabled(prov, level, subsys, flags);
}

static void log_line(const struct fi_provider *prov, enum fi_log_level level, enum fi_log_subsys subsys,
                     const char *func, int line, const char *msg)
{
    (void) prov, (void) level, (void) subsys, (void) func, (void) line;
    lines_seen += strstr(msg, "seven is 7") != NULL;
}

static void allocinfo(bool symbols)
{
    struct fi_info *info = NAMED(fi_allocinfo)();

    CHECK(info && info->tx_attr && info->rx_attr && info->ep_attr && info->domain_attr && info->fabric_attr);
    CHECK(info && !info->next && !info->caps && !info->nic && !info->ep_attr->type);
    fi_freeinfo(info);
}

static void import_log(bool symbols)
{
    struct fi_ops_log ops = { .enabled = log_enabled, .ready = log_ready, .log = log_line };
    struct fid_logging log = { .ops = &ops };
    struct fi_provider provider = { .version = FI_VERSION(1, 0), .name = "test" };

    CHECK(NAMED(fi_import_log)(FI_VERSION(2, 6), 0, &log) == 0);
    CHECK(log.fid.fclass == FI_CLASS_LOG && ops.size == sizeof(ops));
    FI_WARN(&provider, FI_LOG_CORE, "seven is %d\n", 7);
    CHECK(lines_seen == 1);
    FI_INFO(&provider, FI_LOG_CORE, "seven is %d\n", 7);
    CHECK(lines_seen == 1);
    if (symbols)
        CHECK(NAMED(fi_import_log)(FI_VERSION(2, 6), 0, NULL) == -FI_EINVAL);
}

static void import(bool symbols)
{
    struct fi_ops_log ops = { .size = sizeof(ops), .enabled = log_enabled, .ready = log_ready, .log = log_line };
    struct fid_logging log = { .fid.fclass = FI_CLASS_LOG, .ops = &ops };
    struct fid_logging other = { .fid.fclass = FI_CLASS_MR, .ops = &ops };
    int wanted, ret;
    struct fid *fid = NULL;

    /* A name that does not exist: what fi_open says. */
    wanted = fi_open(FI_VERSION(2, 6), "no such name", NULL, 0, 0, &fid, NULL);
    ret = NAMED(fi_import)(FI_VERSION(2, 6), "no such name", NULL, 0, 0, &log.fid, NULL);
    CHECK(wanted < 0 && ret == wanted);
    /* An object of another kind: what its bind says. */
    CHECK(NAMED(fi_import)(FI_VERSION(2, 6), "logging", NULL, 0, 0, &other.fid, NULL) < 0);
    CHECK(NAMED(fi_import)(FI_VERSION(2, 6), "logging", NULL, 0, 0, &log.fid, NULL) == 0);
}

static void params(bool symbols)
{
    struct fi_provider provider = { .version = FI_VERSION(1, 0), .name = "test" };
    char *text = NULL;
    int number = -1, yes = -1;
    size_t size = 1;

    setenv("FI_TEST_NUMBER", "-12", 1);
    setenv("FI_TEST_YES", "on", 1);
    setenv("FI_TEST_SIZE", "5000000000", 1);
    setenv("FI_TEST_TEXT", "words", 1);
    CHECK(!fi_param_define(&provider, "number", FI_PARAM_INT, "a number"));
    CHECK(!fi_param_define(&provider, "yes", FI_PARAM_BOOL, "yes or no"));
    CHECK(!fi_param_define(&provider, "size", FI_PARAM_SIZE_T, "a size"));
    CHECK(!fi_param_define(&provider, "text", FI_PARAM_STRING, "text"));
    CHECK(!fi_param_define(&provider, "unset", FI_PARAM_STRING, "nothing"));
    CHECK(!NAMED(fi_param_get_int)(&provider, "number", &number) && number == -12);
    CHECK(!NAMED(fi_param_get_bool)(&provider, "yes", &yes) && yes == 1);
    CHECK(!NAMED(fi_param_get_size_t)(&provider, "size", &size) && size == 5000000000);
    CHECK(!NAMED(fi_param_get_str)(&provider, "text", &text) && text && !strcmp(text, "words"));
    CHECK(NAMED(fi_param_get_str)(&provider, "unset", &text) == -FI_ENODATA);
    CHECK(NAMED(fi_param_get_str)(&provider, "undefined", &text) == -FI_ENOENT);
}

int main(void)
{
    static const struct { const char *name; void (*run)(bool symbols); } cases[] = {
        { "allocinfo", allocinfo }, { "import_log", import_log }, { "import", import }, { "params", params },
    };
    int failed = 0;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (int symbols = 0; symbols < 2; symbols++) {
            int status;
            pid_t child;

            fflush(NULL);
            child = fork();
            if (!child) {
                cases[i].run(symbols);
                fflush(NULL);
                _exit(failures != 0);
            }
            if (child < 0 || waitpid(child, &status, 0) < 0 || status) {
                printf("%s failed\n", cases[i].name);
                failed = 1;
            }
        }
    }
    return failed;
}
