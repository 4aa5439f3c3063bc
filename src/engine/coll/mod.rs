// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Collectives: fi_collective(3). A state machine without I/O: calls, frames and losses of peers go in, frames to be sent
//! and results come out.
//!
//! `plan` is what one member does, `running` one collective under way, `lane` all of one endpoint's. The arithmetic
//! is that of atomic operations.
//!
//! All members compute the number of a group from its addresses, so that a join is nothing but a barrier. A member
//! that fails tells those who wait for it, and they do the same: nobody hangs.
#![forbid(unsafe_code)]

mod lane;
mod plan;
mod running;
#[cfg(test)]
mod tests;

pub use lane::{Action, Frame, Lane, Outcome, Part, Place};
pub use plan::Shape;

use crate::abi::*;
use crate::base::{Error, Result};
use crate::engine::atomic::{self, Combine};

/// The calls that combine what the members bring.
pub fn reduces(what: fi_collective_op) -> bool {
    matches!(what, FI_ALLREDUCE | FI_REDUCE_SCATTER | FI_REDUCE)
}

/// Bytes of an element in a collective of this kind, and what combines two; FI_EOPNOTSUPP if there is no such collective.
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

/// Members of a group at most: a rank goes into 32 bits.
pub const MAX_MEMBERS: usize = u32::MAX as usize;
/// Bytes of a call at most, over all members; a multiple of it still has a size.
pub const MAX_BYTES: usize = isize::MAX as usize / 4;
