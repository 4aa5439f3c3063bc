// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Frames of collectives: from the state machine in `engine::coll` to connections and back. docs/wire/tcp.md, "Extensions".
#![forbid(unsafe_code)]

use std::collections::{HashMap, VecDeque};

use crate::abi::*;
use crate::base::grow::append;
use crate::base::log::{Subsys, log_warn};
use crate::base::{Error, IoVec, OpFlags, Result};
use crate::engine::coll::{self, Action, Frame, Lane, MAX_BYTES, MAX_MEMBERS, Shape};
use crate::engine::domain_state::DomainState;
use crate::engine::stream::conn::Conn;
use crate::engine::stream::net::Net;
use crate::engine::stream::proto::{self, BASE_HEADER};
use crate::engine::stream::session::State;
use crate::engine::stream::session::common::Common;
use crate::engine::stream::session::receive::Fault;
use crate::engine::stream::transport::{DomainOf, Stream};
use crate::engine::transport::{Address, Membership};
use crate::ffi::ops::collective::Collective;

/// The groups of a domain's endpoints.
pub struct Groups<A> {
    /// By endpoint.
    lanes: HashMap<usize, Lane<A, Token>>,
    /// By address: the endpoint, and the number that the members have for the group.
    by_address: HashMap<u64, (usize, u64)>,
    /// How many addresses have been given.
    given: u64,
}

/// Who wants to know how it ended.
pub enum Token {
    Join {
        fid: usize,
        context: usize,
    },
    Call {
        flags: OpFlags,
        context: usize,
        output: IoVec,
    },
}

/// What a peer is to get when its connection is up: perhaps nothing, if something is to come from it.
#[derive(Default)]
pub struct Frames(VecDeque<(proto::Frame, Vec<u8>)>);

impl Frames {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The payload of a frame, as it comes in.
pub struct Part {
    frame: Frame,
    bytes: Vec<u8>,
    len: usize,
    /// It counts as saved.
    kept: bool,
}

impl Part {
    /// `kept`: it counts as saved.
    pub fn new(frame: Frame, len: usize, kept: bool) -> Part {
        Part {
            frame,
            bytes: Vec::new(),
            len,
            kept,
        }
    }

    /// All of it is here.
    pub fn arrived<A: Address>(self, peer: &A, lane: &mut Lane<A, Token>) {
        lane.arrived(peer, &self.frame, self.bytes, self.kept);
    }

    /// The next bytes of the payload.
    pub fn take(&mut self, bytes: &[u8]) -> Result {
        append(&mut self.bytes, bytes, self.len)
    }
}

/// Bytes of the header before each payload.
const HEADROOM: usize = BASE_HEADER + 16;
/// Addresses of groups are no indexes of an address vector.
const GROUP: u64 = 1 << 61;

impl<A: Address> Default for Groups<A> {
    fn default() -> Self {
        Groups {
            lanes: HashMap::new(),
            by_address: HashMap::new(),
            given: 0,
        }
    }
}

impl<A: Address> Groups<A> {
    pub fn forget(&mut self, ep: usize) {
        self.lanes.remove(&ep);
        self.by_address.retain(|_, (of, _)| *of != ep);
    }

    fn number(&self, ep: usize, address: u64) -> Result<u64> {
        match self.by_address.get(&address) {
            Some(&(of, number)) if of == ep => Ok(number),
            _ => Err(Error::INVAL),
        }
    }

    /// The rest of a payload is not coming.
    pub fn part_lost(&mut self, ep: usize, part: &Part) {
        if let (true, Some(lane)) = (part.kept, self.lanes.get_mut(&ep)) {
            lane.dropped(part.len);
        }
    }

    pub fn lane_mut(&mut self, ep: usize) -> Option<&mut Lane<A, Token>> {
        self.lanes.get_mut(&ep)
    }

    fn lane(&self, ep: usize) -> Result<&Lane<A, Token>> {
        self.lanes.get(&ep).ok_or(Error::INVAL)
    }
}

impl<A: Address> Common<A> {
    /// The collectives of an endpoint.
    pub fn lane_of(&mut self, ep: usize) -> &mut Lane<A, Token> {
        let limit = self.limits.saved_bytes;
        let lane = self.groups.lanes.entry(ep);
        lane.or_insert_with(|| Lane::new(limit, HEADROOM))
    }
}

/// The number that all members have for a group: FNV-1a over their addresses and how often they formed a group before.
fn number_of<N: Net>(members: &[N::Addr], before: u64) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    let mut take = |bytes: &[u8]| {
        for &byte in bytes {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    for member in members {
        take(&N::identity(member));
    }
    take(&before.to_be_bytes());
    hash
}

impl<N: Net> Stream<N> {
    pub(super) fn open_collective(
        &mut self,
        domain: &mut DomainOf<N>,
        ep: usize,
        membership: &Membership<'_>,
    ) -> Result<u64> {
        let av = domain.ep(ep).av.ok_or(Error::NOAV)?;
        let addr = |&index: &u64| domain.av(av).get(index).cloned().ok_or(Error::INVAL);
        let members: Vec<N::Addr> = membership.members.iter().map(addr).collect::<Result<_>>()?;
        if members.len() > MAX_MEMBERS {
            return Err(Error::MSGSIZE);
        }
        let rank = N::own_rank(self, ep, &members)?;
        if let Some(parent) = membership.parent {
            let parent = self.common.groups.number(ep, parent)?;
            let (theirs, _) = self.common.groups.lane(ep)?.membership(parent)?;
            if members.iter().any(|member| !theirs.contains(member)) {
                return Err(Error::INVAL);
            }
        }
        let lane = self.common.lane_of(ep);
        let number = number_of::<N>(&members, lane.count_join(&members));
        lane.open(number, members, rank)?;
        let address = GROUP | self.common.groups.given;
        self.common.groups.given += 1;
        self.common.groups.by_address.insert(address, (ep, number));
        Ok(address)
    }

    pub(super) fn join_collective(
        &mut self,
        domain: &mut DomainOf<N>,
        ep: usize,
        address: u64,
        (fid, context): (usize, usize),
        alone: bool,
    ) {
        let number = self.common.groups.number(ep, address);
        let token = Token::Join { fid, context };
        let joined = number.and_then(|number| self.common.lane_of(ep).join(number, alone, token));
        if let Err(error) = joined {
            domain.joined(ep, fid, context, Err(error));
        }
        self.collectives_moved(domain, ep);
    }

    pub(super) fn leave_collective(&mut self, domain: &mut DomainOf<N>, ep: usize, address: u64) {
        if let Ok(number) = self.common.groups.number(ep, address) {
            self.common.groups.by_address.remove(&address);
            self.common.lane_of(ep).leave(number);
            self.collectives_moved(domain, ep);
        }
    }

    pub(super) fn shape_of(
        &self,
        domain: &DomainOf<N>,
        ep: usize,
        what: fi_collective_op,
        address: u64,
        root: u64,
    ) -> Result<Shape> {
        let number = self.common.groups.number(ep, address)?;
        let (members, rank) = self.common.groups.lane(ep)?.membership(number)?;
        let root = match what {
            FI_BROADCAST | FI_REDUCE | FI_SCATTER | FI_GATHER => {
                let av = domain.ep(ep).av.ok_or(Error::NOAV)?;
                let root = domain.av(av).get(root).ok_or(Error::INVAL)?;
                let root = members.iter().position(|member| member == root);
                root.ok_or(Error::INVAL)?
            }
            _ => 0,
        };
        Ok(Shape {
            what,
            members: members.len(),
            rank,
            root,
            slice: 0,
            element: 0,
        })
    }

    pub(super) fn start_collective(
        &mut self,
        domain: &mut DomainOf<N>,
        ep: usize,
        mut call: Collective,
    ) -> Result {
        let (element, combine) = coll::check(call.what, call.datatype, call.op)?;
        let shape = self.shape_of(domain, ep, call.what, call.group, call.root)?;
        let total = call.slice.checked_mul(shape.members);
        if total.is_none_or(|total| total > MAX_BYTES) {
            return Err(Error::MSGSIZE);
        }
        let number = self.common.groups.number(ep, call.group)?;
        let token = Token::Call {
            flags: call.flags,
            context: call.context,
            output: call.output.take(),
        };
        let input = |bytes: &mut Vec<u8>| call.input.copy_out(bytes);
        domain.ep_mut(ep).tx_pending += 1;
        let started = self.common.lane_of(ep).start(
            number,
            call.what,
            (shape.root, call.slice, element),
            combine,
            input,
            token,
        );
        if started.is_err() {
            domain.ep_mut(ep).tx_pending -= 1;
        }
        self.collectives_moved(domain, ep);
        // A frame for it may stand in a stream.
        if !self.common.stalled.is_empty() {
            self.retry_stalled(domain);
        }
        started
    }

    /// Does what the collectives of an endpoint have come to.
    pub(super) fn collectives_moved(&mut self, domain: &mut DomainOf<N>, ep: usize) {
        let mut written = Vec::new();
        while let Some(lane) = self.common.groups.lanes.get_mut(&ep)
            && let Some(action) = lane.actions.pop_front()
        {
            match action {
                Action::Ended(token, result) => ended(domain, ep, token, result),
                Action::Watch(peer) => drop(self.member(domain, ep, peer)),
                Action::Send { to, frame, bytes } => {
                    let Some(id) = self.member(domain, ep, to) else {
                        continue;
                    };
                    let header = header_of(&frame, bytes.len() - HEADROOM);
                    match self.conns[id].session.state {
                        State::Up => {
                            let (session, mut cx) = self.at(domain, id);
                            session.send_frame(&mut cx, &header, bytes);
                            if !written.contains(&id) {
                                written.push(id);
                            }
                        }
                        _ => {
                            let frames = self.conns[id].session.coll.get_or_insert_default();
                            frames.0.push_back((header, bytes));
                        }
                    }
                }
            }
        }
        for id in written {
            if self.conns.get(id).is_some_and(is_open) {
                self.with(domain, id, |session, cx| session.flush_conn(cx));
            }
        }
    }

    /// The connection to a member, which is made if there is none. Nothing if the member is lost.
    fn member(&mut self, domain: &mut DomainOf<N>, ep: usize, peer: N::Addr) -> Option<usize> {
        let known = self.eps.get(ep)?.by_addr.get(&peer).copied();
        let id = known.unwrap_or_else(|| self.new_peer(domain, ep, peer.clone()));
        let conn = &mut self.conns[id];
        match conn.session.state {
            State::Up if !speaks(conn) => {
                self.mute(domain, id);
                None
            }
            State::Up => Some(id),
            _ => {
                conn.session.coll.get_or_insert_default();
                if conn.session.state == State::Idle
                    && conn.deadline.is_none()
                    && let Err(error) = N::begin_connect(self, domain, id)
                {
                    self.member_lost(domain, ep, &peer, error);
                }
                self.conns.contains(id).then_some(id)
            }
        }
    }

    /// A peer that does not know the extensions, or has the other byte order, cannot take part.
    #[cold]
    fn mute(&mut self, domain: &mut DomainOf<N>, id: usize) {
        let conn = &mut self.conns[id];
        let (ep, peer) = (conn.session.ep, conn.session.peer.clone());
        conn.session.coll = None;
        log_warn!(
            N::SOURCE,
            Subsys::EpData,
            "{peer}: no collectives: not this library, or the other byte order"
        );
        self.member_lost(domain, ep, &peer, Error::OPNOTSUPP);
    }

    /// The connection to a peer is up.
    pub fn member_up(&mut self, domain: &mut DomainOf<N>, id: usize) {
        let Some(conn) = self.conns.get_mut(id) else {
            return;
        };
        let Some(frames) = conn.session.coll.take() else {
            return;
        };
        if !speaks(conn) {
            return self.mute(domain, id);
        }
        self.with(domain, id, |session, cx| {
            for (header, bytes) in frames.0 {
                session.send_frame(cx, &header, bytes);
            }
            session.flush_conn(cx);
        });
    }

    /// A peer is gone.
    pub(super) fn member_lost(
        &mut self,
        domain: &mut DomainOf<N>,
        ep: usize,
        peer: &N::Addr,
        error: Error,
    ) {
        if let Some(lane) = self.common.groups.lanes.get_mut(&ep) {
            lane.lost(peer, error);
            self.collectives_moved(domain, ep);
        }
    }
}

/// A collective has ended at this member.
fn ended<A: Address>(
    domain: &mut DomainState<A>,
    ep: usize,
    token: Token,
    result: Result<coll::Outcome>,
) {
    match token {
        Token::Join { fid, context } => domain.joined(ep, fid, context, result.map(drop)),
        Token::Call {
            flags,
            context,
            mut output,
        } => {
            let result = result.map(|(bytes, pieces)| {
                for piece in pieces {
                    output.copy_in(&bytes[piece]);
                }
            });
            domain.collected(ep, flags, context, result);
        }
    }
}

fn is_open<N: Net>(conn: &Conn<N>) -> bool {
    conn.session.state == State::Up && !conn.session.tx.blocked
}

/// Frames of our own, and data in one byte order.
fn speaks<N: Net>(conn: &Conn<N>) -> bool {
    conn.session.extended && !conn.session.swap
}

pub fn header_of(frame: &Frame, payload: usize) -> proto::Frame {
    let &Frame { group, seq, part } = frame;
    match part {
        coll::Part::Data { what, round } => proto::Frame::Collective(proto::Collective {
            kind: what + 1,
            group,
            seq,
            round,
            payload: payload as u64,
        }),
        coll::Part::End(error) => proto::Frame::CollectiveEnd(proto::CollectiveEnd {
            group,
            seq,
            error: error.code() as u32,
        }),
    }
}

/// What the state machine is told of data.
pub fn data_of(data: &proto::Collective) -> Frame {
    Frame {
        group: data.group,
        seq: data.seq,
        part: coll::Part::Data {
            // `decode` has refused 0.
            what: data.kind.wrapping_sub(1),
            round: data.round,
        },
    }
}

/// What the state machine is told of an end.
pub fn end_of(end: &proto::CollectiveEnd) -> core::result::Result<Frame, Fault> {
    match i32::try_from(end.error) {
        Ok(code) if code > 0 => Ok(Frame {
            group: end.group,
            seq: end.seq,
            part: coll::Part::End(Error::new(code)),
        }),
        _ => Err(Fault::Rule("the end of a collective without an error")),
    }
}
