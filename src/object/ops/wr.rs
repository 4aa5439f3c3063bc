// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `struct fi_ops_wr`: fi_wr(3), work requests that are prepared once and queued many times. `record` defines the
//! layout of a request in the caller's buffer, `prepare` converts descriptions to records, `modify` changes records.

mod modify;
mod prepare;
pub mod record;

use core::ffi::{c_int, c_void};

use crate::ops::atomic::{Atomic, AtomicPath, AtomicWork};
use crate::ops::missing::Missing;
use crate::ops::status;
use crate::ops::transfer::*;
use abi::*;
use base::iovec::IOV_LIMIT;
use base::log::{CORE, Subsys, log_misuse};
use base::{Error, IoVec, OpFlags, Result};
use sys::probe;

use modify::*;
use prepare::{Record, family_of};
use record::{COMPARE, PIECES, Queue, RESULT, Route, RxRecord, TARGET, TxHead, TxRecord};

/// An endpoint with FI_WR.
pub trait WorkPath: AtomicPath {
    /// Returns the first bytes of the endpoint's records: `record::new_stamp`.
    fn stamp(&self) -> u64;
    /// Returns the route of an operation. An atomic operation is passed without its memory. `NOSYS`: the endpoint does
    /// not support the operation.
    fn route(&self, tx: &Tx<'_>) -> Result<Route>;
    /// Returns the flag that the endpoint's message order adds to such operations.
    fn order_flag(&self, what: What) -> OpFlags;
    /// Like `Route::generation`, for the source of a receive; `None` if the receive accepts messages of any peer.
    fn source(&self, what: What, src: u64) -> Result<Option<u32>>;
    /// Posts a message by the short path of its route. Returns false if it was not posted.
    fn queue_short(&self, tx: OneTx, route: &Route) -> Result<bool>;
    /// As `transmit`, if the destination is still the one that the request was prepared for; else `INVAL`. The methods
    /// below check the same.
    fn queue(&self, tx: &mut Tx<'_>, generation: u32) -> Result;
    fn queue_atomic(&self, atomic: &mut Atomic<'_>, generation: u32) -> Result;
    fn queue_receive(&self, rx: Rx, generation: u32) -> Result;
}

pub fn table<T: WorkPath>() -> &'static fi_ops_wr {
    &fi_ops_wr {
        size: size_of::<fi_ops_wr>(),
        prepare: Some(prepare::<T>),
        queue_tx: Some(queue_tx::<T>),
        queue_recv: Some(queue_recv::<T>),
        queue_trecv: Some(queue_trecv::<T>),
        modify_addr: Some(modify_addr::<T>),
        modify_iov: Some(modify_iov::<T>),
        modify_rma_iov: Some(modify_rma_iov::<T>),
        modify_tag: Some(modify_tag::<T>),
        modify_data: Some(modify_data::<T>),
        modify_flags: Some(modify_flags::<T>),
    }
}

pub static NONE: fi_ops_wr = Missing::TABLE;

unsafe extern "C" fn prepare<T: WorkPath>(
    ep: *mut fid_ep,
    attr: *const fi_wr_attr,
    wr: *mut c_void,
    wr_len: *mut usize,
) -> c_int {
    // SAFETY: fi_wr(3): an open endpoint; the description is readable during the call, and `wr_len` is the number of
    // bytes at `wr`, both of which are written.
    status(unsafe {
        endpoint::<T>(ep).and_then(|path| {
            if attr.is_null() || wr.is_null() || wr_len.is_null() {
                return Err(Error::INVAL);
            }
            let record = prepare::read(path, ep, &*attr)?;
            let needed = match &record {
                Record::Tx(record) => TxRecord::size(record.head.op()),
                Record::Rx(_) => record::MAX_RX,
            };
            let room = wr_len.replace(needed);
            if room < needed {
                return Err(Error::TOOSMALL);
            }
            match record {
                Record::Tx(record) => record.store(wr),
                Record::Rx(record) => wr.cast::<RxRecord>().write_unaligned(record),
            }
            Ok(())
        })
    })
}

/// Returns the route of a record's current operation.
fn reroute<T: WorkPath>(ep: &T, record: &TxRecord) -> Result<Route> {
    let what = record.head.what();
    if matches!(what, What::Atomic | What::AtomicFetch) {
        return ep.route(&Tx {
            what,
            iov: IoVec::empty(),
            flags: record.head.flags(),
            dest: record.head.dest,
            context: Context::default(),
            data: 0,
            tag: 0,
            target: &[],
        });
    }
    // SAFETY: `route` reads neither the memory of the operation nor the context, which is NULL.
    unsafe { record.with(OpFlags::empty(), core::ptr::null_mut(), |tx| ep.route(tx)) }
}

/// Returns true if `wr` holds a request of this endpoint that this call may queue.
///
/// # Safety
/// `wr` is NULL or has room for a stamp.
#[inline(always)]
unsafe fn is_own<T: WorkPath>(ep: &T, wr: *const c_void, queue: Queue) -> bool {
    // SAFETY: promised by the caller.
    !wr.is_null() && unsafe { wr.cast::<u64>().read_unaligned() } == ep.stamp() | queue as u64
}

#[cold]
fn foreign() -> Error {
    log_misuse!(
        &CORE,
        Subsys::EpData,
        "the buffer holds no work request that was prepared on this endpoint for this call"
    );
    Error::INVAL
}

unsafe extern "C" fn queue_tx<T: WorkPath>(
    ep: *mut fid_ep,
    wr: *mut c_void,
    context: *mut c_void,
) -> isize {
    // SAFETY: fi_wr(3): an open endpoint, and a buffer that does not change during the call. The stamp shows that it
    // holds a record of this library. The buffers of its operation belong to the library until the completion; the
    // context is as the flags of the request require.
    unsafe {
        let path = match endpoint::<T>(ep) {
            Ok(path) if is_own(path, wr, Queue::Transmit) => path,
            _ => return foreign().negative() as isize,
        };
        let head = &*wr.cast::<TxHead>();
        probe::post(ep.addr(), context.addr(), head.dest, head.tag);
        if head.route.links != 0 {
            match path.queue_short(head.short(path.tx_implied(), context), &head.route) {
                Ok(true) => return 0,
                Ok(false) => {}
                Err(error) => return error.negative() as isize,
            }
        }
        queue_any(path, wr, context)
    }
}

/// Queues an operation of any kind.
///
/// # Safety
/// As `queue_tx`, for a record of this endpoint.
#[inline(never)]
unsafe fn queue_any<T: WorkPath>(path: &T, wr: *const c_void, context: *mut c_void) -> isize {
    // SAFETY: promised by the caller.
    status(unsafe {
        let record = TxRecord::load(wr);
        let generation = record.head.route.generation;
        match record.head.what() {
            What::Atomic | What::AtomicFetch => with_atomic(path, &record, context, |atomic| {
                path.queue_atomic(atomic, generation)
            }),
            _ => record.with(path.tx_implied(), context, |tx| path.queue(tx, generation)),
        }
    })
}

/// Calls a function with the atomic operation of a record.
///
/// # Safety
/// As `queue_any`.
unsafe fn with_atomic<T: WorkPath>(
    path: &T,
    record: &TxRecord,
    context: *mut c_void,
    call: impl FnOnce(&mut Atomic<'_>) -> Result,
) -> Result {
    let head = record.head;
    if head
        .counts
        .iter()
        .any(|&count| usize::from(count) > IOV_LIMIT)
    {
        return Err(Error::INVAL);
    }
    let (pieces, target) = (head.pieces, record.target);
    let (mut compare, mut result) = (record.compare, record.result);
    // The pieces of a record have the layout of those of an atomic call.
    let msg = fi_msg_atomic {
        msg_iov: pieces.as_ptr().cast(),
        desc: core::ptr::null_mut(),
        iov_count: head.count(PIECES),
        addr: head.dest,
        rma_iov: target.as_ptr().cast(),
        rma_iov_count: head.count(TARGET),
        datatype: fi_datatype(record.datatype),
        op: fi_op(record.atomic),
        context,
        data: head.data,
    };
    let compared = fi_msg_compare {
        msg_iov: compare.as_mut_ptr(),
        desc: core::ptr::null_mut(),
        iov_count: head.count(COMPARE),
    };
    let fetched = fi_msg_fetch {
        msg_iov: result.as_mut_ptr(),
        desc: core::ptr::null_mut(),
        iov_count: head.count(RESULT),
    };
    let op = head.op();
    let compared = (op == FI_OP_COMPARE_ATOMIC).then_some(&compared);
    let fetched = (op != FI_OP_ATOMIC).then_some(&fetched);
    // SAFETY: promised by the caller.
    unsafe {
        let flags = head.flags() | path.tx_implied();
        let work = AtomicWork::new(family_of(op), &msg, compared, fetched, flags.bits());
        work.with(path, call)
    }
}

const _: () = {
    assert!(size_of::<iovec>() == size_of::<fi_ioc>());
    assert!(size_of::<RemoteSeg>() == size_of::<fi_rma_ioc>());
};

unsafe extern "C" fn queue_recv<T: WorkPath>(
    ep: *mut fid_ep,
    wr: *mut c_void,
    context: *mut c_void,
) -> isize {
    // SAFETY: the caller's promise, passed on.
    unsafe { queue_receive::<T>(ep, wr, context, Queue::Receive) }
}

unsafe extern "C" fn queue_trecv<T: WorkPath>(
    ep: *mut fid_ep,
    wr: *mut c_void,
    context: *mut c_void,
) -> isize {
    // SAFETY: the caller's promise, passed on.
    unsafe { queue_receive::<T>(ep, wr, context, Queue::TaggedReceive) }
}

/// # Safety
/// As `queue_tx`, for a receive.
#[inline(always)]
unsafe fn queue_receive<T: WorkPath>(
    ep: *mut fid_ep,
    wr: *mut c_void,
    context: *mut c_void,
    queue: Queue,
) -> isize {
    // SAFETY: promised by the caller.
    unsafe {
        let path = match endpoint::<T>(ep) {
            Ok(path) if is_own(path, wr, queue) => path,
            _ => return foreign().negative() as isize,
        };
        let record = &*wr.cast::<RxRecord>();
        probe::post(ep.addr(), context.addr(), record.src, record.tag);
        if record.count == 1 && record.directed == 0 {
            let what = match queue {
                Queue::TaggedReceive => What::Tagged,
                _ => What::Msg,
            };
            return status(path.receive_one(record.short(what, path.rx_implied(), context)));
        }
        queue_any_receive(path, record, context)
    }
}

/// Queues a receive of any kind.
///
/// # Safety
/// As `queue_receive`, for a record of this endpoint.
#[inline(never)]
unsafe fn queue_any_receive<T: WorkPath>(
    path: &T,
    record: &RxRecord,
    context: *mut c_void,
) -> isize {
    // SAFETY: promised by the caller.
    let rx = unsafe { record.receive(path.rx_implied(), context) };
    status(rx.and_then(|rx| match record.directed {
        0 => path.receive(rx),
        _ => path.queue_receive(rx, record.generation),
    }))
}
