// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Polls completion queues, and completes the operations that they report: fi_cq(3).

use std::ffi::{CStr, CString};
use std::sync::Arc;

use super::super::SOURCE;
use super::super::ep::State;
use super::super::request::refuse;
use super::super::ticket::{Kind, Ticket};
use super::{Domain, Queue};
use abi::FI_SHUTDOWN;
use base::log::{Subsys, log_info, log_warn};
use base::{Error, OpFlags};
use engine::address::mixed::Addr;
use engine::domain_state::{AdapterDone, DomainState};
use sys::verbs::{self, Completion, Completions, Id, Pair, Status, WORK_RECEIVE_WRITE};

impl Domain {
    /// Handles some completions. Returns false if there were none, or if the application has not read earlier ones.
    #[inline]
    pub(super) fn poll_queue(&mut self, domain: &mut DomainState<Addr>, at: usize) -> bool {
        let Some(Some(queue)) = self.queues.get(at) else {
            return false;
        };
        // Without requests there are no completions.
        if queue.used == 0 && queue.sharing == 0 || domain.cqs[at].is_over() {
            return false;
        }
        let mut room = Completions::new();
        let found = queue.queue.poll(&mut room);
        for completion in found {
            self.complete(domain, at, completion);
        }
        !found.is_empty()
    }

    #[inline]
    fn complete(&mut self, domain: &mut DomainState<Addr>, at: usize, completion: &Completion) {
        let ticket = Ticket::of(completion.id());
        match ticket.kind {
            Kind::Send => self.complete_sends(domain, at, ticket, completion.status()),
            Kind::Receive => self.complete_receive(domain, at, ticket, completion),
            Kind::Shared => self.complete_shared(domain, ticket, completion),
            Kind::Marker => self.complete_marker(domain, at, ticket, completion.status()),
        }
    }

    #[inline]
    fn release(&mut self, at: usize, count: usize) {
        if let Some(Some(queue)) = self.queues.get_mut(at) {
            queue.used = queue.used.saturating_sub(count);
        }
    }

    /// A completion shows that the requests before it have succeeded, whose success is not reported.
    #[inline]
    fn complete_sends(
        &mut self,
        domain: &mut DomainState<Addr>,
        at: usize,
        ticket: Ticket,
        status: Status,
    ) {
        let Some(endpoint) = self.holder(ticket.holder) else {
            return;
        };
        let Some(count) = endpoint.sends.count_to(ticket.number) else {
            return;
        };
        for _ in 1..count {
            if let Some(op) = endpoint.sends.pop() {
                domain.complete_tx(&op);
            }
        }
        let last = endpoint.sends.pop();
        self.release(at, count);
        let Some(op) = last else {
            return;
        };
        if status == Status::SUCCESS {
            return domain.complete_tx(&op);
        }
        let (error, why) = explain(status);
        domain.fail_tx_because(&op, error, number(status), why);
        self.end_by_error(domain, ticket.holder.place, status);
    }

    /// A marker has no record of its own. Behind a request that failed it is flushed, and so are the others.
    #[cold]
    fn complete_marker(
        &mut self,
        domain: &mut DomainState<Addr>,
        at: usize,
        ticket: Ticket,
        status: Status,
    ) {
        let Some(endpoint) = self.holder(ticket.holder) else {
            return;
        };
        endpoint.marker = false;
        self.release(at, 1);
        if status == Status::SUCCESS {
            self.complete_sends(domain, at, ticket, status);
        }
    }

    #[inline]
    fn complete_receive(
        &mut self,
        domain: &mut DomainState<Addr>,
        at: usize,
        ticket: Ticket,
        completion: &Completion,
    ) {
        let Some(endpoint) = self.holder(ticket.holder) else {
            return;
        };
        // Receives complete in the order in which they were posted.
        if endpoint.receives.count_to(ticket.number) != Some(1) {
            return;
        }
        let Some(receive) = endpoint.receives.pop() else {
            return;
        };
        self.release(at, 1);
        let (ep, status) = (ticket.holder.place, completion.status());
        if status == Status::SUCCESS {
            return domain.received_there(ep, &receive, &done(completion));
        }
        let (error, why) = explain(status);
        domain.receive_failed_there(ep, &receive, error, number(status), why);
        self.end_by_error(domain, ep, status);
    }

    fn complete_shared(
        &mut self,
        domain: &mut DomainState<Addr>,
        ticket: Ticket,
        completion: &Completion,
    ) {
        let shared = self.shared.get_mut(ticket.holder.place);
        let Some(shared) = shared.and_then(Option::as_mut) else {
            return;
        };
        let Some(receive) = shared.receives.try_remove(ticket.number as usize) else {
            return;
        };
        let Some(&ep) = self.pairs.get(&completion.pair()) else {
            return;
        };
        let status = completion.status();
        if status == Status::SUCCESS {
            return domain.received_there(ep, &receive, &done(completion));
        }
        let (error, why) = explain(status);
        domain.receive_failed_there(ep, &receive, error, number(status), why);
        self.end_by_error(domain, ep, status);
    }

    /// The first error ends a connection. The adapter flushes everything that was posted.
    #[cold]
    fn end_by_error(&mut self, domain: &mut DomainState<Addr>, ep: usize, status: Status) {
        let Ok(endpoint) = self.ep_mut(ep) else {
            return;
        };
        if endpoint.datagrams.is_some() {
            return self.recover(ep, status);
        }
        if status == Status::FLUSHED || endpoint.state != State::Connected {
            return;
        }
        endpoint.state = State::Ended;
        log_info!(
            &SOURCE,
            Subsys::EpData,
            "endpoint {ep}: the connection ends with the status {}: {}",
            status.0,
            status.text()
        );
        self.report_end(domain, ep);
    }

    /// The device has reported that a queue pair, or the device itself, has failed.
    #[cold]
    pub(super) fn end_failed(&mut self, domain: &DomainState<Addr>, ep: usize) {
        let Ok(endpoint) = self.ep_mut(ep) else {
            return;
        };
        if endpoint.datagrams.is_some() {
            return self.recover(ep, Status::FLUSHED);
        }
        if !matches!(endpoint.state, State::Accepting | State::Connected) {
            return;
        }
        log_warn!(
            &SOURCE,
            Subsys::EpData,
            "endpoint {ep}: the device reports that its queue pair has failed"
        );
        self.answer_disconnect(ep);
        if let Ok(endpoint) = self.ep_mut(ep) {
            endpoint.state = State::Ended;
        }
        self.report_end(domain, ep);
    }

    /// Reports the end of a connection once.
    pub(super) fn report_end(&mut self, domain: &DomainState<Addr>, ep: usize) {
        let Ok(endpoint) = self.ep_mut(ep) else {
            return;
        };
        if std::mem::replace(&mut endpoint.has_ended, true) {
            return;
        }
        let state = &domain.eps[ep];
        if let Some(eq) = &state.eq {
            eq.cm_event(FI_SHUTDOWN, state.fid, 0, &[], None);
        }
    }

    /// Closes an endpoint: destroys its queue pair, takes what the adapter has reported, and completes everything else
    /// as cancelled. Those completions can still be read.
    pub(super) fn end_ep(&mut self, domain: &mut DomainState<Addr>, ep: usize) {
        if !verbs::is_here() {
            // Operations and receives are those of the parent.
            self.eps[ep] = None;
            return;
        }
        self.flush_ep(domain, ep);
        let Ok(endpoint) = self.ep_mut(ep) else {
            return;
        };
        let awaits = usize::from(endpoint.awaits_event());
        let (id, datagrams) = (endpoint.id.take(), endpoint.datagrams.take());
        if endpoint.state == State::Requested
            && let Some(id) = &id
        {
            refuse(id);
        }
        let (send, receive) = (endpoint.send_queue, endpoint.receive_queue);
        let early = endpoint.early.len();
        self.awaiting -= awaits;
        let own = datagrams.as_ref().and_then(|it| it.pair.as_ref());
        let pair = id.as_ref().and_then(Id::pair).or(own).map(Pair::number);
        drop(id);
        drop(datagrams);
        while self.poll_queue(domain, send) {}
        while self.poll_queue(domain, receive) {}
        if let Some(pair) = pair {
            self.pairs.remove(&pair);
            self.unreserve(ep);
        }
        let Some(mut endpoint) = self.eps.get_mut(ep).and_then(Option::take) else {
            return;
        };
        self.release(send, endpoint.sends.len() + usize::from(endpoint.marker));
        self.release(receive, endpoint.receives.len().saturating_sub(early));
        let why: Arc<CStr> = c"the endpoint was closed".into();
        while let Some(op) = endpoint.sends.pop() {
            match op.flags.contains(OpFlags::COMPLETION) {
                true => domain.fail_tx_because(&op, Error::CANCELED, FLUSHED, why.clone()),
                false => domain.eps[ep].tx_pending -= 1,
            }
        }
        while let Some(receive) = endpoint.receives.pop() {
            let why = why.clone();
            domain.receive_failed_there(ep, &receive, Error::CANCELED, FLUSHED, why);
        }
    }
}

impl Queue {
    /// Whether another completion may be lost.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.used >= self.queue.capacity()
    }
}

pub(super) const FLUSHED: i32 = Status::FLUSHED.0 as i32;

fn number(status: Status) -> i32 {
    i32::try_from(status.0).unwrap_or(i32::MAX)
}

#[cold]
pub(super) fn explain(status: Status) -> (Error, Arc<CStr>) {
    let error = match status {
        Status::FLUSHED => Error::CANCELED,
        _ => Error::IO,
    };
    let words = CString::new(status.text()).unwrap_or_default();
    (error, words.into())
}

#[inline]
fn done(completion: &Completion) -> AdapterDone {
    AdapterDone {
        len: completion.len(),
        data: completion.immediate().map(u64::from),
        is_write: completion.work() == WORK_RECEIVE_WRITE,
    }
}
