// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `struct fi_ops_msg`: fi_msg(3).

use core::ffi::c_void;

use crate::ops::message::{message_ops, or_zero};
use crate::ops::missing::Missing;
use crate::ops::status;
use crate::ops::transfer::*;
use abi::*;
use base::{Error, OpFlags, Result};
use hmem::Desc;
use sys::probe;

/// Flags that fi_recvmsg takes in addition to those of all receives.
fn more_recv_flags<T: DataPath>(_ep: &T) -> OpFlags {
    OpFlags::MULTI_RECV | OpFlags::TRANSMIT_COMPLETE
}

/// Checks the flags of fi_sendmsg.
#[inline]
fn check_message_flags<T: DataPath>(ep: &T, flags: OpFlags) -> Result {
    check_send_flags(ep, flags)
}

message_ops!(fi_ops_msg, fi_msg, Msg, recv_flush);
