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
use crate::engine::stream::duct::{Help, Helping};
use crate::engine::stream::net::Net;
use crate::engine::stream::proto::{Header, Op};
use crate::engine::stream::rendezvous::{name_places, places_of};
use crate::engine::stream::rx::Fault;
use crate::engine::stream::transport::{Core, Stream};
use crate::sync::parts::{Job, Progress};

/// Messages from this size on are copied by both.
pub(super) const SHARE: usize = 64 * 1024;

/// How long a peer may take to end a copy to memory that is not to be written any more.
const PATIENCE: Duration = Duration::from_secs(2);

const GARBAGE: Fault = Fault::Rule("it wrote garbage to a message that both copy");

impl<N: Net> Stream<N> {
    /// Fetches `len` bytes of a message, of which its sender may copy a part.
    pub(super) fn fetch_together(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        mut shared: Shared,
        len: usize,
    ) {
        let Some(recv) = &shared.recv else {
            return;
        };
        let mut share = Header::new(Op::Share, 0);
        share.index = shared.index;
        name_places(&mut share, &recv.iov, len);
        // Keys have no meaning here.
        share.segs[0].key = u64::from(shared.job.number);
        self.send_always(core, id, &share, IoVec::empty(), None);
        let conn = &mut self.conns[id];
        let (Some(duct), Some(offers)) = (&mut conn.duct, &mut conn.rx.offers) else {
            return;
        };
        let fetched = duct.fetch_parts(&mut shared.job, &shared.offered.places, &recv.iov);
        let progress = duct.progress_of(&shared.job);
        shared.copied = fetched == Ok(true);
        let at = offers.shared.len();
        offers.shared.push(shared);
        match progress {
            _ if fetched.is_err() => self.found_garbage(id),
            Ok(Progress::Held) => {}
            Ok(progress @ (Progress::Over | Progress::Failed)) => {
                self.end_share(core, id, at, progress);
            }
            _ => self.found_garbage(id),
        }
    }

    /// Its reader ends the connection.
    #[cold]
    fn found_garbage(&mut self, id: usize) {
        if let Some(duct) = &mut self.conns[id].duct {
            duct.broken = true;
        }
        self.warm_duct(id);
    }

    /// What the sender has done by now; the word of it may stand behind many offers.
    pub(super) fn end_shares(&mut self, core: &mut Core<N>, id: usize) {
        let mut at = 0;
        while let Some(conn) = self.conns.get(id)
            && let (Some(shared), Some(duct)) = (conn.rx.shared().get(at), &conn.duct)
        {
            match duct.progress_of(&shared.job) {
                Ok(progress @ (Progress::Over | Progress::Failed)) => {
                    self.end_share(core, id, at, progress);
                }
                // What is wrong is found when the word comes.
                _ => at += 1,
            }
        }
    }

    /// A message of which the sender copies a part is not complete yet: what came behind it stays where it is, so that receives
    /// complete in the order of their messages. Not if the sender is gone, or has broken what they share: its reader finds that.
    #[inline]
    pub(super) fn waits_for_sender(&mut self, core: &mut Core<N>, id: usize) -> bool {
        match self.conns.get(id) {
            Some(conn) if !conn.rx.shared().is_empty() => self.waits_for_part(core, id),
            _ => false,
        }
    }

    #[cold]
    fn waits_for_part(&mut self, core: &mut Core<N>, id: usize) -> bool {
        self.end_shares(core, id);
        let Some(conn) = self.conns.get(id) else {
            return false;
        };
        let Some(duct) = conn.duct.as_ref().filter(|duct| !duct.ended) else {
            return false;
        };
        let mut shared = conn.rx.shared().iter();
        shared.any(|shared| duct.progress_of(&shared.job) == Ok(Progress::Held))
    }

    /// Nobody copies any more.
    fn end_share(&mut self, core: &mut Core<N>, id: usize, at: usize, progress: Progress) {
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
        if let (Some(duct), Some(recv)) = (&mut conn.duct, &recv) {
            duct.end_share(&job);
            if progress == Progress::Failed {
                duct.copies_alone = true;
                copied = duct.fetch(&offered.places, &recv.iov, offered.epoch);
            } else {
                copied &= !duct.is_revoked(offered.epoch);
            }
        }
        self.fetched(core, id, index, recv, envelope, copied);
    }

    /// The sender has done the last part of a message.
    pub(super) fn sender_done(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        index: u8,
    ) -> core::result::Result<(), Fault> {
        let conn = &self.conns[id];
        let Some(duct) = &conn.duct else {
            return Err(Fault::Rule("a word on a message that nobody shares"));
        };
        let shared = conn.rx.shared();
        // It may have been seen before the word of it came.
        let Some(at) = shared.iter().position(|shared| shared.index == index) else {
            return Ok(());
        };
        match duct.progress_of(&shared[at].job) {
            Ok(progress @ (Progress::Over | Progress::Failed)) => {
                self.end_share(core, id, at, progress);
                Ok(())
            }
            _ => Err(GARBAGE),
        }
    }

    /// The peer fetches a message of ours, and says where it goes.
    pub(super) fn asked_to_share(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        header: &Header,
    ) -> core::result::Result<(), Fault> {
        let conn = &mut self.conns[id];
        let offered = conn.tx.rendezvous.get(&header.index);
        let len = header.segs_len();
        if offered.is_none_or(|out| len > out.op.len as u64) {
            return Err(Fault::Rule("it shares a message that it was not offered"));
        }
        let Some(job) = Job::new(header.segs[0].key as u32, len as usize) else {
            return Err(GARBAGE);
        };
        let (index, to) = (header.index, places_of(header));
        if let Some(duct) = &mut conn.duct {
            duct.helping = Some(Helping { index, job, to });
        }
        self.help(core, id)
    }

    /// Copies a part of the message that the peer fetches.
    pub(super) fn help(
        &mut self,
        core: &mut Core<N>,
        id: usize,
    ) -> core::result::Result<(), Fault> {
        let conn = &mut self.conns[id];
        let Some(duct) = &mut conn.duct else {
            return Ok(());
        };
        let Some(mut helping) = duct.helping.take() else {
            return Ok(());
        };
        let offered = conn.tx.rendezvous.get(&helping.index);
        let Some(Payload::Buffers(from)) = offered.map(|out| &out.payload) else {
            return Ok(());
        };
        match duct.help(&mut helping.job, from, &helping.to) {
            Ok(Help::More) => {
                duct.helping = Some(helping);
                self.mark_dirty(id);
            }
            Ok(Help::Last) => {
                let mut done = Header::new(Op::Done, 0);
                done.index = helping.index;
                self.send_always(core, id, &done, IoVec::empty(), None);
            }
            Ok(Help::Over) => {}
            Err(_) => return Err(GARBAGE),
        }
        Ok(())
    }

    /// As `help`, at a look.
    pub(super) fn go_on_helping(&mut self, core: &mut Core<N>, id: usize) {
        let duct = self.conns.get(id).and_then(|conn| conn.duct.as_ref());
        if duct.is_none_or(|duct| duct.helping.is_none()) {
            return;
        }
        if let Err(fault) = self.help(core, id) {
            self.fault(core, id, &fault);
        }
    }

    /// Nothing is written any more to the memory of these messages that the peer copies to.
    #[cold]
    pub(super) fn take_back(&mut self, id: usize, which: impl Fn(&Shared) -> bool) -> bool {
        let conn = &self.conns[id];
        let Some(duct) = &conn.duct else {
            return true;
        };
        let all = conn.rx.shared().iter().filter(|shared| which(shared));
        let held = all
            .filter(|shared| !duct.take_back(&shared.job, PATIENCE))
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
    pub(super) fn leave_shared(&mut self, core: &mut Core<N>, id: usize, ep: usize) {
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
            self.lose(core, id, Error::CONNABORTED);
        }
    }
}
