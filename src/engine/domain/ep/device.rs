// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Operations on memory of devices, at endpoints with FI_HMEM: fi_mr(3). Each piece that a device has is marked before
//! the transport sees it. Short messages and writes are copied to the host at once, so that a device that fails ends
//! the operation and not the connection.

use core::num::NonZero;

use super::Ep;
use super::limits::SHORT;
use crate::domain::Engine;
use crate::domain_state::TxOp;
use crate::transport::Transport;
use base::iovec::Block;
use base::{Error, IoVec, OpFlags, Result, Span};
use hmem::faults::Fault;
use object::ops::atomic::{Atomic, Family};
use object::ops::collective::Collective;
use object::ops::transfer::{DataPath, Rx, Tx, What};

impl<T: Transport> Engine<T> {
    /// Marks the pieces that a device has. `INVAL`: the memory is not in the region of its descriptor.
    #[cold]
    pub(in crate::domain) fn mark(&self, iov: &mut IoVec) -> Result {
        let desc = match self.gives_descs {
            true => iov.desc().number(),
            false => None,
        };
        match desc {
            Some(desc) => self.mark_by(iov, desc),
            None => {
                iov.mark_devices();
                Ok(())
            }
        }
    }

    fn mark_by(&self, iov: &mut IoVec, desc: NonZero<u32>) -> Result {
        let descs = self.descs();
        let find = |span: Span| descs.find(desc, span);
        if iov.spans().any(|span| span.len > 0 && find(span).is_none()) {
            return Err(Error::INVAL);
        }
        iov.mark(|span| find(span).is_some_and(|segment| segment.is_device));
        // Earlier failures belong to other operations.
        iov.take_fault();
        Ok(())
    }
}

impl<T: Transport> Ep<T> {
    /// Marks the memory of an operation. If it is short, or the program may use its memory at once, it sends a copy.
    #[cold]
    pub(super) fn prepare(&self, tx: &mut Tx<'_>) -> Result<Prepared> {
        self.shared.engine.mark(&mut tx.iov)?;
        if !tx.iov.is_device() {
            return Ok(Prepared::AsItIs);
        }
        let sends = matches!(tx.what, What::Msg | What::Tagged | What::Write);
        let len = tx.iov.remaining();
        let most = match tx.flags.contains(OpFlags::INJECT) {
            true if sends && len > Block::LARGE => return Err(Error::MSGSIZE),
            true => Block::LARGE,
            false if T::READS_DEVICES => 0,
            // The provider below makes the access, and knows devices.
            false if T::COPIES && tx.what == What::Write => 0,
            // The memory may change until the operation starts.
            false if tx.flags.contains(OpFlags::TRIGGER) => 0,
            false if T::COPIES => self.inject_size(tx.what).clamp(SHORT, Block::LARGE),
            false => SHORT,
        };
        if !sends || len > most {
            tx.flags |= OpFlags::DEVICE;
            return Ok(Prepared::AsItIs);
        }
        Ok(match copy(&tx.iov) {
            Ok((block, copied)) => {
                let own = core::mem::replace(&mut tx.iov, copied);
                tx.flags |= OpFlags::INJECT;
                Prepared::Copied(block, own)
            }
            Err(fault) => {
                let mut guard = self.shared.engine.lock_data()?;
                let state = &mut *guard;
                let op = TxOp::of(self.shared.id, tx, len);
                state.domain.refuse_copy(&op, fault);
                state.posted();
                Prepared::Failed
            }
        })
    }

    #[cold]
    pub(super) fn prepare_receive(&self, rx: &mut Rx) -> Result {
        self.shared.engine.mark(&mut rx.iov)
    }

    /// Marks the memory of an atomic operation. Operands and values to compare are copied.
    #[cold]
    pub(super) fn prepare_atomic(&self, atomic: &mut Atomic<'_>) -> Result<Prepared> {
        let engine = &self.shared.engine;
        engine.mark(&mut atomic.result)?;
        engine.mark(&mut atomic.operands)?;
        engine.mark(&mut atomic.compare)?;
        // The memory may change until the operation starts.
        if T::FORWARDS_ATOMICS || atomic.flags.contains(OpFlags::TRIGGER) {
            return Ok(Prepared::AsItIs);
        }
        match copy_operands(atomic) {
            Ok((operands, compare)) => Ok(Prepared::OperandsCopied(operands, compare)),
            Err(fault) => {
                let mut guard = engine.lock_data()?;
                let state = &mut *guard;
                let op = TxOp::of_atomic(self.shared.id, atomic);
                state.domain.refuse_copy(&op, fault);
                state.posted();
                Ok(Prepared::Failed)
            }
        }
    }
}

impl<T: Transport> Ep<T> {
    /// Marks the memory of a collective. A short contribution is copied.
    #[cold]
    pub(super) fn prepare_collective(&self, call: &mut Collective) -> Result<Option<Block>> {
        let engine = &self.shared.engine;
        engine.mark(&mut call.input)?;
        engine.mark(&mut call.output)?;
        match call.input.remaining() <= Block::LARGE {
            true => copy_if_device(&mut call.input).map_err(|_| Error::IO),
            false => Ok(None),
        }
    }
}

/// Replaces operands and values to compare by copies, those that a device has. The copies must stay until the transport
/// has the operation.
pub(in crate::domain) fn copy_operands(
    atomic: &mut Atomic<'_>,
) -> core::result::Result<(Option<Block>, Option<Block>), Fault> {
    let operands = copy_if_device(&mut atomic.operands)?;
    let compare = copy_if_device(&mut atomic.compare)?;
    if operands.is_some() && atomic.family == Family::Base {
        atomic.flags |= OpFlags::INJECT;
    }
    Ok((operands, compare))
}

/// Replaces memory of a device by a copy, if it is that.
fn copy_if_device(iov: &mut IoVec) -> core::result::Result<Option<Block>, Fault> {
    if !iov.is_device() {
        return Ok(None);
    }
    let (block, copied) = copy(iov)?;
    *iov = copied;
    Ok(Some(block))
}

/// Copies short memory of a device to the host.
fn copy(iov: &IoVec) -> core::result::Result<(Block, IoVec), Fault> {
    let (block, room) = Block::with_room(iov.remaining());
    room.copy_from(iov);
    match iov.take_fault() {
        None => Ok((block, room.as_source())),
        Some(fault) => Err(fault),
    }
}

/// An operation whose memory was looked at.
#[allow(dead_code)] // Blocks are only kept.
pub(super) enum Prepared {
    AsItIs,
    /// The operation sends this copy of its memory, which stays until the transport has copied it. If the operation is
    /// refused, it gets its own memory back.
    Copied(Block, IoVec),
    /// The same for operands and values to compare, those that a device has.
    OperandsCopied(Option<Block>, Option<Block>),
    /// The device did not give the bytes, which the completion reports.
    Failed,
}
