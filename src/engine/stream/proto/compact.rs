// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Frames that come whole, in the form that they mostly have: atomic operations on one segment without flags, and answers to
//! them and to reads. What looks different, also what is malformed, is for `decode`.

use super::{
    BASE_HEADER, COUNTER, FIELD, MAX_HEADER, Op, RmaSeg, SEG, SEG_COUNT_BITS, VERSION, put, word,
};

/// A frame between hosts of one byte order.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Compact<'a> {
    Answer(&'a [u8]),
    Atomic(CompactAtomic<'a>),
}

/// `Op::Atomic` or one of its kin. What it does and the type are numbers of fi_atomic(3), as they came.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompactAtomic<'a> {
    pub op: Op,
    pub index: u8,
    pub datatype: u8,
    pub seg: RmaSeg,
    pub payload: &'a [u8],
}

const ATOMIC_HEADER: usize = BASE_HEADER + SEG;

/// The first 8 bytes of the header of an answer, but for the counter.
const ANSWER: u64 = u64::from_ne_bytes([
    VERSION,
    Op::ReadRsp.code(),
    0,
    0,
    0,
    0,
    BASE_HEADER as u8,
    0,
]);

/// The frame that is all of `bytes`.
#[inline(always)]
pub fn compact_frame(bytes: &[u8]) -> Option<Compact<'_>> {
    let base = bytes.first_chunk::<BASE_HEADER>()?;
    if word(base, FIELD) != bytes.len() as u64 {
        return None;
    }
    if word(base, 0) & !COUNTER == ANSWER {
        return Some(Compact::Answer(&bytes[BASE_HEADER..]));
    }
    let op = match base[1] {
        16 => Op::Atomic,
        17 => Op::AtomicFetch,
        18 => Op::AtomicCompare,
        _ => return None,
    };
    let (segs, datatype) = (
        base[5] & ((1 << SEG_COUNT_BITS) - 1),
        base[5] >> SEG_COUNT_BITS,
    );
    let usual = base[0] == VERSION && base[2..4] == [0; 2] && segs == 1;
    if !usual || usize::from(base[6]) != ATOMIC_HEADER || bytes.len() < ATOMIC_HEADER {
        return None;
    }
    Some(Compact::Atomic(CompactAtomic {
        op,
        index: base[4],
        datatype,
        seg: RmaSeg {
            addr: word(bytes, BASE_HEADER),
            len: word(bytes, BASE_HEADER + FIELD),
            key: word(bytes, BASE_HEADER + 2 * FIELD),
        },
        payload: &bytes[ATOMIC_HEADER..],
    }))
}

impl Compact<'_> {
    /// Writes the header and returns its size; as `Header::encode` for the same byte order.
    #[inline(always)]
    pub fn encode(&self, counter: u8, out: &mut [u8; MAX_HEADER]) -> usize {
        let (len, payload) = match self {
            Compact::Answer(payload) => {
                out[..FIELD].copy_from_slice(&ANSWER.to_ne_bytes());
                (BASE_HEADER, payload)
            }
            Compact::Atomic(atomic) => {
                let segs = 1 | atomic.datatype << SEG_COUNT_BITS;
                let (code, len) = (atomic.op.code(), ATOMIC_HEADER as u8);
                out[..FIELD].copy_from_slice(&[VERSION, code, 0, 0, atomic.index, segs, len, 0]);
                let at = put(out, BASE_HEADER, atomic.seg.addr, false);
                let at = put(out, at, atomic.seg.len, false);
                (put(out, at, atomic.seg.key, false), &atomic.payload)
            }
        };
        out[7] = counter;
        put(out, FIELD, (len + payload.len()) as u64, false);
        len
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Header, decode};
    use super::*;

    fn atomic(op: Op, payload: &[u8]) -> (Header, Compact<'_>) {
        let seg = RmaSeg {
            addr: 0x1234,
            len: 8,
            key: 77,
        };
        let mut header = Header::new(op, payload.len() as u64);
        (header.index, header.datatype, header.seg_count) = (4, 7, 1);
        header.segs[0] = seg;
        let compact = CompactAtomic {
            op,
            index: 4,
            datatype: 7,
            seg,
            payload,
        };
        (header, Compact::Atomic(compact))
    }

    #[test]
    fn short_frames_have_the_bytes_of_all_others() {
        let payload = [9; 16];
        let cases = [
            atomic(Op::Atomic, &payload[..8]),
            atomic(Op::AtomicFetch, &payload[..8]),
            atomic(Op::AtomicFetch, &[]),
            atomic(Op::AtomicCompare, &payload),
            (Header::new(Op::ReadRsp, 8), Compact::Answer(&payload[..8])),
        ];
        for (header, compact) in cases {
            let (mut long, mut out) = ([0; MAX_HEADER], [0; MAX_HEADER]);
            let len = header.encode(200, false, &mut long);
            assert_eq!(compact.encode(200, &mut out), len);
            assert_eq!(out, long);
            let frame = [&out[..len], &payload[..header.payload as usize]].concat();
            assert_eq!(compact_frame(&frame), Some(compact));
            assert_eq!(decode(&frame, false).unwrap(), header);
            // One byte less or more is not the whole frame.
            assert_eq!(compact_frame(&frame[..frame.len() - 1]), None);
            assert_eq!(compact_frame(&[&frame[..], &[0]].concat()), None);
        }
    }

    #[test]
    fn what_looks_different_is_left_to_decode() {
        let (header, _) = atomic(Op::AtomicFetch, &[0; 8]);
        let bytes = |change: &dyn Fn(&mut Header)| {
            let (mut header, mut out) = (header.clone(), [0; MAX_HEADER]);
            change(&mut header);
            let len = header.encode(1, false, &mut out);
            [&out[..len], &[0; 8]].concat()
        };
        assert!(compact_frame(&bytes(&|_| {})).is_some());
        assert!(compact_frame(&bytes(&|header| header.ack = true)).is_none());
        assert!(compact_frame(&bytes(&|header| header.commit = true)).is_none());
        assert!(compact_frame(&bytes(&|header| header.seg_count = 2)).is_none());
        assert!(compact_frame(&bytes(&|header| header.op = Op::Write)).is_none());
        assert!(compact_frame(&bytes(&|header| header.op = Op::Msg)).is_none());
        let usual = bytes(&|_| {});
        for at in [0, 1, 2, 3, 6, 8, 15] {
            let mut wrong = usual.clone();
            wrong[at] ^= 0x40;
            assert!(compact_frame(&wrong).is_none(), "{at}");
        }
        for len in 0..BASE_HEADER + SEG {
            let mut cut = usual[..len].to_vec();
            if len >= BASE_HEADER {
                cut[8..16].copy_from_slice(&(len as u64).to_ne_bytes());
            }
            assert!(compact_frame(&cut).is_none(), "{len}");
        }
    }
}
