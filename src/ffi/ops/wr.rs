// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `struct fi_ops_wr`: prepared requests.
#![forbid(unsafe_code)]

use crate::abi::fi_ops_wr;
use crate::ffi::ops::missing::Missing;

pub static NONE: fi_ops_wr = Missing::TABLE;
