// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
// Passive endpoints and their connection requests. fi_endpoint(3), fi_cm(3)

#define _GNU_SOURCE
#include "carry.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

// ---- Requests

struct carry_request *carry_find_request(struct carry_fabric *fabric, const struct fid *fid)
{
	// The handle may be invalid, so it is searched for and not dereferenced.
	EACH(at, &fabric->requests) {
		struct carry_request *request = OWNER(at, struct carry_request, at);

		if (&request->fid == fid && request->told)
			return request;
	}
	return NULL;
}

void carry_drop_request(struct carry_request *request, bool refuse, const void *data, size_t len)
{
	struct carry_frame head = {.kind = FRAME_REJECT, .len = len};
	struct link out;
	struct carry_op op = {.copy = (uint8_t *) data, .head = head, .len = len, .count = 1, .iov = {{(void *) data, len}}};

	list_init(&out);
	list_append(&out, &op.at);
	carry_want(request->fabric, &request->source, 0);
	if (refuse) {
		op.answer = true;
		carry_linger(request->fabric, request->source.fd, &out);
	} else if (request->source.fd >= 0) {
		close(request->source.fd);
	}
	list_del(&request->at);
	free(request);
}

static void tell(struct carry_request *request)
{
	struct carry_pep *pep = request->pep;
	struct fi_info *info = fi_dupinfo(pep->info);
	socklen_t len = sizeof(struct sockaddr_in);

	carry_want(request->fabric, &request->source, 0);
	if (info) {
		free(info->src_addr);
		free(info->dest_addr);
		info->src_addr = calloc(1, len);
		info->dest_addr = calloc(1, len);
		info->src_addrlen = info->dest_addrlen = len;
	}
	if (!info || !info->src_addr || !info->dest_addr) {
		fi_freeinfo(info);
		carry_drop_request(request, false, NULL, 0);
		return;
	}
	getsockname(request->source.fd, info->src_addr, &len);
	getpeername(request->source.fd, info->dest_addr, &len);
	info->handle = &request->fid;
	request->told = true;
	carry_event(pep->eq, FI_CONNREQ, &pep->fid.fid, info, request->data, request->head.len);
}

// Reads no byte after the request, so that the endpoint gets the rest.
static void request_ready(struct carry_source *source, uint32_t events)
{
	struct carry_request *request = OWNER(source, struct carry_request, source);

	(void) events;
	for (;;) {
		size_t head = sizeof(request->head), at = request->got;
		bool body = at >= head;
		uint8_t *to = body ? request->data + (at - head) : (uint8_t *) &request->head + at;
		size_t len = body ? head + request->head.len - at : head - at;
		ssize_t got = len ? recv(source->fd, to, len, 0) : 0;

		if (got < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (got <= 0 && len) {
			carry_drop_request(request, false, NULL, 0);
			return;
		}
		request->got += (size_t) got;
		if (request->got < head)
			continue;
		if (request->head.kind != FRAME_HELLO || request->head.data != CARRY_MAGIC || request->head.len > CARRY_CM_DATA) {
			carry_drop_request(request, false, NULL, 0);
			return;
		}
		if (request->got == head + request->head.len) {
			tell(request);
			return;
		}
	}
}

static void pep_ready(struct carry_source *source, uint32_t events)
{
	struct carry_pep *pep = OWNER(source, struct carry_pep, source);

	(void) events;
	for (unsigned i = 0; i < 64; i++) {
		int fd = accept4(source->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		struct carry_request *request = fd < 0 ? NULL : calloc(1, sizeof(*request));

		if (!request) {
			if (fd >= 0)
				close(fd);
			return;
		}
		request->fid.fclass = FI_CLASS_CONNREQ;
		request->source = (struct carry_source){.fd = fd, .ready = request_ready};
		request->pep = pep;
		request->fabric = pep->fabric;
		list_append(&pep->fabric->requests, &request->at);
		carry_want(pep->fabric, &request->source, EPOLLIN);
	}
}

// ---- The object

static int pep_close(struct fid *fid)
{
	struct carry_pep *pep = (struct carry_pep *) fid;
	struct carry_fabric *fabric = pep->fabric;

	carry_lock(fabric);
	EACH(at, &fabric->requests)
		if (OWNER(at, struct carry_request, at)->pep == pep)
			carry_drop_request(OWNER(at, struct carry_request, at), false, NULL, 0);
	if (pep->eq) {
		carry_forget_events(pep->eq, fid);
		pep->eq->users--;
	}
	if (pep->source.fd >= 0) {
		carry_want(fabric, &pep->source, 0);
		close(pep->source.fd);
	}
	list_del(&pep->at);
	fabric->users--;
	carry_unlock(fabric);
	fi_freeinfo(pep->info);
	free(pep);
	return 0;
}

static int pep_bind(struct fid *fid, struct fid *other, uint64_t flags)
{
	struct carry_pep *pep = (struct carry_pep *) fid;
	struct carry_eq *eq = (struct carry_eq *) other;
	int rc = 0;

	if (!other || other->fclass != FI_CLASS_EQ || flags || eq->fabric != pep->fabric)
		return -FI_EINVAL;
	carry_lock(pep->fabric);
	if (pep->eq) {
		rc = -FI_EINVAL;
	} else {
		pep->eq = eq;
		eq->users++;
	}
	carry_unlock(pep->fabric);
	return rc;
}

static int pep_control(struct fid *fid, int command, void *arg)
{
	struct carry_pep *pep = (struct carry_pep *) fid;

	if (command != FI_BACKLOG)
		return -FI_ENOSYS;
	if (!arg || *(int *) arg < 0)
		return -FI_EINVAL;
	carry_lock(pep->fabric);
	pep->backlog = *(int *) arg;
	if (pep->listening)
		listen(pep->source.fd, pep->backlog);
	carry_unlock(pep->fabric);
	return 0;
}

static int pep_getopt(fid_t fid, int level, int name, void *value, size_t *len)
{
	(void) fid;
	if (!value || !len)
		return -FI_EINVAL;
	if (level != FI_OPT_ENDPOINT || name != FI_OPT_CM_DATA_SIZE)
		return -FI_ENOPROTOOPT;
	if (*len < sizeof(size_t)) {
		*len = sizeof(size_t);
		return -FI_ETOOSMALL;
	}
	*(size_t *) value = CARRY_CM_DATA;
	*len = sizeof(size_t);
	return 0;
}

// Opens a socket at an address; port 0 lets the kernel choose.
int carry_bind_socket(int type, struct sockaddr_in *own)
{
	int fd = socket(AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1;
	socklen_t len = sizeof(*own);

	if (fd < 0)
		return -errno;
	if (type == SOCK_STREAM)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *) own, len) || getsockname(fd, (struct sockaddr *) own, &len)) {
		int err = errno;

		close(fd);
		return -err;
	}
	return fd;
}

static int pep_listen(struct fid_pep *fid)
{
	struct carry_pep *pep = (struct carry_pep *) fid;
	int rc = 0;

	carry_lock(pep->fabric);
	if (!pep->eq)
		rc = -FI_ENOEQ;
	else if (pep->listening)
		rc = -FI_EOPBADSTATE;
	else if (pep->source.fd < 0)
		rc = (pep->source.fd = carry_bind_socket(SOCK_STREAM, &pep->own)) < 0 ? pep->source.fd : 0;
	if (!rc && listen(pep->source.fd, pep->backlog))
		rc = -errno;
	if (!rc) {
		pep->listening = true;
		carry_want(pep->fabric, &pep->source, EPOLLIN);
	}
	carry_unlock(pep->fabric);
	return rc;
}

static int pep_setname(fid_t fid, void *addr, size_t len)
{
	struct carry_pep *pep = (struct carry_pep *) fid;
	struct sockaddr_in own;
	int fd;

	if (!addr || len != sizeof(own))
		return -FI_EINVAL;
	memcpy(&own, addr, sizeof(own));
	if (!carry_is_ours(&own))
		return -FI_EINVAL;
	carry_lock(pep->fabric);
	fd = pep->listening ? -FI_EOPBADSTATE : carry_bind_socket(SOCK_STREAM, &own);
	if (fd >= 0) {
		if (pep->source.fd >= 0)
			close(pep->source.fd);
		pep->source.fd = fd;
		pep->own = own;
	}
	carry_unlock(pep->fabric);
	return fd < 0 ? fd : 0;
}

static int pep_getname(fid_t fid, void *addr, size_t *len)
{
	struct carry_pep *pep = (struct carry_pep *) fid;
	int rc;

	carry_lock(pep->fabric);
	rc = carry_give_name(&pep->own, addr, len);
	carry_unlock(pep->fabric);
	return rc;
}

static int pep_reject(struct fid_pep *fid, fid_t handle, const void *data, size_t len)
{
	struct carry_pep *pep = (struct carry_pep *) fid;
	struct carry_request *request;

	if (!handle || (len && !data))
		return -FI_EINVAL;
	carry_lock(pep->fabric);
	request = carry_find_request(pep->fabric, handle);
	if (request && request->pep == pep)
		carry_drop_request(request, true, data, len < CARRY_CM_DATA ? len : CARRY_CM_DATA);
	else
		request = NULL;
	carry_unlock(pep->fabric);
	return request ? 0 : -FI_EINVAL;
}

static struct fi_ops pep_fid_ops = CARRY_FI_OPS(pep_close, pep_bind, pep_control);
static struct fi_ops_ep pep_ops = {.size = sizeof(struct fi_ops_ep), .getopt = pep_getopt};
CARRY_FILL(pep_ops, carry_no_ep)
static struct fi_ops_cm pep_cm = {
	.size = sizeof(struct fi_ops_cm), .setname = pep_setname, .getname = pep_getname, .listen = pep_listen,
	.reject = pep_reject,
};
CARRY_FILL(pep_cm, carry_no_cm)

int carry_passive_ep(struct fid_fabric *fid, struct fi_info *info, struct fid_pep **out, void *context)
{
	struct carry_fabric *fabric = (struct carry_fabric *) fid;
	int rc = out ? carry_check_info(info) : -FI_EINVAL;
	struct carry_pep *pep;

	if (rc || info->ep_attr->type != FI_EP_MSG)
		return rc ? rc : -FI_EINVAL;
	pep = calloc(1, sizeof(*pep));
	if (pep)
		pep->info = fi_dupinfo(info);
	if (!pep || !pep->info) {
		free(pep);
		return -FI_ENOMEM;
	}
	pep->own = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	if (info->src_addr && info->src_addrlen >= sizeof(pep->own))
		memcpy(&pep->own, info->src_addr, sizeof(pep->own));
	if (!carry_is_ours(&pep->own)) {
		fi_freeinfo(pep->info);
		free(pep);
		return -FI_EINVAL;
	}
	if (!pep->own.sin_addr.s_addr)
		pep->own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	pep->fid.fid = (struct fid){.fclass = FI_CLASS_PEP, .context = context, .ops = &pep_fid_ops};
	pep->fid.ops = &pep_ops;
	pep->fid.cm = &pep_cm;
	carry_lock(fabric);
	pep->fabric = fabric;
	pep->source = (struct carry_source){.fd = -1, .ready = pep_ready};
	pep->backlog = 128;
	list_append(&fabric->peps, &pep->at);
	fabric->users++;
	carry_unlock(fabric);
	*out = &pep->fid;
	return 0;
}
