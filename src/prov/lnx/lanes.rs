// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Offers of large messages, and reads of those of peers: the calls to the rails for `stripes`.

use std::ffi::CString;

use super::domain::Linked;
use super::held::{Cx, Flight, Route, State};
use super::note::{self, Kind, LANES, Note};
use super::stripes::{Peer, Slice, Todo};
use abi::{FI_COMPLETION, FI_REMOTE_READ};
use base::{Error, OpFlags, Result};
use client::layer::{Call, Failed, Lent, Loan};
use engine::domain_state::{Sender, TxOp};
use engine::strangers::fi_addr_of;
use object::ops::transfer::{Tx, What};

impl Linked {
    /// The rails over which its receiver reads a message, among them the one of its route; none if the message goes
    /// whole.
    pub(super) fn stripes_of(&self, route: Route, tx: &Tx<'_>) -> Option<Vec<usize>> {
        let is_message = matches!(tx.what, What::Msg | What::Tagged);
        if self.stripe_size == 0
            || !is_message
            || tx.flags.contains(OpFlags::INJECT)
            || tx.iov.remaining() < self.stripe_size
            || tx.iov.pieces() != 1
            || !route.is_heard
        {
            return None;
        }
        let known = self.held.book.at(route.rail, route.place);
        let known = known.filter(|known| known.takes_notes())?;
        let leads = |&rail: &usize| self.rails[rail].stripes && !known.places[rail].is_empty();
        let rails: Vec<usize> = (0..self.rails.len()).filter(leads).take(LANES).collect();
        (rails.len() > 1 && rails.contains(&route.rail)).then_some(rails)
    }

    /// Offers a message to its receiver. FI_EAGAIN: there is no room for the note now.
    pub(super) fn offer(
        &mut self,
        domain: &mut State,
        port: usize,
        (route, rails): (Route, &[usize]),
        tx: &mut Tx<'_>,
        op: TxOp,
    ) -> Result {
        let nonce = self.held.book.at(route.rail, route.place);
        let nonce = nonce.ok_or(Error::HOSTUNREACH)?.addr.name().nonce;
        let via = rails.iter().position(|&rail| rail == route.rail);
        let via = via.ok_or(Error::HOSTUNREACH)?;
        let len = tx.iov.remaining();
        let lent = Lent::unregistered(tx.iov.take());
        let exposed: Result<Vec<_>> = rails
            .iter()
            .map(|&rail| lent.expose(&self.rails[rail].exposing, FI_REMOTE_READ))
            .collect();
        let exposed = match exposed {
            Ok(exposed) => exposed,
            Err(error) => {
                tx.iov = lent.take_back().unwrap_or_default();
                return Err(error);
            }
        };
        let lane = |(rail, exposed): (&usize, &client::layer::Exposed)| {
            let memory = exposed.remote().next()?;
            Some(note::Lane {
                part: *rail as u16,
                addr: memory.addr,
                key: memory.key,
            })
        };
        let lanes = rails.iter().zip(&exposed).filter_map(lane).collect();
        let to = Peer {
            ep: port,
            rail: route.rail,
            place: route.place,
        };
        let now = self.reactor.now();
        let stripes = &mut self.held.stripes;
        if stripes.next_ask.is_none() {
            self.reactor.schedule(now + super::stripes::PATIENCE, now);
        }
        let message = stripes.add(op, (to, nonce), (lent, exposed), now);
        let note = Note {
            to: nonce,
            from: stripes.own,
            message,
            kind: Kind::Offer {
                len: len as u64,
                via,
                lanes,
            },
        };
        let has_data = tx.flags.contains(OpFlags::REMOTE_CQ_DATA);
        let data = has_data.then_some(tx.data);
        let tag = (tx.what == What::Tagged).then_some(tx.tag);
        domain.eps[op.ep()].tx_pending += 1;
        let told = self.tell(domain, to, &note, (tag, data), Some(message));
        if let Err(error) = told {
            domain.eps[op.ep()].tx_pending -= 1;
            let outgoing = self.held.stripes.take(message);
            let memory = outgoing.and_then(|outgoing| outgoing.into_memory());
            tx.iov = memory.unwrap_or_default();
            return Err(error);
        }
        Ok(())
    }

    /// Sends a note. `about`: the message that fails with it.
    fn tell(
        &mut self,
        domain: &mut State,
        to: Peer,
        note: &Note,
        (tag, data): (Option<u64>, Option<u64>),
        about: Option<u64>,
    ) -> Result {
        let endpoint = self.eps.get(to.ep).ok_or(Error::INVAL)?;
        let below = &endpoint.rails[to.rail].ep;
        let mut slot = self.held.notes.take()?;
        note.write(slot.bytes_mut());
        let flight = Flight::Note(about);
        let begun = self
            .held
            .ops
            .begin(below, Loan::Slot(slot, note::LEN), flight);
        let failed = match begun {
            Ok(begun) => {
                let number = begun.number();
                let call = Call::Send {
                    tag,
                    data,
                    flags: if data.is_some() { FI_COMPLETION } else { 0 },
                };
                let mut cx = Cx {
                    held: &mut self.held,
                    domain,
                };
                match self.desk.enter(&mut cx, || begun.post(to.place, &call)) {
                    Ok(()) => return Ok(()),
                    Err(error) => self.held.ops.withdraw(number, error),
                }
            }
            Err(failed) => failed,
        };
        let Failed { error, loan, .. } = failed;
        if let Loan::Slot(slot, _) = loan {
            self.held.notes.put(slot);
        }
        Err(error)
    }

    /// Does what calls of the peers have left to do.
    #[cold]
    pub(super) fn work(&mut self, domain: &mut State) {
        let mut later = Vec::new();
        while let Some(todo) = self.held.stripes.todo.pop_front() {
            match todo {
                Todo::Read(ref peer) => {
                    if !self.read_on(domain, peer) {
                        later.push(todo);
                    }
                }
                Todo::Complete(outgoing, result) => {
                    let (op, to) = (outgoing.op, outgoing.to);
                    // The regions are closed before the application may use its memory.
                    let _ = outgoing.into_memory();
                    match result {
                        Ok(()) => domain.complete_tx(&op),
                        Err(error) => self.fail(domain, &op, &to, error),
                    }
                }
                Todo::Tell(peer, note) => {
                    let about = (note.kind == Kind::Ask).then_some(note.message);
                    let told = self.tell(domain, peer, &note, (None, None), about);
                    match told {
                        Err(Error::AGAIN) => later.push(Todo::Tell(peer, note)),
                        // The message that a question is about will not be read.
                        Err(error) if note.kind == Kind::Ask => {
                            let stripes = &mut self.held.stripes;
                            stripes.complete_of(note.message, &peer, Err(error));
                        }
                        Ok(()) | Err(_) => {}
                    }
                }
            }
        }
        self.held.stripes.todo.extend(later);
    }

    fn fail(&self, domain: &mut State, op: &TxOp, to: &Peer, error: Error) {
        let known = self.held.book.at(to.rail, to.place);
        let why = known.filter(|_| error == Error::CONNRESET);
        let why = why.and_then(|known| CString::new(format!("{} ended", known.addr)).ok());
        match why {
            Some(why) => domain.fail_tx_because(op, error, error.code(), why.into()),
            None => domain.fail_tx(op, error),
        }
    }

    /// Reads more of a peer's messages. Returns false if a rail has no room now.
    fn read_on(&mut self, domain: &mut State, peer: &Peer) -> bool {
        while let Some((number, slice)) = self.held.stripes.next_slice(peer) {
            let (lane, range) = (slice.lane, slice.range.clone());
            if let Err(error) = self.read(domain, number, slice) {
                self.held
                    .stripes
                    .slice_over(number, lane, range, Err(error));
                if error == Error::AGAIN {
                    return false;
                }
            }
        }
        while let Some(over) = self.held.end_reading(peer) {
            let (ep, what) = (over.envelope.ep, over.envelope.what);
            match over.result {
                Ok(()) => {
                    let sender = Sender {
                        fi_addr: fi_addr_of(over.envelope.source),
                        addr: None,
                    };
                    domain.received(ep, &over.recv, &over.envelope, &sender);
                }
                Err(error) => domain.receive_failed(ep, &over.recv, what, error),
            }
        }
        true
    }

    fn read(&mut self, domain: &mut State, number: usize, slice: Slice) -> Result {
        let Slice { lane, range, lent } = slice;
        let incoming = self.held.stripes.incoming(number).ok_or(Error::INVAL)?;
        let endpoint = self.eps.get(incoming.from.ep).ok_or(Error::INVAL)?;
        let found = self.held.stripes.lane(number, lane).ok_or(Error::INVAL)?;
        let below = &endpoint.rails[found.rail].ep;
        let (place, memory) = (found.place, found.memory.at(range.start, range.len()));
        let flight = Flight::Slice {
            number,
            lane,
            range: range.clone(),
        };
        let begun = self
            .held
            .ops
            .begin(below, Loan::Lent(lent, range), flight)
            .map_err(|failed| failed.error)?;
        let below = begun.number();
        let call = Call::Read {
            remote: &[memory],
            flags: FI_COMPLETION,
        };
        let mut cx = Cx {
            held: &mut self.held,
            domain,
        };
        let posted = self.desk.enter(&mut cx, || begun.post(place, &call));
        posted.map_err(|error| self.held.ops.withdraw(below, error).error)
    }

    /// Asks for messages that their receivers have not read for long.
    #[cold]
    pub(super) fn ask(&mut self, domain: &mut State) {
        let now = self.reactor.now();
        let before = self.held.stripes.next_ask;
        self.held.stripes.ask(now);
        if let Some(at) = self.held.stripes.next_ask
            && before != Some(at)
        {
            self.reactor.schedule(at, now);
        }
        if !self.held.stripes.todo.is_empty() {
            self.work(domain);
        }
    }
}
