// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Device memory that other processes of the host can map: its driver gives a handle for an allocation, and the driver
//! of another process opens that. Both sides see the same bytes from then on.

use core::ops::Range;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::kind::Kind;
use crate::{driver, own_copies};

/// Bytes of a driver's handle; shorter ones end with zeros.
pub const HANDLE: usize = 64;
/// Bytes of a device's name, which all processes know it by.
pub const NAME: usize = 16;

/// An allocation that other processes can map.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Export {
    pub kind: Kind,
    pub handle: [u8; HANDLE],
    /// Name of the device that has the memory.
    pub device: [u8; NAME],
    /// The allocation's first address in the process that has it.
    pub base: u64,
    pub len: u64,
}

/// Words of an export in memory that processes share.
pub const WORDS: usize = 16;

impl Export {
    /// Returns the export in the layout of docs/wire/shm.md.
    pub fn to_words(&self) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        let bytes = self.handle.iter().chain(&self.device);
        for (at, &byte) in bytes.enumerate() {
            words[at / 8] |= u64::from(byte) << (at % 8 * 8);
        }
        let rest = (HANDLE + NAME) / 8;
        words[rest..rest + 3].copy_from_slice(&[self.base, self.len, self.kind as u64]);
        words
    }

    /// As `to_words` back; `None` if no device has memory of that kind, or the allocation exceeds the address space.
    pub fn of_words(words: &[u64; WORDS]) -> Option<Export> {
        let byte = |at: usize| (words[at / 8] >> (at % 8 * 8)) as u8;
        let rest = (HANDLE + NAME) / 8;
        let kind = Kind::of_iface(u32::try_from(words[rest + 2]).ok()?)?;
        let (base, len) = (words[rest], words[rest + 1]);
        base.checked_add(len)?;
        (kind != Kind::Host).then(|| Export {
            kind,
            handle: core::array::from_fn(byte),
            device: core::array::from_fn(|at| byte(HANDLE + at)),
            base,
            len,
        })
    }

    /// Returns the place of addresses of the exporting process in the allocation, if all of them are in it.
    pub fn place(&self, at: usize, len: usize) -> Option<Range<usize>> {
        let from = (at as u64).checked_sub(self.base)?;
        let end = from.checked_add(len as u64)?;
        (end <= self.len).then_some(from as usize..end as usize)
    }
}

/// Allocations that have a handle, by the number that their driver gives them, which no other allocation ever has.
/// Numbers of freed ones are never asked for again.
static KNOWN: Mutex<Option<HashMap<(Kind, u64), Export>>> = Mutex::new(None);
/// Allocations that are remembered at most.
const MOST: usize = 1024;

/// Returns the allocation with all these bytes of device memory, if other processes can map it.
#[cold]
pub fn of(at: usize, len: usize) -> Option<Export> {
    // The program's functions copy between a device and the host.
    if own_copies::any() {
        return None;
    }
    let driver = driver::owner(at)?;
    let number = driver.number(at)?;
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    let key = (driver.kind(), number);
    let export = match known.get(&key) {
        Some(export) => *export,
        None => {
            let export = driver.export(at)?;
            if known.len() >= MOST {
                known.clear();
            }
            known.insert(key, export);
            export
        }
    };
    export.place(at, len).map(|_| export)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_back() {
        let export = Export {
            kind: Kind::Ze,
            handle: core::array::from_fn(|at| at as u8 + 1),
            device: core::array::from_fn(|at| at as u8 + 100),
            base: 1 << 40,
            len: 5,
        };
        let words = export.to_words();
        assert_eq!(
            (words[0], words[8]),
            (0x0807_0605_0403_0201, 0x6b6a_6968_6766_6564)
        );
        assert_eq!(Export::of_words(&words), Some(export));
        let with = |at: usize, value| {
            let mut words = words;
            words[at] = value;
            Export::of_words(&words)
        };
        assert_eq!(
            (with(12, 0), with(12, 6), with(11, u64::MAX)),
            (None, None, None)
        );
    }

    #[test]
    fn a_place_is_within_the_allocation() {
        let export = Export {
            kind: Kind::Cuda,
            handle: [0; HANDLE],
            device: [0; NAME],
            base: 1000,
            len: 100,
        };
        assert_eq!(export.place(1000, 100), Some(0..100));
        assert_eq!(export.place(1099, 1), Some(99..100));
        for (at, len) in [(999, 1), (1000, 101), (1100, 1), (1001, usize::MAX)] {
            assert_eq!(export.place(at, len), None, "{at} {len}");
        }
    }
}
