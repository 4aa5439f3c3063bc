// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! How a domain identifies memory regions and addresses in them: fi_mr(3), mr_mode. `Access` has the permitted
//! accesses.
#![forbid(unsafe_code)]

use crate::MrMode;
use crate::flags::flags;

/// The key of a region without a key.
pub const NO_KEY: u64 = abi::FI_KEY_NOTAVAIL;

/// Flag of a registration that is not to be cached. It is private, with the bit that libfabric's own providers use.
pub const UNCACHED: u64 = 1 << 60;

/// Private flag of a registration whose region may keep the rights of peers when it is closed, until it leaves the
/// cache. Without it a region with such rights is not cached.
pub const KEPT: u64 = 1 << 61;

/// How the keys of a domain's regions are chosen, and how peers address a byte of a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KeyPolicy {
    /// The provider chooses the keys; otherwise the application requests them.
    pub prov_key: bool,
    /// Peers use virtual addresses; otherwise offsets from the region's start.
    pub virt_addr: bool,
}

impl KeyPolicy {
    /// Derives the policy from the domain attribute. FI_MR_BASIC means both bits, FI_MR_SCALABLE and 0 mean none.
    pub const fn from_mr_mode(mr_mode: MrMode) -> KeyPolicy {
        KeyPolicy {
            prov_key: mr_mode.intersects(flags!(MrMode: BASIC | PROV_KEY)),
            virt_addr: mr_mode.intersects(flags!(MrMode: BASIC | VIRT_ADDR)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mr_mode_decides_about_keys_and_addresses() {
        let policy = |mode| {
            let KeyPolicy {
                prov_key,
                virt_addr,
            } = KeyPolicy::from_mr_mode(mode);
            (prov_key, virt_addr)
        };
        assert_eq!(policy(MrMode::UNSPEC), (false, false));
        assert_eq!(policy(MrMode::SCALABLE), (false, false));
        assert_eq!(policy(MrMode::BASIC), (true, true));
        assert_eq!(policy(MrMode::PROV_KEY), (true, false));
        assert_eq!(policy(MrMode::VIRT_ADDR), (false, true));
        let others = MrMode::LOCAL | MrMode::ALLOCATED | MrMode::HMEM | MrMode::RAW;
        assert_eq!(policy(others), (false, false));
    }
}
