// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Processes packets in order, and stores the bytes of operations that arrive in several packets.

use super::sink::{Incoming, Sink, Stall, Step};
use super::{Cx, Session, Wire};
use crate::rxd::SOURCE;
use crate::rxd::proto::{Data, Kind, Op, Packet, Void, error_of};
use base::log::{Subsys, log_warn};
use base::{CompFlags, Error, Result};
use engine::peer::claim::Claim;
use engine::srx::{Bytes, MessageInfo, Slot};
use engine::strangers::fi_addr_of;
use engine::transport::Address;
use object::ops::transfer::What;
use stream::session::exposed::{count_regions, fault_of};

impl<A: Address> Session<A> {
    pub(super) fn step<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>, packet: &Packet<'_>) -> Step {
        if !cx.domain.may_receive(self.ep) {
            return Step::Stalled(Stall::Queue);
        }
        match packet {
            Packet::Op(_, op, payload) => {
                if self.rx.incoming.is_some() {
                    return Step::Dropped;
                }
                match op.kind {
                    Kind::Message | Kind::Tagged => self.take_message(cx, op, payload),
                    _ => self.take_access(cx, op, payload),
                }
            }
            Packet::Data(_, data) => self.take_data(cx, data),
            Packet::Answer(_, data) => self.take_answer(cx, data),
            Packet::Void(_, void) => self.take_void(cx, void),
            Packet::Rts(_) | Packet::Cts(_) | Packet::Ack(_) => Step::Dropped,
        }
    }

    fn take_message<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>, op: &Op, payload: &[u8]) -> Step {
        let total = op
            .segments
            .map_or(payload.len() as u64, |segments| segments.total);
        let message = MessageInfo {
            what: match op.kind {
                Kind::Tagged => What::Tagged,
                _ => What::Msg,
            },
            len: total,
            tag: op.tag,
            data: op.data,
        };
        let envelope = message.envelope(self.source, self.ep, self.id as u64);
        let is_whole = payload.len() as u64 == total;
        let sink = match self.rx.decided.take() {
            Some(sink) => sink,
            None => {
                let srx = cx.domain.eps[self.ep].srx;
                let queue = &mut cx.domain.srxs[srx];
                match queue.accept(&envelope) {
                    Some(mut recv) if is_whole => {
                        recv.iov.copy_in(payload);
                        let sender = self.sender();
                        cx.domain.received(self.ep, &recv, &envelope, &sender);
                        return Step::Taken;
                    }
                    Some(recv) => Sink::Message(Claim::of(Some(recv), envelope)),
                    None => {
                        let has_room =
                            queue.has_room(envelope.token, total, cx.common.settings.saved);
                        let slot = match (has_room, is_whole) {
                            (true, true) => {
                                queue.keep_whole(envelope, |kept| kept.extend_from_slice(payload))
                            }
                            (true, false) => queue.keep(envelope, Bytes::Coming(Vec::new())),
                            (false, _) => queue.keep(envelope, Bytes::There),
                        };
                        self.record_origin(cx, srx, slot);
                        match (has_room, is_whole) {
                            (true, true) => return Step::Taken,
                            (true, false) => Sink::Message(Claim::Kept(srx, slot)),
                            (false, _) => return Step::Stalled(Stall::Memory(slot)),
                        }
                    }
                }
            }
        };
        match self.begin(cx, sink, op, payload, total) {
            Ok(()) => Step::Taken,
            Err(error) => Step::Refused(error),
        }
    }

    /// Records the address of a sender that is not in the address vector (FI_SOURCE_ERR).
    fn record_origin<W>(&mut self, cx: &mut Cx<'_, A, W>, srx: usize, slot: Slot) {
        if cx.domain.reports_origin(self.ep, fi_addr_of(self.source)) {
            cx.domain.srxs[srx].record_origin(slot, self.addr.to_bytes());
        }
    }

    /// Handles the first bytes of an operation, which may be all of it. On failure it is refused.
    pub(super) fn begin<W: Wire>(
        &mut self,
        cx: &mut Cx<'_, A, W>,
        sink: Sink,
        op: &Op,
        payload: &[u8],
        total: u64,
    ) -> Result {
        let mut incoming = Incoming {
            sink,
            total,
            got: 0,
            left: op.segments.map_or(0, |segments| segments.count - 1),
            segment: 0,
        };
        self.put(cx, &mut incoming, payload);
        match incoming.left {
            0 => self.finish(cx, incoming.sink),
            _ => {
                self.rx.incoming = Some(incoming);
                Ok(())
            }
        }
    }

    fn put<W>(&mut self, cx: &mut Cx<'_, A, W>, incoming: &mut Incoming, bytes: &[u8]) {
        incoming.got += bytes.len() as u64;
        match &mut incoming.sink {
            Sink::Message(claim) => {
                if claim.put(cx.domain, bytes).is_err() {
                    let sink = std::mem::replace(&mut incoming.sink, Sink::Nothing);
                    self.drop_sink(cx, sink, Error::NOMEM);
                }
            }
            Sink::Write(write) => {
                write.iov.copy_in(bytes);
            }
            Sink::Atomic(atomic) => atomic.bytes.extend_from_slice(bytes),
            Sink::Nothing => {}
        }
    }

    /// `IO`: a device did not take the bytes.
    fn finish<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>, sink: Sink) -> Result {
        match sink {
            Sink::Message(claim) => {
                claim.finish(cx.domain, &self.sender());
            }
            Sink::Write(write) => {
                if let Some(fault) = fault_of(&write.regions) {
                    log_warn!(
                        &SOURCE,
                        Subsys::EpData,
                        "{}: a write is refused: {}",
                        self.addr,
                        hmem::driver::words(fault)
                    );
                    return Err(Error::IO);
                }
                count_regions(cx.domain, &write.regions, &write.lens);
                let (len, data) = (write.len, write.data);
                cx.domain
                    .written(self.ep, CompFlags::RMA, len, data, &self.sender());
            }
            Sink::Atomic(atomic) => self.carry_out(cx, *atomic),
            Sink::Nothing => {}
        }
        Ok(())
    }

    fn take_data<W: Wire>(&mut self, cx: &mut Cx<'_, A, W>, data: &Data<'_>) -> Step {
        // Packets of a refused operation are dropped.
        let Some(mut incoming) = self.rx.incoming.take() else {
            return Step::Taken;
        };
        let got = incoming.got + data.bytes.len() as u64;
        let is_last = incoming.left == 1;
        let fits = data.segment == incoming.segment
            && !data.bytes.is_empty()
            && if is_last {
                got == incoming.total
            } else {
                got < incoming.total
            };
        if !fits {
            self.rx.incoming = Some(incoming);
            return Step::Dropped;
        }
        let regions = match &incoming.sink {
            Sink::Write(write) => Some(&write.regions),
            Sink::Atomic(atomic) => Some(&atomic.regions),
            _ => None,
        };
        if regions
            .into_iter()
            .flatten()
            .flatten()
            .any(|region| region.is_closed())
        {
            self.rx.incoming = Some(incoming);
            return Step::Refused(Error::CANCELED);
        }
        if let Sink::Message(Claim::Kept(srx, slot)) = incoming.sink {
            let queue = &mut cx.domain.srxs[srx];
            let saved = cx.common.settings.saved;
            if !queue.may_grow(slot, data.bytes.len(), saved) {
                self.rx.incoming = Some(incoming);
                return Step::Stalled(Stall::Part(srx, slot));
            }
        }
        self.put(cx, &mut incoming, data.bytes);
        (incoming.left, incoming.segment) = (incoming.left - 1, incoming.segment + 1);
        if incoming.left > 0 {
            self.rx.incoming = Some(incoming);
            return Step::Taken;
        }
        let sink = std::mem::replace(&mut incoming.sink, Sink::Nothing);
        match self.finish(cx, sink) {
            Ok(()) => Step::Taken,
            // Until the peer gives up the operation, its last packet is dropped.
            Err(error) => {
                self.rx.incoming = Some(incoming);
                Step::Refused(error)
            }
        }
    }

    fn take_answer<W>(&mut self, cx: &mut Cx<'_, A, W>, data: &Data<'_>) -> Step {
        let number = u64::from(data.transaction);
        let Some(read) = self.tx.reads.get_mut(number) else {
            return Step::Taken;
        };
        let got = read.got + data.bytes.len() as u64;
        let is_empty = data.bytes.is_empty() && read.total > 0;
        if data.segment != read.segments || is_empty || got > read.total {
            return Step::Dropped;
        }
        read.iov.copy_in(data.bytes);
        (read.got, read.segments) = (got, read.segments + 1);
        if got == read.total
            && let Some(read) = self.tx.reads.remove(number)
        {
            cx.domain.complete_into(&read.op, &read.iov);
        }
        Step::Taken
    }

    /// Handles a packet that replaces one that will not come.
    #[cold]
    fn take_void<W>(&mut self, cx: &mut Cx<'_, A, W>, void: &Void) -> Step {
        if let Some(incoming) = self.rx.incoming.take() {
            self.drop_sink(cx, incoming.sink, Error::IO);
        }
        if void.error != 0
            && let Some(read) = self.tx.reads.remove(void.transaction.into())
        {
            cx.domain.fail_tx(&read.op, error_of(void.error));
        }
        Step::Taken
    }

    /// Ends an operation whose remaining bytes will not arrive.
    pub(super) fn drop_sink<W>(&mut self, cx: &mut Cx<'_, A, W>, sink: Sink, error: Error) {
        if let Sink::Message(claim) = sink {
            claim.end(cx.domain, Some(error));
        }
    }
}
