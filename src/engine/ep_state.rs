// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What the engine knows of an endpoint: what is bound to it, and what it was opened with (fi_endpoint(3)).
#![forbid(unsafe_code)]

use std::sync::Arc;

use crate::abi::*;
use crate::base::Result;
use crate::engine::cntr::Counter;
use crate::engine::eq::EventQueue;

/// The kinds of operations that a counter can be bound to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    Send,
    Recv,
    Read,
    Write,
    RemoteRead,
    RemoteWrite,
}

impl Event {
    pub const ALL: [Event; 6] = [
        Event::Send,
        Event::Recv,
        Event::Read,
        Event::Write,
        Event::RemoteRead,
        Event::RemoteWrite,
    ];

    /// The bind flag of fi_endpoint(3).
    pub const fn flag(self) -> u64 {
        match self {
            Event::Send => FI_SEND,
            Event::Recv => FI_RECV,
            Event::Read => FI_READ,
            Event::Write => FI_WRITE,
            Event::RemoteRead => FI_REMOTE_READ,
            Event::RemoteWrite => FI_REMOTE_WRITE,
        }
    }
}

/// One for each kind of event.
pub type Counters = [Option<Arc<Counter>>; 6];

/// Under the domain's lock, by number in `Core::eps`.
pub struct EpState {
    /// The handle that C holds, and its context: events name them.
    pub fid: usize,
    pub context: usize,
    pub ep_type: u32,
    pub caps: u64,
    pub tx_cq: Option<usize>,
    pub rx_cq: Option<usize>,
    pub cntrs: Counters,
    /// With FI_TRIGGER, once enabled: the counters bound. In their place `cntrs` has watched ones that count nothing.
    pub behind: Option<Box<Counters>>,
    pub av: Option<usize>,
    /// Completions call some of its addresses by names of the application (FI_AV_USER_ID).
    pub user_ids: bool,
    pub eq: Option<Arc<EventQueue>>,
    /// The receive context in `Core::srxs`: the endpoint's own, or one that it shares.
    pub srx: usize,
    /// It is one that it shares: receives are posted there.
    pub shares_receives: bool,
    pub enabled: bool,
    pub tx_size: usize,
    /// Operations posted that have not completed.
    pub tx_pending: usize,
}

impl EpState {
    #[inline]
    pub fn cntr(&self, event: Event) -> Option<&Arc<Counter>> {
        self.cntrs[event as usize].as_ref()
    }

    /// With FI_TRIGGER: completions of deferred work are to be told from others, which the counters of this endpoint's own
    /// operations do.
    pub fn tell_work(&mut self) -> Result {
        let watcher = Arc::new(Counter::watcher()?);
        self.behind = Some(Box::new(self.cntrs.clone()));
        for event in [Event::Send, Event::Recv, Event::Read, Event::Write] {
            self.cntrs[event as usize] = Some(watcher.clone());
        }
        Ok(())
    }

    /// The counter that the application has bound.
    pub fn bound(&self, event: Event) -> Option<&Arc<Counter>> {
        self.behind.as_deref().unwrap_or(&self.cntrs)[event as usize].as_ref()
    }

    /// Receives may name their source.
    pub fn directed(&self) -> bool {
        self.caps & FI_DIRECTED_RECV != 0
    }
}
