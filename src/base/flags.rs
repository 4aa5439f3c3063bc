// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The sets of bits in attributes and calls, each with a type of its own: a mode cannot be passed as a capability,
//! although both are numbers in C.
//!
//! C's numbers become these types when they are read, and numbers again when they are written. Every bit that an
//! application sets is kept, whether it has a name here or not: it may be from a later version of the interface, and
//! the request has to be refused by that bit. So each type declares all bits as known.
#![forbid(unsafe_code)]

use bitflags::bitflags;

/// `flags!(Caps: MSG | RMA)`: a set of named bits. Also for constants, which cannot use the operator.
#[macro_export]
macro_rules! flags {
    ($type:ident: $($name:ident)|+) => {
        $type::empty()$(.union($type::$name))+
    };
}
pub use flags;

bitflags! {
    /// Capabilities of an object: fi_getinfo(3), "Capabilities".
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
        const WR = abi::FI_WR;
        const PEER = abi::FI_PEER;
        const XPU = abi::FI_XPU;
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
    /// Requirements of a provider, which the application declares that it meets: fi_getinfo(3), "Mode".
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

bitflags! {
    /// Requirements for memory registration: fi_mr(3), "mr_mode". Includes the old values BASIC and SCALABLE.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[repr(transparent)]
    pub struct MrMode: i32 {
        const BASIC = abi::FI_MR_BASIC;
        const SCALABLE = abi::FI_MR_SCALABLE;
        const LOCAL = abi::FI_MR_LOCAL;
        const RAW = abi::FI_MR_RAW;
        const VIRT_ADDR = abi::FI_MR_VIRT_ADDR;
        const ALLOCATED = abi::FI_MR_ALLOCATED;
        const PROV_KEY = abi::FI_MR_PROV_KEY;
        const MMU_NOTIFY = abi::FI_MR_MMU_NOTIFY;
        const RMA_EVENT = abi::FI_MR_RMA_EVENT;
        const ENDPOINT = abi::FI_MR_ENDPOINT;
        const HMEM = abi::FI_MR_HMEM;
        const COLLECTIVE = abi::FI_MR_COLLECTIVE;
        const XPU_DESC = abi::FI_MR_XPU_DESC;
        const _ = !0;
    }
}

impl MrMode {
    pub const UNSPEC: MrMode = MrMode::empty();
}

const _: () = assert!(abi::FI_MR_UNSPEC == MrMode::UNSPEC.bits());

bitflags! {
    /// The operations that stay in the order of their calls: fi_endpoint(3), "msg_order".
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[repr(transparent)]
    pub struct MsgOrder: u64 {
        const RAR = abi::FI_ORDER_RAR;
        const RAW = abi::FI_ORDER_RAW;
        const RAS = abi::FI_ORDER_RAS;
        const WAR = abi::FI_ORDER_WAR;
        const WAW = abi::FI_ORDER_WAW;
        const WAS = abi::FI_ORDER_WAS;
        const SAR = abi::FI_ORDER_SAR;
        const SAW = abi::FI_ORDER_SAW;
        const SAS = abi::FI_ORDER_SAS;
        const RMA_RAR = abi::FI_ORDER_RMA_RAR;
        const RMA_RAW = abi::FI_ORDER_RMA_RAW;
        const RMA_WAR = abi::FI_ORDER_RMA_WAR;
        const RMA_WAW = abi::FI_ORDER_RMA_WAW;
        const ATOMIC_RAR = abi::FI_ORDER_ATOMIC_RAR;
        const ATOMIC_RAW = abi::FI_ORDER_ATOMIC_RAW;
        const ATOMIC_WAR = abi::FI_ORDER_ATOMIC_WAR;
        const ATOMIC_WAW = abi::FI_ORDER_ATOMIC_WAW;
        const _ = !0;
    }
}

bitflags! {
    /// The order in which operations complete: fi_endpoint(3), "comp_order". Only in version 1 of the API.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[repr(transparent)]
    pub struct CompOrder: u64 {
        const STRICT = abi::FI_ORDER_STRICT as u64;
        const DATA = abi::FI_ORDER_DATA;
        const _ = !0;
    }
}

impl MsgOrder {
    /// Orders in which accesses that change memory stay behind earlier reads.
    pub const WRITES_AFTER_READS: MsgOrder = flags!(MsgOrder: WAR | RMA_WAR | ATOMIC_WAR);

    /// Returns true if a provider that keeps these orders also keeps `others`. An order for accesses of all kinds, such
    /// as FI_ORDER_RAR, includes the orders for each kind.
    pub fn covers(self, others: MsgOrder) -> bool {
        let kinds = [
            (MsgOrder::RAR, flags!(MsgOrder: RMA_RAR | ATOMIC_RAR)),
            (MsgOrder::RAW, flags!(MsgOrder: RMA_RAW | ATOMIC_RAW)),
            (MsgOrder::WAR, flags!(MsgOrder: RMA_WAR | ATOMIC_WAR)),
            (MsgOrder::WAW, flags!(MsgOrder: RMA_WAW | ATOMIC_WAW)),
        ];
        let parts = kinds.into_iter().filter(|&(both, _)| self.contains(both));
        let all = parts.fold(self, |all, (_, each)| all | each);
        all.contains(others)
    }
}

bitflags! {
    /// Options of an operation: fi_msg(3) and similar pages, "flags"; and the defaults of an endpoint: fi_endpoint(3),
    /// "op_flags".
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[repr(transparent)]
    pub struct OpFlags: u64 {
        const MULTICAST = abi::FI_MULTICAST;
        const MULTI_RECV = abi::FI_MULTI_RECV;
        const REMOTE_CQ_DATA = abi::FI_REMOTE_CQ_DATA;
        const MORE = abi::FI_MORE;
        const PEEK = abi::FI_PEEK;
        const TRIGGER = abi::FI_TRIGGER;
        const FENCE = abi::FI_FENCE;
        const COMPLETION = abi::FI_COMPLETION;
        const INJECT = abi::FI_INJECT;
        const INJECT_COMPLETE = abi::FI_INJECT_COMPLETE;
        const TRANSMIT_COMPLETE = abi::FI_TRANSMIT_COMPLETE;
        const DELIVERY_COMPLETE = abi::FI_DELIVERY_COMPLETE;
        const AFFINITY = abi::FI_AFFINITY;
        const COMMIT_COMPLETE = abi::FI_COMMIT_COMPLETE;
        const MATCH_COMPLETE = abi::FI_MATCH_COMPLETE;
        const PEER = abi::FI_PEER;
        const DISCARD = abi::FI_DISCARD;
        const CLAIM = abi::FI_CLAIM;
        /// For atomic operations on tagged receive buffers.
        const TAGGED = abi::FI_TAGGED;
        /// Selects the side whose defaults FI_SETOPSFLAG and FI_ALIAS change.
        const TRANSMIT = abi::FI_TRANSMIT;
        const RECV = abi::FI_RECV;
        const _ = !0;
    }
}

impl OpFlags {
    /// Internal flag, which no application sets: the operation must not start before earlier reads that were posted to
    /// the same peer are complete (FI_ORDER_WAR, FI_ORDER_SAR).
    pub const AFTER_READS: OpFlags = OpFlags::from_bits_retain(1 << 63);
    /// Internal flag: a device has memory of the operation, so no other process reaches it.
    pub const DEVICE: OpFlags = OpFlags::from_bits_retain(1 << 62);
}

bitflags! {
    /// The kind of a completion, and the data that came with it: fi_cq(3), "flags".
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[repr(transparent)]
    pub struct CompFlags: u64 {
        const SEND = abi::FI_SEND;
        const RECV = abi::FI_RECV;
        const RMA = abi::FI_RMA;
        const ATOMIC = abi::FI_ATOMIC;
        const MSG = abi::FI_MSG;
        const TAGGED = abi::FI_TAGGED;
        const COLLECTIVE = abi::FI_COLLECTIVE;
        const READ = abi::FI_READ;
        const WRITE = abi::FI_WRITE;
        const REMOTE_READ = abi::FI_REMOTE_READ;
        const REMOTE_WRITE = abi::FI_REMOTE_WRITE;
        const REMOTE_CQ_DATA = abi::FI_REMOTE_CQ_DATA;
        const MULTI_RECV = abi::FI_MULTI_RECV;
        const _ = !0;
    }
}

bitflags! {
    /// The permitted accesses to a memory region: fi_mr(3), "access".
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[repr(transparent)]
    pub struct Access: u64 {
        const SEND = abi::FI_SEND;
        const RECV = abi::FI_RECV;
        const READ = abi::FI_READ;
        const WRITE = abi::FI_WRITE;
        const REMOTE_READ = abi::FI_REMOTE_READ;
        const REMOTE_WRITE = abi::FI_REMOTE_WRITE;
        const COLLECTIVE = abi::FI_COLLECTIVE;
        const _ = !0;
    }
}

impl Access {
    /// The accesses of peers. Only regions that grant one of these have a key.
    pub const REMOTE: Access = flags!(Access: REMOTE_READ | REMOTE_WRITE);
    /// All access bits of fi_mr(3).
    pub const KNOWN: Access =
        flags!(Access: SEND | RECV | READ | WRITE | REMOTE_READ | REMOTE_WRITE | COLLECTIVE);

    /// Returns the capabilities that an endpoint needs for these accesses. The manual uses the same names for both, and
    /// they are the same bits.
    pub const fn capabilities(self) -> Caps {
        Caps::from_bits_retain(self.bits())
    }
}

#[cfg(test)]
mod tests {
    use bitflags::Flags;

    use super::*;

    /// Checks that every bit is preserved, whether it has a name or not, and that set operations treat all bits alike.
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
    fn an_order_of_all_accesses_is_one_of_each_kind() {
        let rar = MsgOrder::RAR;
        assert!(rar.covers(MsgOrder::RMA_RAR | MsgOrder::ATOMIC_RAR));
        assert!(!rar.covers(MsgOrder::RMA_RAW) && !rar.covers(MsgOrder::RAW));
        assert!(!MsgOrder::RMA_RAR.covers(rar));
        assert!((rar | MsgOrder::WAW).covers(MsgOrder::ATOMIC_WAW | MsgOrder::RAR));
        assert!(MsgOrder::empty().covers(MsgOrder::empty()));
    }

    #[test]
    fn bits_without_a_name_are_kept() {
        keeps_all_bits::<Caps>();
        keeps_all_bits::<Access>();
        keeps_all_bits::<CompFlags>();
        keeps_all_bits::<Mode>();
        keeps_all_bits::<OpFlags>();
        keeps_all_bits::<MsgOrder>();
        keeps_all_bits::<CompOrder>();
        for bits in [i32::MIN, -1, 1 << 30 | abi::FI_MR_LOCAL] {
            assert_eq!(MrMode::from_bits_retain(bits).bits(), bits);
        }
    }

    #[test]
    fn a_set_of_names_is_that_of_the_headers() {
        const SET: Caps = flags!(Caps: MSG | RMA | NAMED_RX_CTX);
        let bits = abi::FI_MSG | abi::FI_RMA | abi::FI_NAMED_RX_CTX;
        assert_eq!(SET.bits(), bits);
        assert_eq!(format!("{SET:#x}"), format!("{bits:#x}"));
    }
}
