// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Helpers of layered providers, which make their entries from the entries of the providers below: fi_getinfo(3).

use std::ffi::{CStr, CString};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use abi::FI_SOURCE;
use base::info::{
    Answer, FabricAttr, Hints, Info, Prototype, Query, Reason, Refusal, Value, check,
};
use base::log::Source;
use sys::addr;

/// The interface version that layered providers use towards the providers below. Plug-ins that were built for an
/// earlier version are not found, so this number follows the needs of the layers and not the release.
pub const BELOW_API: u32 = 2 << 16 | 6;

/// Makes an entry from each entry below that fits the query. `over` returns the prototype of such an entry, `entry` the
/// entry itself. `below` has the reasons for missing entries below, which are reported if there is no entry at all.
pub fn offers(
    source: &'static Source,
    query: &Query,
    (cores, below): (&[Info], Vec<Reason>),
    wanted: u32,
    over: impl Fn(&Info) -> Prototype,
    entry: impl Fn(&Prototype, &Info) -> Info,
) -> Answer {
    let name = source.name().to_string_lossy();
    let mut reasons = match cores.is_empty() {
        true => why_none(&name, wanted, below),
        false => Vec::new(),
    };
    let mut entries = Vec::new();
    for core in cores {
        let kind = over(core);
        let refusals = check(&kind, query);
        if refusals.is_empty() {
            entries.push(entry(&kind, core));
        }
        let domain: Vec<CString> = core.domain.name.iter().cloned().collect();
        let told = refusals
            .into_iter()
            .map(|refusal| refusal.of(&name, &kind, domain.clone()));
        for reason in told {
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
    }
    Answer { entries, reasons }
}

/// Reasons of the providers below for endpoints of the wanted type, or one reason that there are no such endpoints.
fn why_none(name: &str, wanted: u32, reasons: Vec<Reason>) -> Vec<Reason> {
    let is_near = |reason: &Reason| reason.ep_type == wanted;
    let near: Vec<Reason> = reasons.into_iter().filter(is_near).collect();
    match near.is_empty() {
        false => near,
        true => {
            let none = Value::Text("none".to_owned());
            vec![Refusal::new("endpoints below", Value::EpType(wanted), none).by(name)]
        }
    }
}

/// Handles queries for one port at all addresses: the result has an entry with that port for each address, because
/// peers need to know the address of an endpoint. Returns the query for the providers below and the port.
pub fn without_wildcard<'a>(query: &Query<'a>) -> (Query<'a>, Option<u16>) {
    let any = query.node.is_none() && query.flags & FI_SOURCE != 0;
    let service = query.service.filter(|_| any);
    let port = service.and_then(|service| service.to_str().ok()?.parse().ok());
    let inner = match port {
        Some(_) => Query {
            service: None,
            flags: query.flags & !FI_SOURCE,
            ..*query
        },
        None => *query,
    };
    (inner, port)
}

/// The entries below for a fabric with this name, and the hints that found them.
pub fn fabric_entries(
    attr: &FabricAttr,
    entries: impl Fn(&Query) -> Vec<Info>,
) -> (Hints, Vec<Info>) {
    let named = Hints {
        fabric: Some(FabricAttr {
            name: attr.name.clone(),
            prov_name: attr.prov_name.clone(),
            ..FabricAttr::default()
        }),
        ..Hints::default()
    };
    let found = entries(&fabric_query(&named));
    if !found.is_empty() {
        return (named, found);
    }
    // The fabric of endpoints that listen at all addresses is only offered to queries with such a source address.
    let everywhere = [IpAddr::from([0; 4]), IpAddr::from([0; 16])].map(|any| Hints {
        src_addr: Some(addr::to_bytes(&(any, 0).into())),
        ..named.clone()
    });
    let found = everywhere
        .iter()
        .flat_map(|hints| entries(&fabric_query(hints)))
        .collect();
    let [first, _] = everywhere;
    (first, found)
}

/// The query for the entries of a fabric.
pub fn fabric_query(hints: &Hints) -> Query<'_> {
    Query {
        version: BELOW_API,
        node: None,
        service: None,
        flags: 0,
        hints: Some(hints),
    }
}

/// Keeps a name until the process ends. There are as many names as providers below.
pub fn kept(name: CString) -> &'static CStr {
    static NAMES: Mutex<Vec<&CStr>> = Mutex::new(Vec::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.iter().find(|known| **known == name.as_c_str()) {
        return known;
    }
    let name: &'static CStr = Box::leak(name.into_boxed_c_str());
    names.push(name);
    name
}

/// Whether two entries have the same domain and the same addresses.
pub fn same_place(a: &Info, b: &Info) -> bool {
    let place = |info: &Info| {
        let (fabric, domain) = (&info.fabric, &info.domain);
        let names = (
            fabric.prov_name.clone(),
            fabric.name.clone(),
            domain.name.clone(),
        );
        (names, info.src_addr.clone(), info.dest_addr.clone())
    };
    place(a) == place(b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::{FI_EP_DGRAM, FI_EP_MSG, FI_EP_RDM};

    fn reason(ep_type: u32) -> Reason {
        let text = || Value::Text(String::new());
        let by = Refusal::new("caps", text(), text()).by("other");
        Reason { ep_type, ..by }
    }

    #[test]
    fn only_what_is_said_of_endpoints_that_would_do_is_told() {
        let wanted = FI_EP_MSG.0;
        let said = [FI_EP_RDM.0, wanted, 0, FI_EP_DGRAM.0].map(reason);
        assert_eq!(
            why_none("layer", wanted, said.into()),
            [reason(FI_EP_MSG.0)]
        );
        let said = [FI_EP_RDM.0, 0].map(reason);
        let told = why_none("layer", wanted, said.into());
        assert_eq!(
            told[0].to_string(),
            "refused: layer: endpoints below: wanted FI_EP_MSG, offered \"none\""
        );
        assert_eq!(told.len(), 1);
    }
}
