// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Offsets of the header fields, and headers with the fields that all packets have.

pub const HEADER: usize = 64;
pub const VERSION: u8 = 4;
pub const OP_VERSION: u8 = 2;

pub const TYPE_AT: usize = 1;
pub const SEGMENT_SIZE_AT: usize = 2;
pub const SEGMENT_NUMBER_AT: usize = 4;
pub const CONN_AT: usize = 8;
pub const MSG_AT: usize = 16;
pub const CONTROL_DATA_AT: usize = 24;
pub const OP_VERSION_AT: usize = 32;
/// Upstream writes 0 there and ignores it.
pub const CONTEXT_AT: usize = 33;
pub const OP_AT: usize = 34;
pub const FLAGS_AT: usize = 36;
pub const SIZE_AT: usize = 40;
pub const DATA_AT: usize = 48;
pub const TAG_AT: usize = 56;

pub const REMOTE_CQ_DATA: u32 = 0x0002_0000;

pub const EAGER: u8 = 0;
pub const SEGMENT: u8 = 1;
pub const REQUEST: u8 = 2;
pub const READ_DONE: u8 = 3;
pub const ATOMIC: u8 = 4;
pub const ATOMIC_RESPONSE: u8 = 5;
pub const CREDIT: u8 = 6;
pub const ADDRESSES: u8 = 7;
pub const WRITE_DONE: u8 = 8;

pub const OP_MSG: u8 = 0;
pub const OP_TAGGED: u8 = 1;

/// Returns a header with the fields that all packets have.
#[inline]
pub fn control(kind: u8, conn: u32, msg: u64) -> [u8; HEADER] {
    let mut out = [0; HEADER];
    (out[0], out[TYPE_AT]) = (VERSION, kind);
    put_u64(&mut out, CONN_AT, conn.into());
    put_u64(&mut out, MSG_AT, msg);
    out[OP_VERSION_AT] = OP_VERSION;
    out
}

#[inline]
pub fn put_u64(out: &mut [u8; HEADER], at: usize, word: u64) {
    out[at..at + 8].copy_from_slice(&word.to_ne_bytes());
}

/// Returns the header of an atomic operation or of its answer.
pub fn atomic(kind: u8, conn: u32, msg: u64, op: u8, what: [u8; 3], size: u64) -> [u8; HEADER] {
    let mut out = control(kind, conn, msg);
    out[OP_AT] = op;
    put_u64(&mut out, SIZE_AT, size);
    out[TAG_AT..TAG_AT + 3].copy_from_slice(&what);
    out
}
