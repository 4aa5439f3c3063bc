// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! One registered region: its place, its access rights, and the memory that an access to it covers.

use std::ops::Deref;
use std::sync::OnceLock;

use crate::auth::Key;
use base::{Access, Error, IoVec, Piece, Registered, Result, Span};
use hmem::faults::{self, Fault};

/// Memory that the application registered. Accesses in progress hold it; closing it ends them.
pub struct Region<C> {
    /// Virtual address of the first segment.
    pub base: usize,
    /// Bytes of all segments.
    pub len: usize,
    /// The address that peers use for the first byte if they address by offset.
    pub offset: u64,
    /// The key. A region that peers must not access has one, too.
    pub key: u64,
    pub access: Access,
    /// Peers use virtual addresses.
    pub virt: bool,
    #[allow(dead_code)] // For providers that report remote events with it.
    pub context: usize,
    segments: Segments,
    counter: OnceLock<C>,
    single_use: OnceLock<()>,
    persistent: OnceLock<()>,
    closed: OnceLock<()>,
    /// Peers must have one of these keys; without the list any peer is admitted.
    keys: OnceLock<Box<[Key]>>,
}

impl<C> Region<C> {
    pub(super) fn new(
        segments: Segments,
        offset: u64,
        key: u64,
        access: Access,
        virt: bool,
        context: usize,
    ) -> Self {
        Region {
            base: segments[0].span().start,
            len: segments.iter().map(Registered::len).sum(),
            offset,
            key,
            access,
            virt,
            context,
            segments,
            counter: OnceLock::new(),
            single_use: OnceLock::new(),
            persistent: OnceLock::new(),
            closed: OnceLock::new(),
            keys: OnceLock::new(),
        }
    }

    /// fi_mr_bind(3) with FI_REMOTE_WRITE: sets the counter for accesses of peers. Can be called once.
    pub fn bind_counter(&self, counter: C) -> Result {
        self.counter.set(counter).map_err(|_| Error::BUSY)
    }

    #[inline]
    pub fn counter(&self) -> Option<&C> {
        self.counter.get()
    }

    /// Returns the address range if peers may access the region without any check or notification on this side.
    pub fn alone(&self) -> Option<Span> {
        let watched = self.counter().is_some() || self.is_single_use() || self.keys.get().is_some();
        match &*self.segments {
            [only] if !watched && self.access.intersects(Access::REMOTE) => Some(only.span()),
            _ => None,
        }
    }

    /// Whether a device has memory of the region.
    pub fn is_device(&self) -> bool {
        self.segments.iter().any(Registered::is_device)
    }

    /// Returns and forgets the failure of a copy to or from the region's memory.
    #[inline]
    pub fn take_fault(&self) -> Option<Fault> {
        match faults::any() {
            false => None,
            true => self.find_fault(),
        }
    }

    #[cold]
    fn find_fault(&self) -> Option<Fault> {
        let segments = self.segments.iter().filter(|segment| segment.is_device());
        let mut spans = segments.map(Registered::span);
        spans.find_map(|span| faults::take(span.start, span.len))
    }

    /// FI_MR_SINGLE_USE: peers may access it once.
    pub fn allow_one_use(&self) {
        let _ = self.single_use.set(());
    }

    /// fi_mr(3), auth_key: only peers that have one of these keys may access it.
    pub fn restrict_to(&self, keys: impl IntoIterator<Item = Key>) {
        let _ = self.keys.set(keys.into_iter().collect());
    }

    #[inline]
    pub(super) fn admits(&self, auth: Option<&Key>) -> bool {
        match self.keys.get() {
            None => true,
            Some(keys) => auth.is_some_and(|auth| keys.contains(auth)),
        }
    }

    pub fn is_single_use(&self) -> bool {
        self.single_use.get().is_some()
    }

    /// FI_RMA_PMEM: data that peers write can be made durable (FI_COMMIT_COMPLETE).
    pub fn set_persistent(&self) {
        let _ = self.persistent.set(());
    }

    pub fn is_persistent(&self) -> bool {
        self.persistent.get().is_some()
    }

    pub(super) fn close(&self) {
        // A second close changes nothing.
        let _ = self.closed.set(());
    }

    #[inline]
    pub fn is_closed(&self) -> bool {
        self.closed.get().is_some()
    }

    /// fi_mr_refresh(3): pages behind these virtual address ranges may have changed; no range means all of them. The
    /// kernel looks pages up at each access, so this only refuses ranges outside the region.
    pub fn refresh(&self, ranges: &[Span]) -> Result {
        match !self.is_closed() && self.contains(ranges) {
            true => Ok(()),
            false => Err(Error::INVAL),
        }
    }

    /// Returns true if each of these virtual address ranges lies within a segment.
    pub fn contains(&self, ranges: &[Span]) -> bool {
        ranges.iter().all(|&range| {
            let mut segments = self.segments.iter();
            segments.any(|segment| segment.span().contains(range))
        })
    }

    /// fi_mr_raw_attr(3): the key as bytes to send to a peer, the same on every kind of machine.
    pub fn raw_key(&self) -> [u8; RAW_KEY_SIZE] {
        self.key.to_le_bytes()
    }

    /// fi_mr_raw_attr(3): the address that peers use for the region's first byte.
    pub fn remote_base(&self) -> u64 {
        match self.virt {
            true => self.base as u64,
            false => self.offset,
        }
    }

    /// Returns the memory that an access by a peer covers, piece by piece. `INVAL` if a part of it is outside the
    /// region.
    pub fn reach(&self, addr: u64, len: u64) -> Result<IoVec> {
        self.reached(addr, len).ok_or(Error::INVAL)
    }

    /// Does the same as `reach`, for an access within one segment.
    #[inline]
    pub fn reach_one(&self, addr: u64, len: u64) -> Result<Piece> {
        if let [only] = &*self.segments {
            let first = self.remote_base();
            let start = within((first, only.len() as u64), addr, len).ok_or(Error::INVAL)?;
            return only.part(start as usize, len as usize).ok_or(Error::INVAL);
        }
        self.reach(addr, len)?.into_one().ok_or(Error::INVAL)
    }

    #[inline]
    pub(super) fn check(&self, need: Access) -> Result {
        match self.access.contains(need) {
            true => Ok(()),
            false => Err(Error::ACCES),
        }
    }

    fn reached(&self, addr: u64, len: u64) -> Option<IoVec> {
        if let [only] = &*self.segments {
            let start = within((self.remote_base(), only.len() as u64), addr, len)?;
            return only.part(start as usize, len as usize).map(IoVec::from);
        }
        if self.virt {
            return self.segments.cut_at(addr as usize, len as usize);
        }
        let start = within((self.offset, self.len as u64), addr, len)?;
        self.segments.cut(start as usize, len as usize)
    }
}

/// A few pieces, at least one.
pub struct Segments {
    list: [Registered; IOV_LIMIT],
    count: usize,
}

impl Segments {
    /// Checks the segments from an application. `offset` is the address that peers use for the first byte.
    pub(super) fn checked(segments: Vec<Registered>, offset: u64) -> Result<Segments> {
        if segments.is_empty() || segments.len() > IOV_LIMIT {
            return Err(Error::INVAL);
        }
        let mut total = 0usize;
        for segment in &segments {
            let Span { start, len } = segment.span();
            start.checked_add(len).ok_or(Error::INVAL)?;
            total = total.checked_add(len).ok_or(Error::INVAL)?;
        }
        offset.checked_add(total as u64).ok_or(Error::INVAL)?;
        let mut list = [const { Registered::empty() }; IOV_LIMIT];
        let count = segments.len();
        for (place, segment) in list.iter_mut().zip(segments) {
            *place = segment;
        }
        Ok(Segments { list, count })
    }

    /// Returns the bytes that an access of `len` bytes at this virtual address covers. Behind the end of a segment it
    /// continues at the next virtual address if a segment has that, and otherwise in the next segment, as by offsets.
    fn cut_at(&self, addr: usize, len: usize) -> Option<IoVec> {
        let (mut at, mut skip) = self.find(addr, len)?;
        let mut pieces = IoVec::empty();
        let mut left = len;
        loop {
            let segment = self.get(at)?;
            let taken = left.min(segment.len() - skip);
            // Segments may overlap, so an access can return to one; it can have at most `IOV_LIMIT` pieces.
            if (taken > 0 || left == 0) && !pieces.push(segment.part(skip, taken)?) {
                return None;
            }
            left -= taken;
            if left == 0 {
                return Some(pieces);
            }
            let Span { start, len } = segment.span();
            let behind = if len > 0 {
                self.find(start + len, 1)
            } else {
                None
            };
            (at, skip) = behind.unwrap_or((at + 1, 0));
        }
    }

    /// Finds the segment with this virtual address, and the offset in that segment. The address of an access without
    /// bytes may also be the end of a segment.
    fn find(&self, addr: usize, len: usize) -> Option<(usize, usize)> {
        self.iter().enumerate().find_map(|(at, segment)| {
            let Span { start, len: room } = segment.span();
            let skip = within((start as u64, room as u64), addr as u64, len.min(1) as u64)?;
            Some((at, skip as usize))
        })
    }

    /// Returns the pieces of `start..start + len`, which is inside.
    fn cut(&self, start: usize, len: usize) -> Option<IoVec> {
        let mut pieces = IoVec::empty();
        let (mut skip, mut left) = (start, len);
        for segment in self.iter() {
            let room = segment.len();
            if skip > room || (skip == room && left > 0) {
                skip -= room;
                continue;
            }
            let taken = left.min(room - skip);
            pieces.push(segment.part(skip, taken)?);
            left -= taken;
            skip = 0;
            if left == 0 {
                break;
            }
        }
        Some(pieces)
    }
}

impl Deref for Segments {
    type Target = [Registered];

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.list[..self.count]
    }
}

/// Returns the key for a peer's raw key. The key needs no release.
pub fn map_raw_key(raw: &[u8]) -> Result<u64> {
    let bytes = raw.try_into().map_err(|_| Error::INVAL)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Returns the offset in the segment at which the range starts, if all of the range is inside.
#[inline]
fn within((base, room): (u64, u64), start: u64, len: u64) -> Option<u64> {
    let skip = start.checked_sub(base)?;
    (len <= room.checked_sub(skip)?).then_some(skip)
}

/// Limit on the segments of one region.
pub const IOV_LIMIT: usize = 4;

/// Bytes of a raw key: fi_domain(3), mr_key_size.
pub const RAW_KEY_SIZE: usize = 8;
