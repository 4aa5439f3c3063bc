// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Answers of tcp on a machine with two interfaces and five addresses. ctests/getinfo.c has many more queries, only on
//! loopback.

mod hints;
mod places;

use std::ffi::CStr;

use super::*;
use base::info::Hints;
use base::info::machine::{A, Machine};
use sys::addr;

fn empty() -> Hints {
    Info::default().into()
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

fn ask(hints: &Hints) -> Answer {
    answer(&query(Some(hints), 0), &Params::default(), &Machine)
}

fn ask_for(hints: &Hints, node: Option<&CStr>, service: Option<&CStr>, flags: u64) -> Answer {
    let query = Query {
        node,
        service,
        ..query(Some(hints), flags)
    };
    answer(&query, &Params::default(), &Machine)
}

/// Number of entries of each kind: connected, connected with a shared context, unconnected.
fn counts(answer: &Answer) -> [usize; 3] {
    let count = |of: fn(&Info) -> bool| answer.entries.iter().filter(|info| of(info)).count();
    [
        count(|info| info.ep.ep_type == FI_EP_MSG.0 && info.ep.mem_tag_format == 0),
        count(|info| info.ep.ep_type == FI_EP_MSG.0 && info.ep.mem_tag_format != 0),
        count(|info| info.ep.ep_type == FI_EP_RDM.0),
    ]
}

fn address(text: &str) -> Option<Vec<u8>> {
    Some(addr::to_bytes(&text.parse().unwrap()))
}

fn text(bytes: &Option<Vec<u8>>) -> String {
    let addr = bytes.as_ref().map(|bytes| addr::from_bytes(bytes).unwrap());
    addr.map_or("none".to_owned(), |addr| addr.to_string())
}

/// Source, destination, domain, fabric and format of an entry.
fn place(info: &Info) -> (String, String, &str, &str, u32) {
    (
        text(&info.src_addr),
        text(&info.dest_addr),
        info.domain.name.as_deref().unwrap().to_str().unwrap(),
        info.fabric.name.as_deref().unwrap().to_str().unwrap(),
        info.addr_format,
    )
}
