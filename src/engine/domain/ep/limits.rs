// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Limits of an endpoint's operations that are lower than those of the provider: sizes, orders, contexts in addresses.
//!
//! The stream keeps the order of messages, but the answer to a large read is sent from the region itself, so a later
//! write or message can overtake it. The sender holds such operations back as behind a fence. The target then needs no
//! copy, and cannot be made to wait for a peer that itself waits for the target.
//!
//! A destination is split into address and context (FI_NAMED_RX_CTX) only on this path.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use base::info::Info;
use base::iovec::IOV_LIMIT;
use base::{CompOrder, Error, MsgOrder, OpFlags, Result};

use object::ops::options::Opt;
use object::ops::transfer::{Tx, What};

/// Most bytes of one operation, and of one with FI_INJECT: untagged, tagged, RMA, atomic (fi_endpoint(3), the options
/// FI_OPT_MAX_*_SIZE and FI_OPT_INJECT_*_SIZE). Relaxed: they are set under the domain lock, and sizes before the
/// endpoint is enabled.
pub(super) struct Limits {
    pub(super) size: [AtomicUsize; 4],
    pub(super) inject: [AtomicUsize; 4],
    /// Most buffers of one operation, here and at the target, and of one receive (fi_endpoint(3), iov_limit and
    /// rma_iov_limit), if `fi_info` has less than the provider supports.
    iovs: usize,
    target_iovs: usize,
    pub(super) receive_iovs: usize,
    /// `AFTER_READS` for messages and for writes and atomics, if the endpoint's order keeps them behind reads:
    /// FI_ORDER_SAR, FI_ORDER_WAR and similar.
    messages: OpFlags,
    changes: OpFlags,
    /// fi_endpoint(3), FI_ORDER_STRICT: operations complete in the order of their calls, so none starts while another
    /// is in flight.
    pub(super) strict: bool,
    /// Destinations may name receive contexts.
    names_contexts: AtomicBool,
    /// Memory may be that of devices.
    pub(super) takes_devices: bool,
    /// Other operations may wait for those of this endpoint.
    watched: AtomicBool,
    /// At least one limit has to be checked. Otherwise the limits of the provider suffice.
    pub(super) any: AtomicBool,
    /// The same for `Transport::transmit_one`, which handles the orders behind reads itself.
    pub(super) of_one: AtomicBool,
    /// The same for `Transport::write_one`, to which the flags of the order are passed only if they are those of
    /// messages.
    pub(super) of_write: AtomicBool,
}

/// Bytes of device memory that are copied when they are posted.
pub(super) const SHORT: usize = 4096;

impl Limits {
    /// Whether operations leave the fast path.
    pub(super) fn goes_around(&self) -> bool {
        self.names_contexts.load(Ordering::Relaxed) || self.watched.load(Ordering::Relaxed)
    }

    pub(super) fn new(
        info: &Info,
        atomic: usize,
        names_contexts: bool,
        takes_devices: bool,
    ) -> Limits {
        let all = |most: usize| [most, most, most, most.min(atomic)].map(AtomicUsize::new);
        let kept = |any| match info.tx.msg_order.intersects(any) {
            true => OpFlags::AFTER_READS,
            false => OpFlags::empty(),
        };
        let (messages, changes) = (kept(MsgOrder::SAR), kept(MsgOrder::WRITES_AFTER_READS));
        let strict = info.tx.comp_order == CompOrder::STRICT;
        let of_one = strict || names_contexts || takes_devices;
        let limit = |agreed: usize| if agreed == 0 { IOV_LIMIT } else { agreed };
        let (iovs, target_iovs) = (limit(info.tx.iov_limit), limit(info.tx.rma_iov_limit));
        let few = iovs < IOV_LIMIT || target_iovs < IOV_LIMIT;
        Limits {
            size: all(info.ep.max_msg_size),
            inject: all(Limits::injected(info, takes_devices)),
            iovs,
            target_iovs,
            receive_iovs: limit(info.rx.iov_limit),
            messages,
            changes,
            strict,
            names_contexts: AtomicBool::new(names_contexts),
            takes_devices,
            watched: AtomicBool::new(false),
            any: AtomicBool::new(of_one || few || messages != changes),
            of_one: AtomicBool::new(of_one),
            of_write: AtomicBool::new(of_one || messages != changes),
        }
    }

    /// Bytes that may be injected. shm's entries with FI_HMEM say 0, for programs that would pass device memory to a
    /// provider that cannot copy it.
    fn injected(info: &Info, takes_devices: bool) -> usize {
        match info.tx.inject_size {
            0 if takes_devices => SHORT,
            size => size,
        }
    }

    /// Order flags that hold for all kinds of operations. Setting them always is cheaper than checking each operation's
    /// kind; the transport ignores them for reads.
    pub(super) fn implied(&self) -> OpFlags {
        self.messages & self.changes
    }

    /// Enables the checks for every operation from now on.
    pub(super) fn set_any(&self) {
        self.any.store(true, Ordering::Relaxed);
        self.of_one.store(true, Ordering::Relaxed);
        self.of_write.store(true, Ordering::Relaxed);
    }

    /// Lets destinations name receive contexts from now on.
    pub(super) fn name_contexts(&self) {
        self.names_contexts.store(true, Ordering::Relaxed);
        self.set_any();
    }

    /// Lets other operations wait for those of this endpoint from now on.
    pub(super) fn watch(&self) {
        self.watched.store(true, Ordering::Relaxed);
        self.set_any();
    }

    #[inline]
    pub(super) fn check(&self, tx: &Tx<'_>) -> Result {
        self.check_pieces(tx.iov.pieces(), tx.target.len())?;
        let most = self.size[Limits::of(tx.what)].load(Ordering::Relaxed);
        match tx.iov.remaining() > most {
            true => Err(Error::MSGSIZE),
            false => Ok(()),
        }
    }

    /// Checks the number of buffers of an operation, here and at the target.
    #[inline]
    pub(super) fn check_pieces(&self, own: usize, target: usize) -> Result {
        match own > self.iovs || target > self.target_iovs {
            true => Err(Error::INVAL),
            false => Ok(()),
        }
    }

    /// `AFTER_READS` if the endpoint's order requires it for this kind of operation.
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

    /// Returns the limit that an option sets.
    pub(super) fn named(&self, option: Opt) -> Option<&AtomicUsize> {
        Some(match option {
            Opt::MaxMsgSize => &self.size[0],
            Opt::MaxTaggedSize => &self.size[1],
            Opt::MaxRmaSize => &self.size[2],
            Opt::MaxAtomicSize => &self.size[ATOMIC],
            Opt::InjectMsgSize => &self.inject[0],
            Opt::InjectTaggedSize => &self.inject[1],
            Opt::InjectRmaSize => &self.inject[2],
            Opt::InjectAtomicSize => &self.inject[ATOMIC],
            _ => return None,
        })
    }

    /// Returns the highest value of this limit.
    pub(super) fn most(&self, option: Opt, info: &Info, atomic: usize) -> usize {
        let injected = Limits::injected(info, self.takes_devices);
        match option {
            Opt::InjectMsgSize | Opt::InjectTaggedSize | Opt::InjectRmaSize => injected,
            Opt::InjectAtomicSize => injected.min(atomic),
            Opt::MaxAtomicSize => info.ep.max_msg_size.min(atomic),
            _ => info.ep.max_msg_size,
        }
    }
}

/// Index of atomic operations among the limits.
pub(super) const ATOMIC: usize = 3;
