// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `struct fi_ops_collective`: fi_collective(3).

use core::ffi::c_void;

use crate::ops::missing::Missing;
use crate::ops::status;
use crate::ops::transfer::{DataPath, check_flags, endpoint, single};
use abi::*;
use base::flags::flags;
use base::{Error, IoVec, OpFlags, Result};

/// A collective to post.
pub struct Collective {
    pub what: fi_collective_op,
    pub datatype: fi_datatype,
    pub op: fi_op,
    /// The group.
    pub group: u64,
    /// FI_ADDR_NOTAVAIL for calls without a root.
    pub root: u64,
    /// Bytes of `count` elements.
    pub slice: usize,
    pub context: usize,
    /// Data that this member contributes and receives; empty if it has none.
    pub input: IoVec,
    pub output: IoVec,
}

pub trait CollectiveCalls: DataPath {
    /// Returns the size of an element; FI_EOPNOTSUPP if the collective is not supported.
    fn element(&self, what: fi_collective_op, datatype: fi_datatype, op: fi_op) -> Result<usize>;
    /// Returns how many slices this member contributes and receives.
    fn extent(&self, what: fi_collective_op, group: u64, root: u64) -> Result<(usize, usize)>;
    fn collect(&self, call: Collective) -> Result;
}

pub fn table<T: CollectiveCalls>() -> &'static fi_ops_collective {
    &fi_ops_collective {
        barrier: Some(barrier::<T>),
        broadcast: Some(broadcast::<T>),
        alltoall: Some(alltoall::<T>),
        allreduce: Some(allreduce::<T>),
        allgather: Some(allgather::<T>),
        reduce_scatter: Some(reduce_scatter::<T>),
        reduce: Some(reduce::<T>),
        scatter: Some(scatter::<T>),
        gather: Some(gather::<T>),
        barrier2: Some(barrier2::<T>),
        ..Missing::TABLE
    }
}

pub static NONE: fi_ops_collective = Missing::TABLE;

/// The arguments of one call.
struct Call {
    what: fi_collective_op,
    /// A buffer, and its descriptor.
    buf: (*const c_void, *mut c_void),
    result: (*mut c_void, *mut c_void),
    count: usize,
    datatype: fi_datatype,
    op: fi_op,
    group: fi_addr_t,
    root: fi_addr_t,
    flags: u64,
    context: *mut c_void,
}

impl Call {
    /// Returns the arguments of a call without data.
    const fn new(what: fi_collective_op, group: fi_addr_t, context: *mut c_void) -> Call {
        Call {
            what,
            buf: (core::ptr::null(), core::ptr::null_mut()),
            result: (core::ptr::null_mut(), core::ptr::null_mut()),
            count: 0,
            datatype: FI_VOID,
            op: FI_NOOP,
            group,
            root: FI_ADDR_NOTAVAIL,
            flags: 0,
            context,
        }
    }
}

/// Flags of a call. A result is complete when it is there: no stricter completion level exists.
const FLAGS: OpFlags = flags!(OpFlags: COMPLETION | MORE | INJECT | INJECT_COMPLETE);
const LEVELS: OpFlags = flags!(OpFlags:
    TRANSMIT_COMPLETE | DELIVERY_COMPLETE | COMMIT_COMPLETE | MATCH_COMPLETE
);

/// # Safety
/// As fi_collective(3) requires for the endpoint and the buffers, which have room for the data of this member and
/// belong to the library until the completion.
unsafe fn post<T: CollectiveCalls>(ep: *mut fid_ep, call: Call) -> isize {
    // SAFETY: promised by the caller.
    let ep = unsafe { endpoint::<T>(ep) };
    status(ep.and_then(|ep| {
        let flags = OpFlags::from_bits_retain(call.flags);
        check_flags(flags, FLAGS | LEVELS)?;
        if flags.intersects(LEVELS) {
            return Err(Error::OPNOTSUPP);
        }
        let element = ep.element(call.what, call.datatype, call.op)?;
        let slice = call.count.checked_mul(element).ok_or(Error::MSGSIZE)?;
        let (brings, gets) = ep.extent(call.what, call.group, call.root)?;
        let bytes = |slices: usize| slice.checked_mul(slices).ok_or(Error::MSGSIZE);
        let buffer = |base: *const c_void, desc, slices| match slices {
            0 => Ok(IoVec::empty()),
            // SAFETY: promised by the caller: a buffer with as many slices as the member contributes or receives.
            _ => unsafe { single(base, bytes(slices)?, desc) },
        };
        ep.collect(Collective {
            what: call.what,
            datatype: call.datatype,
            op: call.op,
            group: call.group,
            root: call.root,
            slice,
            context: call.context as usize,
            input: buffer(call.buf.0, call.buf.1, brings)?,
            output: buffer(call.result.0, call.result.1, gets)?,
        })
    }))
}

unsafe extern "C" fn barrier<T: CollectiveCalls>(
    ep: *mut fid_ep,
    coll_addr: fi_addr_t,
    context: *mut c_void,
) -> isize {
    // SAFETY: an open endpoint.
    unsafe { post::<T>(ep, Call::new(FI_BARRIER, coll_addr, context)) }
}

unsafe extern "C" fn barrier2<T: CollectiveCalls>(
    ep: *mut fid_ep,
    coll_addr: fi_addr_t,
    flags: u64,
    context: *mut c_void,
) -> isize {
    let call = Call {
        flags,
        ..Call::new(FI_BARRIER, coll_addr, context)
    };
    // SAFETY: an open endpoint.
    unsafe { post::<T>(ep, call) }
}

unsafe extern "C" fn broadcast<T: CollectiveCalls>(
    ep: *mut fid_ep,
    buf: *mut c_void,
    count: usize,
    desc: *mut c_void,
    coll_addr: fi_addr_t,
    root_addr: fi_addr_t,
    datatype: fi_datatype,
    flags: u64,
    context: *mut c_void,
) -> isize {
    let call = Call {
        buf: (buf, desc),
        result: (buf, desc),
        count,
        datatype,
        root: root_addr,
        flags,
        ..Call::new(FI_BROADCAST, coll_addr, context)
    };
    // SAFETY: an open endpoint; `buf` has `count` elements.
    unsafe { post::<T>(ep, call) }
}

/// Calls without an operation and without a root.
macro_rules! exchange {
    ($name:ident, $what:ident) => {
        unsafe extern "C" fn $name<T: CollectiveCalls>(
            ep: *mut fid_ep,
            buf: *const c_void,
            count: usize,
            desc: *mut c_void,
            result: *mut c_void,
            result_desc: *mut c_void,
            coll_addr: fi_addr_t,
            datatype: fi_datatype,
            flags: u64,
            context: *mut c_void,
        ) -> isize {
            let call = Call {
                buf: (buf, desc),
                result: (result, result_desc),
                count,
                datatype,
                flags,
                ..Call::new($what, coll_addr, context)
            };
            // SAFETY: an open endpoint; the buffers have the slices that fi_collective(3) requires.
            unsafe { post::<T>(ep, call) }
        }
    };
}

exchange!(alltoall, FI_ALLTOALL);
exchange!(allgather, FI_ALLGATHER);

/// Calls with an operation.
macro_rules! reduction {
    ($name:ident, $what:ident) => {
        unsafe extern "C" fn $name<T: CollectiveCalls>(
            ep: *mut fid_ep,
            buf: *const c_void,
            count: usize,
            desc: *mut c_void,
            result: *mut c_void,
            result_desc: *mut c_void,
            coll_addr: fi_addr_t,
            datatype: fi_datatype,
            op: fi_op,
            flags: u64,
            context: *mut c_void,
        ) -> isize {
            let call = Call {
                buf: (buf, desc),
                result: (result, result_desc),
                count,
                datatype,
                op,
                flags,
                ..Call::new($what, coll_addr, context)
            };
            // SAFETY: as for the calls without an operation.
            unsafe { post::<T>(ep, call) }
        }
    };
}

reduction!(allreduce, FI_ALLREDUCE);
reduction!(reduce_scatter, FI_REDUCE_SCATTER);

unsafe extern "C" fn reduce<T: CollectiveCalls>(
    ep: *mut fid_ep,
    buf: *const c_void,
    count: usize,
    desc: *mut c_void,
    result: *mut c_void,
    result_desc: *mut c_void,
    coll_addr: fi_addr_t,
    root_addr: fi_addr_t,
    datatype: fi_datatype,
    op: fi_op,
    flags: u64,
    context: *mut c_void,
) -> isize {
    let call = Call {
        buf: (buf, desc),
        result: (result, result_desc),
        count,
        datatype,
        op,
        root: root_addr,
        flags,
        ..Call::new(FI_REDUCE, coll_addr, context)
    };
    // SAFETY: an open endpoint; the buffers have `count` elements, `result` at the root.
    unsafe { post::<T>(ep, call) }
}

/// Calls between the root and all others.
macro_rules! rooted {
    ($name:ident, $what:ident) => {
        unsafe extern "C" fn $name<T: CollectiveCalls>(
            ep: *mut fid_ep,
            buf: *const c_void,
            count: usize,
            desc: *mut c_void,
            result: *mut c_void,
            result_desc: *mut c_void,
            coll_addr: fi_addr_t,
            root_addr: fi_addr_t,
            datatype: fi_datatype,
            flags: u64,
            context: *mut c_void,
        ) -> isize {
            let call = Call {
                buf: (buf, desc),
                result: (result, result_desc),
                count,
                datatype,
                root: root_addr,
                flags,
                ..Call::new($what, coll_addr, context)
            };
            // SAFETY: as for `reduce`; at the root the larger buffer has a slice for each member.
            unsafe { post::<T>(ep, call) }
        }
    };
}

rooted!(scatter, FI_SCATTER);
rooted!(gather, FI_GATHER);
