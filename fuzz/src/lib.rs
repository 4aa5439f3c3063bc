// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Functions that libFuzzer calls: each gets arbitrary bytes, and must return. `make check-fuzz` runs them.

mod library;
mod live;
mod peer;
mod rxd_peer;
mod rxm;
mod rxm_peer;

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;

use base::params::Kind;
use engine::address::ip::Format;
use engine::transport::{Address, AddressFormat};
use prov::tcp::params::Params;
use registry::names::{Allowed, Wanted};
use stream::hello::{Answer, Hello};
use stream::proto::*;

pub use peer::peer;
pub use rxd_peer::rxd_peer;
pub use rxm::rxm;
pub use rxm_peer::rxm_peer;

/// Data frames of tcp, in both byte orders. A decoded frame must be encoded as the same bytes.
pub fn frames(data: &[u8]) {
    for swap in [false, true] {
        let (frame, len) = match decode(data, swap) {
            Ok(Decoded::Frame(frame, len)) => (frame, len),
            Ok(Decoded::Needs(len)) => {
                assert!(data.len() < len && len <= MAX_HEADER);
                continue;
            }
            Err(_) => continue,
        };
        let mut out = [0; MAX_HEADER];
        assert_eq!(frame.encode(data[7], swap, &mut out), len);
        assert_eq!(decode(&out[..len], swap), Ok(Decoded::Frame(frame, len)));
    }
    if let Some((message, payload, frame)) = Message::whole(data) {
        let len = frame - payload.len();
        let general = decode(data, false);
        assert_eq!(general, Ok(Decoded::Frame(Frame::Message(message), len)));
        assert_eq!(message.payload, payload.len() as u64);
        let mut out = [0; MAX_MESSAGE_HEADER];
        assert_eq!(message.encode(data[7], false, &mut out), len);
        assert_eq!(decode(&out[..len], false), general);
    }
    // The caller must check the lengths of an atomic operation.
    if let Some((whole, end)) = Whole::of(data)
        && let Ok(frame) = decode(data, false)
    {
        let one = |seg| [seg].into_iter().collect();
        let (same, payload) = match whole {
            Whole::Write(write, payload) => {
                assert_eq!(write.payload, payload.len() as u64);
                let segs = one(write.segs);
                let Write {
                    data,
                    ack,
                    commit,
                    payload: len,
                    ..
                } = write;
                let write = Write {
                    segs,
                    data,
                    ack,
                    commit,
                    payload: len,
                };
                (Frame::Write(write), payload.len())
            }
            Whole::ReadRequest(seg) => (Frame::ReadRequest(ReadRequest { segs: one(seg) }), 0),
            Whole::ReadResponse(bytes) => {
                let payload = bytes.len() as u64;
                (Frame::ReadResponse(ReadResponse { payload }), bytes.len())
            }
            Whole::Atomic(what, seg, bytes) => {
                let atomic = Atomic {
                    what,
                    segs: one(seg),
                    data: None,
                    ack: false,
                    commit: false,
                    payload: bytes.len() as u64,
                };
                (Frame::Atomic(atomic), bytes.len())
            }
        };
        assert_eq!(frame, Decoded::Frame(same, end - payload));
    }
}

/// Connection messages of tcp, their private data, the frames that prove a key, and messages between peers of one host.
pub fn connect(data: &[u8]) {
    if let Some(op) = SameHostFrame::decode(data, false) {
        assert_eq!(op.encode(data[7], false), data);
    }
    if let Some(hello) = data.first_chunk()
        && let Ok(hello) = Hello::decode(hello)
    {
        assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
    }
    if let Some(answer) = data.first_chunk()
        && let Some(answer) = Answer::decode(answer)
    {
        assert_eq!(Answer::decode(&answer.encode()), Some(answer));
    }
    if let Some((head, rest)) = data.split_first_chunk::<CM_HEADER>()
        && let Ok(cm) = decode_cm(head)
    {
        assert!(cm.private_len <= MAX_PRIVATE);
        if let Some(private) = rest.get(..cm.private_len) {
            let out = encode_cm(cm.kind, private, cm.extended, cm.keyed);
            let again = decode_cm(out.first_chunk().expect("a header")).expect("our own");
            assert_eq!((again.kind, again.private_len), (cm.kind, cm.private_len));
            assert_eq!((again.extended, again.keyed), (cm.extended, cm.keyed));
            assert_eq!(private_of(&out), private);
        }
        if let Some(private) = RdmPrivate::decode(rest) {
            assert_eq!(RdmPrivate::decode(&private.encode()), Some(private));
            let answer = private.answer(EXTENSIONS, 7);
            assert!(answer.version <= private.version);
        }
    }
    for swap in [false, true] {
        if let Some((head, _)) = data.split_first_chunk::<BASE_HEADER>()
            && let Ok(op) = decode_auth(head, swap)
        {
            assert!(BASE_HEADER + op.payload() <= MAX_AUTH);
        }
    }
}

/// Packets of rxd. A decoded operation must be encoded as the same bytes.
pub fn rxd(data: &[u8]) {
    use prov::rxd::proto::{MAX_OP_HEADER, Packet};
    let Ok(Packet::Op(head, op, payload)) = Packet::decode(data) else {
        return;
    };
    let mut again = vec![0; MAX_OP_HEADER];
    let len = op.encode(head, &mut again);
    assert_eq!(len, op.len());
    again.truncate(len);
    again.extend_from_slice(payload);
    assert_eq!(Packet::decode(&again), Ok(Packet::Op(head, op, payload)));
}

/// Addresses as bytes and as text: fi_av_insert, fi_av_insertsvc, fi_av_straddr, fi_getinfo(3) FI_ADDR_STR.
pub fn addresses(data: &[u8]) {
    if let Some(addr) = SocketAddr::from_bytes(data) {
        let bytes = addr.to_bytes();
        assert_eq!(SocketAddr::from_bytes(&bytes), Some(addr));
        let text = Format.text(&bytes);
        // A scope is an interface of this host; the text contains it only if the interface exists.
        if !text.contains('%') {
            assert_eq!(Format.parse(&text), Some(addr));
        }
    }
    if let Ok(text) = str::from_utf8(data)
        && let Some(addr) = Format.parse(text)
    {
        assert_eq!(SocketAddr::from_bytes(&addr.to_bytes()), Some(addr));
    }
    let _ = Format.text(data);
    for format in 0..32 {
        base::text::address::straddr(format, data, 0);
    }
}

/// Values of variables: values of each type, lists of providers, and the variables of tcp.
pub fn variables(data: &[u8]) {
    for kind in [Kind::String, Kind::Int, Kind::Bool, Kind::Size] {
        if let Some(value) = kind.parse(data) {
            let _ = value.to_string();
        }
    }
    if let Ok(text) = str::from_utf8(data) {
        let (allowed, wanted) = (Allowed::parse(Some(text)), Wanted::parse(Some(text)));
        for name in ["tcp", "tcp;ofi_rxm", "", text] {
            allowed.result(name);
            wanted.core(name);
            wanted.layered("ofi_rxm", name);
        }
    }
    if data.contains(&0) {
        return;
    }
    const NAMES: [&str; 6] = [
        "FI_TCP_PORT_HIGH_RANGE",
        "FI_TCP_MAX_INJECT",
        "FI_TCP_TX_SIZE",
        "FI_TCP_MAX_SAVED_SIZE",
        "FI_TCP_CONN_TIMEOUT",
        "FI_TCP_IFACE",
    ];
    let _ = registry::providers();
    let parts = data
        .split(|&byte| byte == b'\n')
        .chain(std::iter::repeat(&[][..]));
    for (name, part) in NAMES.iter().zip(parts) {
        // SAFETY: no other thread of this process reads the environment.
        unsafe { std::env::set_var(name, OsStr::from_bytes(part)) };
    }
    Params::read();
}
