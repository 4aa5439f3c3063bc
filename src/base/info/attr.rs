// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The attributes of fi_getinfo(3), fi_endpoint(3), fi_domain(3) and fi_fabric(3), owned and without pointers into C.
//!
//! Enumerations stay numbers, because an application may store any integer in them and hints are compared before they
//! are interpreted. Names are C strings because C gives them no encoding.
#![forbid(unsafe_code)]

use std::ffi::CString;

use super::fields::each_attr;
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
    /// The network card, for an entry of a provider that describes it, or of a provider layered on that.
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

macro_rules! structs {
    ($($name:ident of $raw:ident {
        $($(#[$doc:meta])* $field:ident: $type:ty = $place:tt $(with $len:ident)?, $show:ident $how:tt $label:literal $(since $since:ident)?;)*
    })*) => { $(
        #[doc = concat!("`struct ", stringify!($raw), "`.")]
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name { $($(#[$doc])* pub $field: $type,)* }
    )* };
}

each_attr!(structs);

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
