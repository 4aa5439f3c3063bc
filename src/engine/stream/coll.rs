// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Frames of collectives: from the state machine in `engine::coll` to connections and back. docs/wire/tcp.md, "Extensions".
#![forbid(unsafe_code)]

use std::collections::{HashMap, VecDeque};

use crate::abi::*;
use crate::base::grow::append;
use crate::base::log::{Subsys, log_warn};
use crate::base::{Error, IoVec, Result};
use crate::engine::coll::{self, Action, Frame, Lane, MAX_BYTES, MAX_MEMBERS, Place, Shape};
use crate::engine::core::Core as EngineCore;
use crate::engine::stream::conn::{Conn, Out, Sink, State};
use crate::engine::stream::net::Net;
use crate::engine::stream::proto::{BASE_HEADER, Header, MAX_HEADER, Op};
use crate::engine::stream::rx::Fault;
use crate::engine::stream::transport::{Core, Stream};
use crate::engine::stream::tx::STAGE_LIMIT;
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
        flags: u64,
        context: usize,
        output: IoVec,
    },
}

/// What a peer is to get when its connection is up: perhaps nothing, if something is to come from it.
#[derive(Default)]
pub struct Frames(VecDeque<(Header, Vec<u8>)>);

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

    fn lane(&self, ep: usize) -> Result<&Lane<A, Token>> {
        self.lanes.get(&ep).ok_or(Error::INVAL)
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
    fn lane_of(&mut self, ep: usize) -> &mut Lane<N::Addr, Token> {
        let limit = self.limits.saved_bytes;
        let lane = self.groups.lanes.entry(ep);
        lane.or_insert_with(|| Lane::new(limit, HEADROOM))
    }

    pub(super) fn open_collective(
        &mut self,
        core: &mut Core<N>,
        ep: usize,
        membership: &Membership<'_>,
    ) -> Result<u64> {
        let av = core.eps[ep].av.ok_or(Error::NOAV)?;
        let addr = |&index: &u64| core.avs[av].get(index).cloned().ok_or(Error::INVAL);
        let members: Vec<N::Addr> = membership.members.iter().map(addr).collect::<Result<_>>()?;
        if members.len() > MAX_MEMBERS {
            return Err(Error::MSGSIZE);
        }
        let rank = N::own_rank(self, ep, &members)?;
        if let Some(parent) = membership.parent {
            let parent = self.groups.number(ep, parent)?;
            let (theirs, _) = self.groups.lane(ep)?.membership(parent)?;
            if members.iter().any(|member| !theirs.contains(member)) {
                return Err(Error::INVAL);
            }
        }
        let lane = self.lane_of(ep);
        let number = number_of::<N>(&members, lane.count_join(&members));
        lane.open(number, members, rank)?;
        let address = GROUP | self.groups.given;
        self.groups.given += 1;
        self.groups.by_address.insert(address, (ep, number));
        Ok(address)
    }

    pub(super) fn join_collective(
        &mut self,
        core: &mut Core<N>,
        ep: usize,
        address: u64,
        (fid, context): (usize, usize),
        alone: bool,
    ) {
        let number = self.groups.number(ep, address);
        let token = Token::Join { fid, context };
        let joined = number.and_then(|number| self.lane_of(ep).join(number, alone, token));
        if let Err(error) = joined {
            core.joined(ep, fid, context, Err(error));
        }
        self.collectives_moved(core, ep);
    }

    pub(super) fn leave_collective(&mut self, core: &mut Core<N>, ep: usize, address: u64) {
        if let Ok(number) = self.groups.number(ep, address) {
            self.groups.by_address.remove(&address);
            self.lane_of(ep).leave(number);
            self.collectives_moved(core, ep);
        }
    }

    pub(super) fn shape_of(
        &self,
        core: &Core<N>,
        ep: usize,
        what: fi_collective_op,
        address: u64,
        root: u64,
    ) -> Result<Shape> {
        let number = self.groups.number(ep, address)?;
        let (members, rank) = self.groups.lane(ep)?.membership(number)?;
        let root = match what {
            FI_BROADCAST | FI_REDUCE | FI_SCATTER | FI_GATHER => {
                let av = core.eps[ep].av.ok_or(Error::NOAV)?;
                let root = core.avs[av].get(root).ok_or(Error::INVAL)?;
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
        core: &mut Core<N>,
        ep: usize,
        mut call: Collective,
    ) -> Result {
        let (element, combine) = coll::check(call.what, call.datatype, call.op)?;
        let shape = self.shape_of(core, ep, call.what, call.group, call.root)?;
        let total = call.slice.checked_mul(shape.members);
        if total.is_none_or(|total| total > MAX_BYTES) {
            return Err(Error::MSGSIZE);
        }
        let number = self.groups.number(ep, call.group)?;
        let token = Token::Call {
            flags: call.flags,
            context: call.context,
            output: call.output.take(),
        };
        let input = |bytes: &mut Vec<u8>| call.input.copy_out(bytes);
        core.eps[ep].tx_pending += 1;
        let started = self.lane_of(ep).start(
            number,
            call.what,
            (shape.root, call.slice, element),
            combine,
            input,
            token,
        );
        if started.is_err() {
            core.eps[ep].tx_pending -= 1;
        }
        self.collectives_moved(core, ep);
        // A frame for it may stand in a stream.
        if !self.stalled.is_empty() {
            self.retry_stalled(core);
        }
        started
    }

    /// Does what the collectives of an endpoint have come to.
    fn collectives_moved(&mut self, core: &mut Core<N>, ep: usize) {
        let mut written = Vec::new();
        while let Some(lane) = self.groups.lanes.get_mut(&ep)
            && let Some(action) = lane.actions.pop_front()
        {
            match action {
                Action::Ended(token, result) => ended(core, ep, token, result),
                Action::Watch(peer) => drop(self.member(core, ep, peer)),
                Action::Send { to, frame, bytes } => {
                    let Some(id) = self.member(core, ep, to) else {
                        continue;
                    };
                    let header = header_of(&frame, bytes.len() - HEADROOM);
                    match self.conns[id].state {
                        State::Up => {
                            self.send_frame(id, &header, bytes);
                            if !written.contains(&id) {
                                written.push(id);
                            }
                        }
                        _ => {
                            let frames = self.conns[id].coll.get_or_insert_default();
                            frames.0.push_back((header, bytes));
                        }
                    }
                }
            }
        }
        for id in written {
            if self.conns.get(id).is_some_and(is_open) {
                self.flush_conn(core, id);
            }
        }
    }

    /// The connection to a member, which is made if there is none. Nothing if the member is lost.
    fn member(&mut self, core: &mut Core<N>, ep: usize, peer: N::Addr) -> Option<usize> {
        let known = self.eps.get(ep)?.by_addr.get(&peer).copied();
        let id = known.unwrap_or_else(|| self.new_peer(core, ep, peer.clone()));
        let conn = &mut self.conns[id];
        match conn.state {
            State::Up if !speaks(conn) => {
                self.mute(core, id);
                None
            }
            State::Up => Some(id),
            _ => {
                conn.coll.get_or_insert_default();
                if conn.state == State::Idle
                    && conn.deadline.is_none()
                    && let Err(error) = N::begin_connect(self, core, id)
                {
                    self.member_lost(core, ep, &peer, error);
                }
                self.conns.contains(id).then_some(id)
            }
        }
    }

    /// A peer that does not know the extensions, or has the other byte order, cannot take part.
    #[cold]
    fn mute(&mut self, core: &mut Core<N>, id: usize) {
        let conn = &mut self.conns[id];
        let (ep, peer) = (conn.ep, conn.peer.clone());
        conn.coll = None;
        log_warn!(
            N::SOURCE,
            Subsys::EpData,
            "{peer}: no collectives: not this library, or the other byte order"
        );
        self.member_lost(core, ep, &peer, Error::OPNOTSUPP);
    }

    /// The connection to a peer is up.
    pub fn member_up(&mut self, core: &mut Core<N>, id: usize) {
        let Some(conn) = self.conns.get_mut(id) else {
            return;
        };
        let Some(frames) = conn.coll.take() else {
            return;
        };
        if !speaks(conn) {
            return self.mute(core, id);
        }
        for (header, bytes) in frames.0 {
            self.send_frame(id, &header, bytes);
        }
        self.flush_conn(core, id);
    }

    /// A peer is gone.
    pub(super) fn member_lost(
        &mut self,
        core: &mut Core<N>,
        ep: usize,
        peer: &N::Addr,
        error: Error,
    ) {
        if let Some(lane) = self.groups.lanes.get_mut(&ep) {
            lane.lost(peer, error);
            self.collectives_moved(core, ep);
        }
    }

    fn send_frame(&mut self, id: usize, header: &Header, mut bytes: Vec<u8>) {
        let conn = &mut self.conns[id];
        let mut head = [0; MAX_HEADER];
        let counter = conn.tx.next_counter();
        let len = header.encode(counter, conn.swap, &mut head);
        bytes[..len].copy_from_slice(&head[..len]);
        if bytes.len() <= STAGE_LIMIT {
            return self.stage_with(id, &bytes, 0, |_| {});
        }
        conn.tx.staged += bytes.len();
        conn.tx.queue.push_back(Out::Staged {
            bytes,
            done: 0,
            owed: 0,
        });
        self.mark_dirty(id);
    }

    /// A frame of a collective begins.
    pub(super) fn collective_frame(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        header: &Header,
    ) -> core::result::Result<(), Fault> {
        let conn = &self.conns[id];
        let (ep, peer) = (conn.ep, conn.peer.clone());
        if !conn.extended || conn.swap || core.eps[ep].caps & FI_COLLECTIVE == 0 {
            return Err(Fault::Rule("a frame of a collective, which is not served"));
        }
        let frame = frame_of(header).map_err(Fault::Rule)?;
        match self.lane_of(ep).place(&peer, &frame, header.payload) {
            Place::Refuse(why) => return Err(Fault::Rule(why)),
            Place::Wait => {
                self.hold_frame(id, header);
            }
            Place::Drop if header.payload > 0 => {
                self.expect(id, Sink::Drop, header.payload, false);
            }
            Place::Drop => {}
            Place::Take { kept } => {
                // `place` has compared it with what is expected, or with the limit.
                let len = header.payload as usize;
                let part = Part {
                    frame,
                    bytes: Vec::new(),
                    len,
                    kept,
                };
                match len {
                    0 => self.part_arrived(core, id, part),
                    _ => self.expect(id, Sink::Coll(Box::new(part)), header.payload, false),
                }
            }
        }
        self.collectives_moved(core, ep);
        Ok(())
    }

    pub(super) fn part_arrived(&mut self, core: &mut Core<N>, id: usize, part: Part) {
        let conn = &self.conns[id];
        let (ep, peer) = (conn.ep, conn.peer.clone());
        if let Some(lane) = self.groups.lanes.get_mut(&ep) {
            lane.arrived(&peer, &part.frame, part.bytes, part.kept);
            self.collectives_moved(core, ep);
        }
    }

    /// The rest of a payload is not coming.
    pub(super) fn part_lost(&mut self, ep: usize, part: &Part) {
        if let (true, Some(lane)) = (part.kept, self.groups.lanes.get_mut(&ep)) {
            lane.dropped(part.len);
        }
    }
}

/// A collective has ended at this member.
fn ended<A: Address>(
    core: &mut EngineCore<A>,
    ep: usize,
    token: Token,
    result: Result<coll::Outcome>,
) {
    match token {
        Token::Join { fid, context } => core.joined(ep, fid, context, result.map(drop)),
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
            core.collected(ep, flags, context, result);
        }
    }
}

fn is_open<N: Net>(conn: &Conn<N>) -> bool {
    conn.state == State::Up && !conn.tx.blocked
}

/// Frames of our own, and data in one byte order.
fn speaks<N: Net>(conn: &Conn<N>) -> bool {
    conn.extended && !conn.swap
}

fn header_of(frame: &Frame, payload: usize) -> Header {
    let (op, kind, low) = match frame.part {
        coll::Part::Data { what, round } => (Op::Coll, what + 1, round),
        coll::Part::End(error) => (Op::CollEnd, 0, error.code() as u32),
    };
    let mut header = Header::new(op, payload as u64);
    header.index = kind;
    header.tag = frame.group;
    header.msg_size = u64::from(frame.seq) << 32 | u64::from(low);
    header
}

fn frame_of(header: &Header) -> core::result::Result<Frame, &'static str> {
    let low = header.msg_size as u32;
    let part = match header.op {
        Op::Coll => coll::Part::Data {
            // `decode` has refused 0.
            what: header.index.wrapping_sub(1),
            round: low,
        },
        _ => match i32::try_from(low) {
            Ok(code) if code > 0 => coll::Part::End(Error::new(code)),
            _ => return Err("the end of a collective without an error"),
        },
    };
    Ok(Frame {
        group: header.tag,
        seq: (header.msg_size >> 32) as u32,
        part,
    })
}
