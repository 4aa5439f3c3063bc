// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Announcements and what the peer sends for them.

use super::*;
use hmem::Kind;
use hmem::export::{HANDLE, NAME};

fn ready(index: u8) -> ReadyToSend {
    ReadyToSend {
        index,
        tag: 7,
        size: 10,
        data: None,
        ack: true,
        context: 0,
    }
}

fn data(index: u8, payload: u64) -> RendezvousData {
    RendezvousData {
        index,
        has_data: false,
        ack: true,
        payload,
    }
}

#[test]
fn an_index_names_one_message_until_its_bytes_arrive() {
    let mut told = Told::default();
    for index in [1, 64, 254] {
        let announcement = told.announced(&ready(index)).ok().unwrap();
        assert_eq!(of_note(announcement.note), (index, true));
        assert!(told.announced(&ready(index)).is_err(), "in use");
        assert!(told.arrives(&data(index, 10)).is_err(), "not requested");
        let message = Requested {
            since: 0,
            recv: None,
            envelope: announcement.info.envelope(0, 0, 0),
            ack: true,
        };
        told.kept().requested.insert(index, message);
        assert!(told.arrives(&data(index, 11)).is_err(), "another length");
        assert!(told.announced(&ready(index)).is_err(), "still in use");
        assert!(told.arrives(&data(index, 10)).is_ok());
        assert!(told.announced(&ready(index)).is_ok());
    }
}

fn offer(places: &[(usize, usize)]) -> Offer {
    Offer {
        index: 1,
        tagged: false,
        tag: 0,
        data: Some(3),
        places: places.iter().copied().collect(),
        epoch: 0,
        context: 2,
    }
}

#[test]
fn a_message_is_offered_only_over_shared_memory() {
    let offer = offer(&[(4096, 10)]);
    let mut told = Told::default();
    assert!(told.offered(&offer, false).is_err());
    let announcement = told.offered(&offer, true).ok().unwrap();
    assert_eq!((announcement.info.len, announcement.context), (10, 2));
    assert!(told.offered(&offer, true).is_err());
    assert!(!told.is_sharing());
}

#[test]
fn device_memory_comes_before_its_offer_and_contains_it() {
    let exported = |index| Exported {
        index,
        export: Export {
            kind: Kind::Cuda,
            handle: [1; HANDLE],
            device: [2; NAME],
            base: 4096,
            len: 100,
        },
    };
    let mut told = Told::default();
    assert!(
        told.exported(&exported(1), false).is_err(),
        "no shared memory"
    );
    assert!(told.exported(&exported(1), true).is_ok());
    assert!(
        told.exported(&exported(1), true).is_err(),
        "without an offer"
    );
    let offered = |index, places: &[(usize, usize)]| {
        let mut told = Told::default();
        let _ = told.exported(&exported(index), true);
        told.offered(&offer(places), true).is_ok()
    };
    assert!(offered(1, &[(4096, 100)]) && offered(1, &[(4195, 1)]));
    assert!(!offered(2, &[(4096, 100)]), "another index");
    let outside: [&[(usize, usize)]; 4] = [
        &[(4095, 10)],
        &[(4096, 101)],
        &[(4196, 1)],
        &[(4096, 10), (4106, 10)],
    ];
    for places in outside {
        assert!(!offered(1, places), "{places:?}");
    }
    // An offer without device memory before it is one of host memory.
    assert!(told.offered(&offer(&[(4100, 5)]), true).is_ok());
    assert!(told.kept().offered[&1].export.is_some());
    let mut told = Told::default();
    assert!(told.offered(&offer(&[(1, 5)]), true).is_ok());
    assert!(told.kept().offered[&1].export.is_none());
}
