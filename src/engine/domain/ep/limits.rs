// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What one operation of an endpoint may be, beyond what the provider takes: sizes, orders, contexts it may name.
//!
//! The stream keeps orders, but the answer to a large read is sent from where it lies, so a write or a message sent
//! after the request can pass it. The sender holds such operations back as behind a fence: the target needs no copy,
//! and cannot be made to wait for a peer that waits for it.
//!
//! Only on this branch is a destination taken apart into address and context (FI_NAMED_RX_CTX).
#![forbid(unsafe_code)]

use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::abi::*;
use crate::base::info::Info;
use crate::base::iovec::IOV_LIMIT;
use crate::base::{Caps, CompOrder, Error, MsgOrder, OpFlags, Result};
use crate::ffi::ops::transfer::{Tx, What};
use crate::hmem::Memory;

/// How much one operation transfers at most, and with FI_INJECT: untagged, tagged, RMA, atomic (fi_endpoint(3), the
/// options FI_OPT_MAX_*_SIZE and FI_OPT_INJECT_*_SIZE). Relaxed: set under the lock of the domain, sizes before the
/// endpoint is enabled.
pub(super) struct Limits {
    pub(super) size: [AtomicUsize; 4],
    pub(super) inject: [AtomicUsize; 4],
    /// Pieces of one operation, here and at the target, and of one receive (fi_endpoint(3), iov_limit and
    /// rma_iov_limit), where less was agreed on than the provider takes.
    iovs: usize,
    target_iovs: usize,
    pub(super) receive_iovs: usize,
    /// `AFTER_READS` for messages and for what changes memory, if that has to stay behind reads: FI_ORDER_SAR,
    /// FI_ORDER_WAR and its like.
    messages: OpFlags,
    changes: OpFlags,
    /// fi_endpoint(3), FI_ORDER_STRICT: operations complete in the order of their calls, so none begins while another
    /// is under way.
    pub(super) strict: bool,
    /// Destinations may name receive contexts.
    names_contexts: AtomicBool,
    /// Operations may wait for what it posts.
    watched: AtomicBool,
    /// Something of this is to be checked. Otherwise the provider knows what it takes.
    pub(super) any: AtomicBool,
    /// So it is for `Transport::transmit_one`, which keeps the orders behind reads.
    pub(super) of_one: AtomicBool,
}

impl Limits {
    /// Not the usual way of an operation.
    pub(super) fn goes_around(&self) -> bool {
        self.names_contexts.load(Ordering::Relaxed) || self.watched.load(Ordering::Relaxed)
    }

    pub(super) fn new(info: &Info, atomic: usize, names_contexts: bool) -> Limits {
        let all = |most: usize| [most, most, most, most.min(atomic)].map(AtomicUsize::new);
        let kept = |any| match info.tx.msg_order.intersects(any) {
            true => OpFlags::AFTER_READS,
            false => OpFlags::empty(),
        };
        let (messages, changes) = (kept(MsgOrder::SAR), kept(MsgOrder::WRITES_AFTER_READS));
        let strict = info.tx.comp_order == CompOrder::STRICT;
        let of_one = strict || names_contexts;
        let limit = |agreed: usize| if agreed == 0 { IOV_LIMIT } else { agreed };
        let (iovs, target_iovs) = (limit(info.tx.iov_limit), limit(info.tx.rma_iov_limit));
        let few = iovs < IOV_LIMIT || target_iovs < IOV_LIMIT;
        Limits {
            size: all(info.ep.max_msg_size),
            inject: all(info.tx.inject_size),
            iovs,
            target_iovs,
            receive_iovs: limit(info.rx.iov_limit),
            messages,
            changes,
            strict,
            names_contexts: AtomicBool::new(names_contexts),
            watched: AtomicBool::new(false),
            any: AtomicBool::new(of_one || few || messages != changes),
            of_one: AtomicBool::new(of_one),
        }
    }

    /// The flags that every operation has: an order that holds for all kinds, which costs less than to look at each.
    /// Reads the transport leaves out.
    pub(super) fn implied(&self) -> OpFlags {
        self.messages & self.changes
    }

    /// From now on something of it is checked for every operation.
    pub(super) fn set_any(&self) {
        self.any.store(true, Ordering::Relaxed);
        self.of_one.store(true, Ordering::Relaxed);
    }

    /// From now on destinations may name receive contexts.
    pub(super) fn name_contexts(&self) {
        self.names_contexts.store(true, Ordering::Relaxed);
        self.set_any();
    }

    /// From now on operations may set off others.
    pub(super) fn watch(&self) {
        self.watched.store(true, Ordering::Relaxed);
        self.set_any();
    }

    #[inline]
    pub(super) fn check<M: Memory>(&self, tx: &Tx<'_, M>) -> Result {
        self.check_pieces(tx.iov.pieces(), tx.target.len())?;
        let most = self.size[Limits::of(tx.what)].load(Ordering::Relaxed);
        match tx.iov.remaining() > most {
            true => Err(Error::MSGSIZE),
            false => Ok(()),
        }
    }

    /// The pieces of an operation here, and at the target.
    #[inline]
    pub(super) fn check_pieces(&self, own: usize, target: usize) -> Result {
        match own > self.iovs || target > self.target_iovs {
            true => Err(Error::INVAL),
            false => Ok(()),
        }
    }

    /// `AFTER_READS` for an operation that such an order is about.
    #[inline]
    pub(super) fn order(&self, what: What) -> OpFlags {
        match what {
            What::Read => OpFlags::empty(),
            What::Msg | What::Tagged => self.messages,
            What::Write | What::Atomic | What::AtomicFetch => self.changes,
        }
    }

    #[inline]
    pub(super) const fn of(what: What) -> usize {
        match what {
            What::Msg => 0,
            What::Tagged => 1,
            What::Write | What::Read => 2,
            What::Atomic | What::AtomicFetch => ATOMIC,
        }
    }

    /// The limit that an option is about, if the endpoint has that kind of operation.
    pub(super) fn named(&self, option: c_int, caps: Caps) -> Option<&AtomicUsize> {
        let (limit, needed) = match option {
            FI_OPT_MAX_MSG_SIZE => (&self.size[0], Caps::MSG),
            FI_OPT_MAX_TAGGED_SIZE => (&self.size[1], Caps::TAGGED),
            FI_OPT_MAX_RMA_SIZE => (&self.size[2], Caps::RMA),
            FI_OPT_MAX_ATOMIC_SIZE => (&self.size[ATOMIC], Caps::ATOMIC),
            FI_OPT_INJECT_MSG_SIZE => (&self.inject[0], Caps::MSG),
            FI_OPT_INJECT_TAGGED_SIZE => (&self.inject[1], Caps::TAGGED),
            FI_OPT_INJECT_RMA_SIZE => (&self.inject[2], Caps::RMA),
            FI_OPT_INJECT_ATOMIC_SIZE => (&self.inject[ATOMIC], Caps::ATOMIC),
            _ => return None,
        };
        caps.contains(needed).then_some(limit)
    }

    /// What the limit may be at most.
    pub(super) fn most(option: c_int, info: &Info, atomic: usize) -> usize {
        match option {
            FI_OPT_INJECT_MSG_SIZE | FI_OPT_INJECT_TAGGED_SIZE | FI_OPT_INJECT_RMA_SIZE => {
                info.tx.inject_size
            }
            FI_OPT_INJECT_ATOMIC_SIZE => info.tx.inject_size.min(atomic),
            FI_OPT_MAX_ATOMIC_SIZE => info.ep.max_msg_size.min(atomic),
            _ => info.ep.max_msg_size,
        }
    }
}

/// The place of atomic operations among the limits.
pub(super) const ATOMIC: usize = 3;
