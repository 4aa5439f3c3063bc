// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Slots with handles in memory that the argument types do not describe: events, arrays, commands.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::offset_of;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering;

use super::call::{Slot, UNFINISHED};
use super::credits;
use super::trigger::{enter_work, triggers, triggers_of};
use super::{Call, Note, WATCHED, Wrapped, Wrapper, inside, outside, wrap};
use abi::*;
use base::Error;
use object::handle;
use object::live;
use object::ops::status;
use object::slots;

/// Implements the slot `close` of a wrapper.
pub(super) unsafe extern "C" fn close<H: Wrapped>(fid: *mut fid) -> c_int {
    let seen = |wrapper: &Wrapper<H>| {
        // SAFETY: the object inside is open as long as the wrapper is.
        let class = unsafe { (*wrapper.fid()).fclass } as u32;
        (wrapper.layer.clone(), wrapper.fid().addr(), class)
    };
    let Some((layer, object, class)) = handle::with(fid.addr(), seen) else {
        return match fid.is_null() {
            true => Error::INVAL.negative(),
            false => Error::BADF.negative(),
        };
    };
    let mut values = [];
    let mut call = Call {
        slot: const { Slot::of("base", "close") },
        object,
        result: UNFINISHED,
        format: 0,
        domain: 0,
        app_api: 0,
        names: &[],
        values: &mut values,
        kept: Vec::new(),
    };
    let watch = layer.watch.as_deref();
    let before = watch.map_or(0, |watch| watch.before(&mut call));
    // SAFETY: fi_close: the caller does not use the handle after success.
    let code = status(unsafe { handle::close::<Wrapper<H>>(fid) });
    if let Some(watch) = watch {
        call.result = i64::from(code);
        watch.after(&call, before, call.result);
        if code == 0 {
            watch.closed(object, class);
        }
    }
    code
}

/// # Safety
/// fi_bind: both are open.
pub(super) unsafe fn bind<H: Wrapped>(wrapper: &Wrapper<H>, other: *mut fid, flags: u64) -> c_int {
    // SAFETY: passed on from the caller.
    let code = unsafe { slots::base::bind(wrapper.fid(), other, flags) };
    // SAFETY: as above.
    unsafe { refresh(wrapper) };
    code
}

/// # Safety
/// fi_control(3): `arg` is what the command asks for.
pub(super) unsafe fn control<H: Wrapped>(
    wrapper: &Wrapper<H>,
    command: c_int,
    arg: *mut c_void,
) -> c_int {
    // SAFETY: passed on from the caller.
    unsafe {
        // Only domains have these commands; the argument of other objects may be anything.
        let is_domain = (*wrapper.fid()).fclass == FI_CLASS_DOMAIN as usize;
        match command as u32 {
            FI_QUEUE_WORK if is_domain && !arg.is_null() => enter_work(arg.cast()),
            FI_FLUSH_WORK if is_domain && !arg.is_null() => {
                // A counter, or a struct that contains one.
                let inner = inside(arg.cast());
                if inner == arg.cast() && !live::is_handle(inner) {
                    let work: *mut fi_deferred_work = arg.cast();
                    (*work).triggering_cntr = inside((*work).triggering_cntr.cast()).cast();
                }
                return slots::base::control(wrapper.fid(), command, inner.cast());
            }
            _ => (),
        }
        let code = slots::base::control(wrapper.fid(), command, arg);
        if code == 0 && !arg.is_null() {
            match command as u32 {
                FI_ALIAS => {
                    let alias: *const fi_alias = arg.cast();
                    leave_alias(wrapper, (*alias).fid, (*alias).flags);
                }
                FI_SETOPSFLAG => {
                    let before = wrapper.besides.load(Ordering::Relaxed);
                    let now = before & WATCHED | triggers(before, *arg.cast::<u64>());
                    // Relaxed: the application orders this call with the operations that use the flags.
                    wrapper.besides.store(now, Ordering::Relaxed);
                }
                _ => (),
            }
        }
        refresh(wrapper);
        code
    }
}

/// Copies the key of a region, or the address of a group, from the object inside after it was set.
///
/// # Safety
/// The object is open.
unsafe fn refresh<H: Wrapped>(wrapper: &Wrapper<H>) {
    // `handle::open` has exposed the whole object.
    let head = ptr::with_exposed_provenance_mut::<fid>(handle::number_of(wrapper));
    // SAFETY: open objects of the class that they state. C may write to these heads at any time, so no Rust reference
    // to them exists.
    unsafe {
        match (*wrapper.fid()).fclass as u32 {
            FI_CLASS_MR => {
                let (head, inner) = (head.cast::<fid_mr>(), wrapper.fid().cast::<fid_mr>());
                (*head).mem_desc = (*inner).mem_desc;
                (*head).key = (*inner).key;
            }
            FI_CLASS_MC => {
                (*head.cast::<fid_mc>()).fi_addr = (*wrapper.fid().cast::<fid_mc>()).fi_addr;
            }
            _ => (),
        }
    }
}

/// Wraps the object of the same class that FI_ALIAS has opened.
///
/// # Safety
/// `place` holds the handle of the new object.
unsafe fn leave_alias<H: Wrapped>(wrapper: &Wrapper<H>, place: *mut *mut fid, flags: u64) {
    // SAFETY: promised by the caller.
    unsafe {
        let alias = place
            .as_mut()
            .and_then(|place| NonNull::new(place.cast::<H>()));
        if let Some(alias) = alias {
            let before = wrapper.besides.load(Ordering::Relaxed);
            let note = Note {
                format: wrapper.format,
                domain: wrapper.domain,
                triggers: triggers(before, flags),
            };
            *place = wrap(alias, &wrapper.layer, note).as_ptr().cast();
        }
    }
}

/// # Safety
/// fi_mr(3), fi_mr_regattr.
pub(super) unsafe fn regattr(
    wrapper: &Wrapper<impl Wrapped>,
    attr: *const fi_mr_attr,
    flags: u64,
    mr: *mut *mut fid_mr,
) -> c_int {
    let api = wrapper.layer.app_api;
    // SAFETY: passed on from the caller; members are read only if their version has them. A key of that length may name
    // an address vector (FI_AV_AUTH_KEY); that other bytes equal the address of a wrapper by chance is ruled out.
    unsafe {
        let whole = attr.as_ref().filter(|_| api >= WITH_AUTH_KEY);
        let named = whole.filter(|attr| attr.auth_key_size == size_of::<fi_mr_auth_key>());
        let av: *mut *mut fid = named.map_or(ptr::null_mut(), |attr| attr.auth_key.cast());
        let base: *mut *mut fid = match attr.is_null() || api < WITH_BASE_MR {
            true => ptr::null_mut(),
            false => (&raw const (*attr).base_mr).cast_mut().cast(),
        };
        exchanged(av, || {
            exchanged(base, || slots::mr::regattr(wrapper.fid(), attr, flags, mr))
        })
    }
}

/// Runs `call` while `place` holds the object inside instead of its wrapper, if it holds a wrapper.
///
/// # Safety
/// `place` is NULL or holds a handle or number, and no other thread uses it during the call.
unsafe fn exchanged<R>(place: *mut *mut fid, call: impl FnOnce() -> R) -> R {
    if place.is_null() {
        return call();
    }
    // SAFETY: promised by the caller. The place is written only if its handle must change.
    unsafe {
        let handle = place.read_unaligned();
        let inner = inside(handle);
        if inner == handle {
            return call();
        }
        place.write_unaligned(inner);
        let result = call();
        place.write_unaligned(handle);
        result
    }
}

const _: () = assert!(offset_of!(fi_mr_auth_key, av) == 0);
/// Versions 1.5 and 2.0 added these members to `struct fi_mr_attr`.
const WITH_AUTH_KEY: u32 = 1 << 16 | 5;
const WITH_BASE_MR: u32 = 2 << 16;

/// Wraps an endpoint if the call has opened one.
///
/// # Safety
/// `place` holds the endpoint if `code` is 0.
unsafe fn leave_ep(
    wrapper: &Wrapper<impl Wrapped>,
    code: c_int,
    place: *mut *mut fid_ep,
    triggers: u8,
) -> c_int {
    if code != 0 {
        return code;
    }
    // SAFETY: promised by the caller.
    unsafe {
        if let Some(opened) = place.as_ref().and_then(|ep| NonNull::new(*ep)) {
            let note = Note {
                domain: wrapper.domain,
                triggers,
                ..Note::default()
            };
            *place = wrap(opened, &wrapper.layer, note).as_ptr();
        }
    }
    code
}

macro_rules! endpoints {
    ($($slot:ident($table:ident; $($arg:ident: $type:ty),*), $ep:ident, $triggers:expr;)*) => { $(
        /// # Safety
        /// fi_endpoint(3).
        pub(super) unsafe fn $slot(wrapper: &Wrapper<impl Wrapped>, $($arg: $type),*) -> c_int {
            // SAFETY: passed on from the caller.
            unsafe {
                let code = slots::$table::$slot(wrapper.fid().cast(), $($arg),*);
                leave_ep(wrapper, code, $ep, $triggers)
            }
        }
    )* };
}

endpoints! {
    endpoint(domain; info: *mut fi_info, ep: *mut *mut fid_ep, context: *mut c_void), ep, triggers_of(info);
    endpoint2(domain; info: *mut fi_info, ep: *mut *mut fid_ep, flags: u64, context: *mut c_void), ep,
        triggers_of(info);
    scalable_ep(domain; info: *mut fi_info, ep: *mut *mut fid_ep, context: *mut c_void), ep, 0;
    srx_ctx(domain; attr: *mut fi_rx_attr, ep: *mut *mut fid_ep, context: *mut c_void), ep, 0;
    tx_ctx(ep; index: c_int, attr: *mut fi_tx_attr, ep: *mut *mut fid_ep, context: *mut c_void), ep,
        triggers(0, FI_TRANSMIT | attr.as_ref().map_or(0, |attr| attr.op_flags & FI_TRIGGER));
    rx_ctx(ep; index: c_int, attr: *mut fi_rx_attr, ep: *mut *mut fid_ep, context: *mut c_void), ep,
        triggers(0, FI_RECV | attr.as_ref().map_or(0, |attr| attr.op_flags & FI_TRIGGER));
}

/// # Safety
/// fi_cq(3), fi_cq_open.
pub(super) unsafe fn cq_open(
    wrapper: &Wrapper<impl Wrapped>,
    attr: *mut fi_cq_attr,
    cq: *mut *mut fid_cq,
    context: *mut c_void,
) -> c_int {
    // SAFETY: passed on from the caller. Attributes are read after the call, because the call may set the format.
    unsafe {
        let code = slots::domain::cq_open(wrapper.fid().cast(), attr, cq, context);
        if code == 0 {
            let format = attr.as_ref().map_or(0, |attr| attr.format.0);
            if let Some(opened) = NonNull::new(*cq) {
                let note = Note {
                    format,
                    ..Note::default()
                };
                *cq = wrap(opened, &wrapper.layer, note).as_ptr();
            }
        }
        code
    }
}

/// # Safety
/// fi_eq(3), fi_eq_read.
pub(super) unsafe fn eq_read(
    wrapper: &Wrapper<impl Wrapped>,
    event: *mut u32,
    buf: *mut c_void,
    len: usize,
    flags: u64,
) -> ssize_t {
    // SAFETY: passed on from the caller.
    unsafe {
        let read = slots::eq::read(wrapper.fid().cast(), event, buf, len, flags);
        leave_event(read, event, buf);
        read
    }
}

/// # Safety
/// fi_eq(3), fi_eq_sread.
pub(super) unsafe fn eq_sread(
    wrapper: &Wrapper<impl Wrapped>,
    event: *mut u32,
    buf: *mut c_void,
    len: usize,
    timeout: c_int,
    flags: u64,
) -> ssize_t {
    // SAFETY: passed on from the caller.
    unsafe {
        let read = slots::eq::sread(wrapper.fid().cast(), event, buf, len, timeout, flags);
        leave_event(read, event, buf);
        read
    }
}

/// Replaces the object of an event by its wrapper, and the objects that its fi_getinfo entry points to.
///
/// # Safety
/// fi_eq(3): an event that has been read into `buf`, if `read` is its size.
unsafe fn leave_event(read: ssize_t, event: *const u32, buf: *mut c_void) {
    // Events that the application has written contain no object of a provider.
    // SAFETY: promised by the caller.
    let is_event = read >= size_of::<*mut fid>() as ssize_t && unsafe { *event } != FI_NOTIFY;
    if !is_event {
        return;
    }
    let place: *mut *mut fid = buf.cast();
    // SAFETY: events begin with the object; the buffer of the caller need not be aligned. An FI_CONNREQ contains a
    // fi_getinfo entry, which belongs to the reader.
    unsafe {
        let object = place.read_unaligned();
        let holder = outside(object);
        if holder == object {
            return;
        }
        place.write_unaligned(holder);
        // A group may be closed before its event is read; then another object may have its address.
        let is_group =
            live::wrapped(holder) == Some(object) && (*holder).fclass == FI_CLASS_MC as usize;
        if *event == FI_JOIN_COMPLETE && is_group {
            (*holder.cast::<fid_mc>()).fi_addr = (*object.cast::<fid_mc>()).fi_addr;
        }
        if *event == FI_CONNREQ && read >= size_of::<fi_eq_cm_entry>() as ssize_t {
            let entry: fi_eq_cm_entry = buf.cast::<fi_eq_cm_entry>().read_unaligned();
            leave_info(entry.info);
        }
    }
}

/// # Safety
/// NULL or an entry.
unsafe fn leave_info(info: *mut fi_info) {
    // SAFETY: promised by the caller; the parts of the entry are NULL or structs.
    unsafe {
        let Some(info) = info.as_ref() else {
            return;
        };
        if let Some(attr) = info.fabric_attr.as_mut() {
            attr.fabric = outside(attr.fabric.cast()).cast();
        }
        if let Some(attr) = info.domain_attr.as_mut() {
            attr.domain = outside(attr.domain.cast()).cast();
        }
    }
}

/// # Safety
/// fi_eq(3), fi_eq_readerr.
pub(super) unsafe fn eq_readerr(
    wrapper: &Wrapper<impl Wrapped>,
    buf: *mut fi_eq_err_entry,
    flags: u64,
) -> ssize_t {
    // SAFETY: passed on from the caller.
    unsafe {
        let read = slots::eq::readerr(wrapper.fid().cast(), buf, flags);
        if read > 0 {
            (*buf).fid = outside((*buf).fid);
        }
        read
    }
}

/// # Safety
/// fi_cm(3), fi_join; fi_collective(3), fi_join_collective.
pub(super) unsafe fn join(
    wrapper: &Wrapper<impl Wrapped>,
    addr: *const c_void,
    flags: u64,
    mc: *mut *mut fid_mc,
    context: *mut c_void,
) -> c_int {
    let fid = wrapper.fid().cast();
    if flags & FI_COLLECTIVE == 0 || addr.is_null() {
        // SAFETY: passed on from the caller.
        return unsafe { slots::cm::join(fid, addr, flags, mc, context) };
    }
    // SAFETY: with that flag the address is a `fi_collective_addr`.
    let mut group: fi_collective_addr = unsafe { *addr.cast() };
    group.set = inside(group.set.cast_mut().cast()).cast();
    let addr = (&raw const group).cast();
    // SAFETY: passed on from the caller.
    unsafe { slots::cm::join(fid, addr, flags, mc, context) }
}

/// # Safety
/// fi_poll(3), fi_trywait.
pub(super) unsafe fn trywait(
    wrapper: &Wrapper<impl Wrapped>,
    fids: *mut *mut fid,
    count: c_int,
) -> c_int {
    if count < 0 || (fids.is_null() && count > 0) {
        return Error::INVAL.negative();
    }
    // SAFETY: an array of that length.
    let fids = (0..count as usize).map(|i| inside(unsafe { *fids.add(i) }));
    let mut fids: Vec<*mut fid> = fids.collect();
    // SAFETY: passed on from the caller.
    unsafe { slots::fabric::trywait(wrapper.fid().cast(), fids.as_mut_ptr(), count) }
}

/// # Safety
/// fi_open_ops of the page of the object.
pub(super) unsafe fn ops_open(
    wrapper: &Wrapper<impl Wrapped>,
    name: *const c_char,
    flags: u64,
    ops: *mut *mut c_void,
    context: *mut c_void,
) -> c_int {
    // SAFETY: passed on from the caller.
    unsafe {
        let code = slots::base::ops_open(wrapper.fid(), name, flags, ops, context);
        if code == 0 && is_flow_control(CStr::from_ptr(name)) {
            credits::leave_table(wrapper, ops);
        }
        code
    }
}

fn is_flow_control(name: &CStr) -> bool {
    let known = object::ops::credits::NAME.to_bytes();
    name.to_bytes().eq_ignore_ascii_case(known)
}
