// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Endpoints, the connections below them, and what goes over these: one message below for each of ours.
use core::time::Duration;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ffi::CStr;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use super::{HEADER, MAX_MESSAGE, NAME, SOURCE, decode, encode};
use crate::abi::*;
use crate::base::flags::flags;
use crate::base::info::Info;
use crate::base::log::Source;
use crate::base::{Error, OpFlags, Result};
use crate::engine::address::ip::{Addr, Format};
use crate::engine::domain_state::{DomainState, Sender, TxOp};
use crate::engine::srx::Envelope;
use crate::engine::transport::*;
use crate::ffi::client::{self, Buffer, Completion, Cq, CqAttr, Ep, Eq, EqAttr, Event, PassiveEp};
use crate::ffi::ops::transfer::Tx;
use crate::ffi::with_entry;
use crate::hmem::Host;
use crate::sys::event::Epoll;

/// The transport of a domain, over one below.
pub struct Layer {
    /// By numbers that are used once.
    conns: BTreeMap<usize, Conn>,
    next: usize,
    /// The listeners of our endpoints.
    eps: HashMap<usize, Arc<PassiveEp>>,
    /// Operations below by the numbers of their buffers: the connection, and what was sent.
    flights: HashMap<usize, (usize, Option<TxOp>)>,
    epoll: Epoll,
    eq: Arc<Eq>,
    cq: Arc<Cq>,
    domain: Arc<client::Domain>,
    fabric: Arc<client::Fabric>,
    /// What the domain below was opened with, less its addresses.
    entry: Info,
}

/// Stays until its endpoint is closed. To a peer the first of several is used; what it sends may come by another.
struct Conn {
    link: Arc<Ep>,
    ep: usize,
    /// Where the peer listens.
    peer: Addr,
    is_up: bool,
    is_over: bool,
    waiting: VecDeque<(TxOp, Buffer)>,
    inbox: VecDeque<(Buffer, usize)>,
}

type State = DomainState<Addr>;

impl Conn {
    /// A message from below. None if it is not one of ours.
    fn take(&self, domain: &mut State, id: usize, bytes: &[u8]) -> Option<()> {
        let (info, payload) = decode(bytes)?;
        let (rx_queue, av) = (domain.ep(self.ep).srx, domain.ep(self.ep).av?);
        let fi_addr = domain.av(av).find(&self.peer);
        let source = fi_addr.unwrap_or(UNKNOWN | id as u64);
        let envelope = info.envelope(source, self.ep, id as u64);
        let rx_queue = domain.rx_queue_mut(rx_queue);
        let Some(mut recv) = rx_queue.accept(&envelope) else {
            rx_queue.keep_whole(envelope, |kept| kept.extend_from_slice(payload));
            return Some(());
        };
        recv.iov.copy_in(payload);
        let (fi_addr, addr) = (fi_addr.unwrap_or(FI_ADDR_NOTAVAIL), Some(&self.peer));
        domain.received(self.ep, &recv, &envelope, &Sender { fi_addr, addr });
        Some(())
    }
}

impl Layer {
    /// An endpoint below for a peer; connecting is the caller's.
    fn add_conn(&mut self, ep: usize, peer: Addr, info: client::Info<'_>) -> Result<usize> {
        let link = Ep::open(&self.domain, info)?;
        link.bind(&self.eq, 0)?;
        link.bind(&self.cq, FI_TRANSMIT | FI_RECV)?;
        link.enable()?;
        let id = self.next;
        self.next += 1;
        (0..RECEIVES).try_for_each(|_| self.post_receive(id, &link))?;
        let (is_up, is_over, waiting, inbox) = Default::default();
        #[rustfmt::skip]
        let conn = Conn { link, ep, peer, is_up, is_over, waiting, inbox };
        self.conns.insert(id, conn);
        Ok(id)
    }

    fn connect(&mut self, ep: usize, peer: Addr) -> Result<usize> {
        let (to, own) = (peer.to_bytes(), self.name(ep)?);
        let mut entry = self.entry.clone();
        entry.dest_addr = Some(to.clone());
        let id = with_entry(&entry, |info| self.add_conn(ep, peer, info))?;
        let begun = self.conns[&id].link.connect(&to, &own).map(|()| id);
        begun.inspect_err(|_| drop(self.conns.remove(&id)))
    }

    /// A peer wants to connect; it says where it listens.
    fn accept(&mut self, pep: usize, info: client::Info<'_>, hello: &[u8]) -> Result {
        let found = self.eps.iter().find(|(_, ep)| ep.number() == pep);
        let (&ep, listener) = found.ok_or(Error::INVAL)?;
        let Some(peer) = Addr::from_bytes(hello) else {
            return listener.reject(info, &[]);
        };
        let id = self.add_conn(ep, peer, info)?;
        self.conns[&id].link.accept(&[])
    }

    fn buffer(&self, len: usize) -> Result<Buffer> {
        let (domain, len, access) = (&self.domain, HEADER + len, FI_SEND | FI_RECV);
        with_entry(&self.entry, |info| {
            Buffer::new(domain, info, len, access, 0)
        })
    }

    fn post_receive(&mut self, id: usize, link: &Ep) -> Result {
        let buffer = self.buffer(MAX_MESSAGE)?;
        self.flights.insert(buffer.number(), (id, None));
        let posted = link.recv_buffer(buffer, FI_ADDR_UNSPEC);
        posted.map_err(|(_, error)| error)
    }

    /// Hands down what waits, as far as it is taken.
    fn send(&mut self, id: usize) {
        let conn = self.conns.get_mut(&id).filter(|conn| conn.is_up);
        let Some(conn) = conn else { return };
        while let Some((op, buffer)) = conn.waiting.pop_front() {
            let (len, number) = (HEADER + op.len, buffer.number());
            if let Err((buffer, _)) = conn.link.send_buffer(buffer, len, FI_ADDR_UNSPEC) {
                return conn.waiting.push_front((op, buffer));
            }
            self.flights.insert(number, (id, Some(op)));
        }
    }

    /// Takes a completion from below. None: there is none.
    fn take_completion(&mut self, domain: &mut State) -> Option<()> {
        let mut done = [Completion::default()];
        let read = self.cq.read(&mut done);
        let [done] = done;
        let failed = read.err().map(|_| self.cq.readerr()).transpose().ok()?;
        let error = failed.as_ref().map(|failed| failed.error);
        let context = failed.map_or(done.context, |failed| failed.context);
        let (id, sent) = self.flights.remove(&context.number())?;
        let conn = self.conns.get_mut(&id)?;
        let buffer = conn.link.reclaim(context)?;
        match (sent, error) {
            (Some(op), None) => domain.complete_tx(&op),
            (Some(op), Some(error)) => domain.fail_tx(&op, error),
            (None, None) => conn.inbox.push_back((buffer, done.len)),
            (None, Some(_)) => {}
        }
        Some(())
    }

    /// Takes an event from below. None: there is none.
    fn take_event(&mut self, domain: &mut State) -> Option<()> {
        let (link, error) = match self.eq.read() {
            Ok(Event::Request { pep, info, data }) => {
                // One that cannot be accepted is dropped.
                let _ = self.accept(pep, info.first()?, &data);
                return Some(());
            }
            Ok(Event::Connected { ep, .. }) => (ep, None),
            Ok(Event::Shutdown { ep }) => (ep, Some(Error::CONNRESET)),
            Ok(_) => return Some(()),
            Err(_) => {
                let failed = self.eq.readerr().ok()?;
                (failed.object, Some(failed.error))
            }
        };
        let mut conns = self.conns.iter_mut();
        let (_, conn) = conns.find(|(_, conn)| conn.link.number() == link)?;
        (conn.is_up, conn.is_over) = (error.is_none(), error.is_some());
        if let Some(error) = error {
            let waiting = conn.waiting.drain(..);
            waiting.for_each(|(op, _)| domain.fail_tx(&op, error));
        }
        Some(())
    }

    /// An address came into a vector, or left it: matching calls its messages so from now on.
    fn rename(&self, domain: &mut State, av: usize, addr: &Addr, to: impl Fn(u64) -> (u64, u64)) {
        for (&id, conn) in self.conns.iter().filter(|(_, conn)| conn.peer == *addr) {
            if domain.ep(conn.ep).av == Some(av) {
                let (before, after) = to(UNKNOWN | id as u64);
                domain.each_srx(conn.ep, |srx| srx.rename_source(before, after));
            }
        }
    }
}

impl Addressing for Layer {
    type Addr = Addr;
    type Format = Format;
    type Memory = Host;
}

impl Connects for Layer {}
impl Contexts for Layer {}
impl Groups for Layer {}
impl Atomics for Layer {}
impl Batches for Layer {}

impl Drains for Layer {
    fn close_limit(&self) -> Duration {
        Duration::from_secs(5)
    }

    fn owes(&self, ep: Option<usize>, _patient: bool) -> bool {
        let unheard = |op: &TxOp| {
            !op.flags.contains(OpFlags::COMPLETION) && ep.is_none_or(|ep| ep == op.ep())
        };
        let mut waiting = self.conns.values().flat_map(|conn| &conn.waiting);
        let mut below = self.flights.values().filter_map(|(_, sent)| sent.as_ref());
        waiting.any(|(op, _)| unheard(op)) || below.any(unheard)
    }
}

impl Transport for Layer {
    type Fabric = (Arc<client::Fabric>, Vec<Info>);

    const SOURCE: &'static Source = &SOURCE;
    const CQ_SIZE: usize = 1024;
    const CQ_DATA_SIZE: usize = size_of::<u64>();

    fn prov_name(_fabric: &Self::Fabric) -> &'static CStr {
        NAME
    }

    fn open((fabric, entries): &Self::Fabric, info: &Info) -> Result<Layer> {
        let mut entries = entries.iter();
        let found = entries.find(|entry| entry.domain.name == info.domain.name);
        let mut entry = found.ok_or(Error::NODATA)?.clone();
        (entry.addr_format, entry.src_addr) = (FI_SOCKADDR, None);
        (entry.domain.threading, entry.domain.progress) = (FI_THREAD_SAFE.0, FI_PROGRESS_MANUAL.0);
        let open = |info: client::Info<'_>| client::Domain::open_thread_safe(fabric, info);
        let domain = with_entry(&entry, open)?;
        let (mut cq, mut eq) = (CqAttr::default(), EqAttr::default());
        (cq.wait_obj, eq.wait_obj, cq.format) = (FI_WAIT_FD, FI_WAIT_FD, FI_CQ_FORMAT_MSG);
        let (cq, eq) = (Cq::open(&domain, &cq)?, Eq::open(fabric, &eq)?);
        let epoll = Epoll::new()?;
        epoll.add(cq.fd()?, 0, true, false)?;
        epoll.add(eq.fd()?, 0, true, false)?;
        let (conns, next, eps, flights) = Default::default();
        let fabric = fabric.clone();
        #[rustfmt::skip]
        let layer = Layer { conns, next, eps, flights, epoll, eq, cq, domain, fabric, entry };
        Ok(layer)
    }

    fn format(&self) -> Format {
        Format
    }

    fn poll_fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    fn progress(&mut self, domain: &mut State) {
        while self.take_completion(domain).is_some() {}
        while self.take_event(domain).is_some() {}
        for id in 0..self.next {
            while let Some(conn) = self.conns.get_mut(&id)
                && domain.may_receive(conn.ep)
                && let Some((buffer, len)) = conn.inbox.pop_front()
            {
                let link = conn.link.clone();
                let taken = conn.take(domain, id, &buffer.bytes()[..len]);
                if taken.is_none() || self.post_receive(id, &link).is_err() {
                    let _ = link.shutdown();
                }
            }
            self.send(id);
        }
    }

    fn progress_all(&mut self, domain: &mut State) {
        self.progress(domain);
        // Without FI_EAGAIN what comes below shows on our descriptor.
        while self.fabric.trywait(&[&*self.cq, &*self.eq]) == Err(Error::AGAIN) {
            self.progress(domain);
        }
    }

    fn open_ep(&mut self, _domain: &mut State, ep: usize, info: &Info) -> Result {
        let is_rdm = info.ep.ep_type == FI_EP_RDM.0;
        is_rdm.then_some(()).ok_or(Error::NOSYS)?;
        let mut entry = self.entry.clone();
        (entry.addr_format, entry.src_addr) = (info.addr_format, info.src_addr.clone());
        let listener = with_entry(&entry, |info| PassiveEp::open(&self.fabric, info))?;
        listener.bind(&self.eq, 0)?;
        self.eps.insert(ep, listener);
        Ok(())
    }

    fn enable_ep(&mut self, _domain: &mut State, ep: usize) -> Result {
        self.eps[&ep].listen()
    }

    fn close_ep(&mut self, _domain: &mut State, ep: usize) {
        self.eps.remove(&ep);
        self.conns.retain(|_, conn| conn.ep != ep);
        let conns = &self.conns;
        self.flights.retain(|_, (id, _)| conns.contains_key(id));
    }

    fn name(&self, ep: usize) -> Result<Vec<u8>> {
        self.eps[&ep].name()
    }

    fn set_name(&mut self, ep: usize, addr: &[u8]) -> Result {
        self.eps[&ep].set_name(addr)
    }

    fn transmit(&mut self, domain: &mut State, ep: usize, tx: &mut Tx<'_>) -> Result {
        let state = domain.find_ep(ep).filter(|ep| ep.enabled);
        let av = state.ok_or(Error::OPBADSTATE)?.av.ok_or(Error::NOAV)?;
        let answered =
            flags!(OpFlags: MATCH_COMPLETE | TRANSMIT_COMPLETE | DELIVERY_COMPLETE | FENCE);
        let (op, refused) = (TxOp::of(ep, tx), tx.flags.intersects(answered));
        (!refused).then_some(()).ok_or(Error::OPNOTSUPP)?;
        let fits = op.len <= MAX_MESSAGE;
        fits.then_some(()).ok_or(Error::MSGSIZE)?;
        let &peer = domain.av(av).get(tx.dest).ok_or(Error::INVAL)?;
        let same = |conn: &Conn| (conn.ep, conn.peer, conn.is_over) == (ep, peer, false);
        let mut conns = self.conns.iter();
        let found = conns.find_map(|(&id, conn)| same(conn).then_some(id));
        let id = found.map_or_else(|| self.connect(ep, peer), Ok)?;
        // What nobody would hear of does not wait for a connection. Who only calls again for it drives progress.
        let (unheard, is_up) = (!domain.hears_of(&op), self.conns[&id].is_up);
        if unheard && (!is_up || domain.may_post(ep).is_err()) {
            self.progress(domain);
        }
        (is_up || !unheard).then_some(()).ok_or(Error::AGAIN)?;
        domain.may_post(ep)?;
        let mut buffer = self.buffer(op.len)?;
        encode(tx, buffer.bytes_mut());
        domain.ep_mut(ep).tx_pending += 1;
        let conn = self.conns.get_mut(&id).ok_or(Error::INVAL)?;
        conn.waiting.push_back((op, buffer));
        self.send(id);
        Ok(())
    }

    fn source(envelope: &Envelope) -> u64 {
        let known = Some(envelope.source).filter(|source| source & UNKNOWN == 0);
        known.unwrap_or(FI_ADDR_NOTAVAIL)
    }

    fn av_inserted(&mut self, domain: &mut State, av: usize, index: u64) {
        if let Some(&addr) = domain.av(av).get(index) {
            self.rename(domain, av, &addr, |unknown| (unknown, index));
        }
    }

    fn av_removed(&mut self, domain: &mut State, av: usize, index: u64, addr: &Addr) {
        self.rename(domain, av, addr, |unknown| (index, unknown));
    }
}

/// Receives that are posted below for each connection.
const RECEIVES: usize = 4;
/// What matching calls a peer that is in no vector, with its connection: no fi_addr has the top bit.
const UNKNOWN: u64 = 1 << 63;
