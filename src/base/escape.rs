// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Escapes characters that control a terminal or end a line. Names of peers and plug-ins, addresses and values of
//! variables come from outside, so log lines and texts may contain such characters.
#![forbid(unsafe_code)]

use core::fmt::Write;
use std::borrow::Cow;

/// Returns the text as one line.
pub fn line(text: &str) -> String {
    escape(text, |_| false)
}

/// Returns a C string as one line. Bytes that are not UTF-8 are kept, unless the string has control characters.
pub fn line_of_bytes(text: &[u8]) -> Cow<'_, [u8]> {
    match str::from_utf8(text) {
        Ok(valid) if !valid.contains(is_obeyed) => text.into(),
        Err(_) if !text.iter().any(u8::is_ascii_control) => text.into(),
        _ => line(&String::from_utf8_lossy(text)).into_bytes().into(),
    }
}

/// Returns a text of several lines and columns that another component has composed.
pub fn lines(text: &[u8]) -> String {
    escape(&String::from_utf8_lossy(text), |c| matches!(c, '\n' | '\t'))
}

fn escape(text: &str, stays: fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        // Writing to a String does not fail.
        let _ = match c {
            c if stays(c) || !is_obeyed(c) => out.write_char(c),
            '\n' => out.write_str("\\n"),
            '\r' => out.write_str("\\r"),
            '\t' => out.write_str("\\t"),
            c if c.is_ascii() => write!(out, "\\x{:02x}", u32::from(c)),
            c => write!(out, "\\u{{{:x}}}", u32::from(c)),
        };
    }
    out
}

/// Returns true for control characters, line ends, and characters that change the direction of the following text.
fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_shown_as_text() {
        for (text, shown) in [
            (
                "fi_shm://12:0 \u{e4}\u{20ac}",
                "fi_shm://12:0 \u{e4}\u{20ac}",
            ),
            ("a\x1b[2Jb", "a\\x1b[2Jb"),
            ("a\nlibfabric:1:2::tcp", "a\\nlibfabric:1:2::tcp"),
            ("\r\t\0\x7f", "\\r\\t\\x00\\x7f"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("\u{202e}\u{2066}\u{2028}", "\\u{202e}\\u{2066}\\u{2028}"),
        ] {
            assert_eq!(line(text), shown);
        }
    }

    #[test]
    fn lines_of_others_stay_lines() {
        assert_eq!(lines(b"a\n\tb\x1b[0m\n"), "a\n\tb\\x1b[0m\n");
        assert_eq!(lines(b"\xff\x9b"), "\u{fffd}\u{fffd}");
    }

    #[test]
    fn c_strings_without_control_characters_stay() {
        for bytes in [&b"tcp"[..], b"\xffx", "\u{e4}".as_bytes()] {
            assert_eq!(*line_of_bytes(bytes), *bytes);
        }
        assert_eq!(*line_of_bytes(b"\xff\x1b"), *"\u{fffd}\\x1b".as_bytes());
        assert_eq!(*line_of_bytes("\u{9b}".as_bytes()), *b"\\u{9b}");
    }
}
