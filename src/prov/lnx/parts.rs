// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The optional parts of a transport.

use core::time::Duration;

use super::address::{Addr, Format};
use super::domain::Linked;
use super::held::{Flight, State};
use super::unsorted::{GROUP_TAG, MOST_OF_GROUP};
use abi::*;
use base::{Error, Result};
use engine::coll::messages::{self, Carries, Messages, Target};
use engine::peer::post::post_atomic;
use engine::transport::*;
use object::ops::atomic::{Atomic, Family};
use object::ops::transfer::What;

impl Addressing for Linked {
    type Addr = Addr;
    type Format = Format;
}

impl Connects for Linked {}
impl Contexts for Linked {}
impl Groups for Linked {
    const COLLECTIVES: bool = true;

    fn identity(addr: &Addr) -> Vec<u8> {
        addr.identity()
    }

    fn own_rank(&self, ep: usize, members: &[Addr]) -> Result<usize> {
        let own = self.own_name(ep)?.identity();
        let rank = members.iter().position(|member| member.identity() == own);
        rank.ok_or(Error::INVAL)
    }

    fn groups_moved(&mut self, domain: &mut State, _ep: usize) {
        messages::poll(self, domain);
    }
}

impl Carries for Linked {
    const TARGET: Target = Target {
        what: What::Tagged,
        tag: GROUP_TAG,
        context: 0,
    };

    fn messages(&mut self) -> &mut Messages<Addr> {
        &mut self.messages
    }

    fn packet(&self) -> usize {
        MOST_OF_GROUP
    }
}

impl Multicast for Linked {}

impl Atomics for Linked {
    const ATOMIC_SIZE: usize = ATOMIC_SIZE;

    /// What every provider below has: docs/wire/rxm.md, docs/wire/rxd.md.
    fn most_of(family: Family, datatype: fi_datatype, op: fi_op) -> usize {
        match family {
            _ if datatype.0 > FI_FLOAT_COMPLEX.0 || op.0 > FI_MSWAP.0 => 0,
            Family::Compare => ATOMIC_SIZE / 2,
            _ => ATOMIC_SIZE,
        }
    }

    fn atomic(
        &mut self,
        domain: &mut State,
        port: usize,
        ep: usize,
        atomic: &mut Atomic<'_>,
    ) -> Result {
        post_atomic(self, domain, port, ep, atomic)
    }
}

/// Most bytes of the operands of one operation.
const ATOMIC_SIZE: usize = 8192;

impl Prepares for Linked {}
impl Queues for Linked {}
impl Batches for Linked {}

impl Drains for Linked {
    fn close_limit(&self) -> Duration {
        CLOSE_LIMIT
    }

    /// The providers below wait only for operations whose completions nobody reads, and lnx reads all.
    fn owes(&self, ep: Option<usize>, _patient: bool) -> bool {
        let promised = |flight: &Flight| match flight {
            Flight::Of { op, .. } => ep.is_none_or(|ep| ep == op.ep()) && op.is_promised(),
            Flight::Note(_) | Flight::Slice { .. } => false,
        };
        self.held.stripes.owes(ep) || self.held.ops.iter().any(promised)
    }
}

/// As long as the providers below wait, unless their settings say otherwise.
const CLOSE_LIMIT: Duration = Duration::from_secs(5);
