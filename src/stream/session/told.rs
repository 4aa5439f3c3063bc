// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Messages that stay with the peer until they match a receive: docs/wire/tcp.md. The peer sends them on request, or
//! this side fetches them from memory that it shares with the peer.

mod fetch;
mod share;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

use crate::proto::{Exported, Offer, ReadyToSend, RendezvousData};
use crate::session::receive::Fault;
use crate::shm_channel::{Places, ShmChannel};
use base::IoVec;
use engine::domain_state::MessageInfo;
use engine::srx::{Envelope, RecvOp};
use hmem::export::Export;
use object::ops::transfer::What;
use sync::split_copy::SplitCopy;

pub use share::GARBAGE;

/// Messages that stay with a peer, from their announcement until they arrive. Few peers have any.
#[derive(Default)]
pub struct Told(Option<Box<Kept>>);

#[derive(Default)]
struct Kept {
    /// A bit for each index.
    indexes: [u64; 4],
    /// Messages that can be fetched and have not matched a receive, by index.
    offered: HashMap<u8, Offered, FxBuildHasher>,
    /// Requested messages by index.
    requested: HashMap<u8, Requested, FxBuildHasher>,
    /// Messages that both sides are copying.
    shared: Vec<Shared>,
    /// The memory of the next offer.
    exported: Option<Exported>,
}

/// A message that can be fetched from the peer's memory.
struct Offered {
    places: Places,
    /// The allocation of device memory that has the message.
    export: Option<Box<Export>>,
    /// The peer's epoch when it offered them: see `ShmChannel::is_revoked`.
    epoch: u32,
}

impl Offered {
    /// Copies as many bytes as both sides have. Returns false if the copy failed, or if the offer was revoked.
    fn fetch(&self, shm: &ShmChannel, to: &IoVec) -> bool {
        let (Some(export), (at, len)) = (&self.export, self.places[0]) else {
            return shm.fetch(&self.places, to, self.epoch);
        };
        let part = export.place(at, len.min(to.remaining()));
        part.is_some_and(|part| shm.fetch_export(export, part, to, self.epoch))
    }

    /// Does the same for all bytes, into a new buffer.
    fn fetch_bytes(&self, shm: &ShmChannel, len: usize) -> Option<Vec<u8>> {
        if self.export.is_none() {
            return shm.fetch_bytes(&self.places, len, self.epoch);
        }
        IoVec::bytes_by(len, |room| self.fetch(shm, room))
    }

    /// Whether both sides may copy parts of it.
    fn may_be_shared(&self) -> bool {
        self.export.is_none()
    }
}

/// A message that the peer sends.
pub struct Requested {
    /// Tick at which the message was requested.
    pub since: u16,
    /// `None` drops the bytes.
    pub recv: Option<RecvOp>,
    pub envelope: Envelope,
    pub ack: bool,
}

/// A message that this side fetches.
struct Wanted {
    index: u8,
    /// `None` if the receive is gone: the bytes are discarded.
    recv: Option<RecvOp>,
    envelope: Envelope,
}

/// A message whose sender copies a part of it.
struct Shared {
    wanted: Wanted,
    offered: Offered,
    job: SplitCopy,
    /// Whether all parts that this side copied succeeded.
    copied: bool,
}

/// The announcement of a message.
pub struct Announcement {
    pub info: MessageInfo,
    /// The message in `Told`, for `Envelope::note`.
    pub note: u64,
    /// The receive context that the message is for.
    pub context: u8,
}

impl Told {
    /// Adds an announced message.
    pub fn announced(&mut self, ready: &ReadyToSend) -> Result<Announcement, Fault> {
        if !self.add(ready.index) {
            return Err(Fault::Rule("ready-to-send with a bad index"));
        }
        Ok(Announcement {
            info: MessageInfo {
                what: What::Tagged,
                len: ready.size,
                tag: ready.tag,
                data: ready.data,
            },
            note: note_of(ready.index, ready.ack),
            context: ready.context,
        })
    }

    /// Notes the device memory of the next offer.
    pub fn exported(&mut self, exported: &Exported, shares: bool) -> Result<(), Fault> {
        if !shares || self.kept().exported.replace(*exported).is_some() {
            return Err(Fault::Rule("device memory without an offer"));
        }
        Ok(())
    }

    /// Adds a message that can be fetched. `shares`: memory is shared with the peer.
    pub fn offered(&mut self, offer: &Offer, shares: bool) -> Result<Announcement, Fault> {
        if !shares || !self.add(offer.index) {
            return Err(Fault::Rule("an offer with a bad index, or not agreed on"));
        }
        let export = match self.kept().exported.take() {
            None => None,
            Some(exported) if is_in(&exported, offer) => Some(Box::new(exported.export)),
            Some(_) => return Err(Fault::Rule("an offer that is not in the memory before it")),
        };
        let offered = Offered {
            places: offer.places.all(),
            export,
            epoch: offer.epoch,
        };
        self.kept().offered.insert(offer.index, offered);
        Ok(Announcement {
            info: MessageInfo {
                what: match offer.tagged {
                    true => What::Tagged,
                    false => What::Msg,
                },
                len: offer.places.total(),
                tag: offer.tag,
                data: offer.data,
            },
            note: note_of(offer.index, false),
            context: offer.context,
        })
    }

    /// Removes a requested message whose bytes arrive.
    pub fn arrives(&mut self, data: &RendezvousData) -> Result<Requested, Fault> {
        let requested = self.0.as_mut().map(|kept| &mut kept.requested);
        let Some(message) = requested.and_then(|requested| requested.remove(&data.index)) else {
            return Err(Fault::Rule("rendezvous data with an unknown index"));
        };
        if message.envelope.len != data.payload {
            self.kept().requested.insert(data.index, message);
            return Err(Fault::Rule(
                "rendezvous data of another length than announced",
            ));
        }
        self.remove(data.index);
        Ok(message)
    }

    /// Returns the requested messages.
    pub fn requested(&self) -> impl Iterator<Item = &Requested> {
        self.0.iter().flat_map(|kept| kept.requested.values())
    }

    /// Whether no message stays with the peer.
    pub fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|kept| {
            kept.indexes == [0; 4]
                && kept.offered.is_empty()
                && kept.requested.is_empty()
                && kept.shared.is_empty()
        })
    }

    /// Whether both sides are copying a message.
    #[inline]
    pub fn is_sharing(&self) -> bool {
        self.0.as_ref().is_some_and(|kept| !kept.shared.is_empty())
    }

    /// Has the bytes of messages dropped whose envelope fulfils a condition.
    pub fn discard(&mut self, is_meant: impl Fn(&Envelope) -> bool) {
        let Some(kept) = &mut self.0 else {
            return;
        };
        for message in kept.requested.values_mut() {
            if is_meant(&message.envelope) {
                message.recv = None;
            }
        }
        for Shared { wanted, .. } in &mut kept.shared {
            if is_meant(&wanted.envelope) {
                wanted.recv = None;
            }
        }
    }

    /// Returns the receives that wait for bytes.
    pub fn into_receives(self) -> impl Iterator<Item = (RecvOp, Envelope)> {
        let (requested, shared) = match self.0 {
            Some(kept) => (kept.requested, kept.shared),
            None => Default::default(),
        };
        let requested = requested.into_values();
        let requested = requested.map(|message| (message.recv, message.envelope));
        let shared = shared.into_iter();
        let shared = shared.map(|shared| (shared.wanted.recv, shared.wanted.envelope));
        let all = requested.chain(shared);
        all.filter_map(|(recv, envelope)| Some((recv?, envelope)))
    }

    fn kept(&mut self) -> &mut Kept {
        self.0.get_or_insert_default()
    }

    /// Adds a message. Returns false if its index is in use.
    #[must_use]
    fn add(&mut self, index: u8) -> bool {
        let (word, bit) = place(index);
        let word = &mut self.kept().indexes[word];
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Removes a message that has arrived.
    fn remove(&mut self, index: u8) {
        let (word, bit) = place(index);
        if let Some(kept) = &mut self.0 {
            kept.indexes[word] &= !bit;
        }
    }
}

/// Whether an offer is of a message in this memory.
fn is_in(exported: &Exported, offer: &Offer) -> bool {
    let one = match &offer.places[..] {
        &[(at, len)] => exported.export.place(at, len),
        _ => None,
    };
    one.is_some() && exported.index == offer.index
}

fn place(index: u8) -> (usize, u64) {
    (usize::from(index / 64), 1 << (index % 64))
}

/// Returns the note of an envelope for a message that is with the peer; 0 means none.
fn note_of(index: u8, ack: bool) -> u64 {
    u64::from(index) | u64::from(ack) << 8
}

fn of_note(note: u64) -> (u8, bool) {
    (note as u8, note >> 8 & 1 != 0)
}
