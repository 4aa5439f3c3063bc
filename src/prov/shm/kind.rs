// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The two providers of this folder: they differ in their fi_getinfo(3) attributes and in the prefix of names.

use std::ffi::CStr;

use base::log::Source;

/// Log source and variable prefix of `shm`.
pub static SHM: Source = Source::new(c"shm");
/// Log source of `sm2`.
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

    /// Name of the provider, its fabric and its domain.
    pub fn name(self) -> &'static CStr {
        self.source().name()
    }

    /// Prefix of the names that an endpoint makes unique.
    pub fn scheme(self) -> &'static str {
        match self {
            Kind::Shm => "fi_shm",
            Kind::Sm2 => "fi_sm2",
        }
    }
}
