// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Hints and the resulting entries.

use super::*;
use base::{Caps, CompOrder, MrMode, MsgOrder, OpFlags};

#[test]
fn without_hints_all_is_shown() {
    let answer = answer(&query(None, 0), &Params::default(), &Machine);
    assert_eq!(counts(&answer), [A, A, A]);
    let [msg, shared, rdm] = [0, A, 2 * A].map(|at| &answer.entries[at]);
    assert_eq!(
        (msg.rx.size, shared.rx.size, rdm.rx.size),
        (1024, 65536, 65536)
    );
    assert_eq!((msg.tx.size, shared.tx.size, rdm.tx.size), (256, 256, 256));
    assert_eq!(msg.tx.op_flags, TX_FLAGS);
    assert_eq!(msg.rx.op_flags, OpFlags::COMPLETION);
    assert_eq!(rdm.rx.op_flags, OpFlags::COMPLETION | OpFlags::MULTI_RECV);
    assert_eq!(shared.ep.rx_ctx_cnt, FI_SHARED_CONTEXT);
    let more = Caps::TAGGED | Caps::MULTI_RECV | Caps::SOURCE | Caps::DIRECTED_RECV;
    assert_eq!(shared.caps, msg.caps | more);
}

/// Programs may choose from the list without hints.
#[test]
fn without_hints_what_there_is_on_request_comes_last() {
    let params = Params {
        offer_all: true,
        ..Params::default()
    };
    let answer = answer(&query(None, 0), &params, &Machine);
    let more = Caps::ATOMIC | Caps::TRIGGER | Caps::FENCE | Caps::NAMED_RX_CTX;
    let (usual, full) = answer.entries.split_at(3 * A);
    assert!(usual.iter().all(|info| !info.caps.intersects(more)));
    for (info, usual) in full.iter().zip(&usual[2 * A..]) {
        assert_eq!(info.caps, usual.caps | more);
        assert_eq!(info.src_addr, usual.src_addr);
        assert_eq!(info.domain.max_ep_tx_ctx, MAX_CONTEXTS);
        assert_eq!(info.tx.msg_order, ORDER | AFTER_READS);
    }
}

#[test]
fn capabilities_filter() {
    let all = [A, 0, A];
    let rdm = [0, 0, A];
    let none = [0, 0, 0];
    let cases = [
        (Caps::MSG, all),
        (Caps::SEND, all),
        (Caps::LOCAL_COMM, all),
        (Caps::TAGGED, rdm),
        (Caps::MULTI_RECV, rdm),
        (Caps::DIRECTED_RECV, rdm),
        (Caps::RMA, all),
        (Caps::RMA_PMEM, all),
        (Caps::RMA_EVENT, all),
        (Caps::SOURCE, rdm),
        (Caps::REMOTE_COMM, [3, 0, 3]),
        (Caps::ATOMIC, all),
        (Caps::MSG | Caps::TAGGED | Caps::RMA | Caps::ATOMIC, rdm),
        (Caps::MULTICAST, none),
        (Caps::COLLECTIVE, rdm),
        (Caps::HMEM, none),
        (Caps::TRIGGER, all),
        (Caps::FENCE, all),
        (Caps::NAMED_RX_CTX, rdm),
        (Caps::SHARED_AV, rdm),
        (Caps::SOURCE | Caps::SOURCE_ERR, rdm),
        (Caps::SOURCE_ERR, none),
        (Caps::PEER, rdm),
        (Caps::AV_USER_ID, rdm),
        (Caps::TAGGED_MULTI_RECV, rdm),
        (Caps::TAGGED_DIRECTED_RECV, rdm),
        (Caps::EXACT_DIRECTED_RECV, rdm),
        (Caps::from_bits_retain(1 << 63), none),
    ];
    for (caps, expected) in cases {
        let answer = ask(&Hints { caps, ..empty() });
        assert_eq!(counts(&answer), expected, "{caps:#x}");
        let refused = expected == none;
        assert!(!refused || answer.reasons.iter().any(|r| r.refusal.field == "caps"));
    }
}

#[test]
fn capabilities_of_a_result() {
    let base = Caps::RMA_PMEM | Caps::RMA_EVENT | Caps::LOCAL_COMM | Caps::REMOTE_COMM;
    let rx = Caps::RMA_PMEM | Caps::RMA_EVENT | Caps::MULTI_RECV | Caps::SOURCE;
    let both = Caps::MSG | Caps::SEND | Caps::RECV;
    let memory = Caps::RMA | Caps::READ | Caps::WRITE | Caps::REMOTE_READ | Caps::REMOTE_WRITE;
    let cases = [
        (
            Caps::MSG,
            both,
            Caps::MSG | Caps::SEND,
            Caps::MSG | Caps::RECV,
        ),
        (
            Caps::MSG | Caps::RECV,
            Caps::MSG | Caps::RECV,
            Caps::MSG | Caps::SEND,
            Caps::MSG | Caps::RECV,
        ),
        (
            Caps::MSG | Caps::RMA,
            both | memory,
            Caps::MSG | Caps::SEND | Caps::RMA | Caps::READ | Caps::WRITE,
            Caps::MSG | Caps::RECV | Caps::RMA | Caps::REMOTE_READ | Caps::REMOTE_WRITE,
        ),
    ];
    for (caps, info_caps, tx_caps, rx_caps) in cases {
        let answer = ask(&Hints { caps, ..empty() });
        let info = &answer.entries[A];
        assert_eq!(info.caps, info_caps | base | Caps::MULTI_RECV, "{caps:#x}");
        assert_eq!(info.tx.caps, tx_caps | Caps::RMA_PMEM, "{caps:#x}");
        assert_eq!(info.rx.caps, rx_caps | rx, "{caps:#x}");
    }
    let asked = Caps::TAGGED | Caps::SOURCE;
    let answer = ask(&Hints {
        caps: asked,
        ..empty()
    });
    assert!(answer.entries[0].caps.contains(Caps::SOURCE));
}

#[test]
fn hints_of_endpoints_filter() {
    let with = |set: fn(&mut EpAttr)| {
        let mut hints = empty();
        set(hints.ep.as_mut().unwrap());
        counts(&ask(&hints))
    };
    assert_eq!(with(|ep| ep.ep_type = FI_EP_MSG.0), [A, 0, 0]);
    assert_eq!(with(|ep| ep.ep_type = FI_EP_RDM.0), [0, 0, A]);
    assert_eq!(with(|ep| ep.ep_type = FI_EP_DGRAM.0), [0, 0, 0]);
    assert_eq!(with(|ep| ep.ep_type = 4), [0, 0, 0]);
    assert_eq!(with(|ep| ep.max_msg_size = 1 << 62), [A, 0, A]);
    assert_eq!(with(|ep| ep.protocol = FI_PROTO_XNET), [0, 0, A]);
    assert_eq!(with(|ep| ep.protocol = FI_PROTO_RXM), [0, 0, 0]);
    assert_eq!(
        with(|ep| {
            ep.protocol = FI_PROTO_XNET;
            ep.protocol_version = 2;
        }),
        [0, 0, 0]
    );
    assert_eq!(with(|ep| ep.rx_ctx_cnt = FI_SHARED_CONTEXT), [A, A, A]);
    assert_eq!(with(|ep| ep.tx_ctx_cnt = FI_SHARED_CONTEXT), [A, 0, A]);
    assert_eq!(with(|ep| ep.tx_ctx_cnt = 64), [0, 0, A]);
    assert_eq!(with(|ep| ep.rx_ctx_cnt = 64), [0, 0, A]);
    assert_eq!(with(|ep| ep.tx_ctx_cnt = 65), [0, 0, 0]);
    let mixed = |ep: &mut EpAttr| (ep.tx_ctx_cnt, ep.rx_ctx_cnt) = (2, FI_SHARED_CONTEXT);
    assert_eq!(with(mixed), [0, 0, 0]);
    assert_eq!(with(|ep| ep.auth_key_size = 256), [A, 0, A]);
    assert_eq!(with(|ep| ep.auth_key_size = 257), [0, 0, 0]);
    let without = Hints {
        ep: None,
        ..empty()
    };
    assert_eq!(counts(&ask(&without)), [A, A, A]);
    let tags = |caps| {
        let mut hints = Hints { caps, ..empty() };
        hints.ep.as_mut().unwrap().mem_tag_format = u64::MAX;
        counts(&ask(&hints))
    };
    assert_eq!(tags(Caps::TAGGED), [0, 0, A]);
    assert_eq!(tags(Caps::MSG), [A, 0, A]);
}

#[test]
fn hints_of_contexts_filter() {
    let with_tx = |set: fn(&mut TxAttr)| {
        let mut hints = empty();
        set(hints.tx.as_mut().unwrap());
        counts(&ask(&hints))
    };
    assert_eq!(with_tx(|tx| tx.inject_size = 8192), [A, 0, A]);
    assert_eq!(with_tx(|tx| tx.inject_size = 8193), [0, 0, 0]);
    assert_eq!(with_tx(|tx| tx.iov_limit = 5), [0, 0, 0]);
    assert_eq!(with_tx(|tx| tx.size = 65536), [0, 0, A]);
    assert_eq!(with_tx(|tx| tx.size = 100_000), [0, 0, 0]);
    assert_eq!(
        with_tx(|tx| tx.comp_order = CompOrder::from_bits_retain(1)),
        [0, 0, 0]
    );
    assert_eq!(with_tx(|tx| tx.msg_order = MsgOrder::WAR), [A, 0, A]);
    assert_eq!(
        with_tx(|tx| tx.msg_order = MsgOrder::from_bits_retain(1 << 20)),
        [0, 0, 0]
    );
    assert_eq!(with_tx(|tx| tx.msg_order = MsgOrder::SAS), [A, 0, A]);
    assert_eq!(with_tx(|tx| tx.op_flags = OpFlags::FENCE), [0, 0, 0]);
    assert_eq!(
        with_tx(|tx| tx.op_flags = OpFlags::DELIVERY_COMPLETE),
        [A, 0, A]
    );
    assert_eq!(
        with_tx(|tx| tx.op_flags = OpFlags::COMMIT_COMPLETE),
        [A, 0, A]
    );
    assert_eq!(with_tx(|tx| tx.caps = Caps::ATOMIC), [A, 0, A]);
    assert_eq!(with_tx(|tx| tx.caps = Caps::MULTICAST), [0, 0, 0]);
    assert_eq!(with_tx(|tx| tx.caps = Caps::RECV), [A, 0, A]);
    let with_rx = |set: fn(&mut RxAttr)| {
        let mut hints = empty();
        set(hints.rx.as_mut().unwrap());
        counts(&ask(&hints))
    };
    assert_eq!(with_rx(|rx| rx.total_buffered_recv = 1), [0, 0, 0]);
    assert_eq!(
        with_rx(|rx| rx.comp_order = CompOrder::from_bits_retain(1)),
        [0, 0, 0]
    );
    assert_eq!(with_rx(|rx| rx.size = 1025), [0, 0, A]);
    let mut hints = empty();
    hints.tx.as_mut().unwrap().inject_size = 8;
    assert!(
        ask(&hints)
            .entries
            .iter()
            .all(|info| info.tx.inject_size == 8)
    );
}

#[test]
fn hints_of_domains_filter() {
    let with = |set: fn(&mut DomainAttr)| {
        let mut hints = empty();
        set(hints.domain.as_mut().unwrap());
        counts(&ask(&hints))
    };
    let all = [A, 0, A];
    let none = [0, 0, 0];
    assert_eq!(with(|domain| domain.name = Some(c"lo".into())), [2, 0, 2]);
    assert_eq!(with(|domain| domain.name = Some(c"LO".into())), [2, 0, 2]);
    assert_eq!(with(|domain| domain.name = Some(c"ib0".into())), none);
    assert_eq!(with(|domain| domain.threading = FI_THREAD_DOMAIN.0), all);
    assert_eq!(with(|domain| domain.threading = FI_THREAD_FID.0), none);
    assert_eq!(with(|domain| domain.threading = FI_THREAD_ENDPOINT.0), none);
    assert_eq!(with(|domain| domain.threading = 77), none);
    assert_eq!(with(|domain| domain.progress = FI_PROGRESS_AUTO.0), all);
    assert_eq!(with(|domain| domain.progress = 77), none);
    assert_eq!(with(|domain| domain.control_progress = 77), all);
    assert_eq!(with(|domain| domain.resource_mgmt = FI_RM_DISABLED.0), all);
    assert_eq!(with(|domain| domain.resource_mgmt = 77), none);
    assert_eq!(with(|domain| domain.av_type = FI_AV_MAP.0), all);
    assert_eq!(with(|domain| domain.av_type = 77), none);
    assert_eq!(with(|domain| domain.cq_data_size = 9), none);
    assert_eq!(with(|domain| domain.mr_iov_limit = 2), none);
    assert_eq!(with(|domain| domain.cntr_cnt = 1), none);
    assert_eq!(with(|domain| domain.mr_cnt = 1), none);
    assert_eq!(with(|domain| domain.auth_key_size = 256), all);
    assert_eq!(with(|domain| domain.auth_key_size = 257), none);
    let in_av = with(|domain| domain.auth_key_size = FI_AV_AUTH_KEY);
    assert_eq!(in_av, [0, 0, A]);
    assert_eq!(with(|domain| domain.max_ep_auth_key = 64), [0, 0, A]);
    assert_eq!(with(|domain| domain.max_ep_auth_key = 65), none);
    assert_eq!(with(|domain| domain.max_cntr_value = 5), all);
    assert_eq!(with(|domain| domain.cq_cnt = usize::MAX), all);
    assert_eq!(with(|domain| domain.mr_key_size = 9), all);
}

#[test]
fn fabrics_are_found_by_name_and_version() {
    let with = |set: fn(&mut FabricAttr)| {
        let mut hints = empty();
        set(hints.fabric.as_mut().unwrap());
        counts(&ask(&hints))
    };
    assert_eq!(
        with(|fabric| fabric.name = Some(c"192.0.2.0/24".into())),
        [1, 0, 1]
    );
    assert_eq!(
        with(|fabric| fabric.name = Some(c"FD00::/64".into())),
        [1, 0, 1]
    );
    assert_eq!(with(|fabric| fabric.name = Some(c"".into())), [0, 0, 0]);
    assert_eq!(with(|fabric| fabric.prov_version = 100 << 16), [A, 0, A]);
    let later = |fabric: &mut FabricAttr| fabric.prov_version = release::PROVIDER_VERSION + 1;
    assert_eq!(with(later), [0, 0, 0]);
    assert_eq!(with(|fabric| fabric.api_version = 1 << 16), [A, 0, A]);
}

#[test]
fn settings_change_what_is_offered() {
    let params = Params {
        tx_size: 50,
        rx_size: 100_000,
        max_inject: 300,
        ..Params::default()
    };
    let answer = answer(&query(Some(&empty()), 0), &params, &Machine);
    let (msg, rdm) = (&answer.entries[0], &answer.entries[A]);
    assert_eq!(
        (msg.tx.size, msg.rx.size, msg.tx.inject_size),
        (50, 1024, 300)
    );
    assert_eq!(
        (rdm.tx.size, rdm.rx.size, rdm.tx.inject_size),
        (50, 65536, 300)
    );
}

#[test]
fn several_contexts_are_for_those_who_ask_for_them() {
    let limits = |info: &Info| {
        let domain = &info.domain;
        [
            domain.max_ep_tx_ctx,
            domain.max_ep_rx_ctx,
            domain.max_ep_stx_ctx,
            domain.max_ep_srx_ctx,
        ]
    };
    let with = |tx, rx, caps| {
        let mut hints = Hints { caps, ..empty() };
        let ep = hints.ep.as_mut().unwrap();
        (ep.ep_type, ep.tx_ctx_cnt, ep.rx_ctx_cnt) = (FI_EP_RDM.0, tx, rx);
        let info = ask(&hints).entries.swap_remove(0);
        (limits(&info), info.caps.contains(Caps::NAMED_RX_CTX))
    };
    assert_eq!(with(0, 0, Caps::empty()), ([1, 1, 0, 0], false));
    assert_eq!(with(1, 1, Caps::MSG), ([1, 1, 0, 0], false));
    assert_eq!(with(2, 0, Caps::empty()), ([64, 64, 0, 0], true));
    assert_eq!(with(2, 0, Caps::MSG), ([64, 64, 0, 0], false));
    let named = Caps::MSG | Caps::NAMED_RX_CTX;
    assert_eq!(with(0, 0, named), ([64, 64, 0, 0], true));
    let shared = FI_SHARED_CONTEXT;
    assert_eq!(with(shared, 1, Caps::empty()), ([1, 1, 256, 0], false));
    assert_eq!(with(1, shared, Caps::empty()), ([1, 1, 0, 256], false));
    assert_eq!(with(shared, 0, named), ([1, 1, 256, 0], true));
}

#[test]
fn a_shared_context_is_for_those_who_expect_it() {
    let mut hints = empty();
    hints.ep.as_mut().unwrap().rx_ctx_cnt = 1;
    assert_eq!(counts(&ask(&hints)), [A, A, A]);
    hints.ep.as_mut().unwrap().rx_ctx_cnt = FI_SHARED_CONTEXT;
    hints.rx.as_mut().unwrap().size = 2000;
    let answer = ask(&hints);
    assert_eq!(counts(&answer), [0, A, A]);
    let fields: Vec<_> = answer.reasons.iter().map(|r| r.refusal.field).collect();
    assert_eq!(fields, ["rx_attr.size"]);
    let reason = answer.reasons[0].to_string();
    let text = "refused: tcp FI_EP_MSG on eth0, lo: rx_attr.size: wanted 2000, offered 1024";
    assert_eq!(reason, text);
}

#[test]
fn all_reasons_are_named_at_once() {
    let mut hints = empty();
    hints.caps = Caps::MULTICAST;
    hints.ep.as_mut().unwrap().ep_type = FI_EP_RDM.0;
    hints.tx.as_mut().unwrap().inject_size = 8193;
    hints.domain.as_mut().unwrap().name = Some(c"ib0".into());
    let answer = ask(&hints);
    assert!(answer.entries.is_empty());
    let rdm = answer.reasons.iter().filter(|r| r.ep_type == FI_EP_RDM.0);
    let fields: Vec<_> = rdm.map(|reason| reason.refusal.field).collect();
    let name = "domain_attr.name";
    assert_eq!(fields, ["caps", "tx_attr.inject_size", name, name]);
}

#[test]
fn hints_of_later_apis_do_not_count_for_earlier_ones() {
    let ask_at = |version, set: fn(&mut DomainAttr)| {
        let mut hints = empty();
        set(hints.domain.as_mut().unwrap());
        let query = Query {
            version,
            ..query(Some(&hints), 0)
        };
        counts(&answer(&query, &Params::default(), &Machine)) == [A, 0, A]
    };
    type Set = fn(&mut DomainAttr);
    let later: [(u32, Set); 8] = [
        (5, |domain| domain.cntr_cnt = 1),
        (5, |domain| domain.mr_iov_limit = 2),
        (5, |domain| domain.caps = Caps::SHARED_AV),
        (5, |domain| domain.auth_key_size = 257),
        (5, |domain| domain.max_err_data = 1),
        (5, |domain| domain.mr_cnt = 1),
        (20, |domain| domain.max_ep_auth_key = 65),
        (5, |domain| domain.mr_mode = MrMode::BASIC | MrMode::LOCAL),
    ];
    for (minor, set) in &later[..7] {
        assert!(ask_at(1 << 16 | (minor - 1), *set), "{minor}");
        assert!(!ask_at(1 << 16 | minor, *set), "{minor}");
    }
    let with_key = |version| {
        let mut hints = empty();
        hints.ep.as_mut().unwrap().auth_key_size = 257;
        let query = Query {
            version,
            ..query(Some(&hints), 0)
        };
        counts(&answer(&query, &Params::default(), &Machine)) == [A, 0, A]
    };
    assert!(with_key(1 << 16 | 4) && !with_key(1 << 16 | 5));
    let (_, mixed) = later[7];
    assert!(!ask_at(1 << 16 | 4, mixed) && !ask_at(1 << 16 | 5, mixed));
}

#[test]
fn what_costs_is_for_who_asks() {
    let more = Caps::TAGGED_MULTI_RECV | Caps::TAGGED_DIRECTED_RECV | Caps::EXACT_DIRECTED_RECV;
    for info in ask(&empty()).entries {
        assert_eq!((info.caps | info.rx.caps) & more, Caps::empty());
        assert_eq!(
            (info.caps | info.domain.caps) & (Caps::AV_USER_ID | Caps::SHARED_AV | Caps::PEER),
            Caps::empty()
        );
        assert!(!info.tx.msg_order.intersects(MsgOrder::WAR | MsgOrder::SAR));
        assert_eq!(info.ep.max_order_war_size, 0);
    }
    let mut hints = empty();
    hints.tx.as_mut().unwrap().msg_order = MsgOrder::SAR | MsgOrder::SAS;
    for info in ask(&hints).entries {
        assert!(info.tx.msg_order.contains(MsgOrder::SAR));
        assert!(!info.tx.msg_order.contains(MsgOrder::WAR));
        assert!(!info.rx.msg_order.contains(MsgOrder::SAR));
        assert_eq!(info.ep.max_order_war_size, 0);
    }
}

/// Otherwise they would precede the unconnected endpoints, which always have the capability.
#[test]
fn connected_endpoints_take_many_where_their_type_is_asked_for() {
    let mut hints = empty();
    hints.caps = Caps::MSG | Caps::MULTI_RECV;
    assert_eq!(counts(&ask(&hints)), [0, 0, A]);
    hints.ep.as_mut().unwrap().ep_type = FI_EP_MSG.0;
    assert_eq!(counts(&ask(&hints)), [A, 0, 0]);
    hints.rx.as_mut().unwrap().op_flags = OpFlags::MULTI_RECV;
    assert_eq!(counts(&ask(&hints)), [A, 0, 0]);
    hints.caps = Caps::MSG;
    assert_eq!(counts(&ask(&hints)), [0, 0, 0]);
}

#[test]
fn connected_endpoints_match_tags_where_their_type_is_asked_for() {
    let mut hints = empty();
    hints.caps = Caps::TAGGED;
    hints.ep.as_mut().unwrap().ep_type = FI_EP_MSG.0;
    let answer = ask(&hints);
    assert_eq!(answer.entries.len(), A);
    let info = &answer.entries[0];
    assert_eq!(info.ep.rx_ctx_cnt, 1);
    assert_eq!(info.ep.mem_tag_format, ALL_TAG_BITS);
    assert_eq!(
        info.caps & info.tx.caps & info.rx.caps & Caps::TAGGED,
        Caps::TAGGED
    );
    hints.ep.as_mut().unwrap().rx_ctx_cnt = FI_SHARED_CONTEXT;
    let answer = ask(&hints);
    assert_eq!(answer.entries.len(), A);
    assert_eq!(answer.entries[0].ep.rx_ctx_cnt, FI_SHARED_CONTEXT);
}

/// FI_VARIABLE_MSG, which 2.0 removed, used the bit of FI_EXACT_DIRECTED_RECV.
#[test]
fn a_bit_means_what_it_meant_in_the_api_of_the_program() {
    let hints = Hints {
        caps: Caps::EXACT_DIRECTED_RECV,
        ..empty()
    };
    let of = |version| {
        let query = Query {
            version,
            ..query(Some(&hints), 0)
        };
        counts(&answer(&query, &Params::default(), &Machine))
    };
    assert_eq!(of(1 << 16 | 20), [0, 0, 0]);
    assert_eq!(of(2 << 16), [0, 0, A]);
}
