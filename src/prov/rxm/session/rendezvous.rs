// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Messages that stay with their sender until they match a receive: they are then read from there, or the sender gets
//! the addresses to write them to; docs/wire/rxm.md.

use super::flight::{Call, Cuts, Fetch, Flight, Kind, Parked, Post, iov_of};
use super::receive::Taken;
use super::{Cx, Session, Wire};
use crate::rxm::proto::{Fault, Places};
use abi::*;
use base::Error;
use client::layer::{Lent, Loan};
use engine::srx::{Bytes, Claimed, Envelope, RecvOp};
use object::ops::transfer::RemoteSeg;

impl Session {
    /// Handles the peer's announcement of a message.
    pub(super) fn announced<W: Wire>(
        &mut self,
        cx: &mut Cx<'_, W>,
        parked: Parked,
    ) -> core::result::Result<Taken, Fault> {
        if !cx.may_receive(self.link.ep()) {
            return Ok(Taken::Later);
        }
        let ep = self.link.target_of(cx.domain, &parked.message)?;
        let mut envelope = self.link.envelope(ep, &parked.message);
        let srx_id = cx.domain.ep(ep).srx;
        let srx = cx.domain.rx_queue_mut(srx_id);
        if let Some(recv) = srx.accept(&envelope) {
            self.fetch(cx, parked, recv, envelope);
            return Ok(Taken::Yes);
        }
        // Only the announcement is kept, without bytes.
        if !cx.common.may_keep(srx, &envelope, 0) {
            return Ok(Taken::Later);
        }
        envelope.note = self.parked.insert(parked) as u64;
        let slot = srx.keep(envelope, Bytes::There);
        self.link.note_origin(cx.domain, srx_id, slot);
        Ok(Taken::Yes)
    }

    /// Handles an announced message that has matched a receive or was discarded.
    pub fn claimed<W: Wire>(&mut self, cx: &mut Cx<'_, W>, claimed: Claimed) {
        let note = claimed.envelope.note as usize;
        let Some(parked) = self.parked.try_remove(note) else {
            return;
        };
        match claimed.recv {
            Some(recv) => self.fetch(cx, parked, recv, claimed.envelope),
            None => self.send_short(cx, parked.msg, true),
        }
    }

    fn fetch<W: Wire>(
        &mut self,
        cx: &mut Cx<'_, W>,
        parked: Parked,
        mut recv: RecvOp,
        envelope: Envelope,
    ) {
        let Parked {
            msg,
            message,
            places,
        } = parked;
        let len = recv
            .len
            .min(usize::try_from(message.size).unwrap_or(usize::MAX));
        if len == 0 {
            self.complete_receive(cx, &recv, &envelope);
            return self.send_short(cx, msg, true);
        }
        let is_written = places.without_keys();
        let access = FI_READ | if is_written { FI_REMOTE_WRITE } else { 0 };
        let room = recv.iov.split_off(len);
        if !self.link.is_open() {
            return cx
                .domain
                .receive_failed(envelope.ep, &recv, envelope.what, Error::NOTCONN);
        }
        let lent = match cx.wire.lend(self.link.id(), room, access) {
            Ok(lent) => lent,
            Err((_, error)) => {
                cx.domain
                    .receive_failed(envelope.ep, &recv, envelope.what, error);
                return self.send_short(cx, msg, true);
            }
        };
        let at = self.fetches.insert(Fetch {
            recv: Box::new(recv),
            envelope,
            msg,
            lent: lent.clone(),
            left: 0,
            is_written,
            since: cx.common.patience.stamp(),
        });
        match is_written {
            true => self.send_places(cx, msg, &lent),
            false => self.read_all(cx, at, &lent, len, &places),
        }
    }

    fn send_places<W: Wire>(&mut self, cx: &mut Cx<'_, W>, msg: u64, lent: &Lent) {
        let places = Places::of(lent.remote().map(|at| RemoteSeg {
            addr: at.addr,
            len: at.len,
            key: at.key,
        }));
        let packet = places
            .unwrap_or_default()
            .addresses(self.link.remote_name(), msg);
        self.send_packet(cx, &packet, &[]);
    }

    fn read_all<W: Wire>(
        &mut self,
        cx: &mut Cx<'_, W>,
        at: usize,
        lent: &std::sync::Arc<Lent>,
        len: usize,
        places: &Places,
    ) {
        let settings = &cx.common.settings;
        let remote = places.list().iter().map(iov_of);
        let cuts = Cuts::of(lent, len, remote, settings.pieces, settings.longest);
        self.fetches[at].left = cuts.list.len();
        for (part, remote) in cuts.list {
            let post = Post {
                call: Call::Read {
                    remote: remote.into(),
                    flags: 0,
                },
                loan: Loan::Lent(lent.clone(), part),
                flight: Flight {
                    id: self.link.id(),
                    kind: Kind::Fetched(at),
                },
            };
            self.hand_down(cx, post);
        }
    }

    /// Completes a message that was read.
    pub(super) fn fetched<W: Wire>(&mut self, cx: &mut Cx<'_, W>, at: usize) {
        let fetch = self.fetches.remove(at);
        // Free the memory only now: until the reads were complete, the registration was needed.
        drop(fetch.lent);
        // If there is no memory for the packet, the connection ends; so it is sent last.
        self.complete_receive(cx, &fetch.recv, &fetch.envelope);
        self.send_short(cx, fetch.msg, true);
    }

    /// Handles a message that the sender has written. Returns false if there is none with this number.
    pub(super) fn was_written<W: Wire>(&mut self, cx: &mut Cx<'_, W>, msg: u64) -> bool {
        let is_meant = |fetch: &Fetch| fetch.msg == msg && fetch.is_written;
        let found = self.fetches.iter().find(|(_, fetch)| is_meant(fetch));
        let Some((at, _)) = found else { return false };
        let fetch = self.fetches.remove(at);
        drop(fetch.lent);
        self.complete_receive(cx, &fetch.recv, &fetch.envelope);
        true
    }
}
