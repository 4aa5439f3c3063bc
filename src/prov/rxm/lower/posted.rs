// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Receives below for incoming packets: as many as needed, in a context that connections share or for each connection.

use std::sync::Arc;

use super::{Flight, Lower};
use abi::FI_ADDR_UNSPEC;
use base::{Error, Result};
use client::layer::{Block, Loan, Pool};
use client::{Ep, PeerCredits};

/// For connections without a shared context: guaranteed number of receives, and maximum.
const LEAST_OWN: usize = 2;
const MOST_OWN: usize = 8;
/// The same if the provider below counts receives. Then the peer sends no more messages than there are receives, and
/// waits for credits on the way of one packet and back.
pub const LEAST_COUNTED: usize = 4;
const MOST_COUNTED: usize = 64;
/// Such a connection gets this part of the slots that are left of `MANY_PACKETS`, for as long as it is up.
const PART_COUNTED: usize = 16;
/// Above this number of packet slots in use, only the receives are posted that an endpoint or connection needs to work.
const MANY_PACKETS: usize = 2048;

/// The receive context that all connections of a domain share. Its memory does not depend on the number of endpoints.
pub struct SharedRx {
    pub(super) context: Arc<Ep>,
    /// Number of posted receives, and the intended number.
    posted: usize,
    wanted: usize,
    /// Free blocks, if each receive takes many packets.
    blocks: Vec<Block>,
}

impl Lower {
    /// Returns the shared receive context. The first connection opens it.
    pub(super) fn shared_context(&mut self) -> Result<Option<Arc<Ep>>> {
        if self.shared_rx.is_none() {
            let Some(context) = self.domain.shared_rx()? else {
                return Ok(None);
            };
            self.shared_rx = Some(SharedRx {
                context,
                posted: 0,
                wanted: self
                    .domain
                    .first_receives()
                    .min(self.domain.most_receives()),
                blocks: Vec::new(),
            });
            self.post_shared()?;
        }
        let shared = self.shared_rx.as_ref();
        Ok(shared.map(|shared| shared.context.clone()))
    }

    /// Posts the missing receives of the shared context.
    pub fn post_shared(&mut self) -> Result {
        let Some(shared) = &self.shared_rx else {
            return Ok(());
        };
        let (has, most) = (shared.posted, shared.wanted);
        if has >= most {
            return Ok(());
        }
        let (context, least) = (shared.context.clone(), self.domain.first_receives());
        for nth in has..most {
            let posted = match self.domain.block {
                Some(size) => self.post_block(&context, size),
                None if nth >= least && self.packets.used() >= MANY_PACKETS => break,
                None => self.post_packet(&context, Flight::SharedPacket),
            };
            match posted {
                Ok(()) => {}
                Err(Error::AGAIN) => break,
                Err(error) => return Err(error),
            }
            if let Some(shared) = &mut self.shared_rx {
                shared.posted += 1;
            }
        }
        Ok(())
    }

    /// Returns the number of posted receives of the shared context, and the intended number.
    pub fn shared_receives(&self) -> Option<(usize, usize)> {
        let shared = self.shared_rx.as_ref()?;
        Some((shared.posted, shared.wanted))
    }

    /// Does the same for a connection with its own receives.
    pub fn post_own(&mut self, id: usize) -> Result {
        if self.domain.shares_rx {
            return Ok(());
        }
        let Some(link) = self.links.get(id) else {
            return Ok(());
        };
        let Some(below) = link.below.clone() else {
            return Ok(());
        };
        let (ep, arrival, is_paused) = (link.ep, link.arrival, link.is_paused);
        let (most, counts) = (link.depth, link.credits.is_some());
        // A peer may wait for credits for all receives that it knew of.
        let least = if counts { most } else { LEAST_OWN };
        let mut ended = Ok(());
        while !is_paused && self.links[id].posted < most {
            let used = self.packets.used();
            if self.links[id].posted >= least && used >= MANY_PACKETS || used >= self.most_packets {
                break;
            }
            match self.post_packet(&below, Flight::Packet { id, ep, arrival }) {
                Ok(()) => self.links[id].posted += 1,
                Err(error) => {
                    ended = Err(error);
                    break;
                }
            }
        }
        // Without a posted receive no completion of its own will trigger another post; a peer that waits for credits
        // triggers none either. A paused connection is resumed instead.
        let link = &mut self.links[id];
        if link.credits.as_ref().is_some_and(PeerCredits::is_due) {
            self.due.push(id);
        }
        let needed = if counts { most } else { 1 };
        if link.posted < needed && !link.is_dry && !is_paused {
            link.is_dry = true;
            self.dry.push_back(id);
        }
        match ended {
            Err(Error::AGAIN) => Ok(()),
            ended => ended,
        }
    }

    /// Returns the number of receives of a new connection. `counts`: it does not change while the connection is up.
    pub(super) fn depth(&self, counts: bool) -> usize {
        let most = match counts {
            true => {
                let left = MANY_PACKETS.saturating_sub(self.packets.used());
                (left / PART_COUNTED).clamp(LEAST_COUNTED, MOST_COUNTED)
            }
            false => MOST_OWN,
        };
        most.min(self.domain.receives)
    }

    /// Posts receives for connections that have too few, as far as there is room.
    #[cold]
    pub fn post_dry(&mut self) {
        for _ in 0..self.dry.len() {
            if self.packets.used() >= self.most_packets {
                return;
            }
            let Some(id) = self.dry.pop_front() else {
                return;
            };
            // Another connection may have its index now; that one has called `post_own` itself.
            if core::mem::take(&mut self.links[id].is_dry) {
                // If it still has no receive, it is added to the list again.
                let _ = self.post_own(id);
            }
        }
    }

    /// Whether a peer has to get to know of posted receives.
    #[inline]
    pub fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    fn post_packet(&mut self, to: &Arc<Ep>, flight: Flight) -> Result {
        let slot = self.packets.take()?;
        let posted = self.ops.recv(to, slot, FI_ADDR_UNSPEC, flight);
        posted.map_err(|failed| {
            put_packet(&mut self.packets, failed.loan);
            failed.error
        })
    }

    fn post_block(&mut self, to: &Arc<Ep>, size: usize) -> Result {
        let shared = self.shared_rx.as_mut().ok_or(Error::INVAL)?;
        let block = match shared.blocks.pop() {
            Some(block) => block,
            None => Block::new(&self.domain.registrar, size)?,
        };
        let posted = self
            .ops
            .recv_many(to, block, FI_ADDR_UNSPEC, Flight::SharedBlock);
        posted.map_err(|failed| {
            self.keep_block(failed.loan);
            failed.error
        })
    }

    /// Keeps the block of a finished receive for the next post.
    pub fn keep_block(&mut self, loan: Loan) {
        if let Loan::Block(block) = loan
            && let Ok(block) = Arc::try_unwrap(block)
            && let Some(shared) = &mut self.shared_rx
        {
            shared.blocks.push(block);
        }
    }

    /// Accounts for the end of a receive.
    pub fn received_one(&mut self, flight: &Flight) {
        match *flight {
            Flight::SharedPacket | Flight::SharedBlock => {
                // The receive may be one of an earlier context whose end was delayed.
                if let Some(shared) = &mut self.shared_rx {
                    shared.posted = shared.posted.saturating_sub(1);
                }
            }
            Flight::Packet { id, arrival, .. } => {
                if let Some(link) = self
                    .links
                    .get_mut(id)
                    .filter(|link| link.arrival == arrival)
                {
                    link.posted = link.posted.saturating_sub(1);
                }
            }
            Flight::Operation(_) => {}
        }
    }

    /// Increases the number of receives if many were used up at once.
    pub fn grow_shared(&mut self) {
        let most = self.domain.most_receives();
        if let Some(shared) = &mut self.shared_rx
            && shared.posted * 2 < shared.wanted
        {
            shared.wanted = (shared.wanted * 2).min(most);
        }
    }
}

/// Returns the memory of a receive to the pool.
pub fn put_packet(packets: &mut Pool, loan: Loan) {
    if let Loan::Slot(slot, _) = loan {
        packets.put(slot);
    }
}
