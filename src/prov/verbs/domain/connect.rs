// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Connections of endpoints: fi_connect, fi_accept, fi_shutdown, and the events of the connection manager (fi_cm(3)).

use core::time::Duration;

use super::super::adapter::Adapter;
use super::super::ep::State;
use super::super::params;
use super::super::private;
use super::super::ticket::Holder;
use super::{Domain, SOURCE};
use abi::FI_CONNECTED;
use base::log::{Subsys, log_debug, log_info, log_warn};
use base::{Error, Result};
use engine::address::mixed::Addr;
use engine::domain_state::DomainState;
use object::ops::eq::EqErr;
use sys::verbs::{ConnectParam, Event, EventKind, Id, Transport};

/// Time limit for finding the device and the route to a peer.
const RESOLVE: Duration = Duration::from_millis(2000);

/// Reads and atomic operations in flight; the library reduces the number to what the device has.
const DEPTH: u8 = u8::MAX;
/// Repetitions without an answer, for both sides. The maximum is 7, which soft RoCE takes for no limit: messages to a
/// host that is gone would then never fail.
const RETRIES: u8 = 6;
/// Repetitions of a message while the peer has no receive: without end.
const RNR_RETRIES: u8 = 7;

impl Domain {
    pub(super) fn begin_connect(&mut self, ep: usize, addr: Option<&[u8]>, data: &[u8]) -> Result {
        let endpoint = self.ep_mut(ep)?;
        match endpoint.state {
            State::Idle => {}
            State::Requested => return Err(Error::INVAL),
            _ => return Err(Error::ISCONN),
        }
        let dest = addr
            .or(endpoint.dest.as_deref())
            .ok_or(Error::INVAL)?
            .to_vec();
        // Checks the length before anything begins.
        private::encode(data)?;
        let id = endpoint.id.as_ref().ok_or(Error::OPBADSTATE)?;
        id.resolve_address(endpoint.src.as_deref(), &dest, RESOLVE)?;
        endpoint.private = data.to_vec();
        endpoint.state = State::ResolvingAddress;
        self.awaiting += 1;
        Ok(())
    }

    /// Makes the queue pair, and posts the receives that waited for it.
    pub(super) fn create_pair(&mut self, ep: usize) -> Result {
        let queues = self.pair_queues(ep)?;
        let (_, receive) = self.queues_of(ep)?;
        let protection = self.protection.clone();
        let endpoint = self.ep_mut(ep)?;
        let mut limits = endpoint.limits;
        if endpoint.shared.is_some() {
            limits.receives = 0;
        }
        let id = endpoint.id.as_mut().ok_or(Error::OPBADSTATE)?;
        id.create_pair(&protection, &queues, limits)?;
        let Some(pair) = id.pair() else {
            return Err(Error::OPBADSTATE);
        };
        let pair_number = pair.number();
        let number = endpoint.shared.map(|_| pair_number);
        let mut early = std::mem::take(&mut endpoint.early);
        let posted = early
            .iter_mut()
            .try_for_each(|receive| pair.receive(receive));
        if let Some(number) = number {
            self.pairs.insert(number, ep);
        }
        self.health.forget(pair_number);
        self.reserve(ep)?;
        if let Some(Some(queue)) = self.queues.get_mut(receive) {
            queue.used += early.len();
        }
        Ok(posted?)
    }

    pub(super) fn accept_request(&mut self, ep: usize, data: &[u8]) -> Result {
        let endpoint = self.ep_mut(ep)?;
        if endpoint.state != State::Requested {
            return Err(Error::INVAL);
        }
        let private = private::encode(data)?;
        let param = ConnectParam {
            private: &private,
            depth: DEPTH,
            retries: 0,
            rnr_retries: RNR_RETRIES,
            shares_receives: endpoint.shared.is_some(),
        };
        endpoint
            .id
            .as_ref()
            .ok_or(Error::OPBADSTATE)?
            .accept(&param)?;
        endpoint.state = State::Accepting;
        self.awaiting += 1;
        Ok(())
    }

    /// fi_shutdown: the event that follows reports the end, here and to the peer.
    pub(super) fn disconnect(&mut self, ep: usize) -> Result {
        let endpoint = self.ep_mut(ep)?;
        let was_shut_down = std::mem::replace(&mut endpoint.is_shut_down, true);
        match endpoint.state {
            State::Accepting | State::Connected if !was_shut_down => {
                endpoint.id.as_ref().ok_or(Error::INVAL)?.disconnect()?;
                Ok(())
            }
            // After an error the peer does not know of the end yet.
            State::Ended if !was_shut_down => {
                self.answer_disconnect(ep);
                Ok(())
            }
            _ => Err(Error::INVAL),
        }
    }

    /// The peer has ended the connection: answers it, and makes the adapter flush what is posted here.
    pub(super) fn answer_disconnect(&self, ep: usize) {
        let id = self.ep(ep).ok().and_then(|endpoint| endpoint.id.as_ref());
        if let Some(Err(error)) = id.map(Id::disconnect) {
            log_info!(
                &SOURCE,
                Subsys::EpCtrl,
                "endpoint {ep}: nothing to answer: {error}"
            );
        }
    }

    pub(super) fn handle_event(&mut self, domain: &mut DomainState<Addr>, event: Event) {
        let holder = Holder::of_token(event.token);
        let Some(endpoint) = self.holder(holder) else {
            return;
        };
        let (ep, before) = (holder.place, endpoint.awaits_event());
        let result = self.advance(domain, ep, &event);
        if let Err(error) = result {
            self.fail_connect(domain, ep, error, error.negative(), None);
        }
        let after = self.ep(ep).is_ok_and(|endpoint| endpoint.awaits_event());
        self.awaiting = self.awaiting + usize::from(after) - usize::from(before);
    }

    /// An error is that of the next step.
    fn advance(&mut self, domain: &mut DomainState<Addr>, ep: usize, event: &Event) -> Result {
        let state = self.ep(ep)?.state;
        log_debug!(
            &SOURCE,
            Subsys::EpCtrl,
            "endpoint {ep}, {}: {}, status {}",
            state.words(),
            event.kind.words(),
            event.status
        );
        match (event.kind, state) {
            (EventKind::AddressResolved, State::ResolvingAddress) => {
                if self.ep(ep)?.id.as_ref().and_then(Id::device) != Some(self.adapter.device) {
                    return Err(Error::HOSTUNREACH);
                }
                self.create_pair(ep)?;
                let endpoint = self.ep_mut(ep)?;
                endpoint.state = State::ResolvingRoute;
                let id = endpoint.id.as_ref().ok_or(Error::OPBADSTATE)?;
                Ok(id.resolve_route(RESOLVE)?)
            }
            (EventKind::RouteResolved, State::ResolvingRoute) => self.request(ep),
            (
                EventKind::Response | EventKind::Established,
                State::Connecting | State::Accepting,
            ) => {
                self.set_timer(ep);
                self.ep_mut(ep)?.state = State::Connected;
                let data = match state {
                    State::Connecting => private::decode(&event.private),
                    _ => &[],
                };
                let state = &domain.eps[ep];
                if let Some(eq) = &state.eq {
                    eq.cm_event(FI_CONNECTED, state.fid, 0, data, None);
                }
                Ok(())
            }
            (EventKind::Rejected, _) => {
                let data = private::decode(&event.private);
                self.fail_connect(domain, ep, Error::CONNREFUSED, -event.status, Some(data));
                Ok(())
            }
            // The network finds no way to the peer. The adapter goes on trying for some seconds, and the kernel repeats
            // the event meanwhile.
            (EventKind::Failed, State::Connected) if self.ep(ep)?.was_unreachable => Ok(()),
            (EventKind::Failed, _) => {
                self.ep_mut(ep)?.was_unreachable = true;
                self.fail_connect(domain, ep, Error::TIMEDOUT, -event.status, None);
                Ok(())
            }
            (EventKind::Disconnected, _) => {
                self.answer_disconnect(ep);
                self.ep_mut(ep)?.state = State::Ended;
                self.report_end(domain, ep);
                Ok(())
            }
            (EventKind::DeviceRemoved, _) => Err(Error::NODEV),
            (EventKind::AddressChanged, _) => Err(Error::ADDRNOTAVAIL),
            (EventKind::Other, _) => Ok(()),
            // One that does not belong to the step that is awaited: the awaited one may not come any more.
            _ if self.ep(ep)?.awaits_event() => Err(Error::CONNABORTED),
            _ => Ok(()),
        }
    }

    /// Sends the request, after the route was found.
    fn request(&mut self, ep: usize) -> Result {
        let endpoint = self.ep_mut(ep)?;
        let id = endpoint.id.as_ref().ok_or(Error::OPBADSTATE)?;
        let private = private::encode_request(&endpoint.private, &id.local(), &id.peer())?;
        id.connect(&ConnectParam {
            private: &private,
            depth: DEPTH,
            retries: RETRIES,
            rnr_retries: RNR_RETRIES,
            shares_receives: endpoint.shared.is_some(),
        })?;
        endpoint.state = State::Connecting;
        Ok(())
    }

    fn set_timer(&self, ep: usize) {
        let pair = self
            .ep(ep)
            .ok()
            .and_then(|endpoint| endpoint.id.as_ref()?.pair());
        let Some(pair) = pair.filter(|_| has_timer(self.adapter)) else {
            return;
        };
        if let Err(error) = pair.set_rnr_timer(params().min_rnr_timer as u8) {
            log_warn!(
                &SOURCE,
                Subsys::EpCtrl,
                "endpoint {ep}: FI_VERBS_MIN_RNR_TIMER: {error}"
            );
        }
    }

    /// Reports that an attempt has failed, or an error of a connection. After the end of a connection nothing follows.
    fn fail_connect(
        &mut self,
        domain: &DomainState<Addr>,
        ep: usize,
        error: Error,
        number: i32,
        data: Option<&[u8]>,
    ) {
        let Ok(endpoint) = self.ep_mut(ep) else {
            return;
        };
        if endpoint.has_ended {
            return;
        }
        if !matches!(endpoint.state, State::Connected | State::Ended) {
            endpoint.state = State::Failed;
        }
        log_info!(
            &SOURCE,
            Subsys::EpCtrl,
            "endpoint {ep}: the connection failed: {error}, {number}"
        );
        let state = &domain.eps[ep];
        if let Some(eq) = &state.eq {
            eq.error(EqErr {
                fid: state.fid,
                context: state.context,
                err: error.code(),
                prov_errno: number,
                err_data: data.map(Into::into),
                data: 0,
            });
        }
    }
}

/// Messages without a receive are repeated, except on iWARP.
fn has_timer(adapter: &Adapter) -> bool {
    adapter.transport != Transport::Iwarp
}
