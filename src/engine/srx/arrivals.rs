// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Messages of a receive context whose receives belong to another provider: fi_peer(3). Each is kept like a claimed
//! message (FI_CLAIM), so it waits for the receive that the owner names, whatever arrives meanwhile.
//!
//! Transports see no posted receives in such a context. Messages whose bytes are here are copied once more; large
//! ones stay with their sender until the receive is known, and are copied once.

use core::sync::atomic::{AtomicBool, Ordering};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Bytes, Lane, Multi, Outcome, RecvOp, Srx};
use crate::srx::{Envelope, MessageInfo};
use base::{Error, IoVec, OpFlags, Result};

use object::ops::transfer::What;
use object::peer::{Entry, PeerSrx, Place, Queueing, Whole};

/// The messages for which the owner was called, and those for which it was not called yet.
pub struct Arrivals {
    pub owner: Arc<PeerSrx>,
    place: Place,
    /// Receives may name memory of devices.
    takes_devices: bool,
    /// Number of messages so far.
    count: usize,
    /// Tokens of messages for which the owner was not called yet.
    untold: VecDeque<usize>,
    /// The owner's entries for messages that wait.
    queued: HashMap<usize, Lent>,
    over: Over,
}

/// Entries to return to the owner.
type Over = Arc<List>;

#[derive(Default)]
struct List {
    entries: Mutex<Vec<Entry>>,
    /// Whether there are any.
    any: AtomicBool,
}

/// An entry of the owner. Dropping it returns the entry, because the receive of the entry is over.
pub struct Lent {
    entry: Option<Entry>,
    over: Over,
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(entry) = self.entry.take() {
            let entries = &self.over.entries;
            let mut entries = entries.lock().unwrap_or_else(PoisonError::into_inner);
            entries.push(entry);
            self.over.any.store(true, Ordering::Release);
        }
    }
}

impl Arrivals {
    pub fn new(owner: Arc<PeerSrx>, place: Place, takes_devices: bool) -> Arrivals {
        Arrivals {
            owner,
            place,
            takes_devices,
            count: 0,
            untold: VecDeque::new(),
            queued: HashMap::new(),
            over: Over::default(),
        }
    }

    /// Adds a message that has arrived. Returns its token.
    pub(super) fn add(&mut self) -> usize {
        let token = self.place.token(self.count);
        self.count += 1;
        self.untold.push_back(token);
        token
    }

    /// Drops the entry of a message that is gone.
    pub(super) fn forget(&mut self, token: usize) {
        self.queued.remove(&token);
    }

    /// Whether a call to the owner is pending.
    #[inline]
    fn owes(&self) -> bool {
        !self.untold.is_empty() || self.over.any.load(Ordering::Relaxed)
    }

    pub fn lend(&self, entry: Entry) -> Lent {
        Lent {
            entry: Some(entry),
            over: self.over.clone(),
        }
    }

    pub fn take_over(&self) -> Vec<Entry> {
        if !self.over.any.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        let entries = &self.over.entries;
        std::mem::take(&mut entries.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Srx {
    /// Passes on a message that has arrived as a whole to the owner, if it has a receive for it. Not while the owner
    /// does not know of earlier messages, or of their completions.
    #[inline]
    pub fn pass_on(&self, message: &MessageInfo, from: u64, fill: impl FnOnce(&IoVec)) -> bool {
        let Some(arrivals) = &self.arrivals else {
            return false;
        };
        let whole = Whole {
            what: message.what,
            from,
            len: message.len,
            tag: message.tag,
            data: message.data,
        };
        !arrivals.owes() && arrivals.owner.deliver(&whole, fill)
    }

    fn claimed(&self, token: usize) -> Option<(&Lane, What)> {
        let lanes = [(&self.msg, What::Msg), (&self.tagged, What::Tagged)];
        lanes
            .into_iter()
            .find(|(lane, _)| lane.claims.contains_key(&token))
    }

    /// The message with this token, if it waits for a receive of the owner.
    pub fn arrival(&mut self, token: usize) -> Option<Envelope> {
        let (_, what) = self.claimed(token)?;
        let lane = self.lane(what);
        let id = *lane.claims.get(&token)?;
        Some(lane.matcher.unexpected(id).envelope)
    }

    /// Takes the messages for which the owner must be called, in order. Messages that were lost meanwhile are left out.
    pub fn take_unreported(&mut self) -> Vec<(usize, Envelope)> {
        let untold = match &mut self.arrivals {
            Some(arrivals) => std::mem::take(&mut arrivals.untold),
            None => return Vec::new(),
        };
        let mut all = Vec::with_capacity(untold.len());
        for token in untold {
            match self.arrival(token) {
                Some(_) if self.is_lost(token) => self.drop_arrival(token),
                Some(envelope) => all.push((token, envelope)),
                None => {}
            }
        }
        all
    }

    /// Queues the calls for these messages again, because the owner could not answer.
    pub fn put_back_untold(&mut self, tokens: impl DoubleEndedIterator<Item = usize>) {
        if let Some(arrivals) = &mut self.arrivals {
            tokens
                .rev()
                .for_each(|token| arrivals.untold.push_front(token));
        }
    }

    pub fn owes_owner(&self) -> bool {
        self.arrivals
            .as_ref()
            .is_some_and(|arrivals| arrivals.owes())
    }

    fn is_lost(&mut self, token: usize) -> bool {
        let Some((_, what)) = self.claimed(token) else {
            return false;
        };
        let lane = self.lane(what);
        let id = lane.claims[&token];
        matches!(lane.matcher.unexpected(id).bytes, Bytes::Lost)
    }

    fn drop_arrival(&mut self, token: usize) {
        let Some((_, what)) = self.claimed(token) else {
            return;
        };
        let lane = self.lane(what);
        if let Some(id) = lane.claims.remove(&token) {
            let message = lane.matcher.take_unexpected(id);
            self.budget.release(&message);
        }
    }

    /// Records that the owner keeps the message for a later receive. Returns `None` if the message is gone.
    pub fn queue_arrival(&mut self, token: usize, mut entry: Entry) -> Option<Queueing> {
        let is_there = self.claimed(token).is_some();
        let arrivals = self.arrivals.as_mut()?;
        let queueing = is_there.then(|| entry.queueing());
        let lent = arrivals.lend(entry);
        if is_there {
            arrivals.queued.insert(token, lent);
        }
        queueing
    }

    /// Reverts `queue_arrival`.
    pub fn unqueue(&mut self, token: usize) {
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.forget(token);
        }
    }

    /// Takes the entry that was queued with this token.
    pub fn take_queued(&mut self, token: usize) -> Option<Entry> {
        let mut lent = self.arrivals.as_mut()?.queued.remove(&token)?;
        lent.entry.take()
    }

    /// Starts the receive that the owner has found for the message.
    pub fn start(&mut self, token: usize, entry: Entry, out: &mut VecDeque<Outcome>) -> Result {
        let arrivals = self.arrivals.as_ref().ok_or(Error::INVAL)?;
        let mut receive = entry.receive();
        if arrivals.takes_devices
            && let Some(receive) = &mut receive
        {
            receive.iov.mark_devices();
        }
        // The entry is returned when the receive is over, whatever its result.
        let multi = Arc::new(Multi::lent(arrivals.lend(entry)));
        let receive = receive.ok_or(Error::INVAL)?;
        let (_, what) = self.claimed(token).ok_or(Error::INVAL)?;
        let lane = self.lane(what);
        let id = lane.claims.remove(&token).ok_or(Error::INVAL)?;
        let recv = RecvOp {
            base: receive.iov.base(),
            len: receive.iov.remaining(),
            iov: receive.iov,
            context: receive.context,
            flags: receive.flags & OpFlags::COMPLETION,
            multi: Some(multi),
        };
        self.meet_claimed(what, id, recv, out);
        Ok(())
    }

    /// Discards the message, which no receive will take. The owner has its entry already.
    pub fn discard_arrival(&mut self, token: usize, out: &mut VecDeque<Outcome>) -> Result {
        let (_, what) = self.claimed(token).ok_or(Error::INVAL)?;
        let id = self.lane(what).claims.remove(&token).ok_or(Error::INVAL)?;
        self.discard(what, id, out);
        Ok(())
    }
}
