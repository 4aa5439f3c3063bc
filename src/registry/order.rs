// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The order of a result: an application without preferences takes the first entry.

use std::ffi::CStr;

use abi::FI_EP_RDM;
use base::info::Info;

/// Puts tcp's own unconnected endpoints before those that `ofi_rxm` layers upon its connected ones. If `ofi_rxm` is
/// excluded (`layered` is false), they go to the end, as in earlier releases, because a program that excludes it may
/// rely on finding another entry first. Only `sockets`, which is tcp with other attributes, always comes behind tcp.
pub fn prefer_native(entries: Vec<Info>, layered: bool) -> Vec<Info> {
    let (native, mut others): (Vec<Info>, Vec<Info>) =
        entries.into_iter().partition(|info| is_rdm(info, NATIVE));
    let first = others.iter().position(|info| is_rdm(info, LAYERED));
    let at = match (first, layered) {
        (Some(first), _) => first,
        (None, true) => 0,
        (None, false) => others.len(),
    };
    let mut alias = Vec::new();
    if at == others.len() && !native.is_empty() {
        (alias, others) = others.into_iter().partition(|info| is_of(info, ALIAS));
    }
    let at = at.min(others.len());
    others.splice(at..at, native);
    others.extend(alias);
    others
}

fn is_of(info: &Info, provider: &CStr) -> bool {
    info.fabric.prov_name.as_deref() == Some(provider)
}

fn is_rdm(info: &Info, provider: &CStr) -> bool {
    info.ep.ep_type == FI_EP_RDM.0 && is_of(info, provider)
}

pub const NATIVE: &CStr = c"tcp";
const LAYERED: &CStr = c"tcp;ofi_rxm";
const ALIAS: &CStr = c"sockets";

#[cfg(test)]
mod tests {
    use super::*;
    use abi::{FI_EP_DGRAM, FI_EP_MSG, fi_ep_type};

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
                "sockets" => ("sockets", info.ep.ep_type),
                "sm2" => ("sm2", info.ep.ep_type),
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

    #[test]
    fn sockets_never_comes_before_tcp() {
        let list = || {
            vec![
                entry(c"udp", FI_EP_DGRAM),
                entry(NATIVE, FI_EP_MSG),
                entry(NATIVE, FI_EP_RDM),
                entry(ALIAS, FI_EP_RDM),
                entry(ALIAS, FI_EP_MSG),
                entry(c"sm2", FI_EP_RDM),
            ]
        };
        let (sockets, sm2) = ([("sockets", 3), ("sockets", 1)], ("sm2", 3));
        let excluded = [
            ("udp", 2),
            ("tcp", 1),
            sm2,
            ("tcp", 3),
            sockets[0],
            sockets[1],
        ];
        assert_eq!(order(&prefer_native(list(), false)), excluded);
        let first = [
            ("tcp", 3),
            ("udp", 2),
            ("tcp", 1),
            sockets[0],
            sockets[1],
            sm2,
        ];
        assert_eq!(order(&prefer_native(list(), true)), first);
        // An alias alone keeps its position.
        let mut alone = list();
        alone.remove(2);
        let rest = [("udp", 2), ("tcp", 1), sockets[0], sockets[1], sm2];
        assert_eq!(order(&prefer_native(alone, false)), rest);
    }
}
