// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Tests of rxm's entries over given entries, and of the hints for providers below. ctests/getinfo.c tests the library.

use std::cell::RefCell;

use super::*;
use base::info::since;

const V2_6: u32 = 2 << 16 | 6;

/// Providers below that return these entries and record the queries.
struct Cores {
    entries: Vec<Info>,
    asked: RefCell<Vec<(u64, Hints)>>,
}

impl Below for Cores {
    fn offers(&self, query: &Query) -> Answer {
        let hints = query.hints.unwrap();
        self.asked.borrow_mut().push((query.flags, hints.clone()));
        let shared = hints.ep.as_ref().unwrap().rx_ctx_cnt == FI_SHARED_CONTEXT;
        let fits = |info: &&Info| !shared || info.domain.max_ep_srx_ctx > 0;
        let mut entries: Vec<Info> = self.entries.iter().filter(fits).cloned().collect();
        for entry in &mut entries {
            entry.ep.rx_ctx_cnt = if shared { FI_SHARED_CONTEXT } else { 1 };
        }
        Answer {
            entries,
            reasons: Vec::new(),
        }
    }
}

fn core(name: &CStr, domain: &CStr) -> Info {
    let mut info = Info {
        caps: CORE_CAPS | Caps::LOCAL_COMM,
        ..Info::default()
    };
    (
        info.tx.inject_size,
        info.tx.iov_limit,
        info.tx.rma_iov_limit,
    ) = (128, 4, 4);
    (info.tx.msg_order, info.rx.msg_order) = (MsgOrder::SAS, MsgOrder::SAS);
    info.ep.ep_type = FI_EP_MSG.0;
    info.ep.max_msg_size = usize::MAX;
    info.ep.max_order_waw_size = usize::MAX;
    info.domain.name = Some(domain.to_owned());
    info.domain.max_ep_srx_ctx = 1;
    info.domain.cq_data_size = 8;
    info.fabric.name = Some(c"net".to_owned());
    info.fabric.prov_name = Some(name.to_owned());
    info
}

fn cores(entries: Vec<Info>) -> Cores {
    let asked = RefCell::default();
    Cores { entries, asked }
}

fn ask(cores: &Cores, hints: Option<&Hints>) -> Answer {
    let query = Query {
        version: V2_6,
        node: None,
        service: None,
        flags: 0,
        hints,
    };
    offers(&query, cores, &Params::default())
}

fn with_caps(caps: Caps) -> Hints {
    Hints {
        caps,
        ..Info::default().into()
    }
}

fn only(answer: Answer) -> Info {
    let [info] = &answer.entries[..] else {
        panic!("{:?}", answer.reasons);
    };
    info.clone()
}

#[test]
fn an_entry_for_each_place_below() {
    let below = cores(vec![
        core(c"tcp", c"lo"),
        core(c"tcp", c"lo"),
        core(c"tcp", c"eth0"),
    ]);
    let answer = ask(&below, Some(&with_caps(Caps::empty())));
    let names: Vec<_> = answer
        .entries
        .iter()
        .map(|e| e.domain.name.clone().unwrap())
        .collect();
    assert_eq!(names, [c"lo".to_owned(), c"eth0".to_owned()]);
    for info in &answer.entries {
        assert_eq!(info.fabric.prov_name.as_deref(), Some(c"tcp;ofi_rxm"));
        assert_eq!(
            (info.ep.ep_type, info.ep.protocol),
            (FI_EP_RDM.0, FI_PROTO_RXM)
        );
        assert_eq!(
            (info.tx.inject_size, info.tx.size, info.rx.size),
            (64, 2048, 2048)
        );
        assert_eq!(info.domain.progress, FI_PROGRESS_MANUAL.0);
        assert_eq!(
            info.caps & flags!(Caps: LOCAL_COMM | REMOTE_COMM),
            Caps::LOCAL_COMM
        );
        assert!(!info.caps.intersects(Caps::ATOMIC | Caps::DIRECTED_RECV));
        assert!(
            info.caps
                .contains(flags!(Caps: MSG | TAGGED | RMA | SOURCE | MULTI_RECV))
        );
    }
}

#[test]
fn who_has_no_wishes_is_shown_no_source() {
    let info = only(ask(&cores(vec![core(c"tcp", c"lo")]), None));
    assert!(!info.caps.contains(Caps::SOURCE));
    assert_eq!((info.tx.op_flags, info.rx.op_flags), Default::default());
}

#[test]
fn atomic_operations_shrink_the_orders() {
    let mut below = core(c"tcp", c"lo");
    (below.tx.msg_order, below.rx.msg_order) = (MsgOrder::all(), MsgOrder::all());
    let below = cores(vec![below]);
    let info = only(ask(&below, Some(&with_caps(Caps::ATOMIC))));
    assert!(info.caps.contains(Caps::ATOMIC));
    assert_eq!(
        (info.tx.msg_order, info.ep.max_order_waw_size),
        (ATOMIC_ORDER, 0)
    );
    let mut hints = with_caps(Caps::ATOMIC);
    hints.tx = Some(TxAttr {
        msg_order: MsgOrder::WAW,
        ..TxAttr::default()
    });
    assert!(ask(&below, Some(&hints)).entries.is_empty());
}

#[test]
fn progress_is_what_was_asked_for() {
    let below = cores(vec![core(c"tcp", c"lo")]);
    let mut hints = with_caps(Caps::empty());
    let progress = |hints: &Hints| only(ask(&below, Some(hints))).domain.progress;
    assert_eq!(progress(&hints), FI_PROGRESS_MANUAL.0);
    hints.domain.as_mut().unwrap().progress = FI_PROGRESS_AUTO.0;
    assert_eq!(progress(&hints), FI_PROGRESS_AUTO.0);
}

#[test]
fn more_may_be_injected_than_is_said() {
    let below = cores(vec![core(c"tcp", c"lo")]);
    let inject = |size| {
        let mut hints = with_caps(Caps::empty());
        hints.tx.as_mut().unwrap().inject_size = size;
        let answer = ask(&below, Some(&hints));
        answer.entries.first().map(|info| info.tx.inject_size)
    };
    assert_eq!(inject(8), Some(8));
    assert_eq!(inject(129), Some(129));
    assert_eq!(inject(16385), None);
    let mut local = core(c"x", c"lo");
    local.domain.mr_mode = MrMode::LOCAL;
    let info = only(ask(&cores(vec![local]), Some(&with_caps(Caps::empty()))));
    assert_eq!(
        (info.tx.inject_size, info.domain.mr_mode),
        (16384, MrMode::empty())
    );
    let mut none = core(c"x", c"lo");
    none.tx.inject_size = 64;
    let info = only(ask(&cores(vec![none]), Some(&with_caps(Caps::empty()))));
    assert_eq!(info.tx.inject_size, 16384);
}

#[test]
fn what_a_core_demands_of_targets_is_handed_on() {
    let mut demanding = core(c"x", c"lo");
    demanding.domain.mr_mode = flags!(MrMode: LOCAL | VIRT_ADDR | PROV_KEY | ALLOCATED);
    let below = cores(vec![demanding]);
    let mr_mode = |caps, mr_mode| {
        let mut hints = with_caps(caps);
        hints.domain.as_mut().unwrap().mr_mode = mr_mode;
        let answer = ask(&below, Some(&hints));
        answer.entries.first().map(|info| info.domain.mr_mode)
    };
    let target = flags!(MrMode: VIRT_ADDR | PROV_KEY | ALLOCATED);
    assert_eq!(mr_mode(Caps::RMA, target), Some(target));
    assert_eq!(mr_mode(Caps::RMA, MrMode::VIRT_ADDR), None);
    assert_eq!(
        mr_mode(Caps::TAGGED, MrMode::ALLOCATED),
        Some(MrMode::ALLOCATED)
    );
}

#[test]
fn regions_of_endpoints_leave_no_access_to_memory() {
    let mut demanding = core(c"x", c"lo");
    demanding.domain.mr_mode = MrMode::ENDPOINT;
    let below = cores(vec![demanding]);
    assert!(ask(&below, Some(&with_caps(Caps::RMA))).entries.is_empty());
    only(ask(&below, Some(&with_caps(Caps::TAGGED | Caps::ATOMIC))));
}

#[test]
fn only_packets_that_fit_below() {
    let mut small = core(c"x", c"lo");
    small.ep.max_msg_size = 16384 + HEADER;
    only(ask(
        &cores(vec![small.clone()]),
        Some(&with_caps(Caps::MSG)),
    ));
    small.ep.max_msg_size -= 1;
    assert!(
        ask(&cores(vec![small]), Some(&with_caps(Caps::MSG)))
            .entries
            .is_empty()
    );
}

#[test]
fn what_is_asked_below() {
    let below = cores(vec![core(c"tcp", c"lo")]);
    let mut hints = with_caps(Caps::TAGGED);
    hints.fabric.as_mut().unwrap().prov_name = Some(c"tcp;ofi_rxm".to_owned());
    only(ask(&below, Some(&hints)));
    let asked = below.asked.borrow();
    assert_eq!(asked.len(), 2, "with a shared context, and without");
    for (flags, hints) in asked.iter() {
        assert_eq!(*flags, CORE_ONLY);
        let ep = hints.ep.as_ref().unwrap();
        assert_eq!(ep.ep_type, FI_EP_MSG.0);
        // Buffers for many packets are useful only in shared contexts.
        let many = match ep.rx_ctx_cnt == FI_SHARED_CONTEXT {
            true => Caps::MULTI_RECV,
            false => Caps::empty(),
        };
        assert_eq!(hints.caps, CORE_CAPS | many);
        let (domain, fabric) = (
            hints.domain.as_ref().unwrap(),
            hints.fabric.as_ref().unwrap(),
        );
        assert_eq!(domain.mr_mode, OWN_MR_MODE, "no target");
        assert_eq!(fabric.prov_name.as_deref(), Some(c"tcp;^ofi_rxm"));
    }
}

#[test]
fn before_1_5_an_old_mr_mode_is_requested_below() {
    let below = cores(vec![core(c"tcp", c"lo")]);
    let no_domain = Hints {
        domain: None,
        ..with_caps(Caps::TAGGED)
    };
    let basic = |hints: &Hints| {
        let mut hints = hints.clone();
        hints.domain.get_or_insert_default().mr_mode = MrMode::BASIC;
        hints
    };
    let requested = |version, hints: Option<&Hints>| {
        let query = Query {
            version,
            node: None,
            service: None,
            flags: 0,
            hints,
        };
        only(offers(&query, &below, &Params::default()));
        let asked = below.asked.take();
        asked[0].1.domain.as_ref().unwrap().mr_mode
    };
    for version in [0, 1 << 16, 1 << 16 | 3, 1 << 16 | 4] {
        assert_eq!(requested(version, None), MrMode::UNSPEC);
        assert_eq!(requested(version, Some(&no_domain)), MrMode::UNSPEC);
        let basic = basic(&no_domain);
        assert_eq!(requested(version, Some(&basic)), MrMode::BASIC);
    }
    assert_eq!(requested(since::V1_5, None), OWN_MR_MODE);
    assert_eq!(requested(since::V1_5, Some(&no_domain)), OWN_MR_MODE);
}

#[test]
fn accesses_are_counted_for_who_asks_where_they_are_below() {
    let mut counting = core(c"tcp", c"lo");
    counting.caps |= Caps::RMA_EVENT;
    let below = cores(vec![counting]);
    let plain = only(ask(&below, Some(&with_caps(Caps::RMA))));
    assert!(!(plain.caps | plain.rx.caps).contains(Caps::RMA_EVENT));
    let counted = below.asked.take();
    assert!(
        !counted
            .iter()
            .any(|(_, hints)| hints.caps.contains(Caps::RMA_EVENT))
    );
    let info = only(ask(&below, Some(&with_caps(Caps::RMA | Caps::RMA_EVENT))));
    assert!(info.caps.contains(Caps::RMA_EVENT) && info.rx.caps.contains(Caps::RMA_EVENT));
    let asked = below.asked.take();
    assert!(
        asked
            .iter()
            .all(|(_, hints)| hints.caps.contains(Caps::RMA_EVENT))
    );
    // The capability is requested for one side only.
    let mut hints = with_caps(Caps::RMA);
    hints.rx = Some(RxAttr {
        caps: Caps::RMA | Caps::RMA_EVENT,
        ..RxAttr::default()
    });
    assert!(
        only(ask(&below, Some(&hints)))
            .rx
            .caps
            .contains(Caps::RMA_EVENT)
    );
    let below = cores(vec![core(c"verbs", c"lo")]);
    let refused = ask(&below, Some(&with_caps(Caps::RMA | Caps::RMA_EVENT)));
    assert!(refused.entries.is_empty());
}

#[test]
fn several_and_shared_contexts_are_for_who_asks() {
    let below = cores(vec![core(c"tcp", c"lo")]);
    let with_contexts = |tx_ctx_cnt, rx_ctx_cnt| {
        let mut hints = with_caps(Caps::empty());
        hints.ep = Some(EpAttr {
            tx_ctx_cnt,
            rx_ctx_cnt,
            ..EpAttr::default()
        });
        only(ask(&below, Some(&hints)))
    };
    let limits = |info: &Info| {
        let domain = &info.domain;
        [
            domain.max_ep_tx_ctx,
            domain.max_ep_rx_ctx,
            domain.max_ep_stx_ctx,
            domain.max_ep_srx_ctx,
        ]
    };
    let plain = with_contexts(0, 0);
    assert!(!plain.caps.contains(Caps::NAMED_RX_CTX));
    assert_eq!(limits(&plain), [1, 1, 0, 0]);
    let several = with_contexts(2, 4);
    assert!(several.caps.contains(Caps::NAMED_RX_CTX));
    assert_eq!(limits(&several), [MAX_CONTEXTS, MAX_CONTEXTS, 0, 0]);
    let shared = with_contexts(FI_SHARED_CONTEXT, FI_SHARED_CONTEXT);
    assert!(limits(&shared)[2] > 0 && limits(&shared)[3] > 0);
    let asked = below.asked.take();
    assert!(
        asked
            .iter()
            .all(|(_, hints)| hints.ep.as_ref().unwrap().tx_ctx_cnt == 0)
    );
}

#[test]
fn names_of_cores() {
    let core = |name: &'static CStr| core_name(Some(name)).unwrap();
    assert_eq!(core_name(None), None);
    assert_eq!(core(c"tcp;ofi_rxm"), c"tcp;^ofi_rxm".to_owned());
    assert_eq!(core(c"OFI_RXM;tcp"), c"tcp;^ofi_rxm".to_owned());
    assert_eq!(core(c"ofi_rxm"), c"^ofi_rxm".to_owned());
    assert_eq!(core(c"tcp;^udp"), c"tcp;^udp;^ofi_rxm".to_owned());
}

#[test]
fn shared_contexts_are_for_who_has_them() {
    let shared = |name: &CStr, has, wanted| {
        let mut entry = core(name, c"lo");
        entry.domain.max_ep_srx_ctx = usize::from(has);
        let hints = with_caps(Caps::empty());
        let query = Query {
            version: since::V2_0,
            node: None,
            service: None,
            flags: 0,
            hints: Some(&hints),
        };
        let params = Params {
            shared_rx: wanted,
            ..Params::default()
        };
        let (found, _) = super::cores(&query, &cores(vec![entry]), &params);
        found[0].ep.rx_ctx_cnt == FI_SHARED_CONTEXT
    };
    assert!(shared(c"tcp", true, None) && shared(c"xtcpx", true, None));
    assert!(!shared(c"tcp", false, None) && !shared(c"verbs", true, None));
    assert!(shared(c"verbs", true, Some(true)) && !shared(c"tcp", true, Some(false)));
}

#[test]
fn one_port_at_all_addresses() {
    let mut entry = core(c"tcp", c"lo");
    entry.src_addr = Some(addr::to_bytes(&"127.0.0.1:0".parse().unwrap()));
    let below = cores(vec![entry]);
    let hints = with_caps(Caps::empty());
    let query = Query {
        version: V2_6,
        node: None,
        service: Some(c"4711"),
        flags: FI_SOURCE,
        hints: Some(&hints),
    };
    let info = only(offers(&query, &below, &Params::default()));
    let src = addr::from_bytes(&info.src_addr.unwrap()).unwrap();
    assert_eq!(src.to_string(), "127.0.0.1:4711");
    assert_eq!(below.asked.borrow()[0].0, CORE_ONLY);
}

#[test]
fn no_more_data_is_offered_than_writes_carry_below() {
    let with_data = |below: usize, wanted: usize| {
        let mut entry = core(c"tcp", c"lo");
        entry.domain.cq_data_size = below;
        let mut hints = with_caps(Caps::empty());
        hints.domain.as_mut().unwrap().cq_data_size = wanted;
        let answer = ask(&cores(vec![entry]), Some(&hints));
        let sizes = answer.entries.iter().map(|info| info.domain.cq_data_size);
        sizes.collect::<Vec<_>>()
    };
    assert_eq!(with_data(4, 0), [4]);
    assert_eq!(with_data(4, 4), [4]);
    assert_eq!(with_data(4, 8), []);
    assert_eq!(with_data(0, 0), [0]);
    assert_eq!(with_data(16, 0), [8]);
}

#[test]
fn only_the_progress_of_data_is_manual_unless_it_is_asked_for() {
    let progress_of = |wanted: u32| {
        let mut hints = with_caps(Caps::empty());
        hints.domain.as_mut().unwrap().progress = wanted;
        let info = only(ask(&cores(vec![core(c"tcp", c"lo")]), Some(&hints)));
        (info.domain.control_progress, info.domain.progress)
    };
    let (auto, manual) = (FI_PROGRESS_AUTO.0, FI_PROGRESS_MANUAL.0);
    assert_eq!(progress_of(0), (auto, manual));
    assert_eq!(progress_of(auto), (auto, auto));
    assert_eq!(progress_of(manual), (manual, manual));
    let info = only(ask(&cores(vec![core(c"tcp", c"lo")]), None));
    let domain = info.domain;
    assert_eq!((domain.control_progress, domain.progress), (auto, manual));
}
