// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Messages of the peer that stay there until they match a receive: docs/wire/tcp.md.

use crate::session::receive::Fault;
use crate::session::receive_state::{At, Sink};
use crate::session::told::Announcement;
use crate::session::{Cx, Ending, Session};
use base::{Caps, Error, Result};
use engine::srx::Bytes;
use engine::transport::Address;
use object::ops::transfer::What;

impl<A: Address> Session<A> {
    /// Matches an announced message with a receive, or keeps its envelope without the bytes.
    pub(super) fn handle_announcement(
        &mut self,
        cx: &mut Cx<'_, A>,
        announcement: Announcement,
    ) -> core::result::Result<(), Fault> {
        let mut envelope = self.peer.envelope(cx.id, &announcement.info);
        envelope.note = announcement.note;
        envelope.ep = self.context(cx, announcement.context)?;
        let state = &cx.domain.eps[envelope.ep];
        if envelope.what == What::Tagged && !state.caps.contains(Caps::TAGGED) {
            return Err(Fault::Rule("a tagged message for an endpoint without tags"));
        }
        let srx = state.srx;
        let (told, out) = (&mut self.rx.told, &mut self.tx.out);
        match cx.domain.srxs[srx].accept(&envelope) {
            Some(recv) => {
                let got = told.get(cx, &self.peer, out, Some(recv), envelope);
                self.end_if_lost(cx, got);
            }
            None => {
                let bytes = match told.fetch_to_keep(cx, out, srx, &envelope)? {
                    Some(bytes) => {
                        envelope.note = 0;
                        Bytes::Here(bytes)
                    }
                    None => Bytes::There,
                };
                self.peer.keep(cx.domain, srx, envelope, bytes);
            }
        }
        Ok(())
    }

    /// Ends the session if the sender of a message is gone.
    pub(super) fn end_if_lost(&mut self, cx: &mut Cx<'_, A>, got: Result) {
        if let Err(error) = got {
            self.end(cx, Ending::Lost(error));
        }
    }

    /// Whether a message of which the sender copies a part is incomplete. Later messages stay in the ring then, so that
    /// receives complete in message order.
    #[inline]
    pub fn waits_for_sender(&mut self, cx: &mut Cx<'_, A>) -> bool {
        if !self.rx.told.is_sharing() {
            return false;
        }
        let told = &mut self.rx.told;
        let waits = told.waits_for_part(cx, &self.peer, &mut self.tx.out);
        self.end_if_lost(cx, waits.map(|_| ()));
        waits == Ok(true)
    }

    /// Copies a part of a message that the peer fetches, in a poll.
    pub fn go_on_helping(&mut self, cx: &mut Cx<'_, A>) {
        if self.tx.announced.is_helping()
            && let Err(fault) = self.tx.help(cx)
        {
            self.end(cx, Ending::Fault(fault));
        }
    }

    /// Handles the close of a receive context: its messages are not written any more.
    pub fn leave_context(&mut self, cx: &mut Cx<'_, A>, ep: usize) {
        if let At::Payload(incoming) = &mut self.rx.at
            && let Sink::Recv(_, envelope) = incoming.sink
            && envelope.ep == ep
        {
            incoming.drop_rest();
        }
        let srx = cx.domain.eps[ep].srx;
        if let Some((queue, slot)) = self.rx.slot()
            && queue == srx
        {
            cx.domain.srxs[srx].abandon(slot);
        }
        let told = &mut self.rx.told;
        let free = told.take_back(cx.link, &self.peer, cx.common.source, |envelope| {
            envelope.ep == ep
        });
        told.discard(|envelope| envelope.ep == ep);
        if !free {
            self.end(cx, Ending::Lost(Error::CONNABORTED));
        }
    }
}
