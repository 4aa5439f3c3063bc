// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The owner side of fi_peer(3): completion queues and receive contexts of a layered provider, which providers below
//! use as their peers.
//!
//! A peer calls its owner while the owner is calling the peer, for example from a read of the peer's queue. So the
//! owner enters its `Desk` with its state, calls the peer inside, and the peer's calls find the state there. A call
//! from a thread that is not inside, or from within another such call, reaches no state: completions are kept for
//! `Desk::take_aside`, and requests for receives are refused.
//!
//! Trusted with: the pointers of peers. The peer promises to return only entries that it has got, and to use them only
//! until it frees them.

mod entries;
#[cfg(test)]
mod tests;

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

pub use self::entries::{Entries, EntryId};
use super::cq::{Completion, Cq, CqError, Done, Kind};
use super::domain::Domain;
use super::ep::Ep;
use super::handle::{Handle, Kept};
use super::memory::InFlight;
use super::{ERR_DATA, status, string};
use abi::*;
use base::{Error, IoVec, Result};
use object::ops::transfer::What;
use object::peer::{DirectCalls, DirectOps, Loss, Whole};
use object::slots;
use sys::thread_id::here;

/// A message at a peer, for which the owner may have a receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arriving {
    /// The number of the context: `PeerRx::open`.
    pub srx: usize,
    pub what: What,
    /// The sender in the peer's address vector; FI_ADDR_UNSPEC for an unknown one.
    pub from: fi_addr_t,
    pub len: usize,
    pub tag: u64,
}

/// The owner's answer.
pub enum Answer {
    /// The entry has got the receive: `Entries::fill`.
    Matched,
    /// There is no receive; the peer will queue the entry.
    Unexpected,
    /// The peer has to repeat its request later.
    Refused(Error),
}

/// The state of an owner, as calls of its peers use it.
pub trait Owner {
    fn entries(&mut self) -> &mut Entries;
    /// A message has arrived. `entry` is empty.
    fn arrived(&mut self, message: &Arriving, entry: EntryId) -> Answer;
    /// Delivers a message at the context `srx` that has arrived as a whole, if there is a plain receive for it, which
    /// `fill` fills. Returns false without effect otherwise; `arrived` follows then.
    fn took(&mut self, srx: usize, message: &Whole, fill: &mut dyn FnMut(&IoVec)) -> bool;
    /// The connection of the context `srx` to a peer has ended. If the peer is silent, receives that name it will not
    /// be filled.
    fn lost(&mut self, srx: usize, from: fi_addr_t, loss: Loss);
    /// Whether a receive at the context `srx` names this peer.
    fn awaits(&mut self, srx: usize, from: fi_addr_t) -> bool;
    /// The message of this entry waits until a receive is posted. `data` is its remote CQ data.
    fn queued(&mut self, entry: EntryId, data: Option<u64>);
    /// The peer does not use the entry any more, whose receive is over or whose message is gone.
    fn freed(&mut self, entry: EntryId);
    /// `queue` is the number of the peer's queue: `open_cq`.
    fn completed(&mut self, queue: usize, done: Completion);
    fn failed(&mut self, queue: usize, error: CqError);
    /// The peer may know senders by now that were unknown when their messages came: `sender` returns the address for an
    /// entry of this context that is queued.
    fn senders_changed(
        &mut self,
        srx: usize,
        sender: &mut dyn FnMut(&mut Entries, EntryId) -> fi_addr_t,
    );
}

/// A report of a peer that reached no state.
pub enum Report {
    Done(usize, Completion),
    Failed(usize, CqError),
    Lost(usize, fi_addr_t, Loss),
}

/// The place where the calls of peers find the state of their owner. Only its owner can enter it; `Posts` are the
/// references that peers call through.
pub struct Desk(Arc<Post>);

/// The part of a desk that peers refer to.
struct Post {
    /// The thread that is inside (`here`), or 0.
    thread: AtomicUsize,
    /// Valid while a thread is inside, for that thread only.
    owner: UnsafeCell<*mut dyn Owner>,
    aside: Mutex<Vec<Report>>,
    has_aside: AtomicBool,
}

// SAFETY: `owner` is written by `enter`, which has the only reference to the desk, and is read by the same thread,
// which finds its own number in `thread`.
unsafe impl Send for Post {}
// SAFETY: the same.
unsafe impl Sync for Post {}

impl Default for Desk {
    fn default() -> Desk {
        Desk::new()
    }
}

impl Desk {
    pub fn new() -> Desk {
        let nobody: *mut Nobody = null_mut();
        Desk(Arc::new(Post {
            thread: AtomicUsize::new(0),
            owner: UnsafeCell::new(nobody),
            aside: Mutex::default(),
            has_aside: AtomicBool::new(false),
        }))
    }

    /// Calls peers with the state for their calls.
    #[inline]
    pub fn enter<R>(&mut self, owner: &mut (dyn Owner + '_), call: impl FnOnce() -> R) -> R {
        struct Leave<'a>(&'a Post);
        impl Drop for Leave<'_> {
            fn drop(&mut self) {
                self.0.thread.store(0, Ordering::Relaxed);
            }
        }
        let owner: *mut (dyn Owner + '_) = owner;
        // SAFETY: only the lifetime changes. The pointer is used only while `thread` has the number of this thread,
        // which ends before this call returns.
        let owner: *mut (dyn Owner + 'static) = unsafe { core::mem::transmute(owner) };
        // SAFETY: no thread is inside, because this is the only reference to the desk.
        unsafe { *self.0.owner.get() = owner };
        // Relaxed, here and below: only this thread compares equal.
        self.0.thread.store(here(), Ordering::Relaxed);
        let _leave = Leave(&self.0);
        call()
    }

    /// Takes the reports of threads that were not inside.
    #[inline]
    pub fn take_aside(&mut self) -> Vec<Report> {
        match self.0.has_aside.swap(false, Ordering::Acquire) {
            false => Vec::new(),
            true => std::mem::take(&mut *self.0.aside()),
        }
    }

    /// Returns whether `take_aside` has something.
    #[inline]
    pub fn has_aside(&self) -> bool {
        self.0.has_aside.load(Ordering::Relaxed)
    }
}

impl Post {
    /// Calls with the state if this thread is inside. Calls from within find no state.
    #[inline]
    fn with<R>(&self, call: impl FnOnce(&mut dyn Owner) -> R) -> Option<R> {
        let here = here();
        if self.thread.load(Ordering::Relaxed) != here {
            return None;
        }
        self.thread.store(0, Ordering::Relaxed);
        // SAFETY: this thread is in `enter`, whose reference to the owner is not used while its call runs. `thread` was
        // cleared, so no other reference is made meanwhile.
        let result = call(unsafe { &mut **self.owner.get() });
        self.thread.store(here, Ordering::Relaxed);
        Some(result)
    }

    fn aside(&self) -> std::sync::MutexGuard<'_, Vec<Report>> {
        self.aside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cold]
    fn put_aside(&self, report: Report) {
        self.aside().push(report);
        self.has_aside.store(true, Ordering::Release);
    }
}

/// A type for the pointer of a desk that nobody has entered.
enum Nobody {}

impl Owner for Nobody {
    fn entries(&mut self) -> &mut Entries {
        match *self {}
    }
    fn arrived(&mut self, _: &Arriving, _: EntryId) -> Answer {
        match *self {}
    }
    fn took(&mut self, _: usize, _: &Whole, _: &mut dyn FnMut(&IoVec)) -> bool {
        match *self {}
    }
    fn lost(&mut self, _: usize, _: fi_addr_t, _: Loss) {}
    fn awaits(&mut self, _: usize, _: fi_addr_t) -> bool {
        match *self {}
    }
    fn queued(&mut self, _: EntryId, _: Option<u64>) {}
    fn freed(&mut self, _: EntryId) {}
    fn completed(&mut self, _: usize, _: Completion) {}
    fn failed(&mut self, _: usize, _: CqError) {}
    fn senders_changed(&mut self, _: usize, _: &mut dyn FnMut(&mut Entries, EntryId) -> fi_addr_t) {
    }
}

/// `struct fid_peer_cq`, with the desk of its owner.
#[repr(C)]
struct ExportedCq {
    peer: fid_peer_cq,
    post: Arc<Post>,
    number: usize,
    /// The queue of the peer, once it is open.
    opened: AtomicPtr<fid_cq>,
}

// SAFETY: the struct is not changed after it was made.
unsafe impl Send for ExportedCq {}
// SAFETY: the same.
unsafe impl Sync for ExportedCq {}

fn exported_fid(class: u32) -> fid {
    fid {
        fclass: class as usize,
        context: null_mut(),
        ops: null_mut(),
    }
}

/// Opens a queue of a peer whose entries are reported to the owner. Peers of this library, and most others, have no
/// wait object for such a queue. `number` is passed to the owner with each entry.
pub fn open_cq(domain: &Arc<Domain>, desk: &Desk, number: usize) -> Result<Arc<Cq>> {
    let exported = Arc::new(ExportedCq {
        peer: fid_peer_cq {
            fid: exported_fid(FI_CLASS_PEER_CQ),
            owner_ops: (&raw const CQ_OPS).cast_mut(),
        },
        post: desk.0.clone(),
        number,
        opened: AtomicPtr::new(null_mut()),
    });
    let opened = exported.clone();
    let mut context = fi_peer_cq_context {
        size: size_of::<fi_peer_cq_context>(),
        cq: Arc::as_ptr(&exported).cast_mut().cast(),
    };
    let mut attr = fi_cq_attr {
        size: 0,
        flags: FI_PEER,
        format: FI_CQ_FORMAT_TAGGED,
        wait_obj: FI_WAIT_NONE,
        signaling_vector: 0,
        wait_cond: FI_CQ_COND_NONE,
        wait_set: null_mut(),
        xpu_ctx: null_mut(),
    };
    let mut cq = null_mut();
    let kept: Vec<Kept> = vec![domain.clone(), exported];
    // SAFETY: the domain is open and kept; the structs are read during the call, but for the exported queue, which is
    // kept; `cq` is written on success.
    unsafe {
        let context: *mut c_void = (&raw mut context).cast();
        let code = slots::domain::cq_open(domain.as_ptr(), &raw mut attr, &raw mut cq, context);
        let cq = Handle::opened(code, cq, Kind::of_peer(), kept)?;
        opened.opened.store(cq.as_ptr(), Ordering::Relaxed);
        Ok(cq)
    }
}

impl Cq {
    /// fi_peer(3): makes the peer progress, which reports to the owner. For a queue of `open_cq`.
    #[inline]
    pub fn drive(&self) {
        // SAFETY: the queue is open; no entries are read.
        unsafe { slots::cq::read(self.as_ptr(), null_mut(), 0) };
    }
}

static CQ_OPS: fi_ops_cq_owner = fi_ops_cq_owner {
    size: size_of::<fi_ops_cq_owner>(),
    write: Some(write),
    writeerr: Some(write_err),
};

unsafe extern "C" fn write(
    cq: *mut fid_peer_cq,
    context: *mut c_void,
    flags: u64,
    len: usize,
    buf: *mut c_void,
    data: u64,
    tag: u64,
    src: fi_addr_t,
) -> ssize_t {
    let done = Completion {
        context: Done::of(context.addr()),
        flags,
        len,
        buf: buf.addr(),
        data,
        tag,
        src,
        block: 0,
    };
    // SAFETY: fi_peer(3): the peer passes the queue that it was opened with, which outlives it.
    let exported = unsafe { &*cq.cast::<ExportedCq>() };
    let (post, queue) = (&exported.post, exported.number);
    let mut done = Some(done);
    post.with(|owner| done.take().map(|done| owner.completed(queue, done)));
    if let Some(done) = done {
        post.put_aside(Report::Done(queue, done));
    }
    0
}

unsafe extern "C" fn write_err(cq: *mut fid_peer_cq, entry: *const fi_cq_err_entry) -> ssize_t {
    // SAFETY: fi_peer(3): as for `write`; the entry is readable during the call, and so is its error data.
    let (exported, error) = unsafe {
        let Some(entry) = entry.as_ref() else {
            return Error::INVAL.negative() as ssize_t;
        };
        let len = entry.err_data_size.min(ERR_DATA);
        let exported = &*cq.cast::<ExportedCq>();
        let queue = exported.opened.load(Ordering::Relaxed);
        let (code, data) = (entry.prov_errno, entry.err_data.cast_const());
        let error = CqError {
            context: Done::of(entry.op_context.addr()),
            flags: entry.flags,
            len: entry.len,
            buf: entry.buf.addr(),
            data: entry.data,
            tag: entry.tag,
            olen: entry.olen,
            error: Error::new(entry.err.saturating_abs()),
            prov_errno: entry.prov_errno,
            err_data: match entry.err_data.is_null() {
                true => Vec::new(),
                false => core::slice::from_raw_parts(entry.err_data.cast::<u8>(), len).to_vec(),
            },
            src: entry.src_addr,
            words: string(slots::cq::strerror(queue, code, data, null_mut(), 0)),
        };
        (exported, error)
    };
    let (post, queue) = (&exported.post, exported.number);
    let mut error = Some(error);
    post.with(|owner| error.take().map(|error| owner.failed(queue, error)));
    if let Some(error) = error {
        post.put_aside(Report::Failed(queue, error));
    }
    0
}

/// `struct fid_peer_srx` as releases before 2.8 have it, with data of the owner. (In 2.8 an endpoint has one table
/// more, whose place `owner_ops` has here. This library's peers tell the two by the size of the table.)
#[repr(C)]
struct ExportedSrx {
    fid: fid,
    tables: [*mut c_void; 7],
    owner_ops: *const fi_ops_srx_owner,
    /// Set by the peer.
    peer_ops: UnsafeCell<*const fi_ops_srx_peer>,
    post: Arc<Post>,
    number: usize,
}

const _: () = {
    assert!(core::mem::offset_of!(ExportedSrx, owner_ops) == 80);
    assert!(core::mem::offset_of!(ExportedSrx, peer_ops) == 88);
};

// SAFETY: only the peer changes the struct, while it is opened.
unsafe impl Send for ExportedSrx {}
// SAFETY: the same.
unsafe impl Sync for ExportedSrx {}

/// A receive context of a peer, whose receives belong to the owner.
pub struct PeerRx {
    /// Endpoints of the peer are bound to it.
    pub context: Arc<Ep>,
    exported: Arc<ExportedSrx>,
}

impl PeerRx {
    /// Opens a context in the peer's domain. `number` is passed to the owner with each message.
    pub fn open(
        domain: &Arc<Domain>,
        desk: &Desk,
        number: usize,
        attr: &fi_rx_attr,
    ) -> Result<PeerRx> {
        let exported = Arc::new(ExportedSrx {
            fid: exported_fid(FI_CLASS_PEER_SRX),
            tables: [null_mut(); 7],
            owner_ops: (&raw const SRX_OPS).cast(),
            peer_ops: UnsafeCell::new(null()),
            post: desk.0.clone(),
            number,
        });
        let mut context = fi_peer_srx_context {
            size: size_of::<fi_peer_srx_context>(),
            srx: Arc::as_ptr(&exported).cast_mut().cast(),
        };
        let mut attr = *attr;
        attr.op_flags |= FI_PEER;
        let mut srx = null_mut();
        let kept: Vec<Kept> = vec![domain.clone(), exported.clone()];
        // SAFETY: the domain is open and kept; the structs are read during the call, but for the exported context,
        // which is kept; `srx` is written on success.
        let context = unsafe {
            let (parent, context) = (domain.as_ptr(), (&raw mut context).cast());
            let code = slots::domain::srx_ctx(parent, &raw mut attr, &raw mut srx, context);
            Handle::opened(code, srx, InFlight::default(), kept)
        }?;
        let opened = PeerRx { context, exported };
        let whole = opened.peer_ops().is_some_and(|ops| {
            // SAFETY: the peer has set the table, which begins with its size.
            ops.size >= size_of::<fi_ops_srx_peer>()
        });
        whole.then_some(opened).ok_or(Error::INVAL)
    }

    fn peer_ops(&self) -> Option<&fi_ops_srx_peer> {
        // SAFETY: the peer sets the pointer once, when it is opened; its table stays as long as the peer's object.
        unsafe { (*self.exported.peer_ops.get()).as_ref() }
    }

    /// Starts the transfer of a queued message into the receive with which its entry was filled. The peer may report it
    /// during the call. `false`: the peer has refused, and the entry is still queued.
    pub fn start(&self, desk: &mut Desk, owner: &mut (dyn Owner + '_), id: EntryId) -> bool {
        let Some((entry, what)) = owner.entries().unqueue(id, self.raw()) else {
            return false;
        };
        let call = self.peer_ops().and_then(|ops| match what {
            What::Tagged => ops.start_tag,
            _ => ops.start_msg,
        });
        // SAFETY: fi_peer(3): the entry is queued, and filled with a receive.
        let call = || call.is_some_and(|call| unsafe { call(entry) } == 0);
        let has_started = desk.enter(owner, call);
        if !has_started {
            owner.entries().set_queued(id);
        }
        has_started
    }

    /// Drops a queued message, and frees its entry.
    pub fn discard(&self, desk: &mut Desk, owner: &mut (dyn Owner + '_), id: EntryId) -> Result {
        let (entry, what) = owner
            .entries()
            .unqueue(id, self.raw())
            .ok_or(Error::INVAL)?;
        let call = self.peer_ops().and_then(|ops| match what {
            What::Tagged => ops.discard_tag,
            _ => ops.discard_msg,
        });
        let call = call.ok_or(Error::NOSYS);
        // SAFETY: fi_peer(3): the entry is queued.
        let discarded = desk.enter(owner, || status(unsafe { call?(entry) }));
        match discarded {
            Ok(()) => owner.entries().remove(id),
            Err(_) => owner.entries().set_queued(id),
        }
        discarded
    }

    fn raw(&self) -> *mut fid_peer_srx {
        Arc::as_ptr(&self.exported).cast_mut().cast()
    }
}

static SRX_OPS: DirectOps = DirectOps::new(
    fi_ops_srx_owner {
        size: 0,
        get_msg: Some(get_msg),
        get_tag: Some(get_tag),
        queue_msg: Some(queue),
        queue_tag: Some(queue),
        foreach_unspec_addr: Some(each_unknown),
        free_entry: Some(free),
    },
    &DirectCalls {
        deliver,
        lost,
        awaits,
    },
);

/// # Safety
/// `DirectCalls`.
unsafe fn lost(srx: *mut fid_peer_srx, from: fi_addr_t, loss: Loss) {
    // SAFETY: the caller's promise: a context of this owner.
    let exported = unsafe { &*srx.cast::<ExportedSrx>() };
    let (post, number) = (&exported.post, exported.number);
    if post.with(|owner| owner.lost(number, from, loss)).is_none() {
        post.put_aside(Report::Lost(number, from, loss));
    }
}

/// # Safety
/// `DirectCalls`.
unsafe fn awaits(srx: *mut fid_peer_srx, from: fi_addr_t) -> bool {
    // SAFETY: the caller's promise: a context of this owner.
    let exported = unsafe { &*srx.cast::<ExportedSrx>() };
    let number = exported.number;
    exported.post.with(|owner| owner.awaits(number, from)) == Some(true)
}

/// # Safety
/// `Deliver`.
unsafe fn deliver(srx: *mut fid_peer_srx, message: &Whole, fill: &mut dyn FnMut(&IoVec)) -> bool {
    // SAFETY: the caller's promise: a context of this owner.
    let exported = unsafe { &*srx.cast::<ExportedSrx>() };
    let number = exported.number;
    let taken = exported
        .post
        .with(|owner| owner.took(number, message, fill));
    taken == Some(true)
}

unsafe extern "C" fn get_msg(
    srx: *mut fid_peer_srx,
    attr: *mut fi_peer_match_attr,
    out: *mut *mut fi_peer_rx_entry,
) -> c_int {
    // SAFETY: the peer's promise, passed on.
    unsafe { get(srx, attr, out, What::Msg) }
}

unsafe extern "C" fn get_tag(
    srx: *mut fid_peer_srx,
    attr: *mut fi_peer_match_attr,
    out: *mut *mut fi_peer_rx_entry,
) -> c_int {
    // SAFETY: the peer's promise, passed on.
    unsafe { get(srx, attr, out, What::Tagged) }
}

/// # Safety
/// fi_peer(3): the context that the peer was opened with; the other arguments are valid during the call.
unsafe fn get(
    srx: *mut fid_peer_srx,
    attr: *mut fi_peer_match_attr,
    out: *mut *mut fi_peer_rx_entry,
    what: What,
) -> c_int {
    // SAFETY: the caller's promise.
    let (exported, attr) = unsafe { (&*srx.cast::<ExportedSrx>(), *attr) };
    let message = Arriving {
        srx: exported.number,
        what,
        from: attr.addr,
        len: attr.msg_size,
        // The tag of a message without one is unset.
        tag: if what == What::Tagged { attr.tag } else { 0 },
    };
    let answered = exported.post.with(|owner| {
        let id = owner.entries().reserve(srx, &message);
        match owner.arrived(&message, id) {
            Answer::Refused(error) => {
                owner.entries().remove(id);
                (error.negative(), null_mut())
            }
            Answer::Matched => (0, owner.entries().raw(id)),
            Answer::Unexpected => (Error::NOENT.negative(), owner.entries().raw(id)),
        }
    });
    let (code, entry) = answered.unwrap_or((Error::AGAIN.negative(), null_mut()));
    // SAFETY: the caller's promise.
    unsafe { *out = entry };
    code
}

/// # Safety
/// fi_peer(3): an entry that the peer has got, and has not freed.
unsafe fn post_of<'a>(entry: *mut fi_peer_rx_entry) -> &'a Post {
    // SAFETY: `reserve` has set the context, which outlives the peer.
    unsafe { &(*(*entry).srx.cast::<ExportedSrx>()).post }
}

unsafe extern "C" fn queue(entry: *mut fi_peer_rx_entry) -> c_int {
    // SAFETY: the peer's promise.
    let (post, id, data) = unsafe {
        let has_data = (*entry).flags & FI_REMOTE_CQ_DATA != 0;
        (
            post_of(entry),
            EntryId::of(entry),
            has_data.then_some((*entry).cq_data),
        )
    };
    let queued = post.with(|owner| {
        owner.entries().set_queued(id);
        owner.queued(id, data);
    });
    match queued {
        Some(()) => 0,
        None => Error::AGAIN.negative(),
    }
}

unsafe extern "C" fn free(entry: *mut fi_peer_rx_entry) {
    // SAFETY: the peer's promise.
    let (post, id) = unsafe { (post_of(entry), EntryId::of(entry)) };
    // An entry that a thread frees from outside stays in the table until its owner is closed.
    post.with(|owner| {
        owner.freed(id);
        owner.entries().remove(id);
    });
}

unsafe extern "C" fn each_unknown(
    srx: *mut fid_peer_srx,
    get_addr: Option<unsafe extern "C" fn(entry: *mut fi_peer_rx_entry) -> fi_addr_t>,
) {
    let Some(get_addr) = get_addr else { return };
    // SAFETY: the peer's promise: the context that it was opened with.
    let exported = unsafe { &*srx.cast::<ExportedSrx>() };
    exported.post.with(|owner| {
        owner.senders_changed(exported.number, &mut |entries, id| {
            match entries.raw_of(id, srx) {
                // SAFETY: the peer's function, for an entry of its own that is queued.
                Some(entry) => unsafe { get_addr(entry) },
                None => FI_ADDR_UNSPEC,
            }
        });
    });
}
