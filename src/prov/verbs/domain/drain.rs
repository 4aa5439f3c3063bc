// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Delivery of operations for which the application gets no completion, before their queue pair or the process ends:
//! destroying the pair drops what the peer's adapter has not acknowledged.
//!
//! Requests whose success is not reported are followed by a marker, an empty write whose success is. An adapter
//! completes requests in order, so the marker reports them all.

use core::time::Duration;

use super::super::SOURCE;
use super::super::ep::{Ep, State};
use super::super::ticket::Kind;
use super::Domain;
use base::OpFlags;
use base::log::{Subsys, log_warn};
use engine::address::mixed::Addr;
use engine::domain_state::DomainState;
use engine::transport::Drains;
use sys::verbs::{self, Opcode, Request};

/// How long a close waits for acknowledgements. A peer that posts no receives gives none.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);

impl Drains for Domain {
    fn close_limit(&self) -> Duration {
        CLOSE_LIMIT
    }

    fn owes(&self, ep: Option<usize>, _patient: bool) -> bool {
        let owes = |at: usize| self.ep(at).is_ok_and(Ep::owes);
        verbs::is_here()
            && match ep {
                Some(ep) => owes(ep),
                None => (0..self.eps.len()).any(owes),
            }
    }

    fn prepare_drain(&mut self, domain: &mut DomainState<Addr>, ep: Option<usize>) {
        let all = 0..self.eps.len();
        for ep in all.filter(|&at| ep.is_none_or(|ep| ep == at)) {
            self.flush_ep(domain, ep);
            self.post_marker(ep);
        }
    }

    fn report_lost(&self, ep: Option<usize>) {
        for (id, endpoint) in self.eps.iter().enumerate() {
            let Some(endpoint) = endpoint.as_deref().filter(|it| it.owes()) else {
                continue;
            };
            if ep.is_none_or(|ep| ep == id) {
                log_warn!(
                    &SOURCE,
                    Subsys::EpData,
                    "endpoint {id}: {} operations are lost, the peer has acknowledged none of them for {} s",
                    endpoint.sends.len(),
                    CLOSE_LIMIT.as_secs()
                );
            }
        }
    }
}

impl Domain {
    /// Makes the adapter report that the requests posted so far are complete, if it would not.
    fn post_marker(&mut self, ep: usize) {
        let Ok(endpoint) = self.ep_mut(ep) else {
            return;
        };
        if endpoint.unsignalled == 0 || endpoint.marker {
            return;
        }
        let Some(last) = endpoint.sends.last() else {
            return;
        };
        let mut request = Request::new(endpoint.ticket(Kind::Marker, last), Opcode::Write);
        request.signal();
        // A queue without room has requests that are reported: `Ep::must_signal`.
        if endpoint.post_now(request, None, None).is_err() {
            return;
        }
        endpoint.signalled(true);
        endpoint.marker = true;
        let queue = endpoint.send_queue;
        if let Some(Some(queue)) = self.queues.get_mut(queue) {
            queue.used += 1;
        }
    }
}

impl Ep {
    /// Whether operations are in flight whose end no completion will report.
    fn owes(&self) -> bool {
        let is_up = matches!(
            self.state,
            State::Accepting | State::Connected | State::Open
        );
        is_up
            && self
                .sends
                .iter()
                .any(|op| !op.flags.contains(OpFlags::COMPLETION))
    }
}
