// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Calls every form through its table: an endpoint that uses descriptors gets those of the call.

mod deferred;
mod flags;

use core::ffi::c_void;
use core::ptr::{null, null_mut, without_provenance_mut};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::atomic::{Atomic, AtomicPath, Elements, Family};
use super::collective::{Collective, CollectiveCalls};
use super::transfer::{DataPath, Rx, Tx, What};
use super::{atomic, collective, msg, rma, tagged};
use crate::Kind;
use crate::handle;
use abi::*;
use base::{IoVec, OpFlags, Result};
use hmem::Desc;

/// An endpoint that records the last operation.
#[derive(Default)]
struct Probe {
    seen: Mutex<Vec<Desc>>,
    /// The flags of the last operation; `op_flags` are the default flags.
    flags: AtomicU64,
    op_flags: AtomicU64,
    ignores_descs: AtomicBool,
}

impl Probe {
    fn see(&self, iovs: &[&IoVec]) {
        *self.seen.lock().unwrap() = iovs.iter().map(|iov| iov.desc()).collect();
    }

    fn see_atomic(&self, atomic: &Atomic<'_>) {
        self.see(&[&atomic.operands, &atomic.compare, &atomic.result]);
    }

    fn take(&self) -> Vec<Desc> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }
}

impl Kind for Probe {
    type Head = fid_ep;

    fn op_flags(&self, _side: OpFlags) -> Result<OpFlags> {
        Ok(self.tx_flags())
    }
    fn set_op_flags(&self, flags: OpFlags) -> Result {
        self.op_flags.store(flags.bits(), Ordering::Relaxed);
        Ok(())
    }
}

impl DataPath for Probe {
    fn reads_descs(&self) -> bool {
        !self.ignores_descs.load(Ordering::Relaxed)
    }

    fn transmit(&self, tx: &mut Tx<'_>) -> Result {
        self.see(&[&tx.iov]);
        self.flags.store(tx.flags.bits(), Ordering::Relaxed);
        Ok(())
    }
    fn receive(&self, rx: Rx) -> Result {
        self.see(&[&rx.iov]);
        Ok(())
    }
    fn tx_flags(&self) -> OpFlags {
        OpFlags::from_bits_retain(self.op_flags.load(Ordering::Relaxed))
    }
    fn rx_flags(&self) -> OpFlags {
        OpFlags::empty()
    }
    fn tx_implied(&self) -> OpFlags {
        OpFlags::empty()
    }
    fn rx_implied(&self) -> OpFlags {
        OpFlags::empty()
    }
    fn inject_size(&self, _what: What) -> usize {
        64
    }
}

impl AtomicPath for Probe {
    fn elements(&self, _: Family, _: fi_datatype, _: fi_op) -> Result<Elements> {
        Ok(Elements { size: 8, count: 8 })
    }
    fn atomic(&self, atomic: &mut Atomic<'_>) -> Result {
        self.see_atomic(atomic);
        Ok(())
    }
}

impl CollectiveCalls for Probe {
    fn element(&self, _: fi_collective_op, _: fi_datatype, _: fi_op) -> Result<usize> {
        Ok(8)
    }
    fn extent(&self, _: fi_collective_op, _: u64, _: u64) -> Result<(usize, usize)> {
        Ok((1, 1))
    }
    fn collect(&self, call: Collective) -> Result {
        self.see(&[&call.input, &call.output]);
        Ok(())
    }
}

/// A probe's handle, with memory and descriptors for its calls.
struct Bench {
    ep: *mut fid_ep,
    /// Memory for the buffers of the calls.
    words: [u64; 8],
    marks: [u8; 6],
}

impl Bench {
    fn new() -> Bench {
        let ep = handle::open(Probe::default(), FI_CLASS_EP, null_mut(), |fid| fid_ep {
            fid,
            ops: null_mut(),
            cm: null_mut(),
            msg: null_mut(),
            rma: null_mut(),
            tagged: null_mut(),
            atomic: null_mut(),
            collective: null_mut(),
            wr: null_mut(),
        });
        Bench {
            ep,
            words: [0; 8],
            marks: [0; 6],
        }
    }

    fn probe(&self) -> &Probe {
        // SAFETY: opened above, closed when the bench is dropped.
        unsafe { handle::get(self.ep) }.unwrap()
    }

    /// Returns a unique descriptor.
    fn desc(&self, i: usize) -> *mut c_void {
        (&raw const self.marks[i]).cast_mut().cast()
    }

    /// Checks that the call succeeded and that its roles have these descriptors.
    fn expect(&self, name: &str, code: isize, roles: &[Option<usize>]) {
        assert_eq!(code, 0, "{name}");
        let of = |role: &Option<usize>| role.map_or(Desc::NONE, |i| Desc::new(self.desc(i)));
        let wanted: Vec<Desc> = roles.iter().map(of).collect();
        assert_eq!(self.probe().take(), wanted, "{name}");
    }

    fn iovs(&self) -> [iovec; 2] {
        [0, 4].map(|i| iovec {
            iov_base: (&raw const self.words[i]).cast_mut().cast(),
            iov_len: 8,
        })
    }

    fn iocs(&self) -> [fi_ioc; 2] {
        [0, 4].map(|i| fi_ioc {
            addr: (&raw const self.words[i]).cast_mut().cast(),
            count: 1,
        })
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // SAFETY: opened in `new`, and not used any more.
        unsafe { handle::close::<Probe>(self.ep.cast()) }.unwrap();
    }
}

/// Calls a slot of a table.
macro_rules! call {
    ($table:expr, $slot:ident $(, $argument:expr)* $(,)?) => {
        // SAFETY: the bench's endpoint, memory and arrays, which outlive the call.
        unsafe { ($table.$slot.unwrap())($($argument),*) }
    };
}
use call;

const NO: *mut c_void = null_mut();

#[test]
fn of_messages() {
    let b = Bench::new();
    let t = msg::table::<Probe>();
    let (buf, d) = (b.iovs()[0].iov_base, b.desc(0));
    let (iov, mut ds) = (b.iovs(), [b.desc(1); 2]);
    let (v, dv) = (iov.as_ptr(), ds.as_mut_ptr());
    let two: &[Option<usize>] = &[Some(1)];
    b.expect("recv", call!(t, recv, b.ep, buf, 8, d, 0, NO), &[Some(0)]);
    b.expect("recvv", call!(t, recvv, b.ep, v, dv, 2, 0, NO), two);
    b.expect("send", call!(t, send, b.ep, buf, 8, d, 0, NO), &[Some(0)]);
    b.expect("sendv", call!(t, sendv, b.ep, v, dv, 2, 0, NO), two);
    let code = call!(t, senddata, b.ep, buf, 8, d, 0, 0, NO);
    b.expect("senddata", code, &[Some(0)]);
    b.expect("inject", call!(t, inject, b.ep, buf, 8, 0), &[None]);
    let code = call!(t, injectdata, b.ep, buf, 8, 0, 0);
    b.expect("injectdata", code, &[None]);
    let mut m = fi_msg {
        msg_iov: v,
        desc: dv,
        iov_count: 2,
        addr: 0,
        context: NO,
        data: 0,
    };
    b.expect("recvmsg", call!(t, recvmsg, b.ep, &m, 0), two);
    b.expect("sendmsg", call!(t, sendmsg, b.ep, &m, 0), two);
    let mut different = [b.desc(1), b.desc(2)];
    m.desc = different.as_mut_ptr();
    let code = call!(t, sendmsg, b.ep, &m, 0);
    b.expect("sendmsg with different descriptors", code, &[None]);
    m.desc = null_mut();
    b.expect("sendmsg without", call!(t, sendmsg, b.ep, &m, 0), &[None]);
}

#[test]
fn of_tagged_messages() {
    let b = Bench::new();
    let t = tagged::table::<Probe>();
    let (buf, d) = (b.iovs()[0].iov_base, b.desc(0));
    let (iov, mut ds) = (b.iovs(), [b.desc(1); 2]);
    let (v, dv) = (iov.as_ptr(), ds.as_mut_ptr());
    let two: &[Option<usize>] = &[Some(1)];
    let code = call!(t, recv, b.ep, buf, 8, d, 0, 5, 0, NO);
    b.expect("recv", code, &[Some(0)]);
    b.expect("recvv", call!(t, recvv, b.ep, v, dv, 2, 0, 5, 0, NO), two);
    b.expect(
        "send",
        call!(t, send, b.ep, buf, 8, d, 0, 5, NO),
        &[Some(0)],
    );
    b.expect("sendv", call!(t, sendv, b.ep, v, dv, 2, 0, 5, NO), two);
    let code = call!(t, senddata, b.ep, buf, 8, d, 0, 0, 5, NO);
    b.expect("senddata", code, &[Some(0)]);
    b.expect("inject", call!(t, inject, b.ep, buf, 8, 0, 5), &[None]);
    let m = fi_msg_tagged {
        msg_iov: v,
        desc: dv,
        iov_count: 2,
        addr: 0,
        tag: 5,
        ignore: 0,
        context: NO,
        data: 0,
    };
    b.expect("recvmsg", call!(t, recvmsg, b.ep, &m, 0), two);
    b.expect("sendmsg", call!(t, sendmsg, b.ep, &m, 0), two);
}

#[test]
fn of_reads_and_writes() {
    let b = Bench::new();
    let t = rma::table::<Probe>();
    let (buf, d) = (b.iovs()[0].iov_base, b.desc(0));
    let (iov, mut ds) = (b.iovs(), [b.desc(1); 2]);
    let (v, dv) = (iov.as_ptr(), ds.as_mut_ptr());
    let two: &[Option<usize>] = &[Some(1)];
    b.expect(
        "read",
        call!(t, read, b.ep, buf, 8, d, 0, 0, 1, NO),
        &[Some(0)],
    );
    b.expect("readv", call!(t, readv, b.ep, v, dv, 2, 0, 0, 1, NO), two);
    let code = call!(t, write, b.ep, buf, 8, d, 0, 0, 1, NO);
    b.expect("write", code, &[Some(0)]);
    b.expect("writev", call!(t, writev, b.ep, v, dv, 2, 0, 0, 1, NO), two);
    let code = call!(t, writedata, b.ep, buf, 8, d, 0, 0, 0, 1, NO);
    b.expect("writedata", code, &[Some(0)]);
    let code = call!(t, inject, b.ep, buf, 8, 0, 0, 1);
    b.expect("inject", code, &[None]);
    let code = call!(t, injectdata, b.ep, buf, 8, 0, 0, 0, 1);
    b.expect("injectdata", code, &[None]);
    let target = fi_rma_iov {
        addr: 0,
        len: 16,
        key: 1,
    };
    let m = fi_msg_rma {
        msg_iov: v,
        desc: dv,
        iov_count: 2,
        addr: 0,
        rma_iov: &target,
        rma_iov_count: 1,
        context: NO,
        data: 0,
    };
    b.expect("readmsg", call!(t, readmsg, b.ep, &m, 0), two);
    b.expect("writemsg", call!(t, writemsg, b.ep, &m, 0), two);
}

/// Returns an atomic message of two pieces with descriptors `ds`.
fn atomic_msg(iocs: &[fi_ioc; 2], ds: *mut *mut c_void, target: &fi_rma_ioc) -> fi_msg_atomic {
    fi_msg_atomic {
        msg_iov: iocs.as_ptr(),
        desc: ds,
        iov_count: 2,
        addr: 0,
        rma_iov: target,
        rma_iov_count: 1,
        datatype: FI_UINT64,
        op: FI_SUM,
        context: NO,
        data: 0,
    }
}

const TARGET: fi_rma_ioc = fi_rma_ioc {
    addr: 0,
    count: 2,
    key: 1,
};

#[test]
fn of_atomic_operations() {
    let b = Bench::new();
    let t = atomic::table::<Probe>();
    let (ty, op) = (FI_UINT64, FI_SUM);
    let (buf, d) = (b.iovs()[0].iov_base, b.desc(0));
    let (cbuf, rbuf) = (b.iovs()[1].iov_base, b.iovs()[1].iov_base);
    let mut iocs = b.iocs();
    let (v, rv) = (iocs.as_ptr(), iocs.as_mut_ptr());
    let [mut ds, mut cs, mut rs] = [0, 2, 4].map(|i| [b.desc(i); 2]);
    let (dv, cv, qv) = (ds.as_mut_ptr(), cs.as_mut_ptr(), rs.as_mut_ptr());
    let code = call!(t, write, b.ep, buf, 1, d, 0, 0, 1, ty, op, NO);
    b.expect("write", code, &[Some(0), None, None]);
    let code = call!(t, writev, b.ep, v, dv, 2, 0, 0, 1, ty, op, NO);
    b.expect("writev", code, &[Some(0), None, None]);
    let code = call!(t, inject, b.ep, buf, 1, 0, 0, 1, ty, op);
    b.expect("inject", code, &[None; 3]);
    let (c, r) = (b.desc(1), b.desc(2));
    let code = call!(t, readwrite, b.ep, buf, 1, d, rbuf, r, 0, 0, 1, ty, op, NO);
    b.expect("readwrite", code, &[Some(0), None, Some(2)]);
    let code = call!(
        t, readwritev, b.ep, v, dv, 2, rv, qv, 2, 0, 0, 1, ty, op, NO
    );
    b.expect("readwritev", code, &[Some(0), None, Some(4)]);
    #[rustfmt::skip]
    let code = call!(t, compwrite, b.ep, buf, 1, d, cbuf, c, rbuf, r, 0, 0, 1, ty, op, NO);
    b.expect("compwrite", code, &[Some(0), Some(1), Some(2)]);
    #[rustfmt::skip]
    let code = call!(t, compwritev, b.ep, v, dv, 2, v, cv, 2, rv, qv, 2, 0, 0, 1, ty, op, NO);
    let all: &[Option<usize>] = &[Some(0), Some(2), Some(4)];
    b.expect("compwritev", code, all);
    let m = atomic_msg(&iocs, dv, &TARGET);
    let code = call!(t, writemsg, b.ep, &m, 0);
    b.expect("writemsg", code, &[Some(0), None, None]);
    let code = call!(t, readwritemsg, b.ep, &m, rv, qv, 2, 0);
    b.expect("readwritemsg", code, &[Some(0), None, Some(4)]);
    let code = call!(t, compwritemsg, b.ep, &m, v, cv, 2, rv, qv, 2, 0);
    b.expect("compwritemsg", code, all);
}

#[test]
fn of_collectives() {
    let b = Bench::new();
    let t = collective::table::<Probe>();
    let (ty, op) = (FI_UINT64, FI_SUM);
    let [buf, out] = b.iovs().map(|iov| iov.iov_base);
    let (d, r) = (b.desc(0), b.desc(1));
    let both: &[Option<usize>] = &[Some(0), Some(1)];
    let code = call!(t, broadcast, b.ep, buf, 1, d, 0, 0, ty, 0, NO);
    b.expect("broadcast", code, &[Some(0), Some(0)]);
    for (name, slot) in [("alltoall", t.alltoall), ("allgather", t.allgather)] {
        // SAFETY: as in `call`; likewise below.
        let code = unsafe { (slot.unwrap())(b.ep, buf, 1, d, out, r, 0, ty, 0, NO) };
        b.expect(name, code, both);
    }
    for (name, slot) in [
        ("allreduce", t.allreduce),
        ("reduce_scatter", t.reduce_scatter),
    ] {
        // SAFETY: as above.
        let code = unsafe { (slot.unwrap())(b.ep, buf, 1, d, out, r, 0, ty, op, 0, NO) };
        b.expect(name, code, both);
    }
    let code = call!(t, reduce, b.ep, buf, 1, d, out, r, 0, 0, ty, op, 0, NO);
    b.expect("reduce", code, both);
    for (name, slot) in [("scatter", t.scatter), ("gather", t.gather)] {
        // SAFETY: as above.
        let code = unsafe { (slot.unwrap())(b.ep, buf, 1, d, out, r, 0, 0, ty, 0, NO) };
        b.expect(name, code, both);
    }
}

#[test]
fn an_array_of_descriptors_that_are_not_used_is_not_read() {
    let b = Bench::new();
    b.probe().ignores_descs.store(true, Ordering::Relaxed);
    let (iov, unset) = (b.iovs(), without_provenance_mut(8));
    let code = call!(
        msg::table::<Probe>(),
        sendv,
        b.ep,
        iov.as_ptr(),
        unset,
        2,
        0,
        NO
    );
    b.expect("sendv", code, &[None]);
}
