// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Address vectors: a table of IPv4 addresses. fi_av(3)

#include "carry.h"

#include <arpa/inet.h>
#include <stdio.h>

#define SCHEME "fi_sockaddr_in://"
#define LOCK(AV) carry_lock((AV)->domain->fabric)
#define UNLOCK(AV) carry_unlock((AV)->domain->fabric)

static int insert_one(struct carry_av *av, const struct sockaddr_in *addr, fi_addr_t *out)
{
	size_t at = 0;

	if (addr->sin_family != AF_INET || !addr->sin_port || !addr->sin_addr.s_addr)
		return FI_EINVAL;
	while (at < av->end && av->peers[at].sin_family)
		at++;
	if (at == av->room) {
		struct sockaddr_in *more = realloc(av->peers, 2 * av->room * sizeof(*more));

		if (!more)
			return FI_ENOMEM;
		av->peers = more;
		av->room *= 2;
	}
	if (at == av->end)
		av->end++;
	av->peers[at] = *addr;
	*out = at;
	return 0;
}

static int insert_all(struct carry_av *av, const struct sockaddr_in *addr, size_t count, fi_addr_t *out, uint64_t flags,
		      void *context)
{
	int done = 0, *errors = flags & FI_SYNC_ERR ? context : NULL;

	LOCK(av);
	for (size_t i = 0; i < count; i++) {
		fi_addr_t value = FI_ADDR_NOTAVAIL;
		int err = insert_one(av, &addr[i], &value);

		done += !err;
		if (out)
			out[i] = value;
		if (errors)
			errors[i] = err;
	}
	UNLOCK(av);
	return done;
}

static int check_flags(uint64_t flags, void *context)
{
	if (flags & ~(FI_MORE | FI_SYNC_ERR | FI_FIREWALL_ADDR))
		return -FI_EBADFLAGS;
	if (flags & FI_FIREWALL_ADDR)
		return -FI_EOPNOTSUPP;
	return flags & FI_SYNC_ERR && !context ? -FI_EINVAL : 0;
}

static int av_insert(struct fid_av *fid, const void *addr, size_t count, fi_addr_t *out, uint64_t flags, void *context)
{
	int rc = check_flags(flags, context);

	if (rc || (count && !addr) || count > INT32_MAX)
		return rc ? rc : -FI_EINVAL;
	return insert_all((struct carry_av *) fid, addr, count, out, flags, context);
}

static int av_insertsym(struct fid_av *fid, const char *node, size_t nodes, const char *service, size_t services,
			fi_addr_t *out, uint64_t flags, void *context)
{
	struct carry_av *av = (struct carry_av *) fid;
	struct sockaddr_in first, addr;
	int rc = check_flags(flags, context), done = 0;

	if (rc || !node || !service)
		return rc ? rc : -FI_EINVAL;
	if (!nodes || !services)
		return 0;
	if (nodes > UINT16_MAX || services > UINT16_MAX)
		return -FI_EINVAL;
	if (carry_resolve(node, service, 0, &first)) {
		if (out)
			*out = FI_ADDR_NOTAVAIL;
		if (flags & FI_SYNC_ERR)
			*(int *) context = FI_EINVAL;
		return -FI_EINVAL;
	}
	if (nodes > 1 && inet_addr(node) == INADDR_NONE)
		return -FI_ENOSYS;
	for (size_t i = 0; i < nodes; i++) {
		for (size_t k = 0; k < services; k++) {
			size_t slot = i * services + k, port = ntohs(first.sin_port) + k;
			int *errors = context && flags & FI_SYNC_ERR ? (int *) context + slot : NULL;

			addr = first;
			addr.sin_addr.s_addr = htonl(ntohl(first.sin_addr.s_addr) + (uint32_t) i);
			addr.sin_port = port > 65535 ? 0 : htons((uint16_t) port);
			done += insert_all(av, &addr, 1, out ? out + slot : NULL, flags, errors);
		}
	}
	return done;
}

static int av_insertsvc(struct fid_av *fid, const char *node, const char *service, fi_addr_t *out, uint64_t flags, void *context)
{
	char host[64];
	const char *port;

	// A text in the form of av_straddr contains both.
	if (node && !service && !strncmp(node, SCHEME, strlen(SCHEME)) && (port = strrchr(node, ':')) > node + strlen(SCHEME)) {
		snprintf(host, sizeof(host), "%.*s", (int) (port - node - strlen(SCHEME)), node + strlen(SCHEME));
		return av_insertsym(fid, host, 1, port + 1, 1, out, flags, context);
	}
	return av_insertsym(fid, node, 1, service, 1, out, flags, context);
}

static int av_remove(struct fid_av *fid, fi_addr_t *addr, size_t count, uint64_t flags)
{
	struct carry_av *av = (struct carry_av *) fid;
	int rc = 0;

	if (flags)
		return -FI_EBADFLAGS;
	if (count && !addr)
		return -FI_EINVAL;
	LOCK(av);
	if (count > av->end) {
		rc = -FI_EINVAL;
		count = 0;
	}
	for (size_t i = count; i-- > 0;) {
		if (addr[i] >= av->end || !av->peers[addr[i]].sin_family)
			rc = -FI_EINVAL;
		else
			av->peers[addr[i]] = (struct sockaddr_in){0};
	}
	UNLOCK(av);
	return rc;
}

static int av_lookup(struct fid_av *fid, fi_addr_t addr, void *out, size_t *len)
{
	struct carry_av *av = (struct carry_av *) fid;
	int rc = -FI_EINVAL;

	if (!len || (*len && !out))
		return -FI_EINVAL;
	LOCK(av);
	if (addr < av->end && av->peers[addr].sin_family) {
		if (*len)
			memcpy(out, &av->peers[addr], *len < sizeof(*av->peers) ? *len : sizeof(*av->peers));
		*len = sizeof(*av->peers);
		rc = 0;
	}
	UNLOCK(av);
	return rc;
}

static const char *av_straddr(struct fid_av *fid, const void *addr, char *buf, size_t *len)
{
	char text[128], host[INET_ADDRSTRLEN] = "";
	struct sockaddr_in in;
	int needed;

	(void) fid;
	if (!addr || !len || (*len && !buf))
		return NULL;
	memcpy(&in, addr, sizeof(in));
	inet_ntop(AF_INET, &in.sin_addr, host, sizeof(host));
	if (in.sin_family == AF_INET)
		needed = snprintf(text, sizeof(text), SCHEME "%s:%u", host, ntohs(in.sin_port));
	else
		needed = snprintf(text, sizeof(text), "an address of family %u", in.sin_family);
	if (*len)
		snprintf(buf, *len, "%s", text);
	*len = (size_t) needed + 1;
	return buf;
}

static int av_close(struct fid *fid)
{
	struct carry_av *av = (struct carry_av *) fid;

	LOCK(av);
	if (av->users) {
		UNLOCK(av);
		return -FI_EBUSY;
	}
	av->domain->users--;
	UNLOCK(av);
	free(av->peers);
	free(av);
	return 0;
}

static int av_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	(void) fid;
	return !other || other->fclass != FI_CLASS_EQ || flags ? -FI_EINVAL : -FI_ENOSYS;
}

static struct fi_ops av_fid_ops = CARRY_FI_OPS(av_close, av_bind, carry_no_control);
static struct fi_ops_av av_ops = {
	.size = sizeof(struct fi_ops_av),
	.insert = av_insert,
	.insertsvc = av_insertsvc,
	.insertsym = av_insertsym,
	.remove = av_remove,
	.lookup = av_lookup,
	.straddr = av_straddr,
};
CARRY_FILL(av_ops, carry_no_av)

int carry_av_open(struct fid_domain *fid, struct fi_av_attr *attr, struct fid_av **out, void *context)
{
	struct carry_domain *domain = (struct carry_domain *) fid;
	struct fi_av_attr none = {0};
	struct carry_av *av;

	if (!out)
		return -FI_EINVAL;
	attr = attr ? attr : &none;
	if (attr->type < 0 || attr->type > FI_AV_TABLE || attr->rx_ctx_bits < 0 || attr->rx_ctx_bits > 63)
		return -FI_EINVAL;
	if (attr->flags & FI_READ && !attr->name)
		return -FI_EINVAL;
	if (attr->name || attr->flags & (FI_EVENT | FI_PEER | FI_AV_USER_ID))
		return -FI_ENOSYS;
	if (attr->flags & ~FI_SYMMETRIC)
		return -FI_EBADFLAGS;
	av = calloc(1, sizeof(*av));
	if (av)
		av->peers = calloc(av->room = 64, sizeof(*av->peers));
	if (!av || !av->peers) {
		free(av);
		return -FI_ENOMEM;
	}
	if (!attr->type)
		attr->type = FI_AV_TABLE;
	av->fid.fid = (struct fid){.fclass = FI_CLASS_AV, .context = context, .ops = &av_fid_ops};
	av->fid.ops = &av_ops;
	av->domain = domain;
	LOCK(av);
	domain->users++;
	UNLOCK(av);
	*out = &av->fid;
	return 0;
}
