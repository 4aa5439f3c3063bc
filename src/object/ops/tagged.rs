// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `struct fi_ops_tagged`: fi_tagged(3).

use core::ffi::c_void;

use crate::ops::message::{message_ops, or_zero};
use crate::ops::missing::Missing;
use crate::ops::status;
use crate::ops::transfer::*;
use abi::*;
use base::{Error, OpFlags, Result};
use hmem::Desc;
use sys::probe;

/// fi_tagged(3): FI_MULTI_RECV needs FI_TAGGED_MULTI_RECV.
fn more_recv_flags<T: DataPath>(ep: &T) -> OpFlags {
    match ep.takes_many_tagged() {
        true => OpFlags::MULTI_RECV,
        false => OpFlags::empty(),
    }
}

/// Checks the flags of fi_tsendmsg.
#[inline]
fn check_message_flags<T: DataPath>(_ep: &T, flags: OpFlags) -> Result {
    check_flags(flags, MESSAGE_FLAGS)
}

message_ops!(
    fi_ops_tagged,
    fi_msg_tagged,
    Tagged,
    trecv_flush,
    tag,
    ignore
);
