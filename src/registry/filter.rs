// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Selects the providers that may answer a query, by the names in FI_PROVIDER and in the hints.

use std::ffi::CString;

use super::kind::Kind;
use super::names::{Allowed, Wanted};
use super::registered::Registered;
use base::Caps;
use base::info::{Answer, Info, Query, Refusal, Value};
use prov::Below;

/// Bits of fi_getinfo's flags that libraries use among themselves; loadable providers get them unchanged.
pub const INTERNAL: u64 = 1 << 58;
/// Query core providers only.
pub const CORE_ONLY: u64 = 1 << 59;
/// Query hidden providers as well.
pub const HIDDEN: u64 = 1 << 60;
/// Query offload providers, which are excluded otherwise.
pub const OFFLOAD: u64 = 1 << 61;
pub const PRIVATE: u64 = INTERNAL | CORE_ONLY | HIDDEN | OFFLOAD;
/// With one of these flags the answer is not filtered.
pub const UNFILTERED: u64 = INTERNAL | CORE_ONLY | HIDDEN;

/// Loadable providers whose collectives need another provider of the same library and share its records. Without that
/// provider they still offer collectives, and fi_domain succeeds without creating a domain.
const NEEDS: [(&str, &str); 1] = [("ofi_rxm", "off_coll")];

/// Conditions for providers that may answer.
pub struct Filter {
    allowed: Allowed,
    variable: String,
    wanted: Wanted,
    prov_name: String,
    /// Flags of the query.
    flags: u64,
}

impl Filter {
    pub fn of(query: &Query, variable: Option<&str>) -> Filter {
        let fabric = query.hints.and_then(|hints| hints.fabric.as_ref());
        let prov_name: Option<String> = fabric
            .and_then(|fabric| fabric.prov_name.clone())
            .map(|name: CString| name.to_string_lossy().into_owned());
        Filter {
            allowed: Allowed::parse(variable),
            variable: variable.unwrap_or_default().to_owned(),
            wanted: Wanted::parse(prov_name.as_deref()),
            prov_name: prov_name.unwrap_or_default(),
            flags: query.flags,
        }
    }

    /// Returns the answer of a provider, if it may give one.
    pub fn ask(
        &self,
        registered: &Registered,
        query: &Query,
        below: &dyn Below,
        is_uppermost: impl Fn(&str) -> bool,
        loads: impl Fn(&str) -> bool,
    ) -> Answer {
        let (name, provider) = (registered.name(), &registered.provider);
        let is_named = self.wanted.names(&name) || self.allowed.names(&name);
        if !is_named && !provider.is_set_up() {
            return Answer::default();
        }
        let refusal = match registered.kind {
            Kind::Utility => self.refuse_utility(&name, is_uppermost),
            _ => self.refuse(&name),
        };
        let refusal = refusal.or_else(|| {
            let (wanted, offered) = (query.version, provider.api());
            (offered < wanted)
                .then(|| Refusal::new("version", Value::Version(wanted), Value::Version(offered)))
        });
        let mut answer = match refusal {
            None => provider.offers(query, below),
            Some(refusal) => Answer {
                entries: Vec::new(),
                reasons: vec![refusal.by(&name)],
            },
        };
        let needs = NEEDS.iter().find(|(name, _)| registered.is_called(name));
        if let Some((_, needed)) = needs.filter(|_| !registered.is_own())
            && !(self.allowed.part(needed) && loads(needed))
        {
            drop_collectives(&mut answer, &name, needed);
        }
        if query.flags & UNFILTERED == 0 {
            match (registered.is_own(), registered.kind) {
                (false, _) => answer.entries.retain(|entry| self.leaves(entry, query)),
                (true, Kind::Utility) => answer.entries.retain(|entry| self.may_result(entry)),
                (true, _) => {}
            }
        }
        answer
    }

    /// Whether an entry of a loadable provider may stay. This library's providers compare names themselves.
    fn leaves(&self, entry: &Info, query: &Query) -> bool {
        let same = |name: &Option<CString>, wanted: Option<&CString>| {
            wanted.is_none_or(|wanted| name.as_ref() == Some(wanted))
        };
        let hints = query.hints;
        let domain = hints.and_then(|hints| hints.domain.as_ref()?.name.as_ref());
        let fabric = hints.and_then(|hints| hints.fabric.as_ref()?.name.as_ref());
        self.may_result(entry)
            && same(&entry.domain.name, domain)
            && same(&entry.fabric.name, fabric)
    }

    /// Whether FI_PROVIDER permits an entry with this complete name.
    fn may_result(&self, entry: &Info) -> bool {
        let name = entry.fabric.prov_name.as_deref();
        name.is_some_and(|name| self.allowed.result(&name.to_string_lossy()))
    }

    /// Whether the provider may answer a query with the flag `CORE_ONLY`.
    pub fn may_lie_below(&self, registered: &Registered) -> bool {
        registered.kind == Kind::Core && !(self.wanted.is_any() && registered.is_uppermost())
    }

    pub fn refuse(&self, name: &str) -> Option<Refusal> {
        // The complete name of a result is known only if nothing is layered upon it.
        let left = match self.flags {
            flags if flags & HIDDEN != 0 => true,
            flags if flags & UNFILTERED != 0 => self.allowed.part(name),
            _ => self.allowed.result(name),
        };
        if !left {
            return Some(self.left_out(name));
        }
        (!self.wanted.core(name)).then(|| self.unwanted(name))
    }

    /// Refuses a layering provider that the variable or the hints exclude. Whether the variable allows its results
    /// depends on the provider below, whose name appears only in the result.
    fn refuse_utility(&self, name: &str, is_uppermost: impl Fn(&str) -> bool) -> Option<Refusal> {
        if self.flags & HIDDEN == 0 && self.allowed.excludes(name) {
            return Some(self.left_out(name));
        }
        (!self.wanted.utility(name, is_uppermost)).then(|| self.unwanted(name))
    }

    fn left_out(&self, name: &str) -> Refusal {
        let variable = Value::from(self.variable.as_str());
        Refusal::new("FI_PROVIDER", variable, Value::from(name))
    }

    fn unwanted(&self, name: &str) -> Refusal {
        let wanted = Value::from(self.prov_name.as_str());
        Refusal::new("fabric_attr.prov_name", wanted, Value::from(name))
    }

    /// Whether the names permit `ofi_rxm` over tcp.
    pub fn layering(&self) -> bool {
        self.wanted.layered("ofi_rxm", "tcp") && self.allowed.result("tcp;ofi_rxm")
    }
}

fn drop_collectives(answer: &mut Answer, name: &str, needed: &str) {
    let offered = answer.entries.len();
    let is_left = |entry: &Info| !entry.caps.contains(Caps::COLLECTIVE);
    answer.entries.retain(is_left);
    if answer.entries.len() < offered {
        let without = format!("no collectives without a loadable {needed} of its library");
        let refusal = Refusal::new("caps", Value::Caps(Caps::COLLECTIVE), Value::Text(without));
        answer.reasons.push(refusal.by(name));
    }
}
