// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The passive endpoints of an event queue. They share a channel of the connection manager, which reading the queue
//! polls.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use base::Result;
use engine::eq::{Driver, EventQueue};
use slab::Slab;
use sys::verbs::{self, Event, EventChannel};

/// The part of a passive endpoint that handles its events.
pub trait Listens: Send + Sync {
    fn handle(&self, event: Event);
}

/// The passive endpoints of an event queue.
pub struct Listeners {
    channel: Arc<EventChannel>,
    members: Mutex<Slab<Weak<dyn Listens>>>,
    queue: Weak<EventQueue>,
}

/// A passive endpoint among them.
pub struct Member {
    listeners: Arc<Listeners>,
    at: usize,
}

impl Listeners {
    /// Adds a passive endpoint to those of an event queue.
    pub fn join(queue: &Arc<EventQueue>, member: Weak<dyn Listens>) -> Result<Member> {
        let listeners = match queue.driver::<Listeners>() {
            Some(listeners) => listeners,
            None => Listeners::open(queue)?,
        };
        let at = listeners.members().insert(member);
        Ok(Member { listeners, at })
    }

    fn open(queue: &Arc<EventQueue>) -> Result<Arc<Listeners>> {
        let listeners = Arc::new(Listeners {
            channel: Arc::new(EventChannel::new()?),
            members: Mutex::default(),
            queue: Arc::downgrade(queue),
        });
        let weak: Weak<Listeners> = Arc::downgrade(&listeners);
        queue.add_driver(weak)?;
        Ok(listeners)
    }

    fn members(&self) -> MutexGuard<'_, Slab<Weak<dyn Listens>>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn member(&self, token: usize) -> Option<Arc<dyn Listens>> {
        self.members().get(token.wrapping_sub(1))?.upgrade()
    }
}

impl Driver for Listeners {
    fn drive(&self) {
        // The events belong to the process that opened the channel.
        if !verbs::is_here() {
            return;
        }
        while let Some(event) = EventChannel::next(&self.channel) {
            // An event for a passive endpoint that was closed: the request is dropped, and so rejected.
            if let Some(member) = self.member(event.token) {
                member.handle(event);
            }
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

impl Drop for Listeners {
    fn drop(&mut self) {
        // A child shares the set of descriptors that its parent sleeps on.
        if let Some(queue) = self.queue.upgrade().filter(|_| verbs::is_here()) {
            queue.remove_source(self.channel.as_fd());
        }
    }
}

impl Member {
    pub fn channel(&self) -> &Arc<EventChannel> {
        &self.listeners.channel
    }

    /// The number of the passive endpoint in events. It is not 0.
    pub fn token(&self) -> usize {
        self.at + 1
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.listeners.members().remove(self.at);
    }
}
