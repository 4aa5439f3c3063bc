// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Options of endpoints: fi_endpoint(3), fi_setopt. The table has a row for each option; an option is added by a
//! row and by the code that serves it in `EpCalls::get_opt` or `EpCalls::set_opt`.
#![forbid(unsafe_code)]

use core::ffi::c_int;

use abi::*;
use base::{Caps, Error, Result};

/// The value of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptValue {
    Size(usize),
    Bool(bool),
}

/// The type of an option's value, which determines the size that C must pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptKind {
    Size,
    Bool,
}

/// When an option can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settable {
    Never,
    BeforeEnable,
    Always,
}

/// The endpoints that have an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Active and scalable endpoints, and the contexts of the latter.
    Queue,
    /// Active endpoints and the contexts of scalable ones.
    Active,
    /// Active endpoints with these capabilities, and such contexts.
    With(Caps),
    /// Active and scalable endpoints, but not the contexts of the latter.
    Whole,
    /// Endpoints and contexts that receive, also shared receive contexts.
    Receiver,
    /// Active and passive endpoints of type FI_EP_MSG.
    Connected,
}

macro_rules! options {
    ($($(#[$doc:meta])* $name:ident = $number:expr, $kind:ident, $settable:ident, $owner:expr;)*) => {
        /// An option of an endpoint.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Opt { $($(#[$doc])* $name,)* }

        const ROWS: &[(Opt, c_int, OptKind, Settable, Owner)] =
            &[$((Opt::$name, $number, OptKind::$kind, Settable::$settable, $owner),)*];
    };
}

options! {
    MinMultiRecv = FI_OPT_MIN_MULTI_RECV, Size, Always, Owner::Receiver;
    CmDataSize = FI_OPT_CM_DATA_SIZE, Size, Never, Owner::Connected;
    TxSize = FI_OPT_TX_SIZE, Size, Never, Owner::Queue;
    RxSize = FI_OPT_RX_SIZE, Size, Never, Owner::Queue;
    FirewallAddr = FI_OPT_FIREWALL_ADDR, Bool, Always, Owner::Whole;
    SharedMemoryPermitted = FI_OPT_SHARED_MEMORY_PERMITTED, Bool, BeforeEnable, Owner::Queue;
    CudaApiPermitted = FI_OPT_CUDA_API_PERMITTED, Bool, Always, Owner::Queue;
    MaxMsgSize = FI_OPT_MAX_MSG_SIZE, Size, BeforeEnable, Owner::With(Caps::MSG);
    MaxTaggedSize = FI_OPT_MAX_TAGGED_SIZE, Size, BeforeEnable, Owner::With(Caps::TAGGED);
    MaxRmaSize = FI_OPT_MAX_RMA_SIZE, Size, BeforeEnable, Owner::With(Caps::RMA);
    MaxAtomicSize = FI_OPT_MAX_ATOMIC_SIZE, Size, BeforeEnable, Owner::With(Caps::ATOMIC);
    InjectMsgSize = FI_OPT_INJECT_MSG_SIZE, Size, BeforeEnable, Owner::With(Caps::MSG);
    InjectTaggedSize = FI_OPT_INJECT_TAGGED_SIZE, Size, BeforeEnable, Owner::With(Caps::TAGGED);
    InjectRmaSize = FI_OPT_INJECT_RMA_SIZE, Size, BeforeEnable, Owner::With(Caps::RMA);
    InjectAtomicSize = FI_OPT_INJECT_ATOMIC_SIZE, Size, BeforeEnable, Owner::With(Caps::ATOMIC);
    /// For layered providers: operations that follow one with FI_MORE are posted within the same call of the
    /// application, so the one with FI_MORE may wait for them whatever its length.
    MoreFollows = OPT_MORE_FOLLOWS, Bool, Always, Owner::Active;
    /// For layered providers: completions of this connected endpoint give the number as the source of each message and
    /// of each write with data. It is set before the endpoint connects.
    PeerNumber = OPT_PEER_NUMBER, Size, Always, Owner::Active;
    /// For layered providers: while it is set, nothing is read from the peer of this connected endpoint, also if the
    /// endpoint receives into a context that it shares with others.
    Pause = OPT_PAUSE, Bool, Always, Owner::Active;
    /// For layered providers: the fi_addr_t of a peer that hosts or routers reported as unreachable. Each report is
    /// returned once; -FI_ENOMSG: there is none.
    Unreachable = OPT_UNREACHABLE, Size, Never, Owner::Active;
    /// For layered providers: a `Listener` as a number, for an endpoint whose fi_connect is pending.
    Listener = OPT_LISTENER, Size, Never, Owner::Active;
}

/// Numbers of the options for layered providers.
pub const OPT_MORE_FOLLOWS: c_int = 0x4946_0001;
pub const OPT_PEER_NUMBER: c_int = 0x4946_0002;
pub const OPT_PAUSE: c_int = 0x4946_0003;
pub const OPT_UNREACHABLE: c_int = 0x4946_0004;
pub const OPT_LISTENER: c_int = 0x4946_0005;

impl Opt {
    /// Returns the option with this number. FI_ENOPROTOOPT: there is none.
    pub fn of(number: c_int) -> Result<Opt> {
        let row = ROWS.iter().find(|row| row.1 == number);
        row.map(|row| row.0).ok_or(Error::NOPROTOOPT)
    }

    pub const fn kind(self) -> OptKind {
        ROWS[self as usize].2
    }

    pub const fn settable(self) -> Settable {
        ROWS[self as usize].3
    }

    pub const fn owner(self) -> Owner {
        ROWS[self as usize].4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_leads_to_its_own_row() {
        for (place, &(opt, number, ..)) in ROWS.iter().enumerate() {
            assert_eq!((opt as usize, Opt::of(number)), (place, Ok(opt)));
        }
        assert_eq!(Opt::of(FI_OPT_ENDPOINT - 1), Err(Error::NOPROTOOPT));
    }
}
