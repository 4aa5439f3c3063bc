// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Layout of a block of counters: docs/wire/stats.md. `fi_top` uses this file, too, so it imports nothing else.
//!
//! Each value is a word of eight bytes in the byte order of the host. So is a text, which ends with a zero or with its
//! last word.
#![forbid(unsafe_code)]

/// The name of the memory in /proc: a process has one such block at most.
pub const NAME: &str = "ironfabric-stats";
/// The first word.
pub const MAGIC: u64 = u64::from_le_bytes(*b"fi_stats");
/// The second word. Another version means another layout.
pub const VERSION: u64 = 1;

/// Bytes of a block, of the part before the records, and of a record.
pub const SIZE: usize = 32 * 1024;
pub const HEAD: usize = 1024;
pub const RECORD: usize = 768;
pub const RECORDS: usize = (SIZE - HEAD) / RECORD;

/// Words of the head.
pub mod head {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 1;
    /// The process ID in the process's own namespace, and its start time in clock ticks after boot.
    pub const PID: usize = 2;
    pub const STARTED: usize = 3;
    /// Number of endpoints for which no record was free.
    pub const UNCOUNTED: usize = 4;
    /// Written by readers: a higher number requests the gauges of all records, or a dump.
    pub const ASKED_GAUGES: usize = 5;
    pub const ASKED_DUMP: usize = 6;
    /// Number of dumps that were written, and the signal that requests one, or 0.
    pub const DUMPS: usize = 7;
    pub const SIGNAL: usize = 8;
    /// Texts: the library, and the answer to the last request for a dump: docs/wire/stats.md.
    pub const LIBRARY: usize = 9;
    pub const LIBRARY_WORDS: usize = 15;
    pub const DUMP: usize = LIBRARY + LIBRARY_WORDS;
    pub const DUMP_WORDS: usize = 64;
}

/// Words of a record.
pub mod record {
    /// 0: free. Odd: being changed. Otherwise in use; a different number means a different endpoint.
    pub const STATE: usize = 0;
    pub const DOMAIN: usize = 1;
    pub const EP_TYPE: usize = 2;
    /// Texts: the provider's name and the endpoint's address.
    pub const PROVIDER: usize = 3;
    pub const PROVIDER_WORDS: usize = 3;
    pub const ADDRESS: usize = 6;
    pub const ADDRESS_WORDS: usize = 10;
    pub const TALLIES: usize = 16;
    pub const COUNTS: usize = TALLIES + 4 * super::TALLIES.len();
    pub const GAUGES: usize = COUNTS + super::COUNTS.len();
}

/// Operations and their bytes. Each takes four words: one to which both are added at once, with the operations from bit
/// `SHIFT` on; the operations and the bytes that were moved out of it; and the number of moves, odd during a move.
pub const TALLIES: [&str; 9] = [
    "send",
    "tsend",
    "write",
    "read",
    "atomic",
    "fetch",
    "recv",
    "remote_write",
    "remote_read",
];
pub const SHIFT: u32 = 30;

/// The other counters.
pub const COUNTS: [&str; 12] = [
    "failed",
    "again",
    "unexpected",
    "rendezvous",
    "offered",
    "fetched",
    "split",
    "connected",
    "connect_retries",
    "disconnected",
    "stalls",
    "receives_failed",
];

/// Values that are sampled on request. The first word is the number of the request that they answer.
pub const GAUGES: [&str; 14] = [
    "answered",
    "transmits",
    "receives",
    "kept",
    "kept_bytes",
    "peers",
    "peers_opening",
    "peers_memory",
    "socket_bytes_out",
    "socket_bytes_in",
    "memory_bytes_out",
    "memory_bytes_in",
    "waiting",
    "oldest_ms",
];

const _: () = assert!(8 * (record::GAUGES + GAUGES.len()) <= RECORD);
const _: () = assert!(8 * (head::DUMP + head::DUMP_WORDS) <= HEAD);
const _: () = assert!(HEAD.is_multiple_of(64) && RECORD.is_multiple_of(64));
// A tally lies in one cache line.
const _: () = assert!((8 * record::TALLIES).is_multiple_of(64));
