// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Checks variables of the environment that begin with `FI_`: misspelt, with an invalid value, without effect. The
//! library provides the list of valid ones (fi_getparams), and its log has complaints about their values.

use std::collections::BTreeMap;
use std::env;

use super::{Finding, Heard, OWN_VARIABLES};
use crate::why;
use abi::FI_LOG_WARN;
use base::params::spelling::nearest;
use calls::params::Param;

pub fn findings(heard: &Heard) -> Vec<Finding> {
    let set = env::vars_os().filter_map(|(name, value)| {
        let name = name.into_string().ok()?;
        let counts = name.starts_with("FI_") && !name.starts_with(OWN_VARIABLES);
        counts.then(|| (name, value.to_string_lossy().into_owned()))
    });
    let set: BTreeMap<String, String> = set.collect();
    let mut findings = Vec::new();
    for (name, value) in &set {
        let found = match heard.params.iter().find(|param| param.name == *name) {
            Some(param) => known(param, value, &set, heard),
            None => unknown(name, heard),
        };
        findings.push(found);
    }
    if set.is_empty() {
        findings.push(Finding::fine(ABOUT, "none is set"));
    }
    findings
}

/// Returns a finding for a variable that the library does not have.
fn unknown(name: &str, heard: &Heard) -> Finding {
    let names = heard.params.iter().map(|param| param.name.as_str());
    match nearest(name, names) {
        Some(near) => Finding::wrong(
            ABOUT,
            format!("{name} is no variable: is {near} meant?"),
            format!("set {near} instead; `fi_info -g {near}` says what it does"),
        ),
        // The library complains if the name begins like those of a provider.
        None if complaint(name, heard).is_some() => Finding::wrong(
            ABOUT,
            complaint(name, heard).unwrap_or_default(),
            format!("unset {name}, or set the one that is meant"),
        ),
        None => Finding::note(
            ABOUT,
            format!("{name} has no effect: no provider that is here reads it"),
            format!(
                "unset {name}, unless it is for another libfabric; `fi_info -e` lists those that act"
            ),
        ),
    }
}

fn known(param: &Param, value: &str, set: &BTreeMap<String, String>, heard: &Heard) -> Finding {
    let name = &param.name;
    if let Some(complaint) = complaint(name, heard) {
        let remedy = format!("unset {name}, or give it what `fi_info -g {name}` says");
        return Finding::wrong(ABOUT, complaint, remedy);
    }
    if let Some(values) = leaves_nothing(name, heard) {
        return Finding::wrong(
            ABOUT,
            format!("{name}={value} leaves nothing: {values}"),
            format!("give {name} one of those, or unset it"),
        );
    }
    match without_effect(param, set, heard) {
        Some(why) => Finding::note(
            ABOUT,
            format!("{name}={value} has no effect: {why}"),
            format!("unset {name}"),
        ),
        None => Finding::fine(ABOUT, format!("{name}={value}")),
    }
}

/// Returns the complaint about this variable in the library's log.
fn complaint(name: &str, heard: &Heard) -> Option<String> {
    let about = |text: &str| {
        let rest = text.strip_prefix(name);
        rest.is_some_and(|rest| rest.starts_with(['=', ':', ' ']))
    };
    let mut lines = heard.lines.iter();
    let line = lines.find(|line| line.level == FI_LOG_WARN && about(&line.text))?;
    Some(line.text.clone())
}

/// If the variable ruled out every entry of its provider, returns the wanted and the offered value. Not for
/// FI_PROVIDER, whose purpose is to exclude providers.
fn leaves_nothing(name: &str, heard: &Heard) -> Option<String> {
    if name == "FI_PROVIDER" {
        return None;
    }
    let mut refused = heard
        .lines
        .iter()
        .filter_map(|line| why::refused(&line.text));
    let (subject, _, values) = refused.find(|(_, field, _)| *field == name)?;
    let provider = subject.split([' ', ';']).next().unwrap_or(subject);
    (!heard.offers(provider)).then(|| values.to_owned())
}

fn without_effect(param: &Param, set: &BTreeMap<String, String>, heard: &Heard) -> Option<String> {
    if let Some((_, what)) = param.help.split_once("accepted and ignored") {
        return Some(format!("it is accepted and ignored{what}"));
    }
    let is_of_log = param.name.starts_with("FI_LOG_") && !ALWAYS.contains(&param.name.as_str());
    if is_of_log && !set.contains_key(LEVEL) {
        return Some(format!("without {LEVEL} only failures are logged"));
    }
    let provider = provider_of(param)?;
    if let Some(hook) = provider.strip_prefix("ofi_hook_") {
        let is_asked_for = set
            .get("FI_HOOK")
            .is_some_and(|hooks| hooks.split(';').any(|one| one == hook));
        return (!is_asked_for).then(|| format!("FI_HOOK does not name {hook}"));
    }
    if heard.offers(provider) {
        return None;
    }
    // If there is no entry at all, another finding reports that.
    heard.entries()?;
    Some(match set.get("FI_PROVIDER") {
        Some(list) => format!("FI_PROVIDER={list} leaves nothing of {provider}"),
        None => format!("nothing of {provider} is offered, unless a program names it"),
    })
}

/// Returns the provider, for example `tcp` of the help "tcp: name of the only network interface".
fn provider_of(param: &Param) -> Option<&str> {
    let (provider, _) = param.help.split_once(": ")?;
    let prefix = format!("FI_{}_", provider.to_ascii_uppercase());
    param.name.starts_with(&prefix).then_some(provider)
}

const ABOUT: &str = "variables";
const LEVEL: &str = "FI_LOG_LEVEL";
/// Variables of the log that act without a level.
const ALWAYS: [&str; 4] = [
    LEVEL,
    "FI_LOG_FAILURES",
    "FI_LOG_LOCATION",
    "FI_LOG_LOCATION_MODE",
];

#[cfg(test)]
mod tests {
    use super::*;
    use abi::FI_PARAM_INT;

    #[test]
    fn the_help_names_the_provider() {
        let param = |name: &str, help: &str| Param {
            name: name.into(),
            kind: FI_PARAM_INT,
            help: help.into(),
            value: None,
        };
        let of = |name, help| provider_of(&param(name, help)).map(str::to_owned);
        assert_eq!(
            of("FI_TCP_IFACE", "tcp: the interface").as_deref(),
            Some("tcp")
        );
        assert_eq!(of("FI_LOG_LEVEL", "what is logged: warn"), None);
    }
}
