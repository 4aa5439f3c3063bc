// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Why something is not in the result of fi_getinfo(3), as data, and the one form in which it is written.
#![forbid(unsafe_code)]

use core::fmt;
use std::ffi::CString;

/// One thing that an application wanted and somebody could not offer.
#[derive(Clone, Debug, PartialEq)]
pub struct Reason {
    /// Whose entries these were; "core" if it concerns all.
    pub provider: String,
    /// The domain names of the entries that are missing for this reason; empty if it concerns all.
    pub interfaces: Vec<CString>,
    /// The endpoint type of those entries; 0 if it concerns all.
    pub ep_type: u32,
    pub refusal: Refusal,
}

/// The part of a [`Reason`] that a single rule knows.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// Where the wish stands: the path in `fi_info`, the name of an argument or of a variable.
    pub field: &'static str,
    pub wanted: Value,
    pub offered: Value,
}

/// A value of a field, with what it takes to write it.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Count(u64),
    Caps(u64),
    Mode(u64),
    OpFlags(u64),
    Order(u64),
    MrMode(i32),
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

    pub fn of(self, provider: &str, interfaces: Vec<CString>, ep_type: u32) -> Reason {
        Reason {
            provider: provider.to_owned(),
            interfaces,
            ep_type,
            refusal: self,
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
            Value::Caps(bits) | Value::Mode(bits) | Value::OpFlags(bits) | Value::Order(bits) => {
                write!(f, "{bits:#x}")
            }
            Value::MrMode(bits) => write!(f, "{bits:#x}"),
            Value::Tag(format) => write!(f, "{format:#018x}"),
            Value::Version(version) => write!(f, "{}.{}", version >> 16, version & 0xffff),
            Value::EpType(number)
            | Value::Protocol(number)
            | Value::AddrFormat(number)
            | Value::Threading(number)
            | Value::Progress(number)
            | Value::ResourceMgmt(number)
            | Value::AvType(number) => write!(f, "{number}"),
            Value::Text(text) => write!(f, "{text:?}"),
        }
    }
}
