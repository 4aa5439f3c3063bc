// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Sizes of the structs in the headers that a caller was compiled with. The structs grew only at the end.
//!
//! The symbol version of fi_getinfo and fi_dupinfo determines the sizes in an `fi_info`. For all other calls only the
//! API version of the fabric gives a hint, and from 2.5 on not even that: there the smallest sizes are used.
#![forbid(unsafe_code)]

use core::mem::offset_of;

/// Sizes in bytes, as measured for each symbol version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub info: usize,
    pub tx: usize,
    pub rx: usize,
    pub ep: usize,
    pub domain: usize,
    pub fabric: usize,
}

impl Layout {
    /// Headers of 1.0 to 1.4.
    pub const FABRIC_1_0: Layout = Layout {
        info: 112,
        tx: 72,
        rx: 64,
        ep: 80,
        domain: 120,
        fabric: 32,
    };
    /// 1.5 and 1.6 (authorisation keys, more domain limits).
    pub const FABRIC_1_1: Layout = Layout {
        ep: 96,
        domain: 184,
        ..Layout::FABRIC_1_0
    };
    /// 1.7 and 1.8 (`nic`).
    pub const FABRIC_1_2: Layout = Layout {
        info: 120,
        ..Layout::FABRIC_1_1
    };
    /// 1.9 to 1.19 (`tclass`).
    pub const FABRIC_1_3: Layout = Layout {
        tx: 80,
        domain: 192,
        ..Layout::FABRIC_1_2
    };
    /// 1.20 to 1.22 (`max_ep_auth_key`).
    pub const FABRIC_1_7: Layout = Layout {
        domain: 200,
        ..Layout::FABRIC_1_3
    };
    /// 2.0 to 2.4 (`max_group_id`).
    pub const FABRIC_1_8: Layout = Layout {
        domain: 208,
        ..Layout::FABRIC_1_7
    };
    /// 2.5 and 2.6 (counter limits).
    pub const FABRIC_1_9: Layout = Layout {
        domain: 224,
        ..Layout::FABRIC_1_8
    };
    /// 2.7 (devices that start transfers).
    pub const FABRIC_1_10: Layout = Layout {
        ep: 104,
        domain: 232,
        ..Layout::FABRIC_1_9
    };
    /// The alpha of 2.8 (prepared requests).
    pub const FABRIC_1_11: Layout = Layout {
        ep: 120,
        ..Layout::FABRIC_1_10
    };
    /// The layout that this library writes, whatever the caller was compiled with.
    pub const CURRENT: Layout = Layout::FABRIC_1_11;

    /// Bytes of `fi_cq_attr` that every caller has.
    pub const CQ_ATTR: usize = 40;
    /// Bytes of `fi_cntr_attr` that every caller has.
    pub const CNTR_ATTR: usize = 24;

    /// Returns the number of bytes of `fi_mr_attr` with the members that the library reads: keys were added with 1.5,
    /// the kind of memory with 1.9, parts of a region with 2.0.
    pub const fn mr_attr(version: u32) -> usize {
        match version {
            0x0002_0000.. => size_of::<abi::fi_mr_attr>(),
            0x0001_0009.. => 80,
            0x0001_0005.. => 64,
            _ => 48,
        }
    }

    /// Returns the layout for calls without a versioned symbol, by the API version that was passed to fi_getinfo(3).
    pub const fn of_api(version: u32) -> Layout {
        const fn at(major: u32, minor: u32) -> u32 {
            major << 16 | minor
        }
        if version < at(1, 5) {
            Layout::FABRIC_1_0
        } else if version < at(1, 7) {
            Layout::FABRIC_1_1
        } else if version < at(1, 9) {
            Layout::FABRIC_1_2
        } else if version < at(1, 20) {
            Layout::FABRIC_1_3
        } else if version < at(2, 0) {
            Layout::FABRIC_1_7
        } else if version < at(2, 5) {
            Layout::FABRIC_1_8
        } else {
            Layout::FABRIC_1_9
        }
    }
}

/// Most bytes of an address or key that are read. The longest address of a provider has less than 1 KiB.
pub const LONGEST: usize = 64 * 1024;

const _: () = {
    let current = Layout::CURRENT;
    assert!(current.info == size_of::<abi::fi_info>());
    assert!(current.tx == size_of::<abi::fi_tx_attr>());
    assert!(current.rx == size_of::<abi::fi_rx_attr>());
    assert!(current.ep == size_of::<abi::fi_ep_attr>());
    assert!(current.domain == size_of::<abi::fi_domain_attr>());
    assert!(current.fabric == size_of::<abi::fi_fabric_attr>());
    assert!(Layout::CQ_ATTR == offset_of!(abi::fi_cq_attr, xpu_ctx));
    assert!(Layout::CNTR_ATTR == offset_of!(abi::fi_cntr_attr, xpu_ctx));
};
