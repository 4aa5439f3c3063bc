// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The mappings of this process: proc_pid_maps(5). Kernels from 6.11 on find the mapping of an address (PROCMAP_QUERY),
//! older ones list all.
//!
//! Trusted with: an ioctl(2) that writes a struct of the kernel's layout.

use core::mem::size_of;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;

/// Returns whether all of these addresses are private memory without a file, so that nobody but this process can change
/// its pages. False if /proc is not mounted. While other threads map memory, a list may lack some, so that the answer
/// may be false for private memory.
pub fn is_private(addresses: &Range<usize>) -> bool {
    let Ok(maps) = File::open(MAPS) else {
        return false;
    };
    is_private_by_query(&maps, addresses)
        .unwrap_or_else(|| fs::read_to_string(MAPS).is_ok_and(|all| is_private_in(&all, addresses)))
}

const MAPS: &str = "/proc/self/maps";

/// Does the same by queries; `None` if the kernel has none.
fn is_private_by_query(maps: &File, addresses: &Range<usize>) -> Option<bool> {
    let mut covered = addresses.start as u64;
    while covered < addresses.end as u64 {
        let mut query = Query {
            size: size_of::<Query>() as u64,
            address: covered,
            ..Query::default()
        };
        // SAFETY: the number of the request has the size of the struct, whose member `size` says it, too. It names no
        // places for texts.
        let result = unsafe { libc::ioctl(maps.as_raw_fd(), PROCMAP_QUERY, &raw mut query) };
        if result != 0 {
            return match io::Error::last_os_error().raw_os_error() {
                Some(libc::ENOENT) => Some(false),
                _ => None,
            };
        }
        if query.flags & SHARED != 0 || query.inode != 0 || query.end <= covered {
            return Some(false);
        }
        covered = query.end;
    }
    Some(true)
}

const PROCMAP_QUERY: libc::Ioctl = libc::_IOWR::<Query>(b'f' as u32, 17);
const SHARED: u64 = 8;

/// The kernel's `procmap_query`.
#[repr(C)]
#[derive(Default)]
struct Query {
    size: u64,
    query_flags: u64,
    address: u64,
    start: u64,
    end: u64,
    flags: u64,
    page_size: u64,
    offset: u64,
    inode: u64,
    device: [u32; 2],
    text_sizes: [u32; 2],
    text_places: [u64; 2],
}

fn is_private_in(maps: &str, addresses: &Range<usize>) -> bool {
    // The lines are in the order of addresses.
    let mut covered = addresses.start;
    for line in maps.lines() {
        let Some((range, rest)) = line.split_once(' ') else {
            return false;
        };
        let Some((start, end)) = range.split_once('-') else {
            return false;
        };
        let number = |text| usize::from_str_radix(text, 16);
        let (Ok(start), Ok(end)) = (number(start), number(end)) else {
            return false;
        };
        if end <= covered {
            continue;
        }
        let mut fields = rest.split_ascii_whitespace();
        let (rights, inode) = (fields.next(), fields.nth(2));
        let is_own = rights.is_some_and(|rights| rights.ends_with('p')) && inode == Some("0");
        if start > covered || !is_own {
            return false;
        }
        covered = end;
        if covered >= addresses.end {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_gaps_and_shared_memory_are_not_private() {
        let maps = "1000-2000 r--p 00000000 fe:00 41 /bin/x\n\
                    2000-3000 rw-p 00000000 00:00 0 [heap]\n\
                    3000-5000 rw-p 00000000 00:00 0\n\
                    5000-6000 rw-s 00000000 00:01 7 /dev/zero (deleted)\n\
                    7000-8000 rw-p 00000000 00:00 0\n\
                    9000-a000 rw-p 00000000 00:00 0\n";
        for private in [
            0x2000..0x5000,
            0x2800..0x2801,
            0x4fff..0x5000,
            0x7000..0x8000,
        ] {
            assert!(is_private_in(maps, &private), "{private:x?}");
        }
        for other in [
            0x1fff..0x2001,
            0x4000..0x5001,
            0x7000..0x8001,
            0x7000..0xa000,
            0xb000..0xb001,
        ] {
            assert!(!is_private_in(maps, &other), "{other:x?}");
        }
    }

    #[test]
    fn own_mappings_are_found() {
        let heap = vec![1_u8; 100_000];
        let start = heap.as_ptr().addr();
        assert!(is_private(&(start..start + heap.len())));
        let code = own_mappings_are_found as fn() as usize;
        assert!(!is_private(&(code..code + 1)));
    }
}
