// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Credits for the peer: it sends no more messages than this side has posted receives. Packets with credits leave
//! before queued messages. Otherwise two sides whose messages wait for credits would wait for ever.

use super::{Outgoing, put_slots};
use crate::rxm::proto::{HEADER, MOST_CREDITS, credit};
use crate::rxm::session::flight::{Call, Flight, Kind, Post};
use crate::rxm::session::link::Link;
use crate::rxm::session::{Cx, Posted, Wire};
use client::layer::Loan;
use object::ops::credits::CREDIT_MESSAGE;

impl Outgoing {
    /// Gives the peer credits for posted receives.
    pub fn give_credits<W: Wire>(&mut self, link: &mut Link, cx: &mut Cx<'_, W>, count: u64) {
        self.credits = self.credits.saturating_add(count);
        self.send_credits(link, cx);
    }

    /// Sends the credits, or keeps them until there is room below, or a credit of the peer for this packet.
    pub(super) fn send_credits<W: Wire>(&mut self, link: &mut Link, cx: &mut Cx<'_, W>) {
        let count = self.credits.min(MOST_CREDITS);
        if count == 0 {
            return;
        }
        let Ok(mut slot) = cx.wire.take_head() else {
            return self.list(link, cx.common);
        };
        slot.bytes_mut()[..HEADER].copy_from_slice(&credit(link.remote_name(), count));
        let post = Post {
            call: Call::Send {
                flags: CREDIT_MESSAGE.bits(),
            },
            loan: Loan::Slot(slot, HEADER),
            flight: Flight {
                id: link.id(),
                kind: Kind::Control,
            },
        };
        match cx.wire.post(post) {
            Posted::Yes => {
                self.below += 1;
                self.credits -= count;
            }
            Posted::Later(post) => {
                drop(put_slots(cx.wire, post.loan));
                self.list(link, cx.common);
            }
            Posted::Failed(post, error) => {
                drop(put_slots(cx.wire, post.loan));
                link.end_later(cx, error);
            }
        }
    }
}
