// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Collectives in sessions: payloads that arrive, and the conversion of frames for the state machine in `engine::coll`.
//! docs/wire/tcp.md, "Extensions".

use std::collections::VecDeque;

use crate::proto::{self, BASE_HEADER};
use crate::session::Cx;
use crate::session::common::Todo;
use crate::session::peer::Peer;
use crate::session::receive::Fault;
use base::grow::append;
use base::{Error, Result};
use engine::coll::{self, Frame};
use engine::domain_state::DomainState;
use engine::transport::Address;

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
        if let Some(lane) = cx.domain.groups.lane_mut(peer.ep) {
            lane.arrived(&peer.addr, &self.frame, self.bytes, self.kept);
            cx.todo(Todo::Collectives(peer.ep));
        }
    }

    /// The rest of the payload will not arrive.
    pub fn is_lost<A: Address>(&self, domain: &mut DomainState<A>, ep: usize) {
        if let (true, Some(lane)) = (self.kept, domain.groups.lane_mut(ep)) {
            lane.dropped(self.len);
        }
    }

    /// Appends the next bytes of the payload.
    pub fn take(&mut self, bytes: &[u8]) -> Result {
        append(&mut self.bytes, bytes, self.len)
    }
}

/// Bytes reserved for the header in front of each payload.
pub const HEADROOM: usize = BASE_HEADER + 16;

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
