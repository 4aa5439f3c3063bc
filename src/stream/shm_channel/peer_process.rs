// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The process at the other end of a channel, and copies from and to its memory: messages that it has offered, and its
//! registered regions. process_vm_readv(2).

use core::cell::Cell;
use core::ops::Range;
use std::io;
use std::os::fd::OwnedFd;

use super::{Places, RECORD};
use crate::process_probe::ProcessProbe;
use base::grow::reserve;
use base::iovec::Cursor;
use base::{Access, IoVec};
use hmem::Kind;
use hmem::export::Export;
use hmem::transit::Landing;
use object::ops::transfer::RemoteSeg;
use sync::region_table::{self, TableView};
use sync::segment::Words;
use sync::split_copy::Part;
use sys::io_list::{GatherList, ScatterList};
use sys::process_memory::{OtherProcess, Process};

/// The process at the other end.
#[derive(Default)]
pub struct PeerProcess {
    /// The process, if its memory can be read.
    process: Option<Process>,
    probe: ProcessProbe,
    /// Kinds of device memory that it can map, a bit for each.
    imports: u8,
    /// Set if the other side is in this process.
    is_own: bool,
    /// Allocations of it may be mapped.
    has_imports: Cell<bool>,
    /// Its regions on devices cannot be mapped: they are accessed by messages.
    cannot_import: Cell<bool>,
    /// Its directory of registered memory.
    directory: Option<TableView>,
}

impl PeerProcess {
    /// Records the process at the other end, and tests whether its memory can be read and written.
    pub fn meet(&mut self, process: Option<Process>, probe: &ProcessProbe) {
        self.process = process;
        self.probe = *probe;
        if !self.is_alive() {
            self.process = None;
        }
    }

    /// Whether the process at the other end is alive and the same: its memory can be read and contains its probe.
    pub fn is_alive(&self) -> bool {
        let mut seen = [0; ProcessProbe::LEN];
        let mut list = ScatterList::new();
        list.push(&mut seen);
        let place = [(self.probe.address as usize, ProcessProbe::LEN)];
        let read = self.process.map(|process| process.read(&list, &place));
        matches!(read, Some(Ok(ProcessProbe::LEN))) && seen == self.probe.bytes
    }

    /// Whether its memory can be read.
    #[inline]
    pub fn is_reached(&self) -> bool {
        self.process.is_some()
    }

    /// Whether its memory can also be written, which is so if both ends are not in one process: a write there could
    /// change what this process has references to.
    pub(super) fn can_write(&self) -> bool {
        self.process.and_then(Process::other).is_some()
    }

    #[inline(always)]
    fn way(&self, write: bool) -> Option<Way> {
        let process = self.process?;
        match write {
            true => process.other().map(Way::Write),
            false => Some(Way::Read(process)),
        }
    }

    /// Whether the other side can fetch a message of this length, and whether that may be faster.
    #[inline]
    pub fn fetches(&self, len: usize) -> bool {
        self.is_reached() && len >= RECORD
    }

    /// Records what the other side says about itself, before its memory is tested. `id`: its number, from the kernel.
    pub fn introduce(&mut self, id: Option<i32>, probe: &ProcessProbe, imports: u8) {
        self.is_own = id.is_some_and(|id| id as u32 == std::process::id());
        self.probe = *probe;
        self.imports = imports;
    }

    /// Whether the other side can probably map memory of this kind.
    pub fn maps(&self, kind: Kind) -> bool {
        self.imports & hmem::import::bit(kind) != 0
    }

    /// Records that the other side did not fetch an allocation of this kind.
    pub fn does_not_map(&mut self, kind: Kind) {
        self.imports &= !hmem::import::bit(kind);
    }

    /// Copies bytes of an allocation of the other side to local memory.
    pub(super) fn copy_export(&self, export: &Export, from: Range<usize>, to: &IoVec) -> bool {
        if self.is_own {
            let base = export.base as usize;
            return to.fill_from_device(base + from.start..base + from.end);
        }
        self.has_imports.set(true);
        let import = hmem::import::open(self.probe.bytes, export, to.next_address());
        import.is_ok_and(|import| to.fill_from_import(&import, from))
    }

    /// Maps the other side's directory of registered memory.
    pub fn read_directory(&mut self, fd: &OwnedFd) -> io::Result<()> {
        self.directory = Some(match self.process {
            Some(process) => TableView::of_process(fd, process),
            None => TableView::new(fd),
        }?);
        Ok(())
    }

    /// Whether registered memory of the other side can be accessed directly.
    #[inline]
    pub fn reaches_regions(&self) -> bool {
        self.process.is_some() && self.directory.is_some()
    }

    /// Whether its memory could be read and cannot be read any more.
    pub fn is_gone(&self) -> bool {
        self.is_reached() && !self.is_alive()
    }

    /// Whether the other side's directory allows this access to its memory.
    pub fn allows(&self, seg: &RemoteSeg, need: Access) -> bool {
        let find = |table: &TableView| table.find(seg.key, seg.addr, seg.len as u64, need.bits());
        self.directory.as_ref().and_then(find).is_some()
    }

    /// Copies the next `len` bytes between `local` and registered memory of the other side. Returns false if not all of
    /// it was copied.
    #[inline(always)]
    pub(super) fn copy_region(
        &self,
        words: &Words,
        local: &mut Cursor<'_>,
        seg: &RemoteSeg,
        write: bool,
    ) -> bool {
        let (Some(process), Some(directory)) = (self.process, &self.directory) else {
            return false;
        };
        let need = if write {
            Access::REMOTE_WRITE
        } else {
            Access::REMOTE_READ
        };
        let part = directory.find(seg.key, seg.addr, seg.len as u64, need.bits());
        let Some(part) = part else {
            return false;
        };
        if part.is_device {
            return !self.cannot_import.get()
                && self.copy_device_region(words, local, &part, seg.len, write);
        }
        if local.is_device() {
            return false;
        }
        let Some(_word) = directory.begin(&part, words.own().in_use()) else {
            return false;
        };
        let mut done = 0;
        while done < seg.len {
            // The owner waits for this when it withdraws the region or ends the connection.
            let has_left = words.other().in_use().has_left();
            if has_left || done > 0 && !directory.shows(&part) {
                return false;
            }
            let step = (seg.len - done).min(STEP);
            let copied = match write {
                true => {
                    let mut list = GatherList::new();
                    local.append_to(&mut list, step);
                    directory.write(&part, done, &list)
                }
                false => {
                    let there = [(part.address.wrapping_add(done), step)];
                    Way::Read(process).copy(local, step, &there, None)
                }
            };
            match copied {
                Ok(n) if n > 0 => {
                    local.advance(n);
                    done += n;
                }
                _ => return false,
            }
        }
        true
    }

    /// Does the same as `copy_region` for memory that a device has.
    #[cold]
    fn copy_device_region(
        &self,
        words: &Words,
        local: &mut Cursor<'_>,
        part: &region_table::Part,
        len: usize,
        write: bool,
    ) -> bool {
        let Some(directory) = &self.directory else {
            return false;
        };
        let Some(_word) = directory.begin(part, words.own().in_use()) else {
            return false;
        };
        if words.other().in_use().has_left() {
            return false;
        }
        let copied = match self.is_own {
            true => {
                let place = part.address..part.address.wrapping_add(len);
                match write {
                    true => local.copy_to_device(place),
                    false => local.fill_from_device(place),
                }
            }
            false => {
                let export = directory.export(part).as_ref().and_then(Export::of_words);
                let place = export.and_then(|export| export.place(part.address, len));
                let (Some(export), Some(place)) = (export, place) else {
                    return false;
                };
                self.has_imports.set(true);
                match hmem::import::open(self.probe.bytes, &export, local.next_address()) {
                    Ok(import) if write => local.copy_to_import(&import, place),
                    Ok(import) => local.fill_from_import(&import, place),
                    Err(_) => {
                        self.cannot_import.set(true);
                        false
                    }
                }
            }
        };
        if copied {
            local.advance(len);
        }
        copied
    }

    /// Reads `len` bytes into a new buffer.
    pub(super) fn read(&self, from: &Places, len: usize) -> Option<Vec<u8>> {
        let process = self.process?;
        let mut from = *from;
        let mut bytes = Vec::new();
        reserve(&mut bytes, len).ok()?;
        bytes.resize(len, 0);
        let mut done = 0;
        while done < len {
            let mut list = ScatterList::new();
            list.push(&mut bytes[done..]);
            let n = process.read(&list, &from).ok()?;
            if n == 0 {
                return None;
            }
            done += n;
            skip(&mut from, n);
        }
        Some(bytes)
    }

    /// Copies a part between `there`, in the other process, and the same part of `here`.
    pub(super) fn copy_part(
        &self,
        part: Part,
        mut here: Cursor<'_>,
        mut there: Places,
        write: bool,
    ) -> bool {
        let Some(way) = self.way(write) else {
            return false;
        };
        here.advance(part.from);
        skip(&mut there, part.from);
        // The kernel pins all pages that the list names, which costs as much as copying them.
        keep(&mut there, part.len);
        let mut left = part.len;
        let mut landing = here.is_device().then(Landing::default);
        while left > 0 {
            match way.copy(&here, left, &there, landing.as_mut()) {
                Ok(n) if n > 0 => {
                    left -= n.min(left);
                    here.advance(n);
                    skip(&mut there, n);
                }
                _ => return false,
            }
        }
        true
    }
}

impl Drop for PeerProcess {
    fn drop(&mut self) {
        if self.has_imports.get() {
            hmem::import::forget(self.probe.bytes);
        }
    }
}

/// Direction of a copy, and the process at the other end.
enum Way {
    Read(Process),
    Write(OtherProcess),
}

impl Way {
    /// Copies up to `max` bytes between `here` and memory of the process; returns how many one call has moved.
    #[inline(always)]
    fn copy(
        &self,
        here: &IoVec,
        max: usize,
        there: &[(usize, usize)],
        landing: Option<&mut Landing>,
    ) -> io::Result<usize> {
        match self {
            Way::Write(process) => {
                let mut list = GatherList::new();
                here.append_to(&mut list, max);
                process.write(&list, there)
            }
            Way::Read(process) => {
                let mut list = ScatterList::new();
                if let Some(landing) = landing
                    && let Some(room) = here.landing_room(landing, max)
                {
                    list.push(room);
                    let n = process.read(&list, there)?;
                    landing.filled(n);
                    return Ok(n);
                }
                here.scatter_to(&mut list, max);
                process.read(&list, there)
            }
        }
    }
}

/// Drops everything behind the first `n` bytes of these places.
fn keep(places: &mut Places, mut n: usize) {
    for (_, len) in places {
        *len = n.min(*len);
        n -= *len;
    }
}

/// Drops the first `n` bytes of these places.
fn skip(places: &mut [(usize, usize)], mut n: usize) {
    for (address, len) in places {
        let part = n.min(*len);
        *address = address.wrapping_add(part);
        *len -= part;
        n -= part;
    }
}

/// Size of one step of a copy to or from a region of the other side, in bytes. Between two steps the other side can
/// close the region.
const STEP: usize = 16 << 20;
