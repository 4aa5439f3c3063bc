// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Packets that no correct peer sends.

use super::*;

fn whole(body: Body<'_>) -> Vec<u8> {
    encode(&Packet { conn: 7, body })
}

/// Returns the packet with one byte changed.
fn changed(bytes: &[u8], at: usize, byte: u8) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[at] = byte;
    bytes
}

fn refused(bytes: &[u8]) -> &'static str {
    match decode(bytes) {
        Err(Fault(why)) => why,
        Ok(packet) => panic!("{packet:?}"),
    }
}

#[test]
fn headers_that_say_something_else() {
    let eager = whole(Body::Eager(tagged(8), b"12345678"));
    assert!(decode(&eager).is_ok());
    assert!(refused(&changed(&eager, 0, 5)).contains("another version"));
    assert!(refused(&changed(&eager, 1, 9)).contains("unknown kind"));
    assert!(refused(&changed(&eager, 32, 3)).contains("another version"));
    assert!(refused(&changed(&eager, 34, 2)).contains("none"));
    assert!(refused(&changed(&eager, 40, 9)).contains("another length"));
    assert!(refused(&changed(&eager, 12, 1)).contains("no connection"));
    // Fields that the kind of packet does not use are ignored.
    for at in (2..8).chain(16..32).chain([35]) {
        assert_eq!(decode(&changed(&eager, at, 0xff)), decode(&eager), "{at}");
    }
}

#[test]
fn a_message_names_its_receive_context() {
    let message = Message {
        context: 63,
        ..tagged(8)
    };
    let packet = whole(Body::Eager(message, b"12345678"));
    assert_eq!(packet[33], 63);
    let Ok(Body::Eager(read, _)) = decode(&packet).map(|packet| packet.body) else {
        panic!("a message");
    };
    assert_eq!(read, message);
    assert_eq!(whole(Body::Eager(tagged(8), b"12345678"))[33], 0);
}

#[test]
fn segments_out_of_place() {
    let segment = |number, part| {
        let segment = Segment {
            msg: 1,
            number,
            len: 4,
            part,
        };
        whole(Body::Segment(segment, tagged(8), b"1234"))
    };
    assert!(decode(&segment(0, Part::First)).is_ok());
    assert!(decode(&segment(3, Part::Last)).is_ok());
    assert!(refused(&segment(0, Part::Middle)).contains("number"));
    assert!(refused(&segment(1, Part::First)).contains("number"));
    let first = segment(0, Part::First);
    assert!(refused(&changed(&first, 2, 5)).contains("another length"));
    assert!(refused(&changed(&first, 40, 3)).contains("another length"));
    assert!(refused(&changed(&first, 24, 4)).contains("without a place"));
}

#[test]
fn lists_of_places_that_cannot_be() {
    let list = |list: &[RemoteSeg], size| {
        whole(Body::Request {
            msg: 1,
            message: tagged(size),
            places: places(list),
        })
    };
    let good = list(&[place(0, 8, 1), place(8, 8, 2)], 16);
    assert!(decode(&good).is_ok());
    let count = HEADER + 96;
    assert!(refused(&changed(&good, count, 0)).contains("no places"));
    assert!(refused(&changed(&good, count, 5)).contains("too many"));
    assert!(refused(&list(&[place(0, 8, 1)], 9)).contains("longer than"));
    let huge = [place(0, usize::MAX, 1), place(0, 1, 1)];
    assert!(refused(&list(&huge, 16)).contains("memory"));
    assert!(refused(&good[..good.len() - 1]).contains("another length"));
    let without = |keys: [u64; 2]| places(&keys.map(|key| place(0, 1, key))).without_keys();
    assert!(without([NO_KEY, NO_KEY]) && !without([NO_KEY, 1]));
}

#[test]
fn atomic_operations_that_there_are_not() {
    let atomic = |family, op, operands: &'static [u8], len| AtomicRequest {
        head: AtomicHead {
            family,
            datatype: FI_UINT32,
            op,
        },
        target: places(&[place(0, len, KEY)]),
        len,
        operands,
    };
    let bytes = |request| whole(Body::Atomic { msg: 1, request });
    let good = bytes(atomic(Family::Fetch, FI_SUM, b"12345678", 8));
    assert!(decode(&good).is_ok());
    assert!(refused(&changed(&good, 34, 1)).contains("none"));
    assert!(refused(&changed(&good, 34, 8)).contains("there is not"));
    assert!(refused(&changed(&good, 56, 200)).contains("there is not"));
    assert!(refused(&changed(&good, 57, 200)).contains("there is not"));
    assert!(refused(&changed(&good, 58, 0)).contains("no memory"));
    assert!(refused(&changed(&good, 58, 5)).contains("too many"));
    assert!(refused(&changed(&good, 40, 9)).contains("another length"));
    let elements = HEADER + 8;
    assert!(refused(&changed(&good, elements, 3)).contains("another length"));
    assert!(refused(&changed(&good, elements + 7, 0xff)).contains("memory"));
    assert!(refused(&good[..HEADER + 50]).contains("target"));
    // A read has no operands that would limit it.
    let read = bytes(atomic(Family::Fetch, FI_ATOMIC_READ, b"", 8));
    assert!(decode(&read).is_ok());
    assert!(refused(&changed(&read, elements + 3, 1)).contains("another length"));
}

#[test]
fn answers_of_another_length() {
    let head = AtomicHead {
        family: Family::Fetch,
        datatype: FI_UINT64,
        op: FI_SUM,
    };
    let answer = [&head.response(1, 2, 0, 8)[..], b"12345678"].concat();
    assert!(decode(&answer).is_ok());
    assert!(refused(&changed(&answer, HEADER + 7, 7)).contains("another length"));
    assert!(refused(&answer[..HEADER + 7]).contains("cut"));
    assert!(refused(&answer[..HEADER + 9]).contains("another length"));
}

#[test]
fn requests_of_others_are_told_apart() {
    let request = Request {
        port: 1,
        flow: FlowControl::Off,
        groups: false,
        eager: 16384,
        depth: 0,
        id: ConnId::default(),
    };
    let bytes = request.encode();
    assert_eq!(Request::decode(&bytes), Ok(request));
    // A native RDM endpoint of tcp has 8 bytes.
    assert!(
        Request::decode(&bytes[..8])
            .unwrap_err()
            .contains("not those")
    );
    assert!(
        Request::decode(&changed(&bytes, 1, 1))
            .unwrap_err()
            .contains("byte order")
    );
    for at in [0, 2, 3] {
        let other = Request::decode(&changed(&bytes, at, 9));
        assert!(other.unwrap_err().contains("version"), "{at}");
    }
    assert_eq!(Response::decode(&[0; 15]), None);
    for (bytes, reason) in [
        (&[1, 0][..], Reason::Unspecified),
        (&[1, 1], Reason::Refused),
        (&[1, 2], Reason::Connected),
        (&[1, 9], Reason::Refused),
        (&[2, 2], Reason::Refused),
        (&[1], Reason::Refused),
        (&[], Reason::Refused),
    ] {
        assert_eq!(reason_of(bytes), reason, "{bytes:?}");
    }
}
