// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Decides what becomes of a peer's request to connect: docs/wire/tcp.md, "Both sides connect".
#![forbid(unsafe_code)]

use std::cmp::Ordering;

use super::Desk;
use super::accept::Request;
use super::handshake::compare;
use abi::FI_ADDR_NOTAVAIL;
use engine::address::ip::Addr;
use engine::descriptors::{Free, free_descriptors};
use stream::session::State;

/// The decision on a peer's request.
pub enum Verdict {
    /// A new connection takes the request; in the second case one that does not send.
    Add,
    AddReceiveOnly,
    /// This connection takes the request.
    Take(usize),
    /// This connection takes the request, and its own attempt ends.
    ReplaceAttempt(usize),
    /// The request waits for the end of this connection's own attempt.
    Cross(usize),
    /// The peer has closed this connection as agreed. The request is decided on once more.
    Retire(usize),
    /// This connection ends. The request is decided on once more.
    Restart(usize),
    Reject {
        why: &'static str,
        warning: Option<&'static str>,
    },
}

/// Decides on a request of a peer that has no connection.
pub fn unknown_peer(desk: &mut Desk<'_>, request: &Request, peer: &Addr) -> Verdict {
    let is_last = free_descriptors() != Free::Ample;
    let mut is_stranger = || desk.number_of(request.from.ep, peer) == FI_ADDR_NOTAVAIL;
    match is_last && !request.replaces && is_stranger() {
        false => Verdict::Add,
        true => Verdict::Reject {
            why: "no descriptor",
            warning: Some(
                "request refused: the last descriptors are for peers of the address vector",
            ),
        },
    }
}

/// Decides on a request of a peer that has the connection `id`. `own`: the endpoint's address as the peer knows it.
pub fn known_peer(
    desk: &Desk<'_>,
    id: usize,
    request: &Request,
    peer: &Addr,
    own: &Addr,
) -> Verdict {
    let conn = &desk.peers[id];
    let proved = request.from.key.is_some();
    let reject = |why| Verdict::Reject { why, warning: None };
    match conn.session.state {
        State::Idle | State::Down => Verdict::Take(id),
        _ if peer == own && conn.opened_here => Verdict::AddReceiveOnly,
        // The peer has not seen the local attempt; queued operations use this connection.
        State::Connecting | State::Proving => Verdict::ReplaceAttempt(id),
        State::Requested if proved => Verdict::ReplaceAttempt(id),
        State::Requested => match compare(peer, own) {
            Ordering::Less => reject("both sides connect, ours counts"),
            _ => Verdict::Cross(id),
        },
        State::Resting if conn.session.closing.is_ready() && !conn.link.shares_with_living() => {
            Verdict::Retire(id)
        }
        State::Up | State::Resting | State::Sharing
            if conn.opened_here && conn.own.peer_pid == request.private.pid && !proved =>
        {
            reject("already connected")
        }
        // Any process of the peer's host can claim a port.
        State::Up | State::Resting if !proved && conn.link.shares_with_living() => {
            Verdict::Reject {
                why: "already connected",
                warning: Some(
                    "request of a second process refused: the first shares memory with us and is alive",
                ),
            }
        }
        // No operation has used it yet.
        State::Sharing => Verdict::ReplaceAttempt(id),
        // The peer has restarted, or given up the connection that it had opened.
        State::Up | State::Resting => Verdict::Restart(id),
    }
}
