// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Log lines about the program's steps, for `-v`.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

/// `note!("connected to {peer}")` writes a line if `-v` is set.
macro_rules! note {
    ($($text:tt)+) => { $crate::journal::write(format_args!($($text)+)) };
}

pub(crate) use note;

pub fn switch_on() {
    WANTED.store(true, Ordering::Relaxed);
}

pub fn write(text: fmt::Arguments) {
    // Relaxed: the value guards no other memory.
    if WANTED.load(Ordering::Relaxed) {
        eprintln!("[debug] {text}");
    }
}

static WANTED: AtomicBool = AtomicBool::new(false);
