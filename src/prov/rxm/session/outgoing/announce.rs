// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Large messages at their sender: announces them; the receiver then reads them or returns addresses to write to.

use std::sync::Arc;

use super::{Outgoing, Sent, take_back};
use crate::rxm::proto::{Message, NO_KEY, Places};
use crate::rxm::session::flight::{Call, Cuts, Flight, Kind, Post, Send, iov_of};
use crate::rxm::session::link::Link;
use crate::rxm::session::{Cx, Wire};
use abi::*;
use base::Result;
use client::layer::Loan;
use engine::domain_state::TxOp;
use object::ops::transfer::{RemoteSeg, Tx};

impl Outgoing {
    /// Announces the message. The receiver then reads it, or returns addresses to write to.
    pub(super) fn announce<W: Wire>(
        &mut self,
        link: &mut Link,
        cx: &mut Cx<'_, W>,
        tx: &mut Tx<'_>,
        op: TxOp,
        message: &Message,
    ) -> Result {
        // If the application counts reads, messages must not be read, because its counter would count them, too.
        let written = cx.common.settings.rendezvous_write || cx.wire.counts_reads(link.ep());
        let name = link.remote_name();
        let access = FI_WRITE | if written { 0 } else { FI_READ | FI_REMOTE_READ };
        let lent = link.lend(cx, tx, access)?;
        let mut slot = match cx.wire.take_head() {
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
        let serial = cx.common.next_message();
        let msg = self.sends.next(serial);
        let packet = message.request(name, msg, &places.unwrap_or_default());
        slot.bytes_mut()[..packet.len()].copy_from_slice(&packet);
        let send = Send {
            op,
            lent,
            is_announced: false,
            left: 0,
            is_writing: false,
        };
        self.sends.insert(serial, send);
        cx.domain.eps[op.ep()].tx_pending += 1;
        let post = Post {
            call: Call::Send { flags: 0 },
            loan: Loan::Slot(slot, packet.len()),
            flight: Flight {
                id: link.id(),
                kind: Kind::Announce(msg),
            },
        };
        self.hand_down(link, cx, post);
        Ok(())
    }

    /// Returns the send that the peer of this connection may refer to. Before the announcement has left, a peer can
    /// only guess its number.
    fn send_of(&mut self, msg: u64) -> Option<&mut Send> {
        let send = self.sends.get_mut(msg);
        send.filter(|send| send.is_announced && !send.is_writing)
    }

    /// Completes a message that the receiver has read. Returns false if there is none with this number.
    pub fn was_fetched<W: Wire>(&mut self, cx: &mut Cx<'_, W>, msg: u64) -> bool {
        if self.send_of(msg).is_none() {
            return false;
        }
        if let Some(send) = self.sends.remove(msg) {
            drop(send.lent);
            cx.domain.complete_tx(&send.op);
        }
        true
    }

    /// Writes a message to the addresses that the receiver has sent. Returns `None` if there is none with this number.
    pub fn write_to<W: Wire>(
        &mut self,
        link: &mut Link,
        cx: &mut Cx<'_, W>,
        msg: u64,
        places: &Places,
    ) -> Option<Sent> {
        let send = self.send_of(msg)?;
        let (lent, len) = (send.lent.clone(), send.op.len);
        let remote = places.list().iter().map(iov_of);
        let settings = &cx.common.settings;
        let cuts = Cuts::of(&lent, len, remote, settings.pieces, settings.longest);
        send.is_writing = true;
        send.left = cuts.list.len();
        if cuts.list.is_empty() {
            return Some(self.wrote(link, cx, msg));
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
                    id: link.id(),
                    kind: Kind::Written(msg),
                },
            };
            self.hand_down(link, cx, post);
        }
        Some(Ok(()))
    }

    /// Handles the end of a write.
    pub fn wrote_one<W: Wire>(&mut self, link: &mut Link, cx: &mut Cx<'_, W>, msg: u64) -> Sent {
        if let Some(send) = self.sends.get_mut(msg) {
            send.left -= 1;
            if send.left == 0 {
                return self.wrote(link, cx, msg);
            }
        }
        Ok(())
    }

    /// Completes a message whose writes are done.
    fn wrote<W: Wire>(&mut self, link: &mut Link, cx: &mut Cx<'_, W>, msg: u64) -> Sent {
        let Some(send) = self.sends.remove(msg) else {
            return Ok(());
        };
        let sent = self.send_short(link, cx, msg, false);
        drop(send.lent);
        cx.domain.complete_tx(&send.op);
        sent
    }
}
