// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Transfers of deferred work in their C form: fi_trigger(3). The endpoint determines how their memory is read, so they
//! are read only after the endpoint was looked up.

use core::ffi::c_void;
use core::marker::PhantomData;

use super::{Outgoing, WorkOp};
use crate::handle::Other;
use crate::ops::transfer::*;
use abi::*;
use base::flags::flags;
use base::{Error, OpFlags, Result};

/// Arrays of buffers and their descriptors, and the number of elements, in their C form.
#[derive(Clone, Copy)]
struct Buffers(*const iovec, *const *mut c_void, usize);

/// A transfer of deferred work in its C form; its endpoint determines how its memory is read.
pub struct TransferWork<'a> {
    pub what: What,
    buffers: Buffers,
    flags: OpFlags,
    dest: u64,
    context: Context,
    data: u64,
    tag: u64,
    target: &'a [RemoteSeg],
}

impl TransferWork<'_> {
    pub fn read<T: DataPath>(&self, ep: &T) -> Result<Outgoing> {
        let Buffers(iov, descs, count) = self.buffers;
        let known = match self.what {
            What::Msg | What::Tagged => MESSAGE_FLAGS,
            _ => SEND_FLAGS,
        };
        // SAFETY: promised to `transmit`, which has created this value: the arrays are readable during the call, and
        // the value does not outlive it.
        let mut iov = unsafe { several(iov, used(ep, descs), count)? };
        if self.what != What::Read {
            iov = iov.as_source();
        }
        check_flags(self.flags, known & !OpFlags::TRIGGER)?;
        Ok(Outgoing {
            what: self.what,
            iov,
            flags: self.flags,
            dest: self.dest,
            context: self.context.untriggered(),
            data: self.data,
            tag: self.tag,
            target: self.target.into(),
            // fi_trigger(3): buffers are not read before the operation starts, whatever its flags.
            copy: None,
        })
    }
}

/// A receive of deferred work, like `TransferWork`.
pub struct ReceiveWork<'a> {
    what: What,
    buffers: Buffers,
    flags: OpFlags,
    src: u64,
    context: Context,
    tag: u64,
    ignore: u64,
    /// Lifetime of the arrays.
    call: PhantomData<&'a ()>,
}

impl ReceiveWork<'_> {
    pub fn read<T: DataPath>(&self, ep: &T) -> Result<Rx> {
        let Buffers(iov, descs, count) = self.buffers;
        // SAFETY: as in `TransferWork::read`.
        let iov = unsafe { rooms(iov, used(ep, descs), count)? };
        // One operation has one completion: no peek at messages, and no receive of several.
        if self
            .flags
            .intersects(flags!(OpFlags: PEEK | CLAIM | DISCARD | MULTI_RECV))
        {
            return Err(Error::NOSYS);
        }
        check_flags(self.flags, OpFlags::COMPLETION | OpFlags::MORE)?;
        Ok(Rx {
            what: self.what,
            iov,
            flags: self.flags,
            src: self.src,
            context: self.context.untriggered(),
            tag: self.tag,
            ignore: self.ignore,
        })
    }
}

/// Returns a tagged message without its tag.
fn untagged(msg: &fi_msg_tagged) -> fi_msg {
    fi_msg {
        msg_iov: msg.msg_iov,
        desc: msg.desc,
        iov_count: msg.iov_count,
        addr: msg.addr,
        context: msg.context,
        data: msg.data,
    }
}

/// # Safety
/// As `work::read`, for one kind of operation; the same for all functions below.
unsafe fn transmit<'a>(
    what: What,
    ep: *mut fid_ep,
    msg: &fi_msg,
    flags: u64,
    tag: u64,
    target: &'a [RemoteSeg],
) -> WorkOp<'a> {
    // SAFETY: promised by the caller.
    let (ep, context) = unsafe { (Other::new(ep.cast()), Given::new(msg.context)) };
    let work = TransferWork {
        what,
        buffers: Buffers(msg.msg_iov, msg.desc, msg.iov_count),
        flags: OpFlags::from_bits_retain(flags),
        dest: msg.addr,
        // Deferred work waits for the counter that its own struct names.
        context: context.with(OpFlags::empty()),
        data: msg.data,
        tag,
        target,
    };
    WorkOp::Transmit(ep, work)
}

/// # Safety
/// As `transmit`.
unsafe fn receive_any<'a>(
    what: What,
    ep: *mut fid_ep,
    msg: &fi_msg,
    flags: u64,
    (tag, ignore): (u64, u64),
) -> WorkOp<'a> {
    // SAFETY: promised by the caller.
    let (ep, context) = unsafe { (Other::new(ep.cast()), Given::new(msg.context)) };
    let work = ReceiveWork {
        what,
        buffers: Buffers(msg.msg_iov, msg.desc, msg.iov_count),
        flags: OpFlags::from_bits_retain(flags),
        src: msg.addr,
        context: context.with(OpFlags::empty()),
        tag,
        ignore,
        call: PhantomData,
    };
    WorkOp::Receive(ep, work)
}

/// # Safety
/// As `transmit`.
pub(super) unsafe fn send<'a>(op: &fi_op_msg) -> WorkOp<'a> {
    // SAFETY: promised by the caller.
    unsafe { transmit(What::Msg, op.ep, &op.msg, op.flags, 0, &[]) }
}

/// # Safety
/// As `transmit`.
pub(super) unsafe fn send_tagged<'a>(op: &fi_op_tagged) -> WorkOp<'a> {
    let (msg, tag) = (untagged(&op.msg), op.msg.tag);
    // SAFETY: promised by the caller.
    unsafe { transmit(What::Tagged, op.ep, &msg, op.flags, tag, &[]) }
}

/// # Safety
/// As `transmit`.
pub(super) unsafe fn access<'a>(what: What, op: &fi_op_rma) -> Result<WorkOp<'a>> {
    let msg = &op.msg;
    if msg.rma_iov.is_null() || msg.rma_iov_count == 0 || msg.rma_iov_count > MAX_SEGS {
        return Err(Error::INVAL);
    }
    let own = fi_msg {
        msg_iov: msg.msg_iov,
        desc: msg.desc,
        iov_count: msg.iov_count,
        addr: msg.addr,
        context: msg.context,
        data: msg.data,
    };
    // SAFETY: promised by the caller.
    unsafe {
        let segs = core::slice::from_raw_parts(msg.rma_iov.cast::<RemoteSeg>(), msg.rma_iov_count);
        Ok(transmit(what, op.ep, &own, op.flags, 0, segs))
    }
}

/// # Safety
/// As `transmit`.
pub(super) unsafe fn receive<'a>(op: &fi_op_msg) -> WorkOp<'a> {
    // SAFETY: promised by the caller.
    unsafe { receive_any(What::Msg, op.ep, &op.msg, op.flags, (0, 0)) }
}

/// # Safety
/// As `transmit`.
pub(super) unsafe fn receive_tagged<'a>(op: &fi_op_tagged) -> WorkOp<'a> {
    let (msg, tags) = (untagged(&op.msg), (op.msg.tag, op.msg.ignore));
    // SAFETY: promised by the caller.
    unsafe { receive_any(What::Tagged, op.ep, &msg, op.flags, tags) }
}

/// Limit on segments at the target; more are a caller's mistake.
const MAX_SEGS: usize = 256;
