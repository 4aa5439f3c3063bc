// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Reasons why an entry is not in the result of fi_getinfo(3), as data and as text.
#![forbid(unsafe_code)]

use core::fmt;
use std::ffi::CString;

use super::Prototype;
use crate::text::{flags, names};
use crate::{Caps, CompOrder, Mode, MrMode, MsgOrder, OpFlags};

/// A hint of the application that a provider cannot satisfy.
#[derive(Clone, Debug, PartialEq)]
pub struct Reason {
    /// The provider of the missing entries; "core" if the reason concerns all providers.
    pub provider: String,
    /// The domain names of the entries that are missing for this reason; empty if the reason concerns all.
    pub interfaces: Vec<CString>,
    /// The endpoint type of those entries; 0 if the reason concerns all.
    pub ep_type: u32,
    /// Whether the entries are of the kind whose endpoints share a receive context.
    pub shared: bool,
    pub refusal: Refusal,
}

/// The part of a [`Reason`] that a single rule provides.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// Location of the hint: the path in `fi_info`, or the name of an argument or of a variable.
    pub field: &'static str,
    pub wanted: Value,
    pub offered: Value,
}

/// A value of a field, with the type that determines its text.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Count(u64),
    Caps(Caps),
    Mode(Mode),
    OpFlags(OpFlags),
    Order(MsgOrder),
    CompOrder(CompOrder),
    MrMode(MrMode),
    Tag(u64),
    Version(u32),
    EpType(u32),
    Protocol(u32),
    AddrFormat(u32),
    Threading(u32),
    Progress(u32),
    ResourceMgmt(u32),
    AvType(u32),
    Text(String),
}

impl Refusal {
    pub fn new(field: &'static str, wanted: Value, offered: Value) -> Refusal {
        Refusal {
            field,
            wanted,
            offered,
        }
    }

    /// Returns the reason for all entries of a provider.
    pub fn by(self, provider: &str) -> Reason {
        Reason {
            provider: provider.to_owned(),
            interfaces: Vec::new(),
            ep_type: 0,
            shared: false,
            refusal: self,
        }
    }

    /// Returns the reason for one kind of entries at some interfaces.
    pub fn of(self, provider: &str, kind: &Prototype, interfaces: Vec<CString>) -> Reason {
        Reason {
            interfaces,
            ep_type: kind.info.ep.ep_type,
            shared: kind.shares_rx(),
            ..self.by(provider)
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

/// `refused: tcp FI_EP_RDM on eth0, lo: tx_attr.inject_size: wanted 129, offered 128`
impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "refused: {}", self.provider)?;
        if self.ep_type != 0 {
            write!(f, " {}", Value::EpType(self.ep_type))?;
        }
        if self.shared {
            f.write_str(" (shared receive context)")?;
        }
        for (position, interface) in self.interfaces.iter().enumerate() {
            let before = if position == 0 { " on " } else { ", " };
            write!(f, "{before}{}", interface.to_string_lossy())?;
        }
        let Refusal {
            field,
            wanted,
            offered,
        } = &self.refusal;
        write!(f, ": {field}: wanted {wanted}, offered {offered}")
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Count(count) => write!(f, "{count}"),
            Value::Caps(bits) => f.write_str(&flags::CAPS.sum(bits.bits())),
            Value::Mode(bits) => f.write_str(&flags::MODE.sum(bits.bits())),
            Value::OpFlags(bits) => f.write_str(&flags::OP_FLAGS.sum(bits.bits())),
            Value::Order(bits) => f.write_str(&flags::MSG_ORDER.sum(bits.bits())),
            Value::CompOrder(bits) => f.write_str(&flags::MSG_ORDER.sum(bits.bits())),
            Value::MrMode(bits) => {
                f.write_str(&flags::MR_MODE.sum(u64::from(bits.bits().cast_unsigned())))
            }
            Value::Tag(format) => write!(f, "{format:#018x}"),
            Value::Version(version) => write!(f, "{}.{}", version >> 16, version & 0xffff),
            Value::EpType(number) => f.write_str(&names::EP_TYPE.or_number(*number)),
            Value::Protocol(number) => f.write_str(&names::PROTOCOL.or_number(*number)),
            Value::AddrFormat(number) => f.write_str(&names::ADDR_FORMAT.or_number(*number)),
            Value::Threading(number) => f.write_str(&names::THREADING.or_number(*number)),
            Value::Progress(number) => f.write_str(&names::PROGRESS.or_number(*number)),
            Value::ResourceMgmt(number) => f.write_str(&names::RESOURCE_MGMT.or_number(*number)),
            Value::AvType(number) => f.write_str(&names::AV_TYPE.or_number(*number)),
            Value::Text(text) => write!(f, "{text:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::*;

    #[test]
    fn a_reason_is_one_line_with_all_there_is_to_know() {
        let refusal = Refusal::new(
            "caps",
            Value::Caps(Caps::ATOMIC | Caps::from_bits_retain(1 << 63)),
            Value::Caps(Caps::MSG | Caps::RMA),
        );
        let interfaces = vec![c"eth0".to_owned(), c"lo".to_owned()];
        let mut reason = Reason {
            interfaces,
            ep_type: FI_EP_RDM.0,
            ..refusal.by("tcp")
        };
        let text = "refused: tcp FI_EP_RDM on eth0, lo: caps: wanted FI_ATOMIC | 0x8000000000000000, \
                    offered FI_MSG | FI_RMA";
        assert_eq!(reason.to_string(), text);
        reason.shared = true;
        reason.interfaces.clear();
        let start = "refused: tcp FI_EP_RDM (shared receive context): caps: ";
        assert!(reason.to_string().starts_with(start));
    }

    #[test]
    fn values_are_written_as_programs_name_them() {
        let cases = [
            (Value::Count(129), "129"),
            (Value::Mode(Mode::CONTEXT), "FI_CONTEXT"),
            (Value::OpFlags(OpFlags::FENCE), "FI_FENCE"),
            (Value::Order(MsgOrder::WAR), "FI_ORDER_WAR"),
            (
                Value::MrMode(MrMode::BASIC | MrMode::SCALABLE),
                "FI_MR_BASIC | FI_MR_SCALABLE",
            ),
            (Value::MrMode(MrMode::UNSPEC), "0x0"),
            (Value::Tag(3), "0x0000000000000003"),
            (Value::Version(206 << 16 | 1), "206.1"),
            (Value::EpType(4), "4"),
            (Value::Protocol(FI_PROTO_XNET), "FI_PROTO_XNET"),
            (Value::AddrFormat(FI_ADDR_STR), "FI_ADDR_STR"),
            (Value::Threading(FI_THREAD_FID.0), "2"),
            (Value::Progress(9), "9"),
            (Value::ResourceMgmt(2), "FI_RM_ENABLED"),
            (Value::AvType(77), "77"),
            (Value::from("a\nb"), r#""a\nb""#),
        ];
        for (value, text) in cases {
            assert_eq!(value.to_string(), text);
        }
    }
}
