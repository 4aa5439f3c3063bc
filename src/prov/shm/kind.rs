// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The two providers that this folder serves: they differ in what fi_getinfo(3) says of them and in how names begin.
#![forbid(unsafe_code)]

use std::ffi::CStr;

use crate::base::log::Source;

/// Who logs for `shm`, and owns the FI_SHM_ variables.
pub static SHM: Source = Source::new(c"shm");
/// Who logs for `sm2`.
pub static SM2: Source = Source::new(c"sm2");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Shm,
    Sm2,
}

impl Kind {
    pub fn source(self) -> &'static Source {
        match self {
            Kind::Shm => &SHM,
            Kind::Sm2 => &SM2,
        }
    }

    /// Of the provider, its fabric and its domain.
    pub fn name(self) -> &'static CStr {
        self.source().name()
    }

    /// How names begin to which an endpoint adds what makes them its own.
    pub fn scheme(self) -> &'static str {
        match self {
            Kind::Shm => "fi_shm",
            Kind::Sm2 => "fi_sm2",
        }
    }
}
