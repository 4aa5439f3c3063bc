// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The command line of fi_pingpong(1).
#![forbid(unsafe_code)]

use std::ffi::{CString, OsString};
use std::str::FromStr;

use crate::abi::{FI_EP_DGRAM, FI_EP_MSG, FI_EP_RDM, fi_ep_type};
use crate::calls::arguments::{Accepted, Argument, Arguments, Value};

pub struct Options {
    /// Whom to connect to; the server has none.
    pub server: Option<String>,
    /// Port of the own end of the control connection; the server's may be 0, for any.
    pub own_port: Option<u16>,
    /// Port of the server.
    pub server_port: u16,
    pub ipv6: bool,
    pub domain: Option<CString>,
    pub fabric: Option<CString>,
    pub source: Option<String>,
    pub provider: Option<CString>,
    pub ep_type: fi_ep_type,
    pub iterations: u32,
    /// One size; all if there is none.
    pub size: Option<usize>,
    pub check: bool,
    pub tagged: bool,
    pub verbose: bool,
}

/// What a command line asks for.
pub enum Outcome {
    Run(Options),
    /// Help, and the message if there was something that is no option.
    Usage(Option<String>),
    /// A value that does not fit.
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
        ep_type: FI_EP_DGRAM,
        iterations: 10,
        size: None,
        check: false,
        tagged: false,
        verbose: false,
    };
    let accepted = Accepted {
        short: "B:P:d:f:s:p:e:I:S:m:chv6",
        long: &[],
    };
    for argument in Arguments::new(accepted, arguments) {
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
    Outcome::Run(options)
}

impl Options {
    fn switch(&mut self, letter: char) {
        match letter {
            'c' => self.check = true,
            'v' => self.verbose = true,
            '6' => self.ipv6 = true,
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
            'e' => self.ep_type = endpoint(&text)?,
            'I' => self.iterations = number(&text, 1, MOST_ITERATIONS)?,
            'S' if text == "all" => self.size = None,
            'S' => self.size = Some(number(&text, 0, LARGEST)?),
            'm' => self.tagged = mode(&text)?,
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

fn mode(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "msg" => Ok(false),
        "tagged" => Ok(true),
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

/// The count of messages is told to the peer in nine digits.
const MOST_ITERATIONS: u32 = 999_999_999;
/// Memory that a process may hope to get twice.
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
 -e <ep_type>         type of the endpoint: msg|rdm|dgram (dgram)
 -I <number>          number of iterations (10)
 -S <size>            one message size, or 'all' (all)
 -c                   compare the data that arrives with what was sent
 -m <transmit mode>   kind of message: msg|tagged (msg)
 -h                   show this text
 -v                   tell every step
 -6                   use IPv6 for control
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
        assert_eq!(options.ep_type, FI_EP_DGRAM);
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
        assert_eq!(options.ep_type, FI_EP_RDM);
        assert_eq!((options.iterations, options.size), (5, Some(64)));
        assert!(options.check && options.verbose && options.ipv6 && options.tagged);
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
        ] {
            let last = line[line.len() - 1];
            assert!(refused(line).contains(last), "{line:?}");
        }
    }
}
