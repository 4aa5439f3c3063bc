// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Parses the command line of fi_info(1) into one query and the form of the output.

use std::ffi::OsString;

use super::doctor::Job;
use super::words;
use abi::{FI_PROV_ATTR_ONLY, FI_SOURCE};
use calls::arguments::{Accepted, Argument, Arguments, Long, Value};
use calls::info::{Hints, Query};

pub struct Options {
    pub query: Query,
    pub view: View,
    /// If set, show only variables whose name contains this text.
    pub variable: Option<String>,
    /// If set, show only entries whose text contains this text.
    pub containing: Option<String>,
    pub why: bool,
    pub json: bool,
    pub verbose: bool,
    pub doctor: Option<Doctor>,
    /// `--ranks`: the job that this host is checked for.
    pub job: Option<Job>,
}

/// `--doctor`: the checks beyond this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doctor {
    /// No further check.
    Alone,
    /// The way to this host, `NAME` or `NAME:PORT`.
    To(String),
    /// The way to the host that connects to this port; `None` means the default port.
    From(Option<u16>),
}

/// The form of the output. If several are requested, the greatest one is used.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum View {
    Brief,
    Providers,
    Full,
    Variables,
    Table,
    Config,
}

/// The result of parsing a command line.
pub enum Outcome {
    Run(Options),
    Version,
    /// Print the help, after a message if an option was not valid.
    Usage(Option<String>),
    /// A value that is not one of the valid words.
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
        doctor: None,
        job: None,
    };
    let (mut doctor, mut listen, mut operands) = (false, false, Vec::new());
    let accepted = Accepted {
        short: "hs:n:P:c:m:t:d:f:a:p:eg:i:lv",
        long: LONG,
    };
    for argument in Arguments::new(accepted, arguments) {
        match argument {
            Err(message) => return Outcome::Usage(Some(message)),
            Ok(Argument::Option('h', _)) => return Outcome::Usage(None),
            Ok(Argument::Option(VERSION, _)) => return Outcome::Version,
            Ok(Argument::Option(DOCTOR, _)) => doctor = true,
            Ok(Argument::Option(LISTEN, _)) => listen = true,
            Ok(Argument::Option(letter, value)) => {
                if let Err(message) = options.take(letter, value) {
                    return Outcome::Unknown(message);
                }
            }
            // Without --doctor extra words have no meaning, but they were never refused.
            Ok(Argument::Operand(value)) => operands.push(value.text()),
        }
    }
    if options.why && options.json {
        return Outcome::Usage(Some("--why has no --json".into()));
    }
    if options.job.is_some() && !doctor {
        return Outcome::Usage(Some("--ranks belongs to --doctor".into()));
    }
    if doctor || listen {
        match what_to_look_at(doctor, listen, &operands) {
            Ok(doctor) => options.doctor = Some(doctor),
            Err(message) => return Outcome::Usage(Some(message)),
        }
    }
    Outcome::Run(options)
}

fn what_to_look_at(doctor: bool, listen: bool, operands: &[String]) -> Result<Doctor, String> {
    match operands {
        _ if !doctor => Err("--listen belongs to --doctor".into()),
        [] if listen => Ok(Doctor::From(None)),
        [] => Ok(Doctor::Alone),
        [port] if listen => match port.parse() {
            Ok(port) => Ok(Doctor::From(Some(port))),
            Err(_) => Err(format!("--listen takes a port, not {port:?}")),
        },
        [host] => Ok(Doctor::To(host.clone())),
        [_, other, ..] => Err(format!("--doctor takes one host, what is {other:?}?")),
    }
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
            RANKS => {
                let text = value.text();
                let job = Job::read(&text);
                self.job = Some(job.ok_or_else(|| {
                    format!("--ranks takes RANKS or RANKS:PER_HOST, not {text:?}")
                })?);
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
            TABLE => self.raise(View::Table),
            CONFIG => self.raise(View::Config),
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

/// Hints that exclude nothing: this program meets every requirement that a provider may have.
fn fresh_hints() -> Result<Hints, String> {
    let mut hints = Hints::new().map_err(|failure| failure.to_string())?;
    *hints.mode() = u64::MAX;
    hints.domain().mode = u64::MAX;
    // All bits except FI_MR_BASIC and FI_MR_SCALABLE, which exclude the others.
    hints.domain().mr_mode = !3;
    Ok(hints)
}

/// Marks for options without a letter.
const VERSION: char = '\u{1}';
const WHY: char = '\u{2}';
const JSON: char = '\u{3}';
const TABLE: char = '\u{4}';
const DOCTOR: char = '\u{5}';
const LISTEN: char = '\u{6}';
const RANKS: char = '\u{7}';
const CONFIG: char = '\u{8}';

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
    own("why", WHY),
    own("json", JSON),
    own("table", TABLE),
    own("config", CONFIG),
    own("doctor", DOCTOR),
    own("listen", LISTEN),
    Long {
        takes_value: true,
        ..own("ranks", RANKS)
    },
];

/// An option that upstream's program lacks: an abbreviation that also fits an upstream option means the latter.
const fn own(name: &'static str, letter: char) -> Long {
    Long {
        yields: true,
        ..long(name, letter)
    }
}

const fn long(name: &'static str, letter: char) -> Long {
    Long {
        name,
        takes_value: false,
        letter,
        yields: false,
    }
}

const fn long_with_value(name: &'static str, letter: char) -> Long {
    Long {
        name,
        takes_value: true,
        letter,
        yields: false,
    }
}

pub const HELP: &str = "  -h, --help\t\t\tshow this text
  -s, --src_addr=ADDR\t\tthe own address or name to be used
  -n, --node=NAME\t\taddress or name of the node to be reached
  -P, --port=PNUM\t\tport at that node, or the own one with -s
  -c, --caps=CAP1|CAP2..\tonly what has these capabilities: FI_MSG|FI_RMA...
  -m, --mode=MOD1|MOD2..\tthe modes that may be asked of an application, else all
  -t, --ep_type=EPTYPE\t\tonly endpoints of this type: FI_EP_MSG, FI_EP_DGRAM, FI_EP_RDM (or msg, dgram, rdm)
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
  --json\t\t\tshow entries (all about each), providers, variables, a table or findings as JSON
  --table\t\t\tshow each provider once, with its interfaces
  --config\t\t\twrite a commented libfabric.conf: the settings of all jobs on this host
  --doctor [HOST[:PORT]]\tsay what keeps jobs from running on this host, and on the way to HOST, and what to do
  --listen [PORT]\t\twith --doctor: be the HOST of a --doctor on another host
  --ranks N[:PER_HOST]\t\twith --doctor: say what this host lacks for a job of N ranks
  --version\t\t\tshow the versions of this program and of the library
";
