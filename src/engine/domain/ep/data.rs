// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The data path of an endpoint: sends, receives, RMA and atomic operations on their way to the transport.

use core::sync::atomic::Ordering;

use super::device::Prepared;
use super::limits::{ATOMIC, Limits};
use super::{Ep, LEVELS, current};
use crate::atomic::element_size;
use crate::domain::State;
use crate::ep_state::EpState;
use crate::srx::PostedOne;
use crate::transport::Transport;
use crate::trigger::{Action, Place};
use abi::*;
use base::log::{Subsys, log_misuse};
use base::{Caps, Error, IoVec, OpFlags, Result};
use object::ops::atomic::{Atomic, AtomicPath, Elements, Family};
use object::ops::transfer::{DataPath, OneRx, OneTx, OneWrite, Rx, Tx, What};
use object::ops::work::OutgoingAtomic;

impl<T: Transport> Ep<T> {
    /// Checks the limits of the endpoint. Returns the flags that its order adds to the operation.
    #[cold]
    fn limit(&self, tx: &Tx<'_>) -> Result<OpFlags> {
        self.shared.limits.check(tx)?;
        self.order(tx.what)
    }

    /// The flags that the endpoint's order adds to one operation.
    #[cold]
    fn order(&self, what: What) -> Result<OpFlags> {
        let limits = &self.shared.limits;
        if limits.strict && self.shared.engine.lock()?.domain.eps[self.shared.id].tx_pending > 0 {
            return Err(Error::AGAIN);
        }
        Ok(limits.order(what))
    }
}

impl<T: Transport> Ep<T> {
    // Inlined, because a call would cost each operation some instructions.
    /// `check` decides under the lock whether the operation is posted.
    #[inline(always)]
    pub(super) fn try_transmit(
        &self,
        tx: &mut Tx<'_>,
        check: impl FnOnce(&State<T>) -> Result,
    ) -> Result {
        if self.shared.limits.any.load(Ordering::Relaxed) {
            tx.flags |= self.limit(tx)?;
            if self.shared.limits.takes_devices {
                return self.transmit_from_device(tx, check);
            }
            if self.shared.limits.goes_around() || tx.flags.contains(OpFlags::TRIGGER) {
                return self.post_from(tx, check);
            }
        }
        self.transmit_now(tx, check)
    }

    #[inline(always)]
    fn transmit_now(&self, tx: &mut Tx<'_>, check: impl FnOnce(&State<T>) -> Result) -> Result {
        let engine = &*self.shared.engine;
        let mut guard = engine.lock_data()?;
        let state = &mut *guard;
        check(state)?;
        let result = state
            .transport
            .transmit(&mut state.domain, self.shared.id, tx);
        state.posted();
        result
    }

    /// Posts an operation whose memory may be that of a device.
    #[cold]
    fn transmit_from_device(
        &self,
        tx: &mut Tx<'_>,
        check: impl FnOnce(&State<T>) -> Result,
    ) -> Result {
        let flags = tx.flags;
        let prepared = self.prepare(tx)?;
        if matches!(prepared, Prepared::Failed) {
            return Ok(());
        }
        let result = match self.shared.limits.goes_around() || flags.contains(OpFlags::TRIGGER) {
            true => self.post_from(tx, check),
            false => self.transmit_now(tx, check),
        };
        tx.flags = flags;
        if let (Err(_), Prepared::Copied(_block, own)) = (&result, prepared) {
            tx.iov = own;
        }
        // A refused operation may start later: `post_refused`.
        if result.is_err() && tx.iov.is_device() {
            tx.flags |= OpFlags::DEVICE;
        }
        result
    }

    #[inline(always)]
    pub(super) fn try_receive(
        &self,
        mut rx: Rx,
        check: impl FnOnce(&State<T>) -> Result,
    ) -> Result {
        if rx.iov.pieces() > self.shared.limits.receive_iovs {
            return Err(Error::INVAL);
        }
        if self.shared.limits.takes_devices {
            self.prepare_receive(&mut rx)?;
        }
        if rx.flags.intersects(OpFlags::PEEK | OpFlags::TRIGGER) {
            return self.receive_special(rx, check);
        }
        let mut guard = self.shared.engine.lock_data()?;
        check(&guard)?;
        guard.receive(self.shared.id, &mut rx)?;
        guard.run_triggers();
        guard.posted();
        Ok(())
    }

    /// Posts a receive to the adapter, which matches it.
    #[inline]
    fn receive_there(&self, mut rx: Rx) -> Result {
        if rx.iov.pieces() > self.shared.limits.receive_iovs {
            return Err(Error::INVAL);
        }
        let mut guard = self.shared.engine.lock_data()?;
        let State { domain, transport } = &mut *guard;
        let ep = &domain.eps[self.shared.id];
        // fi_endpoint(3): receives of the endpoint are posted to its shared context.
        if ep.shares_receives {
            return Err(Error::NOSYS);
        }
        if !ep.enabled {
            return Err(Error::OPBADSTATE);
        }
        transport.receive(domain, self.shared.id, &mut rx)?;
        let due = transport.take_due_credits(self.shared.id);
        drop(guard);
        if let Some(count) = due {
            self.give_credits(count);
        }
        Ok(())
    }

    #[inline(always)]
    fn try_transmit_one(&self, tx: OneTx) -> Result {
        if self.shared.limits.of_one.load(Ordering::Relaxed) {
            return self.try_transmit(&mut tx.into(), |_| Ok(()));
        }
        let engine = &*self.shared.engine;
        let mut guard = engine.lock_data()?;
        let State { domain, transport } = &mut *guard;
        let result = match transport.transmit_one(domain, self.shared.id, &tx) {
            true => Ok(()),
            false if self.shared.limits.any.load(Ordering::Relaxed) => {
                drop(guard);
                return self.try_transmit(&mut tx.into(), |_| Ok(()));
            }
            false => transport.transmit(domain, self.shared.id, &mut tx.into()),
        };
        guard.posted();
        result
    }

    #[inline(always)]
    fn try_write_one(&self, write: OneWrite) -> Result {
        let limits = &self.shared.limits;
        if limits.of_write.load(Ordering::Relaxed) {
            return self.write_within(write);
        }
        let mut guard = self.shared.engine.lock_data()?;
        let State { domain, transport } = &mut *guard;
        let result = match transport.write_one(domain, self.shared.id, &write) {
            true => Ok(()),
            false if limits.any.load(Ordering::Relaxed) => {
                drop(guard);
                return self.write_within(write);
            }
            false => write.with_any(|tx| transport.transmit(domain, self.shared.id, tx)),
        };
        guard.posted();
        result
    }

    /// Writes within the limits of the endpoint.
    #[inline(never)]
    fn write_within(&self, write: OneWrite) -> Result {
        write.with_any(|tx| {
            self.try_transmit(tx, |_| Ok(()))
                .or_else(|error| self.post_refused(tx, error))
        })
    }

    /// Logs why an operation was refused. Only the error is passed, because keeping more of the call's state alive
    /// costs each operation some instructions.
    #[cold]
    #[inline(never)]
    pub(super) fn refused(error: Error) -> Error {
        let (source, data) = (T::SOURCE, Subsys::EpData);
        match error {
            // Flow control.
            Error::AGAIN => {}
            Error::OPBADSTATE => log_misuse!(source, data, "the endpoint is not enabled"),
            Error::NOSYS => log_misuse!(
                source,
                data,
                "receives of this endpoint are posted to its shared context, or it carries no data for a peer's queue"
            ),
            Error::INVAL => log_misuse!(
                source,
                data,
                "no peer has the address that is given, or the operation has more pieces than was agreed on"
            ),
            Error::NOTCONN | Error::SHUTDOWN => {
                log_misuse!(source, data, "the endpoint is not connected");
            }
            Error::MSGSIZE => log_misuse!(
                source,
                data,
                "more bytes than max_msg_size, or than an option permits"
            ),
            Error::BADFLAGS => log_misuse!(
                source,
                data,
                "a flag needs a capability that the endpoint does not have (FI_FENCE, FI_TRIGGER)"
            ),
            other => log_misuse!(source, data, "an operation is refused: {other:?}"),
        }
        error
    }
}

impl<T: Transport> DataPath for Ep<T> {
    #[inline]
    fn reads_descs(&self) -> bool {
        self.shared.engine.reads_descs
    }

    #[inline]
    fn transmit(&self, tx: &mut Tx<'_>) -> Result {
        self.try_transmit(tx, |_| Ok(()))
            .or_else(|error| self.post_refused(tx, error))
            .map_err(Self::refused)
    }

    #[inline]
    fn transmit_one(&self, tx: OneTx) -> Result {
        self.try_transmit_one(tx).map_err(Self::refused)
    }

    #[inline]
    fn write_one(&self, write: OneWrite) -> Result {
        self.try_write_one(write).map_err(Self::refused)
    }

    #[inline]
    fn receive(&self, rx: Rx) -> Result {
        if T::POSTS_RECEIVES {
            return self.receive_there(rx).map_err(Self::refused);
        }
        self.try_receive(rx, |_| Ok(())).map_err(Self::refused)
    }

    #[inline]
    fn receive_one(&self, mut rx: OneRx) -> Result {
        if T::POSTS_RECEIVES {
            return self.receive_there(rx.into()).map_err(Self::refused);
        }
        if !rx.flags.intersects(OpFlags::PEEK | OpFlags::TRIGGER) {
            let mut guard = self.shared.engine.lock_data()?;
            match guard.domain.post_one(self.shared.id, &mut rx) {
                PostedOne::Posted => return Ok(()),
                PostedOne::Filled(filled, envelope) => {
                    guard.filled_one(&filled, &envelope);
                    return Ok(());
                }
                PostedOne::Special => {}
            }
        }
        self.receive(rx.into())
    }

    fn start_receives(&self) -> Result {
        self.flush_receives()
    }

    fn takes_many_tagged(&self) -> bool {
        (self.shared.info.caps | self.shared.info.rx.caps).contains(Caps::TAGGED_MULTI_RECV)
    }

    fn takes_multicast(&self) -> bool {
        EpState::caps_of(&self.shared.info).contains(Caps::MULTICAST)
    }

    fn takes_credits(&self) -> bool {
        T::CREDITS
    }

    #[inline]
    fn tx_flags(&self) -> OpFlags {
        current(&self.tx_flags) | self.tx_implied()
    }

    #[inline]
    fn rx_flags(&self) -> OpFlags {
        current(&self.rx_flags) | self.rx_implied()
    }

    #[inline]
    fn tx_implied(&self) -> OpFlags {
        current(&self.shared.tx_implied)
    }

    #[inline]
    fn rx_implied(&self) -> OpFlags {
        current(&self.shared.rx_implied)
    }

    /// fi_endpoint(3): the default flags hold for every call without flags. Only a counter shows when an inject call
    /// completes, so the requested completion level, which may cost an answer of the peer, is used only if a counter is
    /// bound.
    #[inline]
    fn inject_flags(&self, counted: u64) -> OpFlags {
        let level = match self.shared.counted.load(Ordering::Relaxed) & counted {
            0 => OpFlags::empty(),
            _ => current(&self.tx_flags) & LEVELS,
        };
        OpFlags::INJECT | level | self.tx_implied() & OpFlags::AFTER_READS
    }

    #[inline]
    fn inject_size(&self, what: What) -> usize {
        self.shared.limits.inject[Limits::of(what)].load(Ordering::Relaxed)
    }
}

impl<T: Transport> AtomicPath for Ep<T> {
    fn elements(&self, family: Family, datatype: fi_datatype, op: fi_op) -> Result<Elements> {
        let size = element_size(family, datatype, op).ok_or(Error::OPNOTSUPP)?;
        // fi_getinfo(3): without the modifier the endpoint does not initiate such operations.
        let needed = match (family, op) {
            (Family::Base, _) => Caps::WRITE,
            (_, FI_ATOMIC_READ) => Caps::READ,
            _ => Caps::READ | Caps::WRITE,
        };
        if !EpState::sides_of(&self.shared.info).0.contains(needed) {
            return Err(Error::OPNOTSUPP);
        }
        let most = match T::most_of(family, datatype, op) {
            0 => return Err(Error::OPNOTSUPP),
            most => most.min(self.shared.limits.size[ATOMIC].load(Ordering::Relaxed)),
        };
        Ok(Elements {
            size,
            count: most / size,
        })
    }

    fn atomic(&self, atomic: &mut Atomic<'_>) -> Result {
        self.try_atomic(atomic, |_| Ok(())).map_err(Self::refused)
    }
}

impl<T: Transport> Ep<T> {
    /// `check` as in `try_transmit`.
    pub(super) fn try_atomic(
        &self,
        atomic: &mut Atomic<'_>,
        check: impl FnOnce(&State<T>) -> Result,
    ) -> Result {
        let mut prepared = Prepared::AsItIs;
        if self.shared.limits.any.load(Ordering::Relaxed) {
            let iovs = [&atomic.operands, &atomic.compare, &atomic.result];
            let own = iovs.map(IoVec::pieces).into_iter().max().unwrap_or(0);
            let limits = &self.shared.limits;
            limits.check_pieces(own, atomic.target.len())?;
            let what = match atomic.op {
                FI_ATOMIC_READ => What::Read,
                _ => What::Atomic,
            };
            atomic.flags |= self.order(what)?;
            if limits.takes_devices {
                prepared = self.prepare_atomic(atomic)?;
                if matches!(prepared, Prepared::Failed) {
                    return Ok(());
                }
            }
        }
        let engine = &*self.shared.engine;
        let mut guard = engine.lock_data()?;
        let state = &mut *guard;
        check(state)?;
        let (port, id) = (self.port(), self.shared.id);
        let result = match atomic.flags.contains(OpFlags::TRIGGER) {
            false => state.transport.atomic(&mut state.domain, port, id, atomic),
            true => {
                let flags = atomic.flags & !OpFlags::TRIGGER;
                let outgoing = OutgoingAtomic::of(atomic, flags, true);
                let place = Place { port, ep: id };
                self.post_when(state, &atomic.context, Action::Atomic(place, outgoing))
            }
        };
        state.run_triggers();
        state.posted();
        drop(guard);
        drop(prepared);
        result
    }
}
