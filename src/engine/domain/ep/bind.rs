// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Binds objects to an endpoint: fi_endpoint(3), fi_ep_bind.

use core::sync::atomic::Ordering;

use super::{Ep, current};
use crate::domain::av::Av;
use crate::domain::cntr::Cntr;
use crate::domain::cq::Cq;
use crate::domain::driver;
use crate::domain::srx::SharedRx;
use crate::domain::stx::SharedTx;
use crate::ep_state::Event;
use crate::eq::Eq;
use crate::transport::Transport;
use abi::*;
use base::log::{Subsys, log_info, log_misuse};
use base::{Caps, Error, OpFlags, Result};
use object::Other;
use sync::Use;

impl<T: Transport> Ep<T> {
    pub(super) fn try_bind(&self, other: Other<'_>, flags: u64) -> Result {
        if let Some(member) = &self.shared.member {
            member.check_bind(flags)?;
            let known =
                other.downcast::<Cq<T>>().is_some() || other.downcast::<Cntr<T>>().is_some();
            if !known {
                return Err(Error::INVAL);
            }
        }
        if let Some(cq) = other.downcast::<Cq<T>>() {
            self.bind_cq(cq, flags)
        } else if let Some(cntr) = other.downcast::<Cntr<T>>() {
            self.bind_cntr(cntr, flags)
        } else if let Some(av) = other.downcast::<Av<T>>() {
            self.bind_av(av, flags)
        } else if let Some(eq) = other.downcast::<Eq>() {
            self.bind_eq(eq, flags)
        } else if let Some(srx) = other.downcast::<SharedRx<T>>() {
            self.bind_srx(srx, flags)
        } else if let Some(stx) = other.downcast::<SharedTx<T>>() {
            self.bind_stx(stx, flags)
        } else {
            Err(Error::INVAL)
        }
    }

    fn keep(&self, r#use: Use) {
        let mut bound = self.shared.bound.lock();
        bound
            .as_mut()
            .unwrap_or_else(|_| unreachable!("no panic while it is held"))
            .push(r#use);
    }

    fn bind_cq(&self, cq: &Cq<T>, flags: u64) -> Result {
        let (tx, rx) = (flags & FI_TRANSMIT != 0, flags & FI_RECV != 0);
        if flags & !(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION) != 0 {
            return Err(Error::BADFLAGS);
        }
        if !tx && !rx {
            return Err(Error::INVAL);
        }
        let id = cq.id_in(&self.shared.engine).ok_or(Error::DOMAIN)?;
        let mut state = self.shared.engine.lock()?;
        let ep = &state.domain.eps[self.shared.id];
        if (tx && ep.tx_cq.is_some()) || (rx && ep.rx_cq.is_some()) {
            return Err(Error::INVAL);
        }
        // The endpoint may be enabled already: without this queue it has nothing that completes there, except remote
        // writes with data.
        let ep = &mut state.domain.eps[self.shared.id];
        let implied = match flags & FI_SELECTIVE_COMPLETION {
            0 => OpFlags::COMPLETION,
            _ => OpFlags::empty(),
        };
        if tx {
            ep.tx_cq = Some(id);
            self.shared.imply(implied);
        }
        if rx {
            ep.rx_cq = Some(id);
            ep.rx_implied = if ep.shares_receives {
                implied
            } else {
                OpFlags::empty()
            };
            self.shared
                .rx_implied
                .store(implied.bits(), Ordering::Relaxed);
        }
        drop(state);
        self.keep(cq.uses.take());
        Ok(())
    }

    fn bind_cntr(&self, cntr: &Cntr<T>, mut flags: u64) -> Result {
        const BY_PEERS: u64 = FI_REMOTE_READ | FI_REMOTE_WRITE;
        let known = Event::ALL.iter().fold(0, |all, event| all | event.flag());
        if flags & !known != 0 {
            return Err(Error::BADFLAGS);
        }
        // fi_endpoint(3): accesses of peers are counted only for endpoints with FI_RMA_EVENT. Programs often name these
        // flags with the others, so they are ignored here. A counter that was bound for them alone would never change.
        let info = &self.shared.info;
        if !(info.caps | info.rx.caps).contains(Caps::RMA_EVENT) && flags & BY_PEERS != 0 {
            flags &= !BY_PEERS;
            log_info!(
                self.shared.engine.provider,
                Subsys::EpCtrl,
                "a counter does not count what peers read and write: the endpoint has no FI_RMA_EVENT"
            );
        }
        if flags == 0 {
            return Err(Error::INVAL);
        }
        let counter = cntr.counter_in(&self.shared.engine).ok_or(Error::DOMAIN)?;
        let mut guard = self.shared.engine.lock()?;
        let state = &mut *guard;
        let ep = &mut state.domain.eps[self.shared.id];
        let wanted = || Event::ALL.iter().filter(|event| flags & event.flag() != 0);
        if wanted().any(|&event| ep.bound(event).is_some()) {
            return Err(Error::INVAL);
        }
        for &event in wanted() {
            ep.bind_counter(event, counter);
        }
        // Peers reach a context through its scalable endpoint, which may be listening already.
        let is_known = ep.enabled || self.shared.member.is_some();
        if is_known && flags & BY_PEERS != 0 {
            state.transport.counts_accesses(&mut state.domain);
        }
        if self.shared.engine.info.caps.contains(Caps::TRIGGER) {
            self.shared.watch();
        }
        self.shared.counted.fetch_or(flags, Ordering::Relaxed);
        drop(guard);
        self.keep(cntr.uses.take());
        Ok(())
    }

    fn bind_av(&self, av: &Av<T>, flags: u64) -> Result {
        if flags != 0 {
            return Err(Error::BADFLAGS);
        }
        let id = av.id_in(&self.shared.engine).ok_or(Error::DOMAIN)?;
        let mut state = self.unlocked_state()?;
        let ep = &state.domain.eps[self.shared.id];
        if ep.av.is_some() || ep.ep_type == FI_EP_MSG.0 {
            return Err(Error::INVAL);
        }
        if state.domain.avs[id].context_bits > 0 && ep.caps.contains(Caps::NAMED_RX_CTX) {
            self.shared.limits.name_contexts();
        }
        state.domain.bind_av(self.shared.id, id);
        drop(state);
        self.keep(av.uses.take());
        Ok(())
    }

    fn bind_eq(&self, eq: &Eq, flags: u64) -> Result {
        if flags != 0 {
            return Err(Error::BADFLAGS);
        }
        let mut state = self.unlocked_state()?;
        let ep = &mut state.domain.eps[self.shared.id];
        if self.shared.has_own_eq.swap(true, Ordering::Relaxed) {
            return Err(Error::INVAL);
        }
        ep.eq = Some(eq.queue.clone());
        let (caps, ep_type) = (ep.caps, ep.ep_type);
        if eq.queue.owner.is_some() {
            state.domain.peers.add_eq(&eq.queue);
        }
        let joins = caps.contains(Caps::COLLECTIVE) && self.shared.engine.state.is_shared();
        let connects = ep_type == FI_EP_MSG.0 || joins;
        // Permanent: reading the event queue drives the domain from now on.
        if connects {
            state.domain.watchers.add();
        }
        drop(state);
        if connects {
            eq.queue.add_driver(driver(&self.shared.engine))?;
        }
        self.keep(eq.queue.uses.take());
        Ok(())
    }

    fn bind_srx(&self, srx: &SharedRx<T>, flags: u64) -> Result {
        if flags != 0 {
            return Err(Error::BADFLAGS);
        }
        let id = srx.id_in(&self.shared.engine).ok_or(Error::DOMAIN)?;
        srx.check(&self.shared.info.rx)?;
        if self.shared.info.ep.rx_ctx_cnt != FI_SHARED_CONTEXT && !srx.is_imported() {
            return Err(Error::INVAL);
        }
        let mut state = self.unlocked_state()?;
        let ep = &mut state.domain.eps[self.shared.id];
        if std::mem::replace(&mut ep.shares_receives, true) {
            return Err(Error::INVAL);
        }
        ep.checks_receives = true;
        ep.rx_implied = current(&self.shared.rx_implied);
        state.domain.bind_rx_queue(self.shared.id, id);
        drop(state);
        self.keep(srx.uses.take());
        Ok(())
    }

    fn bind_stx(&self, stx: &SharedTx<T>, flags: u64) -> Result {
        if flags != 0 {
            return Err(Error::BADFLAGS);
        }
        stx.check(&self.shared.engine, &self.shared.info.tx)?;
        if self.shared.info.ep.tx_ctx_cnt != FI_SHARED_CONTEXT {
            return Err(Error::INVAL);
        }
        let _disabled = self.unlocked_state()?;
        if self.shared.shares_transmits.swap(true, Ordering::Relaxed) {
            return Err(Error::INVAL);
        }
        self.keep(stx.uses.take());
        Ok(())
    }

    /// Logs why nothing was bound.
    #[cold]
    pub(super) fn not_bound(&self, flags: u64, error: Error) {
        let (source, ctrl) = (self.shared.engine.provider, Subsys::EpCtrl);
        match error {
            Error::OPBADSTATE => {
                log_misuse!(source, ctrl, "not bound: the endpoint is enabled already");
            }
            Error::DOMAIN => log_misuse!(source, ctrl, "not bound: it is of another domain"),
            Error::BADFLAGS => {
                log_misuse!(
                    source,
                    ctrl,
                    "not bound: the flags {flags:#x} are not for it"
                );
            }
            Error::INVAL => log_misuse!(
                source,
                ctrl,
                "not bound (flags {flags:#x}): the endpoint has one for that, or does not take such an object or flags"
            ),
            other => log_misuse!(source, ctrl, "not bound (flags {flags:#x}): {other:?}"),
        }
    }
}
