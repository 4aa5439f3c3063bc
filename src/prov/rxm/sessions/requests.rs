// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Requests of peers to connect: docs/wire/rxm.md.

use super::Sessions;
use crate::rxm::SOURCE;
use crate::rxm::proto::Request;
use crate::rxm::session::{Known, State, Verdict, decide};
use crate::rxm::state::StateOf;
use abi::FI_ADDR_NOTAVAIL;
use base::log::{Subsys, log_debug};
use engine::address::ip::Addr;

/// The reaction to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The endpoint does not listen any more.
    Ignore,
    /// Refuse, because there is a connection or an attempt of this side.
    Reject,
    /// Accept for this session.
    Accept(usize),
    /// The peer has restarted: take the packets that it sent before, end this session, and accept for a new one.
    Replace(usize),
}

impl Sessions {
    /// Decodes a request from this address. Returns the address of the peer's listener too, or the reason of a refusal.
    pub fn check_request(
        &self,
        from: Option<Addr>,
        data: &[u8],
    ) -> core::result::Result<(Addr, Request), String> {
        let mut peer = from.ok_or("it has no address")?;
        let request = Request::decode(data).map_err(|why| format!("{peer}: {why}"))?;
        peer.set_port(request.port);
        let own = self.common.settings.eager as u32;
        match request.eager == own {
            true => Ok((peer, request)),
            false => Err(format!(
                "{peer}: its FI_OFI_RXM_BUFFER_SIZE is {}, and ours {own}",
                request.eager
            )),
        }
    }

    /// Decides about a request of the peer that listens at this address. `at`: the local address of its connection.
    pub fn requested(
        &mut self,
        domain: &mut StateOf,
        ep: usize,
        (peer, at): (Addr, Option<Addr>),
        request: &Request,
    ) -> Reply {
        let Some(port) = self.port(ep) else {
            return Reply::Ignore;
        };
        let Some(mut own) = port.own else {
            return Reply::Ignore;
        };
        // An endpoint that listens at all addresses has the address at which the peer knows it. Otherwise both sides of
        // two simultaneous attempts would accept, and each would close its own one.
        if let (true, Some(at)) = (own.ip().is_unspecified(), at) {
            own.set_ip(at.ip());
        }
        let known = port.by_addr.get(&peer).map(|&id| &self.table[id]);
        let state = known.map_or(Known::Idle, |session| match session.state() {
            State::Idle | State::Over => Known::Idle,
            State::Connecting => Known::Asked,
            State::Accepted | State::Up => Known::Up(session.link().remote_pid()),
        });
        let verdict = decide(state, &own, &peer, request.id.pid);
        log_debug!(
            &SOURCE,
            Subsys::EpCtrl,
            "{peer} requests a connection to {own}: {}",
            verdict.words()
        );
        match (verdict, known.map(|session| (session.link().id(), state))) {
            (Verdict::Reject, _) => Reply::Reject,
            (Verdict::AcceptBeside, _) => Reply::Accept(self.new_peer(domain, ep, peer, true)),
            (Verdict::Accept, None) => Reply::Accept(self.new_peer(domain, ep, peer, false)),
            (Verdict::Accept, Some((id, Known::Up(_)))) => Reply::Replace(id),
            (Verdict::Accept, Some((id, _))) => Reply::Accept(id),
        }
    }

    /// Adds a session with a peer that has connected by itself; its address may be in the vector. `beside`: another
    /// session with it exists.
    pub fn new_peer(&mut self, domain: &mut StateOf, ep: usize, peer: Addr, beside: bool) -> usize {
        let av = domain.eps.get(ep).and_then(|state| state.av);
        let known = av.and_then(|av| domain.avs[av].find(&peer));
        let fi_addr = known.unwrap_or(FI_ADDR_NOTAVAIL);
        self.add(domain, ep, peer, (fi_addr, beside))
    }
}
