// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The command line.

use std::ffi::OsString;
use std::time::Duration;

pub const USAGE: &str = "Usage: fi_top [options]

Shows what the endpoints of running processes do. Without options: on a screen of the terminal, until q is pressed.

  -1, --once            prints one table, of what was counted so far
  -j, --json            prints it as JSON
  -P, --prometheus      prints it in the text format of Prometheus
      --serve PORT      serves that on 127.0.0.1, at /metrics
      --dump PID        has the process write what its endpoints wait for, and prints that; with --json as JSON
  -p, --pid PID         this process only, and more of it
  -a, --all             also processes of other users, as far as they may be read
  -d, --delay SECONDS   between two pictures of the screen (default: 1)
  -s, --sort KEY        pid, messages, bytes or wait (default: wait)
  -w, --wide            all columns, not only those for which the terminal has room
  -h, --help            this text

Keys: q ends, p m b w sort, h explains the columns, space takes a new picture at once.
";

/// The sort order of rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sort {
    Pid,
    Messages,
    Bytes,
    Wait,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    Screen,
    Once,
    Json,
    Prometheus,
    Serve(u16),
    Dump(u32),
}

#[derive(Clone, PartialEq, Debug)]
pub struct Options {
    pub mode: Mode,
    /// With `Mode::Dump`: print the JSON form.
    pub json: bool,
    pub pid: Option<u32>,
    pub all: bool,
    pub delay: Duration,
    pub sort: Sort,
    /// All columns, however wide the terminal is.
    pub wide: bool,
}

/// The result of parsing the arguments.
#[derive(PartialEq, Debug)]
pub enum Told {
    Run(Options),
    Help,
    Wrong(String),
}

/// Longest time between two updates of the screen, in seconds.
const LONGEST: f64 = 86_400.0;

pub fn parse(arguments: impl Iterator<Item = OsString>) -> Told {
    match read(arguments) {
        Ok(Some(options)) => Told::Run(options),
        Ok(None) => Told::Help,
        Err(what) => Told::Wrong(what),
    }
}

fn read(arguments: impl Iterator<Item = OsString>) -> Result<Option<Options>, String> {
    let mut options = Options {
        mode: Mode::Screen,
        json: false,
        pid: None,
        all: false,
        delay: Duration::from_secs(1),
        sort: Sort::Wait,
        wide: false,
    };
    let mut modes = Vec::new();
    let mut arguments = arguments.map(|argument| argument.to_string_lossy().into_owned());
    while let Some(argument) = arguments.next() {
        // An argument of the form --name=value.
        let (name, given) = match argument.split_once('=') {
            Some((name, value)) if name.starts_with("--") => {
                (name.to_owned(), Some(value.to_owned()))
            }
            _ => (argument.clone(), None),
        };
        let mut value = || {
            let value = given.clone().or_else(|| arguments.next());
            value.ok_or_else(|| format!("{name} needs a value"))
        };
        match name.as_str() {
            "-h" | "--help" => return Ok(None),
            "-1" | "--once" => modes.push(Mode::Once),
            "-j" | "--json" => options.json = true,
            "-P" | "--prometheus" => modes.push(Mode::Prometheus),
            "--serve" => modes.push(Mode::Serve(number(&name, &value()?)?)),
            "--dump" => modes.push(Mode::Dump(number(&name, &value()?)?)),
            "-p" | "--pid" => options.pid = Some(number(&name, &value()?)?),
            "-a" | "--all" => options.all = true,
            "-w" | "--wide" => options.wide = true,
            "-d" | "--delay" => options.delay = seconds(&value()?)?,
            "-s" | "--sort" => options.sort = sort(&value()?)?,
            _ => return Err(format!("{argument}: no such option")),
        }
    }
    options.mode = match (modes[..].first(), options.json) {
        (Some(_), _) if modes.len() > 1 => return Err("one kind of output at a time".to_owned()),
        (Some(mode @ Mode::Dump(_)), _) => *mode,
        (Some(Mode::Once) | None, true) => Mode::Json,
        (Some(_), true) => return Err("one kind of output at a time".to_owned()),
        (Some(mode), false) => *mode,
        (None, false) => Mode::Screen,
    };
    Ok(Some(options))
}

fn number<T: std::str::FromStr>(name: &str, text: &str) -> Result<T, String> {
    text.parse()
        .map_err(|_| format!("{name} needs a number, not {text:?}"))
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text
        .parse::<f64>()
        .ok()
        .filter(|seconds| (0.05..=LONGEST).contains(seconds));
    let seconds =
        seconds.ok_or_else(|| format!("--delay needs 0.05 to {LONGEST} seconds, not {text:?}"))?;
    Ok(Duration::from_secs_f64(seconds))
}

fn sort(text: &str) -> Result<Sort, String> {
    match text {
        "pid" => Ok(Sort::Pid),
        "messages" => Ok(Sort::Messages),
        "bytes" => Ok(Sort::Bytes),
        "wait" => Ok(Sort::Wait),
        _ => Err(format!(
            "--sort knows pid, messages, bytes and wait, not {text:?}"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(arguments: &[&str]) -> Told {
        parse(arguments.iter().map(OsString::from))
    }

    fn mode(arguments: &[&str]) -> Option<Mode> {
        match told(arguments) {
            Told::Run(options) => Some(options.mode),
            _ => None,
        }
    }

    #[test]
    fn one_kind_of_output_is_chosen() {
        assert_eq!(mode(&[]), Some(Mode::Screen));
        assert_eq!(mode(&["-1"]), Some(Mode::Once));
        assert_eq!(mode(&["--once", "--json"]), Some(Mode::Json));
        assert_eq!(mode(&["-j"]), Some(Mode::Json));
        assert_eq!(mode(&["--serve=9100"]), Some(Mode::Serve(9100)));
        assert_eq!(mode(&["--dump", "7", "--json"]), Some(Mode::Dump(7)));
        for wrong in [&["-1", "-P"][..], &["-P", "-j"], &["--dump", "7", "--once"]] {
            assert!(matches!(told(wrong), Told::Wrong(_)), "{wrong:?}");
        }
    }

    #[test]
    fn values_are_checked() {
        for wrong in [
            &["--pid"][..],
            &["--pid", "x"],
            &["--pid=-1"],
            &["--delay", "0"],
            &["--delay", "inf"],
            &["--delay", "nan"],
            &["--sort", "size"],
            &["--serve", "65536"],
            &["once"],
        ] {
            assert!(matches!(told(wrong), Told::Wrong(_)), "{wrong:?}");
        }
        let Told::Run(options) = told(&["-p", "12", "-d", "0.5", "-s", "wait", "-a"]) else {
            panic!("refused");
        };
        assert_eq!(
            (options.pid, options.sort, options.all),
            (Some(12), Sort::Wait, true)
        );
        assert_eq!(options.delay, Duration::from_millis(500));
    }
}
