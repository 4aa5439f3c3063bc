// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Work requests: ibv_post_send(3), ibv_post_recv(3).

use core::ffi::c_int;
use core::marker::PhantomData;
use core::ptr;

use super::abi::*;
use super::datagram::Destination;
use crate::io_list::GatherList;

/// Limit on the pieces of one request.
pub const MAX_PIECES: usize = 4;

/// The operations of a send queue, as `enum ibv_wr_opcode` numbers them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Opcode {
    Write = 0,
    WriteWithImmediate = 1,
    Send = 2,
    SendWithImmediate = 3,
    Read = 4,
    CompareAndSwap = 5,
    FetchAndAdd = 6,
}

/// A request for a send queue. Bytes that it carries itself, and the address of a datagram, are borrowed for `'a`.
pub struct Request<'a> {
    pub(super) wr: ibv_send_wr,
    pub(super) pieces: [ibv_sge; MAX_PIECES],
    /// The operands are those of a datagram.
    is_datagram: bool,
    inline: PhantomData<&'a [u8]>,
}

impl<'a> Request<'a> {
    /// Whether the peer needs a receive for it.
    #[inline]
    pub fn uses_receive(&self) -> bool {
        use Opcode::{Send, SendWithImmediate, WriteWithImmediate};
        [Send, SendWithImmediate, WriteWithImmediate]
            .map(|op| op as u32)
            .contains(&self.wr.opcode)
    }

    /// Makes a request without memory. `id` is reported by its completion.
    #[inline]
    pub fn new(id: u64, opcode: Opcode) -> Request<'a> {
        Request {
            wr: ibv_send_wr {
                wr_id: id,
                next: ptr::null_mut(),
                sg_list: ptr::null_mut(),
                num_sge: 0,
                opcode: opcode as u32,
                send_flags: 0,
                imm_data: 0,
                wr: SendOperands {
                    rdma: Rdma {
                        remote_addr: 0,
                        rkey: 0,
                    },
                },
            },
            pieces: [ibv_sge::default(); MAX_PIECES],
            is_datagram: false,
            inline: PhantomData,
        }
    }

    pub fn id(&self) -> u64 {
        self.wr.wr_id
    }

    #[inline]
    pub fn set_id(&mut self, id: u64) {
        self.wr.wr_id = id;
    }

    #[inline]
    pub fn signal(&mut self) {
        self.wr.send_flags |= IBV_SEND_SIGNALED;
    }

    /// Starts only when earlier reads and atomic operations are complete.
    #[inline]
    pub fn fence(&mut self) {
        self.wr.send_flags |= IBV_SEND_FENCE;
    }

    /// Data that the peer's completion reports.
    #[inline]
    pub fn immediate(&mut self, data: u32) {
        self.wr.imm_data = data.to_be();
    }

    #[inline]
    pub fn remote(&mut self, address: u64, key: u32) {
        self.is_datagram = false;
        self.wr.wr.rdma = Rdma {
            remote_addr: address,
            rkey: key,
        };
    }

    #[inline]
    pub fn operands(&mut self, address: u64, key: u32, compare_add: u64, swap: u64) {
        self.is_datagram = false;
        self.wr.wr.atomic = Atomic {
            remote_addr: address,
            compare_add,
            swap,
            rkey: key,
        };
    }

    /// Sends a datagram there.
    #[inline]
    pub fn datagram(&mut self, to: &'a Destination) {
        self.is_datagram = true;
        self.wr.wr.ud = to.raw();
    }

    #[inline]
    pub(super) fn is_datagram(&self) -> bool {
        self.is_datagram
    }

    /// Adds a piece of registered memory. Returns false if there is no room for it.
    #[inline]
    pub fn piece(&mut self, address: usize, len: usize, key: u32) -> bool {
        let at = self.wr.num_sge as usize;
        let (Some(place), Ok(length)) = (self.pieces.get_mut(at), u32::try_from(len)) else {
            return false;
        };
        *place = ibv_sge {
            addr: address as u64,
            length,
            lkey: key,
        };
        self.wr.num_sge += 1;
        true
    }

    /// Makes the request carry these bytes itself. Returns false if there are too many pieces.
    #[inline]
    pub fn inline(&mut self, list: &GatherList<'a>) -> bool {
        self.wr.send_flags |= IBV_SEND_INLINE;
        let mut add = |piece: &libc::iovec| self.piece(piece.iov_base.addr(), piece.iov_len, 0);
        match list.pieces() {
            // The usual case, without a loop.
            [one] => add(one),
            several => several.iter().all(add),
        }
    }

    /// Makes the request carry bytes of the library itself.
    #[inline]
    pub fn inline_bytes(&mut self, bytes: &'a [u8]) -> bool {
        self.wr.send_flags |= IBV_SEND_INLINE;
        self.piece(bytes.as_ptr().addr(), bytes.len(), 0)
    }

    /// Number of its bytes.
    pub fn len(&self) -> usize {
        let count = self.wr.num_sge as usize;
        let lengths = self.pieces[..count]
            .iter()
            .map(|piece| piece.length as usize);
        lengths.sum()
    }

    /// The request as the library takes it; its pieces are found at their current place.
    #[inline]
    pub(super) fn raw(&mut self) -> *mut ibv_send_wr {
        self.wr.sg_list = self.pieces.as_mut_ptr();
        &raw mut self.wr
    }
}

/// A request for a receive queue.
#[derive(Clone, Copy)]
pub struct Receive {
    id: u64,
    pieces: [ibv_sge; MAX_PIECES],
    count: u8,
}

impl Receive {
    #[inline]
    pub fn new(id: u64) -> Receive {
        Receive {
            id,
            pieces: [ibv_sge::default(); MAX_PIECES],
            count: 0,
        }
    }

    pub fn id(&self) -> u64 {
        self.id
    }

    pub fn set_id(&mut self, id: u64) {
        self.id = id;
    }

    /// Adds a piece of registered memory. Returns false if there is no room for it.
    #[inline]
    pub fn piece(&mut self, address: usize, len: usize, key: u32) -> bool {
        let Some(place) = self.pieces.get_mut(usize::from(self.count)) else {
            return false;
        };
        let Ok(length) = u32::try_from(len) else {
            return false;
        };
        *place = ibv_sge {
            addr: address as u64,
            length,
            lkey: key,
        };
        self.count += 1;
        true
    }

    /// Calls with the request as the library takes it.
    #[inline]
    pub(super) fn with_raw<R>(&mut self, call: impl FnOnce(*mut ibv_recv_wr) -> R) -> R {
        let mut wr = ibv_recv_wr {
            wr_id: self.id,
            next: ptr::null_mut(),
            sg_list: self.pieces.as_mut_ptr(),
            num_sge: c_int::from(self.count),
        };
        call(&raw mut wr)
    }
}
