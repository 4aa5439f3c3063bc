// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `fi_info --doctor`: what keeps jobs from running on this host, and on the way to another, and what to do about it.
//!
//! What the library knows it is asked for, through its log, fi_getinfo and fi_getparams; the rest is asked of the
//! system. Nothing is changed.
#![forbid(unsafe_code)]

mod copies;
mod finding;
mod interfaces;
mod library;
mod limits;
mod namespaces;
mod reach;
mod variables;

use std::process::ExitCode;

use super::options::{Doctor, Options};
use crate::calls::failure::Result;
use crate::calls::log::{self, Line};
use crate::calls::params::{self, Param};
use crate::calls::{output, text};
use crate::ffi::client::InfoList;
use crate::why::{self, Hear};
use finding::Finding;

pub use copies::{be_read, is_read};

/// Whose findings these are not: the tools' own variables, by which they talk to their children.
const OWN_VARIABLES: &str = "FI_INFO_";

/// What the library said when it was asked for everything.
struct Heard {
    /// What it calls itself, if it is an ironfabric.
    identity: Option<String>,
    file: Option<String>,
    answer: Result<InfoList>,
    /// What became of opening, where it failed.
    unopened: Vec<Finding>,
    lines: Vec<Line>,
    params: Vec<Param>,
}

impl Heard {
    fn of(options: &Options) -> Heard {
        let imported = log::import();
        let answer = options.query.ask();
        // Some variables are read, and some faults seen, when a fabric is opened.
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
        let (identity, file) = text::library_identity();
        Heard {
            identity,
            file,
            answer,
            unopened,
            lines,
            params: params::all().unwrap_or_default(),
        }
    }

    fn entries(&self) -> Option<&InfoList> {
        self.answer.as_ref().ok()
    }

    /// The parts of the names of providers that offer something.
    fn offers(&self, provider: &str) -> bool {
        let names = self.entries().into_iter().flat_map(InfoList::iter);
        names
            .filter_map(|info| info.provider())
            .any(|name| name.split(';').any(|part| part == provider))
    }
}

/// Looks, prints, and ends with 1 where something is wrong.
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
    findings.extend(namespaces::findings());
    findings.extend(copies::findings());
    // What takes a while comes when the rest is to be seen.
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
