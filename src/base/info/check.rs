// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Checks whether a kind of entry satisfies the hints. fi_getinfo(3), "DESCRIPTION": a hint that is zero, or a part
//! that is null, restricts nothing.
//!
//! All rules are checked, so that a report of the reasons is complete. The other files named `check_` have the rules of
//! one attribute struct each; names and addresses are checked later, for each interface.
#![forbid(unsafe_code)]

use bitflags::Flags;

use super::check_context::{check_rx, check_tx};
use super::check_domain::check_domain;
use super::check_ep::check_ep;
use super::reason::{Refusal, Value};
use super::{Prototype, Query};
use crate::{Caps, Mode};

/// Returns all reasons why `offer` does not satisfy the query; empty if it does.
pub fn check(offer: &Prototype, query: &Query) -> Vec<Refusal> {
    let mut verdict = Verdict::default();
    let Some(hints) = query.hints else {
        return verdict.refusals;
    };
    verdict.subset("caps", hints.caps, offer.info.caps, Value::Caps);
    if hints.caps.contains(Caps::SOURCE_ERR) && !hints.caps.contains(Caps::SOURCE) {
        // fi_getinfo(3): FI_SOURCE_ERR requires FI_SOURCE.
        let pair = Caps::SOURCE | Caps::SOURCE_ERR;
        verdict.refuse("caps", Value::Caps(Caps::SOURCE_ERR), Value::Caps(pair));
    }
    verdict.needs("mode", offer.info.mode, hints.mode);
    if hints.addr_format != 0 && !offer.addr_formats.contains(&hints.addr_format) {
        let offered = offer.addr_formats.first().copied().unwrap_or_default();
        verdict.refuse(
            "addr_format",
            Value::AddrFormat(hints.addr_format),
            Value::AddrFormat(offered),
        );
    }
    if let Some(fabric) = &hints.fabric
        && fabric.prov_version > offer.info.fabric.prov_version
    {
        verdict.refuse(
            "fabric_attr.prov_version",
            Value::Version(fabric.prov_version),
            Value::Version(offer.info.fabric.prov_version),
        );
    }
    check_domain(&mut verdict, &offer.info.domain, query.version, hints);
    if let Some(ep) = &hints.ep {
        check_ep(&mut verdict, offer, query.version, hints.caps, ep);
    }
    if let Some(tx) = &hints.tx {
        check_tx(&mut verdict, &offer.info.tx, hints.mode, tx);
    }
    if let Some(rx) = &hints.rx {
        check_rx(&mut verdict, &offer.info.rx, hints.mode, rx);
    }
    verdict.refusals
}

/// The refusals found so far.
#[derive(Default)]
pub(super) struct Verdict {
    refusals: Vec<Refusal>,
}

impl Verdict {
    pub fn refuse(&mut self, field: &'static str, wanted: Value, offered: Value) {
        self.refusals.push(Refusal::new(field, wanted, offered));
    }

    pub fn at_most(&mut self, field: &'static str, wanted: usize, offered: usize) {
        if wanted > offered {
            self.refuse(
                field,
                Value::Count(wanted as u64),
                Value::Count(offered as u64),
            );
        }
    }

    /// Refuses if bits are missing in `offered`. The refusal has only the missing bits.
    pub fn subset<B>(&mut self, field: &'static str, wanted: B, offered: B, value: fn(B) -> Value)
    where
        B: Flags + Copy,
    {
        let missing = wanted.difference(offered);
        if !missing.is_empty() {
            self.refuse(field, value(missing), value(offered));
        }
    }

    /// Refuses if the application does not accept a mode that the provider needs.
    pub fn needs(&mut self, field: &'static str, needed: Mode, ready_for: Mode) {
        if !ready_for.contains(needed) {
            self.refuse(field, Value::Mode(ready_for), Value::Mode(needed));
        }
    }

    /// Refuses if the numbers differ; 0 matches any.
    pub fn same(
        &mut self,
        field: &'static str,
        wanted: u32,
        offered: u32,
        value: fn(u32) -> Value,
    ) {
        if wanted != 0 && wanted != offered {
            self.refuse(field, value(wanted), value(offered));
        }
    }
}
