// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Posts receives to the adapter: fi_msg(3).

use super::super::ep::full_is_again;
use super::super::ticket::{Holder, Kind, Ticket};
use super::Domain;
use super::completions::{FLUSHED, explain};
use base::flags::flags;
use base::{Error, OpFlags, Result};
use engine::address::mixed::Addr;
use engine::domain_state::{AdapterReceive, DomainState};
use object::ops::transfer::{Rx, What};
use sys::verbs::{Receive, Status};

/// Flags that only receives have whose messages this library matches.
const OF_MATCHING: OpFlags = flags!(OpFlags: PEEK | CLAIM | DISCARD | TRIGGER | MULTI_RECV);

impl Domain {
    /// Posts a receive, or keeps it until there is a queue pair.
    pub(super) fn post_receive(
        &mut self,
        domain: &mut DomainState<Addr>,
        ep: usize,
        rx: &mut Rx,
    ) -> Result {
        let mut receive = self.receive_of(rx)?;
        let (_, queue) = self.queues_of(ep)?;
        if !self.has_room_for_receive(ep, queue) {
            while self.poll_queue(domain, queue) {}
            if !self.has_room_for_receive(ep, queue) {
                return Err(domain.eps[ep].again());
            }
        }
        if !self.is_usable(ep) {
            return Err(domain.eps[ep].again());
        }
        let endpoint = self.ep_mut(ep)?;
        if endpoint.is_over() {
            // Unread errors must not accumulate without limit.
            if domain.cqs[queue].is_over() {
                return Err(domain.eps[ep].again());
            }
            let (error, why) = explain(Status::FLUSHED);
            domain.receive_failed_there(ep, &record_of(rx), error, FLUSHED, why);
            rx.iov.take();
            return Ok(());
        }
        receive.set_id(endpoint.ticket(Kind::Receive, endpoint.receives.next()));
        match endpoint.any_pair() {
            Some(pair) => pair.receive(&mut receive).map_err(full_is_again)?,
            None => endpoint.early.push(receive),
        }
        endpoint.receives.push(record_of(rx));
        endpoint.credits.posted();
        if endpoint.early.is_empty()
            && let Some(Some(queue)) = self.queues.get_mut(queue)
        {
            queue.used += 1;
        }
        rx.iov.take();
        Ok(())
    }

    #[inline]
    fn has_room_for_receive(&self, ep: usize, queue: usize) -> bool {
        let queue = self.queues.get(queue).and_then(Option::as_ref);
        let endpoint = self.ep(ep);
        queue.is_some_and(|queue| !queue.is_full())
            && endpoint.is_ok_and(|ep| ep.receives.len() < ep.limits.receives as usize)
    }

    pub(super) fn post_shared(&mut self, srx: usize, rx: &mut Rx) -> Result {
        let mut receive = self.receive_of(rx)?;
        let shared = self.shared.get_mut(srx).and_then(Option::as_mut);
        let shared = shared.ok_or(Error::INVAL)?;
        if shared.receives.len() >= shared.size {
            return Err(Error::AGAIN);
        }
        let place = shared.receives.vacant_entry();
        let ticket = Ticket {
            kind: Kind::Shared,
            holder: Holder {
                place: srx,
                generation: 0,
            },
            number: place.key() as u32,
        };
        receive.set_id(ticket.word());
        shared.queue.receive(&mut receive).map_err(full_is_again)?;
        place.insert(record_of(rx));
        rx.iov.take();
        Ok(())
    }

    fn receive_of(&self, rx: &Rx) -> Result<Receive> {
        if rx.what != What::Msg {
            return Err(Error::NOSYS);
        }
        if rx.flags.intersects(OF_MATCHING) {
            return Err(Error::BADFLAGS);
        }
        let common = rx.iov.desc().number();
        let mut receive = Receive::new(0);
        for span in rx.iov.spans() {
            let key = match common {
                Some(key) => key.get(),
                None if span.len == 0 => continue,
                None => self.key_of(span, true).ok_or(Error::INVAL)?,
            };
            if !receive.piece(span.start, span.len, key) {
                return Err(Error::INVAL);
            }
        }
        Ok(receive)
    }
}

fn record_of(rx: &Rx) -> AdapterReceive {
    AdapterReceive {
        context: rx.context.number(),
        flags: rx.flags,
    }
}
