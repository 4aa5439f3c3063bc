// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The jobs: the messages of each rank, and what happens to them.

use crate::app::{App, Planned};
use crate::events::{MILLISECOND, SECOND, Time};
use crate::network::Links;
use engine::testing::Random;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scenario {
    /// Each rank sends 1 KiB to each other rank, as MPI_Alltoall.
    AllToAll,
    /// Each rank sends 1 KiB to both neighbours.
    Ring,
    /// A dissemination barrier, as MPI_Barrier: log2 N rounds, each to one peer and from another.
    Barrier,
    /// All ranks send 64 KiB to rank 0, beginning within 100 ms.
    Incast,
    /// Each rank sends 20 messages of 8 B to 16 KiB to random ranks.
    Pairs,
    /// The same, and all ranks of one node die without notice.
    Death,
    /// All ranks send 4 KiB to rank 0, which computes 10 ms after each poll.
    Slow,
}

pub const ALL: [(&str, Scenario); 7] = [
    ("alltoall", Scenario::AllToAll),
    ("ring", Scenario::Ring),
    ("barrier", Scenario::Barrier),
    ("incast", Scenario::Incast),
    ("pairs", Scenario::Pairs),
    ("death", Scenario::Death),
    ("slow", Scenario::Slow),
];

impl Scenario {
    pub fn named(name: &str) -> Option<Scenario> {
        let named = ALL.iter().find(|(other, _)| *other == name)?;
        Some(named.1)
    }
}

/// A job to simulate.
#[derive(Clone, Debug)]
pub struct Size {
    pub ranks: usize,
    pub nodes: usize,
    /// Ranks of an all-to-all that exchange messages with all others. The others exchange messages only with these.
    /// `None`: all ranks.
    pub sample: Option<usize>,
    pub seed: u64,
    /// Lost packets, per million.
    pub loss: u32,
}

impl Size {
    /// A job of a few ranks, with loss.
    pub fn small() -> Size {
        Size {
            ranks: 6,
            nodes: 3,
            sample: None,
            seed: 1,
            loss: 50_000,
        }
    }
}

/// A job as the world runs it.
pub struct Job {
    pub apps: Vec<App>,
    pub nodes: usize,
    pub links: Links,
    /// Nodes that die, and when.
    pub deaths: Vec<(Time, u32)>,
    /// The rank that computes, and for how long after each poll.
    pub slow: (Option<usize>, Time),
    /// Time after which the job counts as hanging.
    pub limit: Time,
}

/// Time within which the senders of an incast begin.
const INCAST: Time = 100 * MILLISECOND;
const PAIRS: Time = 20 * MILLISECOND;
const DEATH: Time = 10 * MILLISECOND;
const COMPUTES: Time = 10 * MILLISECOND;
/// A silent peer is given up after some minutes.
const LIMIT: Time = 600 * SECOND;

struct Plan {
    apps: Vec<App>,
}

impl Plan {
    fn message(&mut self, from: usize, to: usize, len: u32, start: Time, after: u32) {
        let planned = Planned {
            to: to as u32,
            len,
            start,
            after,
        };
        self.apps[from].plan(planned);
        self.apps[to].expect(from as u32);
    }
}

impl Job {
    pub fn new(scenario: Scenario, size: &Size) -> Job {
        let mut random = Random(size.seed);
        let mut plan = Plan {
            apps: (0..size.ranks).map(|_| App::new()).collect(),
        };
        let mut deaths = Vec::new();
        let mut slow = (None, 0);
        match scenario {
            Scenario::AllToAll => all_to_all(&mut plan, size),
            Scenario::Ring => ring(&mut plan, size.ranks),
            Scenario::Barrier => barrier(&mut plan, size.ranks),
            Scenario::Incast => {
                let pieces = [16 << 10; 4];
                to_one(&mut plan, size.ranks, &pieces, &mut random);
            }
            Scenario::Pairs => pairs(&mut plan, size.ranks, &mut random),
            Scenario::Death => {
                pairs(&mut plan, size.ranks, &mut random);
                deaths.push((DEATH, 1));
            }
            Scenario::Slow => {
                to_one(&mut plan, size.ranks, &[1024; 4], &mut random);
                slow = (Some(0), COMPUTES);
            }
        }
        Job {
            apps: plan.apps,
            nodes: size.nodes,
            links: Links {
                loss: size.loss,
                ..Links::default()
            },
            deaths,
            slow,
            limit: LIMIT,
        }
    }
}

/// The order is that of a pairwise exchange, so that no rank gets all messages first.
fn all_to_all(plan: &mut Plan, size: &Size) {
    let ranks = size.ranks;
    let sample = size.sample.unwrap_or(ranks).min(ranks);
    let step = ranks / sample;
    let is_full = |rank: usize| rank.is_multiple_of(step) && rank / step < sample;
    for from in 0..ranks {
        for distance in 1..ranks {
            let to = (from + distance) % ranks;
            if is_full(from) || is_full(to) {
                plan.message(from, to, 1024, 0, 0);
            }
        }
    }
}

fn ring(plan: &mut Plan, ranks: usize) {
    for from in 0..ranks {
        for to in [(from + 1) % ranks, (from + ranks - 1) % ranks] {
            plan.message(from, to, 1024, 0, 0);
        }
    }
}

fn barrier(plan: &mut Plan, ranks: usize) {
    for from in 0..ranks {
        let mut distance = 1;
        let mut round = 0;
        while distance < ranks {
            plan.message(from, (from + distance) % ranks, 8, 0, round);
            (distance, round) = (2 * distance, round + 1);
        }
    }
}

fn to_one(plan: &mut Plan, ranks: usize, pieces: &[u32], random: &mut Random) {
    for from in 1..ranks {
        let start = random.below(INCAST as usize) as Time;
        for &len in pieces {
            plan.message(from, 0, len, start, 0);
        }
    }
}

fn pairs(plan: &mut Plan, ranks: usize, random: &mut Random) {
    for from in 0..ranks {
        let mut starts: Vec<Time> = (0..20)
            .map(|_| random.below(PAIRS as usize) as Time)
            .collect();
        starts.sort_unstable();
        for start in starts {
            let to = (from + 1 + random.below(ranks - 1)) % ranks;
            let len = random.of(&[8, 1024, 16 << 10]);
            plan.message(from, to, len, start, 0);
        }
    }
}
