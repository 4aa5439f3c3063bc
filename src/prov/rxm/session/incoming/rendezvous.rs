// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Messages that stay with their sender until they match a receive: they are then read from there, or the sender gets
//! the addresses to write them to; docs/wire/rxm.md.

use std::sync::Arc;

use super::Incoming;
use crate::rxm::proto::Places;
use crate::rxm::session::flight::{Call, Cuts, Fetch, Flight, Kind, Parked, Post, iov_of};
use crate::rxm::session::link::Link;
use crate::rxm::session::outgoing::{Outgoing, Sent};
use crate::rxm::session::{Cx, Wire};
use abi::*;
use base::Error;
use client::layer::{Lent, Loan};
use engine::srx::{Envelope, RecvOp};
use object::ops::transfer::RemoteSeg;

impl Incoming {
    /// Keeps an announcement. Returns its number.
    pub fn park(&mut self, parked: Parked) -> u64 {
        self.parked.insert(parked) as u64
    }

    /// Takes an announcement out.
    pub fn unpark(&mut self, number: u64) -> Option<Parked> {
        self.parked.try_remove(number as usize)
    }

    /// Transfers an announced message that has matched a receive.
    pub fn fetch<W: Wire>(
        &mut self,
        link: &mut Link,
        out: &mut Outgoing,
        cx: &mut Cx<'_, W>,
        parked: Parked,
        (mut recv, envelope): (RecvOp, Envelope),
    ) -> Sent {
        let Parked {
            msg,
            message,
            places,
        } = parked;
        let len = recv
            .len
            .min(usize::try_from(message.size).unwrap_or(usize::MAX));
        if len == 0 {
            cx.complete_receive(link, &recv, &envelope);
            return out.send_short(link, cx, msg, true);
        }
        let is_written = places.without_keys();
        let access = FI_READ | if is_written { FI_REMOTE_WRITE } else { 0 };
        let room = recv.iov.split_off(len);
        if !link.is_open() {
            cx.domain
                .receive_failed(envelope.ep, &recv, envelope.what, Error::NOTCONN);
            return Ok(());
        }
        let lent = match cx.wire.lend(link.id(), room, access) {
            Ok(lent) => lent,
            Err((_, error)) => {
                cx.domain
                    .receive_failed(envelope.ep, &recv, envelope.what, error);
                return out.send_short(link, cx, msg, true);
            }
        };
        let at = self.fetches.insert(Fetch {
            recv: Box::new(recv),
            envelope,
            msg,
            lent: lent.clone(),
            left: 0,
            is_written,
            since: cx.common.stall_clock.stamp(),
        });
        match is_written {
            true => send_places(link, out, cx, msg, &lent),
            false => {
                self.fetches[at].left = read_all(link, out, cx, at, (&lent, len), &places);
                Ok(())
            }
        }
    }

    /// Handles the end of a read. After the last one, the message is complete.
    pub fn read_one<W: Wire>(
        &mut self,
        link: &mut Link,
        out: &mut Outgoing,
        cx: &mut Cx<'_, W>,
        at: usize,
    ) -> Sent {
        let Some(fetch) = self.fetches.get_mut(at) else {
            return Ok(());
        };
        fetch.left -= 1;
        if fetch.left > 0 {
            return Ok(());
        }
        let fetch = self.fetches.remove(at);
        // Free the memory only now: until the reads were complete, the registration was needed.
        drop(fetch.lent);
        cx.complete_receive(link, &fetch.recv, &fetch.envelope);
        out.send_short(link, cx, fetch.msg, true)
    }

    /// Handles a message that the sender has written. Returns false if there is none with this number.
    pub fn was_written<W>(&mut self, link: &Link, cx: &mut Cx<'_, W>, msg: u64) -> bool {
        let is_meant = |fetch: &Fetch| fetch.msg == msg && fetch.is_written;
        let found = self.fetches.iter().find(|(_, fetch)| is_meant(fetch));
        let Some((at, _)) = found else { return false };
        let fetch = self.fetches.remove(at);
        drop(fetch.lent);
        cx.complete_receive(link, &fetch.recv, &fetch.envelope);
        true
    }
}

/// Sends the addresses of the memory to which the peer writes the message.
fn send_places<W: Wire>(
    link: &mut Link,
    out: &mut Outgoing,
    cx: &mut Cx<'_, W>,
    msg: u64,
    lent: &Lent,
) -> Sent {
    let places = Places::of(lent.remote().map(|at| RemoteSeg {
        addr: at.addr,
        len: at.len,
        key: at.key,
    }));
    let packet = places
        .unwrap_or_default()
        .addresses(link.remote_name(), msg);
    out.send_packet(link, cx, &packet, &[])
}

/// Posts the reads of a message. Returns their number.
fn read_all<W: Wire>(
    link: &mut Link,
    out: &mut Outgoing,
    cx: &mut Cx<'_, W>,
    at: usize,
    (lent, len): (&Arc<Lent>, usize),
    places: &Places,
) -> usize {
    let settings = &cx.common.settings;
    let remote = places.list().iter().map(iov_of);
    let cuts = Cuts::of(lent, len, remote, settings.pieces, settings.longest);
    let count = cuts.list.len();
    for (part, remote) in cuts.list {
        let post = Post {
            call: Call::Read {
                remote: remote.into(),
                flags: 0,
            },
            loan: Loan::Lent(lent.clone(), part),
            flight: Flight {
                id: link.id(),
                kind: Kind::Fetched(at),
            },
        };
        out.hand_down(link, cx, post);
    }
    count
}
