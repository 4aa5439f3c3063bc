// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Checks the library itself: its identity, its entries, its plug-ins, and how it reaches a peer on this host.

use std::path::Path;

use super::{Finding, Heard};
use crate::neighbours;
use abi::{FI_EP_RDM, FI_LOG_WARN};
use calls::fabric;
use calls::failure::Failure;
use calls::log::Line;
use calls::text;
use client::{Info, InfoList};

pub fn findings(heard: &Heard) -> Vec<Finding> {
    let mut findings = vec![which(heard)];
    findings.extend(plug_ins(heard));
    match &heard.answer {
        Ok(list) => {
            findings.push(Finding::fine("providers", names(list).join(", ")));
            findings.extend(heard.unopened.iter().cloned());
            let peers = neighbours::attempts(list);
            findings.extend(
                peers
                    .into_iter()
                    .map(|(provider, way)| peer(&provider, way)),
            );
        }
        Err(failure) => findings.push(Finding::wrong(
            "providers",
            format!("nothing is offered: {failure}"),
            "`fi_info --why` with the same options and variables says why",
        )),
    }
    findings.extend(heard.lines.iter().filter_map(warning));
    findings.dedup();
    findings
}

fn which(heard: &Heard) -> Finding {
    let file = heard.file.as_deref().unwrap_or("a file that is not known");
    match &heard.identity {
        Some(identity) => Finding::fine(ABOUT, format!("{identity}, {file}")),
        None => Finding::note(
            ABOUT,
            format!("another libfabric, {}, {file}", text::library_version()),
            "its log gives no reasons that are understood here: plug-ins that it refused and values without a meaning \
             are not known; FI_LOG_LEVEL=warn shows what it says",
        ),
    }
}

/// Returns each name once, in the library's order.
fn names(list: &InfoList) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in list.iter().filter_map(|info| info.provider()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Opens each entry's fabric and domain. Returns a finding for each failure.
pub fn unopened(list: &InfoList) -> Vec<Finding> {
    let mut findings: Vec<Finding> = list.iter().filter_map(unusable).collect();
    findings.dedup();
    findings
}

/// Returns a finding if the entry's fabric or domain cannot be opened.
fn unusable(info: Info<'_>) -> Option<Finding> {
    // One entry for each provider and interface is sufficient.
    if info.ep_type() != FI_EP_RDM {
        return None;
    }
    let opened = fabric::open(info).and_then(|fabric| fabric::domain(&fabric, info).map(drop));
    opened.err().map(|failure: Failure| {
        let (provider, domain) = (info.provider(), info.domain_name());
        let (provider, domain) = (provider.unwrap_or_default(), domain.unwrap_or_default());
        Finding::wrong(
            "providers",
            format!("{provider} on {domain} cannot be opened: {failure}"),
            ERRORS,
        )
    })
}

fn peer(provider: &str, way: neighbours::Outcome) -> Finding {
    match way {
        Ok(Some(way)) if way.contains("not over shared memory") => Finding::note(
            "peers here",
            format!("{provider} reaches a peer on this host over {way}"),
            "the words at the end say what is in the way of shared memory; messages cost more until then",
        ),
        Ok(Some(way)) => Finding::fine(
            "peers here",
            format!("{provider} reaches a peer on this host over {way}"),
        ),
        Ok(None) => Finding::fine(
            "peers here",
            format!("{provider} reaches a peer on this host"),
        ),
        Err(why) => Finding::wrong(
            "peers here",
            format!("{provider} does not reach a peer on this host: {why}"),
            ERRORS,
        ),
    }
}

/// Returns findings from log lines about files of plug-ins.
fn plug_ins(heard: &Heard) -> Vec<Finding> {
    let mut findings: Vec<Finding> = heard.lines.iter().filter_map(plug_in).collect();
    findings.dedup();
    if findings.is_empty() && heard.identity.is_some() {
        findings.push(Finding::fine("plug-ins", "none was found"));
    }
    findings
}

fn plug_in(line: &Line) -> Option<Finding> {
    if let Some(provider) = line.text.strip_prefix("registering provider ") {
        return Some(Finding::fine("plug-ins", format!("loaded: {provider}")));
    }
    let (file, why) = line.text.split_once(": ")?;
    if !is_plug_in(file) {
        return None;
    }
    Some(match (line.level == FI_LOG_WARN, why) {
        (true, _) => Finding::wrong(
            "plug-ins",
            format!("refused: {file}: {why}"),
            "mend or remove the file, or leave its folder out of FI_PROVIDER_PATH",
        ),
        (false, _) => Finding::fine("plug-ins", format!("{file}: {why}")),
    })
}

fn is_plug_in(file: &str) -> bool {
    file.ends_with("fi.so") && Path::new(file).file_name().is_some()
}

/// Returns a finding for another warning in the log. Warnings about variables are reported with the variables.
fn warning(line: &Line) -> Option<Finding> {
    let is_told = plug_in(line).is_some() || line.text.starts_with("FI_");
    (line.level == FI_LOG_WARN && !is_told).then(|| {
        Finding::wrong(
            ABOUT,
            format!("{} warns: {}", line.provider, line.text),
            "the manual's page \"The log, line by line\" says what to do",
        )
    })
}

const ABOUT: &str = "library";
const ERRORS: &str = "the findings on limits and namespaces may say why; the manual's page \"What does this error \
                      mean\" has the number";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Kind;
    use abi::FI_LOG_INFO;

    fn line(level: abi::fi_log_level, text: &str) -> Line {
        Line {
            provider: "core".into(),
            level,
            text: text.into(),
        }
    }

    #[test]
    fn files_that_were_loaded_and_refused_are_told_apart() {
        let loaded = line(
            FI_LOG_INFO,
            "registering provider efa (206.0) of /x/libefa-fi.so",
        );
        let loaded = plug_in(&loaded).unwrap();
        assert_eq!(loaded.text, "loaded: efa (206.0) of /x/libefa-fi.so");
        assert_eq!(loaded.kind, Kind::Fine);
        let refused = plug_in(&line(FI_LOG_WARN, "/x/libefa-fi.so: no fi_prov_ini")).unwrap();
        assert_eq!(refused.kind, Kind::Wrong);
        assert_eq!(refused.text, "refused: /x/libefa-fi.so: no fi_prov_ini");
        assert_eq!(
            plug_in(&line(FI_LOG_INFO, "/x/libefa-fi.so: not opened"))
                .unwrap()
                .kind,
            Kind::Fine
        );
        assert!(plug_in(&line(FI_LOG_WARN, "127.0.0.1:7: connection ended")).is_none());
    }

    #[test]
    fn warnings_are_told_once() {
        assert!(
            warning(&line(
                FI_LOG_WARN,
                "FI_TCP_TX_SIZE=\"q\": a number is wanted"
            ))
            .is_none()
        );
        assert!(warning(&line(FI_LOG_WARN, "/x/libefa-fi.so: no fi_prov_ini")).is_none());
        assert!(warning(&line(FI_LOG_INFO, "variable iface=<not set>")).is_none());
        let text = warning(&line(FI_LOG_WARN, "no hook is called x"))
            .unwrap()
            .text;
        assert_eq!(text, "core warns: no hook is called x");
    }
}
