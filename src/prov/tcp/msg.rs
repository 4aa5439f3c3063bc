// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Connected endpoints: fi_accept, and repeated attempts of fi_connect (fi_cm(3)).

use crate::tcp::Desk;
use crate::tcp::connect::PROBES;
use crate::tcp::exchange::write_whole;
use crate::tcp::net::Connections;
use abi::*;
use base::{Error, Result};
use stream::conn::Conn;
use stream::desk::Action;
use stream::link::Link;
use stream::proto::{CmKind, encode_cm};
use stream::session::State;

impl Connections {
    pub(super) fn accept_msg(&mut self, desk: &mut Desk<'_>, ep: usize, param: &[u8]) -> Result {
        let endpoint = desk.peers.ep_mut(ep)?;
        if endpoint.conn().is_some() {
            return Err(Error::ISCONN);
        }
        let claim = endpoint.own.request.take().ok_or(Error::INVAL)?;
        let request = claim.take()?;
        let nodelay = endpoint.own.nodelay;
        self.check_key(desk, ep, &request)?;
        let mut conn =
            Conn::<Connections>::new(ep, request.from(), desk.domain.eps[ep].peer_number);
        conn.session.agreed.extended = request.is_extended();
        conn.session.agreed.refuses = conn.session.agreed.extended && desk.limits.answers_writes;
        let response = encode_cm(
            CmKind::Response,
            param,
            conn.session.agreed.extended,
            request.is_keyed(),
        );
        conn.own.auth = self.accept_proof(desk, ep, &request, &response)?;
        let proves = conn.own.auth.is_some();
        let (socket, swapped) = request.into_socket();
        let _ = socket.set_nodelay(nodelay);
        let sent = write_whole(&socket, &response);
        conn.session.tx.out.set_swaps(swapped);
        if proves {
            // Without probes a silent host would not be detected.
            let _ = socket.set_keepalive(Some(PROBES));
        }
        conn.link = Link::Socket(socket);
        if proves {
            conn.session.state = State::Proving;
        }
        let id = desk.peers.insert_only(ep, conn)?;
        if let Some(socket) = desk.peers[id].link.fd() {
            desk.poller.watch(id, socket, true, false)?;
        }
        if proves {
            desk.watch_attempt(id, param.len());
            // An event reports the result. The peer proves its key when it polls, so there is no time limit.
            return Ok(());
        }
        self.up(desk, id);
        desk.act(Action::Event(id, FI_CONNECTED, Vec::new()));
        if !sent {
            // The peer has closed the connection meanwhile.
            desk.end(id, Error::CONNRESET);
        }
        Ok(())
    }

    /// Restarts the attempt of fi_connect.
    pub(super) fn connect_again(&mut self, desk: &mut Desk<'_>, id: usize) {
        desk.close_link(id);
        let now = desk.poller.now();
        let conn = &mut desk.peers[id];
        conn.session.state = State::Idle;
        if conn.clock.is_over(now) {
            return desk.act(Action::Refused {
                id,
                error: Error::TIMEDOUT,
                cause: Error::TIMEDOUT,
                private: Vec::new(),
            });
        }
        // A failure is reported by an event.
        let _ = self.begin_connect(desk, id);
    }
}
