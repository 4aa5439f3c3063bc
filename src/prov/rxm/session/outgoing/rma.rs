// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Access to the peer's memory through the provider below: fi_rma(3).

use super::{Outgoing, slot_for};
use crate::rxm::session::flight::{Call, Cuts, Flight, Group, Kind, Post, Remotes, iov_of};
use crate::rxm::session::link::Link;
use crate::rxm::session::{Cx, Wire};
use abi::*;
use base::{Error, OpFlags, Result};
use client::layer::{Lent, Loan};
use engine::domain_state::TxOp;
use object::ops::transfer::{Tx, What};

impl Outgoing {
    pub(super) fn post_access<W: Wire>(
        &mut self,
        link: &mut Link,
        cx: &mut Cx<'_, W>,
        tx: &mut Tx<'_>,
        op: TxOp,
    ) -> Result {
        let settings = cx.common.settings;
        let flags = settings.flags_of(tx.flags);
        let writes = tx.what == What::Write;
        let has_data = tx.flags.contains(OpFlags::REMOTE_CQ_DATA);
        let data = (writes && has_data).then_some(tx.data);
        let injected = writes && tx.flags.contains(OpFlags::INJECT);
        if let ([to], true) = (
            tx.target,
            injected && op.len <= settings.inject && flags == 0,
        ) && self.held.is_empty()
        {
            let bytes = &mut cx.common.staging[..op.len];
            tx.iov.copy_to(bytes);
            if cx.wire.inject_write(link.id(), bytes, data, to) {
                cx.domain.sent(op.ep(), &op);
                return Ok(());
            }
        }
        let pieces = tx.iov.spans().filter(|span| span.len > 0).count();
        let one = data.is_some() && pieces > settings.pieces && op.len <= settings.eager;
        let (loan, lent) = if injected || one {
            if op.len > settings.eager {
                return Err(Error::MSGSIZE);
            }
            let mut slot = slot_for(cx.wire, op.len)?;
            tx.iov.copy_to(slot.bytes_mut());
            if tx.iov.take_fault().is_some() {
                return Err(Error::IO);
            }
            (Loan::Slot(slot, op.len), None)
        } else {
            let lent = link.lend(cx, tx, if writes { FI_WRITE } else { FI_READ })?;
            (Loan::Lent(lent.clone(), 0..op.len), Some(lent))
        };
        // A slot is one piece.
        let fits = op.len <= settings.longest
            && tx.target.len() <= settings.remotes
            && (lent.is_none() || pieces <= settings.pieces);
        if let (false, Some(lent)) = (fits, lent) {
            drop(loan);
            return self.post_cuts(link, cx, tx, op, lent, data);
        }
        cx.domain.eps[op.ep()].tx_pending += 1;
        let remote = Remotes::of(tx.target);
        let call = match writes {
            true => Call::Write {
                remote,
                data,
                flags,
            },
            false => Call::Read { remote, flags },
        };
        let flight = Flight {
            id: link.id(),
            kind: Kind::Op(op),
        };
        self.hand_down(link, cx, Post { call, loan, flight });
        Ok(())
    }

    /// Posts several accesses below for one that the provider there does not accept whole. CQ data goes with the last
    /// one.
    fn post_cuts<W: Wire>(
        &mut self,
        link: &mut Link,
        cx: &mut Cx<'_, W>,
        tx: &mut Tx<'_>,
        op: TxOp,
        lent: std::sync::Arc<Lent>,
        data: Option<u64>,
    ) -> Result {
        let settings = cx.common.settings;
        let flags = settings.flags_of(tx.flags) & !FI_MORE;
        let remote = tx.target.iter().map(iov_of);
        let cuts = Cuts::of(&lent, op.len, remote, settings.pieces, settings.longest);
        let count = cuts.list.len();
        let group = self.groups.insert(Group {
            op,
            left: count,
            failed: None,
        });
        cx.domain.eps[op.ep()].tx_pending += 1;
        for (number, (part, remote)) in cuts.list.into_iter().enumerate() {
            let data = data.filter(|_| number + 1 == count);
            let remote = remote.into();
            let call = match tx.what {
                What::Write => Call::Write {
                    remote,
                    data,
                    flags,
                },
                _ => Call::Read { remote, flags },
            };
            let post = Post {
                call,
                loan: Loan::Lent(lent.clone(), part),
                flight: Flight {
                    id: link.id(),
                    kind: Kind::Part(group),
                },
            };
            self.hand_down(link, cx, post);
        }
        Ok(())
    }
}
