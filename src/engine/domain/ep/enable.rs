// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Enables an endpoint after checking that everything it needs is bound: fi_endpoint(3), fi_enable.

use core::sync::atomic::Ordering;

use super::Ep;
use crate::ep_state::{EpState, INITIATES};
use crate::report::gather::address_of;
use crate::transport::{DomainStateOf, Transport};
use abi::*;
use base::log::{Subsys, log_misuse};
use base::{Caps, Error, Result};

impl<T: Transport> Ep<T> {
    pub(super) fn try_enable(&self) -> Result {
        let mut guard = self.unlocked_state()?;
        let state = &mut *guard;
        match &self.shared.member {
            Some(member) => member.enable(state)?,
            None => {
                check_bound(&state.domain.eps[self.shared.id])?;
                self.check_shared(&state.domain)?;
                self.shared.engine.give_keys(state, self.shared.id)?;
                state
                    .transport
                    .enable_ep(&mut state.domain, self.shared.id)?;
            }
        }
        let address = address_of(&state.transport, self.shared.id);
        let ep = &mut state.domain.eps[self.shared.id];
        ep.enabled = true;
        if self.shared.member.is_none() {
            ep.stats.set_address(&address);
        }
        Ok(())
    }

    /// fi_endpoint(3), fi_ep_bind: a shared context that the attributes announce must be bound. Unconnected endpoints
    /// that share a receive context must share the address vector, too.
    fn check_shared(&self, domain: &DomainStateOf<T>) -> Result {
        let wants_stx = self.shared.info.ep.tx_ctx_cnt == FI_SHARED_CONTEXT;
        if wants_stx && !self.shared.shares_transmits.load(Ordering::Relaxed) {
            return Err(Error::OPBADSTATE);
        }
        let ep = &domain.eps[self.shared.id];
        // Connected endpoints have always been enabled without one; they then have a receive queue of their own.
        let wants_srx = self.shared.info.ep.rx_ctx_cnt == FI_SHARED_CONTEXT;
        if wants_srx && !ep.shares_receives && ep.ep_type != FI_EP_MSG.0 {
            return Err(Error::OPBADSTATE);
        }
        if !ep.shares_receives || ep.ep_type == FI_EP_MSG.0 {
            return Ok(());
        }
        // The endpoints that were enabled before agree, so the first one stands for all.
        let shares = |(_, other): &(usize, &EpState)| other.srx == ep.srx && other.enabled;
        match domain.eps.iter().find(shares) {
            Some((_, other)) if other.av != ep.av => Err(Error::INVAL),
            _ => Ok(()),
        }
    }

    /// Logs why the endpoint was not enabled.
    #[cold]
    pub(super) fn not_enabled(&self, error: Error) {
        let (source, ctrl) = (self.shared.engine.provider, Subsys::EpCtrl);
        match error {
            Error::NOCQ => log_misuse!(
                source,
                ctrl,
                "not enabled: it needs a completion queue bound with FI_TRANSMIT if it sends, reads or writes, and one \
                 bound with FI_RECV if it receives"
            ),
            Error::NOAV => log_misuse!(source, ctrl, "not enabled: no address vector is bound"),
            Error::NOEQ => log_misuse!(source, ctrl, "not enabled: no event queue is bound"),
            Error::OPBADSTATE => log_misuse!(
                source,
                ctrl,
                "not enabled: it is already, or the shared context that it was opened for is not bound"
            ),
            Error::INVAL => log_misuse!(
                source,
                ctrl,
                "not enabled: endpoints on its shared receive context have another address vector"
            ),
            other => log_misuse!(source, ctrl, "not enabled: {other:?}"),
        }
    }
}

/// Checks that the required objects are bound: fi_endpoint(3), fi_ep_bind. A counter does not replace a queue for
/// initiated operations, because their errors must be reported.
fn check_bound(ep: &EpState) -> Result {
    if (ep.caps.intersects(INITIATES) && ep.tx_cq.is_none())
        || (ep.caps.contains(Caps::RECV) && ep.rx_cq.is_none())
    {
        return Err(Error::NOCQ);
    }
    match ep.ep_type == FI_EP_MSG.0 {
        true if ep.eq.is_none() => Err(Error::NOEQ),
        false if ep.av.is_none() => Err(Error::NOAV),
        _ => Ok(()),
    }
}
