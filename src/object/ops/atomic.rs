// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `struct fi_ops_atomic`: fi_atomic(3).

mod call;

use core::ffi::{c_int, c_void};

use crate::ops::missing::Missing;
use crate::ops::status;
use crate::ops::transfer::*;
use abi::*;
use base::{Error, IoVec, OpFlags, Result};

pub use call::AtomicWork;
use call::{Call, Local, Target, post, post_msg};

/// The three kinds of calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// Without a result.
    Base,
    /// Returns the previous values.
    Fetch,
    /// Returns the previous values, and changes the target only if a comparison succeeds.
    Compare,
}

impl Family {
    /// fi_atomic(3) lists the operations of each family.
    pub fn has(self, op: fi_op) -> bool {
        match op {
            FI_ATOMIC_READ => self == Family::Fetch,
            FI_MIN | FI_MAX | FI_SUM | FI_PROD | FI_DIFF | FI_LOR | FI_LAND | FI_LXOR | FI_BOR
            | FI_BAND | FI_BXOR | FI_ATOMIC_WRITE => self != Family::Compare,
            _ => self == Family::Compare,
        }
    }
}

/// Limits of a call for one operation and datatype.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Elements {
    /// Bytes of an element.
    pub size: usize,
    /// Maximum of elements in one call.
    pub count: usize,
}

/// An atomic operation that the initiator posts. All lists of memory have the same total number of whole elements.
pub struct Atomic<'a> {
    pub family: Family,
    pub datatype: fi_datatype,
    pub op: fi_op,
    /// Empty for FI_ATOMIC_READ.
    pub operands: IoVec,
    /// Only for the family Compare.
    pub compare: IoVec,
    /// Not for the family Base.
    pub result: IoVec,
    /// Operation flags; FI_COMPLETION: report success.
    pub flags: OpFlags,
    pub dest: u64,
    pub context: Context,
    pub data: u64,
    pub target: &'a [RemoteSeg],
}

pub trait AtomicPath: DataPath {
    /// Returns `OPNOTSUPP` if the endpoint does not support the operation.
    fn elements(&self, family: Family, datatype: fi_datatype, op: fi_op) -> Result<Elements>;
    fn atomic(&self, atomic: &mut Atomic<'_>) -> Result;
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

pub static NONE: fi_ops_atomic = Missing::TABLE;

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
    // SAFETY: as in `write`, for the memory that `msg` names.
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
    // SAFETY: as in `write`; the library may write the result until the completion.
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
    // SAFETY: as in `readwrite`, for the memory that `msg` names.
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
    // SAFETY: as in `readwrite`; the values to compare stay unchanged until the completion, too.
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
    // SAFETY: as in `compwrite`, for the memory that `msg` names.
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
