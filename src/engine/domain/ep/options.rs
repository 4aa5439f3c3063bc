// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Options of an endpoint, the room in its queues, and fi_cancel: fi_endpoint(3).

use core::sync::atomic::Ordering;

use super::Ep;
use crate::domain::{Engine, State};
use crate::ep_state::EpState;
use crate::transport::Transport;
use abi::*;
use base::{Error, Result};
use object::ops::ep::EpCalls;
use object::ops::options::{Opt, OptValue, Owner, Settable};

impl<T: Transport> Ep<T> {
    fn may_share(&self) -> bool {
        T::SHARES_MEMORY && self.shared.info.ep.ep_type == FI_EP_RDM.0
    }
}

impl<T: Transport> EpCalls for Ep<T> {
    fn is_owner(&self, owner: Owner) -> bool {
        let info = &self.shared.info;
        match owner {
            Owner::Queue | Owner::Active => true,
            Owner::With(caps) => EpState::caps_of(info).contains(caps),
            Owner::Whole => self.shared.member.is_none(),
            Owner::Receiver => self.receives(),
            Owner::Connected => info.ep.ep_type == FI_EP_MSG.0,
        }
    }

    fn get_opt(&self, opt: Opt) -> Result<OptValue> {
        let (id, info) = (self.shared.id, &self.shared.info);
        let size = match opt {
            Opt::MinMultiRecv => {
                let state = self.shared.engine.lock()?;
                let rx_queue = &state.domain.srxs[state.domain.eps[id].srx];
                rx_queue.min_multi_recv
            }
            Opt::CmDataSize => T::CM_DATA_SIZE,
            Opt::Unreachable => {
                let mut state = self.shared.engine.lock()?;
                let State {
                    transport, domain, ..
                } = &mut *state;
                let index = transport.take_unreachable(domain, id)?;
                usize::try_from(index).map_err(|_| Error::NOMSG)?
            }
            Opt::Listener if info.ep.ep_type == FI_EP_MSG.0 => {
                self.shared.engine.lock()?.transport.listener(id) as usize
            }
            Opt::TxSize => info.tx.size,
            Opt::RxSize => info.rx.size,
            _ => {
                let limit = self.shared.limits.named(opt).ok_or(Error::NOPROTOOPT)?;
                limit.load(Ordering::Relaxed)
            }
        };
        Ok(OptValue::Size(size))
    }

    fn set_opt(&self, opt: Opt, value: OptValue) -> Result {
        // An endpoint that cannot share memory accepts any value, because it never uses shared memory.
        if opt == Opt::SharedMemoryPermitted && !self.may_share() {
            return Ok(());
        }
        let mut state = match opt.settable() {
            Settable::BeforeEnable => self.unlocked_state()?,
            _ => self.shared.engine.lock()?,
        };
        let (id, info) = (self.shared.id, &self.shared.info);
        match (opt, value) {
            (Opt::MinMultiRecv, OptValue::Size(size)) => {
                let srx = state.domain.eps[id].srx;
                state.domain.srxs[srx].min_multi_recv = size;
            }
            (Opt::SharedMemoryPermitted, OptValue::Bool(on)) if self.shared.member.is_none() => {
                state.transport.permit_sharing(id, on)?;
            }
            (Opt::CudaApiPermitted, OptValue::Bool(may)) => {
                return permit_cuda::<T>(&self.shared.engine, may);
            }
            (Opt::MoreFollows, OptValue::Bool(on)) => state.domain.eps[id].more_follows = on,
            (Opt::PeerNumber, OptValue::Size(number)) => {
                state.domain.eps[id].peer_number = number as u64;
            }
            (Opt::Pause, OptValue::Bool(on)) => {
                let State { domain, transport } = &mut *state;
                domain.eps[id].is_paused = on;
                if !on {
                    transport.room_again(domain);
                }
            }
            (Opt::FirewallAddr, OptValue::Bool(on)) => state.transport.set_firewalled(id, on)?,
            (_, OptValue::Size(size)) => {
                let limit = self.shared.limits.named(opt).ok_or(Error::NOPROTOOPT)?;
                if size > self.shared.limits.most(opt, info, T::ATOMIC_SIZE) {
                    return Err(Error::INVAL);
                }
                limit.store(size, Ordering::Relaxed);
                self.shared.limits.set_any();
            }
            _ => return Err(Error::NOPROTOOPT),
        }
        Ok(())
    }

    fn cancel(&self, context: usize) -> Result {
        // fi_endpoint(3): operations without a context cannot be cancelled.
        if context == 0 {
            return Ok(());
        }
        // The adapter has the receives, and cannot return them.
        if T::POSTS_RECEIVES {
            return Err(Error::NOSYS);
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
            Err(Error::NOENT) => {
                if let Some(op) = transport.cancel(domain, self.shared.id, context) {
                    domain.fail_tx(&op, Error::CANCELED);
                }
            }
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
        match state.domain.eps[self.shared.id].enabled {
            true => Ok(self.shared.info.rx.size),
            false => Err(Error::OPBADSTATE),
        }
    }

    fn tx_size_left(&self) -> Result<usize> {
        let mut guard = self.shared.engine.lock()?;
        let State { domain, transport } = &mut *guard;
        let ep = &domain.eps[self.shared.id];
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

/// fi_endpoint(3), FI_OPT_CUDA_API_PERMITTED: copies of device memory need the driver.
pub fn permit_cuda<T: Transport>(engine: &Engine<T>, may: bool) -> Result {
    match engine.takes_devices && hmem::driver::of(hmem::Kind::Cuda).is_some() {
        true if may => Ok(()),
        true => Err(Error::OPNOTSUPP),
        // There is no device.
        false if engine.takes_devices || T::KNOWS_CUDA => Err(Error::INVAL),
        false => Err(Error::NOPROTOOPT),
    }
}
