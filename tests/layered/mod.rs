// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A provider for tests alone, compiled in by the feature `layered`: RDM endpoints over the MSG endpoints of tcp, to
//! which it speaks by `ffi::client` as an application would. It shows that the seams carry a layered provider, and
//! copies whatever can be copied.
#![forbid(unsafe_code)]

mod transport;

use core::ffi::{CStr, c_void};

use self::transport::Layer;
use crate::abi::*;
use crate::base::flags::{MrMode, MsgOrder, flags};
use crate::base::info::{ALL_TAG_BITS, check, fill, ip};
use crate::base::info::{Answer, EpAttr, FabricAttr, Hints, Info, Prototype, Query};
use crate::base::log::Source;
use crate::base::{Caps, Error, OpFlags, Result};
use crate::engine::domain_state::MessageInfo;
use crate::engine::fabric::Fabric;
use crate::ffi::ops::transfer::{Tx, What};
use crate::ffi::{client, with_entry};
use crate::prov::{Below, Provider};

pub struct Layered;

impl Provider for Layered {
    fn source(&self) -> &'static Source {
        &SOURCE
    }

    fn version(&self) -> u32 {
        1 << 16
    }

    fn define_params(&self) {}

    fn offers(&self, query: &Query, below: &dyn Below) -> Answer {
        let hints = Some(&wishes(query.hints.cloned().unwrap_or_default()));
        let mut answer = below.offers(&Query { hints, ..*query });
        let kinds = answer.entries.into_iter().map(over);
        let fitting = kinds.filter(|kind| check(kind, query).is_empty());
        answer.entries = fitting.map(|kind| fill(&kind, query)).collect();
        answer
    }

    fn open_fabric(
        &self,
        attr: &FabricAttr,
        api_version: u32,
        flags: u64,
        context: *mut c_void,
        below: &dyn Below,
    ) -> Result<*mut fid_fabric> {
        (flags == 0).then_some(()).ok_or(Error::INVAL)?;
        let mut hints = wishes(Hints::default());
        let fabric = hints.fabric.get_or_insert_default();
        fabric.name.clone_from(&attr.name);
        let (version, hints) = (FI_MAJOR_VERSION << 16 | FI_MINOR_VERSION, Some(&hints));
        #[rustfmt::skip]
        let query = Query { version, node: None, service: None, flags, hints };
        let entries = below.offers(&query).entries;
        let fabric = with_entry(entries.first().ok_or(Error::NODATA)?, client::Fabric::open)?;
        Fabric::<Layer>::open((fabric, entries), attr, api_version, context)
    }
}

/// What is asked of the provider below where this is asked of us.
fn wishes(mut hints: Hints) -> Hints {
    hints.fabric.get_or_insert_default().prov_name = Some(c"tcp".into());
    hints.ep.insert(EpAttr::default()).ep_type = FI_EP_MSG.0;
    (hints.tx, hints.rx) = (None, None);
    (hints.caps, hints.mode, hints.handle) = Default::default();
    hints
}

/// What an entry of ours can be, over this one.
fn over(mut info: Info) -> Prototype {
    info.caps = TX | RX | info.domain.caps;
    (info.tx.caps, info.rx.caps, info.domain.mr_mode) = (TX, RX, MrMode::empty());
    info.tx.op_flags = flags!(OpFlags: COMPLETION | INJECT | INJECT_COMPLETE);
    info.rx.op_flags = flags!(OpFlags: COMPLETION | MULTI_RECV);
    (info.tx.msg_order, info.rx.msg_order) = (MsgOrder::SAS, MsgOrder::SAS);
    (info.tx.size, info.rx.size) = (QUEUE, QUEUE);
    info.ep.ep_type = FI_EP_RDM.0;
    // fi_endpoint(3): the first bit marks the protocols of one provider.
    (info.ep.protocol, info.ep.protocol_version) = (1 << 31 | 1, 1);
    info.ep.max_msg_size = MAX_MESSAGE;
    info.ep.mem_tag_format = ALL_TAG_BITS;
    (info.ep.auth_key_size, info.domain.auth_key_size) = (0, 0);
    info.domain.max_ep_srx_ctx = 0;
    info.fabric.prov_name = Some(NAME.into());
    info.fabric.prov_version = 1 << 16;
    let (tx_size, rx_size, addr_formats) = (QUEUE, QUEUE, ip::ADDR_FORMATS);
    #[rustfmt::skip]
    let kind = Prototype { info, on_request: Caps::empty(), tx_size, rx_size, addr_formats };
    kind
}

/// Three words in the order of the host, and the payload.
fn encode(tx: &Tx<'_>, out: &mut [u8]) {
    let tagged = u64::from(tx.what == What::Tagged) * TAGGED;
    let has_data = u64::from(tx.flags.contains(OpFlags::REMOTE_CQ_DATA)) * HAS_DATA;
    let words = [tagged | has_data, tx.tag, tx.data];
    out[..HEADER].copy_from_slice(words.map(u64::to_ne_bytes).as_flattened());
    tx.iov.copy_to(&mut out[HEADER..]);
}

fn decode(bytes: &[u8]) -> Option<(MessageInfo, &[u8])> {
    let (header, payload) = bytes.split_at_checked(HEADER)?;
    let word = |at: usize| u64::from_ne_bytes(header.as_chunks().0[at]);
    let info = MessageInfo {
        what: [What::Msg, What::Tagged][(word(0) & TAGGED) as usize],
        len: payload.len() as u64,
        tag: word(1),
        data: (word(0) & HAS_DATA != 0).then(|| word(2)),
    };
    Some((info, payload))
}

static SOURCE: Source = Source::new(c"layered");
const NAME: &CStr = c"tcp;layered";
const TX: Caps = flags!(Caps: MSG | TAGGED | SEND);
const RX: Caps = flags!(Caps: MSG | TAGGED | RECV | MULTI_RECV | SOURCE | DIRECTED_RECV);
const QUEUE: usize = 256;
/// Each receive below has room for so much, of which the system gives the pages that are used.
const MAX_MESSAGE: usize = 1 << 25;
const HEADER: usize = 24;
const TAGGED: u64 = 1;
const HAS_DATA: u64 = 2;
