// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Tagged messages that stay with their sender until a receive has met them: docs/wire/tcp.md.
#![forbid(unsafe_code)]

use crate::abi::*;
use crate::base::{Error, IoVec, Result};
use crate::engine::core::TxOp;
use crate::engine::srx::{Bytes, Envelope, RecvOp};
use crate::engine::stream::conn::{Payload, RendezvousIn, RendezvousOut, Sink};
use crate::engine::stream::net::Net;
use crate::engine::stream::proto::{Header, Op};
use crate::engine::stream::rx::Fault;
use crate::engine::stream::transport::{Core, Stream};
use crate::ffi::ops::transfer::What;

impl<N: Net> Stream<N> {
    /// Tells the peer of a message and keeps it until the peer has a place for it.
    pub(super) fn announce(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        mut header: Header,
        payload: Payload,
        op: TxOp,
    ) {
        let conn = &mut self.conns[id];
        // There is one: `Stream::way` has looked.
        let Some(index) = conn.tx.free_index() else {
            return;
        };
        header.op = Op::Rts;
        header.index = index;
        header.msg_size = op.len as u64;
        header.payload = 0;
        core.eps[op.ep()].tx_pending += 1;
        let waiting = RendezvousOut {
            op,
            payload,
            header: header.clone(),
        };
        conn.tx.rendezvous.insert(index, waiting);
        self.send_bare(core, id, &header);
    }

    /// The peer has a place for a message that it was told of.
    pub(super) fn cleared(&mut self, core: &mut Core<N>, id: usize, index: u8) -> Result {
        let conn = &mut self.conns[id];
        let waiting = conn.tx.rendezvous.remove(&index).ok_or(Error::IO)?;
        core.eps[waiting.op.ep()].tx_pending -= 1;
        let mut header = waiting.header;
        header.op = Op::Data;
        header.context = 0;
        header.payload = header.msg_size;
        self.send_payload(core, id, &header, waiting.payload, waiting.op);
        Ok(())
    }

    pub(super) fn send_clear(&mut self, core: &mut Core<N>, id: usize, index: u8) {
        let mut header = Header::new(Op::Cts, 0);
        header.index = index;
        self.send_always(core, id, &header, IoVec::empty(), None);
    }

    /// A message that the sender holds until there is a receive.
    pub(super) fn ready_to_send(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        header: &Header,
    ) -> core::result::Result<(), Fault> {
        if header.index == 0 || self.conns[id].rx.rendezvous.contains_key(&header.index) {
            return Err(Fault::Rule("ready-to-send with a bad index"));
        }
        let mut envelope = self.envelope(id, What::Tagged, header);
        if header.context != 0 {
            envelope.ep = self.named_context(core, id, header)?;
        }
        let state = &core.eps[envelope.ep];
        if state.caps & FI_TAGGED == 0 {
            return Err(Fault::Rule("a tagged message for an endpoint without tags"));
        }
        envelope.len = header.msg_size;
        envelope.note = rendezvous_note(header.index, header.ack);
        let srx = state.srx;
        match core.srxs[srx].accept(&envelope) {
            Some(recv) => self.clear(core, id, header.index, header.ack, Some(recv), envelope),
            None => {
                self.keep(core, id, srx, envelope, Bytes::There);
            }
        }
        Ok(())
    }

    /// There is a place for a message that the sender holds.
    pub(super) fn clear(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        index: u8,
        ack: bool,
        recv: Option<RecvOp>,
        envelope: Envelope,
    ) {
        let Some(conn) = self.conns.get_mut(id) else {
            return;
        };
        let waiting = RendezvousIn {
            recv,
            envelope,
            ack,
        };
        conn.rx.rendezvous.insert(index, waiting);
        self.send_clear(core, id, index);
    }

    /// The bytes of a message that was held.
    pub(super) fn rendezvous_data(
        &mut self,
        core: &mut Core<N>,
        id: usize,
        header: &Header,
    ) -> core::result::Result<(), Fault> {
        let conn = &mut self.conns[id];
        let Some(waiting) = conn.rx.rendezvous.remove(&header.index) else {
            return Err(Fault::Rule("rendezvous data with an unknown index"));
        };
        if waiting.envelope.len != header.payload {
            conn.rx.rendezvous.insert(header.index, waiting);
            return Err(Fault::Rule(
                "rendezvous data of another length than announced",
            ));
        }
        let sink = match waiting.recv {
            Some(recv) => Sink::Recv(recv, waiting.envelope),
            None => Sink::Drop,
        };
        self.expect(id, sink, header.payload, waiting.ack);
        if header.payload == 0 {
            self.finish(core, id);
        }
        Ok(())
    }
}

/// The note that an envelope carries for a rendezvous; 0 is none.
fn rendezvous_note(index: u8, ack: bool) -> u64 {
    u64::from(index) | u64::from(ack) << 8
}

pub fn rendezvous_of(note: u64) -> (u8, bool) {
    (note as u8, note >> 8 & 1 != 0)
}
