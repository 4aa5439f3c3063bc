// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Passive endpoints and connection requests: fi_endpoint(3), fi_cm(3).

use core::ffi::{c_int, c_void};
use core::time::Duration;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use crate::tcp::acceptor::{Acceptor, Accepts, Member};
use crate::tcp::bound::{any_address, bind, new_name, rebind};
use crate::tcp::exchange::{Exchange, read_exchange};
use crate::tcp::net::Connections;
use crate::tcp::request::{Accepted, Undecided};
use crate::tcp::site::Site;
use abi::*;
use base::info::Info;
use base::log::{Deferring, Subsys, log_debug, log_warn};
use base::params::NO_LIMIT;
use base::{Error, Result};
use engine::address::ip::{Addr, Format};
use engine::descriptors::prepare_connection;
use engine::domain::ep::{CM_DATA_SIZE, cut};
use engine::eq::{Eq, EventQueue};
use engine::fabric::FabricShared;
use engine::half_open::{ACCEPTS, HalfOpen, HasSocket};
use engine::transport::AddressFormat;
use object::handle;
use object::ops;
use object::ops::cm::CmCalls;
use object::ops::ep::EpCalls;
use object::ops::options::{Opt, OptValue, Owner};
use object::ops::wr::record::set_sizes;
use object::{AddrForm, Kind, Other};
use stream::Stream;
use stream::proto::{CmKind, private_of};
use sync::Use;
use sys::addr;
use sys::socket::{BACKLOG, Socket};

/// The handle.
pub struct Pep {
    shared: Arc<Shared>,
    _fabric: Use,
}

/// Shared by the handle and the event queue that drives it.
struct Shared {
    state: Mutex<State>,
    site: Site,
    info: Info,
    /// Requests that were reported and not yet accepted or rejected.
    requests: Arc<Undecided>,
}

struct State {
    listener: Option<Socket>,
    listening: bool,
    /// FI_BACKLOG: connection requests that may wait for us.
    backlog: i32,
    local: Addr,
    handshakes: HalfOpen<Handshake>,
    eq: Option<Bound>,
    /// The handle, for events.
    fid: usize,
}

/// The event queue, and the endpoint's place in its acceptor.
struct Bound {
    queue: Arc<EventQueue>,
    member: Member,
    _use: Use,
}

struct Handshake {
    socket: Socket,
    from: SocketAddr,
    exchange: Vec<u8>,
    deadline: Instant,
}

impl HasSocket for Handshake {
    fn socket(&self) -> &Socket {
        &self.socket
    }
}

impl Pep {
    pub fn open(
        fabric: &Arc<FabricShared<Stream<Connections>>>,
        info: Info,
        context: *mut c_void,
    ) -> Result<*mut fid_pep> {
        if info.ep.ep_type != FI_EP_MSG.0 {
            return Err(Error::INVAL);
        }
        let v6 = info.addr_format == FI_SOCKADDR_IN6;
        let local = match &info.src_addr {
            Some(bytes) => addr::from_bytes(bytes).ok_or(Error::INVAL)?,
            None => any_address(v6),
        };
        let site = fabric.provider.clone();
        let listener = bind(&site, local)?;
        let state = State {
            local: listener.local()?,
            listener: Some(listener),
            listening: false,
            backlog: BACKLOG,
            handshakes: HalfOpen::default(),
            eq: None,
            fid: 0,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            site,
            info,
            requests: Arc::default(),
        });
        let pep = Pep {
            shared: shared.clone(),
            _fabric: fabric.uses.take(),
        };
        let handle = handle::open(pep, FI_CLASS_PEP, context, |fid| fid_pep {
            fid,
            ops: core::ptr::from_ref(ops::ep::table::<Pep>()).cast_mut(),
            cm: core::ptr::from_ref(ops::cm::table::<Pep>()).cast_mut(),
        });
        shared.state().fid = handle as usize;
        Ok(handle)
    }
}

/// The bound socket of a passive endpoint that does not listen, for an endpoint that is opened with its handle: that
/// endpoint connects from the socket's address (fi_endpoint(3)). Returns nothing if the handle is something else.
pub fn take_bound(handle: usize) -> Option<Result<Socket>> {
    handle::with(handle, |pep: &Pep| {
        let mut state = pep.shared.state();
        match state.listening {
            true => Err(Error::OPBADSTATE),
            false => state.listener.take().ok_or(Error::OPBADSTATE),
        }
    })
}

impl Shared {
    /// Lines that are logged while it is locked wait: their callbacks may read the event queue, which comes here.
    fn state(&self) -> Deferring<MutexGuard<'_, State>> {
        Deferring::new(self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn accept_waiting(&self, state: &mut State) {
        prepare_connection(self.site.source);
        for _ in 0..ACCEPTS {
            let (Some(listener), Some(eq)) = (&state.listener, &state.eq) else {
                return;
            };
            match listener.accept() {
                Ok(Some((socket, from))) => {
                    let deadline = Instant::now() + self.site.set.conn_timeout;
                    let id = state.handshakes.insert(Handshake {
                        socket,
                        from,
                        exchange: Vec::new(),
                        deadline,
                    });
                    let socket = &state.handshakes[id].socket;
                    if eq.member.watch(id, socket).is_err() {
                        state.handshakes.remove(id);
                        continue;
                    }
                    eq.member.expect(deadline);
                    if state.handshakes.is_crowded() {
                        self.drop_silent(state, Some(id));
                    }
                }
                Ok(None) => return,
                // Out of descriptors: a connection without a request was closed to make room.
                Err(_) if self.drop_silent(state, None) => {}
                Err(error) => {
                    // Out of descriptors: leave the peers in the backlog for a moment.
                    log_warn!(self.site.source, Subsys::EpCtrl, "cannot accept: {error}");
                    if let (Some(listener), Some(eq)) = (&state.listener, &state.eq) {
                        eq.member.pause(listener);
                    }
                    return;
                }
            }
        }
    }

    /// Closes the connection without a request that was silent the longest. False if none was found.
    fn drop_silent(&self, state: &mut State, newest: Option<usize>) -> bool {
        let silent = state.handshakes.oldest_silent(newest);
        silent
            .map(|id| self.drop_handshake(state, id, "it says nothing, and others come"))
            .is_some()
    }

    /// A request, or a part of it, has come in.
    fn read_request(&self, state: &mut State, id: usize) {
        let Some(handshake) = state.handshakes.get_mut(id) else {
            return;
        };
        let from = handshake.from;
        let header = match read_exchange(&handshake.socket, &mut handshake.exchange) {
            Exchange::Partial => return,
            Exchange::Whole(header) if header.kind == CmKind::Request => header,
            Exchange::Whole(_) => return self.drop_handshake(state, id, "not a request"),
            Exchange::Broken(why) => return self.drop_handshake(state, id, why),
        };
        let handshake = state.handshakes.remove(id);
        let Some(eq) = &state.eq else {
            return;
        };
        eq.member.unwatch(&handshake.socket);
        if handshake.socket.has_ended() {
            // The peer has given up this attempt. If the request was accepted, data sent to the peer would be lost, and
            // an endpoint of ofi_rxm would give up its own attempt, or end a connection that the peer uses.
            return log_debug!(self.site.source, Subsys::EpCtrl, "{from}: request given up");
        }
        let local = handshake.socket.local().unwrap_or(state.local);
        let private = private_of(&handshake.exchange).to_vec();
        let (socket, exchange) = (handshake.socket, handshake.exchange);
        let handle = Accepted::open(&self.requests, socket, from, &header, exchange);
        let mut info = self.info.clone();
        info.src_addr = Some(addr::to_bytes(&local));
        info.dest_addr = Some(addr::to_bytes(&from));
        info.handle = handle;
        // The sizes were not read from the caller, whose struct may end before them.
        set_sizes(&mut info);
        match info.write_for_event() {
            Ok((info, release)) => {
                // An event that is not read ends with its passive endpoint or its queue.
                let unread = Box::new(move || {
                    Accepted::end(handle);
                    release();
                });
                eq.queue
                    .cm_event(FI_CONNREQ, state.fid, info, &private, Some(unread));
            }
            Err(error) => {
                log_warn!(
                    self.site.source,
                    Subsys::EpCtrl,
                    "{from}: request dropped: {error}"
                );
                Accepted::end(handle);
            }
        }
    }

    /// The passive endpoint is closed, and its unread events are gone. The other requests can still be accepted.
    fn leave_requests(&self) {
        let (count, limit) = (self.requests.unclaimed(), self.site.set.conn_timeout);
        if count == 0 {
            return;
        }
        log_warn!(
            self.site.source,
            Subsys::EpCtrl,
            "a passive endpoint is closed, and requests are neither accepted nor rejected: {count}; time limit {}",
            limit_text(limit)
        );
        self.requests.clone().refuse_after(limit, self.site.source);
    }

    fn drop_handshake(&self, state: &mut State, id: usize, why: &str) {
        let handshake = state.handshakes.remove(id);
        log_warn!(
            self.site.source,
            Subsys::EpCtrl,
            "{} closed: {why}",
            handshake.from
        );
        if let Some(eq) = &state.eq {
            eq.member.unwatch(&handshake.socket);
        }
    }
}

fn limit_text(limit: Duration) -> String {
    match limit >= NO_LIMIT {
        true => "none".to_owned(),
        false => format!("{} ms", limit.as_millis()),
    }
}

impl Accepts for Shared {
    fn accept(&self) {
        self.accept_waiting(&mut self.state());
    }

    fn requested(&self, id: usize) {
        self.read_request(&mut self.state(), id);
    }

    fn resume(&self) {
        let state = self.state();
        if let (Some(listener), Some(eq)) = (&state.listener, &state.eq) {
            let _ = eq.member.listen(listener);
        }
    }

    fn due(&self, now: Instant) {
        let mut state = self.state();
        // The oldest one has the earliest deadline.
        if let Some((id, handshake)) = state.handshakes.oldest()
            && now >= handshake.deadline
        {
            self.drop_handshake(&mut state, id, "no request in time");
        }
    }
}

impl Drop for Pep {
    fn drop(&mut self) {
        let mut guard = self.shared.state();
        let state = &mut *guard;
        if let Some(eq) = state.eq.take() {
            // A process after fork may still have the sockets, so closing them here does not end their reports.
            let sockets = state
                .handshakes
                .iter()
                .map(|(_, handshake)| &handshake.socket);
            sockets
                .chain(&state.listener)
                .for_each(|socket| eq.member.unwatch(socket));
            eq.queue.forget(state.fid);
        }
        drop(guard);
        self.shared.leave_requests();
    }
}

impl Kind for Pep {
    type Head = fid_pep;

    fn bind(&self, other: Other<'_>, flags: u64) -> Result {
        let eq = other.downcast::<Eq>().ok_or(Error::INVAL)?;
        if flags != 0 {
            return Err(Error::BADFLAGS);
        }
        let mut state = self.shared.state();
        if state.eq.is_some() {
            return Err(Error::INVAL);
        }
        let shared: Weak<Shared> = Arc::downgrade(&self.shared);
        state.eq = Some(Bound {
            queue: eq.queue.clone(),
            member: Acceptor::join(&eq.queue, shared)?,
            _use: eq.queue.uses.take(),
        });
        Ok(())
    }

    fn set_backlog(&self, backlog: c_int) -> Result {
        if backlog < 0 {
            return Err(Error::INVAL);
        }
        let mut state = self.shared.state();
        state.backlog = backlog;
        match &state.listener {
            Some(listener) if state.listening => Ok(listener.listen(backlog)?),
            _ => Ok(()),
        }
    }
}

impl EpCalls for Pep {
    fn is_owner(&self, owner: Owner) -> bool {
        owner == Owner::Connected
    }

    fn get_opt(&self, opt: Opt) -> Result<OptValue> {
        match opt {
            Opt::CmDataSize => Ok(OptValue::Size(CM_DATA_SIZE)),
            _ => Err(Error::NOPROTOOPT),
        }
    }
}

impl CmCalls for Pep {
    fn name(&self) -> Result<Vec<u8>> {
        Ok(addr::to_bytes(&self.shared.state().local))
    }

    fn set_name(&self, bytes: &[u8]) -> Result {
        let mut guard = self.shared.state();
        let state = &mut *guard;
        let wanted = new_name(bytes, &state.local)?;
        if state.listening {
            return Err(Error::OPBADSTATE);
        }
        let bind = |addr| bind(&self.shared.site, addr);
        rebind(&mut state.listener, &mut state.local, wanted, bind)
    }

    fn addr_form(&self) -> AddrForm {
        Format.form()
    }

    fn listen(&self) -> Result {
        let mut guard = self.shared.state();
        let state = &mut *guard;
        let eq = state.eq.as_ref().ok_or(Error::NOEQ)?;
        if state.listening {
            return Err(Error::OPBADSTATE);
        }
        let listener = state.listener.as_ref().ok_or(Error::OPBADSTATE)?;
        listener.listen(state.backlog)?;
        eq.member.listen(listener)?;
        state.listening = true;
        Ok(())
    }

    fn reject(&self, handle: Other<'_>, param: &[u8]) -> Result {
        let request = Accepted::take(handle.number())?;
        match request.reject(cut(param)) {
            true => Ok(()),
            false => Err(Error::NOTCONN),
        }
    }
}
