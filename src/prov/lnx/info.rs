// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The entries of lnx: one for each link whose providers can all be used; fi_getinfo(3).

use std::ffi::{CStr, CString};

use super::SOURCE;
use super::links::{self, Member};
use super::params::Params;
use crate::{Below, device, layered};
use abi::*;
use base::flags::flags;
use base::info::{
    ALL_TAG_BITS, Answer, Asked, DomainAttr, EpAttr, FabricAttr, Hints, Info, Prototype, Query,
    Reason, Refusal, RxAttr, TxAttr, Value, check, fill, ip, local,
};
use base::log::{Subsys, log_warn};
use base::{Caps, MrMode, MsgOrder, OpFlags};

/// A link: the entries of its rails, shared memory first.
#[derive(Clone, Debug)]
pub struct Link {
    pub rails: Vec<Info>,
    /// Names of the rails' domains, joined by `+`.
    pub domain: CString,
    /// All rails can have FI_HMEM, if there is a device.
    pub takes_devices: bool,
}

impl Link {
    /// Whether the first rail is shared memory.
    pub fn has_shm(&self) -> bool {
        self.rails.first().is_some_and(is_shm)
    }

    /// The entry from which lnx's takes what belongs to the network.
    fn face(&self) -> Option<&Info> {
        self.rails
            .iter()
            .find(|rail| !is_shm(rail))
            .or(self.rails.first())
    }
}

pub fn is_shm(rail: &Info) -> bool {
    let name = rail.fabric.prov_name.as_deref().unwrap_or_default();
    name.to_bytes().eq_ignore_ascii_case(b"shm")
}

/// The entries that satisfy the query, in the order of the links.
pub fn offers(query: &Query, below: &dyn Below, params: &Params) -> Answer {
    let mut answer = Answer::default();
    let name = SOURCE.name().to_string_lossy();
    if params.links.is_none() {
        let none = Refusal::new("FI_LNX_PROV_LINKS", "providers".into(), "none".into());
        answer.reasons.push(none.by(&name));
        return answer;
    }
    if params.selection().is_none() {
        let (wanted, offered) = (params.selection.as_deref(), "PER_PEER, PER_MSG");
        let wanted = wanted.unwrap_or_default().into();
        let refusal = Refusal::new("FI_LNX_MULTI_RAIL_SELECTION", wanted, offered.into());
        answer.reasons.push(refusal.by(&name));
        return answer;
    }
    let links = match links(query, below, params) {
        Ok(links) => links,
        Err(reasons) => {
            answer.reasons = reasons;
            return answer;
        }
    };
    for link in &links {
        let kind = over(link, query);
        let refusals = check(&kind, query);
        if refusals.is_empty() {
            let mut info = fill(&kind, query);
            device::add_mode(&mut info, query);
            if query.hints.is_none() {
                (info.tx.op_flags, info.rx.op_flags) = Default::default();
            }
            answer.entries.push(info);
        }
        for refusal in refusals {
            answer
                .reasons
                .push(refusal.of(&name, &kind, vec![link.domain.clone()]));
        }
    }
    answer
}

/// The links of the variable. As with upstream's lnx there are none if one of them is wrong; the reasons say which.
pub fn links(query: &Query, below: &dyn Below, params: &Params) -> Result<Vec<Link>, Vec<Reason>> {
    let text = params.links.as_deref().unwrap_or_default();
    let mut found = Vec::new();
    for members in links::parse(text) {
        found.push(link(query, below, &members)?);
    }
    if found.is_empty() {
        let refusal = Refusal::new("FI_LNX_PROV_LINKS", text.into(), "no provider".into());
        return Err(vec![refusal.by(&SOURCE.name().to_string_lossy())]);
    }
    Ok(found)
}

fn link(query: &Query, below: &dyn Below, members: &[Member]) -> Result<Link, Vec<Reason>> {
    // Accesses to memory need them on every rail.
    let all = MESSAGES | ACCESSES;
    let with_accesses = rails(query, below, members, all);
    let rails = with_accesses.or_else(|_| rails(query, below, members, MESSAGES))?;
    let names: Vec<&[u8]> = rails
        .iter()
        .map(|rail| rail.domain.name.as_deref().unwrap_or_default().to_bytes())
        .collect();
    let domain = CString::new(names.join(&b'+')).unwrap_or_default();
    // Providers of other libraries need descriptors that name the device.
    let takes_devices = rails
        .iter()
        .all(|rail| rail.made.is_none() && knows_devices(rail));
    Ok(Link {
        rails,
        domain,
        takes_devices,
    })
}

/// Whether a provider of this library has entries with FI_HMEM.
fn knows_devices(rail: &Info) -> bool {
    let name = provider_of(rail).to_bytes();
    [&b"shm"[..], b"sm2", b"tcp;ofi_rxm", b"udp;ofi_rxd"].contains(&name)
}

fn rails(
    query: &Query,
    below: &dyn Below,
    members: &[Member],
    caps: Caps,
) -> Result<Vec<Info>, Vec<Reason>> {
    let mut rails = Vec::new();
    for member in members {
        let found = entries(query, below, member, caps)?;
        let named = |name: &String| {
            let is_it = |info: &&Info| {
                info.domain
                    .name
                    .as_deref()
                    .is_some_and(|it| it.to_bytes() == name.as_bytes())
            };
            let entry = found.iter().find(is_it);
            if entry.is_none() {
                log_warn!(
                    &SOURCE,
                    Subsys::Core,
                    "FI_LNX_PROV_LINKS: {} has no domain {name}",
                    member.provider
                );
            }
            entry.cloned()
        };
        // There is one domain of shared memory.
        let chosen: Vec<Info> = match member.is_shm() {
            true => Vec::new(),
            false => member.domains.iter().filter_map(named).collect(),
        };
        match chosen.is_empty() {
            true => rails.extend(one_for_each_domain(found)),
            false => rails.extend(chosen),
        }
    }
    Ok(rails)
}

/// The entries of one provider that can be a rail.
fn entries(
    query: &Query,
    below: &dyn Below,
    member: &Member,
    caps: Caps,
) -> Result<Vec<Info>, Vec<Reason>> {
    let wanted = |name: String| {
        let hints = wishes(&name, caps);
        let query = Query {
            version: layered::BELOW_API,
            node: None,
            service: None,
            flags: query.flags & !FI_SOURCE,
            hints: Some(&hints),
        };
        below.offers(&query)
    };
    // As with upstream's lnx, whose tcp has no unconnected endpoints that can be rails.
    let mut answer = match member.provider.eq_ignore_ascii_case("tcp") {
        true => wanted("tcp;ofi_rxm".to_owned()),
        false => Answer::default(),
    };
    if answer.entries.is_empty() {
        answer = wanted(member.provider.clone());
    }
    let can_be_rail = |info: &Info| {
        let own = SOURCE.name();
        let name = info.fabric.prov_name.as_deref().unwrap_or_default();
        info.ep.ep_type == FI_EP_RDM.0
            && name != own
            && (info.caps | info.domain.caps).contains(Caps::PEER)
    };
    answer.entries.retain(can_be_rail);
    // A name may stand for several providers; the first one is meant.
    let first = answer
        .entries
        .first()
        .map(|info| info.fabric.prov_name.clone());
    answer
        .entries
        .retain(|info| Some(&info.fabric.prov_name) == first.as_ref());
    if !answer.entries.is_empty() {
        return Ok(answer.entries);
    }
    let refusal = Refusal::new(
        "FI_LNX_PROV_LINKS",
        Value::Text(member.provider.clone()),
        "no RDM endpoints that can be peers".into(),
    );
    answer
        .reasons
        .insert(0, refusal.by(&SOURCE.name().to_string_lossy()));
    Err(answer.reasons)
}

fn one_for_each_domain(entries: Vec<Info>) -> Vec<Info> {
    let mut chosen: Vec<Info> = Vec::new();
    for entry in entries {
        if !chosen
            .iter()
            .any(|other| other.domain.name == entry.domain.name)
        {
            chosen.push(entry);
        }
    }
    chosen
}

/// Hints for a rail.
fn wishes(name: &str, caps: Caps) -> Hints {
    Hints {
        caps,
        ep: Some(EpAttr {
            ep_type: FI_EP_RDM.0,
            ..EpAttr::default()
        }),
        domain: Some(DomainAttr {
            mr_mode: match caps.intersects(ACCESSES) {
                // Regions of all rails have the application's keys, and addresses that begin at 0.
                true => MrMode::empty(),
                false => MESSAGES_MR_MODE,
            },
            ..DomainAttr::default()
        }),
        fabric: Some(FabricAttr {
            prov_name: CString::new(name).ok(),
            ..FabricAttr::default()
        }),
        ..Hints::default()
    }
}

/// The most that lnx can offer over a link.
fn over(link: &Link, query: &Query) -> Prototype {
    let least = |of: fn(&Info) -> usize| link.rails.iter().map(of).min().unwrap_or(0);
    let all = |of: fn(&Info) -> Caps| link.rails.iter().map(of).fold(Caps::all(), |a, b| a & b);
    let order = |of: fn(&Info) -> MsgOrder| {
        link.rails
            .iter()
            .map(of)
            .fold(MsgOrder::all(), |a, b| a & b)
    };
    let nothing = Info::default();
    let face = link.face().unwrap_or(&nothing);
    let tx_caps = all(|rail| rail.tx.caps) & TX | OWN_TX;
    let rx_caps = all(|rail| rail.rx.caps) & RX | OWN_RX;
    let comm = link.rails.iter().fold(Caps::empty(), |sum, rail| {
        sum | (rail.caps | rail.domain.caps) & flags!(Caps: LOCAL_COMM | REMOTE_COMM)
    });
    // Names have a format of their own. A program that asks for another one, as upstream's lnx returns it, gets it.
    let addr_format = query
        .hints
        .map_or(FI_FORMAT_UNSPEC, |hints| hints.addr_format);
    let mut info = Info {
        caps: tx_caps | rx_caps | comm,
        addr_format,
        nic: face.nic.clone(),
        tx: TxAttr {
            caps: tx_caps,
            op_flags: TX_FLAGS,
            msg_order: order(|rail| rail.tx.msg_order),
            inject_size: least(|rail| rail.tx.inject_size),
            size: least(|rail| rail.tx.size),
            iov_limit: least(|rail| rail.tx.iov_limit).min(IOV_LIMIT),
            rma_iov_limit: least(|rail| rail.tx.rma_iov_limit).min(IOV_LIMIT),
            ..TxAttr::default()
        },
        rx: RxAttr {
            caps: rx_caps,
            op_flags: flags!(OpFlags: COMPLETION | MULTI_RECV),
            msg_order: order(|rail| rail.rx.msg_order),
            size: least(|rail| rail.rx.size),
            iov_limit: least(|rail| rail.rx.iov_limit).min(IOV_LIMIT),
            ..RxAttr::default()
        },
        ep: EpAttr {
            ep_type: FI_EP_RDM.0,
            protocol: FI_PROTO_LNX,
            protocol_version: 1,
            max_msg_size: least(|rail| rail.ep.max_msg_size),
            max_order_raw_size: least(|rail| rail.ep.max_order_raw_size),
            max_order_war_size: least(|rail| rail.ep.max_order_war_size),
            max_order_waw_size: least(|rail| rail.ep.max_order_waw_size),
            mem_tag_format: ALL_TAG_BITS,
            tx_ctx_cnt: 1,
            rx_ctx_cnt: 1,
            ..EpAttr::default()
        },
        domain: DomainAttr {
            name: Some(link.domain.clone()),
            threading: FI_THREAD_SAFE.0,
            control_progress: FI_PROGRESS_AUTO.0,
            progress: FI_PROGRESS_MANUAL.0,
            resource_mgmt: FI_RM_ENABLED.0,
            av_type: FI_AV_UNSPEC.0,
            mr_mode: MrMode::UNSPEC,
            mr_key_size: size_of::<u64>(),
            cq_data_size: least(|rail| rail.domain.cq_data_size).min(size_of::<u64>()),
            cq_cnt: least(|rail| rail.domain.cq_cnt),
            ep_cnt: least(|rail| rail.domain.ep_cnt),
            tx_ctx_cnt: 1,
            rx_ctx_cnt: 1,
            max_ep_tx_ctx: 1,
            max_ep_rx_ctx: 1,
            mr_iov_limit: 1,
            caps: comm,
            max_cntr_value: u64::MAX,
            max_err_cntr_value: u64::MAX,
            ..DomainAttr::default()
        },
        fabric: FabricAttr {
            name: Some(SOURCE.name().to_owned()),
            prov_name: Some(SOURCE.name().to_owned()),
            prov_version: release::PROVIDER_VERSION,
            ..FabricAttr::default()
        },
        ..Info::default()
    };
    let device = match link.takes_devices {
        true => device::capability(query),
        false => Caps::empty(),
    };
    Asked::of(query).add_to(&mut info, ON_DEMAND | device);
    let (tx_size, rx_size) = (info.tx.size, info.rx.size);
    Prototype {
        info,
        on_request: flags!(Caps: TRIGGER | COLLECTIVE),
        tx_size,
        rx_size,
        addr_formats: match is_shm(face) {
            true => local::ADDR_FORMATS,
            false => ip::ADDR_FORMATS,
        },
    }
}

/// Capabilities of every rail.
const MESSAGES: Caps = flags!(Caps: MSG | TAGGED | DIRECTED_RECV | SOURCE | PEER);
/// How rails may want memory if peers do not access it: lnx registers that of its operations.
const MESSAGES_MR_MODE: MrMode = flags!(MrMode: LOCAL | VIRT_ADDR | ALLOCATED | PROV_KEY);
/// Capabilities that a link has if all rails have them.
const ACCESSES: Caps = flags!(Caps: RMA | ATOMIC);
const TX: Caps = flags!(Caps: MSG | TAGGED | RMA | ATOMIC | SEND | READ | WRITE);
const RX: Caps = flags!(Caps:
    MSG | TAGGED | RMA | ATOMIC | RECV | REMOTE_READ | REMOTE_WRITE | SOURCE | DIRECTED_RECV
);
/// What lnx adds by itself.
const OWN_TX: Caps = Caps::COLLECTIVE;
const OWN_RX: Caps = flags!(Caps: MULTI_RECV | COLLECTIVE);
/// Further capabilities, offered only if the hints name them.
const ON_DEMAND: Caps =
    flags!(Caps: TAGGED_MULTI_RECV | TAGGED_DIRECTED_RECV | EXACT_DIRECTED_RECV | AV_USER_ID);

const TX_FLAGS: OpFlags = flags!(OpFlags:
    COMPLETION | INJECT | INJECT_COMPLETE | TRANSMIT_COMPLETE | DELIVERY_COMPLETE
);

pub const IOV_LIMIT: usize = 4;

/// The limits of endpoints over a link: the smallest of the rails.
pub struct Limits {
    /// The rails can give peers access to memory.
    pub accesses: bool,
    pub inject: usize,
    tx_size: usize,
    rx_size: usize,
    iovs: usize,
}

impl Limits {
    pub fn of(link: &Link) -> Limits {
        let least = |of: fn(&Info) -> usize| link.rails.iter().map(of).min().unwrap_or(0);
        Limits {
            accesses: link.rails.iter().all(|rail| rail.caps.contains(Caps::RMA)),
            inject: least(|rail| rail.tx.inject_size),
            tx_size: least(|rail| rail.tx.size),
            rx_size: least(|rail| rail.rx.size),
            iovs: least(|rail| rail.tx.iov_limit.min(rail.rx.iov_limit)).min(IOV_LIMIT),
        }
    }

    /// Whether an endpoint may have these attributes.
    pub fn permit(&self, info: &Info) -> bool {
        let iovs = [info.tx.iov_limit, info.tx.rma_iov_limit, info.rx.iov_limit];
        info.tx.inject_size <= self.inject
            && info.tx.size <= self.tx_size
            && info.rx.size <= self.rx_size
            && iovs.iter().all(|&limit| limit <= self.iovs)
    }
}

/// The links of a process that opens a fabric.
pub fn links_to_open(below: &dyn Below, params: &Params) -> Vec<Link> {
    let query = Query {
        version: layered::BELOW_API,
        node: None,
        service: None,
        flags: 0,
        hints: None,
    };
    links(&query, below, params).unwrap_or_default()
}

/// The name of the provider of a rail.
pub fn provider_of(rail: &Info) -> &CStr {
    rail.fabric.prov_name.as_deref().unwrap_or_default()
}
