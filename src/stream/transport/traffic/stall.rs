// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Peers for which operations wait too long: after a time the log reports them, or the operations fail
//! (FI_*_STALL_REPORT, FI_*_OP_TIMEOUT).
//!
//! An operation that fails ends its connection, because its buffer may be in the stream already. A domain without
//! pending operations wakes once more at most.

use crate::connector::Connector;
use crate::poller::Due;
use crate::session::Ending;
use crate::transport::{DomainOf, Traffic};
use engine::peer::stall::Report;
use engine::report::Waiter;

impl<N: Connector> Traffic<N> {
    #[cold]
    pub(in crate::transport) fn arm_waits(&mut self) {
        self.poller
            .schedule(self.poller.now() + self.common.waits.interval(), Due::Waits);
    }

    /// Handles a tick: reports or fails operations that have waited too long.
    #[cold]
    pub(in crate::transport) fn check_waits(&mut self, domain: &mut DomainOf<N>) {
        self.common.waits.advance();
        let ticks = &self.common.waits;
        let (mut late, mut any) = (Vec::new(), false);
        for (id, conn) in self.peers.iter_mut() {
            let transfer = conn.session.transfer();
            let Some(oldest) = conn.session.oldest(ticks) else {
                conn.stall.check(false, transfer);
                continue;
            };
            any = true;
            // fi_connect has its own time limit, for hosts and ports that do not answer.
            let may_fail = !matches!(oldest.what, Waiter::Connection);
            if may_fail && ticks.has_failed(oldest.age) {
                late.push((id, oldest.what));
            }
            if conn.stall.check(ticks.is_late(oldest.age), transfer) {
                let report = Report {
                    peer: &conn.session.peer.addr,
                    count: oldest.count,
                    what: &oldest.what,
                    len: oldest.len,
                    age: ticks.time(oldest.age).unwrap_or_default(),
                    stage: None,
                };
                report.log(self.common.source, &domain.eps[conn.session.peer.ep].stats);
            }
        }
        for (id, what) in late {
            self.end(id, Ending::Late(what));
        }
        if any {
            self.common.waits.arm();
            self.arm_waits();
        }
    }
}
