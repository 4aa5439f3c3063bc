// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Executes the requests of sessions.

use std::sync::Arc;
use std::time::Instant;

use super::{Due, Flight, Lower};
use crate::rxm::HEAD_SIZE;
use crate::rxm::proto::Request;
use crate::rxm::session::flight::{self, Call, Post};
use crate::rxm::session::{Ended, Place, Posted, Wire, threshold_of};
use abi::FI_MORE;
use base::{Error, IoVec, Result};
use client::PeerCredits;
use client::layer::{Failed, Lent, Slot};
use engine::address::ip::Addr;
use engine::transport::Listener;
use object::ops::options::{OPT_LISTENER, OPT_PAUSE};
use object::ops::transfer::RemoteSeg;
use sys::random::unpredictable;

impl Wire for Lower {
    fn connect(&mut self, at: Place, own: &Addr, peer: &Addr, request: Request) -> Result<bool> {
        self.connect_to(at, own, peer, request)
    }

    fn enable_credits(&mut self, id: usize) -> Result {
        let link = self.links.get(id).ok_or(Error::NOTCONN)?;
        let credits = link.credits.as_ref().ok_or(Error::NOTCONN)?;
        credits.enable(threshold_of(link.depth) as u64)?;
        if credits.is_due() {
            self.due.push(id);
        }
        Ok(())
    }

    fn add_credits(&mut self, id: usize, count: u64) {
        let link = self.links.get(id);
        if let Some(credits) = link.and_then(|link| link.credits.as_ref()) {
            credits.add(count);
        }
    }

    fn take_due_credits(&mut self) -> Option<(usize, u64)> {
        while let Some(id) = self.due.pop() {
            let credits = self.links.get(id).and_then(|link| link.credits.as_ref());
            match credits.map_or(0, PeerCredits::take_due) {
                0 => {}
                count => return Some((id, count)),
            }
        }
        None
    }

    fn close(&mut self, id: usize) {
        self.unlink(id);
    }

    fn is_closing(&self, id: usize) -> bool {
        self.has_closing(id)
    }

    fn take_ended(&mut self) -> Option<Ended> {
        self.ended.pop_front()
    }

    fn has_reacted(&self, id: usize, least: Listener) -> Option<bool> {
        let below = self.links.get(id)?.below.as_ref()?;
        let listener: usize = below.getopt(OPT_LISTENER).ok()?;
        Some(listener >= least as usize)
    }

    fn schedule(&mut self, id: usize, at: Instant) {
        self.reactor.schedule(at, Due::Session(id));
    }

    fn pause(&mut self, id: usize, on: bool) {
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        link.is_paused = on;
        if let (true, Some(below)) = (self.domain.is_ours, &link.below) {
            // The endpoint is open, and the provider has the option, so this cannot fail.
            let _ = below.setopt(OPT_PAUSE, u8::from(on));
        }
        if !on {
            // On failure, `post_dry` posts the receives later.
            let _ = self.post_own(id);
        }
    }

    fn random(&mut self) -> Result<u32> {
        random()
    }

    #[inline]
    fn inject(&mut self, id: usize, bytes: &[u8]) -> bool {
        let below = self.links.get(id).and_then(|link| link.below.as_ref());
        below.is_some_and(|below| below.inject(bytes, 0).is_ok())
    }

    fn inject_write(&mut self, id: usize, bytes: &[u8], data: Option<u64>, to: &RemoteSeg) -> bool {
        let below = self.links.get(id).and_then(|link| link.below.as_ref());
        below.is_some_and(|below| {
            let posted = match data {
                Some(data) => below.inject_write_data(bytes, data, 0, to.addr, to.key),
                None => below.inject_write(bytes, 0, to.addr, to.key),
            };
            posted.is_ok()
        })
    }

    fn post(&mut self, post: Post) -> Posted {
        let Post { call, loan, flight } = post;
        let link = self.links.get(flight.id);
        let Some(below) = link.and_then(|link| link.below.as_ref()) else {
            return Posted::Failed(Post { call, loan, flight }, Error::NOTCONN);
        };
        let id = flight.id;
        let (ops, what) = (&mut self.ops, Flight::Operation(flight));
        let posted = match &call {
            Call::Send { flags } => ops.send(below, loan, 0, None, *flags, what),
            Call::Read { remote, flags } => ops.read(below, loan, 0, remote.list(), *flags, what),
            Call::Write {
                remote,
                data,
                flags,
            } => ops.write(below, loan, 0, remote.list(), *data, *flags, what),
        };
        let Err(Failed { error, loan, what }) = posted else {
            // The packets of one message, which a built-in provider gets with FI_MORE, end without it.
            if !self.domain.is_ours && call.flags() & FI_MORE != 0 {
                self.defer(id);
            }
            return Posted::Yes;
        };
        let Flight::Operation(flight) = what else {
            unreachable!("it was an operation of a session a moment ago");
        };
        let post = Post { call, loan, flight };
        match error {
            Error::AGAIN => Posted::Later(post),
            error => Posted::Failed(post, error),
        }
    }

    fn flights_mut(&mut self) -> impl Iterator<Item = (&mut flight::Flight, bool)> {
        self.ops
            .each()
            .filter_map(|(flight, is_lent)| match flight {
                Flight::Operation(flight) => Some((flight, is_lent)),
                _ => None,
            })
    }

    fn flights(&self) -> impl Iterator<Item = &flight::Flight> {
        self.ops.iter().filter_map(|flight| match flight {
            Flight::Operation(flight) => Some(flight),
            _ => None,
        })
    }

    fn take_head(&mut self) -> Result<Slot> {
        self.heads.take()
    }

    fn take_copy(&mut self) -> Result<Slot> {
        self.copies.take()
    }

    fn heads_left(&self) -> usize {
        self.heads.left()
    }

    fn copies_left(&self) -> usize {
        self.copies.left()
    }

    fn put(&mut self, slot: Slot) {
        match slot.room() {
            HEAD_SIZE => self.heads.put(slot),
            _ => self.copies.put(slot),
        }
    }

    fn lend(
        &mut self,
        id: usize,
        iov: IoVec,
        access: u64,
    ) -> core::result::Result<Arc<Lent>, (IoVec, Error)> {
        let registrar = self.links.get(id).and_then(|link| link.registrar.as_ref());
        match registrar {
            Some(registrar) => {
                let known = self.regions.named(iov.desc());
                Lent::new(registrar, iov, access, known)
            }
            None => Err((iov, Error::AGAIN)),
        }
    }

    fn counts_reads(&self, ep: usize) -> bool {
        let endpoint = self.endpoint(ep);
        endpoint.is_some_and(|endpoint| endpoint.accesses.read.is_some())
    }
}

/// Returns a number that no other process can guess.
pub fn random() -> Result<u32> {
    let bytes = unpredictable().map_err(Error::from)?;
    let (words, _) = bytes.as_chunks();
    Ok(u32::from_ne_bytes(words[0]))
}
