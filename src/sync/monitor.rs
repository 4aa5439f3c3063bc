// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The records of the hook `monitor` and their layout in its file; the program fi_mon_sampler reads it, too.
//!
//! A record has its counts and then its sums of bytes, one for each class, as 64-bit numbers in native byte order. A
//! byte of flags follows the last record, padded to a word.
#![forbid(unsafe_code)]

/// The records in the order of the file.
pub const RECORDS: [&str; 42] = [
    "recv",
    "recvv",
    "recvmsg",
    "trecv",
    "trecvv",
    "trecvmsg",
    "send",
    "sendv",
    "sendmsg",
    "inject",
    "senddata",
    "injectdata",
    "tsend",
    "tsendv",
    "tsendmsg",
    "tinject",
    "tsenddata",
    "tinjectdata",
    "read",
    "readv",
    "readmsg",
    "write",
    "writev",
    "writemsg",
    "inject_write",
    "writedata",
    "inject_writedata",
    "mr_reg",
    "mr_regv",
    "mr_regattr",
    "cq_read",
    "cq_readfrom",
    "cq_readerr",
    "cq_sread",
    "cq_sreadfrom",
    "cq_ctx",
    "cq_msg_tx",
    "cq_msg_rx",
    "cq_data_tx",
    "cq_data_rx",
    "cq_tagged_tx",
    "cq_tagged_rx",
];

/// Index of the first record of regions, of calls that read a queue, and of queue entries.
pub const REGIONS: usize = 27;
pub const READS: usize = 30;
pub const ENTRIES: usize = 35;

/// Upper bounds of all size classes except the last, which has none.
pub const BOUNDS: [usize; 8] = [
    64,
    512,
    1 << 10,
    4 << 10,
    64 << 10,
    256 << 10,
    1 << 20,
    4 << 20,
];
pub const CLASSES: usize = BOUNDS.len() + 1;
pub const CLASS_NAMES: [&str; CLASSES] = [
    "0_64", "64_512", "512_1K", "1K_4K", "4K_64K", "64K_256K", "256K_1M", "1M_4M", "4M_UP",
];

/// Bytes of all records in a file.
pub const COUNTS: usize = RECORDS.len() * CLASSES * 2 * size_of::<u64>();
pub const SIZE: usize = COUNTS + size_of::<u64>();
/// Set by a reader that requests the counts.
pub const WANTED: u8 = 1;
/// Set when the writer has finished.
pub const FINISHED: u8 = 2;

const _: () = assert!(COUNTS == 6048 && SIZE == 6056);
