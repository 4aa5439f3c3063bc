// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The layout of a prepared work request in the caller's buffer. The buffer may have any alignment. All bit patterns
//! are valid, because the caller owns the bytes: the stamp identifies a stale or foreign buffer, and counts, which the
//! caller may have changed, are checked again before they are used.

use core::ffi::c_void;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::ops::transfer::*;
use abi::*;
use base::info::Info;
use base::iovec::IOV_LIMIT;
use base::{Caps, Error, IoVec, OpFlags, Piece, Result};
use hmem::Desc;

/// The route of a transmit operation to its peer, as far as the transport can determine it before the operation is
/// queued.
#[repr(C, packed)]
#[derive(Clone, Copy)]
pub struct Route {
    /// Number of earlier addresses with the destination's index. `Prepares::is_current` compares it.
    pub generation: u32,
    /// Links that the operation may take by the transport's short path: `SHARED_MEMORY`, `SOCKET`, or 0.
    pub links: u8,
    /// Bytes of `header`.
    pub header_len: u8,
    pub header: [u8; ROUTE_HEADER],
}

impl Route {
    pub const SHARED_MEMORY: u8 = 1;
    pub const SOCKET: u8 = 2;

    /// Returns a route without a short path.
    pub fn to(generation: u32) -> Route {
        Route {
            generation,
            links: 0,
            header_len: 0,
            header: [0; ROUTE_HEADER],
        }
    }
}

/// Most bytes of a header that a transport encodes when a request is prepared.
pub const ROUTE_HEADER: usize = 32;

/// The call that queues a record. The stamp of the record contains it, together with the endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Queue {
    Transmit = 1,
    Receive = 2,
    TaggedReceive = 3,
}

/// Returns the stamp for the records of one endpoint, without the `Queue`. It is unique in the process.
pub fn new_stamp() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    // Relaxed: no other data depends on this number.
    MAGIC ^ (LAST.fetch_add(1, Ordering::Relaxed) + 1) << 2
}

/// A number that is unlikely in memory that was never prepared.
const MAGIC: u64 = 0x9d4c_7a31_e2b6_5f84;

/// The common part of all prepared transmit operations; a message has no other part.
#[repr(C, packed)]
#[derive(Clone, Copy)]
pub struct TxHead {
    pub stamp: u64,
    /// Operation flags, without those that the endpoint adds when the request is queued.
    pub flags: u64,
    pub dest: u64,
    pub tag: u64,
    pub op: u32,
    /// Entries of `pieces`, `target`, `compare` and `result`.
    pub counts: [u8; 4],
    pub route: Route,
    pub pieces: [iovec; IOV_LIMIT],
    pub data: u64,
    /// Entries of `pieces` and `target` when the request was prepared.
    pub most: [u8; 2],
}

/// A prepared transmit operation.
#[repr(C, packed)]
#[derive(Clone, Copy)]
pub struct TxRecord {
    pub head: TxHead,
    /// For RMA and atomic operations; lengths of an atomic operation are in elements.
    pub target: [RemoteSeg; IOV_LIMIT],
    /// This and the following members are for atomic operations only.
    pub datatype: u32,
    pub atomic: u32,
    pub compare: [fi_ioc; IOV_LIMIT],
    pub result: [fi_ioc; IOV_LIMIT],
}

/// Indexes of `TxHead::counts`.
pub const PIECES: usize = 0;
pub const TARGET: usize = 1;
pub const COMPARE: usize = 2;
pub const RESULT: usize = 3;

/// A prepared receive.
#[repr(C, packed)]
#[derive(Clone, Copy)]
pub struct RxRecord {
    pub stamp: u64,
    pub flags: u64,
    pub src: u64,
    pub tag: u64,
    pub ignore: u64,
    pub op: u32,
    /// As `Route::generation`, for the source.
    pub generation: u32,
    pub count: u8,
    pub most: u8,
    /// 1: the receive accepts messages of one peer only, whose `generation` must not have changed.
    pub directed: u8,
    pub pieces: [iovec; IOV_LIMIT],
}

/// Sets the sizes of work requests in an entry with FI_WR.
pub fn set_sizes(info: &mut Info) {
    if info.caps.contains(Caps::WR) {
        info.ep.max_tx_wr_size = MAX_TX;
        info.ep.max_rx_wr_size = MAX_RX;
    }
}

/// `fi_ep_attr::max_tx_wr_size` and `max_rx_wr_size` of endpoints with FI_WR.
pub const MAX_TX: usize = size_of::<TxRecord>();
pub const MAX_RX: usize = size_of::<RxRecord>();

const NO_PIECE: iovec = iovec {
    iov_base: null_mut(),
    iov_len: 0,
};
const NO_ELEMENTS: fi_ioc = fi_ioc {
    addr: null_mut(),
    count: 0,
};

impl TxHead {
    #[inline(always)]
    pub fn op(&self) -> fi_op_type {
        fi_op_type(self.op)
    }

    #[inline(always)]
    pub fn flags(&self) -> OpFlags {
        OpFlags::from_bits_retain(self.flags)
    }

    pub fn what(&self) -> What {
        match self.op() {
            FI_OP_SEND => What::Msg,
            FI_OP_TSEND => What::Tagged,
            FI_OP_WRITE => What::Write,
            FI_OP_READ => What::Read,
            FI_OP_ATOMIC => What::Atomic,
            _ => What::AtomicFetch,
        }
    }

    /// Returns the number of entries of one of the arrays. The caller must check it, because it is from the caller's
    /// buffer.
    pub fn count(&self, array: usize) -> usize {
        usize::from(self.counts[array])
    }

    /// Returns the message if its route has a short path, which implies one buffer. `implied` are flags that the
    /// endpoint adds.
    ///
    /// # Safety
    /// `Piece::new`, for the buffer; `Given::new`.
    #[inline(always)]
    pub unsafe fn short(&self, implied: OpFlags, context: *mut c_void) -> OneTx {
        let iovec { iov_base, iov_len } = self.pieces[0];
        // SAFETY: promised by the caller.
        let (piece, context) = unsafe {
            let piece = Piece::new(iov_base.cast(), iov_len).into();
            (piece, Given::new(context))
        };
        let flags = self.flags() | implied;
        OneTx {
            what: match self.op() {
                FI_OP_TSEND => What::Tagged,
                _ => What::Msg,
            },
            piece,
            desc: Desc::NONE,
            flags,
            dest: self.dest,
            context: context.with(flags),
            data: self.data,
            tag: self.tag,
        }
    }
}

impl TxRecord {
    /// Returns a record without memory.
    pub fn new(stamp: u64, op: fi_op_type, flags: OpFlags, dest: u64) -> TxRecord {
        TxRecord {
            head: TxHead {
                stamp: stamp | Queue::Transmit as u64,
                flags: flags.bits(),
                dest,
                tag: 0,
                op: op.0,
                counts: [0; 4],
                route: Route::to(0),
                pieces: [NO_PIECE; IOV_LIMIT],
                data: 0,
                most: [0; 2],
            },
            target: [RemoteSeg::default(); IOV_LIMIT],
            datatype: 0,
            atomic: 0,
            compare: [NO_ELEMENTS; IOV_LIMIT],
            result: [NO_ELEMENTS; IOV_LIMIT],
        }
    }

    /// Returns the bytes of the record that an operation of this type needs.
    pub fn size(op: fi_op_type) -> usize {
        match op {
            FI_OP_SEND | FI_OP_TSEND => size_of::<TxHead>(),
            FI_OP_WRITE | FI_OP_READ => core::mem::offset_of!(TxRecord, datatype),
            _ => MAX_TX,
        }
    }

    /// Returns a copy of the record at `wr`.
    ///
    /// # Safety
    /// `wr` has the number of readable bytes that `size` returns for its operation.
    pub unsafe fn load(wr: *const c_void) -> TxRecord {
        // SAFETY: promised by the caller; the local record has room for all of it, and all bit patterns are values.
        unsafe {
            let op = (&raw const (*wr.cast::<TxHead>()).op).read_unaligned();
            let mut record = TxRecord::new(0, fi_op_type(op), OpFlags::empty(), 0);
            let bytes = TxRecord::size(fi_op_type(op));
            core::ptr::copy_nonoverlapping(wr.cast::<u8>(), (&raw mut record).cast(), bytes);
            record
        }
    }

    /// # Safety
    /// As `load`, but the bytes are writable.
    pub unsafe fn store(&self, wr: *mut c_void) {
        let bytes = TxRecord::size(self.head.op());
        // SAFETY: promised by the caller.
        unsafe { core::ptr::copy_nonoverlapping((&raw const *self).cast::<u8>(), wr.cast(), bytes) }
    }

    /// Calls a function with the operation, unless it is atomic. `implied` as in `short`.
    ///
    /// # Safety
    /// As `TxHead::short`, for all buffers.
    pub unsafe fn with<R>(
        &self,
        implied: OpFlags,
        context: *mut c_void,
        call: impl FnOnce(&mut Tx<'_>) -> Result<R>,
    ) -> Result<R> {
        let (head, target) = (self.head, self.target);
        // SAFETY: promised by the caller.
        let (iov, context) = unsafe {
            let pieces = head.pieces;
            let mut iov = several(pieces.as_ptr(), core::ptr::null(), head.count(PIECES))?;
            if head.what() != What::Read {
                iov = iov.as_source();
            }
            (iov, Given::new(context))
        };
        let flags = head.flags() | implied;
        call(&mut Tx {
            what: head.what(),
            iov,
            flags,
            dest: head.dest,
            context: context.with(flags),
            data: head.data,
            tag: head.tag,
            target: target.get(..head.count(TARGET)).ok_or(Error::INVAL)?,
        })
    }

    /// Returns the bytes of the local buffers, or the elements of the operands of an atomic operation.
    pub fn len(&self) -> usize {
        let pieces = self.head.pieces;
        pieces
            .iter()
            .fold(0, |sum, piece| piece.iov_len.saturating_add(sum))
    }
}

impl RxRecord {
    pub fn op(&self) -> fi_op_type {
        fi_op_type(self.op)
    }

    pub fn what(&self) -> What {
        match self.op() {
            FI_OP_TRECV => What::Tagged,
            _ => What::Msg,
        }
    }

    /// Returns the receive if it has one buffer. `implied` as in `TxHead::short`.
    ///
    /// # Safety
    /// As `TxHead::short`.
    #[inline(always)]
    pub unsafe fn short(&self, what: What, implied: OpFlags, context: *mut c_void) -> OneRx {
        let iovec { iov_base, iov_len } = self.pieces[0];
        // SAFETY: promised by the caller.
        let (piece, context) = unsafe {
            let piece = room(iov_base, iov_len);
            (piece, Given::new(context))
        };
        let flags = OpFlags::from_bits_retain(self.flags) | implied;
        OneRx {
            what,
            piece,
            desc: Desc::NONE,
            flags,
            src: self.src,
            context: context.with(flags),
            tag: self.tag,
            ignore: self.ignore,
        }
    }

    /// Returns the receive.
    ///
    /// # Safety
    /// As `short`, for all buffers.
    pub unsafe fn receive(&self, implied: OpFlags, context: *mut c_void) -> Result<Rx> {
        let pieces = self.pieces;
        // SAFETY: promised by the caller.
        let (iov, context) = unsafe {
            let iov: IoVec = rooms(pieces.as_ptr(), core::ptr::null(), self.count.into())?;
            (iov, Given::new(context))
        };
        let flags = OpFlags::from_bits_retain(self.flags) | implied;
        Ok(Rx {
            what: self.what(),
            iov,
            flags,
            src: self.src,
            context: context.with(flags),
            tag: self.tag,
            ignore: self.ignore,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_survives_in_a_buffer_of_its_size_at_any_address() {
        for op in [FI_OP_SEND, FI_OP_WRITE, FI_OP_COMPARE_ATOMIC] {
            let mut record = TxRecord::new(new_stamp(), op, OpFlags::INJECT, 5);
            record.head.tag = 6;
            record.head.counts = [1, 2, 3, 4];
            record.target[1].key = 7;
            record.result[3].count = 8;
            // The first byte makes the record unaligned; the last one is behind the record.
            let mut room = vec![0xee; TxRecord::size(op) + 2];
            // SAFETY: the room has the size of the record behind its first byte.
            let back = unsafe {
                record.store(room.as_mut_ptr().add(1).cast());
                TxRecord::load(room.as_ptr().add(1).cast())
            };
            assert_eq!((room[0], room[room.len() - 1]), (0xee, 0xee));
            assert_eq!({ back.head.stamp }, { record.head.stamp });
            assert_eq!((back.head.op(), { back.head.tag }), (op, 6));
            assert_eq!(back.head.flags(), OpFlags::INJECT);
            assert_eq!(back.head.counts, [1, 2, 3, 4]);
            let has_target = op != FI_OP_SEND;
            assert_eq!({ back.target[1].key }, if has_target { 7 } else { 0 });
            let has_result = op == FI_OP_COMPARE_ATOMIC;
            assert_eq!({ back.result[3].count }, if has_result { 8 } else { 0 });
        }
    }

    #[test]
    fn counts_that_the_caller_has_overwritten_are_refused() {
        for array in [PIECES, TARGET] {
            let mut record = TxRecord::new(new_stamp(), FI_OP_WRITE, OpFlags::empty(), 0);
            record.head.counts[array] = 255;
            let implied = OpFlags::empty();
            // SAFETY: the closure uses neither the memory nor the context.
            let read = unsafe { record.with::<()>(implied, null_mut(), |_| Ok(())) };
            assert_eq!(read, Err(Error::INVAL));
        }
    }

    #[test]
    fn stamps_differ_by_endpoint_and_by_call() {
        let queues = [Queue::Transmit, Queue::Receive, Queue::TaggedReceive];
        let endpoints = [new_stamp(), new_stamp(), new_stamp()];
        let mut stamps: Vec<u64> = Vec::new();
        for stamp in endpoints {
            stamps.extend(queues.map(|queue| stamp | queue as u64));
        }
        stamps.sort_unstable();
        stamps.dedup();
        assert_eq!(stamps.len(), 9);
    }
}
