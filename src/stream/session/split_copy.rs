// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Large messages that receiver and sender copy together, each some parts: two processors copy faster than one, and the
//! waiting sender would be idle otherwise. `sync::split_copy` assigns the parts. docs/wire/shm.md.
//!
//! The receiver fetches as usual and sends the target address to the sender. A sender that polls copies parts there,
//! one in each poll. The receiver does not wait for a sender that sleeps or does not poll, unless the sender is copying
//! a part.

use crate::link::Link;
use crate::proto::{Frame, Share};
use crate::session::announced::places_of;
use crate::session::common::Todo;
use crate::session::offers::Shared;
use crate::session::receive::Fault;
use crate::session::{Cx, Ending, Session};
use crate::shm_channel::CLOSE_TIMEOUT;
use base::Error;
use base::log::{Source, Subsys, log_warn};
use engine::transport::Address;
use sync::split_copy::Progress;
use sync::stats::Count;

pub const GARBAGE: Fault = Fault::Rule("it wrote garbage to a message that both copy");

impl<A: Address> Session<A> {
    /// Fetches `len` bytes of a message of which the sender may copy a part.
    pub fn fetch_together(&mut self, cx: &mut Cx<'_, A>, mut shared: Shared, len: usize) {
        let Some(recv) = &shared.recv else {
            return;
        };
        cx.domain.ep(shared.envelope.ep).stats.count(Count::Split);
        let share = Frame::Share(Share {
            index: shared.index,
            places: places_of(&recv.iov, len),
            job: shared.job.number,
        });
        self.tx.out.answer(cx, &share);
        let (Some(shm), Some(offers)) = (cx.link.memory_mut(), &mut self.rx.offers) else {
            return;
        };
        let fetched = shm.fetch_parts(&mut shared.job, &shared.offered.places, &recv.iov);
        let progress = shm.progress_of(&shared.job);
        shared.copied = fetched == Ok(true);
        let at = offers.shared.len();
        offers.shared.push(shared);
        match progress {
            _ if fetched.is_err() => self.found_garbage(cx),
            Ok(Progress::Held) => {}
            Ok(progress @ (Progress::Over | Progress::Failed)) => {
                self.end_share(cx, at, progress);
            }
            _ => self.found_garbage(cx),
        }
    }

    /// Marks the ring as corrupt; the read side ends the connection.
    #[cold]
    fn found_garbage(&mut self, cx: &mut Cx<'_, A>) {
        cx.link.found_garbage();
        cx.todo(Todo::Poll);
    }

    /// Ends the copies whose sender has done its parts. The sender's frame about it may be queued behind many offers.
    pub fn end_shares(&mut self, cx: &mut Cx<'_, A>) {
        let mut at = 0;
        while let (Some(shared), Some(shm)) = (self.rx.shared().get(at), cx.link.memory()) {
            match shm.progress_of(&shared.job) {
                Ok(progress @ (Progress::Over | Progress::Failed)) => {
                    self.end_share(cx, at, progress);
                }
                // A fault is found when that frame arrives.
                _ => at += 1,
            }
        }
    }

    /// Whether a message of which the sender copies a part is incomplete. Later messages stay in the ring then, so that
    /// receives complete in message order. Returns false if the sender is gone or has corrupted the ring, which the
    /// read side detects.
    #[inline]
    pub fn waits_for_sender(&mut self, cx: &mut Cx<'_, A>) -> bool {
        !self.rx.shared().is_empty() && self.waits_for_part(cx)
    }

    #[cold]
    fn waits_for_part(&mut self, cx: &mut Cx<'_, A>) -> bool {
        self.end_shares(cx);
        let Some(shm) = cx.link.memory().filter(|shm| !shm.ended) else {
            return false;
        };
        let mut shared = self.rx.shared().iter();
        shared.any(|shared| shm.progress_of(&shared.job) == Ok(Progress::Held))
    }

    /// Completes a message that both sides have finished copying.
    fn end_share(&mut self, cx: &mut Cx<'_, A>, at: usize, progress: Progress) {
        let Some(offers) = &mut self.rx.offers else {
            return;
        };
        let Shared {
            index,
            recv,
            envelope,
            offered,
            job,
            mut copied,
        } = offers.shared.swap_remove(at);
        if let (Some(shm), Some(recv)) = (cx.link.memory_mut(), &recv) {
            shm.end_share(&job);
            if progress == Progress::Failed {
                shm.copies_alone = true;
                copied = shm.fetch(&offered.places, &recv.iov, offered.epoch);
            } else {
                copied &= !shm.is_revoked(offered.epoch);
            }
        }
        self.fetched(cx, index, recv, envelope, copied);
    }

    /// Handles the sender's frame that its last part of a message is done.
    pub fn sender_done(
        &mut self,
        cx: &mut Cx<'_, A>,
        index: u8,
    ) -> core::result::Result<(), Fault> {
        let Some(shm) = cx.link.memory() else {
            return Err(Fault::Rule("it has copied a message that nobody shares"));
        };
        let shared = self.rx.shared();
        // `end_shares` may have ended it before the frame came.
        let Some(at) = shared.iter().position(|shared| shared.index == index) else {
            return Ok(());
        };
        match shm.progress_of(&shared[at].job) {
            Ok(progress @ (Progress::Over | Progress::Failed)) => {
                self.end_share(cx, at, progress);
                Ok(())
            }
            _ => Err(GARBAGE),
        }
    }

    /// Copies a part of a message that the peer fetches, in a poll.
    pub fn go_on_helping(&mut self, cx: &mut Cx<'_, A>) {
        if self.tx.announced.is_helping()
            && let Err(fault) = self.tx.help(cx)
        {
            self.end(cx, Ending::Fault(fault));
        }
    }

    /// Handles the close of a receive context: its messages are not written any more.
    pub fn leave_shared(&mut self, cx: &mut Cx<'_, A>, ep: usize) {
        let of_context = |shared: &Shared| shared.envelope.ep == ep;
        if !self.rx.shared().iter().any(of_context) {
            return;
        }
        let free = self.take_back(cx.link, cx.common.source, of_context);
        for shared in self.rx.shared_mut() {
            if shared.envelope.ep == ep {
                shared.recv = None;
            }
        }
        if !free {
            self.end(cx, Ending::Lost(Error::CONNABORTED));
        }
    }

    /// Stops the peer's writes to the memory of these messages.
    #[cold]
    pub fn take_back(
        &self,
        link: &Link,
        source: &'static Source,
        which: impl Fn(&Shared) -> bool,
    ) -> bool {
        let Some(shm) = link.memory() else {
            return true;
        };
        let all = self.rx.shared().iter().filter(|shared| which(shared));
        let held = all
            .filter(|shared| !shm.take_back(&shared.job, CLOSE_TIMEOUT))
            .count();
        if held > 0 {
            log_warn!(
                source,
                Subsys::EpData,
                "{}: it does not let go of memory that it copies a message to",
                self.peer.addr
            );
        }
        held == 0
    }
}
