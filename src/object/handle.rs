// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The common layout of every handle: the C header first, then the Rust object. C owns it from open to close.

use core::alloc::Layout;
use core::cell::UnsafeCell;
use core::ffi::{CStr, c_int, c_void};
use core::ptr;
use std::os::fd::{AsFd, AsRawFd};

use crate::live;
use crate::ops::credits::FlowControl;
use crate::ops::fid as fid_ops;
use crate::ops::work::WorkRequest;
use crate::retired::{self, Memory};
use abi::*;
use base::{Error, OpFlags, Result, Span};
use hmem::own_copies::Functions;

/// The object behind a handle. The methods are the calls of fi_fabric(3) and fi_control(3) that any handle may get;
/// calls that an object does not support return FI_ENOSYS.
pub trait Kind: Send + Sync + Sized + 'static {
    type Head: Head;
    /// Calls consume handles of this kind by their number (`take`), so there is no `Other` of them.
    const IS_CONSUMED: bool = false;

    /// Returns FI_EBUSY while other objects depend on this one.
    fn check_close(&self) -> Result {
        Ok(())
    }
    fn bind(&self, _other: Other<'_>, _flags: u64) -> Result {
        Err(Error::NOSYS)
    }
    /// fi_import_fid(3), which uses the same slot as `bind`, of an object that the application has created.
    ///
    /// # Safety
    /// `other` is a handle for `bind`, or an object of the application that begins with a `fid` and has the class in
    /// its head. The library may read and write it until it is closed.
    unsafe fn import(&self, other: *mut fid, flags: u64) -> Result {
        // SAFETY: handles and objects of the application stay open during the call.
        self.bind(unsafe { Other::new(other) }, flags)
    }
    fn enable(&self) -> Result {
        Err(Error::NOSYS)
    }
    /// FI_GETWAIT: the object that a thread may sleep on.
    fn wait_handle(&self) -> Result<WaitHandle> {
        Err(Error::NOSYS)
    }
    /// FI_GETWAITOBJ.
    fn wait_obj(&self) -> Result<fi_wait_obj> {
        Err(Error::NOSYS)
    }
    /// FI_GETOPSFLAG: `side` is FI_TRANSMIT or FI_RECV.
    fn op_flags(&self, _side: OpFlags) -> Result<OpFlags> {
        Err(Error::NOSYS)
    }
    /// FI_SETOPSFLAG.
    fn set_op_flags(&self, _flags: OpFlags) -> Result {
        Err(Error::NOSYS)
    }
    /// FI_ALIAS: another handle of the same object.
    fn alias(&self, _flags: OpFlags) -> Result<*mut fid> {
        Err(Error::NOSYS)
    }
    /// FI_BACKLOG.
    fn set_backlog(&self, _backlog: c_int) -> Result {
        Err(Error::NOSYS)
    }
    /// FI_REFRESH of ranges of a memory region.
    fn refresh(&self, _ranges: &[Span], _flags: u64) -> Result {
        Err(Error::NOSYS)
    }
    /// FI_GET_RAW_MR: base address and key.
    fn raw_key(&self) -> Result<(u64, [u8; 8])> {
        Err(Error::NOSYS)
    }
    /// FI_MAP_RAW_MR: the key for a raw key of a peer.
    fn map_raw_key(&self, _raw: &[u8]) -> Result<u64> {
        Err(Error::NOSYS)
    }
    /// FI_UNMAP_KEY.
    fn unmap_key(&self, _key: u64) -> Result {
        Err(Error::NOSYS)
    }
    /// FI_QUEUE_WORK.
    fn queue_work(&self, _work: WorkRequest<'_>) -> Result {
        Err(Error::NOSYS)
    }
    /// FI_CANCEL_WORK of the work that was queued under this name.
    fn cancel_work(&self, _name: usize) -> Result {
        Err(Error::NOSYS)
    }
    /// FI_FLUSH_WORK of the work that waits for this counter, or of all.
    fn flush_work(&self, _cntr: Option<Other<'_>>) -> Result {
        Err(Error::NOSYS)
    }
    /// fi_profile(3), fi_profile_open.
    fn profile(&self, _context: *mut c_void) -> Result<*mut fid_profile> {
        Err(Error::NOSYS)
    }
    /// Peer credits of a domain's endpoints: `ops::credits`.
    fn credits(&self) -> Option<&'static FlowControl> {
        None
    }
    /// FI_SET_OPS_HMEM_OVERRIDE: the program's functions copy device memory. fi_domain(3)
    fn copy_devices_by(&self, _functions: Functions) -> Result {
        Err(Error::NOSYS)
    }
    /// fi_trywait(3): returns FI_EAGAIN if the object has something to read.
    fn trywait(&self) -> Result {
        Err(Error::INVAL)
    }
    /// Provider and name of a fabric or a domain: fi_getinfo(3) points to open ones.
    fn named(&self) -> Option<(&CStr, &CStr)> {
        None
    }
    /// For a wrapper: the object inside, which belongs to another library.
    fn wrapped(&self) -> Option<Inner> {
        None
    }
    /// fi_poll(3): drives progress; if requested, returns whether there is something to read. A change of a counter is
    /// reported once. `None`: the object cannot be in a poll set.
    fn poll(&self, _ask: bool) -> Option<bool> {
        None
    }
}

/// The object inside a wrapper. Calls of the wrapper go there, so that only an open object can be one:
///
/// ```compile_fail,E0133
/// fn forge() -> object::handle::Inner {
///     object::handle::Inner::new(core::ptr::null_mut())
/// }
/// ```
#[derive(Clone, Copy)]
pub struct Inner(*mut fid);

impl Inner {
    /// # Safety
    /// `object` is an object of another library, which is open as long as its wrapper.
    pub unsafe fn new(object: *mut fid) -> Inner {
        Inner(object)
    }

    pub fn as_ptr(self) -> *mut fid {
        self.0
    }
}

/// The part of an object that C sees.
///
/// # Safety
/// The struct is `repr(C)` and begins with a `fid`.
pub unsafe trait Head: 'static {
    /// Makes all calls of a closed object return FI_EBADF. Returns false if the kind has no such tables; then its
    /// memory is freed at once.
    fn retire(&mut self) -> bool {
        false
    }
}

// SAFETY: a `fid` begins with a `fid`.
unsafe impl Head for fid {}

macro_rules! heads {
    ($($name:ident)*) => { $(
        // SAFETY: `repr(C)`, as the layout tests compare with C; the assertion checks that it begins with its `fid`.
        unsafe impl Head for $name {}
        const _: () = assert!(core::mem::offset_of!($name, fid) == 0);
    )* };
}

heads! {
    fid_fabric fid_domain fid_eq fid_wait fid_poll fid_cq fid_cntr fid_av fid_av_set fid_mr fid_pep fid_stx
    fid_mc fid_profile
}

// SAFETY: as above.
unsafe impl Head for fid_ep {
    fn retire(&mut self) -> bool {
        retired::replace_tables(self);
        true
    }
}
const _: () = assert!(core::mem::offset_of!(fid_ep, fid) == 0);

/// Result of FI_GETWAIT.
pub enum WaitHandle {
    Fd(c_int),
    /// Descriptors for poll(2), and a number that changes with them.
    PollFds(Vec<c_int>, u64),
    MutexCond {
        mutex: *mut pthread_mutex_t,
        cond: *mut pthread_cond_t,
    },
}

impl WaitHandle {
    /// Returns the number of a descriptor for an answer to C. The object that answers keeps the descriptor open.
    pub fn number(fd: impl AsFd) -> c_int {
        fd.as_fd().as_raw_fd()
    }
}

#[repr(C)]
struct Object<T: Kind> {
    /// C may write its fields (`context`), and replace its table pointers.
    head: UnsafeCell<T::Head>,
    inner: T,
}

/// Creates the handle. `head` gets the common part, with class, context and the table of `T`.
pub fn open<T: Kind>(
    inner: T,
    class: u32,
    context: *mut c_void,
    head: impl FnOnce(fid) -> T::Head,
) -> *mut T::Head {
    let head = head(fid {
        fclass: class as usize,
        context,
        ops: ptr::from_ref::<fi_ops>(fid_ops::table::<T>()).cast_mut(),
    });
    let object = Box::into_raw(Box::new(Object {
        head: UnsafeCell::new(head),
        inner,
    }));
    // SAFETY: just created; `close` removes it from `live` before it is freed.
    unsafe { live::insert::<T>(object.cast(), class, &raw const (*object).inner) };
    // Calls that have the handle as a number make a pointer to the whole object of it again.
    object.expose_provenance();
    object.cast()
}

/// Returns the object behind a handle.
///
/// # Safety
/// `head` must be NULL or a handle made by `open::<T>` that has not been closed, and must not be closed while the
/// reference is used: the caller of any fi_ function promises both.
#[inline]
pub unsafe fn get<'a, T: Kind, H>(head: *const H) -> Option<&'a T> {
    // SAFETY: `Object` is repr(C) with the header first, so the address of the header is the object's.
    unsafe { head.cast::<Object<T>>().as_ref() }.map(|object| &object.inner)
}

/// Returns the number of the handle that C holds of an object that `open` created.
///
/// This is a number and not a pointer, because a reference to the object gives no access to the head before it:
///
/// ```compile_fail,E0308
/// fn head<T: object::handle::Kind>(inner: &T) -> *mut abi::fid {
///     object::handle::number_of(inner)
/// }
/// ```
pub fn number_of<T: Kind>(inner: &T) -> usize {
    ptr::from_ref(inner).addr() - core::mem::offset_of!(Object<T>, inner)
}

/// Closes a handle if nothing depends on it.
///
/// # Safety
/// As `get`; on success the handle must not be used again.
pub unsafe fn close<T: Kind>(head: *mut fid) -> Result {
    let claim = live::claim::<T>(head)?;
    // SAFETY: `live` confirms that `open::<T>` created the handle; only the holder of the claim frees it.
    let object = unsafe { &*head.cast::<Object<T>>() };
    if let Err(error) = object.inner.check_close() {
        claim.give_up();
        return Err(error);
    }
    claim.take();
    let object = head.cast::<Object<T>>();
    // SAFETY: this call had the only claim, and later lookups do not find the handle.
    unsafe { ptr::drop_in_place(&raw mut (*object).inner) };
    // SAFETY: the head has no references, and its memory exists.
    let keeps = unsafe { (*object).head.get_mut().retire() };
    // SAFETY: created by Box::into_raw in `open`, and nothing in it is left to be dropped.
    let memory = unsafe { Memory::new(object.cast(), Layout::new::<Object<T>>()) };
    match keeps {
        true => retired::keep(memory),
        false => drop(memory),
    }
    Ok(())
}

/// Calls `f` with the object behind a handle that came as a number in attributes. Returns `None` if it is not a live
/// handle of this kind, or if it is being closed. Meanwhile it cannot be closed.
pub fn with<T: Kind, R>(handle: usize, f: impl FnOnce(&T) -> R) -> Option<R> {
    let head = ptr::with_exposed_provenance_mut::<fid>(handle);
    let claim = live::claim::<T>(head).ok()?;
    // SAFETY: `live` confirms that `open::<T>` created the handle; only the holder of the claim frees it.
    let result = unsafe { get::<T, fid>(head) }.map(f);
    claim.give_up();
    result
}

/// Takes the object out of a handle, which becomes invalid: for handles that a call consumes. Returns FI_EINVAL if the
/// number is not a live handle of this kind.
///
/// Other kinds cannot be taken, because references to their objects may exist:
///
/// ```compile_fail,E0080
/// struct Thing;
/// impl object::handle::Kind for Thing {
///     type Head = abi::fid;
/// }
/// let _ = object::handle::take::<Thing>(0);
/// ```
///
/// ```
/// struct Thing;
/// impl object::handle::Kind for Thing {
///     type Head = abi::fid;
///     const IS_CONSUMED: bool = true;
/// }
/// assert!(object::handle::take::<Thing>(0).is_err());
/// ```
pub fn take<T: Kind>(handle: usize) -> Result<T> {
    const { assert!(T::IS_CONSUMED, "references to the object may exist") };
    let head = ptr::with_exposed_provenance_mut::<fid>(handle);
    live::claim::<T>(head).map_err(|_| Error::INVAL)?.take();
    // SAFETY: `live` confirms that Box::into_raw in `open::<T>` created it; this call had the only claim, and later
    // lookups do not find the handle.
    Ok(unsafe { Box::from_raw(head.cast::<Object<T>>()) }.inner)
}

/// A handle that came as an argument (fi_ep_bind and similar calls), of this or another library, alive or not. It is
/// not dereferenced before `live` has confirmed it.
#[derive(Clone, Copy)]
pub struct Other<'a> {
    fid: *mut fid,
    call: core::marker::PhantomData<&'a ()>,
}

impl<'a> Other<'a> {
    /// # Safety
    /// If it is a live handle, it must not be closed during the call that `'a` stands for.
    pub unsafe fn new(fid: *mut fid) -> Other<'a> {
        Other {
            fid,
            call: core::marker::PhantomData,
        }
    }

    /// Returns the object if it is a live one of this kind, which calls do not consume:
    ///
    /// ```compile_fail,E0080
    /// struct Thing;
    /// impl object::handle::Kind for Thing {
    ///     type Head = abi::fid;
    ///     const IS_CONSUMED: bool = true;
    /// }
    /// fn find(other: object::handle::Other<'_>) {
    ///     other.downcast::<Thing>();
    /// }
    /// # // SAFETY: NULL is no live handle.
    /// # find(unsafe { object::handle::Other::new(core::ptr::null_mut()) });
    /// ```
    pub fn downcast<T: Kind>(self) -> Option<&'a T> {
        const { assert!(!T::IS_CONSUMED, "a call may take the object") };
        if !live::is::<T>(self.fid) {
            return None;
        }
        // SAFETY: `live` confirms that `open::<T>` created the handle; it stays open during the call (`new`).
        unsafe { get::<T, fid>(self.fid) }
    }

    pub fn number(self) -> usize {
        self.fid as usize
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, PoisonError};
    use std::thread;

    use super::*;

    /// Runs a callback in `check_close` and returns its result.
    #[derive(Default)]
    struct Thing {
        asked: Mutex<Option<Box<dyn FnOnce() -> Result + Send>>>,
        dropped: Arc<AtomicUsize>,
    }

    impl Kind for Thing {
        type Head = fid;
        const IS_CONSUMED: bool = true;

        fn check_close(&self) -> Result {
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            let ask = asked.take();
            drop(asked);
            ask.map_or(Ok(()), |ask| ask())
        }
    }

    impl Drop for Thing {
        fn drop(&mut self) {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    struct Lasting;

    impl Kind for Lasting {
        type Head = fid;
    }

    #[test]
    fn a_stale_handle_is_no_object() {
        let handle = open(Lasting, FI_CLASS_UNSPEC, ptr::null_mut(), |head| head);
        // SAFETY: the handle is not closed during a use.
        let other = unsafe { Other::new(handle) };
        assert!(other.downcast::<Lasting>().is_some());
        // SAFETY: from now on only the number is used.
        unsafe { close::<Lasting>(handle) }.unwrap();
        assert!(other.downcast::<Lasting>().is_none());
    }

    fn thing() -> (*mut fid, Arc<AtomicUsize>) {
        let thing = Thing::default();
        let dropped = thing.dropped.clone();
        (
            open(thing, FI_CLASS_UNSPEC, ptr::null_mut(), |head| head),
            dropped,
        )
    }

    fn when_asked(handle: *mut fid, ask: impl FnOnce() -> Result + Send + 'static) {
        with(handle as usize, |thing: &Thing| {
            *thing.asked.lock().unwrap() = Some(Box::new(ask));
        })
        .unwrap();
    }

    fn close_number(handle: usize) -> Result {
        // SAFETY: after a successful close the tests use a handle only as a number.
        unsafe { close::<Thing>(handle as *mut fid) }
    }

    #[test]
    fn of_two_threads_that_close_a_handle_one_succeeds() {
        let (handle, dropped) = thing();
        let number = handle as usize;
        when_asked(handle, move || {
            let other = thread::spawn(move || close_number(number));
            assert_eq!(other.join().unwrap(), Err(Error::BUSY));
            Ok(())
        });
        assert_eq!(close_number(number), Ok(()));
        assert_eq!(close_number(number), Err(Error::BADF));
        assert_eq!(dropped.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn what_cannot_be_closed_can_be_tried_again() {
        let (handle, dropped) = thing();
        when_asked(handle, || Err(Error::BUSY));
        assert_eq!(close_number(handle as usize), Err(Error::BUSY));
        assert_eq!(dropped.load(Ordering::Relaxed), 0);
        assert_eq!(close_number(handle as usize), Ok(()));
        assert_eq!(dropped.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn nothing_is_closed_while_it_is_used_by_its_number() {
        let (handle, _) = thing();
        let number = handle as usize;
        let closed = with(number, |_: &Thing| close_number(number));
        assert_eq!(closed, Some(Err(Error::BUSY)));
        assert!(take::<Thing>(number).is_ok());
    }

    #[test]
    fn a_handle_that_was_consumed_is_found_no_more() {
        let (handle, dropped) = thing();
        drop(take::<Thing>(handle as usize).unwrap());
        assert_eq!(dropped.load(Ordering::Relaxed), 1);
        assert!(with(handle as usize, |_: &Thing| ()).is_none());
        assert_eq!(take::<Thing>(handle as usize).err(), Some(Error::INVAL));
    }
}
