// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What an operation becomes: a frame written at once, a frame staged with others, a frame that waits.
//!
//! A few messages in a row are a system call each. When the application posts more before it looks at its queue, small frames
//! gather in a staging buffer and leave together: at the next look, when the buffer is full, before a sleep, at close, and by
//! `engine::flusher` where the application does nothing of that. `pace` says which frames gather.
#![forbid(unsafe_code)]

use crate::abi::*;
use crate::base::{Error, IoList, IoVec, Result};
use crate::engine::core::TxOp;
use crate::engine::ep_state::EpState;
use crate::engine::stream::conn::{
    After, Conn, Frame, Out, Payload, RENDEZVOUS_LIMIT, State, Waiting,
};
use crate::engine::stream::duct::RECORD;
use crate::engine::stream::ep::NONE;
use crate::engine::stream::net::Net;
use crate::engine::stream::proto::{
    Header, MAX_ATOMIC, MAX_HEADER, MAX_MESSAGE_HEADER, Op, encode_message, encode_usual,
};
use crate::engine::stream::rma::ASKED;
use crate::engine::stream::transport::{Core, Stream};
use crate::ffi::ops::transfer::{AFTER_READS, OneTx, Tx, What};
use crate::sys::socket::Moved;

/// Frames up to this size are staged when they cannot be written at once.
pub(super) const STAGE_LIMIT: usize = 16 * 1024;
/// A staging buffer that holds this much is written.
pub(super) const STAGE_FULL: usize = 64 * 1024;
/// Staged bytes of one connection from which on nothing is copied to them that can be sent from where it is.
pub(super) const STAGE_BRIM: usize = 256 * 1024;
/// Frames up to this size are copied together before they are written, which is cheaper than two pieces.
pub(super) const TOGETHER: usize = 512;
/// Staging buffers kept for the next use.
pub(super) const SPARE_BUFFERS: usize = 16;

/// Flags that ask for an answer of the peer.
pub(super) const WANTS_ACK: u64 = FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE;

/// Flags of operations that do not go the usual way of small ones.
pub(super) const SPECIAL: u64 = WANTS_ACK | FI_COMMIT_COMPLETE | FI_MATCH_COMPLETE | HELD;

/// Flags of operations that may have to wait for those before them.
const HELD: u64 = FI_FENCE | AFTER_READS;

/// Flags of operations that go the shortest way.
const PLAIN: u64 =
    FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_REMOTE_CQ_DATA | FI_MORE | FI_TRANSMIT;

/// How an operation goes out.
#[derive(Clone, Copy)]
enum Way {
    /// One frame with header and payload.
    Frame,
    /// A request; the payload comes back.
    Read,
    /// The peer is told of the message, and asks for it when a receive has matched.
    Rendezvous,
    /// The peer is told where the message is, and fetches it when a receive has matched.
    Offer,
    /// A request with payload; another payload comes back.
    Exchange,
}

impl<N: Net> Stream<N> {
    /// Posts an operation of an endpoint.
    #[inline]
    pub(super) fn post(&mut self, core: &mut Core<N>, ep: usize, tx: Tx<'_>) -> Result {
        let state = core.eps.get(ep).ok_or(Error::INVAL)?;
        if !state.enabled {
            return Err(Error::OPBADSTATE);
        }
        let len = tx.iov.remaining();
        if tx.flags & (FI_MATCH_COMPLETE | FI_FENCE | FI_TRIGGER) != 0 {
            check_flags(tx.what, tx.flags, state)?;
        }
        core.may_post(ep)?;
        let id = self.connection(core, ep, tx.dest)?;
        let op = TxOp {
            since: 0,
            what: tx.what,
            ep: ep as u32,
            flags: tx.flags,
            context: tx.context,
            len,
        };
        match tx.what {
            What::Msg | What::Tagged => self.post_message(core, id, tx, op),
            What::Write => self.post_write(core, id, tx, op),
            What::Read => self.post_read(core, id, tx, op),
            // These come as `Atomic`, not as `Tx`.
            What::Atomic | What::AtomicFetch => Err(Error::OPNOTSUPP),
        }
    }

    /// A message of one buffer over memory that is shared with the peer: nothing stands in its way, no read is under way that
    /// it would have to stay behind, and nobody is asked to answer. False leaves it to `post`, and says nothing.
    #[inline(always)]
    pub(super) fn post_one(&mut self, core: &mut Core<N>, ep: usize, tx: &OneTx) -> bool {
        let len = tx.piece.len();
        // Those that a peer does not keep wait here.
        let most = (RECORD - MAX_MESSAGE_HEADER).min(self.limits.saved_size);
        if !self.has_ducts() || len > most || tx.flags & !PLAIN != 0 {
            return false;
        }
        let enabled = core.eps.get(ep).is_some_and(|state| state.enabled);
        let (Some(endpoint), true) = (self.eps.get(ep), enabled && core.may_post(ep).is_ok())
        else {
            return false;
        };
        let Some(&id) = endpoint.peers.get(tx.dest as usize) else {
            return false;
        };
        let id = id as usize;
        let Some(conn) = self.conns.get_mut(id) else {
            return false;
        };
        let free = conn.state == State::Up
            && conn.tx.queue.is_empty()
            && conn.tx.waiting.is_empty()
            && !conn.is_reading()
            && !conn.swap;
        let Some(duct) = conn.duct.as_mut().filter(|_| free) else {
            return false;
        };
        let tagged = tx.what == What::Tagged;
        let data = (tx.flags & FI_REMOTE_CQ_DATA != 0).then_some(tx.data);
        let counter = conn.tx.counter;
        let mut header = [0; MAX_MESSAGE_HEADER];
        let header_len = match data {
            None => encode_usual(tagged, tx.tag, len, counter, &mut header),
            _ => encode_message(tagged, false, data, tx.tag, len, counter, &mut header),
        };
        if !matches!(duct.send_one(&header, header_len, &tx.piece), Ok(true)) {
            return false;
        }
        conn.tx.counter = counter.wrapping_add(1);
        self.ring_bell(id);
        let op = TxOp {
            since: 0,
            what: tx.what,
            ep: ep as u32,
            flags: tx.flags,
            context: tx.context,
            len,
        };
        core.sent(ep, &op);
        true
    }

    /// The connection that an operation goes over; it may have to be made first. On the path of every message: a call of its
    /// own would cost each of them some instructions.
    #[inline(always)]
    pub(super) fn connection(&mut self, core: &mut Core<N>, ep: usize, dest: u64) -> Result<usize> {
        let endpoint = self.eps.get(ep).ok_or(Error::INVAL)?;
        if !endpoint.rdm {
            let id = endpoint.conn.ok_or(Error::NOTCONN)?;
            return match self.conns[id].state {
                State::Up => Ok(id),
                State::Down => Err(Error::SHUTDOWN),
                _ => Err(Error::NOTCONN),
            };
        }
        let id = match endpoint.peers.get(dest as usize) {
            Some(&id) if id != NONE => id as usize,
            _ => self.find_peer(core, ep, dest)?,
        };
        if self.conns[id].state == State::Idle && self.conns[id].deadline.is_none() {
            N::begin_connect(self, core, id)?;
        }
        Ok(id)
    }

    /// Bytes go to a peer.
    #[inline]
    pub(super) fn watch(&mut self) {
        if !self.watches_peers {
            N::watch_peers(self);
        }
    }

    #[inline]
    pub(super) fn post_message(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        tx: Tx<'_>,
        op: TxOp,
    ) -> Result {
        let rendezvous = self.is_held(&op) && self.conns[id].rendezvous;
        let most = match &self.conns[id].duct {
            None => TOGETHER,
            Some(_) => RECORD - MAX_MESSAGE_HEADER,
        };
        if op.len <= most && !rendezvous {
            let data = remote_data(&tx);
            let tagged = tx.what == What::Tagged;
            let encode = |counter, header: &mut [u8; MAX_MESSAGE_HEADER]| {
                encode_message(tagged, false, data, tx.tag, op.len, counter, header)
            };
            if self.post_small(core, id, &tx.iov, op, encode) {
                return Ok(());
            }
        }
        self.post_any_message(core, id, tx, op)
    }

    /// The usual case of a small frame: the connection is up and between hosts of one byte order, nobody is asked to
    /// answer, and the frame is written at once or staged. False leaves it to the general way.
    #[inline]
    pub(super) fn post_small<const LEN: usize>(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        payload: &IoVec,
        op: TxOp,
        encode: impl FnOnce(u8, &mut [u8; LEN]) -> usize,
    ) -> bool {
        self.watch();
        let Stream {
            conns,
            scratch,
            look,
            ..
        } = self;
        let conn = &mut conns[id];
        let waits = conn.state != State::Up || !conn.tx.waiting.is_empty();
        if waits || conn.swap || op.flags & SPECIAL != 0 {
            return false;
        }
        let mut header = [0; LEN];
        let counter = conn.tx.counter;
        let header_len = encode(counter, &mut header);
        if let Some(duct) = &mut conn.duct {
            let sent = conn.tx.queue.is_empty()
                && matches!(
                    duct.send_small(&header, header_len, payload, op.len),
                    Ok(true)
                );
            if !sent {
                return false;
            }
            conn.tx.counter = counter.wrapping_add(1);
            self.ring_bell(id);
            core.sent(op.ep(), &op);
            return true;
        }
        let total = header_len + op.len;
        let more = op.flags & FI_MORE != 0;
        match conn.tx.queue.back_mut() {
            None if !more && conn.tx.pace.writes(*look) => {
                let Some(socket) = &conn.socket else {
                    return false;
                };
                let frame = &mut scratch[..total];
                frame[..header_len].copy_from_slice(&header[..header_len]);
                payload.copy_to(&mut frame[header_len..]);
                let moved = socket.write(frame);
                conn.tx.pace.wrote();
                match moved {
                    Ok(Moved::Bytes(n)) if n == total => {}
                    // Nothing was taken: as if it had not been tried.
                    Ok(Moved::Later) => return false,
                    moved => {
                        let n = match moved {
                            Ok(Moved::Bytes(n)) => n,
                            Ok(_) => 0,
                            Err(error) => {
                                conn.write_failed(&error);
                                0
                            }
                        };
                        let rest = frame[n..].to_vec();
                        conn.tx.counter = counter.wrapping_add(1);
                        self.stage_with(id, &[], rest.len(), |out| out.extend_from_slice(&rest));
                        self.blocked(id);
                        core.sent(op.ep(), &op);
                        return true;
                    }
                }
                conn.tx.counter = counter.wrapping_add(1);
                core.sent(op.ep(), &op);
            }
            Some(Out::Staged { bytes, .. })
                if bytes.len() + total <= STAGE_FULL && conn.tx.staged < STAGE_FULL =>
            {
                bytes.extend_from_slice(&header[..header_len]);
                payload.copy_out(bytes);
                conn.tx.staged += total;
                conn.tx.counter = counter.wrapping_add(1);
                conn.tx.pace.gather();
                let is_full = conn.tx.pace.is_full() && !conn.tx.blocked;
                core.sent(op.ep(), &op);
                self.mark_dirty(id);
                if is_full {
                    self.flush_conn(core, id);
                }
            }
            None => {
                conn.tx.counter = counter.wrapping_add(1);
                self.stage(id, &header[..header_len], payload);
                core.sent(op.ep(), &op);
            }
            _ => return false,
        }
        true
    }

    fn post_any_message(&mut self, core: &mut Core<N>, id: usize, tx: Tx<'_>, op: TxOp) -> Result {
        self.post_message_to(core, id, tx, op, 0)
    }

    /// A message for a receive context of the peer's endpoint.
    pub(super) fn post_message_to(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        tx: Tx<'_>,
        op: TxOp,
        context: u8,
    ) -> Result {
        let mut header = Header::new(
            if tx.what == What::Tagged {
                Op::Tagged
            } else {
                Op::Msg
            },
            op.len as u64,
        );
        // FI_COMMIT_COMPLETE is a default that is meant for other operations; a message has no higher level than
        // delivery.
        header.ack = tx.flags & (WANTS_ACK | FI_COMMIT_COMPLETE | FI_MATCH_COMPLETE) != 0;
        header.tag = tx.tag;
        header.data = remote_data(&tx);
        header.context = context;
        self.submit(core, id, header, tx.iov, op)
    }

    /// Sends an operation, or keeps it until its turn comes: frames of one peer leave in the order of the calls.
    #[inline]
    pub(super) fn submit(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        header: Header,
        iov: IoVec,
        op: TxOp,
    ) -> Result {
        if self.must_wait(id, &op) {
            self.check_heard(core, id, &op)?;
            self.wait(core, id, header, Payload::of(&op, iov), op);
            return Ok(());
        }
        match self.way(id, &header, &op)? {
            Way::Frame => self.send(core, id, &header, iov, op),
            way => {
                let payload = Payload::of(&op, iov);
                self.ask(core, id, way, header, payload, op);
                Ok(())
            }
        }
    }

    /// Whether an operation has to wait for the connection, or for those before it.
    #[inline(always)]
    pub(super) fn must_wait(&self, id: usize, op: &TxOp) -> bool {
        let conn = &self.conns[id];
        let held = op.flags & HELD != 0 && conn.holds(op.flags);
        conn.state != State::Up || !conn.tx.waiting.is_empty() || held
    }

    /// What nobody would hear of does not wait for a connection, as long as the application alone brings it there.
    #[cold]
    fn check_heard(&mut self, core: &mut Core<N>, id: usize, op: &TxOp) -> Result {
        match self.conns[id].state == State::Up || core.hears_of(op) {
            true => Ok(()),
            false => Err(self.refuse_unheard(core, id)),
        }
    }

    /// As `submit`, for a request with a payload of ours to which another payload answers.
    pub(super) fn submit_exchange(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        header: Header,
        bytes: &[u8],
        answer: IoVec,
        op: TxOp,
    ) -> Result {
        if self.must_wait(id, &op) {
            self.check_heard(core, id, &op)?;
            let payload = Payload::Exchange(Box::new((bytes.to_vec(), answer)));
            self.wait(core, id, header, payload, op);
            return Ok(());
        }
        self.way(id, &header, &op)?;
        // It has to be copied.
        if self.conns[id].tx.staged > STAGE_BRIM {
            return Err(Error::AGAIN);
        }
        self.exchange(core, id, &header, bytes, answer, op);
        Ok(())
    }

    /// FI_EAGAIN while the peer cannot be told of another message.
    fn way(&mut self, id: usize, header: &Header, op: &TxOp) -> Result<Way> {
        let stays = self.is_held(op);
        let conn = &mut self.conns[id];
        if header.context != 0 && !conn.extended {
            return Err(Error::OPNOTSUPP);
        }
        let matched = op.flags & FI_MATCH_COMPLETE != 0;
        if may_offer(conn, header, op, stays) {
            return match conn.tx.rendezvous.len() < RENDEZVOUS_LIMIT {
                true => Ok(Way::Offer),
                false => Err(Error::AGAIN),
            };
        }
        match header.op {
            _ if header.asks() && conn.tx.asked > ASKED => Err(Error::AGAIN),
            Op::ReadReq => Ok(Way::Read),
            Op::Tagged if conn.rendezvous && (matched || stays) => {
                match conn.tx.rendezvous.len() < RENDEZVOUS_LIMIT {
                    true => Ok(Way::Rendezvous),
                    false => Err(Error::AGAIN),
                }
            }
            // Values are of one byte order; peers that do not know the operation get none.
            _ if header.op.is_atomic() && (!conn.extended || conn.swap) => Err(Error::OPNOTSUPP),
            Op::AtomicFetch | Op::AtomicCompare => Ok(Way::Exchange),
            // Only a rendezvous tells that a receive has matched.
            _ if matched => Err(Error::OPNOTSUPP),
            _ => Ok(Way::Frame),
        }
    }

    /// Whether the message is too large for a peer to keep. What is injected is not held here for long either.
    #[inline]
    fn is_held(&self, op: &TxOp) -> bool {
        op.len > self.limits.saved_size && op.flags & FI_INJECT == 0
    }

    /// Sends the frame that begins an exchange.
    fn ask(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        way: Way,
        header: Header,
        payload: Payload,
        op: TxOp,
    ) {
        match (way, payload) {
            (Way::Rendezvous, payload) => self.announce(core, id, header, payload, op),
            (Way::Offer, Payload::Buffers(iov)) => self.offer(core, id, header, iov, op),
            (Way::Read, Payload::Buffers(iov)) => self.request_read(core, id, &header, iov, op),
            (_, Payload::Exchange(both)) => {
                self.exchange(core, id, &header, &both.0, both.1, op);
            }
            (_, payload) => self.send_payload(core, id, &header, payload, op),
        }
    }

    /// Sends a frame of the application's, or says that it has to wait.
    #[inline]
    fn send(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        header: &Header,
        payload: IoVec,
        op: TxOp,
    ) -> Result {
        let conn = &mut self.conns[id];
        // A ring is small, and nobody but us fills it. What is reported as sent is in the ring, or the peer would wait for an
        // application that has no reason to come here again.
        if let Some(duct) = &mut conn.duct {
            let frame = MAX_HEADER + payload.remaining();
            if op.flags & FI_INJECT != 0 && !(conn.tx.queue.is_empty() && duct.takes(frame)) {
                self.ring_bell(id);
                return Err(Error::AGAIN);
            }
            self.send_always(core, id, header, payload, Some(op));
            return Ok(());
        }
        let more = op.flags & FI_MORE != 0;
        if conn.tx.queue.is_empty() && !more && conn.tx.pace.writes(self.look) {
            self.write_now(core, id, header, payload, Some(op));
            return Ok(());
        }
        // What has to be copied waits for room; the rest is queued, as far as the transmit queue goes.
        if conn.tx.staged > STAGE_BRIM && op.flags & FI_INJECT != 0 {
            return Err(Error::AGAIN);
        }
        self.send_always(core, id, header, payload, Some(op));
        Ok(())
    }

    /// Sends a frame that asks the peer for something.
    pub(super) fn send_bare(&mut self, core: &mut Core<N>, id: usize, header: &Header) {
        let conn = &mut self.conns[id];
        if conn.tx.queue.is_empty() && conn.tx.pace.writes(self.look) {
            self.write_now(core, id, header, IoVec::empty(), None);
        } else {
            self.send_always(core, id, header, IoVec::empty(), None);
        }
    }

    /// The least that one of the endpoint's connections takes now: large messages that the peer is told of, or injected
    /// ones, which are copied to where there is room.
    pub(super) fn room_of(&mut self, ep: usize, inject: usize, caps: u64) -> usize {
        let frame = MAX_HEADER + inject;
        // What a read, or a fetching atomic operation, costs the peer.
        let asks_most = match caps & FI_READ != 0 {
            true if caps & FI_ATOMIC != 0 => Some(size_of::<Frame>() + MAX_ATOMIC),
            true => Some(size_of::<Frame>()),
            false => None,
        };
        let most = match self.eps.get(ep).is_some_and(|ep| ep.rdm) {
            true => RENDEZVOUS_LIMIT,
            false => usize::MAX,
        };
        let conns = self.conns.iter_mut().map(|(_, conn)| conn);
        let up = conns.filter(|conn| conn.ep == ep && conn.state == State::Up);
        up.fold(most, |least, conn| {
            let told = most.saturating_sub(conn.tx.rendezvous.len());
            let asked = match (asks_most, ASKED.checked_sub(conn.tx.asked)) {
                (None, _) => most,
                (_, None) => 0,
                (Some(cost), Some(left)) => 1 + left / cost,
            };
            let copied = match &mut conn.duct {
                Some(_) if !conn.tx.queue.is_empty() => 0,
                Some(duct) => duct.room_for(frame),
                None if conn.tx.staged > STAGE_BRIM => 0,
                None => 1 + (STAGE_BRIM - conn.tx.staged) / frame,
            };
            least.min(told).min(copied).min(asked)
        })
    }

    /// Keeps an operation until the connection is up, or those before it are out of the way.
    #[cold]
    fn wait(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        header: Header,
        payload: Payload,
        mut op: TxOp,
    ) {
        self.begin_waiting(core, &mut op);
        let conn = &mut self.conns[id];
        conn.tx.waiting.push_back(Waiting {
            header,
            payload,
            op,
        });
        if conn.state == State::Up && !self.held.contains(&id) {
            self.held.push(id);
        }
    }

    /// The connection is up, or an operation has completed: what waited for it goes out, in order.
    pub fn send_waiting(&mut self, core: &mut Core<N>, id: usize) {
        while let Some(waiting) = self.conns[id].tx.waiting.front() {
            if waiting.op.flags & HELD != 0 && self.conns[id].holds(waiting.op.flags) {
                break;
            }
            let (header, op) = (waiting.header.clone(), waiting.op);
            let way = match self.way(id, &header, &op) {
                Err(Error::AGAIN) => break,
                way => way,
            };
            let Some(waiting) = self.conns[id].tx.waiting.pop_front() else {
                break;
            };
            let ep = waiting.op.ep();
            core.eps[ep].tx_pending -= 1;
            match way {
                Ok(way) => self.ask(core, id, way, waiting.header, waiting.payload, waiting.op),
                Err(error) => core.send_failed(ep, &waiting.op, error),
            }
        }
        self.flush_conn(core, id);
        if !self.conns[id].tx.waiting.is_empty() && !self.held.contains(&id) {
            self.held.push(id);
        }
    }

    /// After a look: operations may have completed that others wait for.
    #[cold]
    pub(super) fn retry_held(&mut self, core: &mut Core<N>) {
        for id in std::mem::take(&mut self.held) {
            let up = |conn: &Conn<N>| conn.state == State::Up;
            if self.conns.get(id).is_some_and(up) {
                self.send_waiting(core, id);
            }
        }
    }

    /// Stages or queues a frame of an operation that had to wait.
    pub(super) fn send_payload(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        header: &Header,
        payload: Payload,
        op: TxOp,
    ) {
        match payload {
            Payload::Buffers(iov) => self.send_always(core, id, header, iov, Some(op)),
            Payload::Copy(copy) => {
                let conn = &mut self.conns[id];
                let mut bytes = [0; MAX_HEADER];
                let counter = conn.tx.next_counter();
                let len = header.encode(counter, conn.swap, &mut bytes);
                self.stage_with(id, &bytes[..len], copy.len(), |out| out.extend(&copy));
                self.handed_over(core, id, header, op);
            }
            Payload::Exchange(both) => {
                self.exchange(core, id, header, &both.0, both.1, op);
            }
        }
    }

    /// Stages or queues a frame.
    pub(super) fn send_always(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        header: &Header,
        payload: IoVec,
        op: Option<TxOp>,
    ) {
        self.watch();
        let conn = &mut self.conns[id];
        if conn.duct.is_some() && conn.tx.queue.is_empty() {
            return self.write_now(core, id, header, payload, op);
        }
        let mut bytes = [0; MAX_HEADER];
        let counter = conn.tx.next_counter();
        let header_len = header.encode(counter, conn.swap, &mut bytes);
        let len = payload.remaining();
        let inject = op.is_some_and(|op| op.flags & FI_INJECT != 0);
        // What belongs to no operation is an answer or a request, and small.
        let room = op.is_none() || (conn.duct.is_none() && conn.tx.staged <= STAGE_BRIM);
        if inject || (room && header_len + len <= STAGE_LIMIT) {
            self.stage(id, &bytes[..header_len], &payload);
            match op {
                Some(op) => self.handed_over(core, id, header, op),
                None => self.conns[id].tx.owe(header_len + len),
            }
            let conn = &self.conns[id];
            let is_full = conn.tx.staged >= STAGE_FULL || conn.tx.pace.is_full();
            if is_full && !conn.tx.blocked {
                self.flush_conn(core, id);
            }
            return;
        }
        let after = self.after(core, id, header, op);
        self.conns[id]
            .tx
            .queue
            .push_back(Out::Frame(Box::new(Frame {
                header: bytes,
                header_len: header_len as u8,
                header_done: 0,
                payload,
                after,
            })));
        if !self.conns[id].tx.blocked {
            self.flush_conn(core, id);
        }
    }

    /// What remains to be done for an operation when its frame is with the kernel. Operations that wait for an answer
    /// are put on the list of those now: frames leave in the order in which they are queued.
    pub(super) fn after(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        header: &Header,
        op: Option<TxOp>,
    ) -> After {
        let Some(mut op) = op else {
            return After::Nothing;
        };
        self.begin_waiting(core, &mut op);
        let conn = &mut self.conns[id];
        match header.ack || header.commit {
            true => {
                conn.tx.await_ack.push_back(op);
                After::Acknowledged(op)
            }
            false => After::Complete(op),
        }
    }

    /// The frame of an operation is copied or written: it is complete, unless the peer has to answer.
    #[inline]
    pub(super) fn handed_over(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        header: &Header,
        mut op: TxOp,
    ) {
        if header.ack || header.commit {
            self.begin_waiting(core, &mut op);
            self.conns[id].tx.await_ack.push_back(op);
        } else {
            core.sent(op.ep(), &op);
        }
    }

    /// Copies a frame behind those that are staged.
    pub(super) fn stage(&mut self, id: usize, header: &[u8], payload: &IoVec) {
        self.stage_with(id, header, payload.remaining(), |out| payload.copy_out(out));
    }

    /// As `stage`, for a payload of `len` bytes that `copy` appends.
    #[inline]
    pub(super) fn stage_with(
        &mut self,
        id: usize,
        header: &[u8],
        len: usize,
        copy: impl FnOnce(&mut Vec<u8>),
    ) {
        let conn = &mut self.conns[id];
        let len = header.len() + len;
        let fits = match conn.tx.queue.back() {
            Some(Out::Staged { bytes, .. }) => bytes.len() + len <= bytes.capacity(),
            _ => false,
        };
        if !fits {
            let mut bytes = self.buffers.pop().unwrap_or_default();
            bytes.clear();
            bytes.reserve(len.max(STAGE_FULL + STAGE_LIMIT));
            conn.tx.queue.push_back(Out::Staged {
                bytes,
                done: 0,
                owed: 0,
            });
        }
        if let Some(Out::Staged { bytes, .. }) = conn.tx.queue.back_mut() {
            bytes.extend_from_slice(header);
            copy(bytes);
        }
        conn.tx.staged += len;
        conn.tx.pace.gather();
        self.mark_dirty(id);
    }

    /// The connection has something to be flushed. Over a socket that is not left to the application alone; over shared memory
    /// only what there was no room for is queued, and what a sender does beside the peer.
    #[inline(always)]
    pub(super) fn mark_dirty(&mut self, id: usize) {
        let conn = &mut self.conns[id];
        if conn.tx.dirty {
            return;
        }
        conn.tx.dirty = true;
        let over_socket = conn.duct.is_none();
        self.dirty.push(id);
        if over_socket && !self.held_back.has_begun() {
            self.begin_to_hold();
        }
    }

    #[cold]
    fn begin_to_hold(&mut self) {
        if !self.held_back.begin() {
            self.is_unserved = true;
        }
    }

    /// Writes a frame to an idle connection; what the kernel does not take waits.
    #[inline]
    fn write_now(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        header: &Header,
        payload: IoVec,
        op: Option<TxOp>,
    ) {
        let conn = &mut self.conns[id];
        let mut bytes = [0; MAX_HEADER];
        let counter = conn.tx.next_counter();
        let header_len = header.encode(counter, conn.swap, &mut bytes);
        let len = payload.remaining();
        let total = header_len + len;
        if conn.duct.is_some() {
            return self.write_to_duct(core, id, header, &bytes, header_len, payload, op);
        }
        let Some(socket) = &conn.socket else {
            return;
        };
        let moved = if total <= TOGETHER.min(self.scratch.len()) {
            let frame = &mut self.scratch;
            frame[..header_len].copy_from_slice(&bytes[..header_len]);
            payload.copy_to(&mut frame[header_len..total]);
            socket.write(&frame[..total])
        } else {
            let mut list = IoList::new();
            list.push_bytes(&bytes[..header_len]);
            payload.append_to(&mut list, usize::MAX);
            socket.write_list(&list)
        };
        conn.tx.pace.wrote();
        let written = match moved {
            Ok(Moved::Bytes(n)) if n == total => {
                if let Some(op) = op {
                    self.handed_over(core, id, header, op);
                }
                return;
            }
            Ok(Moved::Bytes(n)) => n,
            Ok(Moved::Later | Moved::End) => 0,
            // What is queued fails with the connection.
            Err(error) => {
                conn.write_failed(&error);
                0
            }
        };
        self.queue_rest(core, id, header, &bytes, header_len, payload, op, written);
    }

    /// As `write_now`, where frames go over shared memory.
    #[allow(clippy::too_many_arguments)]
    fn write_to_duct(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        header: &Header,
        bytes: &[u8; MAX_HEADER],
        header_len: usize,
        payload: IoVec,
        op: Option<TxOp>,
    ) {
        let Some(duct) = &mut self.conns[id].duct else {
            return;
        };
        let total = header_len + payload.remaining();
        let whole = total <= RECORD
            && matches!(
                duct.send(&bytes[..header_len], &payload, total - header_len),
                Ok(true)
            );
        let written = if whole {
            total
        } else {
            let mut list = IoList::new();
            list.push_bytes(&bytes[..header_len]);
            payload.append_to(&mut list, usize::MAX);
            match duct.write_list(&list) {
                Ok(n) => n,
                // Its reader finds it; what is queued fails with the connection.
                Err(_) => {
                    duct.broken = true;
                    0
                }
            }
        };
        self.ring_bell(id);
        if written < total {
            return self.queue_rest(core, id, header, bytes, header_len, payload, op, written);
        }
        if let Some(op) = op {
            self.handed_over(core, id, header, op);
        }
    }

    /// Queues what the kernel did not take of a frame.
    #[cold]
    #[allow(clippy::too_many_arguments)]
    fn queue_rest(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        header: &Header,
        bytes: &[u8; MAX_HEADER],
        header_len: usize,
        mut payload: IoVec,
        op: Option<TxOp>,
        written: usize,
    ) {
        let header_done = written.min(header_len);
        payload.advance(written - header_done);
        let inject = op.is_some_and(|op| op.flags & FI_INJECT != 0);
        let copies = op.is_none() || self.conns[id].duct.is_none();
        if inject || (copies && payload.remaining() <= STAGE_LIMIT) {
            self.stage(id, &bytes[header_done..header_len], &payload);
            match op {
                Some(op) => self.handed_over(core, id, header, op),
                None => {
                    let left = header_len - header_done + payload.remaining();
                    self.conns[id].tx.owe(left);
                }
            }
        } else {
            let after = self.after(core, id, header, op);
            self.conns[id]
                .tx
                .queue
                .push_back(Out::Frame(Box::new(Frame {
                    header: *bytes,
                    header_len: header_len as u8,
                    header_done: header_done as u8,
                    payload,
                    after,
                })));
        }
        self.blocked(id);
    }

    /// The peer has all of the operation that waits for its answer the longest.
    pub(super) fn acknowledged(&mut self, core: &mut Core<N>, id: usize) -> Result {
        let conn = &mut self.conns[id];
        let op = conn.tx.await_ack.pop_front().ok_or(Error::IO)?;
        core.eps[op.ep()].tx_pending -= 1;
        core.sent(op.ep(), &op);
        Ok(())
    }

    pub(super) fn send_ack(&mut self, core: &mut Core<N>, id: usize) {
        self.send_always(core, id, &Header::new(Op::Ack, 0), IoVec::empty(), None);
    }
}

/// What the operation has for the target's queue.
pub(super) fn remote_data(tx: &Tx<'_>) -> Option<u64> {
    (tx.flags & FI_REMOTE_CQ_DATA != 0).then_some(tx.data)
}

/// What fences and FI_MATCH_COMPLETE demand of an operation.
pub(super) fn check_flags(what: What, flags: u64, ep: &EpState) -> Result {
    let has = |flag: u64| flags & flag != 0;
    // What waits for a counter does not come here with its flag, unless the endpoint has not the capability.
    if has(FI_TRIGGER) || has(FI_FENCE) && ep.caps & FI_FENCE == 0 {
        return Err(Error::BADFLAGS);
    }
    // Whether messages that went before have matched is known only of those that asked for it.
    let knows_matches = what == What::Tagged && ep.ep_type != FI_EP_MSG.0 && !has(FI_FENCE);
    match has(FI_MATCH_COMPLETE) && !knows_matches {
        true => Err(Error::OPNOTSUPP),
        false => Ok(()),
    }
}

/// Whether the peer had better fetch the message, and is likely to be able to; its buffers are the application's until the
/// completion then. One that fetches before a receive has matched does not say when one has. Some messages are to stay here.
#[inline]
fn may_offer<N: Net>(conn: &mut Conn<N>, header: &Header, op: &TxOp, stays: bool) -> bool {
    let matched = op.flags & FI_MATCH_COMPLETE != 0;
    let duct = conn.duct.as_mut().filter(|duct| duct.fetches(op.len));
    matches!(header.op, Op::Msg | Op::Tagged)
        && op.flags & FI_INJECT == 0
        && (N::DUCTS || !matched)
        && duct.is_some_and(|duct| matched || stays || !duct.carries(op.len))
}
