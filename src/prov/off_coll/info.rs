// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The entry of off_coll: fi_getinfo(3). The registry asks only if the query has the flag of offload providers.

use super::SOURCE;
use abi::*;
use base::flags::flags;
use base::info::{
    ALL_TAG_BITS, Answer, DomainAttr, EpAttr, FabricAttr, Info, Prototype, Query, RxAttr, TxAttr,
    check, fill,
};
use base::{Caps, Mode};

/// The mode of endpoints whose messages another endpoint moves.
pub const TRANSFER: Mode = Mode::from_bits_retain(FI_PEER_TRANSFER);

const SENDS: Caps = Caps::COLLECTIVE;
const DOMAIN: Caps = flags!(Caps: LOCAL_COMM | REMOTE_COMM);
/// Collectives that an endpoint has under way, at most.
const SIZE: usize = 16384;

pub fn offers(query: &Query) -> Answer {
    let kind = kind();
    let refusals = check(&kind, query);
    let mut answer = Answer::default();
    match refusals.is_empty() {
        true => answer.entries.push(fill(&kind, query)),
        false => {
            let name = SOURCE.name().to_string_lossy();
            let domain = kind
                .info
                .domain
                .name
                .clone()
                .into_iter()
                .collect::<Vec<_>>();
            let reasons = refusals.into_iter();
            answer
                .reasons
                .extend(reasons.map(|refusal| refusal.of(&name, &kind, domain.clone())));
        }
    }
    answer
}

fn kind() -> Prototype {
    let info = Info {
        caps: SENDS | DOMAIN,
        mode: TRANSFER,
        addr_format: FI_SOCKADDR,
        tx: TxAttr {
            caps: SENDS,
            size: SIZE,
            ..TxAttr::default()
        },
        rx: RxAttr {
            caps: SENDS,
            size: SIZE,
            ..RxAttr::default()
        },
        ep: EpAttr {
            ep_type: FI_EP_RDM.0,
            protocol: FI_PROTO_COLL,
            protocol_version: 1,
            max_msg_size: usize::MAX,
            mem_tag_format: ALL_TAG_BITS,
            tx_ctx_cnt: 1,
            rx_ctx_cnt: 1,
            ..EpAttr::default()
        },
        domain: DomainAttr {
            name: Some(c"util-coll".to_owned()),
            threading: FI_THREAD_SAFE.0,
            control_progress: FI_PROGRESS_MANUAL.0,
            progress: FI_PROGRESS_MANUAL.0,
            resource_mgmt: FI_RM_ENABLED.0,
            av_type: FI_AV_UNSPEC.0,
            cq_cnt: 1024,
            ep_cnt: 1024,
            tx_ctx_cnt: 1,
            rx_ctx_cnt: 1,
            max_ep_tx_ctx: 1,
            max_ep_rx_ctx: 1,
            caps: DOMAIN,
            max_cntr_value: u64::MAX,
            max_err_cntr_value: u64::MAX,
            ..DomainAttr::default()
        },
        fabric: FabricAttr {
            name: Some(c"UTIL-COLL".to_owned()),
            prov_name: Some(SOURCE.name().to_owned()),
            prov_version: release::PROVIDER_VERSION,
            ..FabricAttr::default()
        },
        ..Info::default()
    };
    Prototype {
        info,
        on_request: Caps::empty(),
        tx_size: SIZE,
        rx_size: SIZE,
        addr_formats: &[FI_SOCKADDR],
    }
}
