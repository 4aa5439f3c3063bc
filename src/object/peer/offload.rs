// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The peer side of fi_peer(3) for collectives: event queues, address vectors and domains of the owner, and the owner's
//! endpoint, which moves the messages of the peer (FI_PEER_TRANSFER).
//!
//! Trusted with: calling the owner's functions, and the contexts of its operations.

use core::ffi::c_void;
use core::ptr;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::whole;
use crate::handle::{self, Kind};
use crate::ops::status;
use abi::*;
use base::iovec::Span;
use base::{Error, Result};

/// The owner's event queue.
pub struct PeerEq {
    eq: *mut fid_eq,
}

// SAFETY: fi_eq(3): queues may be written by any thread.
unsafe impl Send for PeerEq {}
// SAFETY: as above.
unsafe impl Sync for PeerEq {}

impl PeerEq {
    /// # Safety
    /// fi_peer(3), fi_eq_open with FI_PEER: `context` is NULL or a `fi_peer_eq_context` whose queue outlives the opened
    /// object.
    pub unsafe fn import(context: *mut c_void) -> Result<PeerEq> {
        let context = context.cast::<fi_peer_eq_context>();
        // SAFETY: the caller's promise; the struct begins with its size, and is read only if it is complete.
        let eq = unsafe { whole(context) }?.eq;
        match eq.is_null() {
            true => Err(Error::INVAL),
            false => Ok(PeerEq { eq }),
        }
    }

    /// Writes an event. FI_ENOSYS if the queue has no such call.
    pub fn write(&self, event: u32, bytes: &[u8]) -> Result {
        // SAFETY: `import`: the queue is open, and begins with its functions.
        let code = unsafe {
            let ops = (*self.eq).ops.as_ref().ok_or(Error::NOSYS)?;
            let write = ops.write.ok_or(Error::NOSYS)?;
            write(self.eq, event, bytes.as_ptr().cast(), bytes.len(), 0)
        };
        check(code)
    }
}

/// The owner's address vector.
pub struct PeerAv {
    av: *mut fid_peer_av,
    query: AvQuery,
    ep_addr: EpAddr,
}

type AvQuery = unsafe extern "C" fn(*mut fid_peer_av, *mut fi_av_attr) -> core::ffi::c_int;
type EpAddr = unsafe extern "C" fn(*mut fid_peer_av, *mut fid_ep) -> fi_addr_t;

// SAFETY: fi_peer(3): the owner acquires the locks it needs.
unsafe impl Send for PeerAv {}
// SAFETY: as above.
unsafe impl Sync for PeerAv {}

impl PeerAv {
    /// # Safety
    /// fi_peer(3), fi_av_open with FI_PEER: `context` is NULL or a `fi_peer_av_context` whose vector outlives the
    /// opened object.
    pub unsafe fn import(context: *mut c_void) -> Result<PeerAv> {
        let context = context.cast::<fi_peer_av_context>();
        // SAFETY: the caller's promise; each struct begins with its size, and is read only if it is complete.
        unsafe {
            let av = whole(context)?.av;
            let ops = whole(av.as_ref().ok_or(Error::INVAL)?.owner_ops)?;
            Ok(PeerAv {
                av,
                query: ops.query.ok_or(Error::INVAL)?,
                ep_addr: ops.ep_addr.ok_or(Error::INVAL)?,
            })
        }
    }

    /// Number of addresses in the vector.
    pub fn count(&self) -> Result<u64> {
        let mut attr = fi_av_attr {
            r#type: FI_AV_UNSPEC,
            rx_ctx_bits: 0,
            count: 0,
            ep_per_node: 0,
            name: ptr::null(),
            map_addr: ptr::null_mut(),
            flags: 0,
        };
        // SAFETY: `import`: the vector and its functions are valid until this object is dropped.
        check(unsafe { (self.query)(self.av, &mut attr) } as isize)?;
        Ok(attr.count as u64)
    }

    /// The address of an endpoint of the owner in the vector; `None` if it is not there.
    pub fn address_of(&self, transfer: &PeerTransfer) -> Option<u64> {
        // SAFETY: `import`, here and for the endpoint.
        let addr = unsafe { (self.ep_addr)(self.av, transfer.ep) };
        (addr != FI_ADDR_NOTAVAIL).then_some(addr)
    }
}

/// Returns the members of a set of the owner. Later changes of the set do not count.
///
/// # Safety
/// fi_peer(3), fi_av_set with FI_PEER: `context` is NULL or a `fi_peer_av_set_context`.
pub unsafe fn members_of(context: *mut c_void) -> Result<Vec<u64>> {
    // SAFETY: the caller's promise; each struct begins with its size, and is read only if it is complete.
    let (set, members) = unsafe {
        let set = whole(context.cast::<fi_peer_av_set_context>())?.av_set;
        let set = set.cast::<fid_peer_av_set>();
        let ops = whole(set.as_ref().ok_or(Error::INVAL)?.owner_ops)?;
        (set, ops.members.ok_or(Error::INVAL)?)
    };
    let mut all: Vec<u64> = Vec::new();
    // Members may be added between two calls.
    for _ in 0..MOST_TRIES {
        let mut count = all.len();
        // SAFETY: `all` has room for `count` addresses.
        let code = unsafe { members(set, all.as_mut_ptr(), &mut count) };
        match check(code as isize) {
            Ok(()) if count <= all.len() => {
                all.truncate(count);
                return Ok(all);
            }
            Ok(()) | Err(Error::TOOSMALL) => {
                let room = count.saturating_sub(all.len());
                all.try_reserve_exact(room).map_err(|_| Error::NOMEM)?;
                all.resize(count, 0);
            }
            Err(error) => return Err(error),
        }
    }
    Err(Error::AGAIN)
}

const MOST_TRIES: u32 = 100;

/// Checks the context of fi_domain2 with FI_PEER. The domain is not used: its endpoints do all that is needed.
///
/// # Safety
/// fi_peer(3): `context` is NULL or a `fi_peer_domain_context`.
pub unsafe fn check_domain(context: *mut c_void) -> Result {
    // SAFETY: the caller's promise.
    let context = unsafe { whole(context.cast::<fi_peer_domain_context>()) }?;
    match context.domain.is_null() {
        true => Err(Error::INVAL),
        false => Ok(()),
    }
}

/// The owner's endpoint.
pub struct PeerTransfer {
    ep: *mut fid_ep,
    /// The contexts of operations that are not complete, by their addresses, with the numbers of the operations.
    contexts: Mutex<HashMap<usize, (Room, usize)>>,
}

/// Contexts of operations that were not complete when the endpoint was closed.
static LEFT: Mutex<Vec<Room>> = Mutex::new(Vec::new());

/// Memory at a fixed address that the owner may write until the operation is complete.
struct Room(*mut fi_context2);

impl Room {
    fn new() -> Room {
        Room(Box::into_raw(Box::new(fi_context2 {
            internal: [ptr::null_mut(); 8],
        })))
    }
}

// SAFETY: memory like any other, which only its owner frees.
unsafe impl Send for Room {}

impl Drop for Room {
    fn drop(&mut self) {
        // SAFETY: from `new`, and the operation is complete or was never begun.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

// SAFETY: fi_endpoint(3): the endpoint may be used by any thread; the rooms are memory like any other.
unsafe impl Send for PeerTransfer {}
// SAFETY: as above; the rooms are behind a lock.
unsafe impl Sync for PeerTransfer {}

/// A message that the owner moves.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// Memory that stays valid until the operation is complete.
    pub memory: Span,
    /// The receiver; FI_ADDR_UNSPEC for a receive of messages of any sender.
    pub addr: u64,
    pub tag: u64,
    pub ignore: u64,
    pub is_receive: bool,
    /// Names the operation.
    pub number: usize,
}

impl PeerTransfer {
    /// Imports the endpoint and gives the owner the functions of this side.
    ///
    /// # Safety
    /// fi_peer(3), fi_endpoint with FI_PEER_TRANSFER: `context` is NULL or a writable `fi_peer_transfer_context` whose
    /// endpoint outlives the opened object.
    pub unsafe fn import<T: Transferred>(context: *mut c_void) -> Result<PeerTransfer> {
        let context = context.cast::<fi_peer_transfer_context>();
        // SAFETY: the caller's promise.
        unsafe {
            let ep = whole(context.cast_const())?.ep;
            if ep.is_null() {
                return Err(Error::INVAL);
            }
            (*context).peer_ops = ptr::from_ref(transfer_table::<T>()).cast_mut();
            Ok(PeerTransfer {
                ep,
                contexts: Mutex::default(),
            })
        }
    }

    /// Begins to move a message. Its memory must be that of the library, because an endpoint that is closed does not
    /// wait for the operation. FI_ENOSYS if the owner has no such call.
    pub fn begin(&self, message: &Message) -> Result {
        let room = Room::new();
        let context = room.0;
        let place = context.expose_provenance();
        self.contexts().insert(place, (room, message.number));
        let memory = iovec {
            iov_base: ptr::with_exposed_provenance_mut(message.memory.start),
            iov_len: message.memory.len,
        };
        let msg = fi_msg_tagged {
            msg_iov: &memory,
            desc: ptr::null_mut(),
            iov_count: 1,
            addr: message.addr,
            tag: message.tag,
            ignore: message.ignore,
            context: context.cast(),
            data: 0,
        };
        let flags = FI_PEER_TRANSFER | FI_COMPLETION;
        // SAFETY: `import`: the endpoint is open, and begins with its functions; `msg` lives for the call, the memory
        // and the context until the operation is complete.
        let code = unsafe {
            let ops = (*self.ep).tagged.as_ref();
            let call = ops.and_then(|ops| match message.is_receive {
                true => ops.recvmsg,
                false => ops.sendmsg,
            });
            match call {
                Some(call) => call(self.ep, &msg, flags),
                None => Error::NOSYS.negative() as isize,
            }
        };
        let begun = check(code);
        if begun.is_err() {
            self.contexts().remove(&place);
        }
        begun
    }

    /// Returns the number of an operation that is complete; `None` if there is no such operation.
    pub fn end(&self, context: usize) -> Option<usize> {
        let (_, number) = self.contexts().remove(&context)?;
        Some(number)
    }

    fn contexts(&self) -> std::sync::MutexGuard<'_, HashMap<usize, (Room, usize)>> {
        self.contexts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PeerTransfer {
    /// The owner may still write to the contexts.
    fn drop(&mut self) {
        let all = core::mem::take(&mut *self.contexts());
        let mut left = LEFT.lock().unwrap_or_else(PoisonError::into_inner);
        left.extend(all.into_values().map(|(room, _)| room));
    }
}

/// An endpoint whose messages an owner moves.
pub trait Transferred: Kind<Head = fid_ep> {
    /// A message was moved, or not. With a receive: its length, and its sender.
    fn transferred(&self, context: usize, result: Result<(usize, u64)>) -> Result;
}

const fn transfer_table<T: Transferred>() -> &'static fi_ops_transfer_peer {
    &fi_ops_transfer_peer {
        size: size_of::<fi_ops_transfer_peer>(),
        complete: Some(complete::<T>),
        comperr: Some(comperr::<T>),
    }
}

unsafe extern "C" fn complete<T: Transferred>(
    ep: *mut fid_ep,
    entry: *mut fi_cq_tagged_entry,
    src: fi_addr_t,
) -> isize {
    // SAFETY: fi_peer(3): the endpoint that was opened with the owner's, and a readable entry, or NULL.
    let (ep, entry) = unsafe { (handle::get::<T, fid_ep>(ep), entry.as_ref()) };
    status(match (ep, entry) {
        (Some(ep), Some(entry)) => ep.transferred(entry.op_context as usize, Ok((entry.len, src))),
        _ => Err(Error::INVAL),
    })
}

unsafe extern "C" fn comperr<T: Transferred>(
    ep: *mut fid_ep,
    entry: *mut fi_cq_err_entry,
) -> isize {
    // SAFETY: as above.
    let (ep, entry) = unsafe { (handle::get::<T, fid_ep>(ep), entry.as_ref()) };
    status(match (ep, entry) {
        (Some(ep), Some(entry)) => {
            let error = Error::new(entry.err.max(1));
            ep.transferred(entry.op_context as usize, Err(error))
        }
        _ => Err(Error::INVAL),
    })
}

/// The result of a call of the owner.
fn check(code: isize) -> Result {
    match code {
        0.. => Ok(()),
        code => Err(Error::new(i32::try_from(-code).unwrap_or(i32::MAX))),
    }
}
