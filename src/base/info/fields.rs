// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The table of the fields of `fi_info`'s attributes: fi_getinfo(3), fi_endpoint(3), fi_domain(3), fi_fabric(3).
//!
//! A row has the Rust field with its type, the place in the C struct, and the form in which `fi_tostr` prints the field
//! (`hidden`: not at all). The structs, their conversion from and to C and their texts are made of it: a new field is a
//! member in `abi` and a row here. `since V27`: the caller's headers must have it.

/// Passes the table to the macro `$then`.
macro_rules! each_attr {
    ($then:ident) => {
        $then! {
            TxAttr of fi_tx_attr {
                caps: Caps = [caps], flags(CAPS) "caps";
                mode: Mode = [mode], flags(MODE) "mode";
                op_flags: OpFlags = [op_flags], flags(OP_FLAGS) "op_flags";
                msg_order: MsgOrder = [msg_order], flags(MSG_ORDER) "msg_order";
                comp_order: CompOrder = [comp_order], hidden() "comp_order";
                inject_size: usize = [inject_size], number() "inject_size";
                size: usize = [size], number() "size";
                iov_limit: usize = [iov_limit], number() "iov_limit";
                rma_iov_limit: usize = [rma_iov_limit], number() "rma_iov_limit";
                tclass: u32 = [tclass], hex() "tclass";
            }
            RxAttr of fi_rx_attr {
                caps: Caps = [caps], flags(CAPS) "caps";
                mode: Mode = [mode], flags(MODE) "mode";
                op_flags: OpFlags = [op_flags], flags(OP_FLAGS) "op_flags";
                msg_order: MsgOrder = [msg_order], flags(MSG_ORDER) "msg_order";
                comp_order: CompOrder = [comp_order], hidden() "comp_order";
                total_buffered_recv: usize = [total_buffered_recv], hidden() "total_buffered_recv";
                size: usize = [size], number() "size";
                iov_limit: usize = [iov_limit], number() "iov_limit";
            }
            EpAttr of fi_ep_attr {
                ep_type: u32 = [r#type.0], named(EP_TYPE) "type";
                protocol: u32 = [protocol], named(PROTOCOL) "protocol";
                protocol_version: u32 = [protocol_version], signed() "protocol_version";
                max_msg_size: usize = [max_msg_size], number() "max_msg_size";
                msg_prefix_size: usize = [msg_prefix_size], number() "msg_prefix_size";
                max_order_raw_size: usize = [max_order_raw_size], number() "max_order_raw_size";
                max_order_war_size: usize = [max_order_war_size], number() "max_order_war_size";
                max_order_waw_size: usize = [max_order_waw_size], number() "max_order_waw_size";
                mem_tag_format: u64 = [mem_tag_format], long_hex() "mem_tag_format";
                tx_ctx_cnt: usize = [tx_ctx_cnt], contexts() "tx_ctx_cnt";
                rx_ctx_cnt: usize = [rx_ctx_cnt], contexts() "rx_ctx_cnt";
                /// Not the length of `auth_key`: it may be `FI_AV_AUTH_KEY`, or be set without a key.
                auth_key_size: usize = [auth_key_size], number() "auth_key_size";
                auth_key: Option<Secret> = [auth_key] with auth_key_size, hidden() "auth_key";
                /// A `fid_xpu_ctx` as a number, which the library does not use; 0 is none.
                xpu_ctx: usize = [xpu_ctx], pointer() "xpu_ctx" since V27;
                max_tx_wr_size: usize = [max_tx_wr_size], number() "max_tx_wr_size" since V28;
                max_rx_wr_size: usize = [max_rx_wr_size], number() "max_rx_wr_size" since V28;
            }
            DomainAttr of fi_domain_attr {
                /// An open `fid_domain` as a number; 0 is none.
                domain: usize = [domain], pointer() "domain";
                name: Option<CString> = [name], string() "name";
                threading: u32 = [threading.0], named(THREADING) "threading";
                /// Set in results for programs of the 1.x headers; ignored in hints.
                control_progress: u32 = [control_progress.0], hidden() "control_progress";
                progress: u32 = [anonymous.progress.0], named(PROGRESS) "progress";
                resource_mgmt: u32 = [resource_mgmt.0], named(RESOURCE_MGMT) "resource_mgmt";
                av_type: u32 = [av_type.0], named(AV_TYPE) "av_type";
                mr_mode: MrMode = [mr_mode], flags(MR_MODE) "mr_mode";
                mr_key_size: usize = [mr_key_size], number() "mr_key_size";
                cq_data_size: usize = [cq_data_size], number() "cq_data_size";
                cq_cnt: usize = [cq_cnt], number() "cq_cnt";
                ep_cnt: usize = [ep_cnt], number() "ep_cnt";
                tx_ctx_cnt: usize = [tx_ctx_cnt], number() "tx_ctx_cnt";
                rx_ctx_cnt: usize = [rx_ctx_cnt], number() "rx_ctx_cnt";
                max_ep_tx_ctx: usize = [max_ep_tx_ctx], number() "max_ep_tx_ctx";
                max_ep_rx_ctx: usize = [max_ep_rx_ctx], number() "max_ep_rx_ctx";
                max_ep_stx_ctx: usize = [max_ep_stx_ctx], number() "max_ep_stx_ctx";
                max_ep_srx_ctx: usize = [max_ep_srx_ctx], number() "max_ep_srx_ctx";
                cntr_cnt: usize = [cntr_cnt], number() "cntr_cnt";
                mr_iov_limit: usize = [mr_iov_limit], number() "mr_iov_limit";
                caps: Caps = [caps], flags(CAPS) "caps";
                mode: Mode = [mode], flags(MODE) "mode";
                auth_key_size: usize = [auth_key_size], number() "auth_key_size";
                auth_key: Option<Secret> = [auth_key] with auth_key_size, hidden() "auth_key";
                max_err_data: usize = [max_err_data], number() "max_err_data";
                mr_cnt: usize = [mr_cnt], number() "mr_cnt";
                tclass: u32 = [tclass], hex() "tclass";
                max_ep_auth_key: usize = [max_ep_auth_key], number() "max_ep_auth_key";
                max_group_id: u32 = [max_group_id], number() "max_group_id";
                max_cntr_value: u64 = [max_cntr_value], number() "max_cntr_value";
                max_err_cntr_value: u64 = [max_err_cntr_value], number() "max_err_cntr_value";
                max_xpu_ctx_cnt: usize = [max_xpu_ctx_cnt], number() "max_xpu_ctx_cnt" since V27;
            }
            FabricAttr of fi_fabric_attr {
                /// An open `fid_fabric` as a number; 0 is none.
                fabric: usize = [fabric], hidden() "fabric";
                name: Option<CString> = [name], string() "name";
                prov_name: Option<CString> = [prov_name], string() "prov_name";
                prov_version: u32 = [prov_version], version() "prov_version";
                api_version: u32 = [api_version], version() "api_version";
            }
        }
    };
}
pub(crate) use each_attr;
