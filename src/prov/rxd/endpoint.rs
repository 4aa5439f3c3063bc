// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! One endpoint: its sessions, over an endpoint of the provider below.

use core::time::Duration;
use std::time::Instant;

use super::domain::Entry;
use super::lower::{Line, LowerDomain, LowerEp};
use super::port::Port;
use super::{SOURCE, info};
use abi::*;
use base::info::Info;
use base::log::{Subsys, log_warn};
use base::{Error, Result};
use engine::address::mixed::Addr;
use engine::domain_state::DomainState;

type State = DomainState<Addr>;

pub struct Endpoint {
    pub port: Port<Addr>,
    pub below: LowerEp,
    pub is_enabled: bool,
    pub entry: Entry,
}

impl Endpoint {
    pub fn settle(&mut self, lower: &mut LowerDomain, domain: &mut State, now: Instant) {
        lower.replenish(&mut self.below);
        let ep = &self.below;
        self.port.settle(domain, &mut Line { lower, ep }, now);
    }

    /// Whether an accepted operation has not left yet whose failure could not be reported to the application any more.
    pub fn owes(&self) -> bool {
        self.port.common.promised > 0
    }

    /// Logs how many of these operations are lost.
    pub fn report_lost(&self, limit: Duration) {
        for session in self
            .port
            .sessions()
            .filter(|session| session.promised() > 0)
        {
            log_warn!(
                &SOURCE,
                Subsys::EpData,
                "closed with {} operations that {} has not taken within {} ms: they are lost",
                session.promised(),
                session.addr,
                limit.as_millis()
            );
        }
    }
}

/// Checks that an endpoint can be opened with these attributes.
pub fn check(info: &Info, mtu: usize) -> Result {
    match fi_ep_type(info.ep.ep_type) {
        FI_EP_RDM => {}
        FI_EP_MSG | FI_EP_DGRAM => return Err(Error::NOSYS),
        _ => return Err(Error::INVAL),
    }
    let fits = info.handle == 0
        && info.tx.size.max(info.rx.size) <= info::QUEUE
        && info.tx.inject_size <= mtu
        && info
            .tx
            .iov_limit
            .max(info.rx.iov_limit)
            .max(info.tx.rma_iov_limit)
            <= info::IOV_LIMIT;
    fits.then_some(()).ok_or(Error::INVAL)
}
