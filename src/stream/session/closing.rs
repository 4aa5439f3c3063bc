// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Both sides agree before one of them closes an idle connection, so that nothing is lost: docs/wire/tcp.md, "Idle
//! connections".
//!
//! A side that is at rest requests the close. If the peer is at rest, too, it answers that it is ready, and sends
//! nothing from then on. The first side has then received everything that the peer has sent, and the peer everything
//! that this side has sent, so the first side closes. Until the answer arrives it can withdraw the request at any time,
//! for example because the application posts an operation; so a peer that never answers delays nothing. Operations of
//! a side that is ready wait until the peer has closed the connection, and are the first on the next one.
//!
//! While either agreement is pending the state of the session is `Resting`: it is read, and nothing is posted to it.

use crate::proto::{Close, Frame};
use crate::session::common::Todo;
use crate::session::receive::Fault;
use crate::session::{Cx, Session, State};
use engine::transport::Address;

/// State of the agreement, in one byte because each peer has one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Closing(u8);

/// Both sides support the agreement.
const SUPPORTED: u8 = 1;
/// This side has requested the close, and the request is valid.
const REQUESTED: u8 = 2;
/// The answer to a withdrawn request has not arrived.
const STALE: u8 = 4;
/// This side sends nothing until the peer closes the connection or withdraws its request.
const READY: u8 = 8;
/// Both sides have agreed, and this side closes the connection.
const OVER: u8 = 16;

impl Closing {
    /// Returns the state of a new connection.
    pub fn new(is_supported: bool) -> Closing {
        Closing(if is_supported { SUPPORTED } else { 0 })
    }

    fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }

    fn set(&mut self, bit: u8, on: bool) {
        self.0 = if on { self.0 | bit } else { self.0 & !bit };
    }

    /// Whether this side can request the close.
    pub fn may_request(self) -> bool {
        self.has(SUPPORTED) && !self.has(STALE)
    }

    /// Whether this side closes the connection.
    pub fn is_over(self) -> bool {
        self.has(OVER)
    }

    /// Whether this side has promised to send nothing, so that the peer may close the connection at any time.
    pub fn is_ready(self) -> bool {
        self.has(READY)
    }
}

impl<A: Address> Session<A> {
    /// Whether no operation of either side needs the other one any more. Operations that wait for their turn do not
    /// matter, because they can be sent on another connection, and frames of the agreement do not matter, either.
    pub fn is_quiet(&self) -> bool {
        !self.is_over() && self.tx.is_quiet() && self.rx.is_at_rest()
    }

    /// Whether an operation that was refused because the connection was not up has not been posted again. The first
    /// frame that is sent ends the wait.
    pub fn is_awaited(&self) -> bool {
        let unsent = |first| !self.state.is_open() || self.tx.out.counter() == first;
        self.refused.is_some_and(unsent)
    }

    /// Whether the connection can be closed from the view of this side.
    fn is_at_rest(&self, cx: &Cx<'_, A>) -> bool {
        let lane = cx.domain.groups.lane(self.peer.ep);
        // The loss of a member ends collectives, and is noticed by the end of its connection.
        let is_member = lane.is_some_and(|lane| lane.has_member(&self.peer.addr));
        let has_left = self.tx.out.frames().is_empty() && !self.tx.has_waiting();
        let has_work = self.coll.is_some() || self.is_awaited();
        self.is_quiet() && has_left && !has_work && !is_member
    }

    /// Requests the close, if both sides support that and this side is at rest. Returns whether a request is pending.
    pub fn request_close(&mut self, cx: &mut Cx<'_, A>) -> bool {
        // Frame numbers recur.
        self.refused = self.refused.filter(|_| self.is_awaited());
        let may_request = self.state == State::Up && self.closing.may_request();
        if !may_request || !self.is_at_rest(cx) {
            return false;
        }
        self.closing.set(REQUESTED, true);
        self.state = State::Resting;
        self.tx.out.send_bare(cx, &Frame::Close(Close::Request));
        !self.is_over()
    }

    /// Withdraws the request, because this side has something to send. A side that is ready has to wait instead.
    #[cold]
    pub fn withdraw_close(&mut self, cx: &mut Cx<'_, A>) {
        if self.state != State::Resting || self.closing.is_ready() || self.closing.is_over() {
            return;
        }
        self.closing.set(REQUESTED, false);
        self.closing.set(STALE, true);
        self.state = State::Up;
        self.tx.out.answer(cx, &Frame::Close(Close::Withdrawn));
    }

    /// Handles a frame of the agreement.
    #[cold]
    pub(super) fn close_frame(
        &mut self,
        cx: &mut Cx<'_, A>,
        close: Close,
    ) -> core::result::Result<(), Fault> {
        if !self.closing.has(SUPPORTED) {
            return Err(Fault::Rule("a request to close, which was not agreed on"));
        }
        match close {
            Close::Request if self.closing.is_ready() => {
                return Err(Fault::Rule("a second request to close"));
            }
            Close::Request if self.is_at_rest(cx) => {
                self.closing.set(READY, true);
                self.state = State::Resting;
                self.tx.out.answer(cx, &Frame::Close(Close::Ready));
            }
            Close::Request => self.tx.out.answer(cx, &Frame::Close(Close::Refused)),
            Close::Withdrawn => {
                self.closing.set(READY, false);
                self.go_on_sending(cx);
            }
            Close::Ready | Close::Refused if self.closing.has(STALE) => {
                self.closing.set(STALE, false);
                cx.todo(Todo::KeptOpen);
            }
            Close::Ready if self.closing.has(REQUESTED) && self.is_quiet() => {
                self.closing.set(REQUESTED, false);
                self.closing.set(OVER, true);
                cx.todo(Todo::Retire);
            }
            Close::Refused if self.closing.has(REQUESTED) => {
                self.closing.set(REQUESTED, false);
                self.go_on_sending(cx);
                cx.todo(Todo::KeptOpen);
            }
            Close::Ready | Close::Refused => {
                return Err(Fault::Rule(
                    "an answer to a request to close that it did not get",
                ));
            }
        }
        Ok(())
    }

    /// Ends the agreement if no part of it is left, and sends what waits.
    fn go_on_sending(&mut self, cx: &mut Cx<'_, A>) {
        if self.state != State::Resting || self.closing.is_ready() || self.closing.is_over() {
            return;
        }
        let waits = self.tx.has_waiting() || self.coll.is_some();
        match (self.closing.has(REQUESTED), waits) {
            (true, false) => return,
            (true, true) => self.withdraw_close(cx),
            (false, _) => self.state = State::Up,
        }
        if waits {
            cx.todo(Todo::Reopened);
        }
    }

    /// Takes over the operations that wait for the connection, because the last one was closed in agreement. The
    /// identity of the peer stays.
    pub fn continue_from(&mut self, last: Session<A>) {
        self.refused = last.refused.filter(|_| last.is_awaited());
        self.peer = last.peer;
        self.coll = last.coll;
        self.tx.take_waiting(last.tx);
    }
}
