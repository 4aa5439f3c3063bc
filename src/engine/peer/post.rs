// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Posts operations of an endpoint to its peers: checks the endpoint, the flags, the target and the room, in this
//! order, and passes the operation to the session of its destination.

use super::check;
use crate::domain_state::{DomainState, TxOp};
use crate::ep_state::EpState;
use crate::transport::{Address, DomainStateOf, Transport};
use base::{Caps, OpFlags, Result};
use object::ops::atomic::Atomic;
use object::ops::transfer::{Tx, What};

/// A transport that has a session for each peer.
pub trait Posts: Transport {
    /// Flags that the transport honours for some operations only, or for none.
    const LIMITED: OpFlags;
    /// Whether an endpoint with the capability FI_FENCE honours fences.
    const HAS_FENCES: bool = true;
    /// Maximum of segments in the target of an access.
    const MOST_SEGMENTS: usize;
    /// Maximum of receive contexts that a peer may have.
    const MOST_CONTEXTS: usize = 1;

    /// Returns those of the `LIMITED` flags that this operation must not have.
    fn unsupported(_what: What, _flags: OpFlags, _ep: &EpState) -> OpFlags {
        Self::LIMITED
    }
    /// Returns the time stamp of an operation that is posted now; 0 if the session sets it later.
    #[inline(always)]
    fn stamp(&self) -> u16 {
        0
    }
    /// Checks an atomic operation against limits of the transport.
    fn check_atomic(&self, _atomic: &Atomic<'_>) -> Result {
        Ok(())
    }
    /// Polls for an endpoint that has no room for more operations, because an application that only repeats a refused
    /// call must still make progress. Returns false if this transport does not poll then.
    #[inline(always)]
    fn poll_for_room(&mut self, _domain: &mut DomainStateOf<Self>) -> bool {
        false
    }
    /// Returns the session of a destination, an address in the vector of the endpoint `port`. Connects if necessary.
    fn session_for(
        &mut self,
        domain: &mut DomainStateOf<Self>,
        port: usize,
        dest: u64,
    ) -> Result<usize>;
    /// Passes an operation to a session; a message may be for one of the peer's receive contexts. Takes over the memory
    /// of `tx` only on success.
    fn start(
        &mut self,
        domain: &mut DomainStateOf<Self>,
        port: usize,
        session: usize,
        tx: &mut Tx<'_>,
        op: TxOp,
        context: u8,
    ) -> Result;
    /// Passes an atomic operation to a session. Memory belongs to the endpoint, so there is no receive context.
    fn start_atomic(
        &mut self,
        domain: &mut DomainStateOf<Self>,
        port: usize,
        session: usize,
        atomic: &mut Atomic<'_>,
        op: TxOp,
    ) -> Result;
}

/// Posts an operation of an endpoint, whose destination names no receive context.
#[inline(always)]
pub fn post<T: Posts>(
    transport: &mut T,
    domain: &mut DomainStateOf<T>,
    ep: usize,
    tx: &mut Tx<'_>,
) -> Result {
    let len = tx.iov.remaining();
    admit(transport, domain, ep, tx, len)?;
    let session = transport.session_for(domain, ep, tx.dest)?;
    let op = record(transport, ep, tx, len);
    transport.start(domain, ep, session, tx, op, 0)
}

/// Posts an operation of the endpoint `port`, or of its transmit context `ep`. The destination may name one of the
/// peer's receive contexts.
#[inline(never)]
pub fn post_from<T: Posts>(
    transport: &mut T,
    domain: &mut DomainStateOf<T>,
    port: usize,
    ep: usize,
    tx: &mut Tx<'_>,
) -> Result {
    let len = tx.iov.remaining();
    admit(transport, domain, ep, tx, len)?;
    let (dest, context) = domain.destination(port, tx.dest, T::MOST_CONTEXTS)?;
    let session = transport.session_for(domain, port, dest)?;
    let op = record(transport, ep, tx, len);
    transport.start(domain, port, session, tx, op, context)
}

/// Posts an atomic operation of the endpoint `port`, or of its transmit context `ep`. The receive context in the
/// destination does not matter.
pub fn post_atomic<T: Posts>(
    transport: &mut T,
    domain: &mut DomainStateOf<T>,
    port: usize,
    ep: usize,
    atomic: &mut Atomic<'_>,
) -> Result {
    let mut op = TxOp::of_atomic(ep, atomic);
    op.since = transport.stamp();
    check_flags::<T>(op.what, op.flags, check::enabled(domain, ep)?)?;
    transport.check_atomic(atomic)?;
    check_room(transport, domain, ep)?;
    let (dest, _) = domain.destination(port, atomic.dest, T::MOST_CONTEXTS)?;
    let session = transport.session_for(domain, port, dest)?;
    transport.start_atomic(domain, port, session, atomic, op)
}

/// Returns the record of an operation.
#[inline(always)]
fn record<T: Posts>(transport: &T, ep: usize, tx: &Tx<'_>, len: usize) -> TxOp {
    TxOp {
        since: transport.stamp(),
        ..TxOp::of(ep, tx, len)
    }
}

/// Checks an operation of `len` bytes, except for its destination.
#[inline(always)]
fn admit<T: Posts>(
    transport: &mut T,
    domain: &mut DomainStateOf<T>,
    ep: usize,
    tx: &Tx<'_>,
    len: usize,
) -> Result {
    let state = check::enabled(domain, ep)?;
    if tx.flags.intersects(check::NEED_CAPS.union(T::LIMITED)) {
        check_flags::<T>(tx.what, tx.flags, state)?;
    }
    if matches!(tx.what, What::Write | What::Read) {
        check::target(tx.target, len, T::MOST_SEGMENTS)?;
    }
    check_room(transport, domain, ep)
}

// Few operations have such flags; a call keeps the path of the others short.
#[inline(never)]
fn check_flags<T: Posts>(what: What, flags: OpFlags, ep: &EpState) -> Result {
    let caps = match T::HAS_FENCES {
        true => ep.caps,
        false => ep.caps.difference(Caps::FENCE),
    };
    check::flags(flags, caps, T::unsupported(what, flags, ep))
}

/// Checks that the endpoint may post one more operation.
#[inline(always)]
fn check_room<T: Posts>(transport: &mut T, domain: &mut DomainStateOf<T>, ep: usize) -> Result {
    match domain.may_post(ep) {
        Err(_) if transport.poll_for_room(domain) => domain.may_post(ep),
        result => result,
    }
}

/// Whether an endpoint is enabled and may post one more operation, for paths that leave all errors to `post`.
#[inline(always)]
pub fn may_post<A: Address>(domain: &DomainState<A>, ep: usize) -> bool {
    check::enabled(domain, ep).is_ok() && domain.may_post(ep).is_ok()
}
