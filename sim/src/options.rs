// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The command line.

use std::time::Instant;

use crate::endpoint::Limits;
use crate::scenario::{Scenario, Size};
use crate::{report, run};

pub const USAGE: &str = "\
usage: sim SCENARIO [OPTION VALUE]...
       sim table FOLDER [TRANSPORT]

SCENARIO is alltoall, ring, barrier, incast, pairs, death or slow. `sim table` runs all of them in the default sizes
and writes a table for each transport.

  --transport NAME    rxd, rxm or tcp (default: rxd)
  --ranks N           ranks (default: 100)
  --nodes N           nodes (default: one for 50 ranks, at least 4)
  --sample N          of an all-to-all: ranks that exchange messages with all others (default: all)
  --seed N            seed (default: 1)
  --loss N            lost packets, per million (default: 0)
  --socket-packets N  datagrams that a socket holds (default: 184)
  --descriptors N     descriptors of a rank
  --backlog N         connections that a listener keeps until they are accepted
  --packet N          of rxm: bytes of the longest message in one packet (default: 16384)";

pub enum Options {
    Table {
        output: String,
        transport: Option<String>,
    },
    One(One),
}

/// One job.
pub struct One {
    transport: String,
    name: String,
    scenario: Scenario,
    size: Size,
    limits: Limits,
}

/// Nodes of a job if the number is not given.
pub fn nodes_for(ranks: usize) -> usize {
    ranks.div_ceil(50).max(4)
}

impl Options {
    pub fn parse(mut words: impl Iterator<Item = String>) -> Result<Options, String> {
        let name = words.next().ok_or("no scenario")?;
        if name == "table" {
            let output = words.next().ok_or("no folder")?;
            return Ok(Options::Table {
                output,
                transport: words.next(),
            });
        }
        let scenario = Scenario::named(&name).ok_or_else(|| format!("no scenario {name}"))?;
        let mut one = One {
            transport: "rxd".to_owned(),
            name,
            scenario,
            size: Size {
                ranks: 100,
                nodes: 0,
                sample: None,
                seed: 1,
                loss: 0,
            },
            limits: Limits::default(),
        };
        while let Some(word) = words.next() {
            let value = words.next().ok_or_else(|| format!("no value for {word}"))?;
            let number = value.parse::<usize>();
            let number = number.map_err(|_| format!("{word} needs a number, not {value}"));
            match word.as_str() {
                "--transport" => one.transport = value,
                "--ranks" => one.size.ranks = number?.max(2),
                "--nodes" => one.size.nodes = number?,
                "--sample" => one.size.sample = Some(number?.max(1)),
                "--seed" => one.size.seed = number? as u64,
                "--loss" => one.size.loss = number? as u32,
                "--socket-packets" => one.limits.socket_packets = number?.max(1),
                "--descriptors" => one.limits.descriptors = number?,
                "--packet" => one.limits.packet = number?.max(128),
                "--backlog" => one.limits.backlog = number?,
                _ => return Err(format!("no option {word}")),
            }
        }
        if one.size.nodes == 0 {
            one.size.nodes = nodes_for(one.size.ranks);
        }
        Ok(Options::One(one))
    }
}

impl One {
    pub fn print(&self) -> Result<(), String> {
        let start = Instant::now();
        let outcome = run(&self.transport, self.scenario, &self.size, &self.limits)?;
        let row = report::row(&self.transport, &self.name, &self.size, &outcome);
        for (name, value) in report::HEADER.split(',').zip(row.split(',')) {
            println!("{:>20}  {value}", name.trim());
        }
        eprintln!("simulated in {:.1} s", start.elapsed().as_secs_f64());
        Ok(())
    }
}
