// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `fi_top`: shows the activity of endpoints of running processes, live: fi_top(1).
#![forbid(unsafe_code)]

mod block;
mod dump;
// The library and the programs each use only a part.
mod find;
mod json;
mod options;
mod prometheus;
mod screen;
mod serve;
mod table;
// fi_info marks its visitors after a greeting; here all visitors are alike.

use std::io::{self, Write};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use find::{Found, Watcher};
use options::{Mode, Options, Told};

fn main() -> ExitCode {
    let options = match options::parse(std::env::args_os().skip(1)) {
        Told::Run(options) => options,
        Told::Help => {
            print!("{}\nColumns:\n{}", options::USAGE, table::legend());
            return ExitCode::SUCCESS;
        }
        Told::Wrong(what) => {
            eprintln!("fi_top: {what}\n{}", options::USAGE);
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(code) => code,
        // The reader of the output has closed the pipe.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fi_top: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> io::Result<ExitCode> {
    match &options.mode {
        Mode::Screen => screen::run(options),
        Mode::Serve(port) => serve::run(options, *port),
        Mode::Dump(pid) => dump::run(*pid, options),
        once => {
            let found = look_once(options);
            let text = match once {
                Mode::Json => json::text(&found),
                Mode::Prometheus => prometheus::text(&found),
                _ => table::totals(&found, options, screen::width(options)),
            };
            io::stdout().write_all(text.as_bytes())?;
            Ok(none_is_wrong(&found, options))
        }
    }
}

/// Returns a failure if the named process was not found.
fn none_is_wrong(found: &[Found], options: &Options) -> ExitCode {
    match (options.pid, found.is_empty()) {
        (Some(pid), true) => {
            eprintln!(
                "fi_top: process {pid} has no counters that can be read: it uses no endpoint of this library, has \
                 FI_STATS=0, or is another user's"
            );
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

/// Time for processes to update their gauges. A process that polls needs microseconds.
const ANSWER: Duration = Duration::from_millis(200);
const PAUSE: Duration = Duration::from_millis(5);

/// Returns the processes with up-to-date gauges.
pub fn look_once(options: &Options) -> Vec<Found> {
    let mut watcher = Watcher::new(options);
    let mut found = watcher.look();
    watcher.ask();
    let end = Instant::now() + ANSWER;
    while Instant::now() < end {
        sleep(PAUSE);
        found = watcher.look();
        if found.iter().all(|found| found.process.is_answered()) {
            break;
        }
    }
    found
}
