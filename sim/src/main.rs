// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Simulates jobs of many ranks: the sessions, retries, flow control and matching of the providers on a virtual clock,
//! over a virtual network. docs/scale.md describes the model and the results.

mod app;
mod endpoint;
mod events;
mod heap;
mod kernel;
mod network;
mod options;
mod report;
mod rxd;
mod rxm;
mod scenario;
mod table;
mod tcp;
#[cfg(test)]
mod tests;
mod world;

use std::process::ExitCode;
use std::sync::Once;

use self::endpoint::Limits;
use self::options::{Options, USAGE};
use self::rxd::Rxd;
use self::rxm::Rxm;
use self::scenario::{Job, Scenario, Size};
use self::tcp::Tcp;
use self::world::{Outcome, World};

/// Runs one job.
fn run(
    transport: &str,
    scenario: Scenario,
    size: &Size,
    limits: &Limits,
) -> Result<Outcome, String> {
    static WARM: Once = Once::new();
    // Memory that a process allocates once is not counted as memory of the first rank.
    WARM.call_once(|| {
        for transport in table::TRANSPORTS {
            let small = Size::small();
            let _ = simulate(transport, Scenario::Pairs, &small, &Limits::default());
        }
    });
    simulate(transport, scenario, size, limits)
}

fn simulate(
    transport: &str,
    scenario: Scenario,
    size: &Size,
    limits: &Limits,
) -> Result<Outcome, String> {
    let job = Job::new(scenario, size);
    let limit = job.limit;
    match transport {
        "rxd" => World::<Rxd>::new(job, limits.clone(), size.seed).run(true, limit),
        "rxm" => World::<Rxm>::new(job, limits.clone(), size.seed).run(true, limit),
        "tcp" => World::<Tcp>::new(job, limits.clone(), size.seed).run(true, limit),
        other => Err(format!("no transport {other}")),
    }
}

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(why) => {
            eprintln!("{why}\n\n{USAGE}");
            return ExitCode::FAILURE;
        }
    };
    let rows = match options {
        Options::Table { output, transport } => table::write(&output, transport.as_deref()),
        Options::One(one) => one.print(),
    };
    match rows {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
