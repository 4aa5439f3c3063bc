// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Announcements and what the peer sends for them.

use super::*;

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

#[test]
fn a_message_is_offered_only_over_shared_memory() {
    let offer = Offer {
        index: 1,
        tagged: false,
        tag: 0,
        data: Some(3),
        places: [(4096, 10)].into_iter().collect(),
        epoch: 0,
        context: 2,
    };
    let mut told = Told::default();
    assert!(told.offered(&offer, false).is_err());
    let announcement = told.offered(&offer, true).ok().unwrap();
    assert_eq!((announcement.info.len, announcement.context), (10, 2));
    assert!(told.offered(&offer, true).is_err());
    assert!(!told.is_sharing());
}
