// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Where what is in a block of counters: docs/wire/stats.md. Read by `fi_top`, too, so nothing else is named here.
//!
//! Everything is a word of eight bytes in the order of the host, also a text, which ends with a zero or its last word.
#![forbid(unsafe_code)]

/// What /proc shows of the memory: a process has one block at most.
pub const NAME: &str = "ironfabric-stats";
/// The first word.
pub const MAGIC: u64 = u64::from_le_bytes(*b"fi_stats");
/// The second. Another one is another layout.
pub const VERSION: u64 = 1;

/// Bytes of a block, of what comes before the records, and of a record.
pub const SIZE: usize = 32 * 1024;
pub const HEAD: usize = 1024;
pub const RECORD: usize = 768;
pub const RECORDS: usize = (SIZE - HEAD) / RECORD;

/// Words of the head.
pub mod head {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 1;
    /// The process as it sees itself, and when it started, in clock ticks after boot.
    pub const PID: usize = 2;
    pub const STARTED: usize = 3;
    /// Endpoints that have no record since there are no more.
    pub const UNCOUNTED: usize = 4;
    /// Written by readers: a higher number asks for the gauges of all records, or for a dump.
    pub const ASKED_GAUGES: usize = 5;
    pub const ASKED_DUMP: usize = 6;
    /// Dumps that were written, and the signal that asks for one, or 0.
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
    /// 0: free. Odd: being changed. Else it is in use, and another number says another endpoint.
    pub const STATE: usize = 0;
    pub const DOMAIN: usize = 1;
    pub const EP_TYPE: usize = 2;
    /// The provider's name, and the endpoint's address as text.
    pub const PROVIDER: usize = 3;
    pub const PROVIDER_WORDS: usize = 3;
    pub const ADDRESS: usize = 6;
    pub const ADDRESS_WORDS: usize = 10;
    pub const TALLIES: usize = 16;
    pub const COUNTS: usize = TALLIES + 4 * super::TALLIES.len();
    pub const GAUGES: usize = COUNTS + super::COUNTS.len();
}

/// Operations and their bytes. Each takes four words: one to which both are added at once, operations from bit `SHIFT`
/// on; operations and bytes that are not in it any more; and how often they were moved, odd while they are.
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

/// What is counted besides.
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

/// What holds at the time of the question only, the first word being the number of the question.
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
// A tally lies in one line of the cache.
const _: () = assert!((8 * record::TALLIES).is_multiple_of(64));
