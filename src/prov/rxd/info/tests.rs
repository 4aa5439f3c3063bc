// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Tests of the entries that result from entries below and from hints.

use std::cell::RefCell;

use super::*;

/// A provider below that records the hints it receives.
struct Fake {
    entry: Info,
    tells_source: bool,
    asked: RefCell<Vec<Hints>>,
}

impl Below for Fake {
    fn offers(&self, query: &Query) -> Answer {
        let hints = query.hints.cloned().unwrap_or_default();
        let fits = self.tells_source || !hints.caps.contains(Caps::SOURCE);
        let mut entry = self.entry.clone();
        entry.caps |= hints.caps;
        self.asked.borrow_mut().push(hints);
        Answer {
            entries: if fits { vec![entry] } else { Vec::new() },
            reasons: Vec::new(),
        }
    }
}

fn fake() -> Fake {
    let mut entry = Info {
        caps: flags!(Caps: MSG | LOCAL_COMM),
        addr_format: FI_SOCKADDR_IN,
        src_addr: Some(addr::to_bytes(&"127.0.0.1:0".parse().unwrap())),
        ..Info::default()
    };
    entry.ep.ep_type = FI_EP_DGRAM.0;
    entry.ep.max_msg_size = 1472;
    (entry.tx.size, entry.rx.size) = (1024, 1024);
    entry.domain.name = Some(c"lo".into());
    entry.fabric.name = Some(c"127.0.0.1/32".into());
    entry.fabric.prov_name = Some(c"udp".into());
    let (tells_source, asked) = (true, RefCell::default());
    #[rustfmt::skip]
    let fake = Fake { entry, tells_source, asked };
    fake
}

fn query(hints: Option<&Hints>) -> Query<'_> {
    Query {
        version: FI_MAJOR_VERSION << 16 | FI_MINOR_VERSION,
        node: None,
        service: None,
        flags: 0,
        hints,
    }
}

fn offered(fake: &Fake, hints: Option<&Hints>) -> Vec<Info> {
    offers(&query(hints), fake).entries
}

fn one(hints: Option<&Hints>) -> Info {
    let mut entries = offered(&fake(), hints);
    assert_eq!(entries.len(), 1);
    entries.remove(0)
}

#[test]
fn an_entry_is_that_of_upstream() {
    let hints = Hints {
        tx: Some(TxAttr::default()),
        rx: Some(RxAttr::default()),
        ..Hints::default()
    };
    let info = one(Some(&hints));
    assert_eq!(info.fabric.prov_name.as_deref(), Some(c"udp;ofi_rxd"));
    assert_eq!(
        (info.ep.ep_type, info.ep.protocol),
        (FI_EP_RDM.0, FI_PROTO_RXD)
    );
    assert_eq!(info.ep.protocol_version, 1);
    assert_eq!(info.domain.name.as_deref(), Some(c"lo"));
    assert_eq!(info.fabric.name.as_deref(), Some(c"127.0.0.1/32"));
    let upstream = flags!(Caps:
        MSG | RMA | TAGGED | READ | WRITE | RECV | SEND | REMOTE_READ | REMOTE_WRITE | MULTI_RECV | LOCAL_COMM
        | RMA_EVENT | SOURCE | DIRECTED_RECV | ATOMIC
    );
    assert_eq!(info.caps, upstream);
    assert_eq!(info.tx.caps, upstream & TX);
    assert_eq!(info.rx.caps, upstream & RX);
    assert_eq!(info.domain.caps, flags!(Caps: LOCAL_COMM | REMOTE_COMM));
    assert_eq!(
        (info.tx.inject_size, info.tx.size, info.rx.size),
        (1256, 1024, 1024)
    );
    assert_eq!((info.tx.msg_order, info.rx.msg_order), (ORDER, ORDER));
    assert_eq!((info.tx.op_flags, info.rx.op_flags), Default::default());
    let ep = &info.ep;
    assert_eq!(
        (ep.max_msg_size, ep.mem_tag_format),
        (usize::MAX, ALL_TAG_BITS)
    );
    let most = usize::MAX;
    let orders = (
        ep.max_order_raw_size,
        ep.max_order_war_size,
        ep.max_order_waw_size,
    );
    assert_eq!(orders, (most, 0, most));
    let domain = &info.domain;
    assert_eq!(domain.progress, FI_PROGRESS_MANUAL.0);
    assert_eq!(
        (domain.cq_cnt, domain.ep_cnt, domain.cq_data_size),
        (128, 128, 8)
    );
    assert_eq!(
        (domain.tx_ctx_cnt, domain.max_ep_tx_ctx, domain.mr_iov_limit),
        (1, 1, 1)
    );
    assert_eq!((domain.mr_mode, info.mode), Default::default());
}

#[test]
fn without_hints_flags_are_those_of_upstream() {
    let info = one(None);
    assert_eq!(info.tx.op_flags, TX_FLAGS);
    assert_eq!(info.rx.op_flags, flags!(OpFlags: COMPLETION | MULTI_RECV));
}

#[test]
fn automatic_progress_is_for_who_asks() {
    let mut hints = Hints::default();
    hints.domain.get_or_insert_default().progress = FI_PROGRESS_AUTO.0;
    assert_eq!(one(Some(&hints)).domain.progress, FI_PROGRESS_AUTO.0);
}

#[test]
fn what_costs_something_is_for_who_asks() {
    let hints = Hints {
        caps: flags!(Caps: TAGGED | SOURCE | SOURCE_ERR | TRIGGER),
        ..Hints::default()
    };
    assert!(one(Some(&hints)).caps.contains(hints.caps));
    for never in [Caps::COLLECTIVE, Caps::MULTICAST, Caps::FENCE, Caps::HMEM] {
        let hints = Hints {
            caps: never,
            ..Hints::default()
        };
        assert_eq!(offered(&fake(), Some(&hints)), []);
    }
}

#[test]
fn others_are_asked_for_datagrams_by_their_names() {
    let mut hints = Hints::default();
    hints.fabric.get_or_insert_default().prov_name = Some(c"UDP;ofi_rxd".into());
    let fake = fake();
    assert_eq!(offered(&fake, Some(&hints)).len(), 1);
    for asked in fake.asked.borrow().iter() {
        let fabric = asked.fabric.as_ref().unwrap();
        assert_eq!(fabric.prov_name.as_deref(), Some(c"UDP;^ofi_rxd"));
        assert_eq!(asked.ep.as_ref().unwrap().ep_type, FI_EP_DGRAM.0);
        assert!(asked.caps.contains(Caps::MSG));
    }
}

/// A provider that does not report the source of datagrams is accepted; one whose packets are too short is not.
#[test]
fn what_is_below_has_to_carry_a_packet() {
    let mut below = fake();
    below.tells_source = false;
    assert_eq!(offered(&below, None).len(), 1);
    below.entry.ep.max_msg_size = 600;
    assert_eq!(offered(&below, None)[0].tx.inject_size, 600 - 216);
    below.entry.mode = Mode::MSG_PREFIX;
    below.entry.ep.msg_prefix_size = 40;
    assert_eq!(offered(&below, None)[0].tx.inject_size, 560 - 216);
    below.entry.ep.max_msg_size = 200;
    assert_eq!(offered(&below, None), []);
    below.entry.ep.max_msg_size = 1 << 20;
    assert_eq!(offered(&below, None)[0].tx.inject_size, 4096 - 40 - 216);
    below.entry.ep.ep_type = FI_EP_MSG.0;
    assert_eq!(offered(&below, None), []);
}

#[test]
fn one_port_at_all_addresses_is_one_at_each() {
    let fake = fake();
    let query = Query {
        service: Some(c"7777"),
        flags: FI_SOURCE,
        ..query(None)
    };
    let entries = offers(&query, &fake).entries;
    let source = entries[0].src_addr.as_deref().and_then(addr::from_bytes);
    assert_eq!(source, Some("127.0.0.1:7777".parse().unwrap()));
}
