// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Frames of collectives, sent and received. `engine::coll` interprets them.

use crate::proto::{Collective, CollectiveEnd};
use crate::session::common::Todo;
use crate::session::groups::{Part, data_of, end_of, header_of};
use crate::session::receive::Fault;
use crate::session::receive_state::Sink;
use crate::session::{Cx, Session};
use base::Caps;
use engine::coll::{self, Place};
use engine::transport::Address;

impl<A: Address> Session<A> {
    /// Handles the header of a frame with data of a collective.
    pub fn collective_data(
        &mut self,
        cx: &mut Cx<'_, A>,
        data: &Collective,
    ) -> core::result::Result<(), Fault> {
        self.serves_collectives(cx)?;
        self.collective_frame(cx, data_of(data), data.payload)
    }

    /// Handles a frame that ends a collective at the peer.
    pub fn collective_end(
        &mut self,
        cx: &mut Cx<'_, A>,
        end: &CollectiveEnd,
    ) -> core::result::Result<(), Fault> {
        self.serves_collectives(cx)?;
        self.collective_frame(cx, end_of(end)?, 0)
    }

    fn serves_collectives(&self, cx: &Cx<'_, A>) -> core::result::Result<(), Fault> {
        let served = cx.domain.ep(self.peer.ep).caps.contains(Caps::COLLECTIVE);
        match self.agreed.extended && !self.tx.out.swaps() && served {
            true => Ok(()),
            false => Err(Fault::Rule("a frame of a collective, which is not served")),
        }
    }

    fn collective_frame(
        &mut self,
        cx: &mut Cx<'_, A>,
        frame: coll::Frame,
        payload: u64,
    ) -> core::result::Result<(), Fault> {
        let (ep, peer) = (self.peer.ep, self.peer.addr.clone());
        match cx.common.lane_of(ep).place(&peer, &frame, payload) {
            Place::Refuse(why) => return Err(Fault::Rule(why)),
            Place::Wait => {
                self.hold_frame(cx, &header_of(&frame, payload as usize));
            }
            Place::Drop if payload > 0 => {
                self.expect(cx, Sink::Drop, payload, false);
            }
            Place::Drop => {}
            Place::Take { kept } => {
                // `place` has compared it with the expected length or with the limit.
                let len = payload as usize;
                let part = Part::new(frame, len, kept);
                match len {
                    0 => self.part_arrived(cx, part),
                    _ => self.expect(cx, Sink::Coll(Box::new(part)), payload, false),
                }
            }
        }
        cx.todo(Todo::Collectives(ep));
        Ok(())
    }

    pub fn part_arrived(&mut self, cx: &mut Cx<'_, A>, part: Part) {
        let (ep, peer) = (self.peer.ep, self.peer.addr.clone());
        if let Some(lane) = cx.common.groups.lane_mut(ep) {
            part.arrived(&peer, lane);
            cx.todo(Todo::Collectives(ep));
        }
    }
}
