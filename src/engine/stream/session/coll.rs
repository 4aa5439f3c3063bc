// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Frames of collectives, from a peer and to it. What they are about is in `engine::coll`.
#![forbid(unsafe_code)]

use crate::abi::*;
use crate::engine::coll::Place;
use crate::engine::stream::coll::{Part, frame_of};
use crate::engine::stream::proto::{Header, MAX_HEADER};
use crate::engine::stream::session::common::Todo;
use crate::engine::stream::session::queue::Out;
use crate::engine::stream::session::receive::Fault;
use crate::engine::stream::session::receive_state::Sink;
use crate::engine::stream::session::send::STAGE_LIMIT;
use crate::engine::stream::session::{Cx, Session};
use crate::engine::transport::Address;

impl<A: Address> Session<A> {
    /// Queues a frame; `bytes` has room for its header at the front.
    pub fn send_frame(&mut self, cx: &mut Cx<'_, A>, header: &Header, mut bytes: Vec<u8>) {
        let mut head = [0; MAX_HEADER];
        let counter = self.tx.next_counter();
        let len = header.encode(counter, self.swap, &mut head);
        bytes[..len].copy_from_slice(&head[..len]);
        if bytes.len() <= STAGE_LIMIT {
            return self.stage_with(cx, &bytes, 0, |_| {});
        }
        self.tx.staged += bytes.len();
        self.tx.queue.push_back(Out::Staged {
            bytes,
            done: 0,
            owed: 0,
        });
        self.mark_dirty(cx);
    }

    /// A frame of a collective begins.
    pub fn collective_frame(
        &mut self,
        cx: &mut Cx<'_, A>,
        header: &Header,
    ) -> core::result::Result<(), Fault> {
        let (ep, peer) = (self.ep, self.peer.clone());
        if !self.extended || self.swap || cx.domain.ep(ep).caps & FI_COLLECTIVE == 0 {
            return Err(Fault::Rule("a frame of a collective, which is not served"));
        }
        let frame = frame_of(header).map_err(Fault::Rule)?;
        match cx.common.lane_of(ep).place(&peer, &frame, header.payload) {
            Place::Refuse(why) => return Err(Fault::Rule(why)),
            Place::Wait => {
                self.hold_frame(cx, header);
            }
            Place::Drop if header.payload > 0 => {
                self.expect(cx, Sink::Drop, header.payload, false);
            }
            Place::Drop => {}
            Place::Take { kept } => {
                // `place` has compared it with what is expected, or with the limit.
                let len = header.payload as usize;
                let part = Part::new(frame, len, kept);
                match len {
                    0 => self.part_arrived(cx, part),
                    _ => self.expect(cx, Sink::Coll(Box::new(part)), header.payload, false),
                }
            }
        }
        cx.todo(Todo::Collectives(ep));
        Ok(())
    }

    pub fn part_arrived(&mut self, cx: &mut Cx<'_, A>, part: Part) {
        let (ep, peer) = (self.ep, self.peer.clone());
        if let Some(lane) = cx.common.groups.lane_mut(ep) {
            part.arrived(&peer, lane);
            cx.todo(Todo::Collectives(ep));
        }
    }
}
