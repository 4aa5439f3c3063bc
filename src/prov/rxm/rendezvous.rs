// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Messages that stay with their sender until they match a receive: they are then read from there, or the sender gets
//! the addresses to write them to; docs/wire/rxm.md.

use super::flight::{Call, Cuts, Fetch, Flight, Kind, Parked, Post, iov_of};
use super::proto::{Fault, Places};
use super::receive::Taken;
use super::state::{Rxm, StateOf};
use abi::*;
use base::Error;
use client::layer::{Lent, Loan};
use engine::srx::{Bytes, Claimed, Envelope, RecvOp};
use object::ops::transfer::RemoteSeg;

impl Rxm {
    /// Handles a peer's announcement of a message.
    pub fn announced(
        &mut self,
        domain: &mut StateOf,
        id: usize,
        parked: Parked,
    ) -> core::result::Result<Taken, Fault> {
        let ep = self.conns[id].ep;
        if !self.may_receive(domain, ep) {
            return Ok(Taken::Later);
        }
        let ep = self.target_of(domain, id, &parked.message)?;
        let mut envelope = self.envelope(id, ep, &parked.message);
        let srx_id = domain.ep(ep).srx;
        let srx = domain.rx_queue_mut(srx_id);
        if let Some(recv) = srx.accept(&envelope) {
            self.fetch(domain, parked, recv, envelope);
            return Ok(Taken::Yes);
        }
        // Only the announcement is kept, without bytes.
        if !self.may_keep(srx, &envelope, 0) {
            return Ok(Taken::Later);
        }
        envelope.note = self.parked.insert(parked) as u64;
        let slot = srx.keep(envelope, Bytes::There);
        self.note_origin(domain, id, srx_id, slot);
        Ok(Taken::Yes)
    }

    /// Handles an announced message that has matched a receive or was discarded.
    pub fn claimed(&mut self, domain: &mut StateOf, claimed: Claimed) {
        let note = claimed.envelope.note as usize;
        let Some(parked) = self.parked.try_remove(note) else {
            return;
        };
        match claimed.recv {
            Some(recv) => self.fetch(domain, parked, recv, claimed.envelope),
            None => self.tell(domain, parked.conn, parked.msg, true),
        }
    }

    fn fetch(
        &mut self,
        domain: &mut StateOf,
        parked: Parked,
        mut recv: RecvOp,
        envelope: Envelope,
    ) {
        let Parked {
            conn: id,
            msg,
            message,
            places,
        } = parked;
        let len = recv
            .len
            .min(usize::try_from(message.size).unwrap_or(usize::MAX));
        if len == 0 {
            self.complete_receive(domain, id, &recv, &envelope);
            return self.tell(domain, id, msg, true);
        }
        let is_written = places.without_keys();
        let access = FI_READ | if is_written { FI_REMOTE_WRITE } else { 0 };
        let room = recv.iov.split_off(len);
        let Some(registrar) = &self.conns[id].registrar else {
            return domain.receive_failed(envelope.ep, &recv, envelope.what, Error::NOTCONN);
        };
        let lent = match Lent::new(registrar, room, access) {
            Ok(lent) => lent,
            Err((_, error)) => {
                domain.receive_failed(envelope.ep, &recv, envelope.what, error);
                return self.tell(domain, id, msg, true);
            }
        };
        let at = self.fetches.insert(Fetch {
            conn: id,
            recv: Box::new(recv),
            envelope,
            msg,
            lent: lent.clone(),
            left: 0,
            is_written,
            since: self.patience.stamp(),
        });
        match is_written {
            true => self.tell_places(domain, id, msg, &lent),
            false => self.read_all(domain, at, &lent, len, &places),
        }
    }

    fn tell_places(&mut self, domain: &mut StateOf, id: usize, msg: u64, lent: &Lent) {
        let places = Places::of(lent.remote().map(|at| RemoteSeg {
            addr: at.addr,
            len: at.len,
            key: at.key,
        }));
        let name = self.conns[id].remote.index;
        let packet = places.unwrap_or_default().addresses(name, msg);
        self.send_packet(domain, id, &packet, &[]);
    }

    fn read_all(
        &mut self,
        domain: &mut StateOf,
        at: usize,
        lent: &std::sync::Arc<Lent>,
        len: usize,
        places: &Places,
    ) {
        let fetch = &mut self.fetches[at];
        let (id, ep) = (fetch.conn, fetch.envelope.ep);
        let remote = places.list().iter().map(iov_of);
        let cuts = Cuts::of(lent, len, remote, self.lower.pieces(), self.lower.longest);
        fetch.left = cuts.list.len();
        for (part, remote) in cuts.list {
            let post = Post {
                call: Call::Read {
                    remote: remote.into(),
                    flags: 0,
                },
                loan: Loan::Lent(lent.clone(), part),
                flight: Flight {
                    ep,
                    conn: id,
                    kind: Kind::Fetched(at),
                },
            };
            self.hand_down(domain, post);
        }
    }

    /// Completes a message that was read.
    pub fn fetched(&mut self, domain: &mut StateOf, at: usize) {
        let fetch = self.fetches.remove(at);
        // Free the memory only now: until the reads were complete, the registration was needed.
        drop(fetch.lent);
        // If there is no memory for the packet, the connection ends; so it is sent last.
        self.complete_receive(domain, fetch.conn, &fetch.recv, &fetch.envelope);
        self.tell(domain, fetch.conn, fetch.msg, true);
    }

    /// Handles a message that the sender has written. Returns false if there is none with this number.
    pub fn was_written(&mut self, domain: &mut StateOf, id: usize, msg: u64) -> bool {
        let is_meant = |fetch: &Fetch| fetch.conn == id && fetch.msg == msg && fetch.is_written;
        let found = self.fetches.iter().find(|(_, fetch)| is_meant(fetch));
        let Some((at, _)) = found else { return false };
        let fetch = self.fetches.remove(at);
        drop(fetch.lent);
        self.complete_receive(domain, id, &fetch.recv, &fetch.envelope);
        true
    }
}
