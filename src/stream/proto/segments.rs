// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Memory that frames name: remote memory with its key, and messages that a peer fetches, which have none.

use core::ops::Deref;

/// Maximum of segments of remote memory in one operation.
pub const MAX_SEGS: usize = 4;

/// Remote memory: address (or offset), length and key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RmaSeg {
    pub addr: u64,
    pub len: u64,
    pub key: u64,
}

/// At most [`MAX_SEGS`] parts of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct List<T> {
    list: [T; MAX_SEGS],
    count: u8,
}

/// The remote memory of an operation.
pub type Segs = List<RmaSeg>;
/// Addresses in the sender's process and their lengths.
pub type PlaceList = List<(usize, usize)>;

impl<T> List<T> {
    /// Appends a part. Parts beyond [`MAX_SEGS`] are dropped, because the post call has already checked their number.
    pub fn push(&mut self, part: T) {
        if let Some(place) = self.list.get_mut(usize::from(self.count)) {
            *place = part;
            self.count += 1;
        }
    }
}

impl<T> Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.list[..usize::from(self.count).min(MAX_SEGS)]
    }
}

impl<T: Copy + Default> FromIterator<T> for List<T> {
    #[inline]
    fn from_iter<I: IntoIterator<Item = T>>(parts: I) -> Self {
        let mut list = List::default();
        parts.into_iter().for_each(|part| list.push(part));
        list
    }
}

impl Segs {
    /// Returns the sum of the lengths. Cannot overflow in a decoded frame.
    pub fn total(&self) -> u64 {
        self.iter().map(|seg| seg.len).sum()
    }

    /// Returns the length of each segment; absent segments have length 0.
    pub fn lens(&self) -> [u64; MAX_SEGS] {
        self.list.map(|seg| seg.len)
    }
}

impl PlaceList {
    /// Returns the sum of the lengths. Cannot overflow in a decoded frame.
    pub fn total(&self) -> u64 {
        self.iter().map(|&(_, len)| len as u64).sum()
    }

    /// Returns all places; absent ones have length 0.
    pub fn all(&self) -> [(usize, usize); MAX_SEGS] {
        self.list
    }

    /// Returns the places as segments on the wire. They need no keys, so the key of the first carries `word`.
    pub(super) fn with_word(&self, word: u64) -> Segs {
        let mut segs: Segs = self
            .iter()
            .map(|&(addr, len)| RmaSeg {
                addr: addr as u64,
                len: len as u64,
                key: 0,
            })
            .collect();
        segs.list[0].key = word;
        segs
    }

    /// Reverses `with_word`.
    pub(super) fn and_word(segs: &Segs) -> (PlaceList, u64) {
        let places = segs.iter().map(|seg| (seg.addr as usize, seg.len as usize));
        (places.collect(), segs.list[0].key)
    }
}
