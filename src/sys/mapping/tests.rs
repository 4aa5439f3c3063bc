// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Tests mappings, and files that a hostile peer may send.

use core::sync::atomic::Ordering;
use std::fs::File;

use super::*;

const LEN: usize = 1 << 16;

fn word(mapping: &Mapping, offset: usize) -> &AtomicU32 {
    // SAFETY: the mapping lives as long as the reference; the tests write only where they may.
    unsafe { mapping.at::<AtomicU32>(offset).unwrap().as_ref() }
}

fn seals(fd: &OwnedFd) -> SealFlag {
    SealFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GET_SEALS).unwrap())
}

fn refusal(result: io::Result<Mapping>) -> String {
    result.unwrap_err().to_string()
}

/// Returns a memory file made by a peer.
fn theirs(flags: MFdFlags, size: i64, filled: i64, seals: SealFlag) -> OwnedFd {
    let fd = memfd_create(c"theirs", MFdFlags::MFD_CLOEXEC | flags).unwrap();
    ftruncate(&fd, size).unwrap();
    if filled > 0 {
        fallocate(&fd, FallocateFlags::empty(), 0, filled).unwrap();
    }
    if !seals.is_empty() {
        seal(&fd, seals).unwrap();
    }
    fd
}

fn punch(fd: &OwnedFd, offset: i64, len: i64) {
    let how = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
    fallocate(fd, how, offset, len).unwrap();
}

#[test]
fn what_one_mapping_writes_another_reads() {
    let (ours, fd) = Mapping::create(c"test", LEN).unwrap();
    let theirs = Mapping::attach(&fd, LEN).unwrap();
    let reader = Mapping::attach_read_only(&fd, LEN / 2).unwrap();
    assert_eq!((ours.len(), reader.len()), (LEN, LEN / 2));
    assert_eq!(word(&theirs, 64).load(Ordering::Relaxed), 0);
    word(&ours, 64).store(7, Ordering::Relaxed);
    assert_eq!(word(&theirs, 64).load(Ordering::Relaxed), 7);
    word(&theirs, 64).store(8, Ordering::Relaxed);
    assert_eq!(word(&reader, 64).load(Ordering::Relaxed), 8);
}

#[test]
fn nobody_changes_the_size() {
    let (_ours, fd) = Mapping::create(c"test", LEN).unwrap();
    assert_eq!(seals(&fd) & SEALS, SEALS);
    for size in [0, LEN / 2, 2 * LEN] {
        assert!(ftruncate(&fd, size as i64).is_err());
    }
    assert_eq!(
        fstat(&fd).unwrap().st_blocks * 512,
        LEN as i64,
        "all pages are there"
    );
}

#[test]
fn readers_cannot_write() {
    let made = Mapping::create_for_readers(c"test", LEN).unwrap();
    word(&made.mapping, 0).store(5, Ordering::Relaxed);
    let reader = Mapping::attach_read_only(&made.fd, LEN).unwrap();
    assert_eq!(word(&reader, 0).load(Ordering::Relaxed), 5);
    assert_eq!(seals(&made.fd) & SEALS, SEALS);
    let known = seals(&made.fd) & SealFlag::F_SEAL_FUTURE_WRITE != SealFlag::empty();
    assert_eq!(made.protected, known);
    assert_eq!(Mapping::attach(&made.fd, LEN).is_err(), known);
    word(&made.mapping, 0).store(6, Ordering::Relaxed);
    assert_eq!(word(&reader, 0).load(Ordering::Relaxed), 6);
}

#[test]
fn memory_that_could_go_away_is_refused() {
    let (all, sealed) = (LEN as i64, SealFlag::F_SEAL_SHRINK);
    let (may, none) = (MFdFlags::MFD_ALLOW_SEALING, SealFlag::empty());
    let attach = |fd: OwnedFd| refusal(Mapping::attach_read_only(&fd, LEN));
    assert!(attach(theirs(may, all, all, none)).contains("shortened"));
    assert!(attach(theirs(may, all, all, SealFlag::F_SEAL_GROW)).contains("shortened"));
    // Without the flag the file only has F_SEAL_SEAL, which forbids further seals.
    assert!(attach(theirs(MFdFlags::empty(), all, all, none)).contains("shortened"));
    assert!(attach(theirs(may, all - 1, all - 1, sealed)).contains("too short"));
    assert!(attach(theirs(may, 0, 0, sealed)).contains("too short"));
    assert!(attach(theirs(may, all, all - 4096, sealed)).contains("holes"));
    assert!(attach(theirs(may, all, 0, sealed)).contains("holes"));
    assert!(attach(theirs(may, 1 << 40, all, sealed)).contains("holes"));
    // The memory may be larger than requested.
    let fd = theirs(may, 2 * all, 2 * all, sealed);
    assert_eq!(Mapping::attach(&fd, LEN).unwrap().len(), LEN);
    assert!(Mapping::attach(&fd, 0).is_err());
    assert!(Mapping::attach(&fd, usize::MAX).is_err());
}

#[test]
fn a_hole_that_was_punched_is_noticed() {
    let (_ours, fd) = Mapping::create(c"test", LEN).unwrap();
    punch(&fd, 4096, 4096);
    assert!(refusal(Mapping::attach_read_only(&fd, LEN)).contains("holes"));
    assert!(Mapping::attach(&fd, LEN).is_ok());
    assert!(Mapping::map_doubled(&fd, 0, LEN / 2).is_ok());
    allocate(&fd, 4096, 4096).unwrap();
    assert!(Mapping::attach_read_only(&fd, LEN).is_ok());
}

#[test]
fn a_hole_that_is_punched_later_reads_as_zeros() {
    let (ours, fd) = Mapping::create(c"test", LEN).unwrap();
    word(&ours, 4096).store(7, Ordering::Relaxed);
    punch(&fd, 0, LEN as i64);
    assert_eq!(word(&ours, 4096).load(Ordering::Relaxed), 0);
}

#[test]
fn other_files_are_refused() {
    let path = std::env::temp_dir().join(format!("ironfabric-mapping-{}", std::process::id()));
    std::fs::write(&path, vec![0; LEN]).unwrap();
    let how = File::options().read(true).write(true).open(&path);
    let file = how.unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(refusal(Mapping::attach(&file, LEN)).contains("shortened"));
    assert!(refusal(Mapping::map_doubled(&file, 0, LEN / 2)).contains("shortened"));
    let null = File::options().write(true).open("/dev/null").unwrap();
    assert!(Mapping::attach(&null, LEN).is_err());
    let (socket, _other) = std::os::unix::net::UnixStream::pair().unwrap();
    assert!(Mapping::attach(&socket, LEN).is_err());
}

/// If a hole is punched later and no huge page is left, an access would cause a signal.
#[test]
fn huge_pages_are_refused() {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING | MFdFlags::MFD_HUGETLB;
    // On kernels without huge pages no peer can send them.
    let Ok(fd) = memfd_create(c"huge", flags) else {
        return;
    };
    seal(&fd, SealFlag::F_SEAL_SHRINK).unwrap();
    assert!(refusal(Mapping::attach(&fd, LEN)).contains("huge"));
}

#[test]
fn a_descriptor_that_cannot_write_maps_for_reading_only() {
    let (_ours, fd) = Mapping::create(c"test", LEN).unwrap();
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let read_only = File::open(path).unwrap();
    let refused = Mapping::attach(&read_only, LEN).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
    Mapping::attach_read_only(&read_only, LEN).unwrap();
}

#[test]
fn the_same_pages_come_twice() {
    let (ours, fd) = Mapping::create(c"test", LEN).unwrap();
    let page = page_size();
    let doubled = Mapping::map_doubled(&fd, page, 2 * page).unwrap();
    assert_eq!(doubled.len(), 9 * page);
    word(&doubled, 0).store(9, Ordering::Relaxed);
    assert_eq!(word(&ours, 0).load(Ordering::Relaxed), 9);
    for (part, offset) in [(1, 1), (5, 3)] {
        let (part, offset) = (part * page, offset * page);
        word(&doubled, part + 2 * page - 4).store(1, Ordering::Relaxed);
        word(&doubled, part + 2 * page).store(2, Ordering::Relaxed);
        assert_eq!(
            word(&doubled, part + 4 * page - 4).load(Ordering::Relaxed),
            1
        );
        assert_eq!(word(&doubled, part).load(Ordering::Relaxed), 2);
        assert_eq!(word(&ours, offset).load(Ordering::Relaxed), 2);
    }
    for (head, part) in [
        (0, 0),
        (0, 100),
        (8, page),
        (0, LEN),
        (LEN, page),
        (usize::MAX - page + 1, page),
        (0, usize::MAX - page + 1),
    ] {
        assert!(
            Mapping::map_doubled(&fd, head, part).is_err(),
            "{head} {part}"
        );
    }
}

#[test]
fn nothing_is_given_outside_the_mapping() {
    let (mapping, _fd) = Mapping::create(c"test", LEN).unwrap();
    assert!(mapping.at::<AtomicU64>(LEN - 8).is_some());
    assert!(mapping.at::<[AtomicU32; 4]>(LEN - 16).is_some());
    for offset in [1, 4, LEN - 4, LEN, LEN + 8, usize::MAX - 7, usize::MAX] {
        assert!(mapping.at::<AtomicU64>(offset).is_none(), "{offset}");
    }
    assert!(mapping.bytes(0, LEN).is_some() && mapping.bytes(LEN, 0).is_some());
    for (offset, len) in [(0, LEN + 1), (1, LEN), (LEN + 1, 0), (8, usize::MAX)] {
        assert!(mapping.bytes(offset, len).is_none(), "{offset} {len}");
    }
}

#[test]
fn more_memory_than_there_is_is_an_error() {
    assert!(Mapping::create(c"test", usize::MAX).is_err());
    assert!(Mapping::create(c"test", 0).is_err());
}

#[test]
fn a_mapping_is_unmapped_with_its_end() {
    // Counted by name, because other mappings of this process come and go.
    let count = || {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        maps.matches("memfd:test-unmapped").count()
    };
    let (mapping, fd) = Mapping::create(c"test-unmapped", LEN).unwrap();
    let twice = Mapping::map_doubled(&fd, 0, LEN / 2).unwrap();
    assert_eq!(count(), 4);
    drop(mapping);
    assert_eq!(count(), 3);
    drop(twice);
    assert_eq!(count(), 0);
}
