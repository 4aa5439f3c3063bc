// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Whole connections, one direction each: decoded in arbitrary pieces, and encoded again from the decoded values.

use super::*;

/// Reads a stream in arbitrary pieces, as a socket delivers it.
#[derive(Default)]
struct Reader {
    pending: Vec<u8>,
    cm: Option<(CmHeader, Vec<u8>)>,
    frames: Vec<(Frame, Vec<u8>)>,
}

impl Reader {
    fn feed(&mut self, piece: &[u8]) {
        self.pending.extend_from_slice(piece);
        while let Some(used) = self.step() {
            self.pending.drain(..used);
        }
    }

    /// Decodes one message from the front, if it is complete.
    fn step(&mut self) -> Option<usize> {
        let bytes = &self.pending;
        if self.cm.is_none() {
            let head = decode_cm(bytes.first_chunk()?).expect("a connection message");
            let end = CM_HEADER + head.private_len;
            let private = bytes.get(CM_HEADER..end)?.to_vec();
            self.cm = Some((head, private));
            return Some(end);
        }
        let Decoded::Frame(frame, len) = decode(bytes, false).expect("a header") else {
            return None;
        };
        let end = len + payload_of(&frame) as usize;
        let payload = bytes.get(len..end)?.to_vec();
        self.frames.push((frame, payload));
        Some(end)
    }

    fn ops(&self) -> String {
        let letters = self.frames.iter().map(|(frame, _)| match frame {
            Frame::Message(message) if message.tagged => 't',
            Frame::Message(_) => 'm',
            Frame::Ack => 'a',
            Frame::ReadRequest(_) => 'r',
            Frame::ReadResponse(_) => 'd',
            Frame::Write(_) => 'w',
            Frame::ReadyToSend(_) => 'R',
            Frame::ClearToSend { .. } => 'C',
            Frame::RendezvousData(_) => 'D',
            _ => '?',
        });
        let letters = letters.zip(&self.frames).map(|(letter, (frame, _))| {
            match "mtw".contains(letter) && frame.is_acknowledged() {
                true => letter.to_ascii_uppercase(),
                false => letter,
            }
        });
        letters.collect()
    }
}

/// Length of the private data, then the letters of `Reader::ops`: M, T and W request an acknowledgement.
#[rustfmt::skip]
const STREAMS: [(&str, CmKind, usize, &str); 18] = [
    ("msg-a2p", CmKind::Request, 10, "mmmmmMMwwwwWWrrmw"),
    ("msg-fabtests-a2p", CmKind::Request, 0, "m"),
    ("msg-fabtests-p2a", CmKind::Response, 0, ""),
    ("msg-fabtests-read-a2p", CmKind::Request, 0, "mMaMardMa"),
    ("msg-fabtests-read-p2a", CmKind::Response, 0, "maMaMrdaM"),
    ("msg-fabtests-write-a2p", CmKind::Request, 0, "mMaMawMa"),
    ("msg-fabtests-write-p2a", CmKind::Response, 0, "maMaMawM"),
    ("msg-p2a", CmKind::Response, 8, "aaaadd"),
    ("rdm-a2p", CmKind::Request, 8, "ttttTmmwwrttt"),
    ("rdm-fabtests-delivery-a2p", CmKind::Request, 8, "TaTatttttttttttTa"),
    ("rdm-fabtests-delivery-p2a", CmKind::Response, 8, "aTaTtttttttttttaT"),
    ("rdm-fabtests-tagged-a2p", CmKind::Request, 8, "tTattTa"),
    ("rdm-fabtests-tagged-p2a", CmKind::Response, 8, "taTttaT"),
    ("rdm-fabtests-writedata-a2p", CmKind::Request, 8, "mmMaMawwwwwwwwwwwMa"),
    ("rdm-fabtests-writedata-p2a", CmKind::Response, 8, "mmaMaMmmmmmmmmmmmmaM"),
    ("rdm-p2a", CmKind::Response, 8, "ad"),
    ("rdm-rndv-a2p", CmKind::Request, 8, "RDRDRDRDRDtm"),
    ("rdm-rndv-p2a", CmKind::Response, 8, "CCCaCC"),
];

fn stream(short: &str) -> Vec<u8> {
    read_hex(&format!("stream-tcp-{short}.hex"))
}

#[test]
fn every_stream_file_is_listed() {
    let on_disk = std::fs::read_dir(directory())
        .unwrap()
        .filter(|entry| {
            let file = entry.as_ref().unwrap().file_name();
            file.to_string_lossy().starts_with("stream-")
        })
        .count();
    assert_eq!(on_disk, STREAMS.len());
}

#[test]
fn streams_say_what_they_should_and_can_be_produced() {
    for (short, kind, private_len, ops) in STREAMS {
        let bytes = stream(short);
        let mut reader = Reader::default();
        reader.feed(&bytes);
        assert!(reader.pending.is_empty(), "{short}");
        assert_eq!(reader.ops(), ops, "{short}");
        let (head, private) = reader.cm.as_ref().unwrap();
        assert_eq!((head.kind, private.len()), (kind, private_len), "{short}");
        assert!(!head.swapped, "{short}");
        assert_eq!(produce(&reader, &bytes), bytes, "{short}");
    }
}

/// Encodes the stream again from the decoded values. The captures come from a little-endian host, so their connection
/// message is copied; so are byte 5, which is stale unless the op has segments, and byte 7, a counter.
fn produce(reader: &Reader, captured: &[u8]) -> Vec<u8> {
    let (_, private) = reader.cm.as_ref().unwrap();
    let mut out = captured[..CM_HEADER + private.len()].to_vec();
    for (frame, payload) in &reader.frames {
        let old = &captured[out.len()..];
        let mut bytes = encode(frame, old[7], false);
        if !matches!(frame, Frame::ReadRequest(_) | Frame::Write(_)) {
            bytes[5] = old[5];
        }
        out.extend(bytes);
        out.extend(payload);
    }
    out
}

#[test]
fn streams_cut_anywhere_say_the_same() {
    for (short, ..) in STREAMS {
        let bytes = stream(short);
        let mut whole = Reader::default();
        whole.feed(&bytes);
        let same = |reader: &Reader, at: usize| {
            assert!(reader.pending.is_empty(), "{short} cut at {at}");
            assert_eq!(reader.cm, whole.cm, "{short} cut at {at}");
            assert_eq!(reader.frames, whole.frames, "{short} cut at {at}");
        };
        for at in 0..=bytes.len() {
            let mut reader = Reader::default();
            reader.feed(&bytes[..at]);
            reader.feed(&bytes[at..]);
            same(&reader, at);
        }
        let mut reader = Reader::default();
        for byte in bytes.chunks(1) {
            reader.feed(byte);
        }
        same(&reader, 1);
    }
}
