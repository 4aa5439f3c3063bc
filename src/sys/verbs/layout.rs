// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Sizes and offsets of the structs in `abi`. They are compared with these numbers when this file is compiled, and with
//! installed headers by a test.

use super::abi::*;

/// Declares the expected layout of structs: size, and offsets of members. On other architectures than x86-64 only the
/// members before the mutex of a context have the same offsets, so the numbers hold for structs without a mutex there.
macro_rules! layouts {
    ($($name:ident $size:literal { $($member:ident $offset:literal),* })*) => {
        $(
            #[cfg(target_arch = "x86_64")]
            const _: () = assert!(size_of::<$name>() == $size);
            #[cfg(target_arch = "x86_64")]
            const _: () = {
                $(assert!(core::mem::offset_of!($name, $member) == $offset, stringify!($member));)*
            };
        )*

        /// Struct, size here, and members with their offsets here, for the comparison with headers.
        #[cfg(test)]
        pub(super) const LAYOUTS: &[(&str, usize, &[(&str, usize)])] = &[
            $((
                stringify!($name),
                size_of::<$name>(),
                &[$((stringify!($member), core::mem::offset_of!($name, $member))),*],
            )),*
        ];
    };
}

layouts! {
    ibv_device 664 { node_type 16, transport_type 20, name 24, dev_name 88, dev_path 152, ibdev_path 408 }
    ibv_context 328 {
        device 0, ops 8, cmd_fd 264, async_fd 268, num_comp_vectors 272, mutex 280, abi_compat 320
    }
    ibv_async_event 16 { element 0, event_type 8 }
    ibv_qp 160 { context 0, pd 16, send_cq 24, recv_cq 32, srq 40, handle 48, qp_num 52, state 56, qp_type 60 }
    ibv_cq 128 { context 0, channel 8, cq_context 16, cqe 28 }
    ibv_srq 128 { context 0, pd 16 }
    ibv_mr 48 { context 0, pd 8, addr 16, length 24, handle 32, lkey 36, rkey 40 }
    ibv_pd 16 { context 0 }
    ibv_ah 24 { context 0, pd 8 }
    ibv_global_route 24 { dgid 0, flow_label 16, sgid_index 20, hop_limit 21, traffic_class 22 }
    ibv_ah_attr 32 {
        grh 0, dlid 24, sl 26, src_path_bits 27, static_rate 28, is_global 29, port_num 30
    }
    ibv_comp_channel 16 { context 0, fd 8, refcnt 12 }
    ibv_sge 16 { addr 0, length 8, lkey 12 }
    ibv_send_wr 128 { wr_id 0, next 8, sg_list 16, num_sge 24, opcode 28, send_flags 32, imm_data 36, wr 40 }
    ibv_recv_wr 32 { wr_id 0, next 8, sg_list 16, num_sge 24 }
    ibv_wc 48 {
        wr_id 0, status 8, opcode 12, vendor_err 16, byte_len 20, imm_data 24, qp_num 28, src_qp 32, wc_flags 36,
        pkey_index 40, slid 42, sl 44, dlid_path_bits 45
    }
    ibv_qp_cap 20 {
        max_send_wr 0, max_recv_wr 4, max_send_sge 8, max_recv_sge 12, max_inline_data 16
    }
    ibv_qp_init_attr 64 {
        qp_context 0, send_cq 8, recv_cq 16, srq 24, cap 32, qp_type 52, sq_sig_all 56
    }
    ibv_qp_attr 144 { qp_state 0, qkey 16, sq_psn 24, pkey_index 120, min_rnr_timer 128, port_num 129 }
    ibv_srq_init_attr 24 { srq_context 0, attr 8 }
    ibv_device_attr 232 {
        fw_ver 0, vendor_id 96, vendor_part_id 100, hw_ver 104, max_qp 108, max_qp_wr 112, device_cap_flags 116,
        max_sge 120, max_sge_rd 124, max_cq 128, max_cqe 132, max_mr 136, max_qp_rd_atom 144,
        max_qp_init_rd_atom 156, atomic_cap 164, max_srq 212, max_srq_wr 216, max_srq_sge 220, phys_port_cnt 227
    }
    ibv_device_attr_ex 400 { orig_attr 0, comp_mask 232, odp_caps 240 }
    ibv_port_attr 52 {
        state 0, max_mtu 4, active_mtu 8, gid_tbl_len 12, max_msg_sz 20, pkey_tbl_len 32, lid 34, sm_sl 40,
        active_width 43, active_speed 44, link_layer 46, flags 47, port_cap_flags2 48
    }
    rdma_event_channel 4 { fd 0 }
    rdma_cm_id 416 {
        verbs 0, channel 8, context 16, qp 24, route 32, ps 344, port_num 348, event 352, srq 392, pd 400, qp_type 408
    }
    rdma_cm_event 80 { id 0, listen_id 8, event 16, status 20, param 24 }
    rdma_conn_param 24 {
        private_data 0, private_data_len 8, responder_resources 9, initiator_depth 10, flow_control 11,
        retry_count 12, rnr_retry_count 13, srq 14, qp_num 16
    }
}
