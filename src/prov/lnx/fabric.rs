// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A fabric: the links of the process. The fabrics below are opened with each domain, because the name of a domain
//! decides which they are.

use super::info::{self, Link};
use super::params::Params;
use crate::Below;
use base::{Error, Result};

pub struct Links {
    pub links: Vec<Link>,
    pub disable_shm: bool,
    pub stripe_size: usize,
}

pub fn open(below: &dyn Below, params: &Params) -> Result<Links> {
    let links = info::links_to_open(below, params);
    match links.is_empty() {
        true => Err(Error::NODATA),
        false => Ok(Links {
            links,
            disable_shm: params.disable_shm,
            stripe_size: params.striped(),
        }),
    }
}
