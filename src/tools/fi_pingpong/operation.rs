// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The measured operation: `--op`.

use abi::*;
use calls::remote::Access;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    Message,
    Tagged,
    /// Messages, all sent by fi_inject.
    Inject,
    Access(Access),
}

impl Operation {
    pub fn named(text: &str) -> Result<Operation, String> {
        let found = NAMES.iter().find(|(name, _)| *name == text);
        found.map(|(_, operation)| *operation).ok_or_else(|| {
            let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
            format!("unknown operation \"{text}\": {}", names.join(", "))
        })
    }

    pub fn name(self) -> &'static str {
        let found = NAMES.iter().find(|(_, operation)| *operation == self);
        found.map_or("", |(name, _)| name)
    }

    /// Returns the operation on the peer's memory, if it is one.
    pub fn access(self) -> Option<Access> {
        match self {
            Operation::Access(access) => Some(access),
            _ => None,
        }
    }

    pub fn is_atomic(self) -> bool {
        matches!(self.access(), Some(Access::Atomic | Access::Fetch))
    }

    /// Returns the capability that an endpoint needs, as text.
    pub fn needs(self) -> &'static str {
        match self {
            Operation::Message | Operation::Inject => "FI_MSG",
            Operation::Tagged => "FI_TAGGED",
            Operation::Access(Access::Atomic | Access::Fetch) => "FI_ATOMIC",
            Operation::Access(_) => "FI_RMA",
        }
    }

    pub fn caps(self) -> u64 {
        match self {
            Operation::Message | Operation::Inject => FI_MSG,
            Operation::Tagged => FI_TAGGED,
            // Both sides end with messages.
            Operation::Access(Access::Atomic | Access::Fetch) => FI_MSG | FI_ATOMIC,
            Operation::Access(_) => FI_MSG | FI_RMA,
        }
    }
}

const NAMES: &[(&str, Operation)] = &[
    ("msg", Operation::Message),
    ("tagged", Operation::Tagged),
    ("inject", Operation::Inject),
    ("write", Operation::Access(Access::Write)),
    ("writedata", Operation::Access(Access::WriteData)),
    ("read", Operation::Access(Access::Read)),
    ("atomic", Operation::Access(Access::Atomic)),
    ("fetch", Operation::Access(Access::Fetch)),
];
