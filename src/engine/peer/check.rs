// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Checks of operations before they are posted: fi_endpoint(3), fi_msg(3), fi_rma(3).

use crate::domain_state::DomainState;
use crate::ep_state::EpState;
use crate::transport::Address;
use base::flags::flags;
use base::{Caps, Error, OpFlags, Result};
use object::ops::transfer::RemoteSeg;

/// Flags that need a capability of the endpoint.
pub const NEED_CAPS: OpFlags = flags!(OpFlags: FENCE | TRIGGER);

/// Returns the state of an endpoint that may post operations.
#[inline(always)]
pub fn enabled<A: Address>(domain: &DomainState<A>, ep: usize) -> Result<&EpState> {
    let state = domain.eps.get(ep).ok_or(Error::INVAL)?;
    match state.enabled {
        true => Ok(state),
        false => Err(Error::OPBADSTATE),
    }
}

/// Checks the flags of an operation of an endpoint with these capabilities. `unsupported` are the flags that the
/// transport cannot honour.
pub fn flags(flags: OpFlags, caps: Caps, unsupported: OpFlags) -> Result {
    let has = |flag| flags.contains(flag);
    // A triggered operation arrives without FI_TRIGGER, unless the endpoint lacks the capability.
    if has(OpFlags::TRIGGER) || has(OpFlags::FENCE) && !caps.contains(Caps::FENCE) {
        return Err(Error::BADFLAGS);
    }
    match flags.intersects(unsupported) {
        true => Err(Error::OPNOTSUPP),
        false => Ok(()),
    }
}

/// Checks the target of an access to memory: it must have as many bytes as the operation, in at least one segment and
/// at most `most`.
#[inline]
pub fn target(target: &[RemoteSeg], len: usize, most: usize) -> Result {
    let add = |total: usize, seg: &RemoteSeg| total.checked_add(seg.len);
    let total = match target {
        [one] => Some(one.len),
        _ => target.iter().try_fold(0, add),
    };
    match total {
        Some(total) if total == len && (1..=most).contains(&target.len()) => Ok(()),
        _ => Err(Error::INVAL),
    }
}
