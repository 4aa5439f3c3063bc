// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Combines kinds of entries, places and hints to the entries of one provider.
#![forbid(unsafe_code)]

use std::ffi::{CStr, CString};

use super::reason::{Reason, Refusal, Value};
use super::{Hints, Info, Prototype, Query, check, fill};

/// A place at which an endpoint can be opened: the names and addresses of an entry.
pub trait Place {
    fn domain(&self) -> &CStr;
    fn fabric(&self) -> &CStr;
    /// Sets the names and addresses of an entry.
    fn apply(&self, info: &mut Info);
}

/// The answer of a provider: entries in order of preference, and the reasons for those that are missing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    pub entries: Vec<Info>,
    pub reasons: Vec<Reason>,
}

/// Returns the answer of a provider, kind by kind, each at all its places.
pub fn select<P: Place>(
    provider: &str,
    kinds: &[Prototype],
    query: &Query,
    places: Result<Vec<P>, Refusal>,
) -> Answer {
    let mut answer = Answer::default();
    let places = match places {
        Ok(places) => places,
        Err(refusal) => {
            answer.reasons.push(refusal.by(provider));
            return answer;
        }
    };
    for kind in kinds.iter().filter(|kind| kind.is_expected(query)) {
        let refusals = check(kind, query);
        let info = refusals.is_empty().then(|| fill(kind, query));
        for refusal in refusals {
            answer.add(refusal.of(provider, kind, interfaces(&places)));
        }
        for place in &places {
            match (check_names(place.domain(), place.fabric(), query), &info) {
                (None, Some(info)) => answer.entries.push(at(place, info)),
                (None, None) => {}
                (Some(refusal), _) => {
                    answer.add(refusal.of(provider, kind, vec![place.domain().to_owned()]));
                }
            }
        }
    }
    answer
}

/// Returns the answer to a query, and for a query without hints also the answer to `all`, if `wanted` (a setting of the
/// user). Some programs, such as MPICH, pass no hints and choose from the list, so the entries on request come last.
/// The setting is off by default: MPICH would choose them, and then could not communicate with peers that use
/// libfabric.
pub fn with_all(
    query: &Query,
    wanted: bool,
    all: impl FnOnce() -> Hints,
    answer: impl Fn(&Query) -> Answer,
) -> Answer {
    let mut first = answer(query);
    if wanted && query.hints.is_none() {
        let hints = all();
        let query = Query {
            hints: Some(&hints),
            ..*query
        };
        first.entries.extend(answer(&query).entries);
    }
    first
}

impl Answer {
    /// Adds a reason unless it is listed already: the addresses of one interface fail for the same reason.
    fn add(&mut self, reason: Reason) {
        if !self.reasons.contains(&reason) {
            self.reasons.push(reason);
        }
    }
}

fn at(place: &impl Place, info: &Info) -> Info {
    let mut info = info.clone();
    place.apply(&mut info);
    info
}

fn interfaces(places: &[impl Place]) -> Vec<CString> {
    let mut names: Vec<CString> = Vec::new();
    for place in places {
        if !names.iter().any(|name| **name == *place.domain()) {
            names.push(place.domain().to_owned());
        }
    }
    names
}

/// fi_domain(3), fi_fabric(3): names are compared without regard to letter case.
fn check_names(at_domain: &CStr, at_fabric: &CStr, query: &Query) -> Option<Refusal> {
    let hints = query.hints?;
    let domain = hints.domain.as_ref().and_then(|attr| attr.name.as_deref());
    let fabric = hints.fabric.as_ref().and_then(|attr| attr.name.as_deref());
    refuse_name("domain_attr.name", domain, at_domain)
        .or_else(|| refuse_name("fabric_attr.name", fabric, at_fabric))
}

fn refuse_name(field: &'static str, wanted: Option<&CStr>, offered: &CStr) -> Option<Refusal> {
    let wanted = wanted?;
    if wanted.to_bytes().eq_ignore_ascii_case(offered.to_bytes()) {
        return None;
    }
    let text = |name: &CStr| Value::Text(name.to_string_lossy().into_owned());
    Some(Refusal::new(field, text(wanted), text(offered)))
}
