// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `struct fi_ops_rma`: fi_rma(3).

use core::ffi::c_void;

use crate::ops::missing::Missing;
use crate::ops::status;
use crate::ops::transfer::*;
use abi::*;
use base::{Error, IoVec, OpFlags, Result};
use hmem::Desc;
use sys::probe;

pub fn table<T: DataPath>() -> &'static fi_ops_rma {
    &fi_ops_rma {
        size: size_of::<fi_ops_rma>(),
        read: Some(read::<T>),
        readv: Some(readv::<T>),
        readmsg: Some(readmsg::<T>),
        write: Some(write::<T>),
        writev: Some(writev::<T>),
        writemsg: Some(writemsg::<T>),
        inject: Some(inject::<T>),
        writedata: Some(writedata::<T>),
        injectdata: Some(injectdata::<T>),
    }
}

/// Returns the table of an endpoint that only reads.
pub fn read_table<T: DataPath>() -> &'static fi_ops_rma {
    &fi_ops_rma {
        read: Some(read::<T>),
        readv: Some(readv::<T>),
        readmsg: Some(readmsg::<T>),
        ..Missing::TABLE
    }
}

/// Returns the table of an endpoint that only writes.
pub fn write_table<T: DataPath>() -> &'static fi_ops_rma {
    &fi_ops_rma {
        write: Some(write::<T>),
        writev: Some(writev::<T>),
        writemsg: Some(writemsg::<T>),
        inject: Some(inject::<T>),
        writedata: Some(writedata::<T>),
        injectdata: Some(injectdata::<T>),
        ..Missing::TABLE
    }
}

pub static NONE: fi_ops_rma = Missing::TABLE;

/// The common arguments of the calls with one target segment.
struct Call {
    what: What,
    dest: fi_addr_t,
    addr: u64,
    key: u64,
    data: u64,
    context: *mut c_void,
}

/// # Safety
/// As fi_rma(3) requires for the endpoint, the buffers in `iov`, and the context.
#[inline]
unsafe fn post<T: DataPath>(
    ep: *mut fid_ep,
    iov: impl FnOnce(&T) -> Result<IoVec>,
    call: Call,
    flags: impl FnOnce(&T, usize) -> Result<OpFlags>,
) -> isize {
    // SAFETY: promised by the caller.
    let context = unsafe { Given::new(call.context) };
    probe::post(ep.addr(), context.number(), call.dest, 0);
    // SAFETY: as above.
    let ep = unsafe { endpoint::<T>(ep) };
    status(ep.and_then(|ep| {
        let iov = match call.what {
            What::Read => iov(ep)?,
            _ => iov(ep)?.as_source(),
        };
        let flags = flags(ep, iov.remaining())?;
        ep.transmit(&mut Tx {
            what: call.what,
            flags,
            dest: call.dest,
            context: context.with(flags),
            data: call.data,
            tag: 0,
            target: &[RemoteSeg {
                addr: call.addr,
                len: iov.remaining(),
                key: call.key,
            }],
            iov,
        })
    }))
}

/// # Safety
/// As fi_rma(3) requires for the endpoint, the buffer, and the context.
#[inline]
unsafe fn write_one<T: DataPath>(
    ep: *mut fid_ep,
    (buf, len, desc): (*const c_void, usize, *mut c_void),
    call: Call,
    flags: impl FnOnce(&T, usize) -> Result<OpFlags>,
) -> isize {
    // SAFETY: promised by the caller.
    let context = unsafe { Given::new(call.context) };
    probe::post(ep.addr(), context.number(), call.dest, 0);
    // SAFETY: as above.
    let given = || unsafe { Ok((endpoint::<T>(ep)?, source(buf, len)?)) };
    status(given().and_then(|(ep, piece): (&T, _)| {
        let flags = flags(ep, len)?;
        ep.write_one(OneWrite {
            piece,
            desc: Desc::new(desc),
            flags,
            dest: call.dest,
            context: context.with(flags),
            data: call.data,
            target: RemoteSeg {
                addr: call.addr,
                len,
                key: call.key,
            },
        })
    }))
}

unsafe extern "C" fn read<T: DataPath>(
    ep: *mut fid_ep,
    buf: *mut c_void,
    len: usize,
    desc: *mut c_void,
    src_addr: fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let call = Call {
        what: What::Read,
        dest: src_addr,
        addr,
        key,
        data: 0,
        context,
    };
    // SAFETY: fi_rma(3): an open endpoint; the buffer belongs to the library until the completion.
    unsafe { post::<T>(ep, |_| single(buf, len, desc), call, by_default) }
}

unsafe extern "C" fn readv<T: DataPath>(
    ep: *mut fid_ep,
    iov: *const iovec,
    desc: *mut *mut c_void,
    count: usize,
    src_addr: fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let call = Call {
        what: What::Read,
        dest: src_addr,
        addr,
        key,
        data: 0,
        context,
    };
    // SAFETY: as in `read`, for `count` buffers.
    unsafe {
        post::<T>(
            ep,
            |ep| several(iov, used(ep, desc), count),
            call,
            by_default,
        )
    }
}

unsafe extern "C" fn write<T: DataPath>(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    desc: *mut c_void,
    dest_addr: fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let call = Call {
        what: What::Write,
        dest: dest_addr,
        addr,
        key,
        data: 0,
        context,
    };
    // SAFETY: fi_rma(3): an open endpoint; the buffer stays unchanged until the completion.
    unsafe { write_one::<T>(ep, (buf, len, desc), call, by_default) }
}

unsafe extern "C" fn writev<T: DataPath>(
    ep: *mut fid_ep,
    iov: *const iovec,
    desc: *mut *mut c_void,
    count: usize,
    dest_addr: fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let call = Call {
        what: What::Write,
        dest: dest_addr,
        addr,
        key,
        data: 0,
        context,
    };
    // SAFETY: as in `write`, for `count` buffers.
    unsafe {
        post::<T>(
            ep,
            |ep| several(iov, used(ep, desc), count),
            call,
            by_default,
        )
    }
}

unsafe extern "C" fn writedata<T: DataPath>(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    desc: *mut c_void,
    data: u64,
    dest_addr: fi_addr_t,
    addr: u64,
    key: u64,
    context: *mut c_void,
) -> isize {
    let call = Call {
        what: What::Write,
        dest: dest_addr,
        addr,
        key,
        data,
        context,
    };
    let flags = |ep: &T, _: usize| Ok(ep.tx_flags() | OpFlags::REMOTE_CQ_DATA);
    // SAFETY: as in `write`.
    unsafe { write_one::<T>(ep, (buf, len, desc), call, flags) }
}

unsafe extern "C" fn inject<T: DataPath>(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    dest_addr: fi_addr_t,
    addr: u64,
    key: u64,
) -> isize {
    let call = Call {
        what: What::Write,
        dest: dest_addr,
        addr,
        key,
        data: 0,
        context: core::ptr::null_mut(),
    };
    // SAFETY: as in `write`, until the return of the call.
    unsafe {
        write_one::<T>(ep, (buf, len, core::ptr::null_mut()), call, |ep, len| {
            injected(ep, What::Write, len, FI_WRITE)
        })
    }
}

unsafe extern "C" fn injectdata<T: DataPath>(
    ep: *mut fid_ep,
    buf: *const c_void,
    len: usize,
    data: u64,
    dest_addr: fi_addr_t,
    addr: u64,
    key: u64,
) -> isize {
    let call = Call {
        what: What::Write,
        dest: dest_addr,
        addr,
        key,
        data,
        context: core::ptr::null_mut(),
    };
    // SAFETY: as in `inject`.
    unsafe {
        write_one::<T>(ep, (buf, len, core::ptr::null_mut()), call, |ep, len| {
            Ok(injected(ep, What::Write, len, FI_WRITE)? | OpFlags::REMOTE_CQ_DATA)
        })
    }
}

unsafe extern "C" fn readmsg<T: DataPath>(
    ep: *mut fid_ep,
    msg: *const fi_msg_rma,
    flags: u64,
) -> isize {
    // SAFETY: the caller's promise, passed on.
    unsafe { post_msg::<T>(ep, What::Read, msg, flags) }
}

unsafe extern "C" fn writemsg<T: DataPath>(
    ep: *mut fid_ep,
    msg: *const fi_msg_rma,
    flags: u64,
) -> isize {
    // SAFETY: the caller's promise, passed on.
    unsafe { post_msg::<T>(ep, What::Write, msg, flags) }
}

/// # Safety
/// `ep` must be an open endpoint and `msg` as fi_rma(3) describes it.
unsafe fn post_msg<T: DataPath>(
    ep: *mut fid_ep,
    what: What,
    msg: *const fi_msg_rma,
    flags: u64,
) -> isize {
    if msg.is_null() {
        return Error::INVAL.negative() as isize;
    }
    let place = ep.addr();
    // SAFETY: an open endpoint; `msg` and what it points to are readable during the call, the buffers until the
    // completion.
    status(unsafe {
        endpoint::<T>(ep).and_then(|ep| {
            let flags = OpFlags::from_bits_retain(flags);
            check_flags(flags, SEND_FLAGS)?;
            let (segs, count) = ((*msg).rma_iov, (*msg).rma_iov_count);
            if segs.is_null() || count == 0 {
                return Err(Error::INVAL);
            }
            let mut iov = several((*msg).msg_iov, used(ep, (*msg).desc), (*msg).iov_count)?;
            // fi_rma(3): FI_INJECT applies to writes; a read has no outbound data.
            if what == What::Write {
                iov = iov.as_source();
                check_inject(ep, what, flags, iov.remaining())?;
            }
            probe::post(place, (*msg).context.addr(), (*msg).addr, 0);
            let flags = flags | ep.tx_implied();
            ep.transmit(&mut Tx {
                what,
                iov,
                flags,
                dest: (*msg).addr,
                context: Given::new((*msg).context).with(flags),
                data: (*msg).data,
                tag: 0,
                target: core::slice::from_raw_parts(segs.cast::<RemoteSeg>(), count),
            })
        })
    })
}
