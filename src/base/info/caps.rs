// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Classes of capabilities, and the capabilities of a result: fi_getinfo(3), "Capabilities".
//!
//! If hints have any capabilities, a result has only the primary ones among them; a provider also adds secondary ones.
#![forbid(unsafe_code)]

use crate::Caps;
use crate::flags::flags;

pub const TX_PRIMARY: Caps = flags!(Caps:
    MSG | RMA | TAGGED | ATOMIC | MULTICAST | COLLECTIVE | READ | WRITE | SEND | NAMED_RX_CTX | HMEM
);
pub const TX_SECONDARY: Caps = flags!(Caps: TRIGGER | FENCE | RMA_PMEM | WR);

pub const RX_PRIMARY: Caps = flags!(Caps:
    MSG | RMA | TAGGED | ATOMIC | COLLECTIVE | RECV | REMOTE_READ | REMOTE_WRITE | DIRECTED_RECV |
    TAGGED_DIRECTED_RECV | EXACT_DIRECTED_RECV | HMEM
);
pub const RX_SECONDARY: Caps = flags!(Caps:
    MULTI_RECV | TAGGED_MULTI_RECV | TRIGGER | RMA_PMEM | SOURCE | RMA_EVENT | SOURCE_ERR | WR
);

pub const TX: Caps = TX_PRIMARY.union(TX_SECONDARY);
pub const RX: Caps = RX_PRIMARY.union(RX_SECONDARY);

pub const DOMAIN_PRIMARY: Caps = flags!(Caps: AV_USER_ID | PEER);
pub const DOMAIN_SECONDARY: Caps = flags!(Caps: SHARED_AV | LOCAL_COMM | REMOTE_COMM);

/// Bits of one side only; in the attributes of the other side they are ignored.
pub const TX_ONLY: Caps = TX.difference(RX);
pub const RX_ONLY: Caps = RX.difference(TX).difference(RX_STRICTLY);
/// Newer bits of the receive side, which are not ignored: no existing program sets them on the transmit side.
const RX_STRICTLY: Caps = flags!(Caps:
    TAGGED_MULTI_RECV | TAGGED_DIRECTED_RECV | EXACT_DIRECTED_RECV
);

const PRIMARY: Caps = TX_PRIMARY.union(RX_PRIMARY).union(DOMAIN_PRIMARY);
const SECONDARY: Caps = TX_SECONDARY.union(RX_SECONDARY).union(DOMAIN_SECONDARY);

const MESSAGES: Caps = flags!(Caps: MSG | TAGGED);
const MESSAGE_MODIFIERS: Caps = flags!(Caps: SEND | RECV);
const MEMORY: Caps = flags!(Caps: RMA | ATOMIC);
const MEMORY_MODIFIERS: Caps = flags!(Caps: READ | WRITE | REMOTE_READ | REMOTE_WRITE);

/// A secondary capability that costs something on each message, so a provider does not add it.
const COSTLY: Caps = Caps::SOURCE;

/// The capabilities of an object, and those of them that a result has only on request, even without hints.
#[derive(Clone, Copy)]
pub struct Offered {
    pub caps: Caps,
    pub on_request: Caps,
}

impl Offered {
    fn unasked(self) -> Caps {
        self.caps & !self.on_request
    }
}

/// Returns the capabilities of a result if the hints have `wanted`.
pub fn granted(wanted: Caps, offered: Offered) -> Caps {
    if wanted.is_empty() {
        return offered.unasked();
    }
    let added = offered.unasked() & SECONDARY & !COSTLY;
    with_modifiers(wanted & (PRIMARY | COSTLY | offered.on_request) | added)
}

/// The same for the transmit side: `side` is the set of hints in its own attributes, `wanted` those of the whole entry.
pub fn granted_tx(side: Caps, wanted: Caps, offered: Offered) -> Caps {
    granted_side(side, wanted, offered, TX_PRIMARY, TX)
}

/// The same for the receive side.
pub fn granted_rx(side: Caps, wanted: Caps, offered: Offered) -> Caps {
    granted_side(side, wanted, offered, RX_PRIMARY, RX)
}

/// The same for the domain.
pub fn granted_domain(side: Caps, wanted: Caps, offered: Offered) -> Caps {
    let all = DOMAIN_PRIMARY | DOMAIN_SECONDARY;
    granted_side(side, wanted, offered, DOMAIN_PRIMARY, all)
}

fn granted_side(side: Caps, wanted: Caps, offered: Offered, primary: Caps, all: Caps) -> Caps {
    if side.is_empty() && wanted.is_empty() {
        return offered.unasked();
    }
    let own = if side.is_empty() {
        let asked = wanted & (primary | offered.on_request & all);
        asked | offered.unasked() & SECONDARY
    } else {
        let asked = side & (PRIMARY | COSTLY | offered.on_request & all);
        asked | offered.unasked() & SECONDARY & !COSTLY
    };
    let implied = with_modifiers(own) & !own;
    own | implied & all
}

/// Adds all modifiers of a capability that has none, because it works in all directions.
fn with_modifiers(mut caps: Caps) -> Caps {
    if caps.intersects(MESSAGES) && !caps.intersects(MESSAGE_MODIFIERS) {
        caps |= MESSAGE_MODIFIERS;
    }
    if caps.intersects(MEMORY) && !caps.intersects(MEMORY_MODIFIERS) {
        caps |= MEMORY_MODIFIERS;
    }
    caps
}
