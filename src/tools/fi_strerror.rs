// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `fi_strerror`: prints the text for one error number: fi_strerror(1).
#![forbid(unsafe_code)]

use std::env;
use std::process::ExitCode;

use calls::{output, text};

fn main() -> ExitCode {
    let mut arguments = env::args_os().skip(1);
    let (Some(argument), None) = (arguments.next(), arguments.next()) else {
        return usage(ExitCode::FAILURE);
    };
    let argument = argument.to_string_lossy();
    match argument.as_ref() {
        "-h" => return usage(ExitCode::SUCCESS),
        "--" => return usage(ExitCode::FAILURE),
        _ => {}
    }
    match number(&argument).map(i32::try_from) {
        Some(Ok(code)) => {
            let words = text::error(code.checked_abs().unwrap_or(code));
            output::print(|out| writeln!(out, "{words}"));
            ExitCode::SUCCESS
        }
        Some(Err(_)) => complain(&format!("'{argument}' is out of range")),
        None => complain(&format!("unable to parse '{argument}'")),
    }
}

fn complain(what: &str) -> ExitCode {
    output::print(|out| writeln!(out, "ERROR: {what}\n"));
    usage(ExitCode::FAILURE)
}

fn usage(code: ExitCode) -> ExitCode {
    output::print(|out| {
        writeln!(
            out,
            "Usage: {} FI_ERROR_CODE\n\n\
             Says in words what an error number of libfabric means. The number may be decimal,\n\
             hexadecimal (0x...) or octal (0...), and negative, as functions return it.",
            output::program()
        )
    });
    code
}

/// Reads a whole number as C's `strtoll` does with base 0: white space, sign, and a base by prefix.
fn number(text: &str) -> Option<i64> {
    let text = text.trim_start_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (base, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    // Checked first, because `from_str_radix` accepts a sign, too.
    if !digits.starts_with(|c: char| c.is_digit(base)) {
        return None;
    }
    let value = i128::from_str_radix(digits, base).ok()?;
    i64::try_from(if negative { -value } else { value }).ok()
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn reads_every_base_and_sign() {
        let read = [
            "110", "-110", "+110", "0x6e", "-0X6E", "0156", " \t110", "0", "-0",
        ];
        let values = [110, -110, 110, 110, -110, 110, 110, 0, 0];
        assert_eq!(read.map(|text| number(text).unwrap()), values);
    }

    #[test]
    fn refuses_what_is_no_number() {
        for text in [
            "", " ", "-", "0x", "0xg", "08", "12abc", "5 ", "- 5", "0x-5", "--5", "+-5",
        ] {
            assert_eq!(number(text), None, "{text:?}");
        }
    }

    #[test]
    fn refuses_what_no_long_holds() {
        assert_eq!(number("9223372036854775807"), Some(i64::MAX));
        assert_eq!(number("-9223372036854775808"), Some(i64::MIN));
        assert_eq!(number("9223372036854775808"), None);
        assert_eq!(number("99999999999999999999999999999999999999999999"), None);
    }
}
