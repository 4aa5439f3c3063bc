// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Options of an endpoint, the room in its queues, and fi_cancel: fi_endpoint(3).

use core::ffi::c_int;
use core::sync::atomic::Ordering;

use super::Ep;
use super::cm::CM_DATA_SIZE;
use super::limits::Limits;
use crate::domain::State;
use crate::ep_state::EpState;
use crate::transport::Transport;
use abi::*;
use base::{Error, Result};
use object::ops::ep::{EpCalls, OptKind, OptValue};

/// Private option for layered providers, a bool: operations that follow one with FI_MORE are posted within the same
/// call of the application, so the one with FI_MORE may wait for them whatever its length.
pub const OPT_MORE_FOLLOWS: c_int = 0x4946_0001;

/// Private option for layered providers, a size: the fi_addr_t of a peer that hosts or routers reported as unreachable.
/// Each report is returned once; -FI_ENOMSG: there is none.
pub const OPT_UNREACHABLE: c_int = 0x4946_0004;

/// Private option for layered providers, a size: completions of this connected endpoint give the number as the source
/// of each message and of each write with data. It is set before the endpoint connects.
pub const OPT_PEER_NUMBER: c_int = 0x4946_0002;

/// Private option for layered providers, a bool: while it is set, nothing is read from the peer of this connected
/// endpoint, also if the endpoint receives into a context that it shares with others.
pub const OPT_PAUSE: c_int = 0x4946_0003;

/// Private option for layered providers, a size that can only be read: a `Listener` as a number, for an endpoint whose
/// fi_connect is pending.
pub const OPT_LISTENER: c_int = 0x4946_0005;

impl<T: Transport> Ep<T> {
    /// Stops or resumes reading from the peer.
    fn pause(&self, on: bool) -> Result {
        let mut guard = self.shared.engine.lock()?;
        let State { domain, transport } = &mut *guard;
        domain.ep_mut(self.shared.id).is_paused = on;
        if !on {
            transport.room_again(domain);
        }
        Ok(())
    }

    fn may_share(&self) -> bool {
        T::SHARES_MEMORY && self.shared.info.ep.ep_type == FI_EP_RDM.0
    }
}

impl<T: Transport> EpCalls for Ep<T> {
    fn get_opt(&self, name: c_int) -> Result<OptValue> {
        let info = &self.shared.info;
        let size = match name {
            FI_OPT_MIN_MULTI_RECV if self.receives() => {
                let state = self.shared.engine.lock()?;
                state
                    .domain
                    .rx_queue(state.domain.ep(self.shared.id).srx)
                    .min_multi_recv
            }
            FI_OPT_CM_DATA_SIZE if info.ep.ep_type == FI_EP_MSG.0 => CM_DATA_SIZE,
            OPT_UNREACHABLE => {
                let mut state = self.shared.engine.lock()?;
                let State {
                    transport, domain, ..
                } = &mut *state;
                let index = transport.take_unreachable(domain, self.shared.id)?;
                usize::try_from(index).map_err(|_| Error::NOMSG)?
            }
            OPT_LISTENER if info.ep.ep_type == FI_EP_MSG.0 => {
                let state = self.shared.engine.lock()?;
                state.transport.listener(self.shared.id) as usize
            }
            FI_OPT_TX_SIZE => info.tx.size,
            FI_OPT_RX_SIZE => info.rx.size,
            _ => {
                let limit = self.shared.limits.named(name, EpState::caps_of(info));
                limit.ok_or(Error::NOPROTOOPT)?.load(Ordering::Relaxed)
            }
        };
        Ok(OptValue::Size(size))
    }

    fn set_opt(&self, name: c_int, value: &dyn Fn(OptKind) -> Result<OptValue>) -> Result {
        match name {
            FI_OPT_MIN_MULTI_RECV if self.receives() => {
                if let OptValue::Size(size) = value(OptKind::Size)? {
                    let mut state = self.shared.engine.lock()?;
                    let srx = state.domain.ep(self.shared.id).srx;
                    state.domain.rx_queue_mut(srx).min_multi_recv = size;
                }
                Ok(())
            }
            // An endpoint that cannot share memory accepts any value, because it never uses shared memory.
            FI_OPT_SHARED_MEMORY_PERMITTED if !self.may_share() => value(OptKind::Bool).map(drop),
            FI_OPT_SHARED_MEMORY_PERMITTED if self.shared.member.is_none() => {
                match value(OptKind::Bool)? {
                    OptValue::Bool(on) => {
                        let id = self.shared.id;
                        self.unlocked_state()?.transport.permit_sharing(id, on)
                    }
                    _ => Err(Error::INVAL),
                }
            }
            // fi_endpoint(3): this provider has no CUDA support.
            FI_OPT_CUDA_API_PERMITTED if T::HMEM => Err(Error::INVAL),
            OPT_MORE_FOLLOWS => match value(OptKind::Bool)? {
                OptValue::Bool(on) => {
                    let mut state = self.shared.engine.lock()?;
                    state.domain.ep_mut(self.shared.id).more_follows = on;
                    Ok(())
                }
                _ => Err(Error::INVAL),
            },
            OPT_PEER_NUMBER => match value(OptKind::Size)? {
                OptValue::Size(number) => {
                    let mut state = self.shared.engine.lock()?;
                    state.domain.ep_mut(self.shared.id).peer_number = number as u64;
                    Ok(())
                }
                _ => Err(Error::INVAL),
            },
            OPT_PAUSE => match value(OptKind::Bool)? {
                OptValue::Bool(on) => self.pause(on),
                _ => Err(Error::INVAL),
            },
            FI_OPT_FIREWALL_ADDR if self.shared.member.is_none() => match value(OptKind::Bool)? {
                OptValue::Bool(on) => self
                    .shared
                    .engine
                    .lock()?
                    .transport
                    .set_firewalled(self.shared.id, on),
                _ => Err(Error::INVAL),
            },
            _ => {
                let info = &self.shared.info;
                let limit = self.shared.limits.named(name, EpState::caps_of(info));
                let limit = limit.ok_or(Error::NOPROTOOPT)?;
                if let OptValue::Size(size) = value(OptKind::Size)? {
                    let _disabled = self.unlocked_state()?;
                    if size > Limits::most(name, info, T::ATOMIC_SIZE) {
                        return Err(Error::INVAL);
                    }
                    limit.store(size, Ordering::Relaxed);
                    self.shared.limits.set_any();
                }
                Ok(())
            }
        }
    }

    fn cancel(&self, context: usize) -> Result {
        // fi_endpoint(3): operations without a context cannot be cancelled.
        if context == 0 {
            return Ok(());
        }
        let mut guard = self.shared.engine.lock()?;
        let State { domain, transport } = &mut *guard;
        if domain.cancel_triggered(self.shared.id, context) {
            guard.run_triggers();
            return Ok(());
        }
        // A receive that is not posted any more has matched a message.
        let cancelled = match self.receives() {
            true => domain.cancel(self.shared.id, context),
            false => Err(Error::NOENT),
        };
        match cancelled {
            Err(Error::NOENT) => transport.cancel(domain, self.shared.id, context),
            result => result?,
        }
        guard.run_triggers();
        Ok(())
    }

    fn start_transmits(&self) -> Result {
        self.flush_transmits()
    }

    fn rx_size_left(&self) -> Result<usize> {
        let state = self.shared.engine.lock()?;
        match state.domain.ep(self.shared.id).enabled {
            true => Ok(self.shared.info.rx.size),
            false => Err(Error::OPBADSTATE),
        }
    }

    fn tx_size_left(&self) -> Result<usize> {
        let mut guard = self.shared.engine.lock()?;
        let State { domain, transport } = &mut *guard;
        let ep = domain.ep(self.shared.id);
        if !ep.enabled {
            return Err(Error::OPBADSTATE);
        }
        if domain.may_post(self.shared.id).is_err() {
            return Ok(0);
        }
        let queue = match self.shared.limits.strict {
            true => usize::from(ep.tx_pending == 0),
            false => ep.tx_size - ep.tx_pending,
        };
        let info = &self.shared.info;
        let room = transport.tx_room(self.port(), info.tx.inject_size, EpState::caps_of(info));
        Ok(queue.min(room))
    }
}
