// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// A log in a private file of this process, and a provider that writes to it.

#ifndef LOG_FILE_H
#define LOG_FILE_H

#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

#include "check.h"

static struct fi_provider provider __attribute__((unused)) = {
	.version = FI_VERSION(1, 0),
	.fi_version = FI_VERSION(2, 6),
	.name = "My_Prov",
};

static char log_file[64];

static void log_to_file(const char *level)
{
	snprintf(log_file, sizeof log_file, "/tmp/fabric-log-%d", (int) getpid());
	unlink(log_file);
	if (level)
		setenv("FI_LOG_LEVEL", level, 1);
	setenv("FI_LOG_LOCATION", log_file, 1);
}

// Content of the log so far, without "libfabric:PID:SECONDS::" at the beginning of each line.
static const char *logged(void)
{
	static char lines[65536];
	char line[32768], begin[64];
	FILE *file = fopen(log_file, "r");
	size_t length = 0;

	lines[0] = 0;
	CHECK(file != NULL);
	snprintf(begin, sizeof begin, "libfabric:%d:", (int) getpid());
	while (file && fgets(line, sizeof line, file)) {
		char *rest = strstr(line, "::");

		CHECK(!strncmp(line, begin, strlen(begin)));
		CHECK(rest && strspn(line + strlen(begin), "0123456789") == (size_t) (rest - line) - strlen(begin));
		if (rest)
			length += snprintf(lines + length, sizeof lines - length, "%s", rest + 2);
	}
	if (file)
		fclose(file);
	unlink(log_file);
	return lines;
}

#endif
