// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Calls that change a part of a prepared request. A call that fails leaves the request unchanged.

use core::ffi::{c_int, c_void};

use super::prepare::{
    add_order, agree, buffers, check, check_receive_flags, family_of, is_receive, remote,
};
use super::record::{PIECES, Queue, RxRecord, TARGET, TxRecord};
use super::{WorkPath, foreign, is_own, reroute};
use crate::ops::status;
use crate::ops::transfer::*;
use abi::*;
use base::{Error, OpFlags, Result};

/// Loads the request at `wr`, changes it by one of the two functions, and stores it.
///
/// # Safety
/// fi_wr(3): `ep` is an open endpoint; `wr` holds a prepared request, which no other thread uses during the call.
unsafe fn modify<T: WorkPath>(
    ep: *mut fid_ep,
    wr: *mut c_void,
    op: fi_op_type,
    tx: impl FnOnce(&T, &mut TxRecord) -> Result,
    rx: impl FnOnce(&T, &mut RxRecord) -> Result,
) -> c_int {
    let queue = match op {
        FI_OP_RECV => Queue::Receive,
        FI_OP_TRECV => Queue::TaggedReceive,
        _ => Queue::Transmit,
    };
    // SAFETY: promised by the caller; the stamp identifies a record of this library.
    status(unsafe {
        endpoint::<T>(ep).and_then(|ep| {
            if !is_own(ep, wr, queue) {
                return Err(foreign());
            }
            if is_receive(op) {
                let mut record = wr.cast::<RxRecord>().read_unaligned();
                rx(ep, &mut record)?;
                wr.cast::<RxRecord>().write_unaligned(record);
                return Ok(());
            }
            let mut record = TxRecord::load(wr);
            // fi_wr(3): the type of the operation cannot change.
            if record.head.op() != op {
                return Err(Error::INVAL);
            }
            tx(ep, &mut record)?;
            record.store(wr);
            Ok(())
        })
    })
}

/// Renews the route after a change of another part than the address. `INVAL` if the peer is not the same any more.
fn same_peer<T: WorkPath>(ep: &T, record: &mut TxRecord) -> Result {
    let route = reroute(ep, record)?;
    if route.generation != record.head.route.generation {
        return Err(Error::INVAL);
    }
    record.head.route = route;
    Ok(())
}

/// Returns a function that converts bytes to elements of an atomic request, because the modify calls take bytes.
fn elements_of<T: WorkPath>(
    ep: &T,
    record: &TxRecord,
) -> Result<impl Fn(usize) -> Result<usize> + use<T>> {
    let (datatype, op) = (fi_datatype(record.datatype), fi_op(record.atomic));
    let size = ep.elements(family_of(record.head.op()), datatype, op)?.size;
    Ok(move |bytes: usize| match bytes.is_multiple_of(size) {
        true => Ok(bytes / size),
        false => Err(Error::INVAL),
    })
}

pub(super) unsafe extern "C" fn modify_addr<T: WorkPath>(
    ep: *mut fid_ep,
    wr: *mut c_void,
    op: fi_op_type,
    addr: fi_addr_t,
) -> c_int {
    let tx = |ep: &T, record: &mut TxRecord| {
        record.head.dest = addr;
        record.head.route = reroute(ep, record)?;
        Ok(())
    };
    let rx = |ep: &T, record: &mut RxRecord| {
        let source = ep.source(record.what(), addr)?;
        record.src = addr;
        record.generation = source.unwrap_or(0);
        record.directed = source.is_some().into();
        Ok(())
    };
    // SAFETY: promised by the caller; likewise below.
    unsafe { modify(ep, wr, op, tx, rx) }
}

pub(super) unsafe extern "C" fn modify_iov<T: WorkPath>(
    ep: *mut fid_ep,
    wr: *mut c_void,
    op: fi_op_type,
    iov: *const iovec,
    _desc: *mut *mut c_void,
    count: usize,
) -> c_int {
    let tx = |ep: &T, record: &mut TxRecord| {
        if count > record.head.most[PIECES].into() {
            return Err(Error::INVAL);
        }
        // SAFETY: the caller's array, readable during the call.
        let (mut pieces, count) = unsafe { buffers(iov, count, false)? };
        let what = record.head.what();
        if matches!(what, What::Atomic | What::AtomicFetch) {
            let elements = elements_of(ep, record)?;
            for piece in &mut pieces {
                piece.iov_len = elements(piece.iov_len)?;
            }
        }
        record.head.pieces = pieces;
        record.head.counts[PIECES] = count;
        // fi_wr(3): this call sets the length, also that of a single target. Several targets must be set again by their
        // own call.
        if record.head.counts[TARGET] == 1 {
            record.target[0].len = record.len();
        }
        let asked = record.head.flags();
        if what != What::Atomic && what != What::AtomicFetch {
            check_inject(ep, what, asked, record.len())?;
        }
        same_peer(ep, record)
    };
    let rx = |_: &T, record: &mut RxRecord| {
        if count > record.most.into() {
            return Err(Error::INVAL);
        }
        // SAFETY: as above.
        (record.pieces, record.count) = unsafe { buffers(iov, count, true)? };
        Ok(())
    };
    // SAFETY: as in `modify_addr`.
    unsafe { modify(ep, wr, op, tx, rx) }
}

pub(super) unsafe extern "C" fn modify_rma_iov<T: WorkPath>(
    ep: *mut fid_ep,
    wr: *mut c_void,
    op: fi_op_type,
    rma_iov: *const fi_rma_iov,
    count: usize,
) -> c_int {
    let tx = |ep: &T, record: &mut TxRecord| {
        // Messages have no target, so `most` is 0.
        if count > record.head.most[TARGET].into() {
            return Err(Error::INVAL);
        }
        // SAFETY: the caller's array, readable during the call.
        let mut target = unsafe { remote(rma_iov.cast(), count)? };
        let what = record.head.what();
        if matches!(what, What::Atomic | What::AtomicFetch) {
            let elements = elements_of(ep, record)?;
            for place in &mut target {
                place.len = elements(place.len)?;
            }
        }
        record.target = target;
        record.head.counts[TARGET] = count as u8;
        agree(record)
    };
    // SAFETY: as in `modify_addr`.
    unsafe { modify(ep, wr, op, tx, |_: &T, _| Err(Error::INVAL)) }
}

pub(super) unsafe extern "C" fn modify_tag<T: WorkPath>(
    ep: *mut fid_ep,
    wr: *mut c_void,
    op: fi_op_type,
    tag: u64,
    ignore: u64,
) -> c_int {
    let tx = |ep: &T, record: &mut TxRecord| {
        if op != FI_OP_TSEND || ignore != 0 {
            return Err(Error::INVAL);
        }
        record.head.tag = tag;
        same_peer(ep, record)
    };
    let rx = |_: &T, record: &mut RxRecord| {
        if op != FI_OP_TRECV {
            return Err(Error::INVAL);
        }
        (record.tag, record.ignore) = (tag, ignore);
        Ok(())
    };
    // SAFETY: as in `modify_addr`.
    unsafe { modify(ep, wr, op, tx, rx) }
}

pub(super) unsafe extern "C" fn modify_data<T: WorkPath>(
    ep: *mut fid_ep,
    wr: *mut c_void,
    op: fi_op_type,
    data: u64,
) -> c_int {
    let tx = |ep: &T, record: &mut TxRecord| {
        if !record.head.flags().contains(OpFlags::REMOTE_CQ_DATA) {
            return Err(Error::INVAL);
        }
        record.head.data = data;
        same_peer(ep, record)
    };
    // SAFETY: as in `modify_addr`.
    unsafe { modify(ep, wr, op, tx, |_: &T, _| Err(Error::INVAL)) }
}

pub(super) unsafe extern "C" fn modify_flags<T: WorkPath>(
    ep: *mut fid_ep,
    wr: *mut c_void,
    op: fi_op_type,
    flags: u64,
) -> c_int {
    let flags = OpFlags::from_bits_retain(flags);
    let tx = |ep: &T, record: &mut TxRecord| {
        let fixed = OpFlags::REMOTE_CQ_DATA | OpFlags::INJECT;
        if (record.head.flags() ^ flags).intersects(fixed) {
            return Err(Error::INVAL);
        }
        check(ep, record, flags)?;
        record.head.flags = flags.bits();
        add_order(ep, record);
        same_peer(ep, record)
    };
    let rx = |ep: &T, record: &mut RxRecord| {
        check_receive_flags(ep, op, flags)?;
        record.flags = flags.bits();
        Ok(())
    };
    // SAFETY: as in `modify_addr`.
    unsafe { modify(ep, wr, op, tx, rx) }
}
