/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Calls of fi_getinfo whose results are printed: what getinfo.c and getinfo_shm.c share.
 *
 * An entry is printed in full the first time its kind (endpoint type) appears and as its difference to that one
 * afterwards; a result like the one before is not repeated.
 */
#ifndef GETINFO_H
#define GETINFO_H

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

// Version of the providers of the library: 207.0 at release 2.7.
#define PROVIDER FI_VERSION(100 * FI_MAJOR_VERSION + FI_MINOR_VERSION, 0)
#ifndef V
#define V FI_VERSION(2, 6)
#endif
#define FIELDS 80
#define TEXT 96

struct shown {
	int count;
	char name[FIELDS][40];
	char text[FIELDS][TEXT];
};

static struct shown first[8];	/* by endpoint type: the entry printed in full */
static int all_families, only_same;
static uint64_t not_shown;	/* capabilities that are left out of what is printed */
static char now_text[1 << 16], last_text[1 << 16];	/* the result of this call and of the one before */
static size_t now_length;

static void out(const char *format, ...)
{
	va_list args;
	int length;

	va_start(args, format);
	length = vsnprintf(now_text + now_length, sizeof(now_text) - now_length, format, args);
	va_end(args);
	if (length < 0 || (size_t) length >= sizeof(now_text) - now_length)
		abort();
	now_length += (size_t) length;
}

static void put(struct shown *s, const char *name, const char *format, ...)
{
	va_list args;

	if (s->count == FIELDS)
		abort();
	snprintf(s->name[s->count], sizeof(s->name[0]), "%s", name);
	va_start(args, format);
	vsnprintf(s->text[s->count++], TEXT, format, args);
	va_end(args);
}

/* The number of this process, which is another each time, is PID. Not all say that the zero at the end belongs to it. */
static void put_string(struct shown *s, const char *name, const char *addr, size_t len)
{
	char pid[16], more[16] = "";
	const char *at;

	snprintf(pid, sizeof(pid), "//%d", (int) getpid());
	at = strstr(addr, pid);
	if (!only_same)
		snprintf(more, sizeof(more), "/%+d", (int) (len - strlen(addr)));
	if (at && !at[strlen(pid)])
		put(s, name, "%.*sPID%s", (int) (at + 2 - addr), addr, more);
	else
		put(s, name, "%.60s%s", addr, more);
}

static void put_address(struct shown *s, const char *name, uint32_t format, const void *addr, size_t len)
{
	char host[INET6_ADDRSTRLEN] = "";
	const struct sockaddr *sa = addr;

	if (!addr) {
		put(s, name, "none/%zu", len);
	} else if (format == FI_ADDR_STR) {
		put_string(s, name, addr, len);
	} else if (sa->sa_family == AF_INET) {
		const struct sockaddr_in *in = addr;
		inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
		put(s, name, "%s:%d/%zu", host, ntohs(in->sin_port), len);
	} else if (sa->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in = addr;
		inet_ntop(AF_INET6, &in->sin6_addr, host, sizeof(host));
		put(s, name, "[%s]:%d scope %u/%zu", host, ntohs(in->sin6_port), in->sin6_scope_id, len);
	} else {
		put(s, name, "family %d/%zu", sa->sa_family, len);
	}
}

#define U(part, field) put(s, #part "." #field, "%" PRIu64, (uint64_t) info->part##_attr->field)
#define X(part, field) put(s, #part "." #field, "%#" PRIx64, (uint64_t) info->part##_attr->field)
#define S(part, field) put(s, #part "." #field, "%s", info->part##_attr->field ? info->part##_attr->field : "(null)")

static void show_entry(struct shown *s, const struct fi_info *info)
{
	s->count = 0;
	put(s, "caps", "%#" PRIx64, info->caps & ~not_shown);
	put(s, "mode", "%#" PRIx64, info->mode);
	put(s, "addr_format", "%u", info->addr_format);
	put_address(s, "src", info->addr_format, info->src_addr, info->src_addrlen);
	put_address(s, "dest", info->addr_format, info->dest_addr, info->dest_addrlen);
	put(s, "handle", "%d", info->handle != NULL);
	put(s, "nic", "%d", info->nic != NULL);
	X(tx, caps); X(tx, mode); X(tx, op_flags); X(tx, msg_order); X(tx, comp_order);
	U(tx, inject_size); U(tx, size); U(tx, iov_limit); U(tx, rma_iov_limit); X(tx, tclass);
	X(rx, caps); X(rx, mode); X(rx, op_flags); X(rx, msg_order); X(rx, comp_order);
	U(rx, total_buffered_recv); U(rx, size); U(rx, iov_limit);
	U(ep, type); U(ep, protocol); U(ep, protocol_version); X(ep, max_msg_size); U(ep, msg_prefix_size);
	X(ep, max_order_raw_size); X(ep, max_order_war_size); X(ep, max_order_waw_size); X(ep, mem_tag_format);
	U(ep, tx_ctx_cnt); U(ep, rx_ctx_cnt); U(ep, auth_key_size);
	put(s, "ep.auth_key", "%d", info->ep_attr->auth_key != NULL);
	put(s, "domain.domain", "%d", info->domain_attr->domain != NULL);
	S(domain, name); U(domain, threading); U(domain, control_progress); U(domain, data_progress);
	U(domain, resource_mgmt); U(domain, av_type); X(domain, mr_mode); U(domain, mr_key_size);
	U(domain, cq_data_size); U(domain, cq_cnt); U(domain, ep_cnt); U(domain, tx_ctx_cnt);
	U(domain, rx_ctx_cnt); U(domain, max_ep_tx_ctx); U(domain, max_ep_rx_ctx); U(domain, max_ep_stx_ctx);
	U(domain, max_ep_srx_ctx); U(domain, cntr_cnt); U(domain, mr_iov_limit); put(s, "domain.caps", "%#" PRIx64, info->domain_attr->caps & ~not_shown);
	X(domain, mode); U(domain, auth_key_size);
	put(s, "domain.auth_key", "%d", info->domain_attr->auth_key != NULL);
	U(domain, max_err_data); U(domain, mr_cnt); X(domain, tclass); U(domain, max_ep_auth_key);
	U(domain, max_group_id); X(domain, max_cntr_value); X(domain, max_err_cntr_value);
	put(s, "fabric.fabric", "%d", info->fabric_attr->fabric != NULL);
	S(fabric, name); S(fabric, prov_name); X(fabric, prov_version); X(fabric, api_version);
}

static void print_entry(const struct fi_info *info)
{
	static struct shown now;
	struct shown *base = &first[info->ep_attr->type & 7];
	int i;

	show_entry(&now, info);
	out("  %s", info->ep_attr->type == FI_EP_RDM ? "RDM" : info->ep_attr->type == FI_EP_MSG ? "MSG" : "?");
	for (i = 0; i < now.count; i++) {
		if (!base->count)
			out("\n    %s=%s", now.name[i], now.text[i]);
		else if (strcmp(base->text[i], now.text[i]))
			out(" %s=%s", now.name[i], now.text[i]);
	}
	out("\n");
	if (!base->count)
		*base = now;
}

static int is_ipv6(const struct fi_info *info)
{
	const struct sockaddr *src = info->src_addr, *dest = info->dest_addr;

	return info->addr_format != FI_ADDR_STR && ((src && src->sa_family == AF_INET6) ||
		(dest && dest->sa_family == AF_INET6));
}

static void ask(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
		const char *format, ...)
{
	struct fi_info *list = NULL, *info;
	va_list args;
	int ret;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	ret = fi_getinfo((int) version, node, service, flags, hints, &list);
	printf(": %d", ret);
	now_length = 0;
	out("%s", "");
	for (info = list; !ret && info; info = info->next) {
		if (all_families || !is_ipv6(info))
			print_entry(info);
	}
	if (now_length && !strcmp(now_text, last_text)) {
		printf(", as before\n");
	} else {
		printf("\n%s", now_text);
		strcpy(last_text, now_text);
	}
	if (!ret)
		fi_freeinfo(list);
}

/* The hints that all calls begin with; the program that includes this has its own. */
static struct fi_info *new_hints(void);

/* One call with one hint set. `what` is an assignment to a part of `h`. */
#define HINT(what) do { \
	struct fi_info *h = new_hints(); \
	what; \
	ask(V, NULL, NULL, 0, h, "%s", #what); \
	fi_freeinfo(h); \
} while (0)

/* The same for each of several values. */
#define EACH(what, ...) do { \
	static const uint64_t values[] = { __VA_ARGS__ }; \
	for (size_t n = 0; n < sizeof(values) / sizeof(values[0]); n++) { \
		struct fi_info *h = new_hints(); \
		uint64_t v = values[n]; \
		what; \
		ask(V, NULL, NULL, 0, h, "%s, v = %#" PRIx64, #what, v); \
		fi_freeinfo(h); \
	} \
} while (0)

/* The same for each single bit; for capabilities, without those that make a difference on purpose. */
#define BITS(what) BITS_BUT(0, what)
#define CAP_BITS(what) BITS_BUT(only_same ? OWN_CAPS : 0, what)
#define ORDER_BITS(what) BITS_BUT(only_same ? OWN_ORDERS : 0, what)
#define BITS_BUT(left_out, what) do { \
	for (int n = 0; n < 64; n++) { \
		if ((uint64_t) (left_out) >> n & 1) \
			continue; \
		struct fi_info *h = new_hints(); \
		uint64_t v = 1ULL << n; \
		what; \
		ask(V, NULL, NULL, 0, h, "%s, v = bit %d", #what, n); \
		fi_freeinfo(h); \
	} \
} while (0)

static const uint32_t versions[] = {
	0, FI_VERSION(0, 1), FI_VERSION(1, 0), FI_VERSION(1, 1), FI_VERSION(1, 4), FI_VERSION(1, 5), FI_VERSION(1, 8),
	FI_VERSION(1, 9), FI_VERSION(1, 19), FI_VERSION(1, 20), FI_VERSION(1, 99), FI_VERSION(2, 0), FI_VERSION(2, 4),
	FI_VERSION(2, 5), V, FI_VERSION(2, 7), FI_VERSION(3, 0), FI_VERSION(99, 0), UINT32_MAX,
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif
