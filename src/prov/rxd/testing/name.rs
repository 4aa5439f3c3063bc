// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Addresses of the endpoints in tests.

use core::fmt;

use engine::transport::Address;

/// The endpoint at a place of the world.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Name(u32);

impl Name {
    pub fn at(place: usize) -> Name {
        Name(place as u32 + 1)
    }

    pub fn place(self) -> usize {
        self.0 as usize - 1
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "endpoint {}", self.0)
    }
}

impl Address for Name {
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let number = u32::from_ne_bytes(*bytes.first_chunk()?);
        (number > 0).then_some(Name(number))
    }

    fn to_bytes(&self) -> Vec<u8> {
        self.0.to_ne_bytes().to_vec()
    }
}
