// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Collectives: fi_collective(3). A state machine without I/O: its input is calls, frames and losses of peers, its
//! output is frames to be sent and results.
//!
//! `plan` has the steps of one member, `running` one collective in progress, `lane` all collectives of one endpoint,
//! `closed` the groups that it has closed, `groups` those of all endpoints of a domain. `messages` moves frames in
//! messages, for transports that have no frames of their own.
//! The arithmetic is that of atomic operations.
//!
//! All members compute the number of a group from its addresses, so a join is only a barrier. A member that fails
//! notifies the members that wait for its data, and these do the same, so that no member hangs.

mod closed;
pub(crate) mod groups;
mod lane;
pub mod messages;
mod plan;
mod running;
#[cfg(test)]
mod tests;

pub use groups::{Groups, Token};
pub use lane::{Action, Frame, Lane, Outcome, Part, Place};
pub use plan::Shape;

use crate::atomic::{self, Combine};
use abi::*;
use base::{Error, Result};

/// Returns true for calls that combine the data of the members.
pub fn reduces(what: fi_collective_op) -> bool {
    matches!(what, FI_ALLREDUCE | FI_REDUCE_SCATTER | FI_REDUCE)
}

/// Returns the size of an element in a collective of this kind, and the function that combines two elements.
/// FI_EOPNOTSUPP if there is no such collective.
pub fn check(
    what: fi_collective_op,
    datatype: fi_datatype,
    op: fi_op,
) -> Result<(usize, Option<Combine>)> {
    match what {
        FI_BARRIER => return Ok((0, None)),
        FI_BROADCAST | FI_ALLTOALL | FI_ALLREDUCE | FI_ALLGATHER | FI_REDUCE_SCATTER
        | FI_REDUCE | FI_SCATTER | FI_GATHER => {}
        _ => return Err(Error::OPNOTSUPP),
    }
    let size = atomic::type_size(datatype).ok_or(Error::OPNOTSUPP)?;
    match reduces(what) {
        true => match atomic::combine(datatype, op) {
            None => Err(Error::OPNOTSUPP),
            combine => Ok((size, combine)),
        },
        false => Ok((size, None)),
    }
}

/// Limit on the members of a group: a rank must fit into 32 bits.
pub const MAX_MEMBERS: usize = u32::MAX as usize;
/// Limit on the bytes of a call, over all members, so that a multiple of it still fits into a size.
pub const MAX_BYTES: usize = isize::MAX as usize / 4;
