// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Atomic calls of every form: reads and checks their arguments, and converts them to an `Atomic`.

use core::ffi::c_void;

use super::{Atomic, AtomicPath, Elements, Family};
use crate::ops::status;
use crate::ops::transfer::*;
use crate::ops::work::OutgoingAtomic;
use crate::user::opt;
use abi::*;
use base::iovec::IOV_LIMIT;
use base::{Error, IoVec, OpFlags, Result};

use sys::probe;

/// Local memory of one role (operand, result or compare), as C passes it.
#[derive(Clone, Copy)]
pub(super) enum Local {
    /// The call has no memory of this role.
    None,
    /// One piece with the number of elements that the call passes.
    Single(*const c_void, *mut c_void),
    Several(*const fi_ioc, *const *mut c_void, usize),
}

/// Arguments that all atomic calls have in common.
pub(super) struct Call {
    pub(super) family: Family,
    pub(super) datatype: fi_datatype,
    pub(super) op: fi_op,
    /// Elements of each `Local::Single`.
    pub(super) count: usize,
    pub(super) operands: Local,
    pub(super) compare: Local,
    pub(super) result: Local,
    pub(super) dest: fi_addr_t,
    pub(super) data: u64,
    pub(super) context: *mut c_void,
}

/// Memory at the target.
pub(super) enum Target {
    /// Address and key of one piece, which has as many elements as the operand.
    Single(u64, u64),
    Several(*const fi_rma_ioc, usize),
}

/// Reads, checks and posts a call. `flags` returns the flags of the operation for an endpoint and a length.
///
/// # Safety
/// fi_atomic(3): the endpoint is open, the arrays are valid during the call, and the memory that they name is valid
/// until the completion. Operands and compared values of injected operations are needed only during the call.
// Inlined, because then each call keeps only the branches that its form needs: 150 instructions.
#[inline(always)]
pub(super) unsafe fn post<T: AtomicPath>(
    ep: *mut fid_ep,
    call: Call,
    target: Target,
    flags: impl FnOnce(&T, usize) -> Result<OpFlags>,
) -> isize {
    // SAFETY: promised by the caller.
    status(unsafe {
        let place = ep.addr();
        endpoint::<T>(ep).and_then(|ep| {
            read(ep, &call, &target, flags, |atomic| {
                probe::post(place, atomic.context.number(), atomic.dest, 0);
                ep.atomic(atomic)
            })
        })
    })
}

/// Checks the arguments and passes the operation to `use_it`.
///
/// # Safety
/// As `post`.
#[inline(always)]
unsafe fn read<T: AtomicPath, R>(
    ep: &T,
    call: &Call,
    target: &Target,
    flags: impl FnOnce(&T, usize) -> Result<OpFlags>,
    use_it: impl FnOnce(&mut Atomic<'_>) -> Result<R>,
) -> Result<R> {
    let Elements { size, count } = ep.elements(call.family, call.datatype, call.op)?;
    // fi_atomic(3): the operand of FI_ATOMIC_READ is ignored.
    let reads = call.op == FI_ATOMIC_READ;
    // SAFETY: promised by the caller.
    let (operands, result, compare, context) = unsafe {
        let operands = match reads {
            true => IoVec::empty(),
            false => memory(ep, call.operands, call.count, size)?.as_source(),
        };
        let result = memory(ep, call.result, call.count, size)?;
        let compare = memory(ep, call.compare, call.count, size)?.as_source();
        (operands, result, compare, Given::new(call.context))
    };
    let len = if reads { &result } else { &operands }.remaining();
    let agree = |role: Local, iov: &IoVec| matches!(role, Local::None) || iov.remaining() == len;
    if len == 0 || !agree(call.result, &result) || !agree(call.compare, &compare) {
        return Err(Error::INVAL);
    }
    let mut segs = [RemoteSeg::default(); IOV_LIMIT];
    // SAFETY: promised by the caller.
    let target = unsafe { remote(target, len, size, &mut segs) }?;
    if len / size > count {
        return Err(Error::MSGSIZE);
    }
    let flags = flags(ep, operands.remaining())?;
    use_it(&mut Atomic {
        family: call.family,
        datatype: call.datatype,
        op: call.op,
        flags,
        operands,
        compare,
        result,
        dest: call.dest,
        context: context.with(flags),
        data: call.data,
        target,
    })
}

/// An atomic operation of deferred work (fi_trigger(3)), as C passes it. Its meaning depends on its endpoint.
pub struct AtomicWork<'a> {
    family: Family,
    msg: &'a fi_msg_atomic,
    compare: Local,
    result: Local,
    flags: OpFlags,
}

impl<'a> AtomicWork<'a> {
    /// # Safety
    /// `msg`, `compare` and `result` must be as fi_atomic(3) requires: the arrays valid for `'a`, the memory that they
    /// name until the operation completes.
    pub unsafe fn new(
        family: Family,
        msg: &'a fi_msg_atomic,
        compare: Option<&fi_msg_compare>,
        result: Option<&fi_msg_fetch>,
        flags: u64,
    ) -> AtomicWork<'a> {
        AtomicWork {
            family,
            msg,
            compare: compare.map_or(Local::None, |c| {
                Local::Several(c.msg_iov, c.desc, c.iov_count)
            }),
            result: result.map_or(Local::None, |r| {
                Local::Several(r.msg_iov, r.desc, r.iov_count)
            }),
            flags: OpFlags::from_bits_retain(flags),
        }
    }

    /// Checks the operation as the msg call of its family does.
    pub fn check<T: AtomicPath>(&self, ep: &T) -> Result {
        let (call, target) = named(self.family, self.msg, self.compare, self.result);
        let flags = |ep: &T, bytes: usize| {
            check_msg_flags(ep, self.family, self.flags, bytes).map(|()| self.flags)
        };
        // SAFETY: promised to `new`.
        unsafe { read(ep, &call, &target, flags, |_| Ok(())) }
    }

    /// Calls `call_with` with the operation, whose flags were checked earlier.
    pub fn with<T: AtomicPath, R>(
        &self,
        ep: &T,
        call_with: impl FnOnce(&mut Atomic<'_>) -> Result<R>,
    ) -> Result<R> {
        let (call, target) = named(self.family, self.msg, self.compare, self.result);
        // SAFETY: promised to `new`.
        unsafe { read(ep, &call, &target, |_, _| Ok(self.flags), call_with) }
    }

    pub fn read<T: AtomicPath>(&self, ep: &T) -> Result<OutgoingAtomic> {
        let (call, target) = named(self.family, self.msg, self.compare, self.result);
        let flags = |ep: &T, bytes: usize| {
            check_msg_flags(ep, self.family, self.flags | OpFlags::TRIGGER, bytes)?;
            check_flags(self.flags, !OpFlags::TRIGGER).map(|()| self.flags)
        };
        // SAFETY: promised to `new`.
        unsafe {
            read(ep, &call, &target, flags, |atomic| {
                Ok(OutgoingAtomic::of(atomic, self.flags, false))
            })
        }
    }
}

/// Reads the local memory of one role. `INVAL` if it is missing although elements are given.
///
/// # Safety
/// As `post`.
#[inline(always)]
unsafe fn memory<T: AtomicPath>(ep: &T, memory: Local, count: usize, size: usize) -> Result<IoVec> {
    let bytes = |count: usize| count.checked_mul(size).ok_or(Error::MSGSIZE);
    // SAFETY: promised by the caller.
    unsafe {
        match memory {
            Local::None => Ok(IoVec::empty()),
            Local::Single(base, desc) => single(base, bytes(count)?, desc),
            Local::Several(iocs, descs, count) => {
                if iocs.is_null() || count > IOV_LIMIT {
                    return Err(Error::INVAL);
                }
                let mut pieces = [iovec {
                    iov_base: core::ptr::null_mut(),
                    iov_len: 0,
                }; IOV_LIMIT];
                for (i, piece) in pieces[..count].iter_mut().enumerate() {
                    let ioc = *iocs.add(i);
                    piece.iov_base = ioc.addr;
                    piece.iov_len = bytes(ioc.count)?;
                }
                several(pieces.as_ptr(), used(ep, descs), count)
            }
        }
    }
}

/// Stores the pieces at the target in `segs`. `INVAL` unless they have `len` bytes together.
///
/// # Safety
/// The array of `Target::Several` must be readable.
#[inline(always)]
unsafe fn remote<'a>(
    target: &Target,
    len: usize,
    size: usize,
    segs: &'a mut [RemoteSeg; IOV_LIMIT],
) -> Result<&'a [RemoteSeg]> {
    let (iocs, count) = match *target {
        Target::Single(addr, key) => {
            segs[0] = RemoteSeg { addr, len, key };
            return Ok(&segs[..1]);
        }
        Target::Several(iocs, count) => (iocs, count),
    };
    if iocs.is_null() || !(1..=IOV_LIMIT).contains(&count) {
        return Err(Error::INVAL);
    }
    let mut left = len;
    for (i, seg) in segs[..count].iter_mut().enumerate() {
        // SAFETY: promised by the caller.
        let ioc = unsafe { *iocs.add(i) };
        *seg = RemoteSeg {
            addr: ioc.addr,
            len: ioc.count.checked_mul(size).ok_or(Error::INVAL)?,
            key: ioc.key,
        };
        left = left.checked_sub(seg.len).ok_or(Error::INVAL)?;
    }
    match left {
        0 => Ok(&segs[..count]),
        _ => Err(Error::INVAL),
    }
}

/// Posts a call of the msg form.
///
/// # Safety
/// `msg` must be as fi_atomic(3) describes it. The other conditions are those of `post`.
pub(super) unsafe fn post_msg<T: AtomicPath>(
    ep: *mut fid_ep,
    family: Family,
    msg: *const fi_msg_atomic,
    compare: Local,
    result: Local,
    flags: u64,
) -> isize {
    // SAFETY: promised by the caller.
    let Some(msg) = (unsafe { opt(msg) }) else {
        return Error::INVAL.negative() as isize;
    };
    let (call, target) = named(family, msg, compare, result);
    let asked = OpFlags::from_bits_retain(flags);
    let flags = |ep: &T, bytes: usize| {
        check_msg_flags(ep, family, asked, bytes)?;
        Ok(asked | ep.tx_implied())
    };
    // SAFETY: promised by the caller.
    unsafe { post::<T>(ep, call, target, flags) }
}

fn named(family: Family, msg: &fi_msg_atomic, compare: Local, result: Local) -> (Call, Target) {
    let call = Call {
        family,
        datatype: msg.datatype,
        op: msg.op,
        count: 0,
        operands: Local::Several(msg.msg_iov, msg.desc, msg.iov_count),
        compare,
        result,
        dest: msg.addr,
        data: msg.data,
        context: msg.context,
    };
    (call, Target::Several(msg.rma_iov, msg.rma_iov_count))
}

fn check_msg_flags<T: AtomicPath>(ep: &T, family: Family, flags: OpFlags, bytes: usize) -> Result {
    // FI_TAGGED makes posted receives of tagged messages the target, which no provider here supports.
    if flags.contains(OpFlags::TAGGED) {
        return Err(Error::OPNOTSUPP);
    }
    // Fetching operations report no completion at the target, so they carry no remote CQ data.
    check_flags(
        flags,
        match family {
            Family::Base => SEND_FLAGS,
            _ => SEND_FLAGS & !OpFlags::REMOTE_CQ_DATA,
        },
    )?;
    check_inject(ep, What::Atomic, flags, bytes)
}
