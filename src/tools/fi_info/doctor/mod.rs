// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `fi_info --doctor`: finds causes that prevent jobs from running on this host, and on the way to another host, and
//! names remedies.
//!
//! It uses the library's log, fi_getinfo and fi_getparams as far as they have the answer, and otherwise the system. It
//! changes nothing.

mod copies;
mod finding;
mod interfaces;
mod library;
mod limits;
mod namespaces;
mod needs;
mod ranks;
mod reach;
mod variables;
mod verbs;

use std::process::ExitCode;

use super::options::{Doctor, Options};
use crate::why::{self, Hear};
use calls::failure::Result;
use calls::info::{Hints, Query};
use calls::log::{self, Line};
use calls::params::{self, Param};
use calls::{output, text};
use client::InfoList;
use finding::Finding;

pub use copies::{be_read, is_read};
pub use needs::Job;

/// Prefix of variables that are not checked: the tools set them for their children.
const OWN_VARIABLES: &str = "FI_INFO_";

/// The library's replies to queries for all entries and variables, and its log.
struct Heard {
    /// The library's identity, if it is an ironfabric.
    identity: Option<String>,
    file: Option<String>,
    answer: Result<InfoList>,
    /// The findings about fabrics and domains that could not be opened.
    unopened: Vec<Finding>,
    lines: Vec<Line>,
    /// The log of a query for entries of verbs.
    verbs: Vec<Line>,
    params: Vec<Param>,
}

impl Heard {
    fn of(options: &Options) -> Heard {
        let imported = log::import();
        let answer = options.query.ask();
        // The library reads some variables, and detects some faults, only when a fabric is opened.
        let unopened = answer
            .as_ref()
            .map_or_else(|_| Vec::new(), library::unopened);
        let mut lines = match imported {
            Ok(()) => log::take(),
            Err(_) => why::overhear(Hear::All),
        };
        if std::env::vars_os().any(|(name, _)| name.to_string_lossy().starts_with("FI_LOG_")) {
            lines.extend(why::overhear(Hear::AsSet));
        }
        let verbs = match imported {
            Ok(()) => {
                // The provider looks for devices once: at the query above, unless that named another provider.
                let _ = named_verbs().map(|query| query.ask());
                let own = lines.iter().filter(|line| line.provider == "verbs");
                own.cloned().chain(log::take()).collect()
            }
            Err(_) => Vec::new(),
        };
        let (identity, file) = text::library_identity();
        Heard {
            identity,
            file,
            answer,
            unopened,
            lines,
            verbs,
            params: params::all().unwrap_or_default(),
        }
    }

    fn entries(&self) -> Option<&InfoList> {
        self.answer.as_ref().ok()
    }

    /// Returns true if a provider with this name, or with this part of a layered name, has entries.
    fn offers(&self, provider: &str) -> bool {
        let names = self.entries().into_iter().flat_map(InfoList::iter);
        names
            .filter_map(|info| info.provider())
            .any(|name| name.split(';').any(|part| part == provider))
    }
}

fn named_verbs() -> Result<Query> {
    let mut hints = Hints::new()?;
    hints.set_provider(c"verbs");
    Ok(Query {
        hints: Some(hints),
        ..Query::default()
    })
}

/// Runs all checks, prints the findings, and returns 1 if one of them is a fault.
pub fn run(options: &Options, visit: &Doctor) -> ExitCode {
    let door = match visit {
        Doctor::From(port) => Some(reach::door(*port)),
        Doctor::Alone | Doctor::To(_) => None,
    };
    let heard = Heard::of(options);
    let mut findings = library::findings(&heard);
    findings.extend(variables::findings(&heard));
    findings.extend(interfaces::findings(&heard));
    findings.extend(limits::findings(&heard));
    findings.extend(verbs::findings(&heard));
    findings.extend(options.job.iter().flat_map(ranks::findings));
    findings.extend(namespaces::findings());
    findings.extend(copies::findings());
    // Slow checks run after the other findings were printed.
    let write = |findings: &[Finding]| {
        if !options.json {
            output::print(|out| finding::write(out, findings));
        }
    };
    write(&findings);
    let met = match (visit, door) {
        (Doctor::To(host), _) => reach::visit(host, &heard),
        (_, Some(door)) => reach::listen(door, &heard),
        (_, None) => Vec::new(),
    };
    write(&met);
    findings.extend(met);
    output::print(|out| match options.json {
        true => finding::write_json(out, &findings),
        false => finding::write_sum(out, &findings),
    });
    match finding::count_wrong(&findings) {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}
