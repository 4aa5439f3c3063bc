// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The optional parts of a transport.

use super::address::{Addr, Format};
use super::domain::Linked;
use engine::transport::*;

impl Addressing for Linked {
    type Addr = Addr;
    type Format = Format;
}

impl Connects for Linked {}
impl Contexts for Linked {}
impl Groups for Linked {}
impl Multicast for Linked {}
impl Atomics for Linked {}
impl Prepares for Linked {}
impl Queues for Linked {}
impl Batches for Linked {}
impl Drains for Linked {}
