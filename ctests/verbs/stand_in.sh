#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# stand_in.sh FOLDER: builds the stand-in for rdma-core in FOLDER: libibverbs.so.1, to be preloaded, and librdmacm.so.1.
# Ends with 77, and the reason, if it cannot be built here.
#
# VERBS_FAKE names the folder of its source (fake.c); it needs the headers of rdma-core.
set -euo pipefail
mkdir -p "$1"
fake=$(realpath "$1")

skip() {
	echo "$1"
	exit 77
}
[ -n "${VERBS_FAKE:-}" ] || skip "VERBS_FAKE does not name the folder of the stand-in for rdma-core"
[ -f "$VERBS_FAKE/fake.c" ] || skip "there is no $VERBS_FAKE/fake.c"
for header in infiniband/verbs.h rdma/rdma_cma.h; do
	echo "#include <$header>" | cc -fsyntax-only -x c - 2>/dev/null || skip "the header $header is not installed"
done


# change WHAT FROM TO: changes the source at each place of the pattern, of which there must be one.
change() {
	grep -q "$2" "$fake/fake.c" || {
		echo "the stand-in has changed: $1"
		exit 1
	}
	sed -i "s/$2/$3/" "$fake/fake.c"
}
cp "$VERBS_FAKE/fake.c" "$fake/fake.c"
chmod u+w "$fake/fake.c"
# It reports all requests. Adapters report the successful ones only if they are signalled, or if all of the queue pair
# are.
change "no unused word of a queue pair" 'msge, mwr;' 'msge, all_signalled;'
change "no place where a queue pair is made" 'q->msge = a->cap.max_send_sge;' '& q->all_signalled = a->sq_sig_all;'
change "no place where requests complete" 'cqput(q->qp.send_cq, &w); free(s); free(tmp);' \
    'if (st || s->w.send_flags \& IBV_SEND_SIGNALED || q->all_signalled) &'
# It forgets no region that was closed, so its table must have room for many.
change "no table of regions" 'MR\[4096\]; static int mracc\[4096\]' 'MR[1 << 20]; static int mracc[1 << 20]'
# As with rdma_rxe, a region without remote rights has the remote key 0.
change "no place where keys are chosen" 'm->rkey = nextkey + 1;' 'm->rkey = acc \& 0xe ? nextkey + 1 : 0;'
# As in the kernel, an identifier takes its unread events with it.
change "no place where identifiers end" 'trace("destroy_id\\n"); free(f);' 'forget_events(x); &'
cat >"$fake/forget.c" <<'END'
static void forget_events(struct rdma_cm_id *x)
{
	struct fchan *c = (struct fchan *)x->channel;
	uint64_t one;

	if (!c)
		return;
	for (struct fev **p = &c->h; *p;) {
		struct fev *e = *p;

		if (e->e.id != x) {
			p = &e->next;
			continue;
		}
		*p = e->next;
		free(e);
		if (read(c->c.fd, &one, sizeof(one)) < 0)
			abort();
	}
	for (c->t = &c->h; *c->t; c->t = &(*c->t)->next)
		;
}
END
sed -i "/^int rdma_destroy_id(/{
r $fake/forget.c
N
}" "$fake/fake.c"
cc -w -g -O1 -shared -fPIC -Wl,-soname,libibverbs.so.1 -o "$fake/libibverbs.so.1" "$fake/fake.c" -lpthread
ln -sf libibverbs.so.1 "$fake/libibverbs.so"
echo | cc -shared -fPIC -Wl,-soname,librdmacm.so.1 -x c - -o "$fake/librdmacm.so.1" -L"$fake" -Wl,--no-as-needed -libverbs
