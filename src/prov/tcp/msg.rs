// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Connected endpoints: fi_connect, fi_accept, fi_shutdown and their events (fi_cm(3)).

use std::os::fd::AsRawFd;

use crate::tcp::Tcp;
use crate::tcp::connect::PROBES;
use crate::tcp::exchange::write_whole;
use abi::*;
use base::log::{Subsys, log_info};
use base::{Error, Result};
use object::ops::eq::EqErr;
use stream::conn::Conn;
use stream::link::Link;
use stream::proto::{CmKind, encode_cm};
use stream::session::State;
use stream::transport::{DomainOf, Stream};
use sys::addr;

pub(super) fn connect_msg(
    stream: &mut Stream<Tcp>,
    domain: &mut DomainOf<Tcp>,
    ep: usize,
    addr: Option<&[u8]>,
    param: &[u8],
) -> Result {
    let endpoint = stream.peers.ep_mut(ep)?;
    if endpoint.conn().is_some() {
        return Err(Error::ISCONN);
    }
    if endpoint.own.request.is_some() {
        return Err(Error::OPBADSTATE);
    }
    let peer = match addr {
        Some(bytes) => addr::from_bytes(bytes),
        None => endpoint.own.dest,
    };
    let peer = peer.ok_or(Error::INVAL)?;
    let number = domain.ep(ep).peer_number;
    let mut conn = Conn::<Tcp>::new(ep, addr::canonical(peer), number);
    // Kept until the request is written.
    conn.session.rx.leftover = param.to_vec();
    let id = stream.peers.insert_only(ep, conn)?;
    stream.watch_attempt(id, param.len());
    super::connect::begin_connect(stream, domain, id)
}

pub(super) fn accept_msg(
    stream: &mut Stream<Tcp>,
    domain: &mut DomainOf<Tcp>,
    ep: usize,
    param: &[u8],
) -> Result {
    let endpoint = stream.peers.ep_mut(ep)?;
    if endpoint.conn().is_some() {
        return Err(Error::ISCONN);
    }
    let claim = endpoint.own.request.take().ok_or(Error::INVAL)?;
    let request = claim.take()?;
    let nodelay = endpoint.own.nodelay;
    super::keyed::check_key(stream, ep, &request)?;
    let mut conn = Conn::<Tcp>::new(ep, request.from(), domain.ep(ep).peer_number);
    conn.session.extended = request.is_extended();
    conn.session.refuses = conn.session.extended && stream.common.limits.answers_writes;
    let response = encode_cm(
        CmKind::Response,
        param,
        conn.session.extended,
        request.is_keyed(),
    );
    conn.own.auth = super::keyed::accept_proof(stream, ep, &request, &response)?;
    let proves = conn.own.auth.is_some();
    let (socket, swapped) = request.into_socket();
    let _ = socket.set_nodelay(nodelay);
    let sent = write_whole(&socket, &response);
    conn.session.swap = swapped;
    let fd = socket.as_raw_fd();
    if proves {
        // Without probes a silent host would not be detected.
        let _ = socket.set_keepalive(Some(PROBES));
    }
    conn.link = Link::Socket(socket);
    if proves {
        conn.session.state = State::Proving;
    }
    let id = stream.peers.insert_only(ep, conn)?;
    stream.poller.watch(id, fd, true, false)?;
    if proves {
        stream.watch_attempt(id, param.len());
        // An event reports the result. The peer proves its key when it polls, so there is no time limit.
        return Ok(());
    }
    super::connect::up(stream, domain, id);
    cm_event(stream, domain, id, FI_CONNECTED, &[]);
    if !sent {
        // The peer has closed the connection meanwhile.
        stream.disconnect(domain, id, Error::CONNRESET);
    }
    Ok(())
}

/// Restarts the attempt of fi_connect.
pub(super) fn connect_again(stream: &mut Stream<Tcp>, domain: &mut DomainOf<Tcp>, id: usize) {
    stream.close_link(id);
    let now = stream.poller.now();
    let conn = &mut stream.peers[id];
    conn.session.state = State::Idle;
    if conn.clock.is_over(now) {
        return msg_failed(
            stream,
            domain,
            id,
            Error::TIMEDOUT,
            Error::TIMEDOUT,
            Vec::new(),
        );
    }
    // A failure is reported by an event.
    let _ = super::connect::begin_connect(stream, domain, id);
}

pub(super) fn shutdown_msg(
    stream: &mut Stream<Tcp>,
    domain: &mut DomainOf<Tcp>,
    ep: usize,
) -> Result {
    let id = stream.peers.ep(ep)?.conn().ok_or(Error::NOTCONN)?;
    match stream.peers[id].session.state {
        State::Up => {
            // The caller has waited for frames that were reported as sent; this flushes the rest.
            stream.last_flush(domain, id, stream.poller.now());
            if let Some(socket) = stream.peers[id].link.socket() {
                socket.shutdown();
            }
            stream.disconnect(domain, id, Error::CANCELED);
            Ok(())
        }
        State::Down => Ok(()),
        _ => {
            stream.close_link(id);
            stream.peers[id].session.state = State::Down;
            Ok(())
        }
    }
}

/// Reports an event of the endpoint's connection.
pub(super) fn cm_event(
    stream: &mut Stream<Tcp>,
    domain: &DomainOf<Tcp>,
    id: usize,
    number: u32,
    data: &[u8],
) {
    let state = domain.ep(stream.peers[id].session.ep);
    if let Some(eq) = &state.eq {
        eq.cm_event(number, state.fid, 0, data, None);
    }
}

/// Reports a failed fi_connect with an error event. `cause` goes into `prov_errno`; `private` is the data of the
/// peer's refusal.
pub(super) fn msg_failed(
    stream: &mut Stream<Tcp>,
    domain: &mut DomainOf<Tcp>,
    id: usize,
    error: Error,
    cause: Error,
    private: Vec<u8>,
) {
    let ep = stream.peers[id].session.ep;
    log_info!(
        stream.common.source,
        Subsys::EpCtrl,
        "no connection to {}: error {}",
        stream.peers[id].session.peer,
        error.code()
    );
    stream.close_link(id);
    stream.with(domain, id, |session, cx| session.fail_operations(cx, error));
    stream.peers[id].session.state = State::Down;
    let state = domain.ep(ep);
    if let Some(eq) = &state.eq {
        eq.error(EqErr {
            fid: state.fid,
            context: state.context,
            data: 0,
            err: error.code(),
            prov_errno: cause.code(),
            err_data: (!private.is_empty()).then(|| private.into_boxed_slice()),
        });
    }
}
