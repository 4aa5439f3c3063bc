// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Counters of the provider below, and how much of their values the application has been told.
#![forbid(unsafe_code)]

use std::sync::Arc;

use crate::abi::{FI_REMOTE_READ, FI_REMOTE_WRITE};
use crate::base::Result;
use crate::engine::cntr::Counter;
use crate::ffi::client::{Cntr, Ep};
use crate::ffi::layer::Registrar;

/// A counter below, and how much of its value is known here.
pub struct Tally {
    pub below: Arc<Cntr>,
    pub bytes: bool,
    seen: u64,
}

/// What counts accesses of the peers of one endpoint. There is a tally for each kind that the application counts.
#[derive(Default)]
pub struct Accesses {
    pub read: Option<Tally>,
    pub written: Option<Tally>,
    /// Among what is written: messages, by peers that were told where.
    pub messages: Option<Arc<Cntr>>,
    /// Among what is written: what was counted when its data came.
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
        }
    }

    /// What has come since this was last asked; `without` is asked afterwards for how much of it is left out.
    pub fn news(&mut self, without: impl FnOnce() -> u64) -> u64 {
        let all = self.below.read().unwrap_or(0);
        // What was counted there in between only makes it less, until it is looked at again.
        let value = all.saturating_sub(without());
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

    /// Reads and writes that have come since this was last asked.
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

    /// A connection is being made.
    pub fn bind_to(&self, link: &Ep) -> Result {
        if let Some(tally) = &self.read {
            link.bind(&tally.below, FI_REMOTE_READ)?;
        }
        match &self.written {
            Some(tally) => link.bind(&tally.below, FI_REMOTE_WRITE),
            None => Ok(()),
        }
    }

    /// For memory that peers are told of to write messages to.
    pub fn telling(&self, registrar: Registrar) -> Registrar {
        match &self.messages {
            Some(messages) => registrar.counting(messages),
            None => registrar,
        }
    }
}
