// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Which providers may answer a query, by the names in FI_PROVIDER and in the hints.
#![forbid(unsafe_code)]

use std::ffi::CString;

use super::names::{Allowed, Wanted};
use crate::base::info::{Answer, Query, Refusal, Value};
use crate::prov::{Below, Provider};

/// Who may answer.
pub struct Filter {
    allowed: Allowed,
    variable: String,
    wanted: Wanted,
    prov_name: String,
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
        }
    }

    /// The answer of a core provider, if it may give one.
    pub fn ask(&self, provider: &dyn Provider, query: &Query, below: &dyn Below) -> Answer {
        let name = provider.source().name().to_string_lossy();
        match self.refuse(&name) {
            None => provider.offers(query, below),
            Some(refusal) => Answer {
                entries: Vec::new(),
                reasons: vec![refusal.by(&name)],
            },
        }
    }

    pub fn refuse(&self, name: &str) -> Option<Refusal> {
        if !self.allowed.result(name) {
            let variable = Value::from(self.variable.as_str());
            return Some(Refusal::new("FI_PROVIDER", variable, Value::from(name)));
        }
        if !self.wanted.core(name) {
            let wanted = Value::from(self.prov_name.as_str());
            let offered = Value::from(name);
            return Some(Refusal::new("fabric_attr.prov_name", wanted, offered));
        }
        None
    }

    /// Do the names leave room for `ofi_rxm` over tcp?
    pub fn layering(&self) -> bool {
        self.wanted.layered("ofi_rxm", "tcp") && self.allowed.result("tcp;ofi_rxm")
    }
}
