// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Counters of the provider below, and the part of their values that was copied to the application's counters.

use std::sync::Arc;

use abi::{FI_REMOTE_READ, FI_REMOTE_WRITE};
use base::Result;
use client::layer::Registrar;
use client::{Cntr, Ep};
use engine::cntr::Counter;

/// A counter below and the part of its value that was already seen.
pub struct Tally {
    pub below: Arc<Cntr>,
    pub bytes: bool,
    seen: u64,
    /// The value at the last `look`.
    value: u64,
}

/// Counters of accesses by the peers of one endpoint, with a tally for each kind that the application counts.
#[derive(Default)]
pub struct Accesses {
    pub read: Option<Tally>,
    pub written: Option<Tally>,
    /// Messages among the writes, by peers that got addresses to write to.
    pub messages: Option<Arc<Cntr>>,
    /// Writes among them that were counted when their data came.
    pub counted: u64,
}

/// A counter of the application that is bound to regions.
pub struct RegionTally {
    pub counter: Arc<Counter>,
    pub tally: Tally,
}

impl Tally {
    pub fn new(below: Arc<Cntr>, bytes: bool) -> Tally {
        Tally {
            below,
            bytes,
            seen: 0,
            value: 0,
        }
    }

    /// Reads the counter, which drives progress below.
    pub fn look(&mut self) {
        self.value = self.below.read().unwrap_or(0);
    }

    /// Returns the increase between the last two looks. `without`, read afterwards, gives the part that does not count.
    pub fn news(&mut self, without: impl FnOnce() -> u64) -> u64 {
        // If `without` grew in between, the result is too small until the next look.
        let value = self.value.saturating_sub(without());
        let news = value.saturating_sub(self.seen);
        self.seen += news;
        news
    }
}

impl Accesses {
    /// Whether reads and writes are counted.
    pub fn has(&self) -> (bool, bool) {
        (self.read.is_some(), self.written.is_some())
    }

    /// Reads the counters. Completions of writes that they have counted must be handled before `news`.
    pub fn look(&mut self) {
        let tallies = [&mut self.read, &mut self.written];
        tallies.into_iter().flatten().for_each(Tally::look);
    }

    /// Returns the reads and writes since the last call.
    pub fn news(&mut self) -> [u64; 2] {
        let (messages, counted) = (&self.messages, self.counted);
        let without = || {
            let messages = messages.as_ref().map(|cntr| cntr.read());
            counted + messages.and_then(Result::ok).unwrap_or(0)
        };
        let read = self.read.as_mut().map_or(0, |tally| tally.news(|| 0));
        let written = self.written.as_mut().map_or(0, |tally| tally.news(without));
        [read, written]
    }

    pub fn all(&self) -> impl Iterator<Item = &Arc<Cntr>> {
        let tallies = [&self.read, &self.written].into_iter().flatten();
        tallies.map(|tally| &tally.below).chain(&self.messages)
    }

    /// Binds the counters to the endpoint of a new connection.
    pub fn bind_to(&self, link: &Ep) -> Result {
        if let Some(tally) = &self.read {
            link.bind(&tally.below, FI_REMOTE_READ)?;
        }
        match &self.written {
            Some(tally) => link.bind(&tally.below, FI_REMOTE_WRITE),
            None => Ok(()),
        }
    }

    /// Returns a registrar for memory to which peers write messages.
    pub fn telling(&self, registrar: Registrar) -> Registrar {
        match &self.messages {
            Some(messages) => registrar.counting(messages),
            None => registrar,
        }
    }
}
