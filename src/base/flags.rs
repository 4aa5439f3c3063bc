// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The sets of bits that attributes and calls carry, each a type of its own: a mode cannot be passed where a capability
//! belongs, though both are numbers in C.
//!
//! C's numbers become these types where they are read, and numbers again where they are written. Every bit that an
//! application sets survives that, whether it has a name here or not: it may be of a later version, and what asks for it
//! has to be refused by its number. So each type says of all bits that they are known.
#![forbid(unsafe_code)]

use bitflags::bitflags;

use crate::abi;

bitflags! {
    /// What something can do: fi_getinfo(3), "Capabilities".
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[repr(transparent)]
    pub struct Caps: u64 {
        const MSG = abi::FI_MSG;
        const RMA = abi::FI_RMA;
        const TAGGED = abi::FI_TAGGED;
        const ATOMIC = abi::FI_ATOMIC;
        const MULTICAST = abi::FI_MULTICAST;
        const COLLECTIVE = abi::FI_COLLECTIVE;
        const READ = abi::FI_READ;
        const WRITE = abi::FI_WRITE;
        const RECV = abi::FI_RECV;
        const SEND = abi::FI_SEND;
        const REMOTE_READ = abi::FI_REMOTE_READ;
        const REMOTE_WRITE = abi::FI_REMOTE_WRITE;
        const MULTI_RECV = abi::FI_MULTI_RECV;
        const TRIGGER = abi::FI_TRIGGER;
        const FENCE = abi::FI_FENCE;
        const AV_USER_ID = abi::FI_AV_USER_ID;
        const PEER = abi::FI_PEER;
        const TAGGED_DIRECTED_RECV = abi::FI_TAGGED_DIRECTED_RECV;
        const TAGGED_MULTI_RECV = abi::FI_TAGGED_MULTI_RECV;
        const HMEM = abi::FI_HMEM;
        const EXACT_DIRECTED_RECV = abi::FI_EXACT_DIRECTED_RECV;
        const RMA_PMEM = abi::FI_RMA_PMEM;
        const SOURCE_ERR = abi::FI_SOURCE_ERR;
        const LOCAL_COMM = abi::FI_LOCAL_COMM;
        const REMOTE_COMM = abi::FI_REMOTE_COMM;
        const SHARED_AV = abi::FI_SHARED_AV;
        const RMA_EVENT = abi::FI_RMA_EVENT;
        const SOURCE = abi::FI_SOURCE;
        const NAMED_RX_CTX = abi::FI_NAMED_RX_CTX;
        const DIRECTED_RECV = abi::FI_DIRECTED_RECV;
        const _ = !0;
    }
}

bitflags! {
    /// What a provider needs of an application, which says what it is ready for: fi_getinfo(3), "Mode".
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[repr(transparent)]
    pub struct Mode: u64 {
        const CONTEXT = abi::FI_CONTEXT;
        const MSG_PREFIX = abi::FI_MSG_PREFIX;
        const ASYNC_IOV = abi::FI_ASYNC_IOV;
        const RX_CQ_DATA = abi::FI_RX_CQ_DATA;
        const LOCAL_MR = abi::FI_LOCAL_MR;
        const CONTEXT2 = abi::FI_CONTEXT2;
        const _ = !0;
    }
}

/// `flags!(Caps: MSG | RMA)`: a set of named bits, also for constants, in which the operator cannot be called.
macro_rules! flags {
    ($type:ident: $($name:ident)|+) => {
        $type::empty()$(.union($type::$name))+
    };
}
pub(crate) use flags;

#[cfg(test)]
mod tests {
    use bitflags::Flags;

    use super::*;

    /// Every bit comes back, whether it has a name or not, and is one like the others in between.
    fn keeps_all_bits<T: Flags<Bits = u64> + Copy>() {
        for bit in 0..u64::BITS {
            let one = T::from_bits_retain(1 << bit);
            assert_eq!(one.bits(), 1 << bit);
            let rest = one.complement();
            assert_eq!(rest.bits(), !(1 << bit));
            assert_eq!(one.union(rest).bits(), u64::MAX);
            assert!(!rest.intersects(one));
        }
    }

    #[test]
    fn bits_without_a_name_are_kept() {
        keeps_all_bits::<Caps>();
        keeps_all_bits::<Mode>();
    }

    #[test]
    fn a_set_of_names_is_that_of_the_headers() {
        const SET: Caps = flags!(Caps: MSG | RMA | NAMED_RX_CTX);
        let bits = abi::FI_MSG | abi::FI_RMA | abi::FI_NAMED_RX_CTX;
        assert_eq!(SET.bits(), bits);
        assert_eq!(format!("{SET:#x}"), format!("{bits:#x}"));
    }
}
