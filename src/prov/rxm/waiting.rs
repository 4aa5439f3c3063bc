// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Limits on the packets that wait in this process. Each peer has a share of them; a peer whose share is used up is
//! paused, and only that peer: the provider below reads nothing more from it. Where the provider below cannot pause a
//! connection, each connection has receives of its own, and none are posted for a paused one.
#![forbid(unsafe_code)]

use super::conn::{Conn, LANES, Lane};
use super::state::Rxm;
use crate::engine::domain::ep::options::OPT_PAUSE;

/// Bytes that waiting packets of an endpoint may take, of each `Lane`. As many atomic operations as a peer may have
/// under way cannot stop the answers to ours.
const MOST: [usize; LANES] = [8 << 20, 64 << 20];
/// A peer may use a multiple of what it leaves to the others: alone it gets nearly all, and any other finds some left.
const SHARE: usize = 8;
/// Bytes that a waiting packet takes besides its own.
const ENTRY: usize = 64;

impl Rxm {
    /// Counts a packet that waits.
    pub fn charge(&mut self, id: usize, lane: Lane, bytes: &[u8]) {
        let (conn, cost) = (&mut self.conns[id], bytes.len() + ENTRY);
        conn.waiting[lane as usize] += cost;
        let ep = conn.ep;
        if let Some(endpoint) = self.endpoint_mut(ep) {
            endpoint.waiting[lane as usize] += cost;
        }
    }

    /// Counts a packet that waits no longer.
    pub fn release(&mut self, id: usize, lane: Lane, bytes: &[u8]) {
        let (conn, cost) = (&mut self.conns[id], bytes.len() + ENTRY);
        conn.waiting[lane as usize] -= cost;
        let ep = conn.ep;
        if let Some(endpoint) = self.endpoint_mut(ep) {
            endpoint.waiting[lane as usize] -= cost;
        }
    }

    /// Whether `times` as much as waits of this peer would be more than its share.
    fn is_full(&self, conn: &Conn, times: usize) -> bool {
        let Some(endpoint) = self.endpoint(conn.ep) else {
            return false;
        };
        let lanes = conn.waiting.iter().zip(endpoint.waiting).zip(MOST);
        let mut lanes = lanes.filter(|((own, _), _)| **own > 0);
        lanes.any(|((own, all), most)| own * times / SHARE > most.saturating_sub(all))
    }

    /// Stops receiving from a peer whose share is used up.
    pub fn pause_if_full(&mut self, id: usize) {
        let conn = &self.conns[id];
        if !conn.is_paused && self.is_full(conn, 1) {
            self.pause(id, true);
        }
    }

    /// Receives from a peer again of whose share less than half is used.
    pub fn resume_if_empty(&mut self, id: usize) {
        if let Some(conn) = self.conns.get(id)
            && conn.is_paused
            && !self.is_full(conn, 2)
        {
            self.resume(id);
        }
    }

    /// Receives from a peer again.
    pub fn resume(&mut self, id: usize) {
        if self.conns.get(id).is_some_and(|conn| conn.is_paused) {
            self.pause(id, false);
            // `post_dry` posts receives for which there is no room now.
            let _ = self.post_own(id);
        }
    }

    fn pause(&mut self, id: usize, on: bool) {
        let conn = &mut self.conns[id];
        conn.is_paused = on;
        if let (true, Some(link)) = (self.lower.is_ours, &conn.link) {
            // The endpoint is open, and the provider has the option.
            let _ = link.setopt(OPT_PAUSE, u8::from(on));
        }
    }
}
