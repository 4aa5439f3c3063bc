// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Tests the entries of sockets on a machine with two interfaces and five addresses.

use super::*;
use base::info::Hints;
use base::info::machine::{A, Machine};
use base::{CompOrder, Error, Mode};

const BACKING: Backing = Backing {
    open: |_, _, _, _| Err(Error::NOSYS),
    auth_key_size: 256,
    auth_keys: 64,
};

fn empty() -> Hints {
    Info::default().into()
}

fn ask_by(hints: Option<&Hints>, params: &Params) -> Answer {
    let query = Query {
        version: 2 << 16 | 6,
        node: None,
        service: None,
        flags: 0,
        hints,
    };
    answer(&query, params, &BACKING, &Machine)
}

fn ask(hints: &Hints) -> Answer {
    ask_by(Some(hints), &Params::default())
}

/// Returns the number of entries of each kind: datagrams, unconnected, connected.
fn counts(answer: &Answer) -> [usize; 3] {
    [FI_EP_DGRAM, FI_EP_RDM, FI_EP_MSG].map(|ep_type| {
        let is_it = |info: &&Info| info.ep.ep_type == ep_type.0;
        answer.entries.iter().filter(is_it).count()
    })
}

/// Returns one entry of each kind, on the loopback interface.
fn kinds_of(answer: &Answer) -> [&Info; 3] {
    assert_eq!(counts(answer), [A, A, A]);
    [A - 2, 2 * A - 2, 3 * A - 2].map(|at| &answer.entries[at])
}

const ALL: [usize; 3] = [A, A, A];
const NONE: [usize; 3] = [0, 0, 0];

#[test]
fn each_address_has_three_kinds_in_their_order() {
    for answer in [ask(&empty()), ask_by(None, &Params::default())] {
        let [dgram, rdm, msg] = kinds_of(&answer);
        let types = [dgram, rdm, msg].map(|info| info.ep.ep_type);
        assert_eq!(types, [FI_EP_DGRAM.0, FI_EP_RDM.0, FI_EP_MSG.0]);
        let place = |info: &Info| {
            let (domain, fabric) = (info.domain.name.clone(), info.fabric.name.clone());
            (domain.unwrap(), fabric.unwrap())
        };
        for at in 0..A {
            let entries = &answer.entries;
            assert_eq!(place(&entries[at]), place(&entries[A + at]));
            assert_eq!(entries[at].src_addr, entries[2 * A + at].src_addr);
        }
        assert_eq!(place(&answer.entries[0]).0, c"eth0".to_owned());
        assert_eq!(place(dgram), (c"lo".to_owned(), c"127.0.0.1/32".to_owned()));
    }
}

#[test]
fn capabilities_of_the_three_kinds() {
    let answer = ask(&empty());
    let [dgram, rdm, msg] = kinds_of(&answer);
    let messages = flags!(Caps:
        MSG | TAGGED | SEND | RECV | MULTI_RECV | SOURCE | DIRECTED_RECV | TRIGGER | FENCE
    );
    let memory = flags!(Caps:
        RMA | ATOMIC | READ | WRITE | REMOTE_READ | REMOTE_WRITE | RMA_EVENT
    );
    let place = Caps::LOCAL_COMM | Caps::SHARED_AV;
    assert_eq!(dgram.caps, messages | place | Caps::NAMED_RX_CTX);
    assert_eq!(rdm.caps, dgram.caps | memory | Caps::RMA_PMEM);
    assert_eq!(msg.caps, messages | place | memory);
    assert_eq!(
        dgram.tx.caps,
        flags!(Caps: MSG | TAGGED | SEND | TRIGGER | FENCE | NAMED_RX_CTX)
    );
    assert_eq!(
        dgram.rx.caps,
        flags!(Caps: MSG | TAGGED | RECV | MULTI_RECV | TRIGGER | SOURCE | DIRECTED_RECV)
    );
    let both = flags!(Caps: RMA | ATOMIC | RMA_PMEM);
    assert_eq!(
        rdm.tx.caps,
        dgram.tx.caps | both | flags!(Caps: READ | WRITE)
    );
    assert_eq!(
        rdm.rx.caps,
        dgram.rx.caps | both | flags!(Caps: REMOTE_READ | REMOTE_WRITE | RMA_EVENT)
    );
    assert_eq!(rdm.domain.caps, DOMAIN);
}

#[test]
fn limits_and_defaults() {
    for (hints, size) in [(Some(&empty()), QUEUE), (None, MAX_QUEUE)] {
        let answer = ask_by(hints, &Params::default());
        for (info, contexts) in kinds_of(&answer).into_iter().zip([16, 16, 1]) {
            let (tx, rx, ep, domain) = (&info.tx, &info.rx, &info.ep, &info.domain);
            assert_eq!((tx.inject_size, tx.size, rx.size), (255, 256, size));
            assert_eq!((tx.msg_order, rx.msg_order), (ORDER, ORDER));
            assert_eq!(
                (tx.comp_order, info.mode),
                (CompOrder::empty(), Mode::empty())
            );
            assert_eq!((ep.protocol, ep.protocol_version), (FI_PROTO_SOCK_TCP, 2));
            assert_eq!((ep.tx_ctx_cnt, ep.rx_ctx_cnt), (contexts, contexts));
            let contexts = contexts.max(1);
            assert_eq!(
                (domain.max_ep_tx_ctx, domain.max_ep_rx_ctx),
                (contexts, contexts)
            );
            assert_eq!((domain.max_ep_stx_ctx, domain.max_ep_srx_ctx), (128, 128));
            let sizes = [
                ep.max_order_raw_size,
                ep.max_order_war_size,
                ep.max_order_waw_size,
            ];
            assert_eq!((sizes, ep.max_msg_size), ([MAX_MESSAGE; 3], MAX_MESSAGE));
            assert_eq!(
                (domain.cq_data_size, domain.cntr_cnt, domain.mr_cnt),
                (8, 128, 65535)
            );
            // Keys are offered only on request.
            assert_eq!((ep.auth_key_size, domain.max_ep_auth_key), (0, 0));
        }
    }
}

#[test]
fn capabilities_filter() {
    let reliable = [0, A, A];
    let unconnected = [A, A, 0];
    let rdm = [0, A, 0];
    let cases = [
        (Caps::MSG, ALL),
        (Caps::TAGGED, ALL),
        (Caps::MULTI_RECV | Caps::DIRECTED_RECV | Caps::SOURCE, ALL),
        (Caps::TRIGGER | Caps::FENCE | Caps::SHARED_AV, ALL),
        (Caps::NAMED_RX_CTX, unconnected),
        (Caps::RMA, reliable),
        (Caps::ATOMIC, reliable),
        (Caps::RMA_EVENT, reliable),
        (Caps::RMA_PMEM, rdm),
        (Caps::COLLECTIVE, rdm),
        (Caps::REMOTE_COMM, [3, 3, 3]),
        (Caps::AV_USER_ID, unconnected),
        (Caps::MULTICAST, NONE),
        (Caps::HMEM, NONE),
        (Caps::PEER, NONE),
    ];
    for (caps, expected) in cases {
        let answer = ask(&Hints { caps, ..empty() });
        assert_eq!(counts(&answer), expected, "{caps:#x}");
        assert!(answer.entries.iter().all(|info| info.caps.contains(caps)));
    }
    // With FI_SEND alone, fi_getinfo(3) adds the secondary capabilities.
    let answer = ask(&Hints {
        caps: Caps::MSG,
        ..empty()
    });
    let added = flags!(Caps: MULTI_RECV | TRIGGER | FENCE | LOCAL_COMM | SHARED_AV);
    let messages = Caps::MSG | Caps::SEND | Caps::RECV;
    let dgram = &answer.entries[A - 1];
    assert_eq!(dgram.caps, messages | added);
    let tx = flags!(Caps: MSG | SEND | TRIGGER | FENCE);
    let rx = flags!(Caps: MSG | RECV | MULTI_RECV | TRIGGER | SOURCE);
    assert_eq!((dgram.tx.caps, dgram.rx.caps), (tx, rx));
}

fn with_ep(set: impl Fn(&mut EpAttr)) -> Hints {
    let mut hints = empty();
    set(hints.ep.get_or_insert_default());
    hints
}

#[test]
fn contexts_are_several_or_shared() {
    let tx = |n| move |ep: &mut EpAttr| ep.tx_ctx_cnt = n;
    let rx = |n| move |ep: &mut EpAttr| ep.rx_ctx_cnt = n;
    let unconnected = [A, A, 0];
    assert_eq!(counts(&ask(&with_ep(tx(16)))), unconnected);
    assert_eq!(counts(&ask(&with_ep(rx(16)))), unconnected);
    assert_eq!(counts(&ask(&with_ep(tx(17)))), NONE);
    assert_eq!(counts(&ask(&with_ep(rx(17)))), NONE);
    let four = ask(&with_ep(tx(4)));
    assert_eq!(four.entries[0].ep.tx_ctx_cnt, 4);
    for shared in [
        with_ep(tx(FI_SHARED_CONTEXT)),
        with_ep(rx(FI_SHARED_CONTEXT)),
    ] {
        let answer = ask(&shared);
        assert_eq!(counts(&answer), ALL);
        let one = |info: &Info| (info.domain.max_ep_tx_ctx, info.domain.max_ep_rx_ctx) == (1, 1);
        assert!(answer.entries.iter().all(one));
    }
    let mixed = with_ep(|ep| (ep.tx_ctx_cnt, ep.rx_ctx_cnt) = (FI_SHARED_CONTEXT, 2));
    assert_eq!(counts(&ask(&mixed)), NONE);
}

#[test]
fn attributes_filter() {
    let tx = |set: fn(&mut TxAttr)| {
        let mut hints = empty();
        set(hints.tx.get_or_insert_default());
        counts(&ask(&hints))
    };
    assert_eq!(tx(|tx| tx.inject_size = 255), ALL);
    assert_eq!(tx(|tx| tx.inject_size = 256), NONE);
    assert_eq!(tx(|tx| tx.iov_limit = IOV_LIMIT), ALL);
    assert_eq!(tx(|tx| tx.iov_limit = IOV_LIMIT + 1), NONE);
    assert_eq!(tx(|tx| tx.rma_iov_limit = IOV_LIMIT), [0, A, A]);
    assert_eq!(tx(|tx| tx.msg_order = ORDER), ALL);
    assert_eq!(tx(|tx| tx.op_flags = OpFlags::DELIVERY_COMPLETE), ALL);
    let ep = |set: fn(&mut EpAttr)| counts(&ask(&with_ep(set)));
    assert_eq!(ep(|ep| ep.ep_type = FI_EP_DGRAM.0), [A, 0, 0]);
    assert_eq!(ep(|ep| ep.protocol = FI_PROTO_SOCK_TCP), ALL);
    assert_eq!(ep(|ep| ep.protocol = FI_PROTO_XNET), NONE);
    assert_eq!(ep(|ep| ep.max_msg_size = MAX_MESSAGE), ALL);
    assert_eq!(ep(|ep| ep.max_msg_size = MAX_MESSAGE + 1), NONE);
    let mut hints = empty();
    hints.domain.get_or_insert_default().cntr_cnt = 128;
    assert_eq!(counts(&ask(&hints)), ALL);
    hints.domain.get_or_insert_default().cntr_cnt = 129;
    assert_eq!(counts(&ask(&hints)), NONE);
}

#[test]
fn only_the_interface_that_is_named() {
    let of = |iface: &str| Params {
        iface: Some(iface.to_owned()),
        ..Params::default()
    };
    assert_eq!(counts(&ask_by(None, &of("lo"))), [2, 2, 2]);
    let answer = ask_by(None, &of("eth7"));
    assert_eq!(counts(&answer), NONE);
    assert_eq!(answer.reasons[0].refusal.field, "FI_SOCKETS_IFACE");
}
