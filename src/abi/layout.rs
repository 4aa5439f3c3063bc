// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Size of every struct and offset of every member, as measured on release 2.6.0 (x86-64 Linux), and the
//! growth since then: ctests/layout.

use core::mem::{offset_of, size_of};

use super::*;

macro_rules! layout {
    ($($name:ident: $size:literal { $($field:ident: $offset:literal,)* })*) => { $(
        assert_eq!(size_of::<$name>(), $size, stringify!($name));
        $(assert_eq!(offset_of!($name, $field), $offset, concat!(stringify!($name), ".", stringify!($field)));)*
    )* };
}

#[test]
fn structs_have_the_measured_layout() {
    layout! {
        fi_ioc: 16 { addr: 0, count: 8, }
        fi_tx_attr: 80 { caps: 0, mode: 8, op_flags: 16, msg_order: 24, comp_order: 32, inject_size: 40, size: 48, iov_limit: 56, rma_iov_limit: 64, tclass: 72, }
        fi_rx_attr: 64 { caps: 0, mode: 8, op_flags: 16, msg_order: 24, comp_order: 32, total_buffered_recv: 40, size: 48, iov_limit: 56, }
        fi_ep_attr: 120 { r#type: 0, protocol: 4, protocol_version: 8, max_msg_size: 16, msg_prefix_size: 24, max_order_raw_size: 32, max_order_war_size: 40, max_order_waw_size: 48, mem_tag_format: 56, tx_ctx_cnt: 64, rx_ctx_cnt: 72, auth_key_size: 80, auth_key: 88, xpu_ctx: 96, max_tx_wr_size: 104, max_rx_wr_size: 112, }
        fi_domain_attr: 232 { domain: 0, name: 8, threading: 16, control_progress: 20, anonymous: 24, resource_mgmt: 28, av_type: 32, mr_mode: 36, mr_key_size: 40, cq_data_size: 48, cq_cnt: 56, ep_cnt: 64, tx_ctx_cnt: 72, rx_ctx_cnt: 80, max_ep_tx_ctx: 88, max_ep_rx_ctx: 96, max_ep_stx_ctx: 104, max_ep_srx_ctx: 112, cntr_cnt: 120, mr_iov_limit: 128, caps: 136, mode: 144, auth_key: 152, auth_key_size: 160, max_err_data: 168, mr_cnt: 176, tclass: 184, max_ep_auth_key: 192, max_group_id: 200, max_cntr_value: 208, max_err_cntr_value: 216, max_xpu_ctx_cnt: 224, }
        fi_fabric_attr: 32 { fabric: 0, name: 8, prov_name: 16, prov_version: 24, api_version: 28, }
        fi_info: 120 { next: 0, caps: 8, mode: 16, addr_format: 24, src_addrlen: 32, dest_addrlen: 40, src_addr: 48, dest_addr: 56, handle: 64, tx_attr: 72, rx_attr: 80, ep_attr: 88, domain_attr: 96, fabric_attr: 104, nic: 112, }
        fi_mr_xpu_desc: 32 { buf: 0, len: 8, flags: 16, ctx: 24, }
        fi_xpu_ops: 40 { size: 0, alloc: 8, import: 16, unimport: 24, free: 32, }
        fi_xpu_attr: 24 { iface: 0, device: 8, ops: 16, }
        fi_xpu_ctx_attr: 40 { caps: 0, av_addr_size: 8, mr_desc_size: 16, max_tx_wr_desc_size: 24, max_rx_wr_desc_size: 32, }
        fi_ops_xpu_ctx: 16 { size: 0, query: 8, }
        fid_xpu_ctx: 32 { fid: 0, ops: 24, }
        fid_xpu: 16 { fclass: 0, prov_id: 4, prov_ctx: 8, }
        fi_device_attr: 48 { name: 0, device_id: 8, device_version: 16, vendor_id: 24, driver: 32, firmware: 40, }
        fi_pci_attr: 6 { domain_id: 0, bus_id: 2, device_id: 3, function_id: 4, }
        fi_bus_attr: 12 { bus_type: 0, attr: 4, }
        fi_link_attr: 40 { address: 0, mtu: 8, speed: 16, state: 24, network_type: 32, }
        fi_ops: 56 { size: 0, close: 8, bind: 16, control: 24, ops_open: 32, tostr: 40, ops_set: 48, }
        fid: 24 { fclass: 0, context: 8, ops: 16, }
        fi_ops_fabric: 56 { size: 0, domain: 8, passive_ep: 16, eq_open: 24, wait_open: 32, trywait: 40, domain2: 48, }
        fid_fabric: 40 { fid: 0, ops: 24, api_version: 32, }
        fid_nic: 56 { fid: 0, device_attr: 24, bus_attr: 32, link_attr: 40, prov_attr: 48, }
        fi_alias: 16 { fid: 0, flags: 8, }
        fi_fid_var: 16 { name: 0, val: 8, }
        fi_mr_raw_attr: 32 { flags: 0, base_addr: 8, raw_key: 16, key_size: 24, }
        fi_mr_map_raw: 40 { flags: 0, base_addr: 8, raw_key: 16, key_size: 24, key: 32, }
        fi_param: 32 { name: 0, r#type: 8, help_string: 16, value: 24, }
        fi_context: 32 { internal: 0, }
        fi_context2: 64 { internal: 0, }
        fi_recv_context: 16 { ep: 0, context: 8, }
        fi_wait_attr: 16 { wait_obj: 0, flags: 8, }
        fi_ops_wait: 16 { size: 0, wait: 8, }
        fid_wait: 32 { fid: 0, ops: 24, }
        fi_mutex_cond: 16 { mutex: 0, cond: 8, }
        fi_wait_pollfd: 24 { change_index: 0, nfds: 8, fd: 16, }
        fi_poll_attr: 8 { flags: 0, }
        fi_ops_poll: 32 { size: 0, poll: 8, poll_add: 16, poll_del: 24, }
        fid_poll: 32 { fid: 0, ops: 24, }
        fi_eq_attr: 32 { size: 0, flags: 8, wait_obj: 16, signaling_vector: 20, wait_set: 24, }
        fi_eq_entry: 24 { fid: 0, context: 8, data: 16, }
        fi_eq_err_entry: 48 { fid: 0, context: 8, data: 16, err: 24, prov_errno: 28, err_data: 32, err_data_size: 40, }
        fi_eq_cm_entry: 16 { fid: 0, info: 8, data: 16, }
        fi_ops_eq: 48 { size: 0, read: 8, readerr: 16, write: 24, sread: 32, strerror: 40, }
        fid_eq: 32 { fid: 0, ops: 24, }
        fi_cq_entry: 8 { op_context: 0, }
        fi_cq_msg_entry: 24 { op_context: 0, flags: 8, len: 16, }
        fi_cq_data_entry: 40 { op_context: 0, flags: 8, len: 16, buf: 24, data: 32, }
        fi_cq_tagged_entry: 48 { op_context: 0, flags: 8, len: 16, buf: 24, data: 32, tag: 40, }
        fi_cq_err_entry: 88 { op_context: 0, flags: 8, len: 16, buf: 24, data: 32, tag: 40, olen: 48, err: 56, prov_errno: 60, err_data: 64, err_data_size: 72, src_addr: 80, }
        fi_cq_attr: 48 { size: 0, flags: 8, format: 16, wait_obj: 20, signaling_vector: 24, wait_cond: 28, wait_set: 32, xpu_ctx: 40, }
        fi_ops_cq: 72 { size: 0, read: 8, readfrom: 16, readerr: 24, sread: 32, sreadfrom: 40, signal: 48, strerror: 56, export_xpu: 64, }
        fid_cq: 32 { fid: 0, ops: 24, }
        fi_cntr_attr: 32 { events: 0, wait_obj: 4, wait_set: 8, flags: 16, xpu_ctx: 24, }
        fi_ops_cntr: 72 { size: 0, read: 8, readerr: 16, add: 24, set: 32, wait: 40, adderr: 48, seterr: 56, export_xpu: 64, }
        fid_cntr: 32 { fid: 0, ops: 24, }
        fi_av_attr: 48 { r#type: 0, rx_ctx_bits: 4, count: 8, ep_per_node: 16, name: 24, map_addr: 32, flags: 40, }
        fi_av_set_attr: 56 { count: 0, start_addr: 8, end_addr: 16, stride: 24, comm_key_size: 32, comm_key: 40, flags: 48, }
        fi_ops_av: 96 { size: 0, insert: 8, insertsvc: 16, insertsym: 24, remove: 32, lookup: 40, straddr: 48, av_set: 56, insert_auth_key: 64, lookup_auth_key: 72, set_user_id: 80, lookup2: 88, }
        fid_av: 32 { fid: 0, ops: 24, }
        fid_mr: 40 { fid: 0, mem_desc: 24, key: 32, }
        fi_mr_dmabuf: 32 { fd: 0, offset: 8, len: 16, base_addr: 24, }
        fi_mr_auth_key: 16 { av: 0, src_addr: 8, }
        fi_mr_attr: 112 { anonymous: 0, iov_count: 8, access: 16, offset: 24, requested_key: 32, context: 40, auth_key_size: 48, auth_key: 56, iface: 64, device: 72, hmem_data: 80, page_size: 88, base_mr: 96, sub_mr_cnt: 104, }
        fi_mr_modify: 120 { flags: 0, attr: 8, }
        fi_hmem_override_ops: 24 { size: 0, copy_from_hmem_iov: 8, copy_to_hmem_iov: 16, }
        fi_ops_domain: 104 { size: 0, av_open: 8, cq_open: 16, endpoint: 24, scalable_ep: 32, cntr_open: 40, poll_open: 48, stx_ctx: 56, srx_ctx: 64, query_atomic: 72, query_collective: 80, endpoint2: 88, xpu_ctx: 96, }
        fi_ops_mr: 32 { size: 0, reg: 8, regv: 16, regattr: 24, }
        fid_domain: 40 { fid: 0, ops: 24, mr: 32, }
        fi_msg: 48 { msg_iov: 0, desc: 8, iov_count: 16, addr: 24, context: 32, data: 40, }
        fi_ops_ep: 80 { size: 0, cancel: 8, getopt: 16, setopt: 24, tx_ctx: 32, rx_ctx: 40, rx_size_left: 48, tx_size_left: 56, export_xpu: 64, tx_flush: 72, }
        fi_ops_msg: 88 { size: 0, recv: 8, recvv: 16, recvmsg: 24, send: 32, sendv: 40, sendmsg: 48, inject: 56, senddata: 64, injectdata: 72, recv_flush: 80, }
        fid_ep: 88 { fid: 0, ops: 24, cm: 32, msg: 40, rma: 48, tagged: 56, atomic: 64, collective: 72, wr: 80, }
        fi_wr_attr: 16 { op_type: 0, op: 8, }
        fi_ops_wr: 88 { size: 0, prepare: 8, queue_tx: 16, queue_recv: 24, queue_trecv: 32, modify_addr: 40, modify_iov: 48, modify_rma_iov: 56, modify_tag: 64, modify_data: 72, modify_flags: 80, }
        fid_pep: 40 { fid: 0, ops: 24, cm: 32, }
        fid_stx: 32 { fid: 0, ops: 24, }
        fi_rma_iov: 24 { addr: 0, len: 8, key: 16, }
        fi_rma_ioc: 24 { addr: 0, count: 8, key: 16, }
        fi_msg_rma: 64 { msg_iov: 0, desc: 8, iov_count: 16, addr: 24, rma_iov: 32, rma_iov_count: 40, context: 48, data: 56, }
        fi_ops_rma: 80 { size: 0, read: 8, readv: 16, readmsg: 24, write: 32, writev: 40, writemsg: 48, inject: 56, writedata: 64, injectdata: 72, }
        fi_msg_tagged: 64 { msg_iov: 0, desc: 8, iov_count: 16, addr: 24, tag: 32, ignore: 40, context: 48, data: 56, }
        fi_ops_tagged: 88 { size: 0, recv: 8, recvv: 16, recvmsg: 24, send: 32, sendv: 40, sendmsg: 48, inject: 56, senddata: 64, injectdata: 72, trecv_flush: 80, }
        fi_atomic_attr: 16 { count: 0, size: 8, }
        fi_msg_atomic: 72 { msg_iov: 0, desc: 8, iov_count: 16, addr: 24, rma_iov: 32, rma_iov_count: 40, datatype: 48, op: 52, context: 56, data: 64, }
        fi_msg_fetch: 24 { msg_iov: 0, desc: 8, iov_count: 16, }
        fi_msg_compare: 24 { msg_iov: 0, desc: 8, iov_count: 16, }
        fi_ops_atomic: 112 { size: 0, write: 8, writev: 16, writemsg: 24, inject: 32, readwrite: 40, readwritev: 48, readwritemsg: 56, compwrite: 64, compwritev: 72, compwritemsg: 80, writevalid: 88, readwritevalid: 96, compwritevalid: 104, }
        fid_mc: 32 { fid: 0, fi_addr: 24, }
        fi_ops_cm: 80 { size: 0, setname: 8, getname: 16, getpeer: 24, connect: 32, listen: 40, accept: 48, reject: 56, shutdown: 64, join: 72, }
        fi_ops_av_set: 56 { size: 0, set_union: 8, intersect: 16, diff: 24, insert: 32, remove: 40, addr: 48, }
        fid_av_set: 32 { fid: 0, ops: 24, }
        fi_collective_attr: 40 { op: 0, datatype: 4, datatype_attr: 8, max_members: 24, mode: 32, }
        fi_collective_addr: 16 { set: 0, coll_addr: 8, }
        fi_msg_collective: 64 { msg_iov: 0, desc: 8, iov_count: 16, coll_addr: 24, root_addr: 32, coll: 40, datatype: 44, op: 48, context: 56, }
        fi_ops_collective: 96 { size: 0, barrier: 8, broadcast: 16, alltoall: 24, allreduce: 32, allgather: 40, reduce_scatter: 48, reduce: 56, scatter: 64, gather: 72, msg: 80, barrier2: 88, }
        fi_trigger_threshold: 16 { cntr: 0, threshold: 8, }
        fi_trigger_var: 24 { datatype: 0, count: 4, addr: 8, value: 16, }
        fi_trigger_xpu: 24 { count: 0, iface: 4, device: 8, var: 16, }
        fi_op_msg: 64 { ep: 0, msg: 8, flags: 56, }
        fi_op_tagged: 80 { ep: 0, msg: 8, flags: 72, }
        fi_op_rma: 80 { ep: 0, msg: 8, flags: 72, }
        fi_op_atomic: 88 { ep: 0, msg: 8, flags: 80, }
        fi_op_fetch_atomic: 112 { ep: 0, msg: 8, fetch: 80, flags: 104, }
        fi_op_compare_atomic: 136 { ep: 0, msg: 8, fetch: 80, compare: 104, flags: 128, }
        fi_op_cntr: 16 { cntr: 0, value: 8, }
        fi_triggered_context: 32 { event_type: 0, trigger: 8, }
        fi_triggered_context2: 64 { event_type: 0, trigger: 8, }
        fi_deferred_work: 104 { context: 0, threshold: 64, triggering_cntr: 72, completion_cntr: 80, op_type: 88, op: 96, }
        fi_fid_export: 24 { fid: 0, flags: 8, context: 16, }
        fi_ops_mem_monitor: 48 { size: 0, start: 8, stop: 16, subscribe: 24, unsubscribe: 32, valid: 40, }
        fi_ops_mem_notify: 16 { size: 0, notify: 8, }
        fid_mem_monitor: 40 { fid: 0, export_ops: 24, import_ops: 32, }
        fi_ops_log: 32 { size: 0, enabled: 8, ready: 16, log: 24, }
        fid_logging: 32 { fid: 0, ops: 24, }
        fi_profile_desc: 48 { id: 0, datatype_sel: 4, datatype: 8, flags: 16, size: 24, name: 32, desc: 40, }
        fi_profile_ops: 64 { size: 0, reset: 8, query_vars: 16, query_events: 24, read_var: 32, reg_callback: 40, start_reads: 48, end_reads: 56, }
        fid_profile: 32 { fid: 0, ops: 24, }
        fi_provider: 72 { version: 0, fi_version: 4, context: 8, name: 40, getinfo: 48, fabric: 56, cleanup: 64, }
        fi_ops_av_owner: 24 { size: 0, query: 8, ep_addr: 16, }
        fid_peer_av: 32 { fid: 0, owner_ops: 24, }
        fi_peer_av_context: 16 { size: 0, av: 8, }
        fi_ops_av_set_owner: 16 { size: 0, members: 8, }
        fid_peer_av_set: 32 { fid: 0, owner_ops: 24, }
        fi_peer_av_set_context: 16 { size: 0, av_set: 8, }
        fi_ops_cq_owner: 24 { size: 0, write: 8, writeerr: 16, }
        fid_peer_cq: 32 { fid: 0, owner_ops: 24, }
        fi_peer_cq_context: 16 { size: 0, cq: 8, }
        fi_ops_cntr_owner: 24 { size: 0, inc: 8, incerr: 16, }
        fid_peer_cntr: 32 { fid: 0, owner_ops: 24, }
        fi_peer_cntr_context: 16 { size: 0, cntr: 8, }
        fi_peer_domain_context: 16 { size: 0, domain: 8, }
        fi_peer_eq_context: 16 { size: 0, eq: 8, }
        fi_peer_rx_entry: 96 { srx: 0, addr: 8, msg_size: 16, tag: 24, cq_data: 32, flags: 40, context: 48, count: 56, desc: 64, peer_context: 72, owner_context: 80, iov: 88, }
        fi_peer_match_attr: 24 { addr: 0, msg_size: 8, tag: 16, }
        fi_ops_srx_owner: 56 { size: 0, get_msg: 8, get_tag: 16, queue_msg: 24, queue_tag: 32, foreach_unspec_addr: 40, free_entry: 48, }
        fi_ops_srx_peer: 40 { size: 0, start_msg: 8, start_tag: 16, discard_msg: 24, discard_tag: 32, }
        fid_peer_srx: 104 { ep_fid: 0, owner_ops: 88, peer_ops: 96, }
        fi_peer_srx_context: 16 { size: 0, srx: 8, }
        fi_ops_transfer_peer: 24 { size: 0, complete: 8, comperr: 16, }
        fi_peer_transfer_context: 32 { size: 0, info: 8, ep: 16, peer_ops: 24, }
    }
}
