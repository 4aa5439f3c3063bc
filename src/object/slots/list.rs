// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The list of every slot of every ops table that an application's handle carries.
//!
//! Each entry of the list is a table: its name, its type, and the object and the member that point to it. Each line of
//! an entry is a slot: its age, its name, its arguments, its result, and the inline functions of the headers that call
//! it. The object is the first argument. `later` slots were added after the first release of their table: the headers
//! check for them with FI_CHECK_OP, because a table may be older. `first` slots are called without a check of the size.
//!
//! The list omits tables between providers (`fi_peer.h`) and tables that an application supplies (`fi_ops_log`,
//! `fi_ops_mem_monitor`). The first argument of most of their slots is not the object that has the table.

/// Passes the list to the macro `$then`. The list names types of `abi` and `c_char`, `c_int` and `c_void`, which must
/// be in scope where the macro is expanded.
#[macro_export]
macro_rules! each_table {
    ($then:ident) => { $then! {
        /// Slots of every object: fi_control(3), fi_open(3), and fi_close and fi_bind of the page of each object.
        base: fi_ops in fid.ops {
            first close(fid: *mut fid) -> c_int [fi_close];
            first bind(fid: *mut fid, bfid: *mut fid, flags: u64) -> c_int [fi_av_bind fi_domain_bind fi_ep_bind
                fi_mr_bind fi_pep_bind fi_scalable_ep_bind fi_import_fid];
            first control(fid: *mut fid, command: c_int, arg: *mut c_void) -> c_int [fi_control];
            first ops_open(fid: *mut fid, name: *const c_char, flags: u64, ops: *mut *mut c_void,
                context: *mut c_void) -> c_int [fi_open_ops];
            first tostr(fid: *const fid, buf: *mut c_char, len: usize) -> c_int [];
            later ops_set(fid: *mut fid, name: *const c_char, flags: u64, ops: *mut c_void,
                context: *mut c_void) -> c_int [fi_set_ops];
        }
        /// fi_fabric(3), fi_domain(3), fi_eq(3), fi_poll(3).
        fabric: fi_ops_fabric in fid_fabric.ops {
            first domain(fabric: *mut fid_fabric, info: *mut fi_info, dom: *mut *mut fid_domain,
                context: *mut c_void) -> c_int [fi_domain];
            first passive_ep(fabric: *mut fid_fabric, info: *mut fi_info, pep: *mut *mut fid_pep,
                context: *mut c_void) -> c_int [fi_passive_ep];
            first eq_open(fabric: *mut fid_fabric, attr: *mut fi_eq_attr, eq: *mut *mut fid_eq,
                context: *mut c_void) -> c_int [fi_eq_open];
            first wait_open(fabric: *mut fid_fabric, attr: *mut fi_wait_attr,
                waitset: *mut *mut fid_wait) -> c_int [fi_wait_open];
            first trywait(fabric: *mut fid_fabric, fids: *mut *mut fid, count: c_int) -> c_int [fi_trywait];
            later domain2(fabric: *mut fid_fabric, info: *mut fi_info, dom: *mut *mut fid_domain, flags: u64,
                context: *mut c_void) -> c_int [];
        }
        /// fi_domain(3), and the calls that open the objects of a domain.
        domain: fi_ops_domain in fid_domain.ops {
            first av_open(domain: *mut fid_domain, attr: *mut fi_av_attr, av: *mut *mut fid_av,
                context: *mut c_void) -> c_int [fi_av_open];
            first cq_open(domain: *mut fid_domain, attr: *mut fi_cq_attr, cq: *mut *mut fid_cq,
                context: *mut c_void) -> c_int [fi_cq_open];
            first endpoint(domain: *mut fid_domain, info: *mut fi_info, ep: *mut *mut fid_ep,
                context: *mut c_void) -> c_int [fi_endpoint];
            first scalable_ep(domain: *mut fid_domain, info: *mut fi_info, sep: *mut *mut fid_ep,
                context: *mut c_void) -> c_int [fi_scalable_ep];
            first cntr_open(domain: *mut fid_domain, attr: *mut fi_cntr_attr, cntr: *mut *mut fid_cntr,
                context: *mut c_void) -> c_int [fi_cntr_open];
            first poll_open(domain: *mut fid_domain, attr: *mut fi_poll_attr,
                pollset: *mut *mut fid_poll) -> c_int [fi_poll_open];
            first stx_ctx(domain: *mut fid_domain, attr: *mut fi_tx_attr, stx: *mut *mut fid_stx,
                context: *mut c_void) -> c_int [fi_stx_context];
            first srx_ctx(domain: *mut fid_domain, attr: *mut fi_rx_attr, rx_ep: *mut *mut fid_ep,
                context: *mut c_void) -> c_int [fi_srx_context];
            later query_atomic(domain: *mut fid_domain, datatype: fi_datatype, op: fi_op, attr: *mut fi_atomic_attr,
                flags: u64) -> c_int [fi_query_atomic];
            later query_collective(domain: *mut fid_domain, coll: fi_collective_op, attr: *mut fi_collective_attr,
                flags: u64) -> c_int [fi_query_collective];
            later endpoint2(domain: *mut fid_domain, info: *mut fi_info, ep: *mut *mut fid_ep, flags: u64,
                context: *mut c_void) -> c_int [];
            later xpu_ctx(domain: *mut fid_domain, attr: *mut fi_xpu_attr, ctx: *mut *mut fid_xpu_ctx,
                context: *mut c_void) -> c_int [fi_xpu_ctx];
        }
        /// fi_xpu(3).
        xpu_ctx: fi_ops_xpu_ctx in fid_xpu_ctx.ops {
            first query(ctx: *mut fid_xpu_ctx, attr: *mut fi_xpu_ctx_attr) -> c_int [fi_xpu_ctx_query];
        }
        /// fi_mr(3).
        mr: fi_ops_mr in fid_domain.mr {
            first reg(fid: *mut fid, buf: *const c_void, len: usize, access: u64, offset: u64, requested_key: u64,
                flags: u64, mr: *mut *mut fid_mr, context: *mut c_void) -> c_int [fi_mr_reg];
            first regv(fid: *mut fid, iov: *const iovec, count: usize, access: u64, offset: u64, requested_key: u64,
                flags: u64, mr: *mut *mut fid_mr, context: *mut c_void) -> c_int [fi_mr_regv];
            first regattr(fid: *mut fid, attr: *const fi_mr_attr, flags: u64,
                mr: *mut *mut fid_mr) -> c_int [fi_mr_regattr];
        }
        /// fi_av(3).
        av: fi_ops_av in fid_av.ops {
            first insert(av: *mut fid_av, addr: *const c_void, count: usize, fi_addr: *mut fi_addr_t, flags: u64,
                context: *mut c_void) -> c_int [fi_av_insert];
            first insertsvc(av: *mut fid_av, node: *const c_char, service: *const c_char, fi_addr: *mut fi_addr_t,
                flags: u64, context: *mut c_void) -> c_int [fi_av_insertsvc];
            first insertsym(av: *mut fid_av, node: *const c_char, nodecnt: usize, service: *const c_char,
                svccnt: usize, fi_addr: *mut fi_addr_t, flags: u64, context: *mut c_void) -> c_int [fi_av_insertsym];
            first remove(av: *mut fid_av, fi_addr: *mut fi_addr_t, count: usize, flags: u64) -> c_int [fi_av_remove];
            first lookup(av: *mut fid_av, fi_addr: fi_addr_t, addr: *mut c_void,
                addrlen: *mut usize) -> c_int [fi_av_lookup];
            first straddr(av: *mut fid_av, addr: *const c_void, buf: *mut c_char,
                len: *mut usize) -> *const c_char [fi_av_straddr];
            later av_set(av: *mut fid_av, attr: *mut fi_av_set_attr, av_set: *mut *mut fid_av_set,
                context: *mut c_void) -> c_int [fi_av_set];
            later insert_auth_key(av: *mut fid_av, auth_key: *const c_void, auth_key_size: usize,
                fi_addr: *mut fi_addr_t, flags: u64) -> c_int [fi_av_insert_auth_key];
            later lookup_auth_key(av: *mut fid_av, fi_addr: fi_addr_t, auth_key: *mut c_void,
                auth_key_size: *mut usize) -> c_int [fi_av_lookup_auth_key];
            later set_user_id(av: *mut fid_av, fi_addr: fi_addr_t, user_id: fi_addr_t,
                flags: u64) -> c_int [fi_av_set_user_id];
            later lookup2(av: *mut fid_av, fi_addr: fi_addr_t, buf: *mut c_void, len: *mut usize, flags: u64,
                ctx: *mut fid_xpu_ctx) -> c_int [fi_av_lookup2];
        }
        /// fi_av_set(3).
        av_set: fi_ops_av_set in fid_av_set.ops {
            first set_union(dst: *mut fid_av_set, src: *const fid_av_set) -> c_int [fi_av_set_union];
            first intersect(dst: *mut fid_av_set, src: *const fid_av_set) -> c_int [fi_av_set_intersect];
            first diff(dst: *mut fid_av_set, src: *const fid_av_set) -> c_int [fi_av_set_diff];
            first insert(set: *mut fid_av_set, addr: fi_addr_t) -> c_int [fi_av_set_insert];
            first remove(set: *mut fid_av_set, addr: fi_addr_t) -> c_int [fi_av_set_remove];
            first addr(set: *mut fid_av_set, coll_addr: *mut fi_addr_t) -> c_int [fi_av_set_addr];
        }
        /// fi_eq(3).
        eq: fi_ops_eq in fid_eq.ops {
            first read(eq: *mut fid_eq, event: *mut u32, buf: *mut c_void, len: usize,
                flags: u64) -> ssize_t [fi_eq_read];
            first readerr(eq: *mut fid_eq, buf: *mut fi_eq_err_entry, flags: u64) -> ssize_t [fi_eq_readerr];
            first write(eq: *mut fid_eq, event: u32, buf: *const c_void, len: usize,
                flags: u64) -> ssize_t [fi_eq_write];
            first sread(eq: *mut fid_eq, event: *mut u32, buf: *mut c_void, len: usize, timeout: c_int,
                flags: u64) -> ssize_t [fi_eq_sread];
            first strerror(eq: *mut fid_eq, prov_errno: c_int, err_data: *const c_void, buf: *mut c_char,
                len: usize) -> *const c_char [fi_eq_strerror];
        }
        /// fi_cq(3).
        cq: fi_ops_cq in fid_cq.ops {
            first read(cq: *mut fid_cq, buf: *mut c_void, count: usize) -> ssize_t [fi_cq_read];
            first readfrom(cq: *mut fid_cq, buf: *mut c_void, count: usize,
                src_addr: *mut fi_addr_t) -> ssize_t [fi_cq_readfrom];
            first readerr(cq: *mut fid_cq, buf: *mut fi_cq_err_entry, flags: u64) -> ssize_t [];
            first sread(cq: *mut fid_cq, buf: *mut c_void, count: usize, cond: *const c_void,
                timeout: c_int) -> ssize_t [fi_cq_sread];
            first sreadfrom(cq: *mut fid_cq, buf: *mut c_void, count: usize, src_addr: *mut fi_addr_t,
                cond: *const c_void, timeout: c_int) -> ssize_t [fi_cq_sreadfrom];
            first signal(cq: *mut fid_cq) -> c_int [fi_cq_signal];
            first strerror(cq: *mut fid_cq, prov_errno: c_int, err_data: *const c_void, buf: *mut c_char,
                len: usize) -> *const c_char [fi_cq_strerror];
            later export_xpu(cq: *mut fid_cq, flags: u64, xpu_cq: *mut fid_xpu_cq) -> c_int [fi_cq_export_xpu];
        }
        /// fi_cntr(3).
        cntr: fi_ops_cntr in fid_cntr.ops {
            first read(cntr: *mut fid_cntr) -> u64 [fi_cntr_read];
            first readerr(cntr: *mut fid_cntr) -> u64 [fi_cntr_readerr];
            first add(cntr: *mut fid_cntr, value: u64) -> c_int [fi_cntr_add];
            first set(cntr: *mut fid_cntr, value: u64) -> c_int [fi_cntr_set];
            first wait(cntr: *mut fid_cntr, threshold: u64, timeout: c_int) -> c_int [fi_cntr_wait];
            later adderr(cntr: *mut fid_cntr, value: u64) -> c_int [fi_cntr_adderr];
            later seterr(cntr: *mut fid_cntr, value: u64) -> c_int [fi_cntr_seterr];
            later export_xpu(cntr: *mut fid_cntr, flags: u64,
                xpu_cntr: *mut fid_xpu_cntr) -> c_int [fi_cntr_export_xpu];
        }
        /// fi_poll(3).
        poll: fi_ops_poll in fid_poll.ops {
            first poll(pollset: *mut fid_poll, context: *mut *mut c_void, count: c_int) -> c_int [fi_poll];
            first poll_add(pollset: *mut fid_poll, event_fid: *mut fid, flags: u64) -> c_int [fi_poll_add];
            first poll_del(pollset: *mut fid_poll, event_fid: *mut fid, flags: u64) -> c_int [fi_poll_del];
        }
        /// fi_poll(3), wait sets.
        wait: fi_ops_wait in fid_wait.ops {
            first wait(waitset: *mut fid_wait, timeout: c_int) -> c_int [fi_wait];
        }
        /// fi_endpoint(3); also for passive endpoints and contexts, whose structs begin alike.
        ep: fi_ops_ep in fid_ep.ops {
            first cancel(fid: fid_t, context: *mut c_void) -> ssize_t [fi_cancel];
            first getopt(fid: fid_t, level: c_int, optname: c_int, optval: *mut c_void,
                optlen: *mut usize) -> c_int [fi_getopt];
            first setopt(fid: fid_t, level: c_int, optname: c_int, optval: *const c_void,
                optlen: usize) -> c_int [fi_setopt];
            first tx_ctx(sep: *mut fid_ep, index: c_int, attr: *mut fi_tx_attr, tx_ep: *mut *mut fid_ep,
                context: *mut c_void) -> c_int [fi_tx_context];
            first rx_ctx(sep: *mut fid_ep, index: c_int, attr: *mut fi_rx_attr, rx_ep: *mut *mut fid_ep,
                context: *mut c_void) -> c_int [fi_rx_context];
            first rx_size_left(ep: *mut fid_ep) -> ssize_t [fi_rx_size_left];
            first tx_size_left(ep: *mut fid_ep) -> ssize_t [fi_tx_size_left];
            later export_xpu(ep: *mut fid_ep, flags: u64, xpu_ep: *mut fid_xpu_ep) -> c_int [fi_ep_export_xpu];
            later tx_flush(ep: *mut fid_ep, flags: u64) -> ssize_t [fi_tx_flush];
        }
        /// fi_cm(3); also for passive endpoints.
        cm: fi_ops_cm in fid_ep.cm {
            first setname(fid: fid_t, addr: *mut c_void, addrlen: usize) -> c_int [fi_setname];
            first getname(fid: fid_t, addr: *mut c_void, addrlen: *mut usize) -> c_int [fi_getname];
            first getpeer(ep: *mut fid_ep, addr: *mut c_void, addrlen: *mut usize) -> c_int [fi_getpeer];
            first connect(ep: *mut fid_ep, addr: *const c_void, param: *const c_void,
                paramlen: usize) -> c_int [fi_connect];
            first listen(pep: *mut fid_pep) -> c_int [fi_listen];
            first accept(ep: *mut fid_ep, param: *const c_void, paramlen: usize) -> c_int [fi_accept];
            first reject(pep: *mut fid_pep, handle: fid_t, param: *const c_void,
                paramlen: usize) -> c_int [fi_reject];
            first shutdown(ep: *mut fid_ep, flags: u64) -> c_int [fi_shutdown];
            later join(ep: *mut fid_ep, addr: *const c_void, flags: u64, mc: *mut *mut fid_mc,
                context: *mut c_void) -> c_int [fi_join];
        }
        /// fi_msg(3).
        msg: fi_ops_msg in fid_ep.msg {
            first recv(ep: *mut fid_ep, buf: *mut c_void, len: usize, desc: *mut c_void, src_addr: fi_addr_t,
                context: *mut c_void) -> ssize_t [fi_recv];
            first recvv(ep: *mut fid_ep, iov: *const iovec, desc: *mut *mut c_void, count: usize, src_addr: fi_addr_t,
                context: *mut c_void) -> ssize_t [fi_recvv];
            first recvmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> ssize_t [fi_recvmsg];
            first send(ep: *mut fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, dest_addr: fi_addr_t,
                context: *mut c_void) -> ssize_t [fi_send];
            first sendv(ep: *mut fid_ep, iov: *const iovec, desc: *mut *mut c_void, count: usize,
                dest_addr: fi_addr_t, context: *mut c_void) -> ssize_t [fi_sendv];
            first sendmsg(ep: *mut fid_ep, msg: *const fi_msg, flags: u64) -> ssize_t [fi_sendmsg];
            first inject(ep: *mut fid_ep, buf: *const c_void, len: usize,
                dest_addr: fi_addr_t) -> ssize_t [fi_inject];
            first senddata(ep: *mut fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, data: u64,
                dest_addr: fi_addr_t, context: *mut c_void) -> ssize_t [fi_senddata];
            first injectdata(ep: *mut fid_ep, buf: *const c_void, len: usize, data: u64,
                dest_addr: fi_addr_t) -> ssize_t [fi_injectdata];
            later recv_flush(ep: *mut fid_ep, flags: u64) -> ssize_t [fi_recv_flush];
        }
        /// fi_tagged(3).
        tagged: fi_ops_tagged in fid_ep.tagged {
            first recv(ep: *mut fid_ep, buf: *mut c_void, len: usize, desc: *mut c_void, src_addr: fi_addr_t,
                tag: u64, ignore: u64, context: *mut c_void) -> ssize_t [fi_trecv];
            first recvv(ep: *mut fid_ep, iov: *const iovec, desc: *mut *mut c_void, count: usize, src_addr: fi_addr_t,
                tag: u64, ignore: u64, context: *mut c_void) -> ssize_t [fi_trecvv];
            first recvmsg(ep: *mut fid_ep, msg: *const fi_msg_tagged, flags: u64) -> ssize_t [fi_trecvmsg];
            first send(ep: *mut fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, dest_addr: fi_addr_t,
                tag: u64, context: *mut c_void) -> ssize_t [fi_tsend];
            first sendv(ep: *mut fid_ep, iov: *const iovec, desc: *mut *mut c_void, count: usize,
                dest_addr: fi_addr_t, tag: u64, context: *mut c_void) -> ssize_t [fi_tsendv];
            first sendmsg(ep: *mut fid_ep, msg: *const fi_msg_tagged, flags: u64) -> ssize_t [fi_tsendmsg];
            first inject(ep: *mut fid_ep, buf: *const c_void, len: usize, dest_addr: fi_addr_t,
                tag: u64) -> ssize_t [fi_tinject];
            first senddata(ep: *mut fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, data: u64,
                dest_addr: fi_addr_t, tag: u64, context: *mut c_void) -> ssize_t [fi_tsenddata];
            first injectdata(ep: *mut fid_ep, buf: *const c_void, len: usize, data: u64, dest_addr: fi_addr_t,
                tag: u64) -> ssize_t [fi_tinjectdata];
            later trecv_flush(ep: *mut fid_ep, flags: u64) -> ssize_t [fi_trecv_flush];
        }
        /// Prepared requests: `abi::fi_wr`.
        wr: fi_ops_wr in fid_ep.wr {
            first prepare(ep: *mut fid_ep, attr: *const fi_wr_attr, wr: *mut c_void,
                wr_len: *mut usize) -> c_int [fi_wr_prepare];
            first queue_tx(ep: *mut fid_ep, wr: *mut c_void, context: *mut c_void) -> ssize_t [fi_wr_queue_tx];
            first queue_recv(ep: *mut fid_ep, wr: *mut c_void, context: *mut c_void) -> ssize_t [fi_wr_queue_recv];
            first queue_trecv(ep: *mut fid_ep, wr: *mut c_void, context: *mut c_void) -> ssize_t [fi_wr_queue_trecv];
            first modify_addr(ep: *mut fid_ep, wr: *mut c_void, op_type: fi_op_type,
                addr: fi_addr_t) -> c_int [fi_wr_modify_addr];
            first modify_iov(ep: *mut fid_ep, wr: *mut c_void, op_type: fi_op_type, iov: *const iovec,
                desc: *mut *mut c_void, count: usize) -> c_int [fi_wr_modify_iov];
            first modify_rma_iov(ep: *mut fid_ep, wr: *mut c_void, op_type: fi_op_type, rma_iov: *const fi_rma_iov,
                count: usize) -> c_int [fi_wr_modify_rma_iov];
            first modify_tag(ep: *mut fid_ep, wr: *mut c_void, op_type: fi_op_type, tag: u64,
                ignore: u64) -> c_int [fi_wr_modify_tag];
            first modify_data(ep: *mut fid_ep, wr: *mut c_void, op_type: fi_op_type,
                data: u64) -> c_int [fi_wr_modify_data];
            first modify_flags(ep: *mut fid_ep, wr: *mut c_void, op_type: fi_op_type,
                flags: u64) -> c_int [fi_wr_modify_flags];
        }
        /// fi_rma(3).
        rma: fi_ops_rma in fid_ep.rma {
            first read(ep: *mut fid_ep, buf: *mut c_void, len: usize, desc: *mut c_void, src_addr: fi_addr_t,
                addr: u64, key: u64, context: *mut c_void) -> ssize_t [fi_read];
            first readv(ep: *mut fid_ep, iov: *const iovec, desc: *mut *mut c_void, count: usize, src_addr: fi_addr_t,
                addr: u64, key: u64, context: *mut c_void) -> ssize_t [fi_readv];
            first readmsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> ssize_t [fi_readmsg];
            first write(ep: *mut fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, dest_addr: fi_addr_t,
                addr: u64, key: u64, context: *mut c_void) -> ssize_t [fi_write];
            first writev(ep: *mut fid_ep, iov: *const iovec, desc: *mut *mut c_void, count: usize,
                dest_addr: fi_addr_t, addr: u64, key: u64, context: *mut c_void) -> ssize_t [fi_writev];
            first writemsg(ep: *mut fid_ep, msg: *const fi_msg_rma, flags: u64) -> ssize_t [fi_writemsg];
            first inject(ep: *mut fid_ep, buf: *const c_void, len: usize, dest_addr: fi_addr_t, addr: u64,
                key: u64) -> ssize_t [fi_inject_write];
            first writedata(ep: *mut fid_ep, buf: *const c_void, len: usize, desc: *mut c_void, data: u64,
                dest_addr: fi_addr_t, addr: u64, key: u64, context: *mut c_void) -> ssize_t [fi_writedata];
            first injectdata(ep: *mut fid_ep, buf: *const c_void, len: usize, data: u64, dest_addr: fi_addr_t,
                addr: u64, key: u64) -> ssize_t [fi_inject_writedata];
        }
        /// fi_atomic(3).
        atomic: fi_ops_atomic in fid_ep.atomic {
            first write(ep: *mut fid_ep, buf: *const c_void, count: usize, desc: *mut c_void, dest_addr: fi_addr_t,
                addr: u64, key: u64, datatype: fi_datatype, op: fi_op, context: *mut c_void) -> ssize_t [fi_atomic];
            first writev(ep: *mut fid_ep, iov: *const fi_ioc, desc: *mut *mut c_void, count: usize,
                dest_addr: fi_addr_t, addr: u64, key: u64, datatype: fi_datatype, op: fi_op,
                context: *mut c_void) -> ssize_t [fi_atomicv];
            first writemsg(ep: *mut fid_ep, msg: *const fi_msg_atomic, flags: u64) -> ssize_t [fi_atomicmsg];
            first inject(ep: *mut fid_ep, buf: *const c_void, count: usize, dest_addr: fi_addr_t, addr: u64, key: u64,
                datatype: fi_datatype, op: fi_op) -> ssize_t [fi_inject_atomic];
            first readwrite(ep: *mut fid_ep, buf: *const c_void, count: usize, desc: *mut c_void, result: *mut c_void,
                result_desc: *mut c_void, dest_addr: fi_addr_t, addr: u64, key: u64, datatype: fi_datatype, op: fi_op,
                context: *mut c_void) -> ssize_t [fi_fetch_atomic];
            first readwritev(ep: *mut fid_ep, iov: *const fi_ioc, desc: *mut *mut c_void, count: usize,
                resultv: *mut fi_ioc, result_desc: *mut *mut c_void, result_count: usize, dest_addr: fi_addr_t,
                addr: u64, key: u64, datatype: fi_datatype, op: fi_op,
                context: *mut c_void) -> ssize_t [fi_fetch_atomicv];
            first readwritemsg(ep: *mut fid_ep, msg: *const fi_msg_atomic, resultv: *mut fi_ioc,
                result_desc: *mut *mut c_void, result_count: usize, flags: u64) -> ssize_t [fi_fetch_atomicmsg];
            first compwrite(ep: *mut fid_ep, buf: *const c_void, count: usize, desc: *mut c_void,
                compare: *const c_void, compare_desc: *mut c_void, result: *mut c_void, result_desc: *mut c_void,
                dest_addr: fi_addr_t, addr: u64, key: u64, datatype: fi_datatype, op: fi_op,
                context: *mut c_void) -> ssize_t [fi_compare_atomic];
            first compwritev(ep: *mut fid_ep, iov: *const fi_ioc, desc: *mut *mut c_void, count: usize,
                comparev: *const fi_ioc, compare_desc: *mut *mut c_void, compare_count: usize, resultv: *mut fi_ioc,
                result_desc: *mut *mut c_void, result_count: usize, dest_addr: fi_addr_t, addr: u64, key: u64,
                datatype: fi_datatype, op: fi_op, context: *mut c_void) -> ssize_t [fi_compare_atomicv];
            first compwritemsg(ep: *mut fid_ep, msg: *const fi_msg_atomic, comparev: *const fi_ioc,
                compare_desc: *mut *mut c_void, compare_count: usize, resultv: *mut fi_ioc,
                result_desc: *mut *mut c_void, result_count: usize, flags: u64) -> ssize_t [fi_compare_atomicmsg];
            first writevalid(ep: *mut fid_ep, datatype: fi_datatype, op: fi_op,
                count: *mut usize) -> c_int [fi_atomicvalid];
            first readwritevalid(ep: *mut fid_ep, datatype: fi_datatype, op: fi_op,
                count: *mut usize) -> c_int [fi_fetch_atomicvalid];
            first compwritevalid(ep: *mut fid_ep, datatype: fi_datatype, op: fi_op,
                count: *mut usize) -> c_int [fi_compare_atomicvalid];
        }
        /// fi_collective(3).
        collective: fi_ops_collective in fid_ep.collective {
            first barrier(ep: *mut fid_ep, coll_addr: fi_addr_t, context: *mut c_void) -> ssize_t [fi_barrier];
            first broadcast(ep: *mut fid_ep, buf: *mut c_void, count: usize, desc: *mut c_void, coll_addr: fi_addr_t,
                root_addr: fi_addr_t, datatype: fi_datatype, flags: u64,
                context: *mut c_void) -> ssize_t [fi_broadcast];
            first alltoall(ep: *mut fid_ep, buf: *const c_void, count: usize, desc: *mut c_void, result: *mut c_void,
                result_desc: *mut c_void, coll_addr: fi_addr_t, datatype: fi_datatype, flags: u64,
                context: *mut c_void) -> ssize_t [fi_alltoall];
            first allreduce(ep: *mut fid_ep, buf: *const c_void, count: usize, desc: *mut c_void, result: *mut c_void,
                result_desc: *mut c_void, coll_addr: fi_addr_t, datatype: fi_datatype, op: fi_op, flags: u64,
                context: *mut c_void) -> ssize_t [fi_allreduce];
            first allgather(ep: *mut fid_ep, buf: *const c_void, count: usize, desc: *mut c_void, result: *mut c_void,
                result_desc: *mut c_void, coll_addr: fi_addr_t, datatype: fi_datatype, flags: u64,
                context: *mut c_void) -> ssize_t [fi_allgather];
            first reduce_scatter(ep: *mut fid_ep, buf: *const c_void, count: usize, desc: *mut c_void,
                result: *mut c_void, result_desc: *mut c_void, coll_addr: fi_addr_t, datatype: fi_datatype, op: fi_op,
                flags: u64, context: *mut c_void) -> ssize_t [fi_reduce_scatter];
            first reduce(ep: *mut fid_ep, buf: *const c_void, count: usize, desc: *mut c_void, result: *mut c_void,
                result_desc: *mut c_void, coll_addr: fi_addr_t, root_addr: fi_addr_t, datatype: fi_datatype,
                op: fi_op, flags: u64, context: *mut c_void) -> ssize_t [fi_reduce];
            first scatter(ep: *mut fid_ep, buf: *const c_void, count: usize, desc: *mut c_void, result: *mut c_void,
                result_desc: *mut c_void, coll_addr: fi_addr_t, root_addr: fi_addr_t, datatype: fi_datatype,
                flags: u64, context: *mut c_void) -> ssize_t [fi_scatter];
            first gather(ep: *mut fid_ep, buf: *const c_void, count: usize, desc: *mut c_void, result: *mut c_void,
                result_desc: *mut c_void, coll_addr: fi_addr_t, root_addr: fi_addr_t, datatype: fi_datatype,
                flags: u64, context: *mut c_void) -> ssize_t [fi_gather];
            first msg(ep: *mut fid_ep, msg: *const fi_msg_collective, resultv: *mut fi_ioc,
                result_desc: *mut *mut c_void, result_count: usize, flags: u64) -> ssize_t [];
            later barrier2(ep: *mut fid_ep, coll_addr: fi_addr_t, flags: u64, context: *mut c_void) -> ssize_t [];
        }
        /// fi_profile(3).
        profile: fi_profile_ops in fid_profile.ops {
            first reset(prof_fid: *mut fid_profile, flags: u64) -> () [fi_profile_reset];
            first query_vars(prof_fid: *mut fid_profile, varlist: *mut fi_profile_desc,
                count: *mut usize) -> ssize_t [fi_profile_query_vars];
            first query_events(prof_fid: *mut fid_profile, eventlist: *mut fi_profile_desc,
                count: *mut usize) -> ssize_t [fi_profile_query_events];
            first read_var(prof_fid: *mut fid_profile, var_id: u32, data: *mut c_void,
                size: *mut usize) -> ssize_t [];
            first reg_callback(prof_fid: *mut fid_profile, event_id: u32, callback: ProfileCallback,
                context: *mut c_void) -> c_int [fi_profile_register_callback];
            first start_reads(prof_fid: *mut fid_profile, flags: u64) -> () [fi_profile_start_reads];
            first end_reads(prof_fid: *mut fid_profile, flags: u64) -> () [fi_profile_end_reads];
        }
    } };
}
