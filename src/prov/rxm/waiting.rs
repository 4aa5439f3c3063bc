// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Limits on waiting packets in this process. Each peer has a share; only a peer that has used up its share is paused,
//! and the provider below then reads nothing more from it. If the provider below cannot pause a connection, each
//! connection has its own receives, and none are posted for a paused one.

use super::conn::{Conn, LANES, Lane};
use super::state::Rxm;
use object::ops::options::OPT_PAUSE;

/// Maximum of bytes of an endpoint's waiting packets, for each `Lane`. The atomic operations that a peer may have in
/// flight cannot block the answers to local ones.
const MOST: [usize; LANES] = [8 << 20, 64 << 20];
/// A peer may use this multiple of the bytes that it leaves to others: alone it gets nearly all, and any other finds
/// room.
const SHARE: usize = 8;
/// Bytes of overhead for a waiting packet.
const ENTRY: usize = 64;

impl Rxm {
    /// Counts a packet that starts to wait.
    pub fn charge(&mut self, id: usize, lane: Lane, bytes: &[u8]) {
        let (conn, cost) = (&mut self.conns[id], bytes.len() + ENTRY);
        conn.waiting[lane as usize] += cost;
        let ep = conn.ep;
        if let Some(endpoint) = self.endpoint_mut(ep) {
            endpoint.waiting[lane as usize] += cost;
        }
    }

    /// Counts a packet that no longer waits.
    pub fn release(&mut self, id: usize, lane: Lane, bytes: &[u8]) {
        let (conn, cost) = (&mut self.conns[id], bytes.len() + ENTRY);
        conn.waiting[lane as usize] -= cost;
        let ep = conn.ep;
        if let Some(endpoint) = self.endpoint_mut(ep) {
            endpoint.waiting[lane as usize] -= cost;
        }
    }

    /// Whether `times` the waiting bytes of this peer exceed its share.
    fn is_full(&self, conn: &Conn, times: usize) -> bool {
        let Some(endpoint) = self.endpoint(conn.ep) else {
            return false;
        };
        let lanes = conn.waiting.iter().zip(endpoint.waiting).zip(MOST);
        let mut lanes = lanes.filter(|((own, _), _)| **own > 0);
        lanes.any(|((own, all), most)| own * times / SHARE > most.saturating_sub(all))
    }

    /// Pauses a peer that has used up its share.
    pub fn pause_if_full(&mut self, id: usize) {
        let conn = &self.conns[id];
        if !conn.is_paused && self.is_full(conn, 1) {
            self.pause(id, true);
        }
    }

    /// Resumes a peer that uses less than half of its share.
    pub fn resume_if_empty(&mut self, id: usize) {
        if let Some(conn) = self.conns.get(id)
            && conn.is_paused
            && !self.is_full(conn, 2)
        {
            self.resume(id);
        }
    }

    /// Resumes receiving from a peer.
    pub fn resume(&mut self, id: usize) {
        if self.conns.get(id).is_some_and(|conn| conn.is_paused) {
            self.pause(id, false);
            // On failure, `post_dry` posts the receives later.
            let _ = self.post_own(id);
        }
    }

    fn pause(&mut self, id: usize, on: bool) {
        let conn = &mut self.conns[id];
        conn.is_paused = on;
        if let (true, Some(link)) = (self.lower.is_ours, &conn.link) {
            // The endpoint is open, and the provider has the option, so this cannot fail.
            let _ = link.setopt(OPT_PAUSE, u8::from(on));
        }
    }
}
