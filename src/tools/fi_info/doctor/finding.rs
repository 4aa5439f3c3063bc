// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The findings of `--doctor`: each has a line with the state, and may have one with a remedy.

use std::io::{Result, Write};

use serde_json::{Value, json};

/// The meaning of a finding for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// No problem.
    Fine,
    /// A working setup that is unusual or costs time.
    Note,
    /// A fault that prevents jobs from running.
    Wrong,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::Fine => "ok",
            Kind::Note => "note",
            Kind::Wrong => "wrong",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub kind: Kind,
    /// The subject of the check.
    about: &'static str,
    pub text: String,
    /// The advice to the user.
    remedy: Option<String>,
}

impl Finding {
    pub fn fine(about: &'static str, text: impl Into<String>) -> Finding {
        Finding {
            kind: Kind::Fine,
            about,
            text: text.into(),
            remedy: None,
        }
    }

    pub fn note(
        about: &'static str,
        text: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        Finding {
            kind: Kind::Note,
            remedy: Some(remedy.into()),
            ..Finding::fine(about, text)
        }
    }

    pub fn wrong(
        about: &'static str,
        text: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        Finding {
            kind: Kind::Wrong,
            ..Finding::note(about, text, remedy)
        }
    }
}

/// Returns the number of findings that prevent jobs from running.
pub fn count_wrong(findings: &[Finding]) -> usize {
    let wrong = findings
        .iter()
        .filter(|finding| finding.kind == Kind::Wrong);
    wrong.count()
}

/// Writes a line for each finding, and below it, indented, the remedy.
pub fn write(out: &mut dyn Write, findings: &[Finding]) -> Result<()> {
    for finding in findings {
        let word = finding.kind.word();
        writeln!(out, "{word:<5}  {}: {}", finding.about, finding.text)?;
        if let Some(remedy) = &finding.remedy {
            writeln!(out, "           {remedy}")?;
        }
    }
    Ok(())
}

/// Writes the last line.
pub fn write_sum(out: &mut dyn Write, findings: &[Finding]) -> Result<()> {
    match count_wrong(findings) {
        0 => writeln!(out, "nothing is wrong"),
        1 => writeln!(out, "1 thing is wrong"),
        count => writeln!(out, "{count} things are wrong"),
    }
}

/// `{"findings": [...], "wrong": COUNT}`.
pub fn write_json(out: &mut dyn Write, findings: &[Finding]) -> Result<()> {
    let one = |finding: &Finding| {
        json!({
            "kind": finding.kind.word(),
            "about": finding.about,
            "text": finding.text,
            "remedy": finding.remedy,
        })
    };
    let list: Vec<Value> = findings.iter().map(one).collect();
    let all = json!({ "findings": list, "wrong": count_wrong(findings) });
    serde_json::to_writer_pretty(&mut *out, &all)?;
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_a_line_and_what_to_do_is_another() {
        let findings = [
            Finding::fine("library", "there"),
            Finding::note("limits", "low", "raise it"),
            Finding::wrong("firewall", "drops", "open it"),
        ];
        let mut out = Vec::new();
        write(&mut out, &findings).unwrap();
        write_sum(&mut out, &findings).unwrap();
        let text = "ok     library: there\nnote   limits: low\n           raise it\n\
                    wrong  firewall: drops\n           open it\n1 thing is wrong\n";
        assert_eq!(String::from_utf8(out).unwrap(), text);
    }
}
