// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The peer side of fi_peer(3): completion queues and shared receive contexts that another provider (the owner) opened,
//! and that endpoints of this library use. Calls from the peer to the owner and back.
//!
//! Trusted with: calling the owner's functions. The owner promises that its exported objects stay valid until the
//! peer's own object is closed, and that it holds its locks around every call of the peer that leads here.

mod offload;
mod served;
#[cfg(test)]
mod tests;

use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicU8, Ordering};
use std::sync::Arc;

use crate::ops::cq::CqErr;
use crate::ops::transfer::What;
use abi::*;
use base::{Error, IoVec, OpFlags, Result};

pub use offload::{Message, PeerAv, PeerEq, PeerTransfer, Transferred, check_domain, members_of};
use served::{PEER_OPS, address};
pub use served::{Place, Served};

/// The owner's completion queue.
pub struct PeerCq {
    cq: *mut fid_peer_cq,
    write: CqWrite,
    write_err: CqWriteErr,
}

type CqWrite = unsafe extern "C" fn(
    *mut fid_peer_cq,
    *mut c_void,
    u64,
    usize,
    *mut c_void,
    u64,
    u64,
    fi_addr_t,
) -> isize;
type CqWriteErr = unsafe extern "C" fn(*mut fid_peer_cq, *const fi_cq_err_entry) -> isize;

// SAFETY: fi_peer(3): the owner is responsible for locking, whichever thread calls.
unsafe impl Send for PeerCq {}
// SAFETY: as above.
unsafe impl Sync for PeerCq {}

impl PeerCq {
    /// # Safety
    /// fi_peer(3), fi_cq_open with FI_PEER: `context` is NULL or a `fi_peer_cq_context` whose queue outlives the opened
    /// object.
    pub unsafe fn import(context: *mut c_void) -> Result<PeerCq> {
        let context = context.cast::<fi_peer_cq_context>();
        // SAFETY: the caller's promise; each struct begins with its size, and is read only if it is complete.
        unsafe {
            let cq = whole(context)?.cq;
            let ops = whole(cq.as_ref().ok_or(Error::INVAL)?.owner_ops)?;
            Ok(PeerCq {
                cq,
                write: ops.write.ok_or(Error::INVAL)?,
                write_err: ops.writeerr.ok_or(Error::INVAL)?,
            })
        }
    }

    /// Writes a completion, given as the words of `fi_cq_tagged_entry`.
    pub fn write(&self, entry: &[u64; 6], src: u64) {
        let [context, flags, len, buf, data, tag] = *entry;
        let (context, buf) = (context as *mut c_void, buf as *mut c_void);
        // SAFETY: `import`: the queue and its functions are valid until this object is dropped.
        unsafe { (self.write)(self.cq, context, flags, len as usize, buf, data, tag, src) };
    }

    pub fn write_err(&self, error: &CqErr) {
        let data = error.err_data.as_deref().unwrap_or(&[]);
        let entry = fi_cq_err_entry {
            op_context: error.context as *mut c_void,
            flags: error.flags.bits(),
            len: error.len,
            buf: error.buf as *mut c_void,
            data: error.data,
            tag: error.tag,
            olen: error.olen,
            err: error.err,
            prov_errno: error.prov_errno,
            err_data: match data {
                [] => ptr::null_mut(),
                data => data.as_ptr().cast_mut().cast(),
            },
            err_data_size: data.len(),
            src_addr: error.src_addr,
        };
        // SAFETY: as in `write`; the entry and its data live for the call.
        unsafe { (self.write_err)(self.cq, &entry) };
    }
}

/// The owner's counter.
pub struct PeerCntr {
    cntr: *mut fid_peer_cntr,
    inc: CntrInc,
    inc_err: CntrInc,
}

type CntrInc = unsafe extern "C" fn(*mut fid_peer_cntr);

// SAFETY: as for `PeerCq`.
unsafe impl Send for PeerCntr {}
// SAFETY: as above.
unsafe impl Sync for PeerCntr {}

impl PeerCntr {
    /// # Safety
    /// fi_peer(3), fi_cntr_open with FI_PEER: `context` is NULL or a `fi_peer_cntr_context` whose counter outlives the
    /// opened object.
    pub unsafe fn import(context: *mut c_void) -> Result<PeerCntr> {
        let context = context.cast::<fi_peer_cntr_context>();
        // SAFETY: the caller's promise; each struct begins with its size, and is read only if it is complete.
        unsafe {
            let cntr = whole(context)?.cntr;
            let ops = whole(cntr.as_ref().ok_or(Error::INVAL)?.owner_ops)?;
            Ok(PeerCntr {
                cntr,
                inc: ops.inc.ok_or(Error::INVAL)?,
                inc_err: ops.incerr.ok_or(Error::INVAL)?,
            })
        }
    }

    /// Counts operations that have succeeded, and that have failed.
    pub fn count(&self, good: u64, bad: u64) {
        // SAFETY: `import`: the counter and its functions are valid until this object is dropped.
        unsafe {
            (0..good).for_each(|_| (self.inc)(self.cntr));
            (0..bad).for_each(|_| (self.inc_err)(self.cntr));
        }
    }
}

/// The end of the connection to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    pub error: Error,
    /// The peer's host is silent. Otherwise the peer may connect again.
    pub is_silent: bool,
}

/// `struct fi_ops_srx_owner` of an owner that is part of this library, with a call that others do not have. Its size
/// and its mark distinguish it.
#[repr(C)]
pub struct DirectOps {
    pub ops: fi_ops_srx_owner,
    pub mark: *const u8,
    pub calls: &'static DirectCalls,
}

// `tables` tells an owner's table from one of an endpoint by its size.
const _: () = assert!(size_of::<DirectOps>() < size_of::<fi_ops_wr>());

/// The calls that only owners of this library have. A context passed to them is one of such an owner.
#[derive(Clone, Copy)]
pub struct DirectCalls {
    pub deliver: Deliver,
    /// The connection to a peer has ended.
    pub lost: unsafe fn(srx: *mut fid_peer_srx, from: fi_addr_t, loss: Loss),
    /// Whether a receive names this peer.
    pub awaits: unsafe fn(srx: *mut fid_peer_srx, from: fi_addr_t) -> bool,
}

/// Delivers a message that has arrived as a whole: `fill` is called with the receive that matches it. Returns false
/// without effect if there is none, or if it needs more than that.
///
/// # Safety
/// The context of such an owner, while the owner calls its peer.
pub type Deliver =
    unsafe fn(srx: *mut fid_peer_srx, message: &Whole, fill: &mut dyn FnMut(&IoVec)) -> bool;

/// A message that has arrived as a whole.
pub struct Whole {
    pub what: What,
    /// The sender in the peer's address vector; FI_ADDR_UNSPEC for an unknown one.
    pub from: fi_addr_t,
    pub len: u64,
    pub tag: u64,
    pub data: Option<u64>,
}

/// Its address is in the tables of this library's owners.
static MARK: u8 = 0;

// SAFETY: the table and the mark are never changed.
unsafe impl Sync for DirectOps {}

impl DirectOps {
    /// `ops.size` is set to the size of the whole.
    pub const fn new(mut ops: fi_ops_srx_owner, calls: &'static DirectCalls) -> DirectOps {
        ops.size = size_of::<DirectOps>();
        DirectOps {
            ops,
            mark: &raw const MARK,
            calls,
        }
    }

    /// # Safety
    /// `ops` is a table of an owner, as long as its size says.
    unsafe fn of(ops: &fi_ops_srx_owner) -> Option<&'static DirectCalls> {
        if ops.size != size_of::<DirectOps>() {
            return None;
        }
        // SAFETY: the caller's promise; the pointer is only compared. The mark belongs to this copy of the library,
        // whose tables have this form.
        unsafe {
            let direct = core::ptr::from_ref(ops).cast::<DirectOps>();
            let mark = (&raw const (*direct).mark).read();
            (mark == &raw const MARK).then(|| (*direct).calls)
        }
    }
}

/// The owner's receive context.
pub struct PeerSrx {
    srx: *mut fid_peer_srx,
    direct: Option<&'static DirectCalls>,
    get: [GetEntry; 2],
    queue: [QueueEntry; 2],
    free: unsafe extern "C" fn(*mut fi_peer_rx_entry),
    each_unknown: EachUnknown,
}

type GetEntry = unsafe extern "C" fn(
    *mut fid_peer_srx,
    *mut fi_peer_match_attr,
    *mut *mut fi_peer_rx_entry,
) -> c_int;
type QueueEntry = unsafe extern "C" fn(*mut fi_peer_rx_entry) -> c_int;
type EachUnknown = unsafe extern "C" fn(
    *mut fid_peer_srx,
    Option<unsafe extern "C" fn(*mut fi_peer_rx_entry) -> fi_addr_t>,
);

// SAFETY: fi_peer(3): the owner acquires the locks it needs.
unsafe impl Send for PeerSrx {}
// SAFETY: as above.
unsafe impl Sync for PeerSrx {}

/// Result of a request for the receive of a message.
pub enum Got {
    /// The receive that matches the message.
    Matched(Entry),
    /// No receive matches; the caller queues the entry.
    Unexpected(Entry),
    /// The owner returned an error.
    Failed,
}

impl PeerSrx {
    /// # Safety
    /// fi_peer(3), fi_srx_context with FI_PEER: `context` is NULL or a `fi_peer_srx_context` whose `fid_peer_srx` is
    /// writable and outlives the opened object.
    pub unsafe fn import(context: *mut c_void) -> Result<PeerSrx> {
        let context = context.cast::<fi_peer_srx_context>();
        // SAFETY: as in `PeerCq::import`.
        unsafe {
            let srx = whole(context)?.srx;
            let ops = whole(*tables(srx)?.0)?;
            Ok(PeerSrx {
                srx,
                direct: DirectOps::of(ops),
                get: [
                    ops.get_msg.ok_or(Error::INVAL)?,
                    ops.get_tag.ok_or(Error::INVAL)?,
                ],
                queue: [
                    ops.queue_msg.ok_or(Error::INVAL)?,
                    ops.queue_tag.ok_or(Error::INVAL)?,
                ],
                free: ops.free_entry.ok_or(Error::INVAL)?,
                each_unknown: ops.foreach_unspec_addr.ok_or(Error::INVAL)?,
            })
        }
    }

    /// Installs the peer's functions. From now on the owner may start and discard messages.
    pub fn serve(&self) {
        // SAFETY: `import`: the struct is writable; fi_peer(3) leaves this member to the peer.
        unsafe {
            if let Ok((_, peer_ops)) = tables(self.srx) {
                *peer_ops = (&raw const PEER_OPS).cast_mut();
            }
        }
    }

    /// Passes on a message that has arrived as a whole, if the owner is part of this library and has a receive for it.
    /// Only from within a call of the owner. `fill` writes the message to the receive.
    #[inline]
    pub fn deliver(&self, message: &Whole, fill: impl FnOnce(&IoVec)) -> bool {
        let Some(&DirectCalls { deliver, .. }) = self.direct else {
            return false;
        };
        let mut fill = Some(fill);
        let mut call = |iov: &IoVec| {
            if let Some(fill) = fill.take() {
                fill(iov);
            }
        };
        // SAFETY: `import`; the owner's state is found only if this thread is inside of the owner's call.
        unsafe { deliver(self.srx, message, &mut call) }
    }

    /// Tells an owner of this library that the connection to a peer has ended.
    #[cold]
    pub fn lost(&self, from: fi_addr_t, loss: Loss) {
        if let Some(direct) = self.direct {
            // SAFETY: as in `deliver`.
            unsafe { (direct.lost)(self.srx, from, loss) };
        }
    }

    /// Whether a receive of an owner of this library names this peer.
    #[cold]
    pub fn awaits(&self, from: fi_addr_t) -> bool {
        // SAFETY: as in `deliver`.
        let ask = |direct: &DirectCalls| unsafe { (direct.awaits)(self.srx, from) };
        self.direct.is_some_and(ask)
    }

    /// Requests the receive for a message from the owner. `addr` is FI_ADDR_UNSPEC for an unknown sender.
    pub fn get(&self, what: What, addr: u64, len: u64, tag: u64) -> Got {
        let mut attr = fi_peer_match_attr {
            addr,
            msg_size: len as usize,
            tag,
        };
        let mut entry = ptr::null_mut();
        // SAFETY: `import`; the other arguments live for the call.
        let code = unsafe { self.get[kind(what)](self.srx, &mut attr, &mut entry) };
        let not_there = Error::NOENT.negative();
        match (code, entry.is_null()) {
            (0, false) => Got::Matched(Entry::of(self, entry)),
            (code, false) if code == not_there => Got::Unexpected(Entry::of(self, entry)),
            _ => Got::Failed,
        }
    }

    /// Queues an unexpected message at the owner, which may call `start` and `discard` before this returns. An entry
    /// that is freed meanwhile is returned to the owner afterwards.
    ///
    /// # Panics
    /// If `get` of another context returned the entry: a fault of this library.
    pub fn queue(&self, what: What, queueing: Queueing) -> Result {
        assert_eq!(queueing.srx, self.srx, "an entry of another owner");
        let (entry, state) = (queueing.raw, queueing.state);
        // Acquire and release here and below: what a thread did with the entry comes before the call that frees it.
        let code = match state.load(Ordering::Acquire) & state::FREED {
            // SAFETY: `import`; `get` gave the entry, which is not freed while `CALLING` is set.
            0 => unsafe { self.queue[kind(what)](entry) },
            // The message is gone.
            _ => Error::NOENT.negative(),
        };
        if state.fetch_and(!state::CALLING, Ordering::AcqRel) & state::FREED != 0 {
            // SAFETY: `import`; `free` has taken the entry and left this call to us.
            unsafe { (self.free)(entry) };
        }
        match code {
            0 => Ok(()),
            code => Err(Error::new(code.saturating_neg())),
        }
    }

    /// Releases an entry whose receive is finished, or whose message is dropped with its endpoint. An entry that a call
    /// is queuing is released when that call ends.
    ///
    /// # Panics
    /// As for `queue`.
    pub fn free(&self, entry: Entry) {
        assert_eq!(entry.srx, self.srx, "an entry of another owner");
        let is_ours = entry.state.as_ref().is_none_or(|state| {
            let before = state.fetch_or(state::FREED, Ordering::AcqRel);
            before & state::CALLING == 0
        });
        if is_ours {
            // SAFETY: `import`; the entry is not used after this, which takes it, and `queue` does not use it.
            unsafe { (self.free)(entry.raw) };
        }
    }

    /// Makes the owner look up the senders of its unexpected messages again, after addresses were inserted.
    pub fn addresses_changed(&self) {
        // SAFETY: `import`.
        unsafe { (self.each_unknown)(self.srx, Some(address)) };
    }
}

/// Returns the places of `owner_ops` and `peer_ops`. The struct begins with a `fid_ep`, to which release 2.8 added the
/// member `wr`. An owner with older headers has `owner_ops` in the place of `wr`. The size of
/// the table distinguishes the two; `wr` may be NULL.
///
/// # Safety
/// NULL, or a struct of any release.
unsafe fn tables(
    srx: *mut fid_peer_srx,
) -> Result<(*mut *mut fi_ops_srx_owner, *mut *mut fi_ops_srx_peer)> {
    if srx.is_null() {
        return Err(Error::INVAL);
    }
    // SAFETY: in every release this place holds NULL or a pointer to a table that begins with its size.
    unsafe {
        let place = &raw mut (*srx).ep_fid.wr;
        let size = match (*place).is_null() {
            true => size_of::<fi_ops_wr>(),
            false => (**place).size,
        };
        Ok(match size >= size_of::<fi_ops_wr>() {
            true => (&raw mut (*srx).owner_ops, &raw mut (*srx).peer_ops),
            false => (place.cast(), place.add(1).cast()),
        })
    }
}

const _: () = assert!(size_of::<fi_ops_srx_owner>() < size_of::<fi_ops_wr>());

const fn kind(what: What) -> usize {
    match what {
        What::Tagged => 1,
        _ => 0,
    }
}

/// A receive of the owner, or the owner's entry for an unexpected message. It is freed once:
///
/// ```compile_fail,E0382
/// fn twice(srx: &object::peer::PeerSrx, entry: object::peer::Entry) {
///     srx.free(entry);
///     srx.free(entry);
/// }
/// ```
///
/// What `queue` needs of it cannot be freed:
///
/// ```compile_fail,E0308
/// fn twice(srx: &object::peer::PeerSrx, mut entry: object::peer::Entry) {
///     srx.free(entry.queueing());
///     srx.free(entry);
/// }
/// ```
pub struct Entry {
    raw: *mut fi_peer_rx_entry,
    /// The context that returned it, for a comparison.
    srx: *mut fid_peer_srx,
    /// Bits of `state`, if the entry is queued or was.
    state: Option<Arc<AtomicU8>>,
}

/// An entry as the call needs it that queues it. The entry may be freed meanwhile.
pub struct Queueing {
    raw: *mut fi_peer_rx_entry,
    srx: *mut fid_peer_srx,
    state: Arc<AtomicU8>,
}

/// The owner's call that starts a message that was queued: the entry belongs to the peer again.
pub struct Started(*mut fi_peer_rx_entry);

mod state {
    /// The call that queues the entry is about to begin, or runs. At its end it returns an entry that was freed.
    pub const CALLING: u8 = 1;
    /// The peer does not need the entry any more.
    pub const FREED: u8 = 2;
}

// SAFETY: fi_peer(3): an entry belongs to the peer from `get` or `start` until it is queued or freed, in any thread.
unsafe impl Send for Entry {}
// SAFETY: the methods for shared references set members under the lock of the caller, or read those that the owner has
// set before.
unsafe impl Sync for Entry {}
// SAFETY: as for `Entry`.
unsafe impl Send for Queueing {}

/// Arguments of a receive that the owner posted.
pub struct Receive {
    pub iov: IoVec,
    pub context: usize,
    pub flags: OpFlags,
}

impl Entry {
    fn of(srx: &PeerSrx, raw: *mut fi_peer_rx_entry) -> Entry {
        Entry {
            raw,
            srx: srx.srx,
            state: None,
        }
    }

    /// Returns what `queue` needs, to which it must be passed: without that call the entry is never freed.
    ///
    /// # Panics
    /// The second time.
    pub fn queueing(&mut self) -> Queueing {
        assert!(self.state.is_none(), "an entry is queued once");
        let state = Arc::new(AtomicU8::new(state::CALLING));
        self.state = Some(state.clone());
        Queueing {
            raw: self.raw,
            srx: self.srx,
            state,
        }
    }

    /// Checks that the owner's call to start a message is for this entry. FI_EINVAL: it is for another one.
    pub fn take_back(&self, Started(raw): Started) -> Result {
        match raw == self.raw {
            true => Ok(()),
            false => Err(Error::INVAL),
        }
    }

    /// Stores the token that the owner passes back for this message, and the remote CQ data of the message.
    pub fn note(&mut self, token: usize, data: Option<u64>) {
        // SAFETY: fi_peer(3): until it is queued the peer sets these members.
        unsafe {
            (*self.raw).peer_context = token as *mut c_void;
            if let Some(data) = data {
                (*self.raw).cq_data = data;
                (*self.raw).flags |= FI_REMOTE_CQ_DATA;
            }
        }
    }

    /// Returns None if the receive has more pieces than an operation can have.
    pub fn receive(&self) -> Option<Receive> {
        // SAFETY: fi_peer(3): a matched or started entry is filled, and its buffers belong to the peer until the
        // message completes.
        unsafe {
            let entry = &*self.raw;
            Some(Receive {
                iov: IoVec::new(entry.iov, entry.count)?,
                context: entry.context as usize,
                flags: OpFlags::from_bits_retain(entry.flags),
            })
        }
    }
}

/// Returns the struct, which begins with its size, if it is at least as long as ours.
///
/// # Safety
/// `at` is NULL or points to such a struct, which is readable while the reference is used.
unsafe fn whole<'a, S>(at: *const S) -> Result<&'a S> {
    // SAFETY: promised by the caller; the size is read first and shows whether the rest is there.
    unsafe {
        match at.cast::<usize>().as_ref() {
            Some(&size) if size >= size_of::<S>() => Ok(&*at),
            _ => Err(Error::INVAL),
        }
    }
}
