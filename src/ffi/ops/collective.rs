// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_collective(3): no provider serves it yet.
#![forbid(unsafe_code)]

use crate::abi::fi_ops_collective;
use crate::ffi::ops::missing::Missing;

pub static NONE: fi_ops_collective = fi_ops_collective {
    size: size_of::<fi_ops_collective>(),
    barrier: Some(Missing::CALL),
    broadcast: Some(Missing::CALL),
    alltoall: Some(Missing::CALL),
    allreduce: Some(Missing::CALL),
    allgather: Some(Missing::CALL),
    reduce_scatter: Some(Missing::CALL),
    reduce: Some(Missing::CALL),
    scatter: Some(Missing::CALL),
    gather: Some(Missing::CALL),
    msg: Some(Missing::CALL),
    barrier2: Some(Missing::CALL),
};
