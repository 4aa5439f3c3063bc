// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Completion queues below. All connections of a domain share one, so that a poll without completions costs the same
//! for any number of endpoints. A provider of another library may report writes with data without a receive and without
//! their connection; only the queue then identifies the endpoint, so each endpoint has a queue.

use std::sync::Arc;

use super::{CQ, Lower, watch};
use base::{Error, Result};
use client::Cq;
use engine::reactor::Token;

/// A completion queue below.
pub struct Queue {
    pub cq: Arc<Cq>,
    /// The only endpoint whose connections use the queue; `None`: all use it.
    pub ep: Option<usize>,
}

impl Lower {
    /// Opens the queue of the domain, if its endpoints share one.
    pub(super) fn open_queue(&mut self) -> Result {
        match self.domain.shares_queue {
            true => self.add_queue(None),
            false => Ok(()),
        }
    }

    /// Opens the queue of an endpoint, if the endpoints do not share one.
    pub(super) fn open_queue_of(&mut self, ep: usize) -> Result {
        match self.domain.shares_queue {
            true => Ok(()),
            false => self.add_queue(Some(ep)),
        }
    }

    fn add_queue(&mut self, ep: Option<usize>) -> Result {
        let (cq, room) = self.domain.queue()?;
        // The rest is for writes with data of the peers.
        self.ops.limit(room / 4 * 3);
        self.most_packets = room / 2;
        for fd in cq.fds()? {
            watch(&self.reactor, fd, Token::new(CQ, 0))?;
        }
        self.queues.push(Queue { cq, ep });
        Ok(())
    }

    /// Closes the queue of a closed endpoint.
    pub(super) fn close_queue_of(&mut self, ep: usize) {
        let is_its = |queue: &Queue| queue.ep == Some(ep);
        if let Some(at) = self.queues.iter().position(is_its) {
            // No later poll reads this queue.
            let queue = self.queues.swap_remove(at);
            self.ops.read_empty(&queue.cq);
        }
    }

    /// Returns whether all queues, and the queue of events, will signal this library's descriptor for later events.
    pub fn may_sleep(&self) -> bool {
        let eq = &*self.domain.eq;
        let fabric = &self.domain.fabric;
        if self.queues.is_empty() {
            return fabric.trywait(&[eq]) != Err(Error::AGAIN);
        }
        let mut queues = self.queues.iter();
        queues.all(|queue| fabric.trywait(&[&*queue.cq, eq]) != Err(Error::AGAIN))
    }
}

/// Returns the queue for connections of an endpoint. Without an endpoint, the queue that all connections share.
pub(super) fn queue_of(queues: &[Queue], ep: Option<usize>) -> Option<&Arc<Cq>> {
    let is_for_it = |queue: &&Queue| queue.ep.is_none_or(|its| Some(its) == ep);
    queues.iter().find(is_for_it).map(|queue| &queue.cq)
}
