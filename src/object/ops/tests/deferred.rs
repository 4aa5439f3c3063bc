// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Deferred work: fi_trigger(3).

use super::*;
use crate::ops::work::{self, WorkOp};
use base::OpFlags;

/// Queues an operation on the probe, and starts it as the engine does when the counter reaches its threshold.
fn defer(b: &Bench, op_type: fi_op_type, op: fi_deferred_work_op) -> isize {
    let work = fi_deferred_work {
        context: fi_context2 { internal: [NO; 8] },
        threshold: 1,
        triggering_cntr: null_mut(),
        completion_cntr: null_mut(),
        op_type,
        op,
    };
    // SAFETY: the test's structs outlive the call.
    let request = unsafe { work::read(&raw const work) }.unwrap();
    match request.op {
        WorkOp::Transmit(_, work) => {
            let mut outgoing = work.read(b.probe()).unwrap();
            outgoing
                .post(OpFlags::empty(), |tx| b.probe().transmit(tx))
                .unwrap();
        }
        WorkOp::Receive(_, work) => b.probe().receive(work.read(b.probe()).unwrap()).unwrap(),
        WorkOp::Atomic(_, work) => {
            let mut outgoing = work.read(b.probe()).unwrap();
            outgoing
                .post(OpFlags::empty(), |atomic| b.probe().atomic(atomic))
                .unwrap();
        }
        WorkOp::Set(..) | WorkOp::Add(..) => return 1,
    }
    0
}

#[test]
fn of_deferred_work() {
    let b = Bench::new();
    let (iov, mut iocs) = (b.iovs(), b.iocs());
    let [mut ds, mut cs, mut rs] = [0, 2, 4].map(|i| [b.desc(i); 2]);
    let mut msg = fi_op_msg {
        ep: b.ep,
        msg: fi_msg {
            msg_iov: iov.as_ptr(),
            desc: ds.as_mut_ptr(),
            iov_count: 2,
            addr: 0,
            context: NO,
            data: 0,
        },
        flags: 0,
    };
    let two: &[Option<usize>] = &[Some(0)];
    let mut op = fi_deferred_work_op { msg: &mut msg };
    b.expect("send", defer(&b, FI_OP_SEND, op), two);
    b.expect("recv", defer(&b, FI_OP_RECV, op), two);
    let mut tagged = fi_op_tagged {
        ep: b.ep,
        msg: fi_msg_tagged {
            msg_iov: iov.as_ptr(),
            desc: ds.as_mut_ptr(),
            iov_count: 2,
            addr: 0,
            tag: 0,
            ignore: 0,
            context: NO,
            data: 0,
        },
        flags: 0,
    };
    op.tagged = &mut tagged;
    b.expect("tsend", defer(&b, FI_OP_TSEND, op), two);
    b.expect("trecv", defer(&b, FI_OP_TRECV, op), two);
    let target = fi_rma_iov {
        addr: 0,
        len: 16,
        key: 1,
    };
    let mut rma = fi_op_rma {
        ep: b.ep,
        msg: fi_msg_rma {
            msg_iov: iov.as_ptr(),
            desc: ds.as_mut_ptr(),
            iov_count: 2,
            addr: 0,
            rma_iov: &target,
            rma_iov_count: 1,
            context: NO,
            data: 0,
        },
        flags: 0,
    };
    op.rma = &mut rma;
    b.expect("write", defer(&b, FI_OP_WRITE, op), two);
    b.expect("read", defer(&b, FI_OP_READ, op), two);
    let mut all = fi_op_compare_atomic {
        ep: b.ep,
        msg: atomic_msg(&b.iocs(), ds.as_mut_ptr(), &TARGET),
        fetch: fi_msg_fetch {
            msg_iov: iocs.as_mut_ptr(),
            desc: rs.as_mut_ptr(),
            iov_count: 2,
        },
        compare: fi_msg_compare {
            msg_iov: iocs.as_ptr(),
            desc: cs.as_mut_ptr(),
            iov_count: 2,
        },
        flags: 0,
    };
    all.msg.msg_iov = iocs.as_ptr();
    op.compare_atomic = &mut all;
    let code = defer(&b, FI_OP_COMPARE_ATOMIC, op);
    b.expect("compare", code, &[Some(0), Some(2), Some(4)]);
    let mut fetch = fi_op_fetch_atomic {
        ep: b.ep,
        msg: all.msg,
        fetch: all.fetch,
        flags: 0,
    };
    op.fetch_atomic = &mut fetch;
    let code = defer(&b, FI_OP_FETCH_ATOMIC, op);
    b.expect("fetch", code, &[Some(0), None, Some(4)]);
    let mut plain = fi_op_atomic {
        ep: b.ep,
        msg: all.msg,
        flags: 0,
    };
    op.atomic = &mut plain;
    let code = defer(&b, FI_OP_ATOMIC, op);
    b.expect("atomic", code, &[Some(0), None, None]);
}
