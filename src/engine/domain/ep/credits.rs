// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Peer credits of an endpoint: `object::ops::credits`. The transport counts; this file calls the layer above, with no
//! lock held, because the layer then sends a message of this endpoint.

use super::Ep;
use crate::domain::State;
use crate::transport::Transport;
use base::{Error, Result};
use object::ops::credits::CreditedEp;

impl<T: Transport> CreditedEp for Ep<T> {
    fn has_credits(&self) -> bool {
        let state = self.shared.engine.lock();
        state.is_ok_and(|state| state.transport.has_credits(&state.domain, self.shared.id))
    }

    fn enable_credits(&self, threshold: u64) -> Result {
        let id = self.shared.id;
        let mut guard = self.shared.engine.lock()?;
        let State { domain, transport } = &mut *guard;
        if !transport.has_credits(domain, id) {
            return Err(Error::INVAL);
        }
        transport.enable_credits(id, threshold);
        let due = transport.take_due_credits(id);
        drop(guard);
        due.into_iter().for_each(|count| self.give_credits(count));
        Ok(())
    }

    fn add_credits(&self, count: u64) {
        if let Ok(mut state) = self.shared.engine.lock() {
            state.transport.add_credits(self.shared.id, count);
        }
    }
}

impl<T: Transport> Ep<T> {
    /// Gives credits for posted receives to the peer. If that fails, the receives are counted again with the next ones.
    #[cold]
    pub(super) fn give_credits(&self, count: u64) {
        let engine = &self.shared.engine;
        let handler = engine.lock().ok().and_then(|state| state.domain.credits);
        let given = handler.is_some_and(|handler| handler.call(self, count).is_ok());
        if !given && let Ok(mut state) = engine.lock() {
            state.transport.keep_credits(self.shared.id, count);
        }
    }
}
