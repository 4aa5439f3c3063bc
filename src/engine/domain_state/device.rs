// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Completions of operations whose bytes a device did not give or take: fi_cq(3), FI_EIO with the driver's number.

use std::ffi::CString;
use std::sync::Arc;

use super::{DomainState, TxOp};
use crate::ep_state::Event;
use crate::srx::{Filled, MessageInfo};
use crate::transport::Address;
use abi::*;
use base::{CompFlags, Error, IoVec};
use hmem::faults::Fault;
use object::ops::cq::CqErr;
use sync::stats::Count;

/// Error, number and explanation of a driver's failure.
fn reason(fault: Fault) -> (Error, i32, Option<Arc<core::ffi::CStr>>) {
    let words = CString::new(hmem::driver::words(fault)).ok().map(Arc::from);
    (Error::IO, fault.code, words)
}

impl<A: Address> DomainState<A> {
    /// Reports an operation that is not posted, because the device did not give its bytes.
    #[cold]
    pub fn refuse_copy(&mut self, op: &TxOp, fault: Fault) {
        let (error, number, why) = reason(fault);
        self.send_failed_because(op.ep(), op, error, number, why);
    }

    /// Completes an operation in flight that has filled this memory.
    #[inline]
    pub fn complete_into(&mut self, op: &TxOp, memory: &IoVec) {
        match memory.take_fault() {
            None => self.complete_tx(op),
            Some(fault) => self.copy_failed(op, fault),
        }
    }

    #[cold]
    fn copy_failed(&mut self, op: &TxOp, fault: Fault) {
        self.eps[op.ep()].tx_pending -= 1;
        let (error, number, why) = reason(fault);
        self.send_failed_because(op.ep(), op, error, number, why);
    }

    /// Completes a receive whose memory did not take the message.
    #[cold]
    pub(super) fn fill_failed(
        &mut self,
        id: usize,
        recv: &Filled,
        message: &MessageInfo,
        release: CompFlags,
        fault: Fault,
    ) {
        let (error, prov_errno, why) = reason(fault);
        let ep = &self.eps[id];
        ep.stats.count(Count::ReceivesFailed);
        if let Some(cq) = ep.rx_cq {
            self.cqs[cq].push_error(CqErr {
                context: recv.context,
                flags: message.what.received() | release,
                buf: recv.base,
                tag: message.tag,
                src_addr: FI_ADDR_NOTAVAIL,
                err: error.code(),
                prov_errno,
                why,
                ..CqErr::default()
            });
        }
        self.count_failed(id, Event::Recv, recv.flags);
    }
}
