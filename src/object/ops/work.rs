// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Operations that wait for a counter: operations with FI_TRIGGER and their contexts, and the deferred work of
//! fi_control (fi_trigger(3)). The caller's structs are copied and not read again.

mod transfer;

use core::ffi::c_void;

use crate::handle::Other;
use crate::live;
use crate::ops::atomic::{Atomic, AtomicWork, Family};
use crate::ops::transfer::*;
use abi::*;
use base::{Error, IoVec, OpFlags, Piece, Result};

pub use transfer::{ReceiveWork, TransferWork};
use transfer::{access, receive, receive_tagged, send, send_tagged};

/// A transfer to post later.
pub struct Outgoing {
    what: What,
    iov: IoVec,
    pub flags: OpFlags,
    dest: u64,
    pub context: Context,
    data: u64,
    tag: u64,
    target: Box<[RemoteSeg]>,
    /// A copy of injected data: the caller may reuse its buffer.
    copy: Option<Vec<u8>>,
}

impl Outgoing {
    /// Copies the arguments of a call with FI_TRIGGER, as far as the caller may reuse them after the call.
    pub fn of(tx: &mut Tx<'_>, flags: OpFlags) -> Outgoing {
        let injected = flags.contains(OpFlags::INJECT) && tx.what != What::Read;
        let copy = injected.then(|| {
            let mut copy = Vec::with_capacity(tx.iov.remaining());
            tx.iov.copy_out(&mut copy);
            copy
        });
        Outgoing {
            what: tx.what,
            iov: tx.iov.take(),
            flags,
            dest: tx.dest,
            context: tx.context.untriggered(),
            data: tx.data,
            tag: tx.tag,
            target: tx.target.into(),
            copy,
        }
    }

    /// Calls with the memory, which the call may mark.
    pub fn each_memory(&mut self, mut call: impl FnMut(&mut IoVec) -> Result) -> Result {
        call(&mut self.iov)?;
        if self.iov.is_device() {
            self.flags |= OpFlags::DEVICE;
        }
        Ok(())
    }

    pub fn what(&self) -> What {
        self.what
    }

    pub fn len(&self) -> usize {
        self.iov.remaining()
    }

    /// Posts the operation with additional flags. On success the operation owns the memory.
    pub fn post(&mut self, more: OpFlags, post: impl FnOnce(&mut Tx<'_>) -> Result) -> Result {
        let iov = match &self.copy {
            // SAFETY: the original is dropped below if the operation was posted.
            None => unsafe { self.iov.duplicate() },
            // SAFETY: the copy stays unchanged during `post`, and an operation with FI_INJECT does not read its buffer
            // afterwards.
            Some(copy) => unsafe { own(copy) },
        };
        post(&mut Tx {
            what: self.what,
            iov,
            flags: self.flags | more,
            dest: self.dest,
            context: self.context.untriggered(),
            data: self.data,
            tag: self.tag,
            target: &self.target,
        })?;
        self.iov = IoVec::empty();
        Ok(())
    }
}

/// An atomic operation to post later.
pub struct OutgoingAtomic {
    family: Family,
    datatype: fi_datatype,
    op: fi_op,
    operands: IoVec,
    compare: IoVec,
    result: IoVec,
    pub flags: OpFlags,
    dest: u64,
    pub context: Context,
    data: u64,
    target: Box<[RemoteSeg]>,
    /// Copies of injected operands and values to compare.
    copy: Option<(Vec<u8>, Vec<u8>)>,
}

impl OutgoingAtomic {
    /// `keep`: for a call with FI_TRIGGER, as in `Outgoing::of`.
    pub fn of(atomic: &mut Atomic<'_>, flags: OpFlags, keep: bool) -> OutgoingAtomic {
        let copy_of = |iov: &IoVec| {
            let mut copy = Vec::with_capacity(iov.remaining());
            iov.copy_out(&mut copy);
            copy
        };
        let copied = keep && flags.contains(OpFlags::INJECT);
        let copy = copied.then(|| (copy_of(&atomic.operands), copy_of(&atomic.compare)));
        OutgoingAtomic {
            family: atomic.family,
            datatype: atomic.datatype,
            op: atomic.op,
            operands: atomic.operands.take(),
            compare: atomic.compare.take(),
            result: atomic.result.take(),
            flags,
            dest: atomic.dest,
            context: atomic.context.untriggered(),
            data: atomic.data,
            target: atomic.target.into(),
            copy,
        }
    }

    /// As `Outgoing::each_memory`.
    pub fn each_memory(&mut self, mut call: impl FnMut(&mut IoVec) -> Result) -> Result {
        call(&mut self.operands)?;
        call(&mut self.compare)?;
        call(&mut self.result)
    }

    pub fn what(&self) -> What {
        match self.family {
            Family::Base => What::Atomic,
            Family::Fetch | Family::Compare => What::AtomicFetch,
        }
    }

    pub fn len(&self) -> usize {
        self.target.iter().map(|seg| seg.len).sum()
    }

    /// Does the same as `Outgoing::post`.
    pub fn post(&mut self, more: OpFlags, post: impl FnOnce(&mut Atomic<'_>) -> Result) -> Result {
        let (operands, compare) = match &self.copy {
            // SAFETY: as in `Outgoing::post`, also for the result.
            None => unsafe { (self.operands.duplicate(), self.compare.duplicate()) },
            // SAFETY: the copies stay unchanged during `post`, and an operation with FI_INJECT does not read its
            // operands afterwards.
            Some((operands, compare)) => unsafe { (own(operands), own(compare)) },
        };
        // SAFETY: see above.
        let result = unsafe { self.result.duplicate() };
        post(&mut Atomic {
            family: self.family,
            datatype: self.datatype,
            op: self.op,
            operands,
            compare,
            result,
            flags: self.flags | more,
            dest: self.dest,
            context: self.context.untriggered(),
            data: self.data,
            target: &self.target,
        })?;
        for iov in [&mut self.operands, &mut self.compare, &mut self.result] {
            *iov = IoVec::empty();
        }
        Ok(())
    }
}

/// Memory of this library, which is not registered.
///
/// # Safety
/// As `Piece::new`.
unsafe fn own(bytes: &[u8]) -> IoVec {
    // SAFETY: promised by the caller; a source is only read.
    let piece = unsafe { Piece::new(bytes.as_ptr().cast_mut(), bytes.len()) };
    IoVec::from(piece).as_source()
}

/// The content of a `struct fi_deferred_work`.
pub struct WorkRequest<'a> {
    /// Name by which the caller cancels it.
    pub name: usize,
    pub trigger: Other<'a>,
    pub threshold: u64,
    pub completion: Option<Other<'a>>,
    pub op: WorkOp<'a>,
}

pub enum WorkOp<'a> {
    Transmit(Other<'a>, TransferWork<'a>),
    Receive(Other<'a>, ReceiveWork<'a>),
    Atomic(Other<'a>, AtomicWork<'a>),
    Set(Other<'a>, u64),
    Add(Other<'a>, u64),
}

/// FI_QUEUE_WORK.
///
/// # Safety
/// `work` must be as fi_trigger(3) describes it.
pub unsafe fn read<'a>(work: *const fi_deferred_work) -> Result<WorkRequest<'a>> {
    // SAFETY: promised by the caller.
    let request = unsafe { &*work };
    // SAFETY: all members of the union are pointers.
    if unsafe { request.op.msg }.is_null() {
        return Err(Error::INVAL);
    }
    // SAFETY: the type selects the member of the union; the operation and its pointers are readable during the call,
    // and the buffers belong to the library until the operation completes or is cancelled.
    let op = unsafe {
        match request.op_type {
            FI_OP_SEND => send(&*request.op.msg),
            FI_OP_RECV => receive(&*request.op.msg),
            FI_OP_TSEND => send_tagged(&*request.op.tagged),
            FI_OP_TRECV => receive_tagged(&*request.op.tagged),
            FI_OP_WRITE => access(What::Write, &*request.op.rma)?,
            FI_OP_READ => access(What::Read, &*request.op.rma)?,
            FI_OP_CNTR_SET => WorkOp::Set(cntr(&*request.op.cntr), (*request.op.cntr).value),
            FI_OP_CNTR_ADD => WorkOp::Add(cntr(&*request.op.cntr), (*request.op.cntr).value),
            FI_OP_ATOMIC => {
                let op = &*request.op.atomic;
                let work = AtomicWork::new(Family::Base, &op.msg, None, None, op.flags);
                WorkOp::Atomic(Other::new(op.ep.cast()), work)
            }
            FI_OP_FETCH_ATOMIC => {
                let op = &*request.op.fetch_atomic;
                let result = Some(&op.fetch);
                let work = AtomicWork::new(Family::Fetch, &op.msg, None, result, op.flags);
                WorkOp::Atomic(Other::new(op.ep.cast()), work)
            }
            FI_OP_COMPARE_ATOMIC => {
                let op = &*request.op.compare_atomic;
                let (compare, result) = (Some(&op.compare), Some(&op.fetch));
                let work = AtomicWork::new(Family::Compare, &op.msg, compare, result, op.flags);
                WorkOp::Atomic(Other::new(op.ep.cast()), work)
            }
            _ => return Err(Error::INVAL),
        }
    };
    let completion = request.completion_cntr;
    // SAFETY: handles of the caller, which stay open during the call.
    let other = |cntr: *mut fid_cntr| unsafe { Other::new(cntr.cast()) };
    Ok(WorkRequest {
        name: work as usize,
        trigger: other(request.triggering_cntr),
        threshold: request.threshold,
        completion: (!completion.is_null()).then(|| other(completion)),
        op,
    })
}

/// # Safety
/// The handle in `op` must be NULL or stay open during the call.
unsafe fn cntr<'a>(op: &fi_op_cntr) -> Other<'a> {
    // SAFETY: promised by the caller.
    unsafe { Other::new(op.cntr.cast()) }
}

/// FI_FLUSH_WORK: returns the counter whose work is flushed. The argument is that counter, or a struct that contains
/// it; `None` means all.
///
/// # Safety
/// `arg` must be NULL, a handle or a `struct fi_deferred_work`.
pub unsafe fn flushed<'a>(arg: *mut c_void) -> Option<Other<'a>> {
    if arg.is_null() {
        return None;
    }
    let cntr = match live::is_handle(arg.cast()) {
        true => arg.cast(),
        // SAFETY: it is not a handle, so it is the struct.
        false => unsafe { (*arg.cast::<fi_deferred_work>()).triggering_cntr },
    };
    // SAFETY: a handle of the caller, which stays open during the call.
    (!cntr.is_null()).then(|| unsafe { Other::new(cntr.cast()) })
}
