// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Access to the peer's memory through the provider below (fi_rma(3)), and registration of local memory (fi_mr(3)).

use super::flight::{Call, Cuts, Flight, Group, Kind, Post, Remotes, iov_of};
use super::lower::SHORT;
use super::state::{Rxm, StateOf};
use abi::*;
use base::{Access, Error, OpFlags, Result};
use client::layer::{Lent, Loan};
use engine::domain_state::TxOp;
use engine::transport::Registration;
use object::ops::mr::MrRequest;
use object::ops::transfer::{Tx, What};

impl Rxm {
    pub fn post_access(
        &mut self,
        domain: &mut StateOf,
        id: usize,
        tx: &mut Tx<'_>,
        op: TxOp,
    ) -> Result {
        let flags = self.lower.flags_of(tx.flags);
        let writes = tx.what == What::Write;
        let has_data = tx.flags.contains(OpFlags::REMOTE_CQ_DATA);
        let data = (writes && has_data).then_some(tx.data);
        let injected = writes && tx.flags.contains(OpFlags::INJECT);
        let conn = &self.conns[id];
        if let ([to], true) = (
            tx.target,
            injected && op.len <= self.lower.inject && flags == 0,
        ) && conn.held.is_empty()
            && let Some(link) = &conn.link
        {
            let mut bytes = [0; SHORT];
            let bytes = &mut bytes[..op.len];
            tx.iov.copy_to(bytes);
            let posted = match data {
                Some(data) => link.inject_write_data(bytes, data, 0, to.addr, to.key),
                None => link.inject_write(bytes, 0, to.addr, to.key),
            };
            if posted.is_ok() {
                domain.sent(op.ep(), &op);
                return Ok(());
            }
        }
        let pieces = tx.iov.spans().count();
        let one =
            data.is_some() && pieces > self.lower.pieces() && op.len <= self.lower.params.eager;
        let (loan, lent) = if injected || one {
            if op.len > self.lower.params.eager {
                return Err(Error::MSGSIZE);
            }
            let mut slot = self.slot_for(op.len)?;
            tx.iov.copy_to(slot.bytes_mut());
            (Loan::Slot(slot, op.len), None)
        } else {
            let lent = self.lend(id, tx, if writes { FI_WRITE } else { FI_READ })?;
            (Loan::Lent(lent.clone(), 0..op.len), Some(lent))
        };
        let fits = op.len <= self.lower.longest
            && tx.target.len() <= self.lower.remotes
            && self.lower.takes(&loan);
        if let (false, Some(lent)) = (fits, lent) {
            drop(loan);
            return self.post_cuts(domain, id, tx, op, lent, data);
        }
        domain.ep_mut(op.ep()).tx_pending += 1;
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
            ep: op.ep(),
            conn: id,
            kind: Kind::Op(op),
        };
        self.hand_down(domain, Post { call, loan, flight });
        Ok(())
    }

    /// Posts several accesses below for one that the provider there does not accept whole. CQ data goes with the last
    /// one.
    fn post_cuts(
        &mut self,
        domain: &mut StateOf,
        id: usize,
        tx: &mut Tx<'_>,
        op: TxOp,
        lent: std::sync::Arc<Lent>,
        data: Option<u64>,
    ) -> Result {
        let flags = self.lower.flags_of(tx.flags) & !FI_MORE;
        let remote = tx.target.iter().map(iov_of);
        let cuts = Cuts::of(
            &lent,
            op.len,
            remote,
            self.lower.pieces(),
            self.lower.longest,
        );
        let count = cuts.list.len();
        let group = self.groups.insert(Group {
            op,
            left: count,
            failed: None,
        });
        domain.ep_mut(op.ep()).tx_pending += 1;
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
                    ep: op.ep(),
                    conn: id,
                    kind: Kind::Part(group),
                },
            };
            self.hand_down(domain, post);
        }
        Ok(())
    }

    /// Registers memory with rxm, for atomic operations, and with the provider below, for everything else.
    pub fn register_both(
        &mut self,
        domain: &mut StateOf,
        request: MrRequest<'_>,
    ) -> Result<Registration> {
        let MrRequest {
            segments,
            access,
            offset,
            requested_key,
            flags,
            context,
            ..
        } = request;
        // Memory for local operations is registered with each operation, if the provider below requires that.
        let registrar = &self.lower.registrar;
        if !access.intersects(Access::REMOTE) || registrar.of_endpoints() {
            let region = domain
                .mrs
                .register(segments, access, offset, requested_key, context)?;
            return Ok(Registration { region, desc: 0 });
        }
        let below =
            registrar.register_application(&segments, access.bits(), requested_key, flags)?;
        let mrs = &mut domain.mrs;
        let region = mrs.register_as(segments, access, offset, below.key(), context)?;
        self.regions.insert(region.key, below);
        Ok(Registration { region, desc: 0 })
    }
}
