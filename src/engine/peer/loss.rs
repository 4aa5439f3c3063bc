// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The loss of a peer: why operations with it fail, for their error entries (fi_cq(3), `err_data`), and how many fail.

use std::ffi::{CStr, CString};
use std::sync::Arc;

/// The loss of a peer that is being handled, if there is one.
#[derive(Default)]
pub struct Losses(Option<Loss>);

struct Loss {
    why: Arc<CStr>,
    failed: usize,
}

/// The loss whose handling was interrupted by another one: the loss of one peer may cause the loss of another, because
/// a collective ends.
#[must_use = "the loss has to end"]
pub struct OuterLoss(Option<Loss>);

impl Losses {
    /// Begins the loss of a peer. Operations that fail until `end` name this reason.
    pub fn begin(&mut self, why: &str) -> OuterLoss {
        let why = CString::new(why).unwrap_or_default().into();
        OuterLoss(self.0.replace(Loss { why, failed: 0 }))
    }

    /// Ends the loss of a peer. Returns the number of operations that have failed.
    pub fn end(&mut self, outer: OuterLoss) -> usize {
        let ended = std::mem::replace(&mut self.0, outer.0);
        ended.map_or(0, |loss| loss.failed)
    }

    /// Counts an operation that fails. Returns the text for its error entry.
    pub(crate) fn count(&mut self) -> Option<Arc<CStr>> {
        let loss = self.0.as_mut()?;
        loss.failed += 1;
        Some(loss.why.clone())
    }
}

#[cfg(test)]
mod tests {
    use crate::domain_state::DomainState;
    use crate::domain_state::TxOp;
    use crate::testing;
    use base::{Caps, Error, OpFlags};
    use object::ops::transfer::What;

    fn fail(domain: &mut DomainState<String>, context: usize) {
        let op = TxOp {
            what: What::Msg,
            since: 0,
            ep: 0,
            flags: OpFlags::empty(),
            context,
            len: 0,
        };
        domain.eps[0].tx_pending += 1;
        domain.fail_tx(&op, Error::CONNRESET);
    }

    #[test]
    fn failed_operations_name_the_loss_that_caused_them() {
        let (mut domain, cq, _) = testing::domain::<String>(Caps::MSG, 8);
        fail(&mut domain, 1);
        let none = domain.losses.begin("a ended");
        fail(&mut domain, 2);
        let outer = domain.losses.begin("b ended\0");
        fail(&mut domain, 3);
        assert_eq!(domain.losses.end(outer), 1);
        fail(&mut domain, 4);
        assert_eq!(domain.losses.end(none), 2);
        fail(&mut domain, 5);
        let ring = &mut domain.cqs[cq].ring;
        let reasons = core::iter::from_fn(|| ring.pop_err()).map(|entry| {
            let why = entry.why.map(|why| why.to_string_lossy().into_owned());
            (entry.context, why)
        });
        let a = || Some("a ended".to_owned());
        let expected = [
            (1, None),
            (2, a()),
            (3, Some(String::new())),
            (4, a()),
            (5, None),
        ];
        assert_eq!(reasons.collect::<Vec<_>>(), expected);
    }
}
