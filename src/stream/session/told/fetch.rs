// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Gets messages from their sender: fetches those that can be fetched, and requests the others.
//!
//! A fetch can find that the sender and its message are gone. The result is then `Error::CONNRESET`, which ends the
//! session, because later messages must not take the place of this one.

use super::{Requested, Shared, Told, Wanted, of_note};
use crate::proto::{Frame, MAX_HEADER};
use crate::session::Cx;
use crate::session::outbox::Outbox;
use crate::session::peer::Peer;
use crate::session::receive::Fault;
use crate::shm_channel::{MIN_SHARED, ShmChannel, len_of};
use base::{Error, Result};
use engine::srx::{Envelope, RecvOp};
use engine::transport::Address;
use sync::stats::Count;

impl Told {
    /// Fetches an unexpected message within the limits, so that its sender completes as it does over a socket; not if
    /// `Limits::keeps_offers` is set. `None` leaves the message with its sender. It is a fault if the sender and its
    /// message are gone, because later messages must not take its place.
    #[cold]
    pub fn fetch_to_keep<A: Address>(
        &mut self,
        cx: &mut Cx<'_, A>,
        out: &mut Outbox,
        srx: usize,
        envelope: &Envelope,
    ) -> core::result::Result<Option<Vec<u8>>, Fault> {
        let room = cx.domain.srxs[srx].has_room(
            envelope.token,
            envelope.len,
            cx.common.limits.saved_bytes,
        );
        let (index, _) = of_note(envelope.note);
        let (Some(kept), Some(shm)) = (&mut self.0, cx.link.memory()) else {
            return Ok(None);
        };
        let Some(offered) = kept.offered.get(&index) else {
            return Ok(None);
        };
        if cx.common.limits.keeps_offers
            || !room
            || envelope.len > cx.common.limits.saved_size as u64
        {
            return Ok(None);
        }
        let bytes = offered.fetch_bytes(shm, envelope.len as usize);
        if bytes.is_some() {
            kept.offered.remove(&index);
            self.send_taken(cx, out, index);
        } else if shm.process().is_gone() {
            return Err(Fault::Rule(
                "the sender of a message is gone, and with it the message",
            ));
        }
        Ok(bytes)
    }

    /// Fetches or requests a message that its sender holds, after a receive has matched or the message was discarded.
    pub fn get<A: Address>(
        &mut self,
        cx: &mut Cx<'_, A>,
        peer: &Peer<A>,
        out: &mut Outbox,
        recv: Option<RecvOp>,
        envelope: Envelope,
    ) -> Result {
        let (index, ack) = of_note(envelope.note);
        let kept = self.0.as_ref();
        let may_fetch = kept.is_some_and(|kept| kept.offered.contains_key(&index));
        let wanted = Wanted {
            index,
            recv,
            envelope,
        };
        match may_fetch {
            true => self.fetch(cx, peer, out, wanted),
            false => {
                self.request(cx, out, wanted, ack);
                Ok(())
            }
        }
    }

    /// Requests a message that its sender holds.
    fn request<A: Address>(
        &mut self,
        cx: &mut Cx<'_, A>,
        out: &mut Outbox,
        wanted: Wanted,
        ack: bool,
    ) {
        cx.watch_waits();
        let Wanted {
            index,
            recv,
            envelope,
        } = wanted;
        let message = Requested {
            since: cx.common.waits.stamp(),
            recv,
            envelope,
            ack,
        };
        self.kept().requested.insert(index, message);
        out.answer(cx, &Frame::ClearToSend { index });
    }

    /// Fetches a message from the sender's memory; if that fails, requests it from its sender.
    fn fetch<A: Address>(
        &mut self,
        cx: &mut Cx<'_, A>,
        peer: &Peer<A>,
        out: &mut Outbox,
        mut wanted: Wanted,
    ) -> Result {
        let earlier = self.end_shares(cx, peer, out);
        let Some(offered) = self.kept().offered.remove(&wanted.index) else {
            return earlier;
        };
        let (Some(recv), Some(shm)) = (&wanted.recv, cx.link.memory_mut()) else {
            wanted.recv = None;
            return earlier.and(self.fetched(cx, peer, out, wanted, true));
        };
        let len = recv.iov.remaining().min(len_of(&offered.places));
        let idle = out.frames().is_empty() && shm.takes(MAX_HEADER);
        // A multi-receive buffer is filled in message order, also by messages that were there before the buffer.
        if len >= MIN_SHARED
            && recv.multi.is_none()
            && !recv.iov.is_device()
            && offered.may_be_shared()
            && idle
            && let Some(job) = shm.begin_share(len)
        {
            let shared = Shared {
                wanted,
                offered,
                job,
                copied: true,
            };
            return earlier.and(self.fetch_together(cx, peer, out, shared, len));
        }
        let copied = offered.fetch(shm, &recv.iov);
        earlier.and(self.fetched(cx, peer, out, wanted, copied))
    }

    /// Handles the result of a fetch of the message with this index.
    pub(super) fn fetched<A: Address>(
        &mut self,
        cx: &mut Cx<'_, A>,
        peer: &Peer<A>,
        out: &mut Outbox,
        wanted: Wanted,
        copied: bool,
    ) -> Result {
        if !copied {
            let gone = |shm: &ShmChannel| shm.process().is_gone();
            let gone = cx.link.memory().is_some_and(gone);
            self.request(cx, out, wanted, false);
            return match gone {
                true => Err(Error::CONNRESET),
                false => Ok(()),
            };
        }
        let Wanted {
            index,
            recv,
            envelope,
        } = wanted;
        if let Some(recv) = recv {
            cx.domain.eps[envelope.ep].stats.count(Count::Fetched);
            cx.domain
                .received(envelope.ep, &recv, &envelope, &peer.sender());
        }
        self.send_taken(cx, out, index);
        Ok(())
    }

    fn send_taken<A: Address>(&mut self, cx: &mut Cx<'_, A>, out: &mut Outbox, index: u8) {
        self.remove(index);
        out.answer(cx, &Frame::Taken { index });
    }
}
