// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Converts descriptions of operations, as C passes them in `struct fi_wr_attr`, to records.

use core::ffi::c_void;
use core::ptr::{null, null_mut};

use super::record::{COMPARE, PIECES, Queue, RESULT, RxRecord, TARGET, TxRecord};
use super::{WorkPath, reroute};
use crate::ops::atomic::{AtomicWork, Family};
use crate::ops::transfer::*;
use abi::*;
use base::iovec::IOV_LIMIT;
use base::{Error, IoVec, OpFlags, Result};

/// A record of either kind.
#[allow(clippy::large_enum_variant)] // It lives during one call.
pub(super) enum Record {
    Tx(TxRecord),
    Rx(RxRecord),
}

/// Returns true if requests of this type are queued as receives.
pub(super) fn is_receive(op: fi_op_type) -> bool {
    matches!(op, FI_OP_RECV | FI_OP_TRECV)
}

/// Makes the record of an operation of the endpoint `handle`.
///
/// # Safety
/// fi_wr(3): `attr`, its descriptor and the arrays of that are readable during the call.
pub(super) unsafe fn read<T: WorkPath>(
    ep: &T,
    handle: *mut fid_ep,
    attr: &fi_wr_attr,
) -> Result<Record> {
    // SAFETY: all members of the union are pointers.
    if unsafe { attr.op.msg }.is_null() {
        return Err(Error::INVAL);
    }
    let op_type = attr.op_type;
    let tx = |record: Result<TxRecord>| -> Result<Record> {
        let mut record = record?;
        add_order(ep, &mut record);
        record.head.route = reroute(ep, &record)?;
        Ok(Record::Tx(record))
    };
    // SAFETY: the type selects the member of the union; promised by the caller.
    unsafe {
        match op_type {
            FI_OP_SEND | FI_OP_RECV => {
                let op = &*attr.op.msg;
                own(op.ep, handle)?;
                match op_type {
                    FI_OP_SEND => tx(message(ep, op_type, &op.msg, 0, op.flags)),
                    _ => receive(ep, op_type, &op.msg, (0, 0), op.flags).map(Record::Rx),
                }
            }
            FI_OP_TSEND | FI_OP_TRECV => {
                let op = &*attr.op.tagged;
                own(op.ep, handle)?;
                let (msg, tags) = (untagged(&op.msg), (op.msg.tag, op.msg.ignore));
                match op_type {
                    FI_OP_TSEND => tx(message(ep, op_type, &msg, tags.0, op.flags)),
                    _ => receive(ep, op_type, &msg, tags, op.flags).map(Record::Rx),
                }
            }
            FI_OP_WRITE | FI_OP_READ => {
                let op = &*attr.op.rma;
                own(op.ep, handle)?;
                tx(access(ep, op_type, &op.msg, op.flags))
            }
            FI_OP_ATOMIC => {
                let op = &*attr.op.atomic;
                own(op.ep, handle)?;
                tx(atomic(ep, op_type, &op.msg, None, None, op.flags))
            }
            FI_OP_FETCH_ATOMIC => {
                let op = &*attr.op.fetch_atomic;
                own(op.ep, handle)?;
                tx(atomic(
                    ep,
                    op_type,
                    &op.msg,
                    None,
                    Some(&op.fetch),
                    op.flags,
                ))
            }
            FI_OP_COMPARE_ATOMIC => {
                let op = &*attr.op.compare_atomic;
                own(op.ep, handle)?;
                let both = (Some(&op.compare), Some(&op.fetch));
                tx(atomic(ep, op_type, &op.msg, both.0, both.1, op.flags))
            }
            _ => Err(Error::INVAL),
        }
    }
}

/// fi_wr(3): checks that the endpoint in the descriptor is the one of the call.
fn own(named: *mut fid_ep, handle: *mut fid_ep) -> Result {
    match named == handle {
        true => Ok(()),
        false => Err(Error::INVAL),
    }
}

/// Copies buffers to the array of a record; returns the array and their number.
///
/// # Safety
/// `iov[..count]` is readable.
pub(super) unsafe fn buffers(
    iov: *const iovec,
    count: usize,
    receives: bool,
) -> Result<([iovec; IOV_LIMIT], u8)> {
    let mut pieces = [iovec {
        iov_base: null_mut(),
        iov_len: 0,
    }; IOV_LIMIT];
    // SAFETY: promised by the caller. The pieces are checked here and dropped: nothing reads their memory.
    unsafe {
        let _: IoVec = match receives {
            true => rooms(iov, null(), count)?,
            false => several(iov, null(), count)?,
        };
        for (i, piece) in pieces[..count].iter_mut().enumerate() {
            *piece = *iov.add(i);
        }
    }
    Ok((pieces, count as u8))
}

/// # Safety
/// As `read`, for one descriptor; likewise below.
unsafe fn message<T: WorkPath>(
    ep: &T,
    op: fi_op_type,
    msg: &fi_msg,
    tag: u64,
    flags: u64,
) -> Result<TxRecord> {
    let flags = OpFlags::from_bits_retain(flags);
    let mut record = TxRecord::new(ep.stamp(), op, flags, msg.addr);
    // SAFETY: promised by the caller.
    let (pieces, count) = unsafe { buffers(msg.msg_iov, msg.iov_count, false)? };
    record.head.pieces = pieces;
    record.head.counts[PIECES] = count;
    record.head.most[PIECES] = count;
    (record.head.tag, record.head.data) = (tag, msg.data);
    check(ep, &record, flags)?;
    Ok(record)
}

/// # Safety
/// As `message`.
unsafe fn access<T: WorkPath>(
    ep: &T,
    op: fi_op_type,
    msg: &fi_msg_rma,
    flags: u64,
) -> Result<TxRecord> {
    let own = fi_msg {
        msg_iov: msg.msg_iov,
        desc: msg.desc,
        iov_count: msg.iov_count,
        addr: msg.addr,
        context: null_mut(),
        data: msg.data,
    };
    // SAFETY: promised by the caller.
    let (mut record, target) = unsafe {
        let record = message(ep, op, &own, 0, flags)?;
        (record, remote(msg.rma_iov.cast(), msg.rma_iov_count)?)
    };
    record.target = target;
    record.head.counts[TARGET] = msg.rma_iov_count as u8;
    record.head.most[TARGET] = msg.rma_iov_count as u8;
    agree(&record)?;
    Ok(record)
}

/// Copies segments at the target to the array of a record.
///
/// # Safety
/// `places[..count]` is readable.
pub(super) unsafe fn remote(
    places: *const RemoteSeg,
    count: usize,
) -> Result<[RemoteSeg; IOV_LIMIT]> {
    if places.is_null() || !(1..=IOV_LIMIT).contains(&count) {
        return Err(Error::INVAL);
    }
    let mut target = [RemoteSeg::default(); IOV_LIMIT];
    for (i, place) in target[..count].iter_mut().enumerate() {
        // SAFETY: promised by the caller.
        *place = unsafe { *places.add(i) };
    }
    Ok(target)
}

/// fi_wr(3): checks that the target has as many bytes as the local buffers.
pub(super) fn agree(record: &TxRecord) -> Result {
    let target = record.target;
    let lens = target.iter().map(|place| place.len);
    match lens.fold(0, usize::saturating_add) == record.len() {
        true => Ok(()),
        false => Err(Error::INVAL),
    }
}

/// # Safety
/// As `message`.
unsafe fn atomic<T: WorkPath>(
    ep: &T,
    op: fi_op_type,
    msg: &fi_msg_atomic,
    compare: Option<&fi_msg_compare>,
    result: Option<&fi_msg_fetch>,
    flags: u64,
) -> Result<TxRecord> {
    let asked = OpFlags::from_bits_retain(flags);
    let mut record = TxRecord::new(ep.stamp(), op, asked, msg.addr);
    // SAFETY: promised by the caller. What is checked is only looked at during the call.
    unsafe {
        let work = AtomicWork::new(family_of(op), msg, compare, result, flags);
        work.check(ep)?;
        let reads = msg.op == FI_ATOMIC_READ;
        let operands = if reads { 0 } else { msg.iov_count };
        for i in 0..operands {
            let fi_ioc { addr, count } = *msg.msg_iov.add(i);
            record.head.pieces[i] = iovec {
                iov_base: addr,
                iov_len: count,
            };
        }
        for i in 0..msg.rma_iov_count {
            let fi_rma_ioc { addr, count, key } = *msg.rma_iov.add(i);
            record.target[i] = RemoteSeg {
                addr,
                len: count,
                key,
            };
        }
        for i in 0..compare.map_or(0, |compare| compare.iov_count) {
            record.compare[i] = *compare.map_or(null(), |compare| compare.msg_iov).add(i);
        }
        for i in 0..result.map_or(0, |result| result.iov_count) {
            record.result[i] = *result.map_or(null_mut(), |result| result.msg_iov).add(i);
        }
        record.head.counts[PIECES] = operands as u8;
    }
    record.head.counts[TARGET] = msg.rma_iov_count as u8;
    record.head.counts[COMPARE] = compare.map_or(0, |compare| compare.iov_count) as u8;
    record.head.counts[RESULT] = result.map_or(0, |result| result.iov_count) as u8;
    record.head.most = [record.head.counts[PIECES], record.head.counts[TARGET]];
    (record.datatype, record.atomic) = (msg.datatype.0, msg.op.0);
    record.head.data = msg.data;
    Ok(record)
}

/// Adds the flag that the endpoint's message order requires for some operations.
pub(super) fn add_order<T: WorkPath>(ep: &T, record: &mut TxRecord) {
    record.head.flags |= ep.order_flag(record.head.what()).bits();
}

pub(super) fn family_of(op: fi_op_type) -> Family {
    match op {
        FI_OP_ATOMIC => Family::Base,
        FI_OP_FETCH_ATOMIC => Family::Fetch,
        _ => Family::Compare,
    }
}

/// # Safety
/// As `message`.
unsafe fn receive<T: WorkPath>(
    ep: &T,
    op: fi_op_type,
    msg: &fi_msg,
    (tag, ignore): (u64, u64),
    flags: u64,
) -> Result<RxRecord> {
    let asked = OpFlags::from_bits_retain(flags);
    check_receive_flags(ep, op, asked)?;
    // SAFETY: promised by the caller.
    let (pieces, count) = unsafe { buffers(msg.msg_iov, msg.iov_count, true)? };
    let (queue, what) = match op {
        FI_OP_RECV => (Queue::Receive, What::Msg),
        _ => (Queue::TaggedReceive, What::Tagged),
    };
    let source = ep.source(what, msg.addr)?;
    Ok(RxRecord {
        stamp: ep.stamp() | queue as u64,
        flags: asked.bits(),
        src: msg.addr,
        tag,
        ignore,
        op: op.0,
        generation: source.unwrap_or(0),
        directed: source.is_some().into(),
        count,
        most: count,
        pieces,
    })
}

/// Checks flags as the msg call of the same kind does.
pub(super) fn check_receive_flags<T: WorkPath>(ep: &T, op: fi_op_type, flags: OpFlags) -> Result {
    let more = match op {
        FI_OP_RECV => OpFlags::MULTI_RECV | OpFlags::TRANSMIT_COMPLETE,
        _ if ep.takes_many_tagged() => OpFlags::MULTI_RECV,
        _ => OpFlags::empty(),
    };
    check_flags(flags, RECV_FLAGS | more)
}

/// Checks flags and length as the msg call of the same kind does; `asked` are the flags of the caller.
pub(super) fn check<T: WorkPath>(ep: &T, record: &TxRecord, asked: OpFlags) -> Result {
    let what = record.head.what();
    match what {
        What::Msg => check_send_flags(ep, asked)?,
        What::Tagged => check_flags(asked, MESSAGE_FLAGS)?,
        What::AtomicFetch => check_flags(asked, SEND_FLAGS & !OpFlags::REMOTE_CQ_DATA)?,
        _ => check_flags(asked, SEND_FLAGS)?,
    }
    match what {
        // Reads have no outbound data. Atomics have a length in elements, which was checked when they were prepared.
        What::Read | What::Atomic | What::AtomicFetch => Ok(()),
        _ => check_inject(ep, what, asked, record.len()),
    }
}

/// Returns a tagged message without its tag.
fn untagged(msg: &fi_msg_tagged) -> fi_msg {
    fi_msg {
        msg_iov: msg.msg_iov,
        desc: msg.desc,
        iov_count: msg.iov_count,
        addr: msg.addr,
        context: null_mut::<c_void>(),
        data: msg.data,
    }
}
