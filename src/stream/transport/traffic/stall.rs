// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Peers for which operations wait too long: after a time the log reports them, or the operations fail
//! (FI_*_STALL_REPORT, FI_*_OP_TIMEOUT).
//!
//! An operation that fails ends its connection, because its buffer may be in the stream already. A domain without
//! pending operations wakes once more at most.

use crate::connector::Connector;
use crate::poller::Due;
use crate::session::Ending;
use crate::session::waits::Waits;
use crate::transport::{DomainOf, Traffic};
use base::log::{Subsys, log_warn};
use engine::report::Waiter;
use sync::stats::Count;

impl<N: Connector> Traffic<N> {
    #[cold]
    pub(in crate::transport) fn arm_waits(&mut self) {
        self.poller
            .schedule(self.poller.now() + self.common.waits.tick, Due::Waits);
    }

    /// Handles a tick: reports or fails operations that have waited too long.
    #[cold]
    pub(in crate::transport) fn check_waits(&mut self, domain: &mut DomainOf<N>) {
        self.common.waits.armed = false;
        self.common.waits.now = self.common.waits.now.wrapping_add(1);
        let (mut late, mut any) = (Vec::new(), false);
        for (id, conn) in self.peers.iter_mut() {
            let transfer = conn.session.transfer();
            let is_moving = std::mem::replace(&mut conn.transfer, transfer) != transfer;
            let Some(oldest) = conn.session.oldest(&self.common.waits) else {
                conn.is_stalled = false;
                continue;
            };
            any = true;
            // fi_connect has its own time limit, for hosts and ports that do not answer.
            let may_fail = !matches!(oldest.what, Waiter::Connection);
            if may_fail && Waits::is_over(oldest.age, self.common.waits.fails) {
                late.push((id, oldest.what));
            }
            let stalls = Waits::is_over(oldest.age, self.common.waits.reports) && !is_moving;
            if stalls && !std::mem::replace(&mut conn.is_stalled, true) {
                domain.ep(conn.session.peer.ep).stats.count(Count::Stalls);
                log_warn!(
                    self.common.source,
                    Subsys::EpData,
                    "{}: operations that wait for it: {}; the oldest, a {} of {} bytes, for more than {} s",
                    conn.session.peer.addr,
                    oldest.count,
                    oldest.what,
                    oldest.len,
                    (self.common.waits.tick * (u32::from(oldest.age) - 1)).as_secs_f32()
                );
            } else if !stalls {
                conn.is_stalled = false;
            }
        }
        for (id, what) in late {
            self.end(id, Ending::Late(what));
        }
        if any {
            self.common.waits.armed = true;
            self.arm_waits();
        }
    }
}
