// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `struct fi_ops_atomic`: fi_atomic(3).

use core::ffi::{c_int, c_void};

use libc::iovec;

use crate::abi::*;
use crate::base::iovec::IOV_LIMIT;
use crate::base::{Error, IoVec, Result};
use crate::ffi::ops::missing::Missing;
use crate::ffi::ops::status;
use crate::ffi::ops::transfer::*;
use crate::ffi::ops::work::OutgoingAtomic;
use crate::ffi::user::opt;
use crate::hmem::{Host, Memory};

/// The three kinds of calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// Without a result.
    Base,
    /// The values before come back.
    Fetch,
    /// The same, and the target changes only where a comparison says so.
    Compare,
}

/// What a call may be about, for one operation on one type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Elements {
    /// Bytes of one.
    pub size: usize,
    /// Most of them in one call.
    pub count: usize,
}

/// An atomic operation that the initiator posts. All pieces of memory have the same number of whole elements together.
pub struct Atomic<'a, M = Host> {
    pub family: Family,
    pub datatype: fi_datatype,
    pub op: fi_op,
    /// Empty for FI_ATOMIC_READ.
    pub operands: IoVec<M>,
    /// Of the family Compare only.
    pub compare: IoVec<M>,
    /// Not of the family Base.
    pub result: IoVec<M>,
    /// Operation flags; FI_COMPLETION says whether success is reported.
    pub flags: u64,
    pub dest: u64,
    pub context: usize,
    pub data: u64,
    pub target: &'a [RemoteSeg],
}

pub trait AtomicPath: DataPath {
    /// `OPNOTSUPP` if the endpoint has no such operation.
    fn elements(&self, family: Family, datatype: fi_datatype, op: fi_op) -> Result<Elements>;
    fn atomic(&self, atomic: Atomic<'_, Self::Memory>) -> Result;
}

pub fn table<T: AtomicPath>() -> &'static fi_ops_atomic {
    &fi_ops_atomic {
        size: size_of::<fi_ops_atomic>(),
        write: Some(write::<T>),
        writev: Some(writev::<T>),
        writemsg: Some(writemsg::<T>),
        inject: Some(inject::<T>),
        readwrite: Some(readwrite::<T>),
        readwritev: Some(readwritev::<T>),
        readwritemsg: Some(readwritemsg::<T>),
        compwrite: Some(compwrite::<T>),
        compwritev: Some(compwritev::<T>),
        compwritemsg: Some(compwritemsg::<T>),
        writevalid: Some(writevalid::<T>),
        readwritevalid: Some(readwritevalid::<T>),
        compwritevalid: Some(compwritevalid::<T>),
    }
}

pub static NONE: fi_ops_atomic = fi_ops_atomic {
    size: size_of::<fi_ops_atomic>(),
    write: Some(Missing::CALL),
    writev: Some(Missing::CALL),
    writemsg: Some(Missing::CALL),
    inject: Some(Missing::CALL),
    readwrite: Some(Missing::CALL),
    readwritev: Some(Missing::CALL),
    readwritemsg: Some(Missing::CALL),
    compwrite: Some(Missing::CALL),
    compwritev: Some(Missing::CALL),
    compwritemsg: Some(Missing::CALL),
    writevalid: Some(Missing::CALL),
    readwritevalid: Some(Missing::CALL),
    compwritevalid: Some(Missing::CALL),
};

/// Local memory of one role, as C names it.
#[derive(Clone, Copy)]
enum Local {
    /// The call has none of this role.
    None,
    /// One piece, of as many elements as the call says.
    Single(*const c_void, *mut c_void),
    Several(*const fi_ioc, *const *mut c_void, usize),
}

/// What all calls have in common.
struct Call {
    family: Family,
    datatype: fi_datatype,
    op: fi_op,
    /// Elements of each `Local::Single`.
    count: usize,
    operands: Local,
    compare: Local,
    result: Local,
    dest: fi_addr_t,
    data: u64,
    context: *mut c_void,
}

/// Where at the target.
enum Target {
    /// One piece of as many elements as there are.
    Single(u64, u64),
    Several(*const fi_rma_ioc, usize),
}

/// `flags` makes the operation's flags, from the endpoint and the operands.
///
/// # Safety
/// As fi_atomic(3) says of the endpoint, of the arrays (during the call) and of the memory that they name (until the
/// completion, operands and compared values of injected operations only during the call).
// Of each call only what it can be is left: 150 instructions.
#[inline(always)]
unsafe fn post<T: AtomicPath>(
    ep: *mut fid_ep,
    call: Call,
    target: Target,
    flags: impl FnOnce(&T, usize) -> Result<u64>,
) -> isize {
    // SAFETY: promised by the caller.
    status(unsafe {
        endpoint::<T>(ep).and_then(|ep| read(ep, &call, &target, flags, |atomic| ep.atomic(atomic)))
    })
}

/// Checks what the caller says, and hands it to `use_it`.
///
/// # Safety
/// As `post`.
#[inline(always)]
unsafe fn read<T: AtomicPath, R>(
    ep: &T,
    call: &Call,
    target: &Target,
    flags: impl FnOnce(&T, usize) -> Result<u64>,
    use_it: impl FnOnce(Atomic<'_, T::Memory>) -> Result<R>,
) -> Result<R> {
    let Elements { size, count } = ep.elements(call.family, call.datatype, call.op)?;
    // fi_atomic(3): what would be the operand of FI_ATOMIC_READ is ignored.
    let reads = call.op == FI_ATOMIC_READ;
    // SAFETY: promised by the caller.
    let (operands, result, compare) = unsafe {
        let operands = match reads {
            true => IoVec::empty(),
            false => memory(call.operands, call.count, size)?,
        };
        let result = memory(call.result, call.count, size)?;
        (operands, result, memory(call.compare, call.count, size)?)
    };
    let len = if reads { &result } else { &operands }.remaining();
    let agree = |role: Local, iov: &IoVec<_>| matches!(role, Local::None) || iov.remaining() == len;
    if len == 0 || !agree(call.result, &result) || !agree(call.compare, &compare) {
        return Err(Error::INVAL);
    }
    let mut segs = [RemoteSeg::default(); IOV_LIMIT];
    // SAFETY: promised by the caller.
    let target = unsafe { remote(target, len, size, &mut segs) }?;
    if len / size > count {
        return Err(Error::MSGSIZE);
    }
    use_it(Atomic {
        family: call.family,
        datatype: call.datatype,
        op: call.op,
        flags: flags(ep, operands.remaining())?,
        operands,
        compare,
        result,
        dest: call.dest,
        context: call.context as usize,
        data: call.data,
        target,
    })
}

/// An atomic operation of deferred work (fi_trigger(3)), as C names it; what it is depends on its endpoint.
pub struct AtomicWork<'a> {
    family: Family,
    msg: &'a fi_msg_atomic,
    compare: Local,
    result: Local,
    flags: u64,
}

impl<'a> AtomicWork<'a> {
    /// # Safety
    /// What `msg`, `compare` and `result` name must be as fi_atomic(3) says, arrays for `'a` and memory until the
    /// operation completes.
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
            flags,
        }
    }

    pub fn read<T: AtomicPath>(&self, ep: &T) -> Result<OutgoingAtomic<T::Memory>> {
        let (call, target) = named(self.family, self.msg, self.compare, self.result);
        let flags = |ep: &T, bytes: usize| {
            check_msg_flags(ep, self.family, self.flags | FI_TRIGGER, bytes)?;
            check_flags(self.flags, !FI_TRIGGER).map(|()| self.flags)
        };
        // SAFETY: promised to `new`.
        unsafe {
            read(ep, &call, &target, flags, |atomic| {
                Ok(OutgoingAtomic::of(atomic, self.flags, false))
            })
        }
    }
}

/// `INVAL` if there is none where there should be.
///
/// # Safety
/// As `post`.
#[inline(always)]
unsafe fn memory<M: Memory>(memory: Local, count: usize, size: usize) -> Result<IoVec<M>> {
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
                several(pieces.as_ptr(), descs, count)
            }
        }
    }
}

/// The target's pieces, in `segs`. `INVAL` unless they have `len` bytes together.
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

/// The msg forms.
///
/// # Safety
/// `msg` must be as fi_atomic(3) describes it, all else as `post`.
unsafe fn post_msg<T: AtomicPath>(
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
    let flags = |ep: &T, bytes: usize| {
        check_msg_flags(ep, family, flags, bytes)?;
        Ok(flags | ep.tx_implied())
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

fn check_msg_flags<T: AtomicPath>(ep: &T, family: Family, flags: u64, bytes: usize) -> Result {
    // Tagged receive buffers as targets.
    if flags & FI_TAGGED != 0 {
        return Err(Error::OPNOTSUPP);
    }
    // Nothing at the target tells of a fetch.
    check_flags(
        flags,
        match family {
            Family::Base => SEND_FLAGS,
            _ => SEND_FLAGS & !FI_REMOTE_CQ_DATA,
        },
    )?;
    check_inject(ep, What::Atomic, flags, bytes)
}

unsafe extern "C" fn write<T: AtomicPath>(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    desc: *mut c_void,
    dest_addr: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    let call = Call {
        family: Family::Base,
        datatype,
        op,
        count,
        operands: Local::Single(buf, desc),
        compare: Local::None,
        result: Local::None,
        dest: dest_addr,
        data: 0,
        context,
    };
    // SAFETY: fi_atomic(3): an open endpoint; the operands stay unchanged until the completion.
    unsafe { post::<T>(ep, call, Target::Single(addr, key), by_default) }
}

unsafe extern "C" fn writev<T: AtomicPath>(
    ep: *mut fid_ep,
    iov: *const fi_ioc,
    desc: *mut *mut c_void,
    count: usize,
    dest_addr: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    let call = Call {
        family: Family::Base,
        datatype,
        op,
        count: 0,
        operands: Local::Several(iov, desc, count),
        compare: Local::None,
        result: Local::None,
        dest: dest_addr,
        data: 0,
        context,
    };
    // SAFETY: as in `write`, for `count` pieces.
    unsafe { post::<T>(ep, call, Target::Single(addr, key), by_default) }
}

unsafe extern "C" fn writemsg<T: AtomicPath>(
    ep: *mut fid_ep,
    msg: *const fi_msg_atomic,
    flags: u64,
) -> isize {
    // SAFETY: as in `write`, for what `msg` names.
    unsafe { post_msg::<T>(ep, Family::Base, msg, Local::None, Local::None, flags) }
}

unsafe extern "C" fn inject<T: AtomicPath>(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    dest_addr: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
) -> isize {
    let call = Call {
        family: Family::Base,
        datatype,
        op,
        count,
        operands: Local::Single(buf, core::ptr::null_mut()),
        compare: Local::None,
        result: Local::None,
        dest: dest_addr,
        data: 0,
        context: core::ptr::null_mut(),
    };
    let flags = |ep: &T, len: usize| injected(ep, What::Atomic, len, FI_WRITE);
    // SAFETY: as in `write`, until the return of the call.
    unsafe { post::<T>(ep, call, Target::Single(addr, key), flags) }
}

unsafe extern "C" fn readwrite<T: AtomicPath>(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    desc: *mut c_void,
    result: *mut c_void,
    result_desc: *mut c_void,
    dest_addr: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    let call = Call {
        family: Family::Fetch,
        datatype,
        op,
        count,
        operands: Local::Single(buf, desc),
        compare: Local::None,
        result: Local::Single(result, result_desc),
        dest: dest_addr,
        data: 0,
        context,
    };
    // SAFETY: as in `write`; the result is left to the library until the completion.
    unsafe { post::<T>(ep, call, Target::Single(addr, key), by_default) }
}

unsafe extern "C" fn readwritev<T: AtomicPath>(
    ep: *mut fid_ep,
    iov: *const fi_ioc,
    desc: *mut *mut c_void,
    count: usize,
    resultv: *mut fi_ioc,
    result_desc: *mut *mut c_void,
    result_count: usize,
    dest_addr: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    let call = Call {
        family: Family::Fetch,
        datatype,
        op,
        count: 0,
        operands: Local::Several(iov, desc, count),
        compare: Local::None,
        result: Local::Several(resultv, result_desc, result_count),
        dest: dest_addr,
        data: 0,
        context,
    };
    // SAFETY: as in `readwrite`, for all pieces.
    unsafe { post::<T>(ep, call, Target::Single(addr, key), by_default) }
}

unsafe extern "C" fn readwritemsg<T: AtomicPath>(
    ep: *mut fid_ep,
    msg: *const fi_msg_atomic,
    resultv: *mut fi_ioc,
    result_desc: *mut *mut c_void,
    result_count: usize,
    flags: u64,
) -> isize {
    let result = Local::Several(resultv, result_desc, result_count);
    // SAFETY: as in `readwrite`, for what `msg` names.
    unsafe { post_msg::<T>(ep, Family::Fetch, msg, Local::None, result, flags) }
}

unsafe extern "C" fn compwrite<T: AtomicPath>(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    desc: *mut c_void,
    compare: *const c_void,
    compare_desc: *mut c_void,
    result: *mut c_void,
    result_desc: *mut c_void,
    dest_addr: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    let call = Call {
        family: Family::Compare,
        datatype,
        op,
        count,
        operands: Local::Single(buf, desc),
        compare: Local::Single(compare, compare_desc),
        result: Local::Single(result, result_desc),
        dest: dest_addr,
        data: 0,
        context,
    };
    // SAFETY: as in `readwrite`; what is compared stays unchanged until the completion, too.
    unsafe { post::<T>(ep, call, Target::Single(addr, key), by_default) }
}

unsafe extern "C" fn compwritev<T: AtomicPath>(
    ep: *mut fid_ep,
    iov: *const fi_ioc,
    desc: *mut *mut c_void,
    count: usize,
    comparev: *const fi_ioc,
    compare_desc: *mut *mut c_void,
    compare_count: usize,
    resultv: *mut fi_ioc,
    result_desc: *mut *mut c_void,
    result_count: usize,
    dest_addr: fi_addr_t,
    addr: u64,
    key: u64,
    datatype: fi_datatype,
    op: fi_op,
    context: *mut c_void,
) -> isize {
    let call = Call {
        family: Family::Compare,
        datatype,
        op,
        count: 0,
        operands: Local::Several(iov, desc, count),
        compare: Local::Several(comparev, compare_desc, compare_count),
        result: Local::Several(resultv, result_desc, result_count),
        dest: dest_addr,
        data: 0,
        context,
    };
    // SAFETY: as in `compwrite`, for all pieces.
    unsafe { post::<T>(ep, call, Target::Single(addr, key), by_default) }
}

unsafe extern "C" fn compwritemsg<T: AtomicPath>(
    ep: *mut fid_ep,
    msg: *const fi_msg_atomic,
    comparev: *const fi_ioc,
    compare_desc: *mut *mut c_void,
    compare_count: usize,
    resultv: *mut fi_ioc,
    result_desc: *mut *mut c_void,
    result_count: usize,
    flags: u64,
) -> isize {
    let compare = Local::Several(comparev, compare_desc, compare_count);
    let result = Local::Several(resultv, result_desc, result_count);
    // SAFETY: as in `compwrite`, for what `msg` names.
    unsafe { post_msg::<T>(ep, Family::Compare, msg, compare, result, flags) }
}

/// # Safety
/// `ep` must be NULL or open, `count` NULL or writable.
unsafe fn valid<T: AtomicPath>(
    ep: *mut fid_ep,
    family: Family,
    datatype: fi_datatype,
    op: fi_op,
    count: *mut usize,
) -> c_int {
    // SAFETY: promised by the caller.
    status(unsafe {
        endpoint::<T>(ep).and_then(|ep| {
            if count.is_null() {
                return Err(Error::INVAL);
            }
            count.write(ep.elements(family, datatype, op)?.count);
            Ok(())
        })
    })
}

unsafe extern "C" fn writevalid<T: AtomicPath>(
    ep: *mut fid_ep,
    datatype: fi_datatype,
    op: fi_op,
    count: *mut usize,
) -> c_int {
    // SAFETY: fi_atomic(3): an open endpoint; `count` gets the number.
    unsafe { valid::<T>(ep, Family::Base, datatype, op, count) }
}

unsafe extern "C" fn readwritevalid<T: AtomicPath>(
    ep: *mut fid_ep,
    datatype: fi_datatype,
    op: fi_op,
    count: *mut usize,
) -> c_int {
    // SAFETY: as in `writevalid`.
    unsafe { valid::<T>(ep, Family::Fetch, datatype, op, count) }
}

unsafe extern "C" fn compwritevalid<T: AtomicPath>(
    ep: *mut fid_ep,
    datatype: fi_datatype,
    op: fi_op,
    count: *mut usize,
) -> c_int {
    // SAFETY: as in `writevalid`.
    unsafe { valid::<T>(ep, Family::Compare, datatype, op, count) }
}
