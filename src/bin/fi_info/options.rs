// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The command line of fi_info(1), read into one query and what to show of its answer.
#![forbid(unsafe_code)]

use std::ffi::OsString;

use super::words;
use crate::abi::{FI_PROV_ATTR_ONLY, FI_SOURCE};
use crate::calls::arguments::{Accepted, Argument, Arguments, Long, Value};
use crate::calls::info::{Hints, Query};

pub struct Options {
    pub query: Query,
    pub view: View,
    /// Show only variables whose name contains this.
    pub variable: Option<String>,
    /// Show only entries whose text contains this.
    pub containing: Option<String>,
    pub why: bool,
    pub json: bool,
    pub verbose: bool,
}

/// What is shown. Of several that are asked for, the greatest is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum View {
    Brief,
    Providers,
    Full,
    Variables,
}

/// What a command line asks for.
pub enum Outcome {
    Run(Options),
    Version,
    /// Help, and the message if there was something that is no option.
    Usage(Option<String>),
    /// A value that is none of the words for it.
    Unknown(String),
}

pub fn read(arguments: impl Iterator<Item = OsString>) -> Outcome {
    let mut options = Options {
        query: Query::default(),
        view: View::Brief,
        variable: None,
        containing: None,
        why: false,
        json: false,
        verbose: false,
    };
    let accepted = Accepted {
        short: "hs:n:P:c:m:t:d:f:a:p:eg:i:lv",
        long: LONG,
    };
    for argument in Arguments::new(accepted, arguments) {
        match argument {
            Err(message) => return Outcome::Usage(Some(message)),
            Ok(Argument::Option('h', _)) => return Outcome::Usage(None),
            Ok(Argument::Option(VERSION, _)) => return Outcome::Version,
            Ok(Argument::Option(letter, value)) => {
                if let Err(message) = options.take(letter, value) {
                    return Outcome::Unknown(message);
                }
            }
            // Words that belong to no option have never had a meaning, and were never refused.
            Ok(Argument::Operand(_)) => {}
        }
    }
    if options.why && options.json {
        return Outcome::Usage(Some("--why has no --json".into()));
    }
    Outcome::Run(options)
}

impl Options {
    fn take(&mut self, letter: char, value: Option<Value>) -> Result<(), String> {
        let Some(value) = value else {
            self.switch(letter);
            return Ok(());
        };
        let query = &mut self.query;
        match letter {
            's' => {
                query.node = Some(value.c_string());
                query.flags |= FI_SOURCE;
            }
            'n' => query.node = Some(value.c_string()),
            'P' => query.service = Some(value.c_string()),
            'g' => {
                self.variable = Some(value.text());
                self.raise(View::Variables);
            }
            'i' => {
                self.containing = Some(value.text());
                self.raise(View::Full);
            }
            _ => return self.hint(letter, &value),
        }
        Ok(())
    }

    fn switch(&mut self, letter: char) {
        match letter {
            'e' => self.raise(View::Variables),
            'l' => {
                self.query.flags |= FI_PROV_ATTR_ONLY;
                self.raise(View::Providers);
            }
            'v' => {
                self.verbose = true;
                self.raise(View::Full);
            }
            WHY => self.why = true,
            JSON => self.json = true,
            _ => unreachable!("every accepted option is handled"),
        }
    }

    fn raise(&mut self, view: View) {
        self.view = self.view.max(view);
    }

    fn hint(&mut self, letter: char, value: &Value) -> Result<(), String> {
        let hints = match self.query.hints.take() {
            Some(hints) => hints,
            None => fresh_hints()?,
        };
        let hints = self.query.hints.insert(hints);
        let text = value.text();
        match letter {
            'c' => *hints.caps() |= words::set(words::CAPS, &text, "capability")?,
            'm' => *hints.mode() = words::set(words::MODES, &text, "mode")?,
            't' => hints.ep().r#type = words::one(words::EP_TYPES, &text, "endpoint type")?,
            'a' => {
                *hints.addr_format() = words::one(words::FORMATS, &text, "address format")?;
            }
            'd' => hints.set_domain_name(&value.c_string()),
            'f' => hints.set_fabric_name(&value.c_string()),
            'p' => hints.set_provider(&value.c_string()),
            _ => unreachable!("every accepted option is handled"),
        }
        Ok(())
    }
}

/// Hints that rule nothing out: this program can do all that a provider may ask of an application.
fn fresh_hints() -> Result<Hints, String> {
    let mut hints = Hints::new().map_err(|failure| failure.to_string())?;
    *hints.mode() = u64::MAX;
    hints.domain().mode = u64::MAX;
    // All but FI_MR_BASIC and FI_MR_SCALABLE, which exclude the others.
    hints.domain().mr_mode = !3;
    Ok(hints)
}

/// Marks for the options that have no letter.
const VERSION: char = '\u{1}';
const WHY: char = '\u{2}';
const JSON: char = '\u{3}';

const LONG: &[Long] = &[
    long("help", 'h'),
    long_with_value("src_addr", 's'),
    long_with_value("node", 'n'),
    long_with_value("port", 'P'),
    long_with_value("caps", 'c'),
    long_with_value("mode", 'm'),
    long_with_value("ep_type", 't'),
    long_with_value("domain", 'd'),
    long_with_value("fabric", 'f'),
    long_with_value("addr_format", 'a'),
    long_with_value("provider", 'p'),
    long("env", 'e'),
    long_with_value("getenv", 'g'),
    long_with_value("info", 'i'),
    long("list", 'l'),
    long("verbose", 'v'),
    long("version", VERSION),
    long("why", WHY),
    long("json", JSON),
];

const fn long(name: &'static str, letter: char) -> Long {
    Long {
        name,
        takes_value: false,
        letter,
    }
}

const fn long_with_value(name: &'static str, letter: char) -> Long {
    Long {
        name,
        takes_value: true,
        letter,
    }
}

pub const HELP: &str = "  -h, --help\t\t\tshow this text
  -s, --src_addr=ADDR\t\tthe own address or name to be used
  -n, --node=NAME\t\taddress or name of the node to be reached
  -P, --port=PNUM\t\tport at that node, or the own one with -s
  -c, --caps=CAP1|CAP2..\tonly what has these capabilities: FI_MSG|FI_RMA...
  -m, --mode=MOD1|MOD2..\tthe modes that may be asked of an application, else all
  -t, --ep_type=EPTYPE\t\tonly endpoints of this type: FI_EP_MSG, FI_EP_DGRAM, FI_EP_RDM
  -d, --domain=DOMAIN\t\tonly the domain (interface) of this name
  -f, --fabric=FABRIC\t\tonly the fabric (network) of this name
  -a, --addr_format=FMT\t\tonly addresses of this format: FI_SOCKADDR_IN, FI_ADDR_STR...
  -p, --provider=PROV\t\tonly this provider
  -e, --env\t\t\tshow the environment variables that libfabric reads
  -g, --getenv=SUBSTR\t\tshow those of them whose name contains this
  -i, --info=SUBSTR\t\tshow all about the entries in which this text stands
  -l, --list\t\t\tshow the providers
  -v, --verbose\t\t\tshow all about every entry, and try what peers on this host are reached over
  --why\t\t\t\tshow what was ruled out, and by which attribute
  --json\t\t\tshow entries (all about each), providers or variables as JSON
  --version\t\t\tshow the versions of this program and of the library
";
