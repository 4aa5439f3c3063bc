// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The attributes of fi_getinfo(3), fi_endpoint(3), fi_domain(3) and fi_fabric(3), owned and without pointers into C.
//!
//! Enumerations stay numbers, because an application may store any integer in them and hints are compared before they
//! are interpreted. Names are C strings because C gives them no encoding.
#![forbid(unsafe_code)]

use std::ffi::CString;

use super::{Made, Nic};
use crate::{Caps, CompOrder, Mode, MrMode, MsgOrder, OpFlags, Secret};

/// One entry of a result, or an entry that an application passes to fi_domain(3), fi_endpoint(3) and similar calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Info {
    pub caps: Caps,
    pub mode: Mode,
    pub addr_format: u32,
    pub src_addr: Option<Vec<u8>>,
    pub dest_addr: Option<Vec<u8>>,
    /// A `fid_t` as a number; 0 is none.
    pub handle: usize,
    pub tx: TxAttr,
    pub rx: RxAttr,
    pub ep: EpAttr,
    pub domain: DomainAttr,
    pub fabric: FabricAttr,
    /// For an entry of a plug-in, its C struct, which the application gets.
    pub made: Option<Made>,
    /// For an entry of a plug-in, or of a provider layered on it, the network card.
    pub nic: Option<Nic>,
}

/// The hints of an application. A part that is `None` was a null pointer and restricts nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hints {
    pub caps: Caps,
    pub mode: Mode,
    pub addr_format: u32,
    pub src_addr: Option<Vec<u8>>,
    pub dest_addr: Option<Vec<u8>>,
    /// A `fid_t` as a number; 0 is none.
    pub handle: usize,
    pub tx: Option<TxAttr>,
    pub rx: Option<RxAttr>,
    pub ep: Option<EpAttr>,
    pub domain: Option<DomainAttr>,
    pub fabric: Option<FabricAttr>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct TxAttr {
    pub caps: Caps,
    pub mode: Mode,
    pub op_flags: OpFlags,
    pub msg_order: MsgOrder,
    pub comp_order: CompOrder,
    pub inject_size: usize,
    pub size: usize,
    pub iov_limit: usize,
    pub rma_iov_limit: usize,
    pub tclass: u32,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct RxAttr {
    pub caps: Caps,
    pub mode: Mode,
    pub op_flags: OpFlags,
    pub msg_order: MsgOrder,
    pub comp_order: CompOrder,
    pub total_buffered_recv: usize,
    pub size: usize,
    pub iov_limit: usize,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct EpAttr {
    pub ep_type: u32,
    pub protocol: u32,
    pub protocol_version: u32,
    pub max_msg_size: usize,
    pub msg_prefix_size: usize,
    pub max_order_raw_size: usize,
    pub max_order_war_size: usize,
    pub max_order_waw_size: usize,
    pub mem_tag_format: u64,
    pub tx_ctx_cnt: usize,
    pub rx_ctx_cnt: usize,
    /// Not the length of `auth_key`: it may be `FI_AV_AUTH_KEY`, or be set without a key.
    pub auth_key_size: usize,
    pub auth_key: Option<Secret>,
    /// A `fid_xpu_ctx` as a number, which the library does not use; 0 is none.
    pub xpu_ctx: usize,
    pub max_tx_wr_size: usize,
    pub max_rx_wr_size: usize,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct DomainAttr {
    /// An open `fid_domain` as a number; 0 is none.
    pub domain: usize,
    pub name: Option<CString>,
    pub threading: u32,
    /// Set in results for programs of the 1.x headers; ignored in hints.
    pub control_progress: u32,
    pub progress: u32,
    pub resource_mgmt: u32,
    pub av_type: u32,
    pub mr_mode: MrMode,
    pub mr_key_size: usize,
    pub cq_data_size: usize,
    pub cq_cnt: usize,
    pub ep_cnt: usize,
    pub tx_ctx_cnt: usize,
    pub rx_ctx_cnt: usize,
    pub max_ep_tx_ctx: usize,
    pub max_ep_rx_ctx: usize,
    pub max_ep_stx_ctx: usize,
    pub max_ep_srx_ctx: usize,
    pub cntr_cnt: usize,
    pub mr_iov_limit: usize,
    pub caps: Caps,
    pub mode: Mode,
    pub auth_key_size: usize,
    pub auth_key: Option<Secret>,
    pub max_err_data: usize,
    pub mr_cnt: usize,
    pub tclass: u32,
    pub max_ep_auth_key: usize,
    pub max_group_id: u32,
    pub max_cntr_value: u64,
    pub max_err_cntr_value: u64,
    pub max_xpu_ctx_cnt: usize,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct FabricAttr {
    /// An open `fid_fabric` as a number; 0 is none.
    pub fabric: usize,
    pub name: Option<CString>,
    pub prov_name: Option<CString>,
    pub prov_version: u32,
    pub api_version: u32,
}

impl From<Hints> for Info {
    fn from(hints: Hints) -> Info {
        Info {
            caps: hints.caps,
            mode: hints.mode,
            addr_format: hints.addr_format,
            src_addr: hints.src_addr,
            dest_addr: hints.dest_addr,
            handle: hints.handle,
            tx: hints.tx.unwrap_or_default(),
            rx: hints.rx.unwrap_or_default(),
            ep: hints.ep.unwrap_or_default(),
            domain: hints.domain.unwrap_or_default(),
            fabric: hints.fabric.unwrap_or_default(),
            made: None,
            nic: None,
        }
    }
}

impl From<Info> for Hints {
    fn from(info: Info) -> Hints {
        Hints {
            caps: info.caps,
            mode: info.mode,
            addr_format: info.addr_format,
            src_addr: info.src_addr,
            dest_addr: info.dest_addr,
            handle: info.handle,
            tx: Some(info.tx),
            rx: Some(info.rx),
            ep: Some(info.ep),
            domain: Some(info.domain),
            fabric: Some(info.fabric),
        }
    }
}
