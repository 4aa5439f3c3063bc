// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What the text of a variable means: the types of `fi_param_get` in fi_provider(3).
#![forbid(unsafe_code)]

use core::fmt;

use crate::abi::{FI_PARAM_BOOL, FI_PARAM_INT, FI_PARAM_SIZE_T, FI_PARAM_STRING, fi_param_type};
use crate::base::Error;

/// The type of a variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    String,
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
    /// `None` if the text means nothing in this type; that can only happen to a boolean.
    pub fn parse(self, text: &[u8]) -> Option<Value> {
        match self {
            Kind::String => Some(Value::String(text.to_vec())),
            // Numbers too large for the type lose their upper bits, as they do when C narrows a `long`.
            Kind::Int => Some(Value::Int(strtol(text) as i32)),
            Kind::Size => Some(Value::Size(strtol(text) as usize)),
            Kind::Bool => truth(text).map(Value::Bool),
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
            Kind::String => FI_PARAM_STRING,
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

/// C's `strtol` with base 0: the base by prefix, what follows the digits ignored, the limits of the type where the
/// number is too large, 0 where there is no digit.
fn strtol(text: &[u8]) -> i64 {
    let is_space = |byte: &u8| byte.is_ascii_whitespace() || *byte == VERTICAL_TAB;
    let start = text.iter().position(|byte| !is_space(byte));
    let text = &text[start.unwrap_or(text.len())..];
    let (negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let (base, digits) = match text {
        [b'0', b'x' | b'X', rest @ ..] if rest.first().is_some_and(u8::is_ascii_hexdigit) => {
            (16, rest)
        }
        [b'0', rest @ ..] => (8, rest),
        _ => (10, text),
    };
    let sign = if negative { -1 } else { 1 };
    let limit = if negative { i64::MIN } else { i64::MAX };
    let mut number: i64 = 0;
    for digit in digits
        .iter()
        .map_while(|byte| char::from(*byte).to_digit(base))
    {
        let next = number
            .checked_mul(i64::from(base))
            .and_then(|number| number.checked_add(sign * i64::from(digit)));
        match next {
            Some(next) => number = next,
            None => return limit,
        }
    }
    number
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
    fn an_int_ignores_what_is_no_digit() {
        assert_eq!(int(" \t\n\x0b\x0c\r 12"), 12);
        assert_eq!(int("\x0b 12"), 12);
        assert_eq!(int("12abc"), 12);
        assert_eq!(int("1K"), 1);
        assert_eq!(int("089"), 0);
        for text in ["", "abc", "0x", "0xg", "-", "+-1", "0b11", "\x0b", " "] {
            assert_eq!(int(text), 0, "{text:?}");
        }
    }

    #[test]
    fn an_int_out_of_range_is_narrowed_as_c_narrows_a_long() {
        assert_eq!(int("99999999999"), 1215752191);
        assert_eq!(int("99999999999999999999"), -1);
        assert_eq!(int("-99999999999999999999"), 0);
    }

    #[test]
    fn a_size_is_read_like_an_int() {
        assert_eq!(size("99999999999"), 99_999_999_999);
        assert_eq!(size("-1"), usize::MAX);
        assert_eq!(size("18446744073709551615"), i64::MAX as usize);
        assert_eq!(size("-9223372036854775808"), 1 << 63);
        assert_eq!(size("1M"), 1);
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
