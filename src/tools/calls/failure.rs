// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The reason why a program stops, as text and as its exit code.
#![forbid(unsafe_code)]

use std::fmt;
use std::io;

use super::text;
use base::Error;

pub type Result<T = ()> = std::result::Result<T, Failure>;

/// The failed step, and its error number of fi_errno(3).
#[derive(Debug)]
pub struct Failure {
    doing: String,
    code: i32,
    /// The cause, if more is known than the error number.
    detail: Option<String>,
}

impl Failure {
    /// `code` may be negative, as a function of the library returns it, or positive.
    pub fn new(doing: impl Into<String>, code: i32) -> Failure {
        Failure {
            doing: doing.into(),
            code: code.saturating_abs(),
            detail: None,
        }
    }

    pub fn of(doing: impl Into<String>, error: Error) -> Failure {
        Failure::new(doing, error.code())
    }

    /// Makes a function for `map_err`.
    pub fn by(doing: &str) -> impl Fn(Error) -> Failure + use<'_> {
        move |error| Failure::of(doing, error)
    }

    pub fn detail(mut self, detail: impl Into<String>) -> Failure {
        self.detail = Some(detail.into());
        self
    }

    /// Does the same as `detail`, unless the failure already has a detail, which is closer to the cause.
    pub fn or_detail(self, detail: &str) -> Failure {
        match self.detail {
            Some(_) => self,
            None => self.detail(detail),
        }
    }

    /// Adds the provider's text for its own error number, if there is one.
    pub fn or_words(self, words: Option<String>) -> Failure {
        match words {
            Some(words) => self.detail(words),
            None => self,
        }
    }

    /// Adds the place of the failure.
    pub fn at(mut self, place: impl fmt::Display) -> Failure {
        self.doing = format!("{place}: {}", self.doing);
        self
    }

    pub fn system(doing: impl Into<String>, error: &io::Error) -> Failure {
        match error.raw_os_error() {
            Some(code) => Failure::new(doing, code),
            None => Failure::new(doing, abi::FI_EIO).detail(error.to_string()),
        }
    }

    pub fn code(&self) -> i32 {
        self.code
    }

    /// Returns the error number if an exit code can hold it, otherwise 1.
    pub fn exit_code(&self) -> u8 {
        match u8::try_from(self.code) {
            Ok(0) | Err(_) => 1,
            Ok(code) => code,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { doing, code, .. } = self;
        write!(f, "{doing}: -{code} ({})", text::error(*code))?;
        match &self.detail {
            Some(detail) => write!(f, ": {detail}"),
            None => Ok(()),
        }
    }
}
