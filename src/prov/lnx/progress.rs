// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The progress of the rails. Their calls report what has happened: `held`.

use super::domain::{LOOK, Linked};
use super::held::{Cx, State};
use client::owner::{Owner, Report};
use engine::coll::messages;
use engine::report::dump;
use engine::report::gather::attend;
use sys::event::{BATCH, Ready};

/// While one rail is busy, one poll in this many polls the others.
const OTHERS_EVERY: u32 = 8;
/// A rail is busy until it has brought nothing this often in a row.
const QUIET: u32 = 1024;
/// While a peer reads a message, one poll in this many looks at the time.
const ASK_EVERY: u32 = 1024;
/// One poll in this many answers fi_top and looks for late receives.
const ATTEND_EVERY: u32 = 256;
/// Polls at most before a thread sleeps.
const MOST: usize = 64;

impl Linked {
    /// Polls the rails; while one is busy, the others not every time.
    #[inline]
    pub fn poll(&mut self, domain: &mut State) {
        self.polls = self.polls.wrapping_add(1);
        let busy = self
            .busy
            .filter(|_| !self.polls.is_multiple_of(OTHERS_EVERY));
        match busy {
            Some(at) => match self.drive(domain, at) {
                true => self.quiet = 0,
                false => self.quiet += 1,
            },
            None => {
                for at in 0..self.rails.len() {
                    if self.drive(domain, at) {
                        (self.busy, self.quiet) = (Some(at), 0);
                    }
                }
            }
        }
        if self.quiet >= QUIET {
            self.busy = None;
        }
        if self.desk.has_aside() {
            self.take_aside(domain);
        }
        if !self.held.stripes.todo.is_empty() {
            self.work(domain);
        }
        if self.held.stripes.next_ask.is_some() && self.polls.is_multiple_of(ASK_EVERY) {
            self.ask(domain);
        }
        if self.polls.is_multiple_of(ATTEND_EVERY) {
            self.attend(domain);
        }
        messages::poll(self, domain);
    }

    /// See `report::gather`.
    #[cold]
    fn attend(&self, domain: &mut State) {
        if attend(self, domain, self.reactor.now()) {
            dump::request_dump_here();
        }
    }

    /// Polls one rail. Returns whether anything has happened.
    fn drive(&mut self, domain: &mut State, at: usize) -> bool {
        let before = self.held.calls;
        let is_ours = self.rails[at].is_ours;
        let mut cx = Cx {
            held: &mut self.held,
            domain,
        };
        let eps = &self.eps;
        self.desk.enter(&mut cx, || {
            for endpoint in eps.all() {
                endpoint.rails[at].cq.drive();
                // A queue of this library drives the whole domain.
                if is_ours {
                    break;
                }
            }
        });
        self.held.calls != before
    }

    /// Polls all rails until there is nothing left, or for long enough, and prepares for a sleep.
    pub fn poll_all(&mut self, domain: &mut State) {
        self.attend(domain);
        let mut ready = [Ready::default(); BATCH];
        self.reactor.poll(&mut ready);
        let now = self.reactor.now();
        let is_due = core::iter::from_fn(|| self.reactor.next_due(now)).count() > 0;
        if self.reactor.end_wake() || is_due {
            self.reactor.set_timer();
        }
        let mut can_sleep = false;
        for _ in 0..MOST {
            let mut is_idle = true;
            for at in 0..self.rails.len() {
                is_idle &= !self.drive(domain, at);
            }
            self.take_aside(domain);
            self.ask(domain);
            messages::poll(self, domain);
            is_idle &= self.held.stripes.todo.is_empty();
            if is_idle && self.may_sleep(domain) {
                can_sleep = true;
                break;
            }
        }
        if !can_sleep {
            self.reactor.wake();
        } else if self.messages.has_unsent()
            || self.rails.iter().any(|rail| !rail.can_wake()) && self.eps.all().next().is_some()
        {
            self.reactor.schedule(self.reactor.now() + LOOK, now);
        }
    }

    fn may_sleep(&mut self, domain: &mut State) -> bool {
        let before = self.held.calls;
        let mut cx = Cx {
            held: &mut self.held,
            domain,
        };
        let rails = &self.rails;
        let may = self
            .desk
            .enter(&mut cx, || rails.iter().all(|rail| rail.may_sleep()));
        may && self.held.calls == before
    }

    /// Handles the reports of threads of providers below.
    fn take_aside(&mut self, domain: &mut State) {
        for report in self.desk.take_aside() {
            let mut cx = Cx {
                held: &mut self.held,
                domain,
            };
            match report {
                Report::Done(queue, done) => cx.completed(queue, done),
                Report::Failed(queue, error) => cx.failed(queue, error),
                Report::Lost(srx, from, error) => cx.lost(srx, from, error),
            }
        }
    }
}
