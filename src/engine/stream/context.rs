// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The contexts of scalable endpoints (fi_endpoint(3)): all share the connections of their endpoint, the port. What is posted
//! through them names them for its completion; a frame names the receive context that it is for, unless that is the first.
#![forbid(unsafe_code)]

use std::time::Instant;

use crate::abi::*;
use crate::base::{Error, IoVec, Result};
use crate::engine::core::{Core as EngineCore, TxOp};
use crate::engine::stream::conn::{After, At, Conn, Out, Sink};
use crate::engine::stream::drain::is_promised;
use crate::engine::stream::net::Net;
use crate::engine::stream::proto::{Header, MAX_CONTEXTS};
use crate::engine::stream::rx::Fault;
use crate::engine::stream::transport::{Core, Stream};
use crate::engine::stream::tx::check_flags;
use crate::engine::transport::Address;
use crate::ffi::ops::transfer::{Tx, What};

impl<N: Net> Stream<N> {
    /// As `post`, by a transmit context `ep` of the endpoint `port`, or by an endpoint itself; the destination may name one
    /// of the peer's receive contexts.
    #[inline(never)]
    pub(super) fn post_from(
        &mut self,
        core: &mut Core<N>,
        port: usize,
        ep: usize,
        tx: Tx<'_>,
    ) -> Result {
        let state = core.eps.get(ep).ok_or(Error::INVAL)?;
        if !state.enabled {
            return Err(Error::OPBADSTATE);
        }
        if tx.flags & (FI_MATCH_COMPLETE | FI_FENCE) != 0 {
            check_flags(tx.what, tx.flags, state)?;
        }
        core.may_post(ep)?;
        let (dest, context) = split(core, port, tx.dest)?;
        let id = self.connection(core, port, dest)?;
        let op = TxOp {
            since: 0,
            what: tx.what,
            ep: ep as u32,
            flags: tx.flags,
            context: tx.context,
            len: tx.iov.remaining(),
        };
        match tx.what {
            What::Msg | What::Tagged => self.post_message_to(core, id, tx, op, context),
            // Memory belongs to the endpoint, whatever context is named.
            What::Write => self.post_write(core, id, tx, op),
            What::Read => self.post_read(core, id, tx, op),
            // They come by a call of their own.
            What::Atomic | What::AtomicFetch => Err(Error::OPNOTSUPP),
        }
    }

    /// The receive context that a frame names, as a number in `core.eps`.
    #[cold]
    pub(super) fn named_context(
        &self,
        core: &Core<N>,
        id: usize,
        header: &Header,
    ) -> core::result::Result<usize, Fault> {
        let conn = &self.conns[id];
        if !conn.extended {
            return Err(Fault::Rule(
                "a frame of an extension that was not agreed on",
            ));
        }
        let beyond_first = usize::from(header.context) - 1;
        let context = core.eps[conn.ep].contexts.get(beyond_first);
        let missing =
            Fault::Rule("a message for a receive context that the endpoint does not have");
        context.copied().ok_or(missing)
    }

    /// A transmit context is closed. What it posted is dropped where it has not begun and a completion would have told of it; the
    /// rest goes out, from copies where
    /// the kernel does not take it in time, since the stream has to go on. It is `heir`'s from now on.
    pub(super) fn leave_transmits(
        &mut self,
        core: &mut Core<N>,
        port: usize,
        ep: usize,
        heir: usize,
    ) {
        for id in self.conns_of(port) {
            // What does not leave now goes out from copies.
            self.last_flush(core, id, Instant::now());
            let conn = &mut self.conns[id];
            if let Some(duct) = &conn.duct {
                duct.revoke();
            }
            let (over, left) = conn.bequeath(ep, heir);
            core.eps[ep].tx_pending -= over + left;
            core.eps[heir].tx_pending += left;
        }
    }

    /// A receive context is closed: nothing is written to its buffers any more.
    pub(super) fn leave_receives(&mut self, core: &mut Core<N>, port: usize, ep: usize) {
        let own = core.eps[ep].srx;
        for id in self.conns_of(port) {
            let rx = &mut self.conns[id].rx;
            if let At::Payload(incoming) = &mut rx.at {
                match incoming.sink {
                    Sink::Recv(_, envelope) if envelope.ep == ep => incoming.sink = Sink::Drop,
                    Sink::Slot(srx, slot) if srx == own => core.srxs[srx].abandon(slot),
                    _ => {}
                }
            }
            for incoming in rx.told.cleared_mut() {
                if incoming.envelope.ep == ep {
                    incoming.recv = None;
                }
            }
            self.leave_shared(core, id, ep);
        }
    }

    fn conns_of(&self, port: usize) -> Vec<usize> {
        let ours = self.conns.iter().filter(|(_, conn)| conn.ep == port);
        ours.map(|(id, _)| id).collect()
    }
}

impl<N: Net> Conn<N> {
    /// Lets go of the application's memory that operations of a transmit context use; how many of them are over by that, and
    /// how many wait for an answer that is nothing to the context any more.
    fn bequeath(&mut self, ep: usize, heir: usize) -> (usize, usize) {
        let (mut over, mut left) = (0, 0);
        let mut inherit = |op: &mut TxOp| {
            let ours = op.ep() == ep;
            if ours {
                op.ep = heir as u32;
                left += 1;
            }
            ours
        };
        for out in &mut self.tx.queue {
            let Out::Frame(frame) = out else {
                continue;
            };
            match &frame.after {
                After::Complete(op) if op.ep() == ep => over += 1,
                After::Acknowledged(op) if op.ep() == ep => {}
                After::Nothing => {}
                _ => continue,
            }
            let header = usize::from(frame.header_done)..usize::from(frame.header_len);
            let mut bytes = frame.header[header].to_vec();
            frame.payload.copy_out(&mut bytes);
            self.tx.staged += bytes.len();
            *out = Out::Staged {
                bytes,
                done: 0,
                owed: 0,
            };
        }
        self.tx.waiting.retain_mut(|waiting| {
            let delivers = is_promised(&waiting.op) && waiting.op.what != What::Read;
            if waiting.op.ep() == ep && !delivers {
                over += 1;
                return false;
            }
            if inherit(&mut waiting.op) {
                waiting.payload.own(waiting.op.len);
                waiting.payload.drop_answer();
            }
            true
        });
        for op in &mut self.tx.await_ack {
            inherit(op);
        }
        for read in &mut self.tx.await_read {
            if inherit(&mut read.op) {
                read.iov = IoVec::empty();
            }
        }
        if let At::Payload(incoming) = &mut self.rx.at
            && let Sink::Read(read) = &mut incoming.sink
            && inherit(&mut read.op)
        {
            read.iov = IoVec::empty();
        }
        for out in self.tx.rendezvous.values_mut() {
            if inherit(&mut out.op) {
                out.payload.own(out.op.len);
            }
        }
        (over, left)
    }
}

/// The address in the vector, and the receive context of it that fi_rx_addr(3) has put into the upper bits.
pub(super) fn split<A: Address>(core: &EngineCore<A>, port: usize, dest: u64) -> Result<(u64, u8)> {
    // Who is connected has no addresses.
    let Some(av) = core.eps[port].av else {
        return Ok((dest, 0));
    };
    match core.avs[av].context_bits {
        0 => Ok((dest, 0)),
        bits => {
            let context = dest >> (u64::BITS - bits);
            let address = dest & (u64::MAX >> bits);
            match context < MAX_CONTEXTS as u64 {
                true => Ok((address, context as u8)),
                false => Err(Error::INVAL),
            }
        }
    }
}
