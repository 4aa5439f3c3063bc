// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The two ends of a session and the connection below between them: addresses, and the numbers by which each side names
//! the other.

use std::sync::Arc;

use super::wire::Place;
use super::{Common, Cx, Ending, Wire};
use crate::rxm::port::Listed;
use crate::rxm::proto::{ConnId, Fault, FlowControl, Message, Request, Response};
use crate::rxm::state::StateOf;
use abi::FI_ADDR_NOTAVAIL;
use base::{Caps, Error, Result};
use client::layer::Lent;
use engine::address::ip::Addr;
use engine::domain_state::{MessageInfo, Sender};
use engine::srx::{Envelope, Slot as Kept};
use engine::strangers::new_source;
use engine::transport::{Address, Listener};
use object::ops::transfer::Tx;

pub struct Link {
    /// Index of the session in the table, and its endpoint.
    id: usize,
    ep: usize,
    /// Address of the local listener, and of the peer's listener.
    own: Option<Addr>,
    peer: Addr,
    /// Index in the endpoint's address vector.
    fi_addr: u64,
    /// Source number for matching while the peer is in no address vector.
    unnamed: u64,
    /// Index that the peer writes into its packets: random, so that no other process can guess it.
    name: u32,
    /// Number of the connection below. Each has a different one; 0 means none.
    arrival: u64,
    /// Index of the connection at the peer, and the peer's process.
    remote: ConnId,
    /// Whether this side and the peer count posted receives.
    counts: bool,
    peer_counts: bool,
    /// The peer takes part in collectives.
    peer_has_groups: bool,
    /// Receiving from the peer is paused because too many of its packets wait.
    is_paused: bool,
    /// The connection below is in `Common::ending`.
    is_ending: bool,
    /// Place in `Port::sessions`.
    place: u32,
    /// Entries of `Port::peers` that name the session.
    listed: Listed,
}

impl Link {
    pub(super) fn new(id: usize, ep: usize, own: Option<Addr>, peer: Addr, fi_addr: u64) -> Link {
        Link {
            id,
            ep,
            own,
            peer,
            fi_addr,
            unnamed: new_source(),
            name: 0,
            arrival: 0,
            remote: ConnId::default(),
            counts: false,
            peer_counts: false,
            peer_has_groups: false,
            is_paused: false,
            is_ending: false,
            place: 0,
            listed: Listed::Nowhere,
        }
    }

    #[inline]
    pub fn id(&self) -> usize {
        self.id
    }

    /// Returns the place of the session in `Port::sessions`.
    pub fn place(&self) -> usize {
        self.place as usize
    }

    #[inline]
    pub fn ep(&self) -> usize {
        self.ep
    }

    #[inline]
    pub fn peer(&self) -> &Addr {
        &self.peer
    }

    #[inline]
    pub fn fi_addr(&self) -> u64 {
        self.fi_addr
    }

    pub(super) fn set_place(&mut self, place: usize) {
        self.place = place as u32;
    }

    pub(super) fn listed_mut(&mut self) -> &mut Listed {
        &mut self.listed
    }

    pub(super) fn set_fi_addr(&mut self, fi_addr: u64) {
        self.fi_addr = fi_addr;
    }

    /// Returns the source number by which matching identifies the peer.
    #[inline]
    pub fn source(&self) -> u64 {
        match self.fi_addr {
            FI_ADDR_NOTAVAIL => self.unnamed,
            known => known,
        }
    }

    /// Returns the peer as completions report it.
    #[inline]
    pub(super) fn sender(&self) -> Sender<'_, Addr> {
        Sender {
            fi_addr: self.fi_addr,
            addr: Some(&self.peer),
        }
    }

    /// Returns the number of the connection below.
    #[inline]
    pub fn arrival(&self) -> u64 {
        self.arrival
    }

    /// Whether there is a connection below, perhaps one that is not up yet.
    pub(super) fn is_open(&self) -> bool {
        self.arrival != 0
    }

    /// Returns the index that the peer writes into its packets.
    #[inline]
    pub(super) fn name(&self) -> u32 {
        self.name
    }

    /// Returns the index that this side writes into its packets.
    #[inline]
    pub(super) fn remote_name(&self) -> u32 {
        self.remote.index
    }

    /// Returns the peer's process, which the connection was made with.
    pub fn remote_pid(&self) -> u32 {
        self.remote.pid
    }

    pub(super) fn set_remote(&mut self, remote: ConnId, flow: FlowControl, groups: bool) {
        self.remote = remote;
        self.peer_counts = flow == FlowControl::On;
        self.peer_has_groups = groups;
    }

    /// Records whether this side has announced that it counts posted receives.
    pub(super) fn set_counts(&mut self, counts: bool) {
        self.counts = counts;
    }

    /// Whether the peer takes part in collectives of this library.
    pub(super) fn has_groups(&self) -> bool {
        self.peer_has_groups
    }

    /// Whether messages need credits of the peer.
    pub(super) fn has_credits(&self) -> bool {
        self.counts && self.peer_counts
    }

    /// Opens a connection below, with a request to the peer.
    pub(super) fn connect<W: Wire>(&mut self, cx: &mut Cx<'_, W>) -> Result {
        let own = self.own.ok_or(Error::OPBADSTATE)?;
        let place = self.new_place(cx.common);
        let request = Request {
            port: own.port(),
            flow: FlowControl::Off,
            groups: self.offers_groups(cx.domain),
            eager: cx.common.settings.eager as u32,
            depth: cx.common.settings.receives as u32,
            id: self.conn_id(cx)?,
        };
        self.counts = cx.wire.connect(place, &own, &self.peer, request)?;
        Ok(())
    }

    /// Prepares a connection below for a request of the peer. Returns it, and the answer to the peer.
    pub(super) fn accept<W: Wire>(
        &mut self,
        cx: &mut Cx<'_, W>,
        request: &Request,
    ) -> Result<(Place, Response)> {
        self.set_remote(request.id, request.flow, request.groups);
        let place = self.new_place(cx.common);
        let response = Response {
            id: self.conn_id(cx)?,
            depth: cx.common.settings.receives as u32,
            flow: FlowControl::Off,
            groups: self.offers_groups(cx.domain),
        };
        Ok((place, response))
    }

    fn offers_groups(&self, domain: &StateOf) -> bool {
        let ep = domain.eps.get(self.ep);
        ep.is_some_and(|ep| ep.caps.contains(Caps::COLLECTIVE))
    }

    /// Assigns a number to the next connection below.
    fn new_place(&mut self, common: &mut Common) -> Place {
        self.arrival = common.next_arrival(self.id);
        self.is_ending = false;
        Place {
            arrival: self.arrival,
            id: self.id,
            ep: self.ep,
        }
    }

    /// Returns a new index by which the peer identifies the connection from now on.
    fn conn_id<W: Wire>(&mut self, cx: &mut Cx<'_, W>) -> Result<ConnId> {
        // Some peers treat it as a signed number.
        let index = (cx.wire.random()? & i32::MAX as u32).max(1);
        self.name = index;
        Ok(ConnId {
            index,
            pid: cx.common.pid,
        })
    }

    /// Shuts the connection below down.
    pub(super) fn close<W: Wire>(&mut self, wire: &mut W) {
        (self.is_paused, self.is_ending) = (false, false);
        self.name = 0;
        if core::mem::take(&mut self.arrival) != 0 {
            wire.close(self.id);
        }
    }

    /// Ends the connection after the packets that have already arrived are handled: `Common::ending`.
    #[cold]
    pub(super) fn end_later<W: Wire>(&mut self, cx: &mut Cx<'_, W>, error: Error) {
        let (id, arrival) = (self.id, self.arrival);
        if arrival != 0 && !core::mem::replace(&mut self.is_ending, true) {
            cx.common.ending.push(Ending { id, arrival, error });
            // Its remaining packets can be read to the end.
            self.resume(cx.wire);
        }
    }

    /// Whether the peer's listener has reacted to the attempt at least like this; `None` if that is not known.
    pub(super) fn has_reacted<W: Wire>(&self, wire: &W, least: Listener) -> Option<bool> {
        match self.is_open() {
            true => wire.has_reacted(self.id, least),
            false => Some(false),
        }
    }

    pub(super) fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Stops receiving from the peer.
    pub(super) fn pause<W: Wire>(&mut self, wire: &mut W) {
        self.is_paused = true;
        wire.pause(self.id, true);
    }

    /// Resumes receiving from the peer, if it is paused.
    pub(super) fn resume<W: Wire>(&mut self, wire: &mut W) {
        if core::mem::take(&mut self.is_paused) {
            wire.pause(self.id, false);
        }
    }

    /// Lends the memory of an operation to operations below.
    pub(super) fn lend<W: Wire>(
        &self,
        cx: &mut Cx<'_, W>,
        tx: &mut Tx<'_>,
        access: u64,
    ) -> Result<Arc<Lent>> {
        if !self.is_open() {
            return Err(Error::AGAIN);
        }
        let lent = cx.wire.lend(self.id, tx.iov.take(), access);
        lent.map_err(|(iov, error)| {
            tx.iov = iov;
            error
        })
    }

    /// Returns the envelope. `ep` is the target: the endpoint, or one of its receive contexts.
    pub(super) fn envelope(&self, ep: usize, message: &Message) -> Envelope {
        info_of(message).envelope(self.source(), ep, self.id as u64)
    }

    /// Returns the target of a message: the endpoint, or one of its receive contexts.
    #[inline]
    pub(super) fn target_of(
        &self,
        domain: &StateOf,
        message: &Message,
    ) -> core::result::Result<usize, Fault> {
        let ep = self.ep;
        match usize::from(message.context).checked_sub(1) {
            None => Ok(ep),
            Some(beyond_first) => {
                let context = domain.eps[ep].contexts.get(beyond_first).copied();
                context.ok_or(Fault("a message for a receive context that there is not"))
            }
        }
    }

    /// Records the address of a sender that has to be reported.
    pub(super) fn record_origin(&self, domain: &mut StateOf, srx: usize, slot: Kept) {
        if domain.reports_origin(self.ep, self.fi_addr) {
            let bytes = self.peer.to_bytes();
            domain.srxs[srx].record_origin(slot, bytes);
        }
    }

    /// Fails the receives that name the peer, whose host is silent.
    pub(super) fn fail_receives(&self, domain: &mut StateOf, error: Error) {
        if self.fi_addr != FI_ADDR_NOTAVAIL && domain.eps.get(self.ep).is_some() {
            domain.fail_receives_from(self.ep, self.fi_addr, error);
        }
    }
}

pub fn info_of(message: &Message) -> MessageInfo {
    MessageInfo {
        what: message.what(),
        len: message.size,
        tag: message.tag,
        data: message.data,
    }
}
