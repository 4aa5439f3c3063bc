// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A text that grows up to the size of its C buffer; the rest is cut off.
#![forbid(unsafe_code)]

use core::fmt::{self, Display, Write};

use crate::escape;

/// Bytes instead of `str`: names from C programs need not be UTF-8.
pub struct Text {
    bytes: Vec<u8>,
    buffer: usize,
}

impl Text {
    /// Returns an empty text for a buffer of `buffer` bytes.
    pub fn for_buffer(buffer: usize) -> Text {
        Text {
            bytes: Vec::new(),
            buffer,
        }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the number of bytes left in the C buffer behind this text.
    pub fn room(&self) -> usize {
        self.buffer.saturating_sub(self.bytes.len())
    }

    pub fn push(&mut self, bytes: &[u8]) {
        // One byte terminates the string. The original leaves one more unused, and programs compare texts cut to a
        // length.
        let room = self.room().saturating_sub(2);
        self.bytes
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    /// Removes the comma behind the last element of a list.
    pub fn trim_comma(&mut self) {
        if self.bytes.ends_with(b", ") {
            self.bytes.truncate(self.bytes.len() - 2);
        }
    }

    pub fn indent(&mut self, depth: usize) {
        for _ in 0..depth {
            self.push(INDENT);
        }
    }

    /// Writes a line of its own above the fields of a struct.
    pub fn heading(&mut self, depth: usize, name: &str) {
        self.indent(depth);
        self.push(name.as_bytes());
        self.push(b":\n");
    }

    /// `name: value`
    pub fn field(&mut self, depth: usize, name: &str, value: impl Display) {
        self.begin_field(depth, name);
        // Writing to a `Text` does not fail.
        let _ = write!(self, "{value}");
        self.push(b"\n");
    }

    /// `name: value` with bytes from a C caller; `None` is C's NULL. Characters that control a terminal are escaped,
    /// because names come from plug-ins and peers.
    pub fn c_field(&mut self, depth: usize, name: &str, value: Option<&[u8]>) {
        self.begin_field(depth, name);
        let value = value.unwrap_or(b"(null)");
        self.push(&escape::line_of_bytes(value));
        self.push(b"\n");
    }

    /// `name: [ A, B ]`
    pub fn list_field(&mut self, depth: usize, name: &str, list: impl FnOnce(&mut Text)) {
        self.begin_field(depth, name);
        self.push(b"[ ");
        list(self);
        self.push(b" ]\n");
    }

    fn begin_field(&mut self, depth: usize, name: &str) {
        self.indent(depth);
        self.push(name.as_bytes());
        self.push(b": ");
    }
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}

/// A pointer as C's `%p` prints it.
pub struct Pointer(usize);

impl Pointer {
    pub fn new<T>(pointer: *const T) -> Pointer {
        Pointer(pointer.addr())
    }
}

impl Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("(nil)"),
            address => write!(f, "{address:#x}"),
        }
    }
}

const INDENT: &[u8] = b"    ";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_to_its_buffer() {
        for (buffer, expected) in [
            (0, ""),
            (1, ""),
            (2, ""),
            (3, "a"),
            (6, "abcd"),
            (9, "abcdef"),
        ] {
            let mut text = Text::for_buffer(buffer);
            text.push(b"abc");
            text.push(b"def");
            assert_eq!(text.as_bytes(), expected.as_bytes(), "{buffer}");
        }
    }

    #[test]
    fn only_a_whole_comma_is_trimmed() {
        for (list, expected) in [
            ("A, ", "A"),
            ("A,", "A,"),
            ("", ""),
            (", ", ""),
            ("A, B, ", "A, B"),
        ] {
            let mut text = Text::for_buffer(64);
            text.push(list.as_bytes());
            text.trim_comma();
            assert_eq!(text.as_bytes(), expected.as_bytes());
        }
    }

    #[test]
    fn fields_are_lines() {
        let mut text = Text::for_buffer(256);
        text.heading(0, "fi_thing");
        text.field(1, "size", 7);
        text.c_field(1, "name", None);
        text.c_field(2, "other", Some(b"\xff"));
        text.list_field(1, "flags", |text| text.push(b"A"));
        text.field(1, "none", Pointer::new(core::ptr::null::<u8>()));
        let expected = b"fi_thing:\n    size: 7\n    name: (null)\n        other: \xff\n    flags: [ A ]\n    none: (nil)\n";
        assert_eq!(text.as_bytes(), expected);
    }
}
