// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_atomic(3): no provider serves it yet.
#![forbid(unsafe_code)]

use crate::abi::fi_ops_atomic;
use crate::ffi::ops::missing::Missing;

pub static NONE: fi_ops_atomic = fi_ops_atomic {
    size: size_of::<fi_ops_atomic>(),
    write: Some(Missing::CALL),
    writev: Some(Missing::CALL),
    writemsg: Some(Missing::CALL),
    inject: Some(Missing::CALL),
    readwrite: Some(Missing::CALL),
    readwritev: Some(Missing::CALL),
    readwritemsg: Some(Missing::CALL),
    compwrite: Some(Missing::CALL),
    compwritev: Some(Missing::CALL),
    compwritemsg: Some(Missing::CALL),
    writevalid: Some(Missing::CALL),
    readwritevalid: Some(Missing::CALL),
    compwritevalid: Some(Missing::CALL),
};
