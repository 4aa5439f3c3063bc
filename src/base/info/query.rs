// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! One call of fi_getinfo(3) as a provider sees it.
#![forbid(unsafe_code)]

use std::ffi::CStr;

use super::Hints;

#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    /// The requested API version, which decides which hints exist and how `mr_mode` is interpreted.
    pub version: u32,
    pub node: Option<&'a CStr>,
    pub service: Option<&'a CStr>,
    pub flags: u64,
    pub hints: Option<&'a Hints>,
}
