// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Completions of collectives: fi_collective(3).

use crate::domain_state::DomainState;
use crate::ep_state::Event;
use crate::transport::Address;
use abi::*;
use base::{CompFlags, Result};

use object::ops::cq::CqErr;
use object::ops::eq::EqErr;

impl<A: Address> DomainState<A> {
    /// Completes a collective of this endpoint. It counts like the atomic operations that implement it. It is reported
    /// with FI_SELECTIVE_COMPLETION, too, because the original does so and programs wait for the entry.
    pub fn collected(&mut self, ep: usize, context: usize, result: Result) {
        self.eps[ep].tx_pending -= 1;
        let ep = &self.eps[ep];
        let counter = ep.cntr(Event::Write);
        let queue = ep.tx_cq.map(|cq| &mut self.cqs[cq]);
        match result {
            Ok(()) => {
                if let Some(queue) = queue {
                    let words = [context as u64, CompFlags::COLLECTIVE.bits(), 0, 0, 0, 0];
                    queue.push(&words, FI_ADDR_NOTAVAIL);
                }
                if let Some(counter) = counter {
                    counter.succeeded(0);
                }
            }
            Err(error) => {
                if let Some(queue) = queue {
                    queue.push_error(CqErr {
                        context,
                        flags: CompFlags::COLLECTIVE,
                        err: error.code(),
                        prov_errno: error.code(),
                        src_addr: FI_ADDR_NOTAVAIL,
                        ..CqErr::default()
                    });
                }
                if let Some(counter) = counter {
                    counter.failed();
                }
            }
        }
    }

    /// Reports that a join has ended; `fid` is the handle of the group.
    pub fn joined(&mut self, ep: usize, fid: usize, context: usize, result: Result) {
        let Some(eq) = &self.eps[ep].eq else {
            return;
        };
        match result {
            Ok(()) => eq.complete(FI_JOIN_COMPLETE, fid, context, 0),
            Err(error) => eq.error(EqErr {
                fid,
                context,
                err: error.code(),
                prov_errno: error.code(),
                ..EqErr::default()
            }),
        }
    }
}
