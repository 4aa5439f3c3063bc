// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The link from a context to its scalable endpoint.

use std::sync::{Arc, PoisonError};

use super::Port;
use crate::domain::State;
use crate::ep_state::{EpState, INITIATES};
use crate::srx::MIN_MULTI_RECV;
use crate::transport::Transport;
use abi::*;
use base::{Caps, Error, Result};
use sync::Use;

/// The direction of a context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    Transmit,
    Receive,
}

/// The link from a context to its endpoint.
pub struct Member<T: Transport> {
    pub port: Arc<Port<T>>,
    pub side: Side,
    /// The index in `domain.eps`.
    pub(super) id: usize,
}

impl<T: Transport> Member<T> {
    pub fn id(&self) -> usize {
        self.id
    }

    /// Returns a use that keeps the endpoint open.
    pub fn hold(&self) -> Use {
        self.port.contexts.take()
    }

    /// fi_ep_bind: allows queues and counters of the context's direction only. The address vector comes from the
    /// endpoint.
    pub fn check_bind(&self, flags: u64) -> Result {
        let foreign = match self.side {
            Side::Transmit => FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE,
            Side::Receive => FI_TRANSMIT | FI_SEND | FI_READ | FI_WRITE,
        };
        match flags & foreign {
            0 => Ok(()),
            _ => Err(Error::INVAL),
        }
    }

    pub fn enable(&self, state: &mut State<T>) -> Result {
        let ep = &state.domain.eps[self.id];
        let (queue, needed) = match self.side {
            Side::Transmit => (ep.tx_cq, INITIATES),
            Side::Receive => (ep.rx_cq, Caps::RECV),
        };
        if queue.is_none() && ep.caps.intersects(needed) {
            return Err(Error::NOCQ);
        }
        if ep.av.is_none() {
            return Err(Error::NOAV);
        }
        self.port.listen(state)
    }
}

/// fi_endpoint(3), fi_close: posted operations are discarded without completions. Messages that arrive later wait until
/// the context is opened again.
impl<T: Transport> Drop for Member<T> {
    fn drop(&mut self) {
        let Ok(mut guard) = self.port.engine.lock_to_close() else {
            return;
        };
        let State { domain, transport } = &mut *guard;
        let port = self.port.id;
        match self.side {
            Side::Transmit => {
                transport.close_tx_context(domain, port, self.id, self.port.successor)
            }
            Side::Receive => {
                transport.close_rx_context(domain, port, self.id);
                let srx = domain.eps[self.id].srx;
                drop(domain.srxs[srx].drain_posted());
                domain.srxs[srx].min_multi_recv = MIN_MULTI_RECV;
            }
        }
        let ep: &mut EpState = &mut domain.eps[self.id];
        ep.tx_cq = None;
        ep.rx_cq = None;
        ep.cntrs = Default::default();
        ep.enabled = false;
        drop(guard);
        let mut open = self
            .port
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        open.retain(|&(side, id)| (side, id) != (self.side, self.id));
    }
}
