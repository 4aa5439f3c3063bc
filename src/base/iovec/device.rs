// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Pieces in memory of devices. Copies ask the driver; the kernel and other processes get and give their bytes through
//! the thread's stage.
//!
//! Trusted with: that the bytes in the stage are used before the next ones get there. A list of pieces is used up
//! before another is made.

use core::ops::Range;
use core::ptr;
use std::sync::{Mutex, PoisonError};

use hmem::faults::Fault;
use hmem::import::Import;
use hmem::transit::{Ahead, Landing};
use hmem::{address, stage};
use sys::io_list::GatherList;

use super::{IoVec, Piece, Span};
use crate::grow::reserve;

impl IoVec {
    /// Whether a device has a piece of the memory.
    #[inline]
    pub fn is_device(&self) -> bool {
        self.is_device
    }

    /// Records which pieces a device has.
    pub fn mark(&mut self, is_device: impl Fn(Span) -> bool) {
        for piece in &mut self.pieces[..usize::from(self.count)] {
            if piece.len > 0 && is_device(piece.span()) {
                piece.mark();
                self.is_device = true;
            }
        }
    }

    /// Whether a device has the next byte.
    #[inline]
    fn is_device_next(&self) -> bool {
        self.is_device && address::is_device(self.next_address())
    }

    /// If a device has the next byte, returns host memory for at most `max` of the next bytes, from where they get
    /// there. `landed` says how many there are.
    #[inline]
    pub fn landing_room<'a>(&self, landing: &'a mut Landing, max: usize) -> Option<&'a mut [u8]> {
        match self.is_device_next() && !self.is_source {
            true => self.room_in(landing, max),
            false => None,
        }
    }

    #[cold]
    fn room_in<'a>(&self, landing: &'a mut Landing, max: usize) -> Option<&'a mut [u8]> {
        let (at, len) = self.next_piece()?;
        let room = landing.room(at).ok()?;
        let len = len.min(max).min(room.len());
        Some(&mut room[..len])
    }

    /// Moves on by `n` bytes, which are in the room of the landing.
    #[cold]
    pub fn landed(&mut self, landing: &mut Landing, n: usize) {
        landing.filled(n);
        self.advance(n);
    }

    /// As `copy_in`; bytes for a device get there by the landing, which is made when there are some.
    #[cold]
    pub fn land(&mut self, mut bytes: &[u8], landing: &mut Option<Box<Landing>>) {
        while !bytes.is_empty() {
            let Some((at, len)) = self.next_piece() else {
                return;
            };
            let len = len.min(bytes.len());
            let room = match address::is_device(at) && !self.is_source {
                true => landing.get_or_insert_default().room(at).ok(),
                false => None,
            };
            let n = match room {
                None => self.copy_in(&bytes[..len]),
                Some(room) => {
                    let n = len.min(room.len());
                    room[..n].copy_from_slice(&bytes[..n]);
                    if let Some(landing) = landing {
                        self.landed(landing, n);
                    }
                    n
                }
            };
            if n == 0 {
                return;
            }
            bytes = &bytes[n..];
        }
    }

    /// As `append_to`, for all bytes; those of a device are read ahead of the calls that take them.
    #[cold]
    pub fn append_ahead<'a>(&'a self, out: &mut GatherList<'a>, ahead: &'a mut Ahead) -> usize {
        let mut skip = self.done;
        let mut added = 0;
        let mut ahead = Some(ahead);
        for piece in &self.pieces[usize::from(self.at)..usize::from(self.count)] {
            let len = piece.len - skip;
            let at = piece.base.wrapping_byte_add(skip);
            skip = 0;
            if len == 0 {
                continue;
            }
            let n = match (piece.is_device(), ahead.take()) {
                // SAFETY: as in `append_to`.
                (false, still) => match unsafe { out.push_raw(at, len) } {
                    true => {
                        ahead = still;
                        len
                    }
                    false => 0,
                },
                (true, Some(ahead)) => match ahead.bytes(at, len) {
                    Ok(bytes) if out.push(bytes) => bytes.len(),
                    Ok(_) => 0,
                    Err(_) => {
                        out.break_off();
                        0
                    }
                },
                // The parts of one piece only are lent at a time.
                (true, None) => 0,
            };
            added += n;
            if n < len {
                break;
            }
        }
        added
    }

    /// Does the same by asking the drivers.
    #[cold]
    pub fn mark_devices(&mut self) {
        self.mark(|span| hmem::driver::owner(span.start).is_some());
        // Earlier failures belong to other operations.
        self.take_fault();
    }

    /// Returns the address of the next byte, which is marked if a device has it, and how many there are in its piece.
    fn next_piece(&self) -> Option<(*const u8, usize)> {
        let mut skip = self.done;
        let pieces = &self.pieces[usize::from(self.at)..usize::from(self.count)];
        let mut rests = pieces.iter().map(|piece| {
            let done = core::mem::take(&mut skip);
            (
                piece.base.wrapping_byte_add(done).cast_const(),
                piece.len - done,
            )
        });
        rests.find(|&(_, len)| len > 0)
    }

    /// Returns the address of the next byte, which is marked if a device has it.
    pub fn next_address(&self) -> *const u8 {
        self.next_piece().map_or(ptr::null(), |(at, _)| at)
    }

    /// Fills the memory with bytes of a mapped allocation of another process. Returns false if they did not all arrive.
    #[cold]
    pub fn fill_from_import(&self, import: &Import, from: Range<usize>) -> bool {
        self.copy_by_place(from, |at, to, len| {
            // SAFETY: the maker of the piece promised its memory for as long as it is kept.
            unsafe { import.copy_to(at, to, len) }.is_ok()
        })
    }

    /// Does the same with device memory of this process.
    #[cold]
    pub fn fill_from_device(&self, from: Range<usize>) -> bool {
        self.copy_by_place(from, |at, to, len| {
            // SAFETY: as above; the driver checks the device's side.
            unsafe { hmem::driver::copy_within(at, to, len) }.is_ok()
        })
    }

    /// Copies the next bytes to a mapped allocation of another process. Returns false if they did not all arrive.
    #[cold]
    pub fn copy_to_import(&self, import: &Import, to: Range<usize>) -> bool {
        self.copy_by_place(to, |at, from, len| {
            // SAFETY: as above.
            unsafe { import.copy_from(at, from, len) }.is_ok()
        })
    }

    /// Does the same with device memory of this process.
    #[cold]
    pub fn copy_to_device(&self, to: Range<usize>) -> bool {
        self.copy_by_place(to, |at, from, len| {
            // SAFETY: as above; the driver checks the device's side.
            unsafe { hmem::driver::copy_within_to(at, from, len) }.is_ok()
        })
    }

    /// Returns `len` bytes that a call puts into new host memory, unless it returns false.
    #[cold]
    pub fn bytes_by(len: usize, fill: impl FnOnce(&IoVec) -> bool) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        reserve(&mut bytes, len).ok()?;
        bytes.resize(len, 0);
        // SAFETY: the list is dropped before `bytes` is used again.
        let piece = unsafe { Piece::new(bytes.as_mut_ptr(), len) };
        fill(&IoVec::from(piece)).then_some(bytes)
    }

    fn copy_by_place(
        &self,
        from: Range<usize>,
        copy: impl Fn(usize, *mut u8, usize) -> bool,
    ) -> bool {
        let mut from = from;
        let mut skip = self.done;
        for piece in &self.pieces[usize::from(self.at)..usize::from(self.count)] {
            let len = (piece.len - skip).min(from.len());
            if len > 0 && !copy(from.start, piece.base.wrapping_byte_add(skip), len) {
                return false;
            }
            from.start += len;
            skip = 0;
        }
        true
    }

    /// Changes the next `len` bytes through a copy in the host's memory, one such change of the process at a time. It
    /// is not atomic for the device itself, or for other processes.
    #[cold]
    pub fn change_by_copy(&mut self, len: usize, change: impl FnOnce(&mut IoVec)) {
        static CHANGE: Mutex<()> = Mutex::new(());
        let _change = CHANGE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut part = self.split_off(len);
        let mut bytes = Vec::new();
        part.copy_out(&mut bytes);
        let before = bytes.clone();
        // SAFETY: the list is dropped before `bytes` is used again.
        let piece = unsafe { Piece::new(bytes.as_mut_ptr(), bytes.len()) };
        change(&mut IoVec::from(piece));
        if bytes != before {
            part.copy_in(&bytes);
        }
    }

    /// Returns and forgets the failure of a copy to or from this memory.
    #[inline]
    pub fn take_fault(&self) -> Option<Fault> {
        match hmem::faults::any() {
            false => None,
            true => self.find_fault(),
        }
    }

    #[cold]
    fn find_fault(&self) -> Option<Fault> {
        let pieces = self.pieces[..usize::from(self.count)].iter();
        let spans = pieces
            .filter(|piece| piece.is_device())
            .map(|piece| piece.span());
        spans
            .filter_map(|span| hmem::faults::take(span.start, span.len))
            .reduce(|first, _| first)
    }
}

/// Copies bytes of device memory to the stage, behind those of the list that are there, and adds them to the list.
#[cold]
#[inline(never)]
pub(super) fn stage(from: *const u8, len: usize, out: &mut GatherList<'_>) -> usize {
    let base = stage::base();
    let inside = |at: usize| at.checked_sub(base.addr()).filter(|&at| at < stage::LEN);
    let pieces = out.pieces().iter();
    let ends = pieces.filter_map(|piece| Some(inside(piece.iov_base.addr())? + piece.iov_len));
    let used = ends.max().unwrap_or(0);
    let len = len.min(stage::LEN - used);
    if len == 0 {
        return 0;
    }
    // SAFETY: `used + len` is within the stage, which belongs to this thread; it stays, and no other list of the thread
    // is in use.
    unsafe {
        let room = base.add(used);
        if !hmem::read_device(from, room, len) {
            out.break_off();
        }
        match out.push_raw(room, len) {
            true => len,
            false => 0,
        }
    }
}
