// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Frames of collectives, sent and received. `engine::coll` interprets them.

use crate::session::common::Todo;
use crate::session::groups::{Part, header_of};
use crate::session::receive::Fault;
use crate::session::receive_state::Sink;
use crate::session::{Cx, Session};
use base::Caps;
use engine::coll::{self, Place};
use engine::transport::Address;

impl<A: Address> Session<A> {
    /// Handles the header of a frame of a collective.
    pub(super) fn collective_frame(
        &mut self,
        cx: &mut Cx<'_, A>,
        frame: core::result::Result<coll::Frame, Fault>,
        payload: u64,
    ) -> core::result::Result<(), Fault> {
        let served = cx.domain.eps[self.peer.ep].caps.contains(Caps::COLLECTIVE);
        if !self.agreed.extended || self.tx.out.swaps() || !served {
            return Err(Fault::Rule("a frame of a collective, which is not served"));
        }
        let frame = frame?;
        let (ep, peer) = (self.peer.ep, self.peer.addr.clone());
        let Some(lane) = cx.domain.groups.lane_mut(ep) else {
            return Err(Fault::Rule(
                "a frame of a collective before the endpoint is enabled",
            ));
        };
        match lane.place(&peer, &frame, payload) {
            Place::Refuse(why) => return Err(Fault::Rule(why)),
            Place::Wait => {
                self.rx.hold_frame(cx, &header_of(&frame, payload as usize));
            }
            Place::Drop if payload > 0 => {
                self.rx.expect(cx, Sink::Drop, payload, false);
            }
            Place::Drop => {}
            Place::Take { kept } => {
                // `place` has compared it with the expected length or with the limit.
                let len = payload as usize;
                let part = Part::new(frame, len, kept);
                match len {
                    0 => part.arrived(cx, &self.peer),
                    _ => self
                        .rx
                        .expect(cx, Sink::Coll(Box::new(part)), payload, false),
                }
            }
        }
        cx.todo(Todo::Collectives(ep));
        Ok(())
    }
}
