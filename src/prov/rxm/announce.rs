// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Large messages at their sender: announces them; the receiver then reads them or returns addresses to write to.

use std::sync::Arc;

use super::flight::{Call, Cuts, Flight, Kind, Post, Send, iov_of};
use super::proto::{Message, NO_KEY, Places};
use super::send::take_back;
use super::state::{Rxm, StateOf};
use abi::*;
use base::Result;
use client::layer::Loan;
use engine::domain_state::TxOp;
use object::ops::transfer::{RemoteSeg, Tx};

impl Rxm {
    /// Announces the message. The receiver then reads it, or returns addresses to write to.
    pub fn announce(
        &mut self,
        domain: &mut StateOf,
        id: usize,
        tx: &mut Tx<'_>,
        op: TxOp,
        message: &Message,
    ) -> Result {
        // If the application counts reads, messages must not be read, because its counter would count them, too.
        let written = self.lower.params.rendezvous_write || self.counts_reads(self.conns[id].ep);
        let name = self.conns[id].remote.index;
        let access = FI_WRITE | if written { 0 } else { FI_READ | FI_REMOTE_READ };
        let lent = self.lend(id, tx, access)?;
        let mut slot = match self.heads.take() {
            Ok(slot) => slot,
            Err(error) => return Err(take_back(lent, tx, error)),
        };
        let places = match written {
            true => {
                let spans = lent.iov().spans().filter(|span| span.len > 0);
                Places::of(spans.map(|span| RemoteSeg {
                    addr: 0,
                    len: span.len,
                    key: NO_KEY,
                }))
            }
            false => Places::of(lent.remote().map(|at| RemoteSeg {
                addr: at.addr,
                len: at.len,
                key: at.key,
            })),
        };
        let place = self.sends.vacant_key();
        let msg = u64::from(self.next_message() as u32) << 32 | place as u64;
        let packet = message.request(name, msg, &places.unwrap_or_default());
        slot.bytes_mut()[..packet.len()].copy_from_slice(&packet);
        self.sends.insert(Send {
            conn: id,
            op,
            lent,
            msg,
            is_announced: false,
            left: 0,
            is_writing: false,
        });
        domain.ep_mut(op.ep()).tx_pending += 1;
        let post = Post {
            call: Call::Send { flags: 0 },
            loan: Loan::Slot(slot, packet.len()),
            flight: Flight {
                ep: op.ep(),
                conn: id,
                kind: Kind::Announce(place),
            },
        };
        self.hand_down(domain, post);
        Ok(())
    }

    /// Returns the send that the peer of this connection may refer to. Before the announcement has left, a peer can
    /// only guess its number.
    fn send_of(&self, id: usize, msg: u64) -> Option<usize> {
        let place = msg as u32 as usize;
        let send = self.sends.get(place)?;
        (send.conn == id && send.msg == msg && send.is_announced).then_some(place)
    }

    /// Completes a message that the receiver has read. Returns false if there is none with this number.
    pub fn was_fetched(&mut self, domain: &mut StateOf, id: usize, msg: u64) -> bool {
        let Some(place) = self
            .send_of(id, msg)
            .filter(|&at| !self.sends[at].is_writing)
        else {
            return false;
        };
        let send = self.sends.remove(place);
        drop(send.lent);
        domain.complete_tx(&send.op);
        true
    }

    /// Writes a message to the addresses that the receiver has sent.
    pub fn write_to(&mut self, domain: &mut StateOf, id: usize, msg: u64, places: &Places) -> bool {
        let Some(at) = self
            .send_of(id, msg)
            .filter(|&at| !self.sends[at].is_writing)
        else {
            return false;
        };
        let send = &mut self.sends[at];
        let (lent, len, ep) = (send.lent.clone(), send.op.len, send.op.ep());
        let remote = places.list().iter().map(iov_of);
        let cuts = Cuts::of(&lent, len, remote, self.lower.pieces(), self.lower.longest);
        send.is_writing = true;
        send.left = cuts.list.len();
        if cuts.list.is_empty() {
            self.wrote(domain, at);
            return true;
        }
        for (part, remote) in cuts.list {
            let post = Post {
                call: Call::Write {
                    remote: remote.into(),
                    data: None,
                    flags: 0,
                },
                loan: Loan::Lent(Arc::clone(&lent), part),
                flight: Flight {
                    ep,
                    conn: id,
                    kind: Kind::Written(at),
                },
            };
            self.hand_down(domain, post);
        }
        true
    }

    /// Completes a message whose writes are done.
    pub fn wrote(&mut self, domain: &mut StateOf, at: usize) {
        let send = self.sends.remove(at);
        self.tell(domain, send.conn, send.msg, false);
        drop(send.lent);
        domain.complete_tx(&send.op);
    }
}
