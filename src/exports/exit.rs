// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The end of the process: exit(3), or a return from main. The dynamic linker calls what stands in `.fini_array` after the
//! handlers of atexit(3) and after the libraries that use this one, so nothing is posted any more.
//!
//! Trusted with: an entry of that section.

use crate::base::log;
use crate::engine::domain::registered;
use crate::registry;

#[used]
// SAFETY: functions without arguments are what the section holds.
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;

extern "C" fn at_exit() {
    registered::drain_at_exit();
    registry::clean_up();
    log::at_exit();
}
