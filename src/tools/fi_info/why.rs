// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `fi_info --why`: the entries that a query excluded, the field that excluded each, and its wanted and offered values.
//!
//! The library logs the reasons at level info, one line for each: `refused: tcp FI_EP_RDM on eth0, lo:
//! tx_attr.inject_size: wanted 129, offered 128`.

use std::collections::BTreeMap;
use std::env;
use std::io::{self, Write};
use std::process::{Command, Stdio};

use super::options::Options;
use super::show;
use abi::*;
use calls::failure::Failure;
use calls::log::{self, Line};
use calls::output;
use client::InfoList;

/// Runs the query and prints the result. As without `--why`, it is a failure if there is no entry.
pub fn explain(options: &Options) -> Result<(), Failure> {
    let imported = log::import();
    let answer = options.query.ask();
    let lines = match imported {
        Ok(()) => log::take(),
        Err(_) => overhear(Hear::All),
    };
    let report = Report::new(&lines);
    output::print(|out| {
        match &answer {
            Ok(list) => offered(out, list)?,
            Err(failure) => writeln!(out, "nothing is offered: {failure}")?,
        }
        report.write(out)?;
        if options.verbose {
            rest(out, &lines)?;
        }
        Ok(())
    });
    answer.map(drop)
}

/// Returns true in the child that `overhear` starts: only its log of one query is wanted.
pub fn is_overheard() -> bool {
    env::var_os(ECHO).is_some()
}

/// Writes one line for each kind of entry, with their number.
fn offered(out: &mut dyn Write, list: &InfoList) -> io::Result<()> {
    let count = list.iter().count();
    let entries = if count == 1 {
        "entry is"
    } else {
        "entries are"
    };
    writeln!(out, "{count} {entries} offered:")?;
    let mut kinds: Vec<(String, Vec<String>)> = Vec::new();
    for info in list.iter() {
        let provider = show::or_null(info.provider());
        let kind = match info.ep_type() {
            FI_EP_UNSPEC => provider,
            _ => format!("{provider} {}", show::ep_type(&info)),
        };
        let domain = show::or_null(info.domain_name());
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, domains)) if domains.contains(&domain) => {}
            Some((_, domains)) => domains.push(domain),
            None => kinds.push((kind, vec![domain])),
        }
    }
    for (kind, domains) in kinds {
        writeln!(out, "    {kind} on {}", domains.join(", "))?;
    }
    Ok(())
}

/// The subjects of refusals, and the reasons for each, without duplicates.
struct Report<'a> {
    subjects: Vec<(&'a str, Vec<Reason<'a>>)>,
}

/// The field, and its wanted and offered values.
#[derive(Clone, Copy, PartialEq)]
struct Reason<'a> {
    field: &'a str,
    values: &'a str,
}

impl<'a> Report<'a> {
    fn new(lines: &'a [Line]) -> Report<'a> {
        let mut subjects: Vec<(&str, Vec<Reason>)> = Vec::new();
        for (subject, reason) in lines.iter().filter_map(|line| refusal(&line.text)) {
            match subjects.iter_mut().find(|(known, _)| *known == subject) {
                Some((_, reasons)) if reasons.contains(&reason) => {}
                Some((_, reasons)) => reasons.push(reason),
                None => subjects.push((subject, vec![reason])),
            }
        }
        Report { subjects }
    }

    fn is_empty(&self) -> bool {
        self.subjects.is_empty()
    }

    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.is_empty() {
            return writeln!(out, "{NO_REASON}");
        }
        writeln!(out, "refused:")?;
        for (subject, reasons) in &self.subjects {
            writeln!(out, "    {subject}")?;
            for Reason { field, values } in reasons {
                writeln!(out, "        {field}: {values}")?;
            }
        }
        Ok(())
    }
}

/// Parses a log line that has a reason. Returns the refused subject, the field, and the wanted and offered values.
pub fn refused(line: &str) -> Option<(&str, &str, &str)> {
    refusal(line).map(|(subject, reason)| (subject, reason.field, reason.values))
}

fn refusal(line: &str) -> Option<(&str, Reason<'_>)> {
    let (subject, reason) = line.strip_prefix(REFUSED)?.split_once(": ")?;
    let (field, values) = reason.split_once(": ")?;
    Some((subject, Reason { field, values }))
}

/// Writes the other log lines, for libraries that have no reasons in that form.
fn rest(out: &mut dyn Write, lines: &[Line]) -> io::Result<()> {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let others = lines.iter().filter(|line| !line.text.starts_with(REFUSED));
    for line in others {
        *counts.entry((&line.provider, &line.text)).or_default() += 1;
    }
    if counts.is_empty() {
        return Ok(());
    }
    writeln!(out, "the library's log:")?;
    for ((provider, text), count) in counts {
        let times = match count {
            1 => String::new(),
            _ => format!(" ({count} times)"),
        };
        writeln!(out, "    {provider}: {text}{times}")?;
    }
    Ok(())
}

/// The lines that a child prints.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Hear {
    /// All lines up to level info.
    All,
    /// The lines that the user's own settings of the log select; warnings if they set no level.
    AsSet,
}

/// Runs a child with the same options and returns the log that it prints: for a library that accepts no log object, and
/// for lines before the library can be given one.
pub fn overhear(what: Hear) -> Vec<Line> {
    let child = env::current_exe().and_then(|program| {
        let mut command = Command::new(program);
        command
            .args(env::args_os().skip(1))
            .env(ECHO, "1")
            .env_remove("FI_LOG_LOCATION")
            .stdin(Stdio::null());
        match what {
            Hear::All => {
                command.env("FI_LOG_LEVEL", "info");
                command
                    .env_remove("FI_LOG_PROV")
                    .env_remove("FI_LOG_SUBSYS");
            }
            Hear::AsSet if env::var_os("FI_LOG_LEVEL").is_none() => {
                command.env("FI_LOG_LEVEL", "warn");
            }
            Hear::AsSet => {}
        }
        command.output()
    });
    match child {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stderr);
            text.lines().filter_map(printed).collect()
        }
        Err(_) => Vec::new(),
    }
}

/// Parses a printed line: `libfabric:<process>:<time>::<provider>:<subsystem>:<function>():<line><info> text`.
fn printed(line: &str) -> Option<Line> {
    let (head, text) = line.strip_prefix("libfabric:")?.split_once("> ")?;
    let provider = head.split_once("::")?.1.split(':').next()?;
    Some(Line {
        provider: provider.to_owned(),
        level: match head.ends_with("<warn") {
            true => FI_LOG_WARN,
            false => FI_LOG_INFO,
        },
        text: text.to_owned(),
    })
}

const NO_REASON: &str = "no refusal stands in the library's log (-v shows all of it)";

const REFUSED: &str = "refused: ";

/// Variable that is set for the child of `overhear`.
const ECHO: &str = "FI_INFO_ECHO_LOG";

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Line {
        Line {
            provider: "tcp".to_owned(),
            level: FI_LOG_INFO,
            text: text.to_owned(),
        }
    }

    #[test]
    fn reasons_are_grouped_and_told_once() {
        let lines = [
            line(
                "refused: tcp FI_EP_RDM on eth0, lo: tx_attr.inject_size: wanted 129, offered 128",
            ),
            line("refused: tcp FI_EP_MSG on lo: domain_attr.name: wanted \"a: b\", offered \"lo\""),
            line("something else"),
            line(
                "refused: tcp FI_EP_RDM on eth0, lo: tx_attr.inject_size: wanted 129, offered 128",
            ),
            line("refused: tcp FI_EP_RDM on eth0, lo: caps: wanted FI_ATOMIC, offered FI_MSG"),
        ];
        let report = Report::new(&lines);
        let mut out = Vec::new();
        report.write(&mut out).unwrap();
        let text = "refused:\n    tcp FI_EP_RDM on eth0, lo\n        \
                    tx_attr.inject_size: wanted 129, offered 128\n        \
                    caps: wanted FI_ATOMIC, offered FI_MSG\n    \
                    tcp FI_EP_MSG on lo\n        \
                    domain_attr.name: wanted \"a: b\", offered \"lo\"\n";
        assert_eq!(String::from_utf8(out).unwrap(), text);
    }

    #[test]
    fn printed_lines_are_read() {
        let text = "libfabric:12:1795224917::tcp:fabric:select():54<info> refused: tcp: caps: wanted 1, offered 0";
        let line = printed(text).unwrap();
        assert_eq!(line.provider, "tcp");
        assert_eq!(line.text, "refused: tcp: caps: wanted 1, offered 0");
        assert_eq!(line.level, FI_LOG_INFO);
        let line = printed(&text.replace("<info>", "<warn>")).unwrap();
        assert_eq!(line.level, FI_LOG_WARN);
        assert!(printed("fi_getinfo: -61 (No data available)").is_none());
    }
}
