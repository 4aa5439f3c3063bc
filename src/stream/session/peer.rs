// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The two ends of a session: a local endpoint, and the peer as that endpoint knows it.

use crate::proto::Message;
use crate::session::Cx;
use crate::session::receive::Fault;
use abi::FI_ADDR_NOTAVAIL;
use base::Caps;
use engine::domain_state::{DomainState, MessageInfo, Sender};
use engine::srx::{Bytes, Envelope, Slot};
use engine::strangers::new_source;
use engine::transport::Address;

/// Size limit for messages that are gathered before they take a receive.
const GATHERED: u64 = 1 << 17;

/// The peer of an endpoint.
pub struct Peer<A> {
    /// The endpoint's number in `domain.eps`.
    pub ep: usize,
    /// RDM: the address of the peer's listener; MSG: the address of the other end.
    pub addr: A,
    /// The peer's index in the endpoint's address vector, or FI_ADDR_NOTAVAIL.
    pub fi_addr: u64,
    /// Source number for matching while the peer is in no address vector.
    unnamed: u64,
}

impl<A: Address> Peer<A> {
    pub fn new(ep: usize, addr: A, fi_addr: u64) -> Peer<A> {
        Peer {
            ep,
            addr,
            fi_addr,
            unnamed: new_source(),
        }
    }

    /// Returns the source number by which matching identifies the peer.
    #[inline]
    pub fn source(&self) -> u64 {
        match self.fi_addr {
            FI_ADDR_NOTAVAIL => self.unnamed,
            known => known,
        }
    }

    /// Returns the sender for completions of its messages.
    #[inline]
    pub fn sender(&self) -> Sender<'_, A> {
        Sender {
            fi_addr: self.fi_addr,
            addr: Some(&self.addr),
        }
    }

    /// Returns the envelope of a message; `session` is the number of the session.
    #[inline]
    pub fn envelope(&self, session: usize, info: &MessageInfo) -> Envelope {
        info.envelope(self.source(), self.ep, session as u64)
    }

    /// Returns the receive context for the fast path, or `None` if the general path has to handle the message.
    #[inline(always)]
    pub fn taker(&self, domain: &DomainState<A>, tagged: bool) -> Option<usize> {
        let ep = domain.eps.get(self.ep)?;
        let refused = tagged && !ep.caps.contains(Caps::TAGGED);
        (!refused && !domain.reports_origin(self.ep, self.fi_addr)).then_some(ep.srx)
    }

    /// Returns the receive context that a frame names, as an index of `domain.eps`; 0 means the endpoint itself.
    #[inline]
    pub fn context(
        &self,
        domain: &DomainState<A>,
        context: u8,
    ) -> core::result::Result<usize, Fault> {
        match context {
            0 => Ok(self.ep),
            _ => self.named_context(domain, context),
        }
    }

    #[cold]
    fn named_context(
        &self,
        domain: &DomainState<A>,
        context: u8,
    ) -> core::result::Result<usize, Fault> {
        let beyond_first = usize::from(context) - 1;
        let context = domain.eps[self.ep].contexts.get(beyond_first);
        let missing =
            Fault::Rule("a message for a receive context that the endpoint does not have");
        context.copied().ok_or(missing)
    }

    /// Keeps a message for a later receive, with its sender's address if that is to be reported.
    pub fn keep(
        &self,
        domain: &mut DomainState<A>,
        srx: usize,
        envelope: Envelope,
        bytes: Bytes,
    ) -> Slot {
        let slot = domain.srxs[srx].keep(envelope, bytes);
        if domain.reports_origin(self.ep, self.fi_addr) {
            domain.srxs[srx].record_origin(slot, self.addr.to_bytes());
        }
        slot
    }

    /// Whether a message takes a receive only when it is complete. An incomplete message would hold a buffer of a
    /// context that connections of a layered provider share (`OPT_PEER_NUMBER`), so a few peers that send halves of
    /// messages could occupy all buffers.
    pub fn is_gathered(&self, cx: &Cx<'_, A>, message: &Message) -> bool {
        let ep = &cx.domain.eps[self.ep];
        let srx = &cx.domain.srxs[ep.srx];
        let limit = cx.common.limits.saved_bytes;
        ep.peer_number != FI_ADDR_NOTAVAIL
            && ep.shares_receives
            && (1..=GATHERED).contains(&message.payload)
            && srx.has_room(cx.id as u64, message.payload, limit)
    }
}
