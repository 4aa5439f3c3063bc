// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Operations of a transmit context that is closed: those that have not started are dropped, the others complete at
//! another context of the endpoint (fi_endpoint(3)).

use crate::domain_state::{DomainState, TxOp};
use crate::transport::Address;

/// A closed context, its successor, and the numbers of operations that were dropped and transferred.
#[must_use = "the operations have to be counted at their endpoints"]
pub struct Handover {
    from: usize,
    to: usize,
    dropped: usize,
    transferred: usize,
}

impl Handover {
    pub const fn new(from: usize, to: usize) -> Handover {
        Handover {
            from,
            to,
            dropped: 0,
            transferred: 0,
        }
    }

    /// Whether the operation belongs to the closed context.
    pub const fn is_its(&self, op: &TxOp) -> bool {
        op.ep() == self.from
    }

    /// Counts an operation of the closed context that is dropped.
    pub const fn drop_one(&mut self) {
        self.dropped += 1;
    }

    /// Transfers an operation to the successor, if it belongs to the closed context. Returns whether it does.
    pub const fn transfer(&mut self, op: &mut TxOp) -> bool {
        let is_its = self.is_its(op);
        if is_its {
            op.ep = self.to as u32;
            self.transferred += 1;
        }
        is_its
    }

    /// Counts the operations at their endpoints.
    pub fn settle<A: Address>(self, domain: &mut DomainState<A>) {
        domain.eps[self.from].tx_pending -= self.dropped + self.transferred;
        domain.eps[self.to].tx_pending += self.transferred;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use base::{Caps, OpFlags};
    use object::ops::transfer::What;

    #[test]
    fn operations_count_where_they_complete() {
        let (mut domain, _, ep) = testing::domain::<String>(Caps::MSG, 8);
        let (mut other, ..) = testing::domain::<String>(Caps::MSG, 8);
        let successor = domain.eps.insert(other.eps.remove(0));
        let op = |ep: usize| TxOp {
            what: What::Msg,
            since: 0,
            ep: ep as u32,
            flags: OpFlags::empty(),
            context: 0,
            len: 0,
        };
        (domain.eps[ep].tx_pending, domain.eps[successor].tx_pending) = (4, 1);
        let mut handover = Handover::new(ep, successor);
        handover.drop_one();
        let mut ops = [op(ep), op(ep), op(successor)];
        assert_eq!(
            ops.each_mut().map(|op| handover.transfer(op)),
            [true, true, false]
        );
        assert_eq!(ops, [op(successor); 3]);
        handover.settle(&mut domain);
        let pending = [ep, successor].map(|ep| domain.eps[ep].tx_pending);
        assert_eq!(pending, [1, 3]);
    }
}
