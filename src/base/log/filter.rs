// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Which lines are wanted: FI_LOG_LEVEL, FI_LOG_PROV and FI_LOG_SUBSYS of fabric(7).
#![forbid(unsafe_code)]

use core::ffi::{CStr, c_int};

use super::LEVELS;

/// Levels, subsystems and providers that are wanted.
pub(super) struct Filter {
    /// The highest level wanted; below zero: none.
    level: c_int,
    subsystems: Names,
    providers: Names,
}

impl Filter {
    /// From the texts of the three variables; `None` where one is not set.
    pub(super) fn new(
        level: Option<&str>,
        providers: Option<&str>,
        subsystems: Option<&str>,
    ) -> Filter {
        Filter {
            level: level.map_or(OFF, level_of),
            subsystems: Names::parse(subsystems.unwrap_or_default()),
            providers: Names::parse(providers.unwrap_or_default()),
        }
    }

    pub(super) fn level(&self) -> c_int {
        self.level
    }

    /// Are lines of this level about this subsystem wanted? Numbers outside the enumerations never are.
    pub(super) fn includes(&self, level: c_int, subsys: c_int) -> bool {
        level >= 0
            && level <= self.level
            && super::subsys_name(subsys).is_some_and(|name| self.subsystems.include(name))
    }

    pub(super) fn excludes_provider(&self, name: &CStr) -> bool {
        !name.to_str().is_ok_and(|name| self.providers.include(name))
    }
}

/// A list `a,b` of names, or `^a,b` for all others. An empty list means all.
struct Names {
    negated: bool,
    names: Vec<String>,
}

impl Names {
    fn parse(text: &str) -> Names {
        let (negated, list) = match text.strip_prefix('^') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let names = list
            .split(',')
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect();
        Names { negated, names }
    }

    fn include(&self, name: &str) -> bool {
        self.names.is_empty()
            || self.negated
                != self
                    .names
                    .iter()
                    .any(|listed| listed.eq_ignore_ascii_case(name))
    }
}

/// An unknown word means the lowest level: somebody wants a log, so what matters most is written.
fn level_of(word: &str) -> c_int {
    LEVELS
        .iter()
        .position(|level| level.eq_ignore_ascii_case(word))
        .unwrap_or(0) as c_int
}

const OFF: c_int = -1;
