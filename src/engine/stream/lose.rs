// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What happens to operations when a peer is gone, or its connection is given up.
#![forbid(unsafe_code)]

use core::fmt;
use std::ffi::CString;
use std::os::fd::AsRawFd;

use crate::abi::*;
use crate::base::Error;
use crate::base::log::{Subsys, log_info, log_warn};
use crate::base::settings::Settings;
use crate::engine::core::{Loss, TxOp};
use crate::engine::stream::conn::{After, At, Out, Rx, Sink, State, Tx, Waiting, Watch};
use crate::engine::stream::direct::end_direct;
use crate::engine::stream::ep::NONE;
use crate::engine::stream::net::Net;
use crate::engine::stream::transport::{Core, Stream};
use crate::sys::socket::Socket;

impl Tx {
    /// Takes an operation out of which nothing has left. Headers go on being counted, which nobody depends on.
    fn take_unsent(&mut self, is_meant: impl Fn(&TxOp) -> bool) -> Option<TxOp> {
        let waits = |waiting: &Waiting| is_meant(&waiting.op);
        if let Some(at) = self.waiting.iter().position(waits) {
            return self.waiting.remove(at).map(|waiting| waiting.op);
        }
        let unsent = |out: &Out| match out {
            // Of a message that the peer has asked for it waits for the bytes.
            Out::Frame(frame) if frame.header_done == 0 && !frame.is_data() => match frame.after {
                After::Complete(op) | After::Acknowledged(op) => is_meant(&op),
                _ => false,
            },
            _ => false,
        };
        // Of several that are equal the last, as in `await_ack`.
        let at = self.queue.iter().rposition(unsent)?;
        let Some(Out::Frame(frame)) = self.queue.remove(at) else {
            return None;
        };
        match frame.after {
            After::Complete(op) => Some(op),
            After::Acknowledged(op) => {
                // Operations that are equal in everything need no telling apart.
                let at = self.await_ack.iter().rposition(|other| *other == op)?;
                self.await_ack.remove(at)
            }
            _ => None,
        }
    }
}

impl<N: Net> Stream<N> {
    pub fn close_socket(&mut self, id: usize) {
        let conn = &mut self.conns[id];
        if let Some(socket) = conn.socket.take() {
            self.epoll.remove(socket.as_raw_fd());
            if N::DUCTS || conn.duct.is_some() {
                // A forked child may hold it, too; the peer is to know all the same.
                socket.shutdown();
            }
        }
        conn.watch = Watch::default();
        if std::mem::take(&mut conn.hot) {
            self.hot.retain(|&hot| hot != id);
        }
        if !conn.rx.shared().is_empty() {
            self.take_back(id, |_| true);
        }
        if let Some(duct) = self.conns[id].duct.take() {
            duct.revoke();
            end_direct(&duct);
            self.shared -= 1;
            self.ducts.retain(|&other| other != id);
            self.full.retain(|&other| other != id);
        }
    }

    /// The socket has nothing more to say.
    pub(super) fn epoll_forget(&mut self, id: usize) {
        let conn = &mut self.conns[id];
        if let (true, Some(socket)) = (conn.watch.added, &conn.socket) {
            self.epoll.remove(socket.as_raw_fd());
        }
        conn.watch = Watch::default();
    }

    /// The peer is gone: everything that depended on it fails.
    pub fn lose(&mut self, core: &mut Core<N>, id: usize, error: Error) {
        let error = self.conns[id].cause.take().unwrap_or(error);
        let text = std::io::Error::from_raw_os_error(error.code());
        match error {
            // It is us who wanted that.
            Error::CANCELED => self.lose_quietly(core, id, error),
            Error::CONNRESET => self.lose_because(core, id, error, &"ended"),
            Error::TIMEDOUT => self.lose_because(core, id, error, &"does not answer"),
            Error::CONNREFUSED => self.lose_because(core, id, error, &"refuses to connect"),
            _ => self.lose_because(core, id, error, &format_args!("failed: {text}")),
        }
    }

    /// As `lose`; `what` says what the peer does, or what happened to it.
    pub fn lose_because(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        error: Error,
        what: &dyn fmt::Display,
    ) {
        let conn = &self.conns[id];
        let peer = conn.peer.clone();
        // Before that whoever connects tells of it.
        let tells = conn.state == State::Up && !conn.is_reported;
        let failed = self.blame(core, id, what, |stream, core| {
            stream.lose_quietly(core, id, error);
        });
        if tells && failed == 0 {
            log_info!(N::SOURCE, Subsys::EpData, "{peer} {what}");
        }
    }

    /// Does what fails operations with a peer, and gives how many; their errors say why, and so does the log.
    fn blame(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        what: &dyn fmt::Display,
        fail: impl FnOnce(&mut Self, &mut Core<N>),
    ) -> usize {
        let conn = &self.conns[id];
        let tells = conn.state == State::Up && !conn.is_reported;
        let sentence = format!("{} {what}", conn.peer);
        let why = CString::new(sentence.as_str()).unwrap_or_default();
        let loss = Loss {
            why: why.into(),
            failed: 0,
        };
        // One peer's loss may be another's: a collective ends.
        let outer = core.loss.replace(loss);
        fail(self, core);
        let loss = std::mem::replace(&mut core.loss, outer);
        let failed = loss.map_or(0, |loss| loss.failed);
        if tells && failed > 0 {
            log_warn!(
                N::SOURCE,
                Subsys::EpData,
                "{sentence}: operations with it fail: {failed}"
            );
        }
        failed
    }

    fn lose_quietly(&mut self, core: &mut Core<N>, id: usize, error: Error) {
        let ep = self.conns[id].ep;
        let rdm = self.eps.get(ep).is_some_and(|ep| ep.rdm);
        let was_up = self.conns[id].state == State::Up;
        self.log_end(id, error);
        if let (Error::TIMEDOUT, Some(socket)) = (error, &self.conns[id].socket) {
            // A peer that takes nothing would not hear of the end behind what the kernel still has for it.
            socket.close_at_once();
        }
        self.close_socket(id);
        self.fail_operations(core, id, error);
        if rdm {
            if !was_up {
                self.note_unreachable(id, error);
            }
            if was_up && error == Error::TIMEDOUT {
                self.fail_receives_from(core, id, error);
            }
            let conn = &self.conns[id];
            let peer = (!conn.receive_only).then(|| conn.peer.clone());
            self.remove_conn(id);
            if let Some(peer) = peer {
                self.member_lost(core, ep, &peer, error);
            }
            return;
        }
        self.conns[id].state = State::Down;
        let srx = core.eps[ep].srx;
        if core.srxs[srx].eps == 1 {
            for (recv, what) in core.srxs[srx].drain_posted() {
                core.receive_failed(ep, &recv, what, error);
            }
        }
        if was_up {
            N::ended(self, core, id);
        }
    }

    /// The peer's host is silent: receives that name it would wait for ever. (One that ended its connection may come again.)
    fn fail_receives_from(&self, core: &mut Core<N>, id: usize, error: Error) {
        let conn = &self.conns[id];
        if conn.fi_addr == FI_ADDR_NOTAVAIL {
            return;
        }
        let mut eps = core.eps[conn.ep].contexts.clone();
        eps.push(conn.ep);
        for ep in eps {
            let srx = &mut core.srxs[core.eps[ep].srx];
            // What endpoints share may come by another one.
            if srx.eps > 1 {
                continue;
            }
            for (recv, what) in srx.drain_posted_from(conn.fi_addr) {
                core.receive_failed(ep, &recv, what, error);
            }
        }
    }

    /// The peer has ended the stream while nothing is read from it. What it is sent fails without delay. What it has sent waits
    /// for its receive, unless that is never going to be whole.
    #[cold]
    pub(super) fn ended_unread(&mut self, core: &mut Core<N>, id: usize) {
        let conn = &self.conns[id];
        let unread = conn.socket.as_ref().map_or(0, Socket::unread);
        let there = (unread + conn.rx.leftover.len()) as u64;
        let hopeless = match &conn.rx.at {
            At::Stalled(stalled) => stalled.envelope.len > there,
            // It takes no more answers.
            At::Held(header) => header.is_answered(),
            _ => false,
        };
        if hopeless {
            return self.lose(core, id, Error::CONNRESET);
        }
        self.epoll_forget(id);
        self.transmits_end(core, id);
    }

    /// The peer takes nothing any more. What it has sent may wait for its receives.
    pub(super) fn transmits_end(&mut self, core: &mut Core<N>, id: usize) {
        if self.conns[id].has_work() {
            self.blame(core, id, &"ended", |stream, core| {
                stream.fail_transmits(core, id, Error::CONNRESET);
            });
        }
    }

    /// Completes in error what was posted to the peer.
    pub(super) fn fail_transmits(&mut self, core: &mut Core<N>, id: usize, error: Error) {
        let tx = std::mem::take(&mut self.conns[id].tx);
        let mut failed: Vec<TxOp> = Vec::new();
        for out in tx.queue {
            if let Out::Frame(frame) = out
                && let After::Complete(op) = frame.after
            {
                failed.push(op);
            }
        }
        failed.extend(tx.await_ack);
        failed.extend(tx.await_read.into_iter().map(|read| read.op));
        failed.extend(tx.rendezvous.into_values().map(|out| out.op));
        failed.extend(tx.waiting.iter().map(|waiting| waiting.op));
        for op in failed {
            core.eps[op.ep()].tx_pending -= 1;
            core.send_failed(op.ep(), &op, error);
        }
    }

    /// Completes in error what was posted to the peer, and what the peer had begun.
    pub fn fail_operations(&mut self, core: &mut Core<N>, id: usize, error: Error) {
        self.fail_transmits(core, id, error);
        let conn = &mut self.conns[id];
        let ep = conn.ep;
        let rx = std::mem::replace(&mut conn.rx, Rx::new());
        match rx.at {
            At::Payload(incoming) => match incoming.sink {
                Sink::Recv(recv, envelope) => {
                    core.receive_failed(envelope.ep, &recv, envelope.what, error);
                }
                Sink::Slot(srx, slot) => {
                    if let Some((recv, envelope)) = core.srxs[srx].lost(slot) {
                        core.receive_failed(envelope.ep, &recv, envelope.what, error);
                    }
                }
                Sink::Read(read) => {
                    core.eps[read.op.ep()].tx_pending -= 1;
                    core.send_failed(read.op.ep(), &read.op, error);
                }
                Sink::Coll(part) => self.part_lost(ep, &part),
                Sink::Write { .. } | Sink::Atomic(_) | Sink::Drop => {}
            },
            At::Header | At::Stalled(_) | At::Held(_) => {}
        }
        for incoming in rx.told.into_cleared() {
            if let Some(recv) = incoming.recv {
                let envelope = incoming.envelope;
                core.receive_failed(envelope.ep, &recv, envelope.what, error);
            }
        }
        for shared in rx.offers.into_iter().flat_map(|offers| offers.shared) {
            if let Some(recv) = shared.recv {
                let envelope = shared.envelope;
                core.receive_failed(envelope.ep, &recv, envelope.what, error);
            }
        }
        core.each_srx(ep, |srx| srx.forget(id as u64));
        self.dirty.retain(|&dirty| dirty != id);
        self.stalled.retain(|&stalled| stalled != id);
    }

    /// Cancels an operation of which the peer has seen nothing: it waits for its connection, or behind a fence, or its
    /// frame has not begun to move. What was announced to the peer stays: the peer may be taking it.
    pub(super) fn cancel_waiting(&mut self, core: &mut Core<N>, ep: usize, context: usize) {
        if context == 0 {
            return;
        }
        let is_meant = |op: &TxOp| op.ep() == ep && op.context == context;
        let mut conns = self.conns.iter_mut();
        let found = conns.find_map(|(_, conn)| conn.tx.take_unsent(is_meant));
        if let Some(op) = found {
            core.eps[ep].tx_pending -= 1;
            core.send_failed(ep, &op, Error::CANCELED);
        }
    }

    /// Takes a connection out of all tables.
    pub(super) fn remove_conn(&mut self, id: usize) {
        let conn = self.conns.remove(id);
        if let Some(endpoint) = self.eps.get_mut(conn.ep) {
            if !conn.receive_only && endpoint.by_addr.get(&conn.peer) == Some(&id) {
                endpoint.by_addr.remove(&conn.peer);
            }
            for slot in &mut endpoint.peers {
                if *slot == id as u32 {
                    *slot = NONE;
                }
            }
        }
    }

    /// The endpoint is closed: what was posted is dropped without a word, as fi_endpoint(3) says of fi_close.
    pub(super) fn discard_conn(&mut self, core: &mut Core<N>, id: usize) {
        self.close_socket(id);
        let conn = &mut self.conns[id];
        let ep = conn.ep;
        if let At::Payload(incoming) = &conn.rx.at
            && let Sink::Slot(srx, slot) = incoming.sink
        {
            core.srxs[srx].lost(slot);
        }
        core.each_srx(ep, |srx| srx.forget(id as u64));
        self.dirty.retain(|&dirty| dirty != id);
        self.stalled.retain(|&stalled| stalled != id);
        self.conns.remove(id);
    }

    pub(super) fn cleans_up_removed(&self) -> bool {
        Settings::get().av_remove_cleanup
    }
}
