// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Standard output that reports write errors, and the name under which a program was called.
#![forbid(unsafe_code)]

use std::env;
use std::io::{self, Write};
use std::process;

use base::escape;

/// Prints all that `print` writes. If the reader has closed the pipe, the program ends as SIGPIPE would end it; any
/// other write error is reported. Control characters, which names of plug-ins and peers can contain, are escaped.
pub fn print(print: impl FnOnce(&mut dyn Write) -> io::Result<()>) {
    let mut out = Shown(io::BufWriter::new(io::stdout().lock()));
    match print(&mut out).and_then(|()| out.flush()) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => process::exit(BROKEN_PIPE),
        Err(error) => {
            eprintln!("{}: standard output: {error}", program());
            process::exit(1);
        }
    }
}

/// Escapes characters that control a terminal.
struct Shown<W>(W);

impl<W: Write> Write for Shown<W> {
    /// Callers write whole strings, so no character is split.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_all(escape::lines(bytes).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The name under which the program was called.
pub fn program() -> String {
    env::args_os()
        .next()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// The exit code that a shell reports for a program that SIGPIPE ended.
const BROKEN_PIPE: i32 = 128 + 13;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_as_text() {
        let mut out = Shown(Vec::new());
        let name = "\x1b[2J\u{e4}";
        write!(out, "a: {name}\n\tb\n").unwrap();
        assert_eq!(out.0, "a: \\x1b[2J\u{e4}\n\tb\n".as_bytes());
    }
}
