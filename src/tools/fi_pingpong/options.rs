// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The command line of fi_pingpong(1).

use std::ffi::{CString, OsString};
use std::path::PathBuf;
use std::str::FromStr;

use crate::beside;
use crate::operation::Operation;
use abi::{FI_EP_DGRAM, FI_EP_MSG, FI_EP_RDM, fi_ep_type};
use calls::arguments::{Accepted, Argument, Arguments, Long, Value};

pub struct Options {
    /// The host to connect to; `None` for the server.
    pub server: Option<String>,
    /// Port of this side's end of the control connection; the server's may be 0, for any.
    pub own_port: Option<u16>,
    /// Port of the server.
    pub server_port: u16,
    pub ipv6: bool,
    pub domain: Option<CString>,
    pub fabric: Option<CString>,
    pub source: Option<String>,
    pub provider: Option<CString>,
    /// `None`: dgram, or rdm if no dgram endpoint fits the other options.
    pub ep_type: Option<fi_ep_type>,
    pub iterations: u32,
    /// One size; all sizes if it is not set.
    pub size: Option<usize>,
    pub check: bool,
    pub operation: Operation,
    /// Whether `--op` was given.
    pub operation_named: bool,
    /// Untimed turns before each size.
    pub warmup: u32,
    /// Number of outstanding operations.
    pub window: u32,
    pub percentiles: bool,
    pub json: bool,
    /// The file for a plot.
    pub svg: Option<PathBuf>,
    /// The folder of another library to compare with.
    pub beside: Option<PathBuf>,
    /// Options for both processes of such a comparison.
    pub shared: Vec<OsString>,
    pub verbose: bool,
}

/// The result of parsing a command line.
pub enum Outcome {
    Run(Options),
    /// Print the help, after a message if an option was not valid.
    Usage(Option<String>),
    /// A value that is not valid.
    Refused(String),
}

pub const DEFAULT_PORT: u16 = 47592;

pub fn read(arguments: impl Iterator<Item = OsString>) -> Outcome {
    let mut options = Options {
        server: None,
        own_port: None,
        server_port: DEFAULT_PORT,
        ipv6: false,
        domain: None,
        fabric: None,
        source: None,
        provider: None,
        ep_type: None,
        iterations: 10,
        size: None,
        check: false,
        operation: Operation::Message,
        operation_named: false,
        warmup: 0,
        window: 1,
        percentiles: false,
        json: false,
        svg: None,
        beside: None,
        shared: Vec::new(),
        verbose: false,
    };
    let accepted = Accepted {
        short: "B:P:d:f:s:p:e:I:S:m:chv6",
        long: LONG,
    };
    for argument in Arguments::new(accepted, arguments) {
        options.share(&argument);
        let taken = match argument {
            Err(message) => return Outcome::Usage(Some(message)),
            Ok(Argument::Option('h', _)) => return Outcome::Usage(None),
            Ok(Argument::Option(letter, Some(value))) => options.take(letter, &value),
            Ok(Argument::Option(letter, None)) => {
                options.switch(letter);
                Ok(())
            }
            Ok(Argument::Operand(value)) if options.server.is_none() => {
                options.server = Some(value.text());
                Ok(())
            }
            Ok(Argument::Operand(value)) => Err(format!("one server too many: {}", value.text())),
        };
        if let Err(message) = taken {
            return Outcome::Refused(message);
        }
    }
    if options.beside.is_some() && (options.server.is_some() || options.own_port.is_some()) {
        let message = "--beside plays both sides on this host: no server and no -B go with it";
        return Outcome::Refused(message.into());
    }
    Outcome::Run(options)
}

impl Options {
    fn share(&mut self, argument: &Result<Argument, String>) {
        let Ok(Argument::Option(letter, value)) = argument else {
            return;
        };
        if beside::is_shared(*letter) {
            let long = LONG.iter().find(|long| long.letter == *letter);
            let name = long.map_or_else(|| format!("-{letter}"), |long| format!("--{}", long.name));
            let value = value.as_ref().map(|value| value.text().into());
            self.shared.extend(beside::written(&name, value));
        }
    }

    fn switch(&mut self, letter: char) {
        match letter {
            'c' => self.check = true,
            'v' => self.verbose = true,
            '6' => self.ipv6 = true,
            'j' => self.json = true,
            'q' => self.percentiles = true,
            _ => unreachable!("every accepted option is handled"),
        }
    }

    fn take(&mut self, letter: char, value: &Value) -> Result<(), String> {
        let text = value.text();
        match letter {
            'B' => self.own_port = Some(number(&text, 0, u16::MAX)?),
            'P' => self.server_port = number(&text, 1, u16::MAX)?,
            'd' => self.domain = Some(value.c_string()),
            'f' => self.fabric = Some(value.c_string()),
            's' => self.source = Some(text),
            'p' => self.provider = Some(value.c_string()),
            'e' => self.ep_type = Some(endpoint(&text)?),
            'I' => self.iterations = number(&text, 1, MOST_ITERATIONS)?,
            'S' if text == "all" => self.size = None,
            'S' => self.size = Some(number(&text, 0, LARGEST)?),
            'm' if self.operation_named => return Err("-m and --op exclude each other".into()),
            'm' => self.operation = mode(&text)?,
            'o' => {
                self.operation = Operation::named(&text)?;
                self.operation_named = true;
            }
            'g' => self.svg = Some(text.into()),
            'b' => self.beside = Some(text.into()),
            'w' => self.warmup = number(&text, 0, MOST_ITERATIONS)?,
            'n' => self.window = number(&text, 1, MOST_WINDOW)?,
            _ => unreachable!("every accepted option is handled"),
        }
        Ok(())
    }
}

fn endpoint(text: &str) -> Result<fi_ep_type, String> {
    let words = [
        ("msg", FI_EP_MSG),
        ("rdm", FI_EP_RDM),
        ("dgram", FI_EP_DGRAM),
    ];
    let known = words
        .iter()
        .find(|(word, _)| word.eq_ignore_ascii_case(text));
    known
        .map(|(_, kind)| *kind)
        .ok_or_else(|| format!("unknown endpoint type \"{text}\": msg, rdm or dgram"))
}

fn mode(text: &str) -> Result<Operation, String> {
    match text.to_ascii_lowercase().as_str() {
        "msg" => Ok(Operation::Message),
        "tagged" => Ok(Operation::Tagged),
        _ => Err(format!("unknown transmit mode \"{text}\": msg or tagged")),
    }
}

fn number<T: FromStr + PartialOrd + std::fmt::Display>(
    text: &str,
    least: T,
    most: T,
) -> Result<T, String> {
    match text.parse() {
        Ok(number) if number >= least && number <= most => Ok(number),
        _ => Err(format!("\"{text}\" is no number from {least} to {most}")),
    }
}

/// Options that only this program has. Their letters are not short options.
const LONG: &[Long] = &[
    valued("op", 'o'),
    valued("warmup", 'w'),
    valued("window", 'n'),
    valued("svg", 'g'),
    valued("beside", 'b'),
    plain("percentiles", 'q'),
    plain("json", 'j'),
];

const fn valued(name: &'static str, letter: char) -> Long {
    Long {
        name,
        takes_value: true,
        letter,
        yields: false,
    }
}

const fn plain(name: &'static str, letter: char) -> Long {
    Long {
        name,
        takes_value: false,
        letter,
        yields: false,
    }
}

/// Each operation needs a buffer of the longest message, twice.
const MOST_WINDOW: u32 = 4096;
/// The count of messages is sent to the peer in nine digits.
const MOST_ITERATIONS: u32 = 999_999_999;
/// Greatest message size: a process can hardly allocate more, and needs it twice.
const LARGEST: usize = isize::MAX as usize / 4;

pub const HELP: &str = "
Sends a message from client to server and back, and measures that.

Options:
 -B <src_port>        own port for control (server: 47592, 0 for any; client: any)
 -P <dst_port>        port of the server for control (47592)
 -d <domain>          domain name
 -f <fabric>          fabric name
 -s <source address>  own address in the fabric
 -p <provider>        provider, such as tcp
 -e <ep_type>         type of the endpoint: msg|rdm|dgram (dgram, or rdm if there is none)
 -I <number>          number of iterations (10)
 -S <size>            one message size, or 'all' (all)
 -c                   compare the data that arrives with what was sent
 -m <transmit mode>   kind of message: msg|tagged (msg)
 -h                   show this text
 -v                   tell every step
 -6                   use IPv6 for control

Options that other releases lack; the first three must be the same on both sides:
 --op <kind>          msg|tagged|inject|write|writedata|read|atomic|fetch (msg)
 --warmup <number>    iterations before each size that are not timed (0)
 --window <number>    operations under way at a time, in one direction (1)
 --percentiles        five more columns: p50, p90, p99, p99.9 and the longest
 --json               one document at the end in place of the table
 --svg <file>         a plot of times and bandwidths
 --beside <folder>    both sides on this host, in turns with the libfabric.so.1 of the folder
";

#[cfg(test)]
mod tests {
    use super::*;

    fn run(line: &[&str]) -> Options {
        match read(line.iter().map(OsString::from)) {
            Outcome::Run(options) => options,
            _ => panic!("{line:?}"),
        }
    }

    fn refused(line: &[&str]) -> String {
        match read(line.iter().map(OsString::from)) {
            Outcome::Refused(message) => message,
            _ => panic!("{line:?}"),
        }
    }

    #[test]
    fn defaults_are_those_of_the_manual() {
        let options = run(&[]);
        assert_eq!(options.ep_type, None);
        assert_eq!((options.own_port, options.server_port), (None, 47592));
        assert_eq!((options.iterations, options.size), (10, None));
    }

    #[test]
    fn every_option_is_taken() {
        let line = "-B 1 -P 2 -d lo -f net -s ::1 -p tcp -e rdm -I 5 -S 64 -cv6 -m tagged host";
        let words: Vec<&str> = line.split(' ').collect();
        let options = run(&words);
        assert_eq!((options.own_port, options.server_port), (Some(1), 2));
        assert_eq!(options.domain.as_deref(), Some(c"lo"));
        assert_eq!(options.fabric.as_deref(), Some(c"net"));
        assert_eq!(options.source.as_deref(), Some("::1"));
        assert_eq!(options.provider.as_deref(), Some(c"tcp"));
        assert_eq!(options.ep_type, Some(FI_EP_RDM));
        assert_eq!((options.iterations, options.size), (5, Some(64)));
        assert!(options.check && options.verbose && options.ipv6);
        assert_eq!(options.operation, Operation::Tagged);
        assert_eq!(options.server.as_deref(), Some("host"));
        assert_eq!(run(&["-S", "all"]).size, None);
    }

    #[test]
    fn values_that_do_not_fit_are_named() {
        for line in [
            &["-B", "65536"][..],
            &["-P", "0"],
            &["-P", "x"],
            &["-I", "0"],
            &["-I", "1000000000"],
            &["-I", "-5"],
            &["-S", "64k"],
            &["-S", "99999999999999999999"],
            &["-e", "stream"],
            &["-m", "rma"],
            &["a", "b"],
            &["--op", "rma"],
            &["--window", "0"],
            &["--warmup", "-1"],
        ] {
            let last = line[line.len() - 1];
            assert!(refused(line).contains(last), "{line:?}");
        }
    }
}
