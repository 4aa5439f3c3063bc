// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Collectives in sessions: the groups that endpoints have joined, payloads that arrive, and the conversion of frames
//! for the state machine in `engine::coll`. docs/wire/tcp.md, "Extensions".

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::proto::{self, BASE_HEADER};
use crate::session::Cx;
use crate::session::common::{Common, Todo};
use crate::session::peer::Peer;
use crate::session::receive::Fault;
use base::grow::append;
use base::{Error, IoVec, Result};
use engine::coll::{self, Frame, Lane};
use engine::transport::Address;

/// The groups of a domain's endpoints.
pub struct Groups<A> {
    /// By endpoint.
    pub lanes: HashMap<usize, Lane<A, Token>>,
    /// By the endpoint and the address: the number by which the members identify the group.
    pub by_address: BTreeMap<(usize, u64), u64>,
    /// Number of addresses that were assigned.
    pub given: u64,
}

/// The data for reporting the end of a collective.
pub enum Token {
    Join { fid: usize, context: usize },
    Call { context: usize, output: IoVec },
}

/// Frames for a peer whose connection is not up yet. Empty if the peer only has to send.
#[derive(Default)]
pub struct Frames(pub VecDeque<(proto::Frame, Vec<u8>)>);

impl Frames {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The payload of a frame while it arrives.
pub struct Part {
    frame: Frame,
    bytes: Vec<u8>,
    len: usize,
    /// Whether it counts against the limit for kept data.
    kept: bool,
}

impl Part {
    /// `kept`: it counts against the limit for kept data.
    pub fn new(frame: Frame, len: usize, kept: bool) -> Part {
        Part {
            frame,
            bytes: Vec::new(),
            len,
            kept,
        }
    }

    /// Passes on the complete payload.
    pub fn arrived<A: Address>(self, cx: &mut Cx<'_, A>, peer: &Peer<A>) {
        if let Some(lane) = cx.common.groups.lane_mut(peer.ep) {
            lane.arrived(&peer.addr, &self.frame, self.bytes, self.kept);
            cx.todo(Todo::Collectives(peer.ep));
        }
    }

    /// Appends the next bytes of the payload.
    pub fn take(&mut self, bytes: &[u8]) -> Result {
        append(&mut self.bytes, bytes, self.len)
    }
}

/// Bytes reserved for the header in front of each payload.
pub const HEADROOM: usize = BASE_HEADER + 16;

impl<A: Address> Default for Groups<A> {
    fn default() -> Self {
        Groups {
            lanes: HashMap::new(),
            by_address: BTreeMap::new(),
            given: 0,
        }
    }
}

impl<A: Address> Groups<A> {
    pub fn forget(&mut self, ep: usize) {
        self.lanes.remove(&ep);
        let of_ep = self.by_address.range((ep, 0)..=(ep, u64::MAX));
        let keys: Vec<_> = of_ep.map(|(&key, _)| key).collect();
        keys.iter().for_each(|key| _ = self.by_address.remove(key));
    }

    pub fn number(&self, ep: usize, address: u64) -> Result<u64> {
        let number = self.by_address.get(&(ep, address));
        number.copied().ok_or(Error::INVAL)
    }

    /// Handles a payload whose rest will not arrive.
    pub fn part_lost(&mut self, ep: usize, part: &Part) {
        if let (true, Some(lane)) = (part.kept, self.lanes.get_mut(&ep)) {
            lane.dropped(part.len);
        }
    }

    pub fn lane_mut(&mut self, ep: usize) -> Option<&mut Lane<A, Token>> {
        self.lanes.get_mut(&ep)
    }

    pub fn lane(&self, ep: usize) -> Result<&Lane<A, Token>> {
        self.lanes.get(&ep).ok_or(Error::INVAL)
    }
}

impl<A: Address> Common<A> {
    /// Returns the collectives of an endpoint.
    pub fn lane_of(&mut self, ep: usize) -> &mut Lane<A, Token> {
        let limit = self.limits.saved_bytes;
        let lane = self.groups.lanes.entry(ep);
        lane.or_insert_with(|| Lane::new(limit, HEADROOM))
    }
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

/// Converts the header of data for the state machine.
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

/// Converts the end of a collective for the state machine.
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
