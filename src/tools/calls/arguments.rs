// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Command lines as getopt_long(3) of the C library reads them: `-p tcp`, `-ptcp`, `-lv`, `--provider=tcp`,
//! `--prov tcp`, options after operands, `--` before operands that look like options.
#![forbid(unsafe_code)]

use std::collections::VecDeque;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// The options that a program accepts. `short` is as in getopt(3): a letter, and a colon if the option takes a value.
pub struct Accepted {
    pub short: &'static str,
    pub long: &'static [Long],
}

/// `--name`, which means the same as the short option `letter`. An option without a short form has its own mark as
/// `letter`.
pub struct Long {
    pub name: &'static str,
    pub takes_value: bool,
    pub letter: char,
    /// If an abbreviation fits this option and another one, the other one is meant.
    pub yields: bool,
}

/// One piece of a command line.
#[derive(Debug, PartialEq)]
pub enum Argument {
    Option(char, Option<Value>),
    Operand(Value),
}

/// Text from the user, which may have any bytes but zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value(OsString);

impl Value {
    pub fn text(&self) -> String {
        self.0.to_string_lossy().into_owned()
    }

    pub fn c_string(&self) -> CString {
        CString::new(self.0.as_bytes()).expect("the system ends arguments at the first zero")
    }
}

impl From<&OsStr> for Value {
    fn from(text: &OsStr) -> Value {
        Value(text.to_owned())
    }
}

/// Reads a command line piece by piece. An error is a message without the program's name.
pub struct Arguments {
    accepted: Accepted,
    rest: VecDeque<Vec<u8>>,
    /// The rest of a group of short options such as `-lv`.
    group: Vec<u8>,
    operands_only: bool,
}

impl Arguments {
    /// Reads `arguments`, which do not include the program's name.
    pub fn new(accepted: Accepted, arguments: impl Iterator<Item = OsString>) -> Arguments {
        Arguments {
            accepted,
            rest: arguments.map(OsString::into_vec).collect(),
            group: Vec::new(),
            operands_only: false,
        }
    }

    fn short(&mut self) -> Result<Argument, String> {
        let letter = self.group.remove(0);
        let declared = self.accepted.short.as_bytes();
        let known = declared.iter().position(|c| *c == letter && letter != b':');
        let letter = char::from(letter);
        let Some(at) = known else {
            return Err(format!("invalid option -- '{letter}'"));
        };
        if declared.get(at + 1) != Some(&b':') {
            return Ok(Argument::Option(letter, None));
        }
        let value = match self.group.is_empty() {
            false => Some(std::mem::take(&mut self.group)),
            true => self.rest.pop_front(),
        };
        match value {
            Some(value) => Ok(Argument::Option(letter, Some(bytes(value)))),
            None => Err(format!("option requires an argument -- '{letter}'")),
        }
    }

    /// Reads a long option; `text` is the argument behind the two dashes.
    fn long(&mut self, text: &[u8]) -> Result<Argument, String> {
        let (name, value) = match text.iter().position(|c| *c == b'=') {
            Some(at) => (&text[..at], Some(bytes(text[at + 1..].to_vec()))),
            None => (text, None),
        };
        let option = self.named(name, text)?;
        let (name, letter) = (option.name, option.letter);
        match (option.takes_value, value) {
            (false, None) => Ok(Argument::Option(letter, None)),
            (false, Some(_)) => Err(format!("option '--{name}' doesn't allow an argument")),
            (true, Some(value)) => Ok(Argument::Option(letter, Some(value))),
            (true, None) => match self.rest.pop_front() {
                Some(value) => Ok(Argument::Option(letter, Some(bytes(value)))),
                None => Err(format!("option '--{name}' requires an argument")),
            },
        }
    }

    /// Finds the option with this name, or the only one whose name begins with it. `text` is the user's text.
    fn named(&self, name: &[u8], text: &[u8]) -> Result<&Long, String> {
        let options = || self.accepted.long.iter();
        if let Some(option) = options().find(|option| option.name.as_bytes() == name) {
            return Ok(option);
        }
        let mut candidates: Vec<&Long> = options()
            .filter(|option| option.name.as_bytes().starts_with(name))
            .collect();
        if candidates.iter().any(|option| !option.yields) {
            candidates.retain(|option| !option.yields);
        }
        let shown = String::from_utf8_lossy(text);
        match candidates[..] {
            [] => Err(format!("unrecognized option '--{shown}'")),
            [option] => Ok(option),
            _ => {
                let names: Vec<String> = candidates
                    .iter()
                    .map(|o| format!("'--{}'", o.name))
                    .collect();
                let names = names.join(" ");
                Err(format!(
                    "option '--{shown}' is ambiguous; possibilities: {names}"
                ))
            }
        }
    }
}

impl Iterator for Arguments {
    type Item = Result<Argument, String>;

    fn next(&mut self) -> Option<Self::Item> {
        if !self.group.is_empty() {
            return Some(self.short());
        }
        let text = self.rest.pop_front()?;
        match &text[..] {
            _ if self.operands_only => {}
            b"--" => {
                self.operands_only = true;
                return self.next();
            }
            [b'-', b'-', long @ ..] => return Some(self.long(long)),
            [b'-', _, ..] => {
                self.group = text[1..].to_vec();
                return Some(self.short());
            }
            _ => {}
        }
        Some(Ok(Argument::Operand(bytes(text))))
    }
}

fn bytes(value: Vec<u8>) -> Value {
    Value(OsString::from_vec(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: &[Long] = &[
        Long {
            name: "port",
            takes_value: true,
            letter: 'P',
            yields: false,
        },
        Long {
            name: "provider",
            takes_value: true,
            letter: 'p',
            yields: false,
        },
        Long {
            name: "verbose",
            takes_value: false,
            letter: 'v',
            yields: false,
        },
        Long {
            name: "verify",
            takes_value: false,
            letter: 'y',
            yields: true,
        },
    ];

    fn read(line: &[&str]) -> Vec<Result<Argument, String>> {
        let accepted = Accepted {
            short: "P:p:lv",
            long: LONG,
        };
        Arguments::new(accepted, line.iter().map(OsString::from)).collect()
    }

    fn option(letter: char) -> Result<Argument, String> {
        Ok(Argument::Option(letter, None))
    }

    fn valued(letter: char, value: &str) -> Result<Argument, String> {
        Ok(Argument::Option(letter, Some(OsStr::new(value).into())))
    }

    fn operand(text: &str) -> Result<Argument, String> {
        Ok(Argument::Operand(OsStr::new(text).into()))
    }

    fn error(text: &str) -> Result<Argument, String> {
        Err(text.to_owned())
    }

    #[test]
    fn values_are_attached_or_next() {
        for line in [
            &["-p", "tcp"][..],
            &["-ptcp"],
            &["--provider", "tcp"],
            &["--provider=tcp"],
            &["--prov=tcp"],
        ] {
            assert_eq!(read(line), [valued('p', "tcp")], "{line:?}");
        }
        assert_eq!(read(&["-p", "-l"]), [valued('p', "-l")]);
        assert_eq!(read(&["--provider="]), [valued('p', "")]);
    }

    #[test]
    fn letters_are_grouped() {
        assert_eq!(
            read(&["-lvp", "x"]),
            [option('l'), option('v'), valued('p', "x")]
        );
        assert_eq!(read(&["-lpv"]), [option('l'), valued('p', "v")]);
    }

    #[test]
    fn operands_and_options_mix_until_two_dashes() {
        let line = ["a", "-l", "-", "--", "-v", "--"];
        let pieces = [
            operand("a"),
            option('l'),
            operand("-"),
            operand("-v"),
            operand("--"),
        ];
        assert_eq!(read(&line), pieces);
    }

    #[test]
    fn a_part_of_a_name_means_the_older_option() {
        assert_eq!(read(&["--ver"]), [option('v')]);
        assert_eq!(read(&["--veri"]), [option('y')]);
    }

    #[test]
    fn says_what_is_wrong() {
        assert_eq!(read(&["-x"]), [error("invalid option -- 'x'")]);
        assert_eq!(read(&["-:"]), [error("invalid option -- ':'")]);
        assert_eq!(
            read(&["-lp"])[1],
            error("option requires an argument -- 'p'")
        );
        assert_eq!(
            read(&["--port"]),
            [error("option '--port' requires an argument")]
        );
        assert_eq!(
            read(&["--nope=1"]),
            [error("unrecognized option '--nope=1'")]
        );
        let value = "option '--verbose' doesn't allow an argument";
        assert_eq!(read(&["--verb=1"]), [error(value)]);
        let two = "option '--p' is ambiguous; possibilities: '--port' '--provider'";
        assert_eq!(read(&["--p", "x"])[0], error(two));
    }
}
