// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Answers of shm and sm2 to queries. ctests/getinfo_shm.c has many more.

use std::ffi::CStr;

use super::*;
use base::{Caps, Mode, MrMode, MsgOrder, OpFlags};

const PID: u32 = 77;

fn empty() -> Hints {
    Hints {
        mode: Mode::all(),
        domain: Some(DomainAttr {
            mr_mode: !(MrMode::BASIC | MrMode::SCALABLE),
            ..DomainAttr::default()
        }),
        ..Info::default().into()
    }
}

fn query<'a>(hints: Option<&'a Hints>, flags: u64) -> Query<'a> {
    Query {
        version: 2 << 16 | 6,
        node: None,
        service: None,
        flags,
        hints,
    }
}

fn ask(hints: &Hints, kind: Kind) -> Answer {
    answer(&query(Some(hints), 0), &Params::default(), kind, PID)
}

fn asking_for(caps: Caps) -> Hints {
    Hints { caps, ..empty() }
}

/// Which kinds of entries the answer has: for host memory, for any memory.
fn found(answer: &Answer) -> (bool, bool) {
    let has = |device| {
        let mut entries = answer.entries.iter();
        entries.any(|info| (info.tx.inject_size == 0) == device)
    };
    assert!(answer.entries.len() <= 2);
    (has(false), has(true))
}

const KINDS: [Kind; 2] = [Kind::Shm, Kind::Sm2];
const BOTH: (bool, bool) = (true, true);
const NONE: (bool, bool) = (false, false);

#[test]
fn without_hints_it_is_what_it_always_was() {
    let of = |kind| answer(&query(None, 0), &Params::default(), kind, PID).entries;
    let messages =
        Caps::MSG | Caps::TAGGED | Caps::SEND | Caps::RECV | Caps::MULTI_RECV | Caps::SOURCE;
    let memory =
        Caps::READ | Caps::WRITE | Caps::REMOTE_READ | Caps::REMOTE_WRITE | Caps::RMA_EVENT;
    let all = messages | memory | Caps::DIRECTED_RECV | Caps::LOCAL_COMM;
    let [shm, device] = &of(Kind::Shm)[..] else {
        panic!("two entries");
    };
    assert_eq!(
        shm.caps,
        all | Caps::RMA | Caps::ATOMIC | Caps::AV_USER_ID | Caps::PEER
    );
    assert_eq!(device.caps, shm.caps | Caps::HMEM);
    assert_eq!((shm.tx.inject_size, device.tx.inject_size), (4096, 0));
    assert_eq!(shm.domain.mr_mode, MrMode::VIRT_ADDR);
    assert_eq!(device.domain.mr_mode, MrMode::VIRT_ADDR | MrMode::HMEM);
    assert_eq!((shm.tx.msg_order, shm.rx.msg_order), (MsgOrder::SAS, ORDER));
    assert_eq!(shm.ep.max_order_raw_size, 0);
    assert_eq!(shm.tx.op_flags, TX_FLAGS);
    let [sm2, device] = &of(Kind::Sm2)[..] else {
        panic!("two entries");
    };
    assert_eq!(sm2.caps, all | Caps::ATOMIC);
    assert_eq!(device.caps, all | Caps::HMEM);
    assert_eq!(sm2.tx.inject_size, 3864);
    assert_eq!(
        (sm2.domain.mr_mode, device.domain.mr_mode),
        (MrMode::UNSPEC, MrMode::HMEM)
    );
    assert_eq!(sm2.tx.msg_order, MsgOrder::SAS);
    assert_eq!(sm2.ep.max_order_war_size, usize::MAX);
}

#[test]
fn without_hints_what_there_is_on_request_comes_last() {
    let params = Params {
        offer_all: true,
        ..Params::default()
    };
    for kind in KINDS {
        let entries = answer(&query(None, 0), &params, kind, PID).entries;
        assert_eq!(entries.len(), 4);
        let more = Caps::RMA
            | Caps::ATOMIC
            | Caps::TRIGGER
            | Caps::FENCE
            | Caps::COLLECTIVE
            | Caps::NAMED_RX_CTX;
        assert_eq!(entries[2].caps & more, more);
        assert_eq!(entries[2].tx.msg_order, ORDER);
        assert_eq!(entries[2].domain.max_ep_tx_ctx, MAX_CONTEXTS);
    }
}

#[test]
fn capabilities_filter() {
    let cases = [
        (Caps::MSG, BOTH),
        (Caps::RMA, BOTH),
        (Caps::ATOMIC, BOTH),
        (Caps::MSG | Caps::TAGGED | Caps::RMA | Caps::ATOMIC, BOTH),
        (Caps::FENCE | Caps::TRIGGER, BOTH),
        (Caps::COLLECTIVE, BOTH),
        (Caps::NAMED_RX_CTX, BOTH),
        (Caps::SHARED_AV | Caps::AV_USER_ID, BOTH),
        (Caps::SOURCE | Caps::SOURCE_ERR, BOTH),
        (
            Caps::TAGGED_MULTI_RECV | Caps::TAGGED_DIRECTED_RECV | Caps::EXACT_DIRECTED_RECV,
            BOTH,
        ),
        (Caps::HMEM | Caps::MSG, (false, true)),
        (Caps::SOURCE_ERR, NONE),
        (Caps::REMOTE_COMM, NONE),
        (Caps::RMA_PMEM, NONE),
        (Caps::MULTICAST, NONE),
        (Caps::from_bits_retain(1 << 63), NONE),
    ];
    for kind in KINDS {
        for (caps, expected) in cases {
            let answer = ask(&asking_for(caps), kind);
            assert_eq!(found(&answer), expected, "{kind:?} {caps:#x}");
            let named = |reason: &base::info::Reason| reason.refusal.field == "caps";
            assert_eq!(expected == BOTH, !answer.reasons.iter().any(named));
        }
    }
    // lnx links shm, not sm2.
    let peers = KINDS.map(|kind| found(&ask(&asking_for(Caps::PEER), kind)));
    assert_eq!(
        peers,
        KINDS.map(|kind| if kind == Kind::Shm { BOTH } else { NONE })
    );
}

#[test]
fn what_was_not_asked_for_is_not_there() {
    let more = ON_REQUEST | MORE & !Caps::AV_USER_ID | Caps::NAMED_RX_CTX;
    for kind in KINDS {
        for caps in [Caps::empty(), Caps::MSG, Caps::MSG | Caps::TAGGED] {
            for info in ask(&asking_for(caps), kind).entries {
                let all = info.caps | info.tx.caps | info.rx.caps | info.domain.caps;
                assert_eq!(all & more, Caps::empty(), "{kind:?} {caps:#x}");
                let limits = (info.domain.max_ep_tx_ctx, info.domain.max_ep_srx_ctx);
                assert_eq!(limits, (1, 0));
            }
        }
    }
    let info = &ask(&asking_for(Caps::MSG), Kind::Shm).entries[0];
    assert_eq!(info.domain.caps, Caps::LOCAL_COMM);
}

#[test]
fn virtual_addresses_are_for_who_wants_no_order() {
    let with = |mr_mode, order| {
        let mut hints = empty();
        hints.domain.as_mut().unwrap().mr_mode = mr_mode;
        hints.tx.as_mut().unwrap().msg_order = order;
        let info = &ask(&hints, Kind::Shm).entries[0];
        let sizes = info.ep.max_order_raw_size;
        (info.domain.mr_mode, info.tx.msg_order, sizes)
    };
    let virt = MrMode::VIRT_ADDR;
    let full = (MrMode::UNSPEC, ORDER, usize::MAX);
    assert_eq!(with(virt, MsgOrder::empty()), (virt, MsgOrder::SAS, 0));
    assert_eq!(with(virt, MsgOrder::SAS), (virt, MsgOrder::SAS, 0));
    assert_eq!(with(virt, MsgOrder::RAR), full);
    assert_eq!(with(MrMode::UNSPEC, MsgOrder::SAS), full);
    assert_eq!(with(MrMode::HMEM, MsgOrder::empty()), full);
}

#[test]
fn device_memory_has_to_be_registered() {
    let with = |mr_mode, version| {
        let mut hints = asking_for(Caps::MSG | Caps::HMEM);
        hints.domain.as_mut().unwrap().mr_mode = mr_mode;
        let query = Query {
            version,
            ..query(Some(&hints), 0)
        };
        let answer = answer(&query, &Params::default(), Kind::Sm2, PID);
        answer.entries.first().map(|info| info.domain.mr_mode)
    };
    let new = 2 << 16;
    assert_eq!(with(MrMode::HMEM, new), Some(MrMode::HMEM));
    assert_eq!(with(MrMode::UNSPEC, new), Some(MrMode::UNSPEC));
    assert_eq!(with(MrMode::LOCAL, new), None);
    assert_eq!(with(MrMode::BASIC, new), None);
    assert_eq!(with(MrMode::SCALABLE, new), None);
    assert_eq!(with(MrMode::UNSPEC, 1 << 16 | 4), None);
}

#[test]
fn what_is_asked_for_is_there() {
    for kind in KINDS {
        let mut hints = empty();
        hints.domain.as_mut().unwrap().progress = FI_PROGRESS_AUTO.0;
        hints.domain.as_mut().unwrap().threading = FI_THREAD_COMPLETION.0;
        hints.tx.as_mut().unwrap().op_flags =
            OpFlags::INJECT | OpFlags::COMMIT_COMPLETE | OpFlags::COMPLETION;
        hints.tx.as_mut().unwrap().msg_order = ORDER;
        hints.ep.as_mut().unwrap().tx_ctx_cnt = 64;
        let answer = ask(&hints, kind);
        assert_eq!(found(&answer), BOTH);
        let info = &answer.entries[0];
        assert_eq!(info.domain.progress, FI_PROGRESS_AUTO.0);
        assert_eq!(info.tx.msg_order, ORDER);
        assert_eq!(info.ep.tx_ctx_cnt, 64);
        hints.ep.as_mut().unwrap().tx_ctx_cnt = 65;
        assert_eq!(found(&ask(&hints, kind)), NONE);
    }
    let mut hints = empty();
    hints.ep.as_mut().unwrap().rx_ctx_cnt = FI_SHARED_CONTEXT;
    assert_eq!(found(&ask(&hints, Kind::Shm)), BOTH);
}

#[test]
fn queue_sizes_of_shm_are_the_users() {
    let params = Params {
        tx_size: 2048,
        rx_size: 7,
        ..Params::default()
    };
    let with = |kind, size| {
        let mut hints = empty();
        hints.tx.as_mut().unwrap().size = size;
        let answer = answer(&query(Some(&hints), 0), &params, kind, PID);
        let first = answer.entries.first();
        first.map(|info| (info.tx.size, info.rx.size))
    };
    assert_eq!(with(Kind::Shm, 0), Some((2048, 7)));
    assert_eq!(with(Kind::Shm, 1500), Some((1500, 7)));
    assert_eq!(with(Kind::Shm, 2049), None);
    assert_eq!(with(Kind::Sm2, 0), Some((1024, 1024)));
    assert_eq!(with(Kind::Sm2, 1025), None);
}

#[test]
fn a_refusal_names_its_reason() {
    let mut hints = empty();
    hints.domain.as_mut().unwrap().auth_key_size = 1;
    hints.domain.as_mut().unwrap().name = Some(c"lo".into());
    hints.addr_format = FI_SOCKADDR_IN;
    let answer = ask(&hints, Kind::Shm);
    assert!(answer.entries.is_empty());
    let texts: Vec<_> = answer.reasons.iter().map(ToString::to_string).collect();
    let expected = [
        "addr_format: wanted FI_SOCKADDR_IN, offered FI_ADDR_STR",
        "domain_attr.auth_key_size: wanted 1, offered 0",
        r#"domain_attr.name: wanted "lo", offered "shm""#,
    ];
    assert_eq!(
        texts,
        expected.map(|text| format!("refused: shm FI_EP_RDM on shm: {text}"))
    );
}

/// Source and destination.
fn places(
    hints: &Hints,
    node: Option<&CStr>,
    service: Option<&CStr>,
    flags: u64,
    kind: Kind,
) -> String {
    let query = Query {
        node,
        service,
        ..query(Some(hints), flags)
    };
    let answer = answer(&query, &Params::default(), kind, PID);
    let text = |bytes: &Option<Vec<u8>>| match bytes {
        Some(bytes) => local::text_of(bytes).unwrap().to_owned(),
        None => "none".to_owned(),
    };
    match answer.entries.first() {
        Some(info) => format!("{} {}", text(&info.src_addr), text(&info.dest_addr)),
        None => answer.reasons[0].refusal.field.to_owned(),
    }
}

#[test]
fn nodes_and_services_are_names() {
    let hints = empty();
    let of = |node, service, flags| places(&hints, node, service, flags, Kind::Shm);
    let s = FI_SOURCE;
    assert_eq!(of(None, None, 0), "fi_shm://77 fi_shm://77");
    assert_eq!(of(None, None, s), "flags");
    assert_eq!(of(None, Some(c"7"), 0), "fi_shm://77 fi_ns://7");
    assert_eq!(of(None, Some(c"7"), s), "fi_ns://7 none");
    assert_eq!(of(Some(c"n"), None, 0), "fi_shm://77 fi_shm://n");
    assert_eq!(of(Some(c"n"), Some(c"7"), s), "fi_ns://n:7 none");
    assert_eq!(of(Some(c"x://n"), Some(c"7"), s), "x://n none");
    assert_eq!(of(Some(c""), None, s), "fi_shm:// none");
    assert_eq!(of(Some(c"\xff"), None, s), "node");
    assert_eq!(of(None, Some(c"\xff"), s), "service");
    assert_eq!(
        places(&hints, Some(c"n"), None, 0, Kind::Sm2),
        "fi_sm2://77 fi_sm2://n"
    );
}

#[test]
fn names_of_the_hints_are_taken() {
    let with = |src: &str, dest: &str, node, flags| {
        let given = |text: &str| (!text.is_empty()).then(|| text.as_bytes().to_vec());
        let hints = Hints {
            src_addr: given(src),
            dest_addr: given(dest),
            ..empty()
        };
        places(&hints, node, None, flags, Kind::Shm)
    };
    let n = Some(c"n");
    let s = FI_SOURCE;
    assert_eq!(with("a\0", "", None, 0), "a fi_shm://77");
    assert_eq!(with("", "b\0", None, 0), "fi_shm://77 b");
    assert_eq!(with("a\0", "b\0", None, 0), "a b");
    assert_eq!(with("a\0", "b\0", n, 0), "a fi_shm://n");
    assert_eq!(with("a\0", "b\0", n, s), "fi_shm://n b");
    assert_eq!(with("a\0", "", n, s), "fi_shm://n none");
    assert_eq!(with("a\0", "", None, s), "flags");
    assert_eq!(with("a", "", None, 0), "src_addr");
    assert_eq!(with("", "b", None, 0), "dest_addr");
    let long = format!("{}\0", "x".repeat(256));
    assert_eq!(with(&long, "", None, 0), "src_addr");
}
