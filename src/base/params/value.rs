// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Parses the text of a variable: the types of `fi_param_get` in fi_provider(3).
#![forbid(unsafe_code)]

use core::fmt;

use crate::Error;
use abi::{FI_PARAM_BOOL, FI_PARAM_INT, FI_PARAM_SIZE_T, FI_PARAM_STRING, fi_param_type};

/// The type of a variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    String,
    /// A string that names a file or folder. A program with more rights than its user does not read it from the
    /// environment.
    Path,
    Int,
    Bool,
    Size,
}

/// A variable that was set, in its type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    String(Vec<u8>),
    Int(i32),
    Bool(bool),
    Size(usize),
}

impl Kind {
    /// Returns `None` if the text is not valid for this type.
    pub fn parse(self, text: &[u8]) -> Option<Value> {
        match self {
            Kind::String | Kind::Path => Some(Value::String(text.to_vec())),
            Kind::Int => i32::try_from(number(text)?).ok().map(Value::Int),
            Kind::Size => size(number(text)?).map(Value::Size),
            Kind::Bool => truth(text).map(Value::Bool),
        }
    }

    /// Describes the texts that are valid for this type.
    pub(super) fn meaning(self) -> &'static str {
        match self {
            Kind::String | Kind::Path => "a text",
            Kind::Int => "a number of 32 bits",
            Kind::Size => "a number from 0 on, or -1 for the largest,",
            Kind::Bool => "yes or no",
        }
    }
}

impl TryFrom<fi_param_type> for Kind {
    type Error = Error;

    fn try_from(kind: fi_param_type) -> Result<Kind, Error> {
        match kind {
            FI_PARAM_STRING => Ok(Kind::String),
            FI_PARAM_INT => Ok(Kind::Int),
            FI_PARAM_BOOL => Ok(Kind::Bool),
            FI_PARAM_SIZE_T => Ok(Kind::Size),
            _ => Err(Error::INVAL),
        }
    }
}

impl From<Kind> for fi_param_type {
    fn from(kind: Kind) -> fi_param_type {
        match kind {
            Kind::String | Kind::Path => FI_PARAM_STRING,
            Kind::Int => FI_PARAM_INT,
            Kind::Bool => FI_PARAM_BOOL,
            Kind::Size => FI_PARAM_SIZE_T,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::String(bytes) => f.write_str(&String::from_utf8_lossy(bytes)),
            Value::Int(number) => write!(f, "{number}"),
            Value::Bool(truth) => write!(f, "{}", *truth as u8),
            Value::Size(number) => write!(f, "{number}"),
        }
    }
}

/// Parses a number as C's `strtol` does with base 0, the base by prefix, but refuses digits with other text behind
/// them.
fn number(text: &[u8]) -> Option<i128> {
    let text = trimmed(text);
    let (negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let (base, digits) = match text {
        [b'0', b'x' | b'X', rest @ ..] => (16, rest),
        [b'0', _, ..] => (8, text),
        _ => (10, text),
    };
    if digits.is_empty() {
        return None;
    }
    let magnitude = digits.iter().try_fold(0, |number: i128, digit| {
        let digit = char::from(*digit).to_digit(base)?;
        // Limited to a value that is out of range for every type.
        Some((number * i128::from(base) + i128::from(digit)).min(i128::from(u64::MAX) + 1))
    })?;
    Some(if negative { -magnitude } else { magnitude })
}

fn trimmed(text: &[u8]) -> &[u8] {
    let is_space = |byte: &u8| byte.is_ascii_whitespace() || *byte == VERTICAL_TAB;
    let start = text.iter().position(|byte| !is_space(byte));
    let end = text.iter().rposition(|byte| !is_space(byte));
    match (start, end) {
        (Some(start), Some(end)) => &text[start..=end],
        _ => &[],
    }
}

/// Converts a number to a size; programs write -1 for the largest size.
fn size(number: i128) -> Option<usize> {
    match number {
        -1 => Some(usize::MAX),
        _ => usize::try_from(number).ok(),
    }
}

fn truth(text: &[u8]) -> Option<bool> {
    let is = |word: &str| text.eq_ignore_ascii_case(word.as_bytes());
    if TRUE.iter().any(|word| is(word)) {
        Some(true)
    } else if FALSE.iter().any(|word| is(word)) {
        Some(false)
    } else {
        None
    }
}

/// White space in C, but not in Rust.
const VERTICAL_TAB: u8 = 0x0b;
const TRUE: [&str; 4] = ["1", "true", "yes", "on"];
const FALSE: [&str; 4] = ["0", "false", "no", "off"];

#[cfg(test)]
mod tests {
    use super::*;

    fn int(text: &str) -> i32 {
        match Kind::Int.parse(text.as_bytes()) {
            Some(Value::Int(number)) => number,
            other => panic!("{text}: {other:?}"),
        }
    }

    fn size(text: &str) -> usize {
        match Kind::Size.parse(text.as_bytes()) {
            Some(Value::Size(number)) => number,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn an_int_takes_its_base_from_the_prefix() {
        assert_eq!(int("12"), 12);
        assert_eq!(int("0x1f"), 31);
        assert_eq!(int("0X1F"), 31);
        assert_eq!(int("010"), 8);
        assert_eq!(int("0"), 0);
        assert_eq!(int("-5"), -5);
        assert_eq!(int("+7"), 7);
        assert_eq!(int("-0x10"), -16);
    }

    #[test]
    fn what_is_no_number_as_a_whole_is_none() {
        assert_eq!(int(" \t\n\x0b\x0c\r 12 \r\n"), 12);
        assert_eq!(int("\x0b 12"), 12);
        for text in [
            "", " ", "\x0b", "-", "+-1", "abc", "12abc", "10s", "1K", "1 2", "1.5", "0x", "0xg",
            "089", "0b11", "12\0",
        ] {
            assert_eq!(Kind::Int.parse(text.as_bytes()), None, "{text:?}");
            assert_eq!(Kind::Size.parse(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn a_number_out_of_range_is_none() {
        assert_eq!(int("2147483647"), i32::MAX);
        assert_eq!(int("-2147483648"), i32::MIN);
        for text in ["2147483648", "-2147483649", "0x80000000", "99999999999"] {
            assert_eq!(Kind::Int.parse(text.as_bytes()), None, "{text}");
        }
        for text in ["18446744073709551616", "-2", "-9223372036854775808"] {
            assert_eq!(Kind::Size.parse(text.as_bytes()), None, "{text}");
        }
        let long = "9".repeat(1000);
        assert_eq!(Kind::Size.parse(long.as_bytes()), None);
        assert_eq!(Kind::Int.parse(format!("-{long}").as_bytes()), None);
    }

    #[test]
    fn a_size_is_read_like_an_int() {
        assert_eq!(size("99999999999"), 99_999_999_999);
        assert_eq!(size("-1"), usize::MAX);
        assert_eq!(size("18446744073709551615"), usize::MAX);
        assert_eq!(size("0x10"), 16);
        assert_eq!(size("010"), 8);
    }

    #[test]
    fn a_boolean_is_one_of_eight_words() {
        for (words, truth) in [
            (["1", "true", "yes", "on"], true),
            (["0", "false", "no", "off"], false),
        ] {
            for word in words {
                let upper = word.to_uppercase();
                assert_eq!(Kind::Bool.parse(word.as_bytes()), Some(Value::Bool(truth)));
                assert_eq!(Kind::Bool.parse(upper.as_bytes()), Some(Value::Bool(truth)));
            }
        }
        for word in ["", "t", "y", "2", "-1", "01", " 1", "1 ", "yes!"] {
            assert_eq!(Kind::Bool.parse(word.as_bytes()), None, "{word:?}");
        }
    }

    #[test]
    fn a_string_is_taken_as_it_is() {
        for text in [&b""[..], b" a b ", b"\xff\xfe"] {
            assert_eq!(Kind::String.parse(text), Some(Value::String(text.to_vec())));
        }
    }

    #[test]
    fn an_unknown_type_is_refused() {
        assert_eq!(Kind::try_from(fi_param_type(4)), Err(Error::INVAL));
        for number in 0..4 {
            let kind = Kind::try_from(fi_param_type(number)).unwrap();
            assert_eq!(fi_param_type::from(kind), fi_param_type(number));
        }
    }
}
