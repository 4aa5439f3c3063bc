// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The messages of one endpoint's collectives, in both directions.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use slab::Slab;

use super::numbering::{Move, Numbering};
use super::packet::{HEADER, Packet};
use super::{Carries, Target};
use crate::coll::groups::address_at;
use crate::coll::{Action, Frame, Outcome, Place, Token};
use crate::cq_ring::{Head, Ring};
use crate::domain_state::{CqState, DomainState, TxOp};
use crate::ep_state::EpState;
use crate::signal::Signal;
use crate::srx::{Envelope, Srx};
use crate::strangers::fi_addr_of;
use crate::transport::{Address, DomainStateOf};
use crate::wait::Wait;
use abi::{FI_ADDR_NOTAVAIL, FI_WAIT_NONE};
use base::grow::append;
use base::log::{Source, Subsys, log_warn};
use base::{Block, Error, OpFlags, Result};
use object::ops::transfer::{Context, Rx, Tx};

/// Messages on the way at most.
const WINDOW: usize = 256;
/// The contexts of receives have this bit.
const RECEIVE: usize = 1 << 40;

/// The time between two probes of a peer, and the polls after which the time is looked at.
const PROBE: Duration = Duration::from_secs(1);
const PROBE_POLLS: u32 = 256;

pub struct Post<A> {
    source: &'static Source,
    ep: usize,
    /// The context that the application does not see, its queue and its receives: in the tables of the domain.
    via: usize,
    cq: usize,
    srx: usize,
    /// Frames that have not left, by their receivers.
    out: HashMap<A, VecDeque<Outgoing>>,
    /// Frames so far.
    frames: u64,
    /// Frames whose messages are not complete, with their receivers and the bytes left.
    pending: BTreeMap<u64, (A, usize)>,
    /// Messages on the way, by the numbers of their contexts.
    flights: Slab<Flight<A>>,
    /// Collectives that have succeeded, with the number of the last frame before.
    ending: VecDeque<(u64, Token, Outcome)>,
    /// Peers to which something was sent.
    greeted: HashSet<A>,
    /// Frames that have arrived in part.
    arriving: HashMap<A, Arriving>,
    /// Messages for whose frames there is no room, by the indexes of their senders.
    waiting: HashMap<u64, VecDeque<Vec<u8>>>,
    /// Receives of messages whose bytes are not here yet: their senders.
    receives: Slab<(u64, Block)>,
    polls: u32,
    /// The time of the last probes.
    probed: Instant,
    /// Groups whose numbers members choose.
    numbering: Numbering<A>,
    /// Peers that have sent something else, until their connections end.
    refused: HashSet<A>,
}

struct Outgoing {
    number: u64,
    bytes: Vec<u8>,
    /// The bytes that have left.
    at: usize,
}

struct Flight<A> {
    number: u64,
    to: A,
    len: usize,
    block: Block,
}

struct Arriving {
    frame: Frame,
    len: usize,
    bytes: Vec<u8>,
    /// Set if the frame is kept; not if it is dropped.
    kept: Option<bool>,
}

impl<A: Address> Post<A> {
    pub fn open(
        source: &'static Source,
        target: &Target,
        domain: &mut DomainState<A>,
        ep: usize,
    ) -> Result<Post<A>> {
        let cq = domain.cqs.insert(CqState {
            ring: Ring::new(3, WINDOW, false),
            wait: Arc::new(Wait::new(FI_WAIT_NONE, None, &[])?),
            signal: Signal::default(),
            last_error: None,
            owner: None,
        });
        let mut srx = Srx::new();
        srx.eps = 1;
        let srx = domain.srxs.insert(srx);
        let via = EpState::hidden(&domain.eps[ep], ep, target.context.into(), cq, srx);
        let via = domain.eps.insert(via);
        domain.eps[ep].contexts.push(via);
        Ok(Post {
            source,
            ep,
            via,
            cq,
            srx,
            out: HashMap::new(),
            frames: 0,
            pending: BTreeMap::new(),
            flights: Slab::new(),
            ending: VecDeque::new(),
            greeted: HashSet::new(),
            arriving: HashMap::new(),
            waiting: HashMap::new(),
            receives: Slab::new(),
            polls: 0,
            probed: Instant::now(),
            numbering: Numbering::default(),
            refused: HashSet::new(),
        })
    }

    pub fn close(self, domain: &mut DomainState<A>) {
        drop(domain.srxs[self.srx].drain_posted());
        if let Some(state) = domain.eps.get_mut(self.ep) {
            state.contexts.retain(|&context| context != self.via);
        }
        domain.eps.remove(self.via);
        domain.srxs.remove(self.srx);
        domain.cqs.remove(self.cq);
    }

    /// Leaves the memory of messages on the way to their operations for ever.
    pub fn leave_memory(&mut self) {
        self.flights.drain().for_each(|flight| flight.block.leave());
    }

    /// Whether messages wait until the transport takes more.
    pub fn has_unsent(&self) -> bool {
        !self.out.is_empty()
    }

    pub fn ep(&self) -> usize {
        self.ep
    }

    #[inline]
    pub fn poll<T: Carries<Addr = A>>(&mut self, transport: &mut T, domain: &mut DomainStateOf<T>) {
        loop {
            let mut has_moved = self.take_completions::<T>(domain);
            has_moved |= self.take_messages(transport, domain);
            has_moved |= self.take_losses(domain);
            has_moved |= self.act(domain);
            has_moved |= self.send(transport, domain);
            if !has_moved {
                break;
            }
        }
        if T::NAMELESS {
            self.probe(domain);
        }
    }

    /// Greets the peers for which collectives wait from time to time, because nothing else tells of their ends.
    fn probe(&mut self, domain: &mut DomainState<A>) {
        self.polls = self.polls.wrapping_add(1);
        if !self.polls.is_multiple_of(PROBE_POLLS) || self.probed.elapsed() < PROBE {
            return;
        }
        self.probed = Instant::now();
        let lane = domain.groups.lane(self.ep);
        let mut awaited = lane.map(|lane| lane.awaited()).unwrap_or_default();
        awaited.extend(self.numbering.parents());
        for peer in awaited {
            let is_busy = self.flights.iter().any(|(_, flight)| flight.to == peer);
            if !is_busy && !self.out.contains_key(&peer) && !self.refused.contains(&peer) {
                self.greet(peer);
            }
        }
    }

    /// Handles messages that were sent, or received by a receive of their own.
    fn take_completions<T: Carries<Addr = A>>(&mut self, domain: &mut DomainStateOf<T>) -> bool {
        let mut any = false;
        loop {
            let ring = &mut domain.cqs[self.cq].ring;
            let (context, len, error) = match ring.ready() {
                Head::Empty => break,
                Head::Entries(_) => {
                    let (mut context, mut len) = (0, 0);
                    ring.read_one(|words| (context, len) = (words[0] as usize, words[2] as usize));
                    (context, len, None)
                }
                Head::Error => match ring.pop_err() {
                    Some(error) => (error.context, error.len, Some(Error::new(error.err))),
                    None => break,
                },
            };
            any = true;
            match context & RECEIVE {
                0 => self.sent(domain, context, error),
                _ => self.received::<T>(domain, context & !RECEIVE, len, error),
            }
        }
        while let Some((last, ..)) = self.ending.front()
            && self.has_left(*last)
            && let Some((_, token, outcome)) = self.ending.pop_front()
        {
            domain.collective_over(self.ep, token, Ok(outcome));
        }
        any
    }

    fn sent(&mut self, domain: &mut DomainState<A>, context: usize, error: Option<Error>) {
        let Some(flight) = self.flights.try_remove(context) else {
            return;
        };
        if let Some((_, left)) = self.pending.get_mut(&flight.number) {
            *left -= flight.len;
            if *left == 0 {
                self.pending.remove(&flight.number);
            }
        }
        if let Some(error) = error {
            domain.member_lost(self.ep, &flight.to, error);
        }
    }

    fn received<T: Carries<Addr = A>>(
        &mut self,
        domain: &mut DomainStateOf<T>,
        context: usize,
        len: usize,
        error: Option<Error>,
    ) {
        let Some((source, block)) = self.receives.try_remove(context) else {
            return;
        };
        match error {
            None => {
                let behind = self.waiting.entry(source).or_default();
                behind.push_front(block.bytes(len));
            }
            Some(error) => {
                self.waiting.remove(&source);
                let av = domain.eps[self.ep].av;
                if let Some(from) = av.and_then(|av| address_at::<T>(domain, av, source)) {
                    domain.member_lost(self.ep, &from, error);
                }
            }
        }
    }

    /// Whether the messages of all frames up to this one are complete.
    fn has_left(&self, number: u64) -> bool {
        let first = self.pending.first_key_value();
        first.is_none_or(|(&first, _)| first > number)
    }

    /// Handles messages of peers.
    fn take_messages<T: Carries<Addr = A>>(
        &mut self,
        transport: &mut T,
        domain: &mut DomainStateOf<T>,
    ) -> bool {
        if domain.srxs[self.srx].unexpected_len() == 0 && self.waiting.is_empty() {
            return false;
        }
        let Some(av) = domain.eps[self.ep].av else {
            return false;
        };
        let sources: Vec<u64> = self.waiting.keys().copied().collect();
        let mut any = false;
        for source in sources {
            let Some(mut messages) = self.waiting.remove(&source) else {
                continue;
            };
            while let Some(bytes) = messages.pop_front() {
                match self.take_one::<T>(domain, av, source, &bytes) {
                    true => any = true,
                    false => {
                        messages.push_front(bytes);
                        break;
                    }
                }
            }
            if !messages.is_empty() {
                self.waiting.insert(source, messages);
            }
        }
        let mut away: Vec<Envelope> = Vec::new();
        let waiting = &self.waiting;
        let is_being_received = |source| self.receives.iter().any(|(_, (from, _))| *from == source);
        let messages = domain.srxs[self.srx].take_whole(|envelope, is_whole| {
            let source = fi_addr_of(envelope.source);
            let is_next = source != FI_ADDR_NOTAVAIL
                && !waiting.contains_key(&source)
                && !is_being_received(source)
                && away.iter().all(|other| other.source != envelope.source);
            if is_next && !is_whole {
                away.push(*envelope);
            }
            is_next
        });
        for (envelope, bytes) in messages {
            any = true;
            let source = fi_addr_of(envelope.source);
            if self.waiting.contains_key(&source) || !self.take_one::<T>(domain, av, source, &bytes)
            {
                self.waiting.entry(source).or_default().push_back(bytes);
            }
        }
        for envelope in away {
            any |= self.receive(transport, domain, av, &envelope);
        }
        any
    }

    /// Receives a message whose bytes are not here yet.
    #[cold]
    fn receive<T: Carries<Addr = A>>(
        &mut self,
        transport: &mut T,
        domain: &mut DomainStateOf<T>,
        av: usize,
        envelope: &Envelope,
    ) -> bool {
        let source = fi_addr_of(envelope.source);
        let len = match usize::try_from(envelope.len) {
            Ok(len) if len <= Block::SIZE => len,
            _ => {
                if let Some(from) = address_at::<T>(domain, av, source) {
                    self.refuse(domain, from, "a message longer than those of collectives");
                }
                0
            }
        };
        let (block, iov) = Block::with_room(len);
        let context = self.receives.insert((source, block));
        let mut rx = Rx {
            what: envelope.what,
            iov,
            flags: OpFlags::COMPLETION,
            src: source,
            context: Context::own(RECEIVE | context),
            tag: envelope.tag,
            ignore: 0,
        };
        let claim = |domain: &mut DomainStateOf<T>, claimed| transport.claim(domain, claimed);
        let posted = domain.post_receive(self.via, &mut rx, T::source, claim);
        if posted.is_err() {
            self.receives.remove(context);
        }
        posted.is_ok()
    }

    /// Handles ended connections. What came before has been handled.
    fn take_losses(&mut self, domain: &mut DomainState<A>) -> bool {
        let losses = match domain.groups.losses_mut(self.ep) {
            Some(losses) if !losses.is_empty() => core::mem::take(losses),
            _ => return false,
        };
        for (peer, error) in losses {
            // A new connection may be that of another process.
            self.refused.remove(&peer);
            domain.member_lost(self.ep, &peer, error);
        }
        true
    }

    /// Handles a message. Returns false if there is no room for its frame yet.
    fn take_one<T: Carries<Addr = A>>(
        &mut self,
        domain: &mut DomainStateOf<T>,
        av: usize,
        source: u64,
        bytes: &[u8],
    ) -> bool {
        // An address that was removed is no member of groups that go on.
        let Some(from) = address_at::<T>(domain, av, source) else {
            return true;
        };
        if self.refused.contains(&from) {
            return true;
        }
        match self.take_from(domain, &from, bytes) {
            Ok(is_taken) => is_taken,
            Err(why) => {
                self.refuse(domain, from, why);
                true
            }
        }
    }

    #[cold]
    fn refuse(&mut self, domain: &mut DomainState<A>, from: A, why: &str) {
        log_warn!(
            self.source,
            Subsys::EpData,
            "{from}: no collectives with this peer: {why}"
        );
        self.drop_arriving(domain, &from);
        domain.member_lost(self.ep, &from, Error::OPNOTSUPP);
        self.refused.insert(from);
    }

    fn take_from(
        &mut self,
        domain: &mut DomainState<A>,
        from: &A,
        bytes: &[u8],
    ) -> core::result::Result<bool, &'static str> {
        let Some(lane) = domain.groups.lane_mut(self.ep) else {
            return Ok(true);
        };
        let payload = match self.arriving.contains_key(from) {
            true => bytes,
            false => {
                let (frame, len) = match Packet::read(bytes)? {
                    Packet::Hello => return Ok(true),
                    Packet::Number(number) => {
                        let moves = self.numbering.arrived(from, &number)?;
                        self.number(domain, moves);
                        return Ok(true);
                    }
                    Packet::Frame { frame, len } => (frame, len),
                };
                let kept = match lane.place(from, &frame, len) {
                    Place::Take { kept } => Some(kept),
                    Place::Drop => None,
                    Place::Wait => return Ok(false),
                    Place::Refuse(why) => return Err(why),
                };
                let arriving = Arriving {
                    frame,
                    len: usize::try_from(len).map_err(|_| "a frame of too many bytes")?,
                    bytes: Vec::new(),
                    kept,
                };
                self.arriving.insert(from.clone(), arriving);
                &bytes[HEADER..]
            }
        };
        let Some(mut arriving) = self.arriving.remove(from) else {
            return Ok(true);
        };
        if payload.len() > arriving.len {
            self.arriving.insert(from.clone(), arriving);
            return Err("more bytes than a frame has");
        }
        if arriving.kept.is_some() {
            let whole = arriving.bytes.len() + arriving.len;
            if append(&mut arriving.bytes, payload, whole).is_err() {
                self.arriving.insert(from.clone(), arriving);
                return Err("no memory for its frames");
            }
        }
        arriving.len -= payload.len();
        if arriving.len > 0 {
            self.arriving.insert(from.clone(), arriving);
        } else if let Some(kept) = arriving.kept {
            lane.arrived(from, &arriving.frame, arriving.bytes, kept);
        }
        Ok(true)
    }

    /// The rest of a peer's frame will not arrive.
    fn drop_arriving(&mut self, domain: &mut DomainState<A>, from: &A) {
        if let Some(arriving) = self.arriving.remove(from)
            && arriving.kept == Some(true)
            && let Some(lane) = domain.groups.lane_mut(self.ep)
        {
            lane.dropped(arriving.bytes.len() + arriving.len);
        }
    }

    /// Carries out the actions of the collectives.
    fn act(&mut self, domain: &mut DomainState<A>) -> bool {
        let mut any = false;
        while let Some(action) = domain.next_action(self.ep) {
            any = true;
            match action {
                Action::Send {
                    to,
                    frame,
                    mut bytes,
                } => {
                    let len = (bytes.len() - HEADER) as u64;
                    Packet::Frame { frame, len }.write(&mut bytes);
                    self.push(to, bytes);
                }
                // A connection tells when it ends.
                Action::Watch(peer) if !self.greeted.contains(&peer) => self.greet(peer),
                Action::Watch(_) => {}
                Action::Lost(peer) => {
                    self.forget(domain, &peer);
                    let moves = self.numbering.lost(&peer);
                    self.number(domain, moves);
                }
                Action::Ended(token, Ok(outcome)) if !self.has_left(self.frames) => {
                    self.ending.push_back((self.frames, token, outcome));
                }
                Action::Ended(token, result) => domain.collective_over(self.ep, token, result),
            }
        }
        any
    }

    /// Joins a group whose number a member chooses: the first, or the parent in a tree of the members.
    pub fn join(&mut self, domain: &mut DomainState<A>, number: u64, alone: bool, token: Token) {
        let lane = domain.groups.lane(self.ep);
        let Some((members, rank)) = lane.and_then(|lane| lane.members(number)) else {
            return domain.collective_over(self.ep, token, Err(Error::INVAL));
        };
        let (moves, parent) = self.numbering.join(members, rank, number, alone, token);
        if let Some(parent) = parent
            && !self.greeted.contains(&parent)
        {
            self.greet(parent);
        }
        self.number(domain, moves);
    }

    /// Continues the joins of groups whose numbers are known now.
    fn number(&mut self, domain: &mut DomainState<A>, moves: Vec<Move<A>>) {
        for one in moves {
            match one {
                Move::Tell(to, number) => {
                    let mut bytes = vec![0; HEADER];
                    Packet::Number(number).write(&mut bytes);
                    self.push(to, bytes);
                }
                Move::Join {
                    own,
                    number,
                    alone,
                    token,
                } => {
                    let mut begin = |token| {
                        let number = number?;
                        domain.groups.rename(self.ep, own, number)?;
                        let lane = domain.groups.lane_mut(self.ep).ok_or(Error::INVAL)?;
                        lane.join(number, alone, token)
                    };
                    let (fid, context) = match token {
                        Token::Join { fid, context } => (fid, context),
                        Token::Call { .. } => continue,
                    };
                    if let Err(error) = begin(Token::Join { fid, context }) {
                        domain.joined(self.ep, fid, context, Err(error));
                    }
                }
            }
        }
    }

    fn greet(&mut self, peer: A) {
        let mut bytes = vec![0; HEADER];
        Packet::Hello.write(&mut bytes);
        self.push(peer, bytes);
    }

    fn push(&mut self, to: A, bytes: Vec<u8>) {
        self.frames += 1;
        let number = self.frames;
        self.pending.insert(number, (to.clone(), bytes.len()));
        self.greeted.insert(to.clone());
        let queue = self.out.entry(to).or_default();
        queue.push_back(Outgoing {
            number,
            bytes,
            at: 0,
        });
    }

    /// The connection to a peer has ended.
    fn forget(&mut self, domain: &mut DomainState<A>, peer: &A) {
        self.out.remove(peer);
        self.pending.retain(|_, (to, _)| to != peer);
        self.greeted.remove(peer);
        self.drop_arriving(domain, peer);
    }

    /// Posts the messages for which there is room. Returns whether a peer was lost.
    fn send<T: Carries<Addr = A>>(
        &mut self,
        transport: &mut T,
        domain: &mut DomainStateOf<T>,
    ) -> bool {
        if self.out.is_empty() {
            return false;
        }
        let mut lost = Vec::new();
        let most = transport.packet().min(Block::SIZE);
        let Post {
            ep, via, flights, ..
        } = self;
        let port = *ep;
        self.out.retain(|to, queue| {
            while let Some(frame) = queue.front_mut() {
                if flights.len() >= WINDOW {
                    break;
                }
                let part = &frame.bytes[frame.at..];
                let part = &part[..part.len().min(most)];
                let (number, len) = (frame.number, part.len());
                let (block, iov) = Block::holding(part);
                let context = flights.insert(Flight {
                    number,
                    to: to.clone(),
                    len,
                    block,
                });
                let Target { what, tag, .. } = T::TARGET;
                let mut tx = Tx {
                    what,
                    iov,
                    flags: OpFlags::COMPLETION,
                    dest: 0,
                    context: Context::own(context),
                    data: 0,
                    tag,
                    target: &[],
                };
                match post_one(transport, domain, (port, *via), to, &mut tx) {
                    Ok(()) => frame.at += len,
                    Err(error) => {
                        flights.remove(context);
                        if error != Error::AGAIN {
                            lost.push((to.clone(), error));
                            return false;
                        }
                        break;
                    }
                }
                if frame.at == frame.bytes.len() {
                    queue.pop_front();
                }
            }
            !queue.is_empty()
        });
        for (peer, error) in &lost {
            domain.member_lost(port, peer, *error);
        }
        !lost.is_empty()
    }
}

/// Posts a message of the context `via` of an endpoint.
fn post_one<T: Carries>(
    transport: &mut T,
    domain: &mut DomainStateOf<T>,
    (port, via): (usize, usize),
    to: &T::Addr,
    tx: &mut Tx<'_>,
) -> Result {
    let av = domain.eps[port].av.ok_or(Error::NOAV)?;
    let index = T::index_of(to).or_else(|| domain.avs[av].find(to));
    tx.dest = index.ok_or(Error::HOSTUNREACH)?;
    let session = transport.session_for(domain, port, tx.dest)?;
    let op = TxOp {
        since: transport.stamp(),
        ..TxOp::of(via, tx, tx.iov.remaining())
    };
    transport.start(domain, port, session, tx, op, T::TARGET.context)
}
