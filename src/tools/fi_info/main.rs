// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `fi_info`: lists the entries that the fabrics of this machine offer, and explains why others are missing:
//! fi_info(1).
#![forbid(unsafe_code)]

mod doctor;
mod json;
mod neighbours;
mod options;
mod show;
mod table;
mod why;
mod words;

use std::env;
use std::io::IsTerminal;
use std::process::ExitCode;

use calls::failure::Failure;
use calls::info::Query;
use calls::{output, params, text};
use client::InfoList;
use options::{Options, Outcome, View};
use sys::resolve::{self, Family, Question};

fn main() -> ExitCode {
    let options = match options::read(env::args_os().skip(1)) {
        Outcome::Run(options) => options,
        Outcome::Version => return version(),
        Outcome::Usage(problem) => return usage(problem),
        Outcome::Unknown(message) => {
            eprintln!("error: {message}");
            return ExitCode::from(abi::FI_EINVAL as u8);
        }
    };
    if let Some(whom) = neighbours::is_one() {
        neighbours::be(&whom, options.query);
        return ExitCode::SUCCESS;
    }
    if let Some(part) = doctor::is_read() {
        doctor::be_read(&part);
        return ExitCode::SUCCESS;
    }
    if why::is_overheard() {
        // The parent process only needs the log.
        let _ = options.query.ask();
        return ExitCode::SUCCESS;
    }
    if let Some(visit) = &options.doctor {
        return doctor::run(&options, visit);
    }
    let done = match options.why {
        true => why::explain(&options),
        false => query(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            hint(&options, &failure);
            ExitCode::from(failure.exit_code())
        }
    }
}

fn query(options: &Options) -> Result<(), Failure> {
    let list = options.query.ask()?;
    show(options, &list)?;
    if let Some(problem) = unknown_node(&options.query) {
        eprintln!("{problem}: only providers whose names are not those of hosts accept it.");
    }
    Ok(())
}

/// Why the node of a query for any provider is no host; `None` if it is one.
fn unknown_node(query: &Query) -> Option<String> {
    let node = query.node.as_deref().filter(|_| query.hints.is_none())?;
    let found = resolve::resolve(&Question {
        node: Some(node),
        service: None,
        family: Family::Any,
        passive: false,
        datagram: false,
    });
    Some(format!("{}: {}", node.to_string_lossy(), found.err()?))
}

fn show(options: &Options, list: &InfoList) -> Result<(), Failure> {
    let containing = options.containing.as_deref();
    match options.view {
        View::Variables => {
            let params = params::all()?;
            let filter = options.variable.as_deref();
            if options.json {
                output::print(|out| json::variables(out, &params, filter));
                return Ok(());
            }
            output::print(|out| show::variables(out, &params, filter));
        }
        View::Config => {
            let params = params::all()?;
            output::print(|out| show::config(out, &params));
        }
        View::Table if options.json => output::print(|out| table::write_json(out, list)),
        View::Table => output::print(|out| table::write(out, list)),
        View::Providers if options.json => output::print(|out| json::providers(out, list)),
        _ if options.json => output::print(|out| json::entries(out, list, containing)),
        View::Full => output::print(|out| {
            show::full(out, list, containing)?;
            match containing {
                None => neighbours::report(out, list),
                Some(_) => Ok(()),
            }
        }),
        View::Providers => output::print(|out| show::providers(out, list)),
        View::Brief => output::print(|out| show::brief(out, list)),
    }
    Ok(())
}

/// On a terminal, prints a hint how to get more information if there was no entry.
fn hint(options: &Options, failure: &Failure) {
    if failure.code() == abi::FI_ENODATA && !options.why && std::io::stderr().is_terminal() {
        eprintln!(
            "`{} --why` and the same options say why.",
            output::program()
        );
    }
}

fn version() -> ExitCode {
    output::print(|out| {
        writeln!(out, "{}: {}", output::program(), env!("CARGO_PKG_VERSION"))?;
        writeln!(out, "libfabric: {}", text::library_version())?;
        let (major, minor) = (abi::FI_MAJOR_VERSION, abi::FI_MINOR_VERSION);
        writeln!(out, "libfabric api: {major}.{minor}")?;
        let (identity, file) = text::library_identity();
        let identity = identity.unwrap_or_else(|| "another libfabric".into());
        writeln!(out, "library: {identity}")?;
        writeln!(out, "file: {}", file.unwrap_or_default())
    });
    ExitCode::SUCCESS
}

fn usage(problem: Option<String>) -> ExitCode {
    let program = output::program();
    if let Some(problem) = problem {
        eprintln!("{program}: {problem}");
    }
    output::print(|out| {
        writeln!(out, "Usage: {program}")?;
        out.write_all(options::HELP.as_bytes())
    });
    ExitCode::FAILURE
}
