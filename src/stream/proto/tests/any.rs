// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Frames with random fields, and random bytes. A failure prints the seed; `FRAME_SEED` runs it again.

use std::time::{SystemTime, UNIX_EPOCH};

use super::*;

const ROUNDS: usize = 20_000;

/// SplitMix64.
struct Random(u64);

impl Random {
    /// Returns a generator and a guard that prints the seed if the test fails.
    fn new() -> (Random, Seed) {
        let now = || {
            SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap()
                .as_nanos() as u64
        };
        let given = std::env::var("FRAME_SEED").ok();
        let seed = given.map_or_else(now, |text| text.parse().expect("a number"));
        (Random(seed), Seed(seed))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Returns a number from 0 to `most`; both limits come often.
    fn up_to(&mut self, most: u64) -> u64 {
        match self.next() % 4 {
            0 => 0,
            1 => most,
            _ if most == u64::MAX => self.next(),
            _ => self.next() % (most + 1),
        }
    }

    fn any(&mut self) -> u64 {
        self.up_to(u64::MAX)
    }

    fn half(&mut self) -> u32 {
        self.up_to(u32::MAX.into()) as u32
    }

    fn flag(&mut self) -> bool {
        self.next() & 1 != 0
    }

    fn index(&mut self) -> u8 {
        1 + self.up_to(253) as u8
    }

    fn context(&mut self) -> u8 {
        self.up_to(MAX_CONTEXTS as u64 - 1) as u8
    }

    fn data(&mut self) -> Option<u64> {
        self.flag().then(|| self.any())
    }

    /// Returns any payload size that can follow a header.
    fn payload(&mut self) -> u64 {
        self.up_to(u64::MAX - MAX_HEADER as u64)
    }

    /// Returns segments of at most `most` bytes together.
    fn segs(&mut self, most: u64) -> Segs {
        let count = 1 + self.up_to(MAX_SEGS as u64 - 1);
        let mut left = most;
        (0..count)
            .map(|_| {
                let len = self.up_to(left);
                left -= len;
                RmaSeg {
                    addr: self.any(),
                    len,
                    key: self.any(),
                }
            })
            .collect()
    }

    fn places(&mut self) -> PlaceList {
        let segs = self.segs(u64::MAX - BASE_HEADER as u64);
        let places = segs.iter().map(|seg| (seg.addr as usize, seg.len as usize));
        places.collect()
    }

    fn frame(&mut self) -> Frame {
        let tagged = self.flag();
        let tag = if tagged { self.any() } else { 0 };
        let most = u64::MAX - MAX_HEADER as u64;
        match self.next() % 18 {
            0 => Frame::Message(Message {
                tagged,
                ack: self.flag(),
                data: self.data(),
                tag,
                context: self.context(),
                payload: self.payload(),
            }),
            1 => Frame::Ack,
            2 => Frame::ReadRequest(ReadRequest {
                segs: self.segs(u64::MAX - BASE_HEADER as u64),
            }),
            3 => Frame::ReadResponse(ReadResponse {
                payload: self.payload(),
            }),
            4 => {
                let segs = self.segs(most);
                Frame::Write(Write {
                    segs,
                    data: self.data(),
                    ack: self.flag(),
                    commit: self.flag(),
                    payload: self.up_to(segs.total()),
                })
            }
            5 => Frame::ReadyToSend(ReadyToSend {
                index: self.index(),
                tag: self.any(),
                size: self.up_to(u64::MAX - BASE_HEADER as u64),
                data: self.data(),
                ack: self.flag(),
                context: self.context(),
            }),
            6 => Frame::ClearToSend {
                index: self.index(),
            },
            7 => Frame::RendezvousData(RendezvousData {
                index: self.index(),
                has_data: self.flag(),
                ack: self.flag(),
                payload: self.payload(),
            }),
            8 => Frame::Collective(Collective {
                kind: self.index(),
                group: self.any(),
                seq: self.half(),
                round: self.half(),
                payload: self.payload(),
            }),
            9 => Frame::CollectiveEnd(CollectiveEnd {
                group: self.any(),
                seq: self.half(),
                error: self.half(),
            }),
            10 => Frame::Atomic(self.atomic()),
            11 => Frame::Offer(Offer {
                index: self.index(),
                tagged,
                tag,
                data: self.data(),
                places: self.places(),
                epoch: self.half(),
                context: self.next() as u8,
            }),
            17 => {
                let base = self.any();
                Frame::Exported(Exported {
                    index: self.index(),
                    export: Export {
                        kind: Kind::ALL[1 + self.next() as usize % 5],
                        handle: core::array::from_fn(|_| self.next() as u8),
                        device: core::array::from_fn(|_| self.next() as u8),
                        base,
                        len: self.up_to(u64::MAX - base),
                    },
                })
            }
            12 => Frame::Taken {
                index: self.index(),
            },
            13 => Frame::Share(Share {
                index: self.index(),
                places: self.places(),
                job: self.half(),
            }),
            15 => Frame::Close(Close::ALL[self.next() as usize % 4]),
            14 => Frame::Refused(match tagged {
                true => Refused::Ack,
                false => Refused::Response,
            }),
            _ => Frame::Done {
                index: self.index(),
            },
        }
    }

    fn atomic(&mut self) -> Atomic {
        let family = FAMILIES[self.next() as usize % FAMILIES.len()];
        let has_result = family != Family::Base;
        let segs = self.segs(MAX_ATOMIC as u64);
        let times = if family == Family::Compare { 2 } else { 1 };
        Atomic {
            what: AtomicOp {
                family,
                op: self.next() as u8,
                datatype: self.up_to(31) as u8,
            },
            segs,
            data: self.data().filter(|_| !has_result),
            ack: self.flag() && !has_result,
            commit: self.flag() && !has_result,
            payload: self.up_to(times * segs.total()),
        }
    }
}

struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("FRAME_SEED={}", self.0);
        }
    }
}

/// Checks that the compact decoders agree with the general one.
fn check_compact(bytes: &[u8], frame: &Frame, len: usize) {
    if let Some((message, header, total)) = Message::compact(bytes) {
        assert_eq!((Frame::Message(message), header), (*frame, len));
        assert_eq!(total, header + message.payload as usize);
    }
    if let Some((seg, total)) = ReadRequest::whole(bytes) {
        let segs = [seg].into_iter().collect();
        assert_eq!(
            (Frame::ReadRequest(ReadRequest { segs }), total),
            (*frame, len)
        );
    }
    if let Some((payload, total)) = ReadResponse::whole(bytes) {
        assert_eq!(total, len + payload.len());
        let payload = payload.len() as u64;
        assert_eq!(Frame::ReadResponse(ReadResponse { payload }), *frame);
    }
    if let Some((write, payload, total)) = Write::whole(bytes) {
        assert_eq!(
            (payload.len(), total),
            (write.payload as usize, len + payload.len())
        );
        let write = Write {
            segs: [write.segs].into_iter().collect(),
            data: write.data,
            ack: write.ack,
            commit: write.commit,
            payload: write.payload,
        };
        assert_eq!(Frame::Write(write), *frame);
    }
    if let Some((what, seg, payload, total)) = AtomicOp::whole(bytes) {
        assert_eq!(total, len + payload.len());
        let one = Atomic {
            what,
            segs: [seg].into_iter().collect(),
            data: None,
            ack: false,
            commit: false,
            payload: payload.len() as u64,
        };
        assert_eq!(Frame::Atomic(one), *frame);
    }
}

#[test]
fn frames_with_any_fields_survive_the_wire() {
    let (mut random, _seed) = Random::new();
    for _ in 0..ROUNDS {
        let (frame, swap, counter) = (random.frame(), random.flag(), random.next() as u8);
        let mut bytes = encode(&frame, counter, swap);
        let len = bytes.len();
        for cut in 0..len {
            let needs = if cut < BASE_HEADER { BASE_HEADER } else { len };
            assert_eq!(
                decode(&bytes[..cut], swap),
                Ok(Decoded::Needs(needs)),
                "{frame:?}"
            );
        }
        // Bytes behind the header are not read.
        bytes.resize(len + random.up_to(64) as usize, 0xee);
        assert_eq!(decode(&bytes, swap), Ok(Decoded::Frame(frame, len)));
        if !swap {
            check_compact(&bytes, &frame, len);
        }
    }
}

#[test]
fn whatever_bytes_are_taken_for_a_frame_are_written_as_they_were_read() {
    let (mut random, _seed) = Random::new();
    let mut taken = 0;
    for _ in 0..10 * ROUNDS {
        let swap = random.flag();
        let mut bytes = encode(&random.frame(), 0, swap);
        for _ in 0..random.next() % 3 {
            let at = random.next() as usize % bytes.len();
            bytes[at] = random.next() as u8;
        }
        let (frame, len) = match decode(&bytes, swap) {
            Ok(Decoded::Frame(frame, len)) => (frame, len),
            Ok(Decoded::Needs(_)) => continue,
            Err(_) if swap => continue,
            Err(error) => {
                // The fast path must not accept a frame that the general decoder refuses.
                assert_eq!(Message::compact(&bytes), None);
                assert_eq!(ReadResponse::whole(&bytes), None);
                assert_eq!(Write::whole(&bytes), None);
                assert_eq!(ReadRequest::whole(&bytes), None);
                let atomic = AtomicOp::whole(&bytes);
                assert!(atomic.is_none() || error == WireError::Length, "{bytes:?}");
                continue;
            }
        };
        taken += 1;
        if !swap {
            check_compact(&bytes, &frame, len);
        }
        let again = encode(&frame, bytes[7], swap);
        assert_eq!(
            decode(&again, swap),
            Ok(Decoded::Frame(frame, len)),
            "{bytes:?}"
        );
    }
    assert!(taken > ROUNDS, "{taken}");
}
