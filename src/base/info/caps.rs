// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Classes of capabilities and what of them ends up in a result: fi_getinfo(3), "Capabilities".
//!
//! Primary ones have to be asked for once anything is asked for; secondary ones a provider adds on its own.
#![forbid(unsafe_code)]

use crate::abi::*;

pub const TX_PRIMARY: u64 = FI_MSG
    | FI_RMA
    | FI_TAGGED
    | FI_ATOMIC
    | FI_MULTICAST
    | FI_COLLECTIVE
    | FI_READ
    | FI_WRITE
    | FI_SEND
    | FI_NAMED_RX_CTX
    | FI_HMEM;
pub const TX_SECONDARY: u64 = FI_TRIGGER | FI_FENCE | FI_RMA_PMEM;

pub const RX_PRIMARY: u64 = FI_MSG
    | FI_RMA
    | FI_TAGGED
    | FI_ATOMIC
    | FI_COLLECTIVE
    | FI_RECV
    | FI_REMOTE_READ
    | FI_REMOTE_WRITE
    | FI_DIRECTED_RECV
    | FI_TAGGED_DIRECTED_RECV
    | FI_EXACT_DIRECTED_RECV
    | FI_HMEM;
pub const RX_SECONDARY: u64 = FI_MULTI_RECV
    | FI_TAGGED_MULTI_RECV
    | FI_TRIGGER
    | FI_RMA_PMEM
    | FI_SOURCE
    | FI_RMA_EVENT
    | FI_SOURCE_ERR;

pub const TX: u64 = TX_PRIMARY | TX_SECONDARY;
pub const RX: u64 = RX_PRIMARY | RX_SECONDARY;

pub const DOMAIN_PRIMARY: u64 = FI_AV_USER_ID | FI_PEER;
pub const DOMAIN_SECONDARY: u64 = FI_SHARED_AV | FI_LOCAL_COMM | FI_REMOTE_COMM;

/// Bits of one side only; in the attributes of the other side they mean nothing.
pub const TX_ONLY: u64 = TX & !RX;
pub const RX_ONLY: u64 = RX & !TX & !RX_STRICTLY;
/// Except that these, which are newer, nobody ever put there.
const RX_STRICTLY: u64 = FI_TAGGED_MULTI_RECV | FI_TAGGED_DIRECTED_RECV | FI_EXACT_DIRECTED_RECV;

const PRIMARY: u64 = TX_PRIMARY | RX_PRIMARY | DOMAIN_PRIMARY;
const SECONDARY: u64 = TX_SECONDARY | RX_SECONDARY | DOMAIN_SECONDARY;

const MESSAGES: u64 = FI_MSG | FI_TAGGED;
const MESSAGE_MODIFIERS: u64 = FI_SEND | FI_RECV;
const MEMORY: u64 = FI_RMA | FI_ATOMIC;
const MEMORY_MODIFIERS: u64 = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;

/// A secondary one that costs something on each message: not added to what was asked for.
const COSTLY: u64 = FI_SOURCE;

/// What something can do, and which of that not even a query without any wish is given.
#[derive(Clone, Copy)]
pub struct Offered {
    pub caps: u64,
    pub on_request: u64,
}

impl Offered {
    fn unasked(self) -> u64 {
        self.caps & !self.on_request
    }
}

/// What a result says when `wanted` was asked of it.
pub fn granted(wanted: u64, offered: Offered) -> u64 {
    if wanted == 0 {
        return offered.unasked();
    }
    let added = offered.unasked() & SECONDARY & !COSTLY;
    with_modifiers(wanted & (PRIMARY | COSTLY | offered.on_request) | added)
}

/// The same for the transmit side: `side` is what its own attributes ask for, `wanted` what the whole entry does.
pub fn granted_tx(side: u64, wanted: u64, offered: Offered) -> u64 {
    granted_side(side, wanted, offered, TX_PRIMARY, TX)
}

/// The same for the receive side.
pub fn granted_rx(side: u64, wanted: u64, offered: Offered) -> u64 {
    granted_side(side, wanted, offered, RX_PRIMARY, RX)
}

/// The same for the domain.
pub fn granted_domain(side: u64, wanted: u64, offered: Offered) -> u64 {
    let all = DOMAIN_PRIMARY | DOMAIN_SECONDARY;
    granted_side(side, wanted, offered, DOMAIN_PRIMARY, all)
}

fn granted_side(side: u64, wanted: u64, offered: Offered, primary: u64, all: u64) -> u64 {
    if side == 0 && wanted == 0 {
        return offered.unasked();
    }
    let own = if side == 0 {
        let asked = wanted & (primary | offered.on_request & all);
        asked | offered.unasked() & SECONDARY
    } else {
        let asked = side & (PRIMARY | COSTLY | offered.on_request & all);
        asked | offered.unasked() & SECONDARY & !COSTLY
    };
    let implied = with_modifiers(own) & !own;
    own | implied & all
}

/// Without modifiers a capability works in all directions.
fn with_modifiers(mut caps: u64) -> u64 {
    if caps & MESSAGES != 0 && caps & MESSAGE_MODIFIERS == 0 {
        caps |= MESSAGE_MODIFIERS;
    }
    if caps & MEMORY != 0 && caps & MEMORY_MODIFIERS == 0 {
        caps |= MEMORY_MODIFIERS;
    }
    caps
}
