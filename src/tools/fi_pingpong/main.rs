// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `fi_pingpong`: sends messages back and forth between two processes and measures that: fi_pingpong(1).
//!
//! The two processes exchange addresses and synchronize their steps over a TCP connection (`control`), in the form that
//! all releases of the program share. The messages use an endpoint of the provider under test (`session`, `game`).
#![forbid(unsafe_code)]

mod beside;
mod control;
mod game;
mod hello;
mod journal;
mod json;
mod operation;
mod options;
mod pattern;
mod plot;
mod report;
mod session;
mod sockaddr;
mod spread;

use std::env;
use std::io::IsTerminal;
use std::process::ExitCode;

use calls::failure::{Failure, Result};
use calls::output;
use control::Control;
use game::Game;
use options::{Options, Outcome};
use plot::Series;
use session::Session;

fn main() -> ExitCode {
    let options = match options::read(env::args_os().skip(1)) {
        Outcome::Run(options) => options,
        Outcome::Usage(problem) => return usage(problem),
        Outcome::Refused(message) => {
            eprintln!("{}: {message}", output::program());
            return ExitCode::FAILURE;
        }
    };
    if options.verbose {
        journal::switch_on();
    }
    match play(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("[error] {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}

fn play(options: &Options) -> Result {
    if let Some(folder) = &options.beside {
        let series = beside::run(options, folder)?;
        return draw(options, &series);
    }
    let mut control = match &options.server {
        Some(server) => Control::join(server, options)?,
        None => Control::serve(options)?,
    };
    hello::exchange(options, &mut control)?;
    let session = Session::open(options, &mut control)?;
    let about = session.about.clone();
    let mut game = Game::new(options, control, session)?;
    let mut rows = Vec::new();
    for size in game.sizes() {
        progress(options, size);
        let row = game.round(size)?;
        progress_done(options);
        if !options.json {
            report::print(&row, options.percentiles);
        }
        rows.push(row);
    }
    game.finish()?;
    if options.json {
        output::print(|out| json::print(out, options, &about, &rows));
    }
    let point = |row: &report::Row| {
        let (size, time) = (row.size as f64, row.microseconds());
        (size, time, size / time)
    };
    let series = Series {
        label: format!("{}, {}", about.provider.unwrap_or_default(), about.endpoint),
        points: rows.iter().map(point).collect(),
    };
    draw(options, &[series])
}

/// Writes the plot, if it is requested.
fn draw(options: &Options, series: &[Series]) -> Result {
    let Some(file) = &options.svg else {
        return Ok(());
    };
    let (name, window) = (options.operation.name(), options.window);
    let title = format!("fi_pingpong: {name}, {window} under way at a time");
    std::fs::write(file, plot::draw(&title, series))
        .map_err(|error| Failure::system(format!("--svg {}", file.display()), &error))
}

/// Shows the present size on a terminal, if the table is not printed row by row or a size takes long.
fn progress(options: &Options, size: usize) {
    if may_progress(options) {
        eprint!("\rsize {size}, {} iterations ... ", options.iterations);
    }
}

fn progress_done(options: &Options) {
    if may_progress(options) {
        eprint!("\r\x1b[K");
    }
}

fn may_progress(options: &Options) -> bool {
    let long = options.json || options.iterations >= LONG_RUN;
    long && !options.verbose && std::io::stderr().is_terminal()
}

const LONG_RUN: u32 = 100_000;

fn usage(problem: Option<String>) -> ExitCode {
    let program = output::program();
    if let Some(problem) = problem {
        eprintln!("{program}: {problem}");
    }
    eprintln!("Usage:");
    eprintln!("  {program} [OPTIONS]\t\tstart server");
    eprintln!("  {program} [OPTIONS] <srv_addr>\tconnect to server");
    eprint!("{}", options::HELP);
    ExitCode::FAILURE
}
