// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The load of the library: it names itself and its functions to the layers below. The dynamic linker calls what
//! stands in `.init_array` before any function of the library can be called.
//!
//! Trusted with: an entry of that section.

use base::identity;
use client::library::{Library, unclosed};

use super::fabric::fi_fabric;
use super::identity::TEXT;
use super::info::{fi_freeinfo, fi_getinfo};

#[used]
// SAFETY: functions without arguments are what the section holds.
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = at_start;

extern "C" fn at_start() {
    identity::name(TEXT);
    let own = Library {
        getinfo: fi_getinfo,
        freeinfo: fi_freeinfo,
        fabric: fi_fabric,
        unclosed,
    };
    // SAFETY: these are the functions of the man pages, and all lists of the library have one layout.
    unsafe { own.install() };
}
