// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Receives below, by which packets come: as many as are used, of a context that connections share or of each of them.
#![forbid(unsafe_code)]

use super::flight::{Flight, Kind};
use super::state::Rxm;
use crate::base::{Error, Result};
use crate::ffi::client::Ep;

/// Receives that are posted below for an endpoint at first, and at most.
pub const FIRST_RECEIVES: usize = 32;
const MOST_RECEIVES: usize = 1024;
/// Those of a connection that shares none.
const OWN_RECEIVES: usize = 8;

impl Rxm {
    /// Posts what is missing of the receives that an endpoint's connections share.
    pub fn post_shared(&mut self, ep: usize) -> Result {
        let Some(endpoint) = self.endpoint(ep) else {
            return Ok(());
        };
        let Some(context) = endpoint.shared_rx.clone() else {
            return Ok(());
        };
        let most = endpoint.wanted.min(self.lower.receives);
        let missing = most.saturating_sub(endpoint.posted);
        for _ in 0..missing {
            match self.post_packet(&context, ep, usize::MAX, Kind::SharedPacket) {
                Ok(()) => {}
                Err(Error::AGAIN) => break,
                Err(error) => return Err(error),
            }
            if let Some(endpoint) = self.endpoint_mut(ep) {
                endpoint.posted += 1;
            }
        }
        Ok(())
    }

    /// The same for a connection that has receives of its own.
    pub fn post_own(&mut self, id: usize) -> Result {
        if self.lower.shares_rx {
            return Ok(());
        }
        let conn = &self.conns[id];
        let Some(link) = conn.link.clone() else {
            return Ok(());
        };
        let ep = conn.ep;
        let missing = OWN_RECEIVES
            .min(self.lower.receives)
            .saturating_sub(conn.posted);
        for _ in 0..missing {
            match self.post_packet(&link, ep, id, Kind::Packet) {
                Ok(()) => self.conns[id].posted += 1,
                Err(Error::AGAIN) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn post_packet(&mut self, to: &Ep, ep: usize, conn: usize, kind: Kind) -> Result {
        let slot = self.packets.take()?;
        let flight = Flight { ep, conn, kind };
        let posted = self.ops.recv(to, slot, crate::abi::FI_ADDR_UNSPEC, flight);
        posted.map_err(|failed| {
            let error = failed.error;
            self.put_slots(failed.loan);
            error
        })
    }

    /// More receives where many were used up at once.
    pub fn grow_shared(&mut self, ep: usize) {
        if let Some(endpoint) = self.endpoint_mut(ep)
            && endpoint.posted * 2 < endpoint.wanted
        {
            endpoint.wanted = (endpoint.wanted * 2).min(MOST_RECEIVES);
        }
    }
}
