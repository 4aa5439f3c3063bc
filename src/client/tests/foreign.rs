// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A mock provider for single-threaded tests. Its objects record each call and return the results that the test has
//! set.

use core::cell::{Cell, RefCell};
use core::ffi::{c_int, c_void};
use core::mem::zeroed;
use core::ptr::null_mut;
use std::collections::VecDeque;
use std::sync::Arc;

use crate::{Domain, Fabric, Info};
use abi::*;

thread_local! {
    static CALLS: RefCell<Vec<String>> = const { RefCell::new(vec![]) };
    /// Class of objects, and the result of closing them.
    static CLOSING: Cell<(u32, c_int)> = const { Cell::new((0, 0)) };
    /// Result of posting an operation.
    static POSTING: Cell<c_int> = const { Cell::new(0) };
    /// Entries or results of the next reads of a queue.
    static READS: RefCell<VecDeque<Read>> = const { RefCell::new(VecDeque::new()) };
    static DOMAIN_OPS: Cell<*mut fi_ops_domain> = const { Cell::new((&raw const DOMAIN_OPS_ALL).cast_mut()) };
}

pub enum Read {
    Words(Vec<u64>, ssize_t),
    /// The kind of an event, and its entry.
    Event(u32, Vec<u64>),
    Code(c_int),
}

/// Returns the calls since the last call of this function.
pub fn calls() -> Vec<String> {
    CALLS.take()
}

fn note(call: String) {
    CALLS.with_borrow_mut(|calls| calls.push(call));
}

pub fn closing_fails(class: u32, code: c_int) {
    CLOSING.set((class, code));
}

pub fn posting_answers(code: c_int) {
    POSTING.set(code);
}

pub fn next_read(read: Read) {
    READS.with_borrow_mut(|reads| reads.push_back(read));
}

/// Sets the table of the domains that are opened from now on.
pub fn domain_table(table: fi_ops_domain) {
    DOMAIN_OPS.set(Box::leak(Box::new(table)));
}

/// The default table of domains.
pub const DOMAIN: fi_ops_domain = fi_ops_domain {
    size: size_of::<fi_ops_domain>(),
    cq_open: Some(cq_open),
    cntr_open: Some(cntr_open),
    endpoint: Some(endpoint),
    // SAFETY: a table of NULLs.
    ..unsafe { zeroed() }
};

pub fn fabric() -> Arc<Fabric> {
    let fabric = new(fid_fabric {
        fid: head(FI_CLASS_FABRIC),
        ops: (&raw const FABRIC_OPS).cast_mut(),
        api_version: 0,
    });
    // SAFETY: opened just now, and not used elsewhere.
    unsafe { Fabric::adopt(fabric) }.unwrap()
}

/// Returns an entry with the attributes that `change` sets. It is never freed.
pub fn info(change: impl FnOnce(&mut fi_info, &mut fi_domain_attr)) -> Info<'static> {
    // SAFETY: numbers and pointers, for which zeros are values.
    let (info, domain) = unsafe {
        let domain: *mut fi_domain_attr = Box::leak(Box::new(zeroed()));
        let info: &mut fi_info = Box::leak(Box::new(zeroed()));
        info.domain_attr = domain;
        (info, &mut *domain)
    };
    change(info, domain);
    // SAFETY: its pointers are NULL, except the one that was just set.
    unsafe { Info::from_raw(info) }
}

pub fn domain(fabric: &Arc<Fabric>) -> Arc<Domain> {
    // SAFETY: a test is one thread.
    unsafe { Domain::open(fabric, info(|_, _| ())) }.unwrap()
}

fn new<T>(object: T) -> *mut T {
    Box::into_raw(Box::new(object))
}

fn head(class: u32) -> fid {
    fid {
        fclass: class as usize,
        context: null_mut(),
        ops: (&raw const OPS).cast_mut(),
    }
}

static DOMAIN_OPS_ALL: fi_ops_domain = DOMAIN;

static OPS: fi_ops = fi_ops {
    size: size_of::<fi_ops>(),
    close: Some(close),
    bind: Some(bind),
    control: Some(control),
    // SAFETY: a table of NULLs.
    ..unsafe { zeroed() }
};

static FABRIC_OPS: fi_ops_fabric = fi_ops_fabric {
    size: size_of::<fi_ops_fabric>(),
    domain: Some(open_domain),
    eq_open: Some(eq_open),
    // SAFETY: a table of NULLs.
    ..unsafe { zeroed() }
};

static MR_OPS: fi_ops_mr = fi_ops_mr {
    size: size_of::<fi_ops_mr>(),
    reg: Some(reg),
    regv: None,
    regattr: Some(regattr),
};

static EQ_OPS: fi_ops_eq = fi_ops_eq {
    size: size_of::<fi_ops_eq>(),
    read: Some(eq_read),
    // SAFETY: a table of NULLs.
    ..unsafe { zeroed() }
};

static CQ_OPS: fi_ops_cq = fi_ops_cq {
    size: size_of::<fi_ops_cq>(),
    read: Some(cq_read),
    readerr: Some(cq_readerr),
    // SAFETY: a table of NULLs.
    ..unsafe { zeroed() }
};

/// The table of a provider that was built with an older header, which has only the first members.
static CNTR_OPS: fi_ops_cntr = fi_ops_cntr {
    size: core::mem::offset_of!(fi_ops_cntr, readerr),
    read: Some(cntr_read),
    readerr: Some(cntr_read),
    add: Some(cntr_add),
    // SAFETY: a table of NULLs.
    ..unsafe { zeroed() }
};

static EP_OPS: fi_ops_ep = fi_ops_ep {
    size: size_of::<fi_ops_ep>(),
    getopt: Some(getopt),
    // SAFETY: a table of NULLs.
    ..unsafe { zeroed() }
};

static CM_OPS: fi_ops_cm = fi_ops_cm {
    size: size_of::<fi_ops_cm>(),
    getname: Some(getname),
    connect: Some(connect),
    // SAFETY: a table of NULLs.
    ..unsafe { zeroed() }
};

static MSG_OPS: fi_ops_msg = fi_ops_msg {
    size: size_of::<fi_ops_msg>(),
    recvmsg: Some(recvmsg),
    send: Some(send),
    sendv: Some(sendv),
    // SAFETY: a table of NULLs.
    ..unsafe { zeroed() }
};

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    // SAFETY: one of the objects here, which begin alike.
    let class = unsafe { (*fid).fclass } as u32;
    let (failing, code) = CLOSING.get();
    if class == failing && code != 0 {
        return code;
    }
    // SAFETY: made by `new`, as this type, and closed once.
    let name = unsafe {
        match class {
            FI_CLASS_FABRIC => free::<fid_fabric>(fid, "fabric"),
            FI_CLASS_DOMAIN => free::<fid_domain>(fid, "domain"),
            FI_CLASS_EQ => free::<fid_eq>(fid, "eq"),
            FI_CLASS_CQ => free::<fid_cq>(fid, "cq"),
            FI_CLASS_CNTR => free::<fid_cntr>(fid, "cntr"),
            FI_CLASS_MR => free::<fid_mr>(fid, "mr"),
            FI_CLASS_EP => free::<fid_ep>(fid, "ep"),
            _ => panic!("class {class}"),
        }
    };
    note(format!("close {name}"));
    0
}

/// # Safety
/// `fid` was made by `new::<T>` and is not used again.
unsafe fn free<T>(fid: *mut fid, name: &str) -> &str {
    // SAFETY: promised by the caller.
    drop(unsafe { Box::from_raw(fid.cast::<T>()) });
    name
}

unsafe extern "C" fn bind(_: *mut fid, _: *mut fid, flags: u64) -> c_int {
    note(format!("bind {flags:x}"));
    0
}

unsafe extern "C" fn control(_: *mut fid, command: c_int, arg: *mut c_void) -> c_int {
    note(format!("control {command}"));
    if command as u32 == FI_GETWAIT {
        // SAFETY: the client uses this command only on objects with FI_WAIT_FD.
        unsafe { arg.cast::<c_int>().write(77) };
    }
    0
}

unsafe extern "C" fn open_domain(
    _: *mut fid_fabric,
    _: *mut fi_info,
    domain: *mut *mut fid_domain,
    _: *mut c_void,
) -> c_int {
    let made = new(fid_domain {
        fid: head(FI_CLASS_DOMAIN),
        ops: DOMAIN_OPS.get(),
        mr: (&raw const MR_OPS).cast_mut(),
    });
    // SAFETY: the client's place for the result; so in all opening calls.
    unsafe { domain.write(made) };
    0
}

unsafe extern "C" fn eq_open(
    _: *mut fid_fabric,
    _: *mut fi_eq_attr,
    eq: *mut *mut fid_eq,
    _: *mut c_void,
) -> c_int {
    let (fid, ops) = (head(FI_CLASS_EQ), (&raw const EQ_OPS).cast_mut());
    // SAFETY: as in `open_domain`.
    unsafe { eq.write(new(fid_eq { fid, ops })) };
    0
}

unsafe extern "C" fn cq_open(
    _: *mut fid_domain,
    _: *mut fi_cq_attr,
    cq: *mut *mut fid_cq,
    _: *mut c_void,
) -> c_int {
    let (fid, ops) = (head(FI_CLASS_CQ), (&raw const CQ_OPS).cast_mut());
    // SAFETY: as in `open_domain`.
    unsafe { cq.write(new(fid_cq { fid, ops })) };
    0
}

unsafe extern "C" fn cntr_open(
    _: *mut fid_domain,
    _: *mut fi_cntr_attr,
    cntr: *mut *mut fid_cntr,
    _: *mut c_void,
) -> c_int {
    let (fid, ops) = (head(FI_CLASS_CNTR), (&raw const CNTR_OPS).cast_mut());
    // SAFETY: as in `open_domain`.
    unsafe { cntr.write(new(fid_cntr { fid, ops })) };
    0
}

unsafe extern "C" fn endpoint(
    _: *mut fid_domain,
    _: *mut fi_info,
    ep: *mut *mut fid_ep,
    _: *mut c_void,
) -> c_int {
    let made = new(fid_ep {
        fid: head(FI_CLASS_EP),
        ops: (&raw const EP_OPS).cast_mut(),
        cm: (&raw const CM_OPS).cast_mut(),
        msg: (&raw const MSG_OPS).cast_mut(),
        rma: null_mut(),
        tagged: null_mut(),
        atomic: null_mut(),
        collective: null_mut(),
        wr: null_mut(),
    });
    // SAFETY: as in `open_domain`.
    unsafe { ep.write(made) };
    0
}

unsafe extern "C" fn reg(
    _: *mut fid,
    _: *const c_void,
    len: usize,
    access: u64,
    _: u64,
    key: u64,
    _: u64,
    mr: *mut *mut fid_mr,
    _: *mut c_void,
) -> c_int {
    note(format!("reg {len} {access:x}"));
    let made = new(fid_mr {
        fid: head(FI_CLASS_MR),
        mem_desc: core::ptr::without_provenance_mut(0xde5c),
        key,
    });
    // SAFETY: as in `open_domain`.
    unsafe { mr.write(made) };
    0
}

unsafe extern "C" fn regattr(
    fid: *mut fid,
    attr: *const fi_mr_attr,
    _: u64,
    mr: *mut *mut fid_mr,
) -> c_int {
    // SAFETY: the client's attributes, of one piece, and its place for the result.
    unsafe {
        let (piece, access, key) = (
            &*(*attr).anonymous.mr_iov,
            (*attr).access,
            (*attr).requested_key,
        );
        let (base, len) = (piece.iov_base, piece.iov_len);
        reg(fid, base, len, access, 0, key, 0, mr, null_mut())
    }
}

/// Writes the next entry that the test has queued into `room` bytes.
///
/// # Safety
/// `at` has `room` bytes.
unsafe fn read(at: *mut c_void, room: usize, event: Option<*mut u32>) -> ssize_t {
    let Some(next) = READS.with_borrow_mut(VecDeque::pop_front) else {
        return -(FI_EAGAIN as ssize_t);
    };
    let (words, answer) = match next {
        Read::Code(code) => return code as ssize_t,
        Read::Words(words, answer) => (words, answer),
        Read::Event(kind, words) => {
            let len = words.len() * 8;
            if len > room {
                next_read(Read::Event(kind, words));
                return -(FI_ETOOSMALL as ssize_t);
            }
            // SAFETY: the client's place for the kind.
            unsafe { event.unwrap().write(kind) };
            (words, len as ssize_t)
        }
    };
    assert!(words.len() * 8 <= room, "the client gave less room");
    // SAFETY: just compared.
    unsafe { at.cast::<u64>().copy_from(words.as_ptr(), words.len()) };
    answer
}

unsafe extern "C" fn cq_read(_: *mut fid_cq, at: *mut c_void, count: usize) -> ssize_t {
    // SAFETY: the client passes memory for `count` entries; tests queue entries of that format.
    unsafe { read(at, count * size_of::<fi_cq_tagged_entry>(), None) }
}

unsafe extern "C" fn cq_readerr(_: *mut fid_cq, entry: *mut fi_cq_err_entry, _: u64) -> ssize_t {
    const DETAIL: &[u8] = b"why";
    // SAFETY: the client's entry, with room for the detail.
    unsafe {
        assert!((*entry).err_data_size >= DETAIL.len());
        (*entry)
            .err_data
            .cast::<u8>()
            .copy_from(DETAIL.as_ptr(), DETAIL.len());
        (*entry).err_data_size = DETAIL.len();
        (*entry).op_context = core::ptr::without_provenance_mut(5);
        (*entry).err = FI_ETRUNC;
        (*entry).olen = 9;
    }
    1
}

unsafe extern "C" fn eq_read(
    _: *mut fid_eq,
    event: *mut u32,
    at: *mut c_void,
    len: usize,
    _: u64,
) -> ssize_t {
    // SAFETY: the client's room.
    unsafe { read(at, len, Some(event)) }
}

unsafe extern "C" fn cntr_read(_: *mut fid_cntr) -> u64 {
    42
}

unsafe extern "C" fn cntr_add(_: *mut fid_cntr, _: u64) -> c_int {
    panic!("beyond the size of the table");
}

unsafe extern "C" fn getopt(
    _: fid_t,
    _: c_int,
    _: c_int,
    at: *mut c_void,
    len: *mut usize,
) -> c_int {
    // SAFETY: the client's room for a value of this size.
    unsafe {
        if *len < 8 {
            return -FI_ETOOSMALL;
        }
        at.cast::<u64>().write(640);
        len.write(8);
    }
    0
}

/// Longer than the buffer that the client passes at first.
pub const NAME: usize = 700;

unsafe extern "C" fn getname(_: fid_t, at: *mut c_void, len: *mut usize) -> c_int {
    // SAFETY: the client's room.
    unsafe {
        let room = len.replace(NAME);
        at.cast::<u8>().write_bytes(b'n', room.min(NAME));
        if room < NAME { -FI_ETOOSMALL } else { 0 }
    }
}

unsafe extern "C" fn connect(
    _: *mut fid_ep,
    addr: *const c_void,
    param: *const c_void,
    len: usize,
) -> c_int {
    // SAFETY: the client copies the address into a buffer for the longest address; the parameter is readable.
    let zeros = unsafe {
        let addr = core::slice::from_raw_parts(addr.cast::<u8>(), 128);
        addr.iter().filter(|byte| **byte == 0).count()
    };
    note(format!("connect {zeros} {} {len}", param.is_null()));
    -FI_ECONNREFUSED
}

unsafe extern "C" fn send(
    _: *mut fid_ep,
    _: *const c_void,
    len: usize,
    desc: *mut c_void,
    dest: fi_addr_t,
    context: *mut c_void,
) -> ssize_t {
    note(format!("send {len} {:x} {dest}", desc.addr()));
    if POSTING.get() == 0 {
        let entry = vec![context.addr() as u64, FI_SEND, len as u64];
        next_read(Read::Words(entry, 1));
    }
    POSTING.get() as ssize_t
}

unsafe extern "C" fn recvmsg(_: *mut fid_ep, msg: *const fi_msg, flags: u64) -> ssize_t {
    // SAFETY: a message of one piece.
    let (len, desc, context) = unsafe {
        let msg = &*msg;
        ((*msg.msg_iov).iov_len, *msg.desc, msg.context)
    };
    note(format!("recvmsg {len} {:x} {flags:x}", desc.addr()));
    next_read(Read::Words(vec![context.addr() as u64, FI_RECV, 0], 1));
    0
}

unsafe extern "C" fn sendv(
    _: *mut fid_ep,
    iov: *const iovec,
    desc: *mut *mut c_void,
    count: usize,
    _: fi_addr_t,
    context: *mut c_void,
) -> ssize_t {
    for i in 0..count {
        // SAFETY: the arrays have that many elements.
        let (len, desc) = unsafe { ((*iov.add(i)).iov_len, *desc.add(i)) };
        note(format!("piece {len} {:x}", desc.addr()));
    }
    if POSTING.get() == 0 {
        next_read(Read::Words(vec![context.addr() as u64, FI_SEND, 0], 1));
    }
    POSTING.get() as ssize_t
}
