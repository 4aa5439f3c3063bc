// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Receives below for incoming packets: as many as needed, in a context that connections share or for each connection.

use std::sync::Arc;

use super::flight::{Flight, Kind};
use super::state::Rxm;
use abi::FI_ADDR_UNSPEC;
use base::{Error, Result};
use client::Ep;
use client::layer::{Block, Loan};

/// For connections without a shared context: guaranteed number of receives, and maximum.
const LEAST_OWN: usize = 2;
const MOST_OWN: usize = 8;
/// Above this number of packet slots in use, only the receives are posted that an endpoint or connection needs to work.
const MANY_PACKETS: usize = 2048;
impl Rxm {
    /// Posts the missing receives of an endpoint's shared context.
    pub fn post_shared(&mut self, ep: usize) -> Result {
        let Some(endpoint) = self.endpoint(ep) else {
            return Ok(());
        };
        let Some(context) = endpoint.shared_rx.clone() else {
            return Ok(());
        };
        let most = endpoint.wanted.min(self.lower.most_receives());
        let missing = most.saturating_sub(endpoint.posted);
        let (has, least) = (endpoint.posted, self.lower.first_receives());
        for nth in has..has + missing {
            let posted = match self.lower.block {
                Some(size) => self.post_block(&context, ep, size),
                None if nth >= least && self.packets.used() >= MANY_PACKETS => break,
                None => self.post_packet(&context, ep, usize::MAX, Kind::SharedPacket),
            };
            match posted {
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

    /// Does the same for a connection with its own receives.
    pub fn post_own(&mut self, id: usize) -> Result {
        if self.lower.shares_rx {
            return Ok(());
        }
        let conn = &self.conns[id];
        let Some(link) = conn.link.clone() else {
            return Ok(());
        };
        let (ep, arrival, is_paused) = (conn.ep, conn.arrival, conn.is_paused);
        let most = MOST_OWN.min(self.lower.receives);
        let mut ended = Ok(());
        while !is_paused && self.conns[id].posted < most {
            if self.conns[id].posted >= LEAST_OWN && self.packets.used() >= MANY_PACKETS {
                break;
            }
            match self.post_packet(&link, ep, id, Kind::Packet(arrival)) {
                Ok(()) => self.conns[id].posted += 1,
                Err(error) => {
                    ended = Err(error);
                    break;
                }
            }
        }
        // Without a posted receive no completion of its own will trigger another post. A paused connection is resumed
        // instead.
        let conn = &mut self.conns[id];
        if conn.posted == 0 && !conn.is_dry && !is_paused {
            conn.is_dry = true;
            self.dry.push(id);
        }
        match ended {
            Err(Error::AGAIN) => Ok(()),
            ended => ended,
        }
    }

    /// Posts receives for connections that have none, as far as there is room.
    #[cold]
    pub fn post_dry(&mut self) {
        for id in core::mem::take(&mut self.dry) {
            let Some(conn) = self.conns.get_mut(id) else {
                continue;
            };
            // Another connection may have its index now; that one has called `post_own` itself.
            if core::mem::take(&mut conn.is_dry) {
                // If it still has no receive, it is added to the list again.
                let _ = self.post_own(id);
            }
        }
    }

    fn post_packet(&mut self, to: &Arc<Ep>, ep: usize, conn: usize, kind: Kind) -> Result {
        let slot = self.packets.take()?;
        let flight = Flight { ep, conn, kind };
        let posted = self.ops.recv(to, slot, FI_ADDR_UNSPEC, flight);
        posted.map_err(|failed| {
            let error = failed.error;
            self.put_slots(failed.loan);
            error
        })
    }

    fn post_block(&mut self, to: &Arc<Ep>, ep: usize, size: usize) -> Result {
        let endpoint = self.endpoint_mut(ep).ok_or(Error::INVAL)?;
        let block = match endpoint.blocks.pop() {
            Some(block) => block,
            None => Block::new(&self.lower.registrar, size)?,
        };
        let flight = Flight {
            ep,
            conn: usize::MAX,
            kind: Kind::SharedBlock,
        };
        let posted = self.ops.recv_many(to, block, FI_ADDR_UNSPEC, flight);
        posted.map_err(|failed| {
            self.keep_block(ep, failed.loan);
            failed.error
        })
    }

    /// Keeps the block of a finished receive for the next post.
    pub fn keep_block(&mut self, ep: usize, loan: Loan) {
        if let Loan::Block(block) = loan
            && let Ok(block) = Arc::try_unwrap(block)
            && let Some(endpoint) = self.endpoint_mut(ep)
        {
            endpoint.blocks.push(block);
        }
    }

    /// Increases the number of receives if many were used up at once.
    pub fn grow_shared(&mut self, ep: usize) {
        let most = self.lower.most_receives();
        if let Some(endpoint) = self.endpoint_mut(ep)
            && endpoint.posted * 2 < endpoint.wanted
        {
            endpoint.wanted = (endpoint.wanted * 2).min(most);
        }
    }
}
