// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Standard output that does not fail in silence, and the name under which a program was called.
#![forbid(unsafe_code)]

use std::env;
use std::io::{self, Write};
use std::process;

/// Writes all that `print` writes. A reader that went away ends the program as its signal would; anything else that
/// keeps the text from arriving is said.
pub fn print(print: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
    let mut out = io::BufWriter::new(io::stdout().lock());
    match print(&mut out).and_then(|()| out.flush()) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => process::exit(BROKEN_PIPE),
        Err(error) => {
            eprintln!("{}: standard output: {error}", program());
            process::exit(1);
        }
    }
}

/// The name under which the program was called.
pub fn program() -> String {
    env::args_os()
        .next()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// What a shell reports for a program that SIGPIPE ended.
const BROKEN_PIPE: i32 = 128 + 13;
