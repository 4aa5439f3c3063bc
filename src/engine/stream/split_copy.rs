// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Large messages that receiver and sender copy together, each some parts: two processors copy faster than one, and a sender
//! that waits has nothing else to do. `sync::parts` says who copies what. docs/wire/shm.md.
//!
//! The receiver fetches as it always does, and says where the message goes. A sender that looks at its queue copies parts there,
//! one for each look; one that does not, or sleeps, is not waited for, unless it is at work on a part.
#![forbid(unsafe_code)]

use std::time::Duration;

use crate::base::log::{Subsys, log_warn};
use crate::base::{Error, IoVec};
use crate::engine::stream::conn::{Payload, Shared};
use crate::engine::stream::net::Net;
use crate::engine::stream::proto::{Frame, Share};
use crate::engine::stream::rendezvous::places_of;
use crate::engine::stream::rx::Fault;
use crate::engine::stream::shm_channel::{Help, Helping};
use crate::engine::stream::transport::{DomainOf, Stream};
use crate::sync::parts::{Job, Progress};

/// Messages from this size on are copied by both.
pub(super) const SHARE: usize = 64 * 1024;

/// How long a peer may take to end a copy to memory that is not to be written any more.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

const GARBAGE: Fault = Fault::Rule("it wrote garbage to a message that both copy");

impl<N: Net> Stream<N> {
    /// Fetches `len` bytes of a message, of which its sender may copy a part.
    pub(super) fn fetch_together(
        &mut self,
        domain: &mut DomainOf<N>,
        id: usize,
        mut shared: Shared,
        len: usize,
    ) {
        let Some(to) = shared.recv.as_ref().map(|recv| recv.iov) else {
            return;
        };
        let share = Frame::Share(Share {
            index: shared.index,
            places: places_of(&to, len),
            job: shared.job.number,
        });
        self.send_always(domain, id, &share, IoVec::empty(), None);
        let conn = &mut self.conns[id];
        let (Some(shm), Some(offers)) = (&mut conn.shm, &mut conn.rx.offers) else {
            return;
        };
        let fetched = shm.fetch_parts(&mut shared.job, &shared.offered.places, &to);
        let progress = shm.progress_of(&shared.job);
        shared.copied = fetched == Ok(true);
        let at = offers.shared.len();
        offers.shared.push(shared);
        match progress {
            _ if fetched.is_err() => self.found_garbage(id),
            Ok(Progress::Held) => {}
            Ok(progress @ (Progress::Over | Progress::Failed)) => {
                self.end_share(domain, id, at, progress);
            }
            _ => self.found_garbage(id),
        }
    }

    /// Its reader ends the connection.
    #[cold]
    fn found_garbage(&mut self, id: usize) {
        if let Some(shm) = &mut self.conns[id].shm {
            shm.broken = true;
        }
        self.promote_shm(id);
    }

    /// What the sender has done by now; the word of it may stand behind many offers.
    pub(super) fn end_shares(&mut self, domain: &mut DomainOf<N>, id: usize) {
        let mut at = 0;
        while let Some(conn) = self.conns.get(id)
            && let (Some(shared), Some(shm)) = (conn.rx.shared().get(at), &conn.shm)
        {
            match shm.progress_of(&shared.job) {
                Ok(progress @ (Progress::Over | Progress::Failed)) => {
                    self.end_share(domain, id, at, progress);
                }
                // What is wrong is found when the word comes.
                _ => at += 1,
            }
        }
    }

    /// A message of which the sender copies a part is not complete yet: what came behind it stays where it is, so that receives
    /// complete in the order of their messages. Not if the sender is gone, or has broken what they share: its reader finds that.
    #[inline]
    pub(super) fn waits_for_sender(&mut self, domain: &mut DomainOf<N>, id: usize) -> bool {
        match self.conns.get(id) {
            Some(conn) if !conn.rx.shared().is_empty() => self.waits_for_part(domain, id),
            _ => false,
        }
    }

    #[cold]
    fn waits_for_part(&mut self, domain: &mut DomainOf<N>, id: usize) -> bool {
        self.end_shares(domain, id);
        let Some(conn) = self.conns.get(id) else {
            return false;
        };
        let Some(shm) = conn.shm.as_ref().filter(|shm| !shm.ended) else {
            return false;
        };
        let mut shared = conn.rx.shared().iter();
        shared.any(|shared| shm.progress_of(&shared.job) == Ok(Progress::Held))
    }

    /// Nobody copies any more.
    fn end_share(&mut self, domain: &mut DomainOf<N>, id: usize, at: usize, progress: Progress) {
        let conn = &mut self.conns[id];
        let Some(offers) = &mut conn.rx.offers else {
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
        if let (Some(shm), Some(recv)) = (&mut conn.shm, &recv) {
            shm.end_share(&job);
            if progress == Progress::Failed {
                shm.copies_alone = true;
                copied = shm.fetch(&offered.places, &recv.iov, offered.epoch);
            } else {
                copied &= !shm.is_revoked(offered.epoch);
            }
        }
        self.fetched(domain, id, index, recv, envelope, copied);
    }

    /// The sender has done the last part of a message.
    pub(super) fn sender_done(
        &mut self,
        domain: &mut DomainOf<N>,
        id: usize,
        index: u8,
    ) -> core::result::Result<(), Fault> {
        let conn = &self.conns[id];
        let Some(shm) = &conn.shm else {
            return Err(Fault::Rule("a word on a message that nobody shares"));
        };
        let shared = conn.rx.shared();
        // It may have been seen before the word of it came.
        let Some(at) = shared.iter().position(|shared| shared.index == index) else {
            return Ok(());
        };
        match shm.progress_of(&shared[at].job) {
            Ok(progress @ (Progress::Over | Progress::Failed)) => {
                self.end_share(domain, id, at, progress);
                Ok(())
            }
            _ => Err(GARBAGE),
        }
    }

    /// The peer fetches a message of ours, and says where it goes.
    pub(super) fn asked_to_share(
        &mut self,
        domain: &mut DomainOf<N>,
        id: usize,
        share: &Share,
    ) -> core::result::Result<(), Fault> {
        let conn = &mut self.conns[id];
        let offered = conn.tx.rendezvous.get(&share.index);
        let len = share.places.total();
        if offered.is_none_or(|out| len > out.op.len as u64) {
            return Err(Fault::Rule("it shares a message that it was not offered"));
        }
        let Some(job) = Job::new(share.job, len as usize) else {
            return Err(GARBAGE);
        };
        let (index, to) = (share.index, share.places.all());
        if let Some(shm) = &mut conn.shm {
            shm.helping = Some(Helping { index, job, to });
        }
        self.help(domain, id)
    }

    /// Copies a part of the message that the peer fetches.
    pub(super) fn help(
        &mut self,
        domain: &mut DomainOf<N>,
        id: usize,
    ) -> core::result::Result<(), Fault> {
        let conn = &mut self.conns[id];
        let Some(shm) = &mut conn.shm else {
            return Ok(());
        };
        let Some(mut helping) = shm.helping.take() else {
            return Ok(());
        };
        let offered = conn.tx.rendezvous.get(&helping.index);
        let Some(Payload::Buffers(from)) = offered.map(|out| &out.payload) else {
            return Ok(());
        };
        match shm.help(&mut helping.job, from, &helping.to) {
            Ok(Help::More) => {
                shm.helping = Some(helping);
                self.mark_dirty(id);
            }
            Ok(Help::Last) => {
                let done = Frame::Done {
                    index: helping.index,
                };
                self.send_always(domain, id, &done, IoVec::empty(), None);
            }
            Ok(Help::Over) => {}
            Err(_) => return Err(GARBAGE),
        }
        Ok(())
    }

    /// As `help`, at a look.
    pub(super) fn go_on_helping(&mut self, domain: &mut DomainOf<N>, id: usize) {
        let shm = self.conns.get(id).and_then(|conn| conn.shm.as_ref());
        if shm.is_none_or(|shm| shm.helping.is_none()) {
            return;
        }
        if let Err(fault) = self.help(domain, id) {
            self.fault(domain, id, &fault);
        }
    }

    /// Nothing is written any more to the memory of these messages that the peer copies to.
    #[cold]
    pub(super) fn take_back(&mut self, id: usize, which: impl Fn(&Shared) -> bool) -> bool {
        let conn = &self.conns[id];
        let Some(shm) = &conn.shm else {
            return true;
        };
        let all = conn.rx.shared().iter().filter(|shared| which(shared));
        let held = all
            .filter(|shared| !shm.take_back(&shared.job, CLOSE_TIMEOUT))
            .count();
        if held > 0 {
            log_warn!(
                N::SOURCE,
                Subsys::EpData,
                "{}: it does not let go of memory that it copies a message to",
                conn.peer
            );
        }
        held == 0
    }

    /// A receive context is closed: see `leave_receives`.
    pub(super) fn leave_shared(&mut self, domain: &mut DomainOf<N>, id: usize, ep: usize) {
        let of_context = |shared: &Shared| shared.envelope.ep == ep;
        if !self.conns[id].rx.shared().iter().any(of_context) {
            return;
        }
        let free = self.take_back(id, of_context);
        for shared in self.conns[id].rx.shared_mut() {
            if shared.envelope.ep == ep {
                shared.recv = None;
            }
        }
        if !free {
            self.disconnect(domain, id, Error::CONNABORTED);
        }
    }
}
