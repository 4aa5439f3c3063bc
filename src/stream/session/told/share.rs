// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Large messages that receiver and sender copy together, each some parts: two processors copy faster than one, and the
//! waiting sender would be idle otherwise. `sync::split_copy` assigns the parts. docs/wire/shm.md.
//!
//! The receiver fetches as usual and sends the target address to the sender. A sender that polls copies parts there,
//! one in each poll (`SendState::help`). The receiver does not wait for a sender that sleeps or does not poll, unless
//! the sender is copying a part.

use super::{Shared, Told};
use crate::link::Link;
use crate::proto::{Frame, Share};
use crate::session::Cx;
use crate::session::announced::places_of;
use crate::session::common::Todo;
use crate::session::outbox::Outbox;
use crate::session::peer::Peer;
use crate::session::receive::Fault;
use crate::shm_channel::CLOSE_TIMEOUT;
use base::Result;
use base::log::{Source, Subsys, log_warn};
use engine::srx::Envelope;
use engine::transport::Address;
use sync::split_copy::Progress;
use sync::stats::Count;

pub const GARBAGE: Fault = Fault::Rule("it wrote garbage to a message that both copy");

impl Told {
    /// Fetches `len` bytes of a message of which the sender may copy a part.
    pub(super) fn fetch_together<A: Address>(
        &mut self,
        cx: &mut Cx<'_, A>,
        peer: &Peer<A>,
        out: &mut Outbox,
        mut shared: Shared,
        len: usize,
    ) -> Result {
        let wanted = &shared.wanted;
        let Some(recv) = &wanted.recv else {
            return Ok(());
        };
        cx.domain.eps[wanted.envelope.ep].stats.count(Count::Split);
        let share = Frame::Share(Share {
            index: wanted.index,
            places: places_of(&recv.iov, len),
            job: shared.job.number,
        });
        out.answer(cx, &share);
        let Some(shm) = cx.link.memory_mut() else {
            return Ok(());
        };
        let fetched = shm.fetch_parts(&mut shared.job, &shared.offered.places, &recv.iov);
        let progress = shm.progress_of(&shared.job);
        shared.copied = fetched == Ok(true);
        let all = &mut self.kept().shared;
        let at = all.len();
        all.push(shared);
        match progress {
            _ if fetched.is_err() => found_garbage(cx),
            Ok(Progress::Held) => {}
            Ok(progress @ (Progress::Over | Progress::Failed)) => {
                return self.end_share(cx, peer, out, at, progress);
            }
            _ => found_garbage(cx),
        }
        Ok(())
    }

    /// Ends the copies whose sender has done its parts. The sender's frame about it may be queued behind many offers.
    pub(super) fn end_shares<A: Address>(
        &mut self,
        cx: &mut Cx<'_, A>,
        peer: &Peer<A>,
        out: &mut Outbox,
    ) -> Result {
        let (mut at, mut ended) = (0, Ok(()));
        while let (Some(shared), Some(shm)) = (self.shared().get(at), cx.link.memory()) {
            match shm.progress_of(&shared.job) {
                Ok(progress @ (Progress::Over | Progress::Failed)) => {
                    ended = ended.and(self.end_share(cx, peer, out, at, progress));
                }
                // A fault is found when that frame arrives.
                _ => at += 1,
            }
        }
        ended
    }

    /// Whether a message of which the sender copies a part is incomplete. Returns false if the sender is gone or has
    /// corrupted the ring, which the read side detects.
    #[cold]
    pub fn waits_for_part<A: Address>(
        &mut self,
        cx: &mut Cx<'_, A>,
        peer: &Peer<A>,
        out: &mut Outbox,
    ) -> Result<bool> {
        self.end_shares(cx, peer, out)?;
        let Some(shm) = cx.link.memory().filter(|shm| !shm.ended) else {
            return Ok(false);
        };
        let mut all = self.shared().iter();
        Ok(all.any(|shared| shm.progress_of(&shared.job) == Ok(Progress::Held)))
    }

    /// Completes a message that both sides have finished copying.
    fn end_share<A: Address>(
        &mut self,
        cx: &mut Cx<'_, A>,
        peer: &Peer<A>,
        out: &mut Outbox,
        at: usize,
        progress: Progress,
    ) -> Result {
        let Shared {
            wanted,
            offered,
            job,
            mut copied,
        } = self.kept().shared.swap_remove(at);
        if let (Some(shm), Some(recv)) = (cx.link.memory_mut(), &wanted.recv) {
            shm.end_share(&job);
            if progress == Progress::Failed {
                shm.copies_alone = true;
                copied = shm.fetch(&offered.places, &recv.iov, offered.epoch);
            } else {
                copied &= !shm.is_revoked(offered.epoch);
            }
        }
        self.fetched(cx, peer, out, wanted, copied)
    }

    /// Handles the sender's frame that its last part of a message is done.
    pub fn sender_done<A: Address>(
        &mut self,
        cx: &mut Cx<'_, A>,
        peer: &Peer<A>,
        out: &mut Outbox,
        index: u8,
    ) -> core::result::Result<Result, Fault> {
        let Some(shm) = cx.link.memory() else {
            return Err(Fault::Rule("it has copied a message that nobody shares"));
        };
        let all = self.shared();
        // `end_shares` may have ended it before the frame came.
        let Some(at) = all.iter().position(|shared| shared.wanted.index == index) else {
            return Ok(Ok(()));
        };
        match shm.progress_of(&all[at].job) {
            Ok(progress @ (Progress::Over | Progress::Failed)) => {
                Ok(self.end_share(cx, peer, out, at, progress))
            }
            _ => Err(GARBAGE),
        }
    }

    /// Stops the peer's writes to the memory of messages whose envelope fulfils a condition. Returns false if the peer
    /// does not let go of it.
    #[cold]
    pub fn take_back<A: Address>(
        &self,
        link: &Link,
        peer: &Peer<A>,
        source: &'static Source,
        which: impl Fn(&Envelope) -> bool,
    ) -> bool {
        let Some(shm) = link.memory() else {
            return true;
        };
        let all = self.shared().iter();
        let all = all.filter(|shared| which(&shared.wanted.envelope));
        let held = all
            .filter(|shared| !shm.take_back(&shared.job, CLOSE_TIMEOUT))
            .count();
        if held > 0 {
            log_warn!(
                source,
                Subsys::EpData,
                "{}: it does not let go of memory that it copies a message to",
                peer.addr
            );
        }
        held == 0
    }

    fn shared(&self) -> &[Shared] {
        self.0.as_ref().map_or(&[], |kept| &kept.shared)
    }
}

/// Marks the ring as corrupt; the read side ends the connection.
#[cold]
fn found_garbage<A>(cx: &mut Cx<'_, A>) {
    cx.link.found_garbage();
    cx.todo(Todo::Poll);
}
