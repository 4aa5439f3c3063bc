// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Operations of data transfer, one description for all forms of the calls: fi_msg(3), fi_tagged(3), fi_rma(3).

use core::ffi::c_void;

use abi::*;
use base::flags::flags;
use base::log::{CORE, Subsys, log_misuse};

use crate::handle::{self, Kind};
use crate::ops::credits::CREDIT_MESSAGE;
use crate::ops::object;
use base::{CompFlags, Error, IoVec, OpFlags, Piece, Result, Source};
use hmem::Desc;
use sync::stats::Tally;

pub use super::context::Context;
pub(super) use super::context::Given;

/// Kind of an operation; the order is that of `sync::stats::Tally::begun`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    Msg,
    Tagged,
    Write,
    Read,
    Atomic,
    /// An atomic operation with a result.
    AtomicFetch,
}

impl What {
    /// Completion flags of a receive.
    pub const fn received(self) -> CompFlags {
        match self {
            What::Tagged => flags!(CompFlags: TAGGED | RECV),
            _ => flags!(CompFlags: MSG | RECV),
        }
    }

    /// The statistics counter for a successful operation of this kind.
    #[inline(always)]
    pub const fn tally(self) -> Tally {
        Tally::begun(self as u8)
    }
}

/// Memory at the target, as `struct fi_rma_iov`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemoteSeg {
    pub addr: u64,
    pub len: usize,
    pub key: u64,
}

const _: () = assert!(size_of::<RemoteSeg>() == size_of::<fi_rma_iov>());
const _: () =
    assert!(core::mem::offset_of!(RemoteSeg, key) == core::mem::offset_of!(fi_rma_iov, key));

/// An operation that the initiator posts.
pub struct Tx<'a> {
    pub what: What,
    pub iov: IoVec,
    /// Operation flags; FI_COMPLETION says whether success is reported.
    pub flags: OpFlags,
    pub dest: u64,
    pub context: Context,
    pub data: u64,
    pub tag: u64,
    /// RMA only.
    pub target: &'a [RemoteSeg],
}

/// A receive that is posted.
pub struct Rx {
    pub what: What,
    pub iov: IoVec,
    pub flags: OpFlags,
    pub src: u64,
    pub context: Context,
    pub tag: u64,
    pub ignore: u64,
}

/// A message of one buffer: the usual call.
pub struct OneTx {
    /// A message, with a tag or without.
    pub what: What,
    pub piece: Source,
    pub desc: Desc,
    pub flags: OpFlags,
    pub dest: u64,
    pub context: Context,
    pub data: u64,
    pub tag: u64,
}

/// A write of one buffer to one place: the usual call.
pub struct OneWrite {
    pub piece: Source,
    pub desc: Desc,
    pub flags: OpFlags,
    pub dest: u64,
    pub context: Context,
    pub data: u64,
    pub target: RemoteSeg,
}

/// A receive of one buffer.
pub struct OneRx {
    pub what: What,
    pub piece: Piece,
    pub desc: Desc,
    pub flags: OpFlags,
    pub src: u64,
    pub context: Context,
    pub tag: u64,
    pub ignore: u64,
}

impl From<OneTx> for Tx<'static> {
    #[inline]
    fn from(one: OneTx) -> Tx<'static> {
        Tx {
            what: one.what,
            iov: IoVec::from(one.piece).with_desc(one.desc),
            flags: one.flags,
            dest: one.dest,
            context: one.context,
            data: one.data,
            tag: one.tag,
            target: &[],
        }
    }
}

impl OneWrite {
    /// Calls with the same write among those of any shape.
    #[inline]
    pub fn with_any<R>(self, call: impl FnOnce(&mut Tx<'_>) -> R) -> R {
        call(&mut Tx {
            what: What::Write,
            iov: IoVec::from(self.piece).with_desc(self.desc),
            flags: self.flags,
            dest: self.dest,
            context: self.context,
            data: self.data,
            tag: 0,
            target: &[self.target],
        })
    }
}

impl From<OneRx> for Rx {
    #[inline]
    fn from(one: OneRx) -> Rx {
        Rx {
            what: one.what,
            iov: IoVec::from(one.piece).with_desc(one.desc),
            flags: one.flags,
            src: one.src,
            context: one.context,
            tag: one.tag,
            ignore: one.ignore,
        }
    }
}

pub trait DataPath: Kind<Head = fid_ep> {
    /// Whether the endpoint uses descriptors (fi_mr_desc(3)). If not, arrays of them are not read, because programs
    /// leave them unset.
    fn reads_descs(&self) -> bool {
        false
    }

    /// Posts an operation. On success the endpoint has taken the memory out of `tx`.
    fn transmit(&self, tx: &mut Tx<'_>) -> Result;
    fn receive(&self, rx: Rx) -> Result;
    /// The same for an operation of one buffer. The default calls `transmit` or `receive`.
    #[inline]
    fn transmit_one(&self, tx: OneTx) -> Result {
        self.transmit(&mut tx.into())
    }
    #[inline]
    fn receive_one(&self, rx: OneRx) -> Result {
        self.receive(rx.into())
    }
    #[inline]
    fn write_one(&self, write: OneWrite) -> Result {
        write.with_any(|tx| self.transmit(tx))
    }
    /// fi_recv_flush, fi_trecv_flush: starts the receives that FI_MORE has deferred.
    fn start_receives(&self) -> Result {
        Err(Error::NOSYS)
    }
    /// Flags of calls without a flags argument: the endpoint's op_flags, with FI_COMPLETION if the queue was bound
    /// without FI_SELECTIVE_COMPLETION.
    fn tx_flags(&self) -> OpFlags;
    fn rx_flags(&self) -> OpFlags;
    /// Flags that are added to those of the msg forms: FI_COMPLETION if the queue was bound without
    /// FI_SELECTIVE_COMPLETION, else 0.
    fn tx_implied(&self) -> OpFlags;
    fn rx_implied(&self) -> OpFlags;
    /// Flags of an inject call: the buffer is free on return, and success is not reported on a queue. A counter that is
    /// bound with `counted` (FI_SEND or FI_WRITE) counts the completion.
    #[inline]
    fn inject_flags(&self, _counted: u64) -> OpFlags {
        OpFlags::INJECT
    }
    /// FI_TAGGED_MULTI_RECV: tagged receives may have the flag FI_MULTI_RECV.
    fn takes_many_tagged(&self) -> bool {
        false
    }
    /// FI_MULTICAST: messages may go to groups.
    fn takes_multicast(&self) -> bool {
        false
    }
    /// Messages may have the flag `CREDIT_MESSAGE`.
    fn takes_credits(&self) -> bool {
        false
    }
    /// Most bytes of a call with FI_INJECT.
    #[inline]
    fn inject_size(&self, _what: What) -> usize {
        0
    }
}

/// fi_endpoint(3): checks a call with the flag FI_INJECT against inject_size. FI_INJECT as a default flag of the
/// endpoint has no such limit: then every send is copied, whatever its size.
#[inline]
pub(super) fn check_inject<T: DataPath>(ep: &T, what: What, flags: OpFlags, len: usize) -> Result {
    match flags.contains(OpFlags::INJECT) && len > ep.inject_size(what) {
        true => Err(too_long(len, ep.inject_size(what))),
        false => Ok(()),
    }
}

#[cold]
fn too_long(len: usize, most: usize) -> Error {
    log_misuse!(
        &CORE,
        Subsys::EpData,
        "{len} bytes cannot be injected: inject_size is {most}"
    );
    Error::INVAL
}

/// Flags of a call without a flags argument.
#[inline]
pub(super) fn by_default<T: DataPath>(ep: &T, _len: usize) -> Result<OpFlags> {
    Ok(ep.tx_flags())
}

/// Flags of an inject call, whose completion a counter bound with `counted` counts.
#[inline]
pub(super) fn injected<T: DataPath>(
    ep: &T,
    what: What,
    len: usize,
    counted: u64,
) -> Result<OpFlags> {
    let flags = ep.inject_flags(counted);
    check_inject(ep, what, flags, len).map(|()| flags)
}

/// # Safety
/// `ep` must be NULL or an open endpoint of this type.
#[inline]
pub(super) unsafe fn endpoint<'a, T: DataPath>(ep: *mut fid_ep) -> Result<&'a T> {
    // SAFETY: promised by the caller.
    object(unsafe { handle::get::<T, fid_ep>(ep) })
}

/// Returns an I/O vector of one buffer with its descriptor.
///
/// # Safety
/// `buf[..len]` must stay valid until the completion of the operation, as for `Piece::new`.
#[inline]
pub(super) unsafe fn single(buf: *const c_void, len: usize, desc: *mut c_void) -> Result<IoVec> {
    check_buffer(buf, len)?;
    // SAFETY: promised by the caller.
    let piece = unsafe { Piece::new(buf.cast_mut().cast(), len) };
    Ok(IoVec::from(piece).with_desc(Desc::new(desc)))
}

/// Returns a buffer that is only read.
///
/// # Safety
/// As `single`.
#[inline]
pub(super) unsafe fn source(buf: *const c_void, len: usize) -> Result<Source> {
    check_buffer(buf, len)?;
    // SAFETY: promised by the caller; a source is only read.
    Ok(unsafe { Piece::new(buf.cast_mut().cast(), len) }.into())
}

#[inline(always)]
fn check_buffer(buf: *const c_void, len: usize) -> Result {
    if buf.is_null() && len > 0 {
        return Err(Error::INVAL);
    }
    // No object is that long.
    match len > isize::MAX as usize {
        true => Err(Error::MSGSIZE),
        false => Ok(()),
    }
}

/// Several buffers, and a descriptor for each if `descs` is not NULL.
///
/// # Safety
/// As `IoVec::new`; `descs` is NULL or has `count` descriptors.
#[inline]
pub(super) unsafe fn several(
    iov: *const iovec,
    descs: *const *mut c_void,
    count: usize,
) -> Result<IoVec> {
    // SAFETY: promised by the caller.
    match unsafe { IoVec::new(iov, count) } {
        // SAFETY: as above.
        Some(iov) if !iov.has_null() => Ok(iov.with_desc(unsafe { shared(descs, count) })),
        _ => Err(Error::INVAL),
    }
}

/// Returns the array of descriptors, or NULL if the endpoint uses none.
#[inline]
pub(super) fn used<T: DataPath>(ep: &T, descs: *const *mut c_void) -> *const *mut c_void {
    match descs.is_null() || !ep.reads_descs() {
        true => core::ptr::null(),
        false => descs,
    }
}

/// Returns the descriptor that all buffers have: none if they differ.
///
/// # Safety
/// As `several`, for `descs`.
#[inline]
unsafe fn shared(descs: *const *mut c_void, count: usize) -> Desc {
    if descs.is_null() || count == 0 {
        return Desc::NONE;
    }
    // SAFETY: promised by the caller.
    let desc = |i| Desc::new(unsafe { *descs.add(i) });
    (1..count).fold(desc(0), |all, i| all.and(desc(i)))
}

/// A receive buffer. Programs post NULL with a length when they expect no bytes. Such a buffer has length 0, so a
/// message with data is reported as truncated.
///
/// # Safety
/// As `single`.
#[inline]
pub(super) unsafe fn room(buf: *mut c_void, len: usize) -> Piece {
    let len = if buf.is_null() { 0 } else { len };
    // SAFETY: promised by the caller.
    unsafe { Piece::new(buf.cast(), len) }
}

/// Several receive buffers, as `room`.
///
/// # Safety
/// As `several`.
pub(super) unsafe fn rooms(
    iov: *const iovec,
    descs: *const *mut c_void,
    count: usize,
) -> Result<IoVec> {
    // SAFETY: promised by the caller.
    let mut iov = unsafe { IoVec::new(iov, count) }.ok_or(Error::INVAL)?;
    iov.drop_null();
    // SAFETY: as above.
    Ok(iov.with_desc(unsafe { shared(descs, count) }))
}

/// Operation flags that the msg forms of sending calls take: fi_msg(3), fi_tagged(3), fi_rma(3).
pub(super) const SEND_FLAGS: OpFlags = flags!(OpFlags:
    REMOTE_CQ_DATA | COMPLETION | MORE | INJECT | INJECT_COMPLETE | TRANSMIT_COMPLETE |
    DELIVERY_COMPLETE | COMMIT_COMPLETE | MATCH_COMPLETE | FENCE | TRIGGER | AFFINITY
);

/// Flags of calls that send messages. FI_COMMIT_COMPLETE is not among them because a received message is not made
/// durable (fi_cq(3)).
pub(super) const MESSAGE_FLAGS: OpFlags = SEND_FLAGS.difference(OpFlags::COMMIT_COMPLETE);

/// Flags of calls that post receives. Each family of calls may add more.
pub(super) const RECV_FLAGS: OpFlags = flags!(OpFlags:
    COMPLETION | MORE | PEEK | CLAIM | DISCARD | TRIGGER
);

/// As `check_flags`, for a call that sends an untagged message.
#[inline]
pub(super) fn check_send_flags<T: DataPath>(ep: &T, flags: OpFlags) -> Result {
    match flags & !MESSAGE_FLAGS {
        unknown if unknown.is_empty() => Ok(()),
        OpFlags::MULTICAST if ep.takes_multicast() => Ok(()),
        CREDIT_MESSAGE if ep.takes_credits() => Ok(()),
        unknown => Err(unknown_flags(unknown)),
    }
}

/// Returns FI_EBADFLAGS if there is a flag that the call does not take.
#[inline]
pub(super) fn check_flags(flags: OpFlags, known: OpFlags) -> Result {
    match flags & !known {
        unknown if unknown.is_empty() => Ok(()),
        unknown => Err(unknown_flags(unknown)),
    }
}

#[cold]
fn unknown_flags(flags: OpFlags) -> Error {
    log_misuse!(
        &CORE,
        Subsys::EpData,
        "FI_EBADFLAGS: the call does not take the flags {flags:#x}"
    );
    Error::BADFLAGS
}
