// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The order of a result: an application without wishes takes the first entry.
#![forbid(unsafe_code)]

use std::ffi::CStr;

use crate::abi::FI_EP_RDM;
use crate::base::info::Info;

/// Puts tcp's own unconnected endpoints before those that `ofi_rxm` layers upon its connected ones. Where `ofi_rxm` is
/// not wanted (`layered` is false), they go to the end, as they always did: whoever excludes it may count on finding
/// something else first.
pub fn prefer_native(entries: Vec<Info>, layered: bool) -> Vec<Info> {
    let (native, mut others): (Vec<Info>, Vec<Info>) =
        entries.into_iter().partition(|info| is_rdm(info, NATIVE));
    let first = others.iter().position(|info| is_rdm(info, LAYERED));
    let at = match (first, layered) {
        (Some(first), _) => first,
        (None, true) => 0,
        (None, false) => others.len(),
    };
    others.splice(at..at, native);
    others
}

fn is_rdm(info: &Info, provider: &CStr) -> bool {
    info.ep.ep_type == FI_EP_RDM.0 && info.fabric.prov_name.as_deref() == Some(provider)
}

pub const NATIVE: &CStr = c"tcp";
const LAYERED: &CStr = c"tcp;ofi_rxm";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::{FI_EP_DGRAM, FI_EP_MSG, fi_ep_type};

    fn entry(provider: &CStr, ep_type: fi_ep_type) -> Info {
        let mut info = Info::default();
        info.fabric.prov_name = Some(provider.to_owned());
        info.ep.ep_type = ep_type.0;
        info
    }

    fn order(entries: &[Info]) -> Vec<(&str, u32)> {
        let name = |info: &Info| info.fabric.prov_name.clone().unwrap();
        entries
            .iter()
            .map(|info| match name(info).to_str().unwrap() {
                "tcp" => ("tcp", info.ep.ep_type),
                "udp" => ("udp", info.ep.ep_type),
                _ => ("rxm", info.ep.ep_type),
            })
            .collect()
    }

    #[test]
    fn native_endpoints_stand_before_layered_ones() {
        let list = vec![
            entry(c"udp", FI_EP_DGRAM),
            entry(LAYERED, FI_EP_RDM),
            entry(NATIVE, FI_EP_MSG),
            entry(NATIVE, FI_EP_RDM),
        ];
        let expected = [("udp", 2), ("tcp", 3), ("rxm", 3), ("tcp", 1)];
        assert_eq!(order(&prefer_native(list, true)), expected);
    }

    #[test]
    fn without_layering_they_are_last() {
        let list = || {
            vec![
                entry(NATIVE, FI_EP_RDM),
                entry(NATIVE, FI_EP_MSG),
                entry(c"udp", FI_EP_DGRAM),
            ]
        };
        let last = [("tcp", 1), ("udp", 2), ("tcp", 3)];
        assert_eq!(order(&prefer_native(list(), false)), last);
        let first = [("tcp", 3), ("tcp", 1), ("udp", 2)];
        assert_eq!(order(&prefer_native(list(), true)), first);
    }
}
