// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The end of the process: exit(3), or a return from main. The dynamic linker calls the functions in `.fini_array`
//! after the handlers of atexit(3) and after those of the libraries that use this one, so no more operations are
//! posted.
//!
//! Trusted with: an entry of that section.

use base::log;
use engine::domain::registered;

#[used]
// SAFETY: the section holds functions without arguments.
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;

extern "C" fn at_exit() {
    registered::drain_at_exit();
    registry::clean_up();
    log::at_exit();
}
