// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Prepared work requests of an endpoint (fi_wr(3)), and the calls that start deferred operations (fi_endpoint(3),
//! fi_tx_flush).

use core::sync::atomic::Ordering;

use super::Ep;
use crate::domain::State;
use crate::domain::sep::Side;
use crate::transport::Transport;
use abi::FI_ADDR_UNSPEC;
use base::{Caps, Error, OpFlags, Result};

use object::ops::atomic::Atomic;
use object::ops::transfer::{DataPath, OneTx, Rx, Tx, What};
use object::ops::wr::WorkPath;
use object::ops::wr::record::Route;

impl<T: Transport> Ep<T> {
    /// Whether the address at `dest` is still the one that a request was prepared for.
    #[inline]
    fn check_peer(&self, state: &State<T>, dest: u64, generation: u32) -> Result {
        let State { domain, transport } = state;
        match transport.is_current(domain, self.port(), dest, generation) {
            true => Ok(()),
            false => Err(Error::INVAL),
        }
    }

    /// fi_tx_flush: starts what was deferred.
    pub(super) fn flush_transmits(&self) -> Result {
        let member = self.shared.member.as_ref();
        if member.is_some_and(|member| member.side == Side::Receive) {
            return Err(Error::NOSYS);
        }
        let mut guard = self.shared.engine.lock_data()?;
        let state = &mut *guard;
        if !state.domain.eps[self.shared.id].enabled {
            return Err(Error::OPBADSTATE);
        }
        state
            .transport
            .start_deferred(&mut state.domain, self.port());
        state.run_triggers();
        Ok(())
    }

    /// fi_recv_flush, fi_trecv_flush: no receive is ever deferred.
    pub(super) fn flush_receives(&self) -> Result {
        let state = self.shared.engine.lock_data()?;
        let ep = &state.domain.eps[self.shared.id];
        match (ep.enabled, ep.shares_receives) {
            (false, _) => Err(Error::OPBADSTATE),
            // fi_endpoint(3): its receives are posted to the shared context itself.
            (true, true) => Err(Error::NOSYS),
            (true, false) => Ok(()),
        }
    }
}

impl<T: Transport> WorkPath for Ep<T> {
    #[inline]
    fn stamp(&self) -> u64 {
        self.shared.stamp
    }

    fn route(&self, tx: &Tx<'_>) -> Result<Route> {
        // A record keeps no descriptors.
        if self.reads_descs() {
            return Err(Error::NOSYS);
        }
        self.shared.limits.check(tx)?;
        let mut guard = self.shared.engine.lock_data()?;
        let State { domain, transport } = &mut *guard;
        let ep = &domain.eps[self.shared.id];
        if !ep.begins(tx.what) {
            return Err(Error::NOSYS);
        }
        if !ep.enabled {
            return Err(Error::OPBADSTATE);
        }
        if tx.flags.contains(OpFlags::TRIGGER) && !ep.caps.contains(Caps::TRIGGER) {
            return Err(Error::BADFLAGS);
        }
        transport.route(domain, self.port(), tx)
    }

    fn order_flag(&self, what: What) -> OpFlags {
        self.shared.limits.order(what)
    }

    fn source(&self, what: What, src: u64) -> Result<Option<u32>> {
        let mut guard = self.shared.engine.lock_data()?;
        let State { domain, transport } = &mut *guard;
        let ep = &domain.eps[self.shared.id];
        if !ep.takes(what) || ep.shares_receives {
            return Err(Error::NOSYS);
        }
        if !ep.enabled {
            return Err(Error::OPBADSTATE);
        }
        match ep.directed(what) && src != FI_ADDR_UNSPEC {
            true => transport.generation(domain, self.port(), src).map(Some),
            false => Ok(None),
        }
    }

    #[inline]
    fn queue_short(&self, tx: OneTx, route: &Route) -> Result<bool> {
        if self.shared.limits.of_one.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let mut guard = self.shared.engine.lock_data()?;
        let State { domain, transport } = &mut *guard;
        let posted = transport.queue_short(domain, self.shared.id, &tx, route);
        guard.posted();
        Ok(posted)
    }

    fn queue(&self, tx: &mut Tx<'_>, generation: u32) -> Result {
        let dest = tx.dest;
        let check = |state: &State<T>| self.check_peer(state, dest, generation);
        self.try_transmit(tx, check)
            .or_else(|error| self.post_refused(tx, error))
            .map_err(Self::refused)
    }

    fn queue_atomic(&self, atomic: &mut Atomic<'_>, generation: u32) -> Result {
        let dest = atomic.dest;
        let check = |state: &State<T>| self.check_peer(state, dest, generation);
        self.try_atomic(atomic, check).map_err(Self::refused)
    }

    fn queue_receive(&self, rx: Rx, generation: u32) -> Result {
        let src = rx.src;
        self.try_receive(rx, |state| self.check_peer(state, src, generation))
            .map_err(Self::refused)
    }
}
