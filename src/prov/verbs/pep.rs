// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Passive endpoints: fi_endpoint(3), fi_cm(3).

use core::ffi::{c_int, c_void};
use std::ffi::CStr;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::adapter::{Adapter, adapters};
use super::domain::Domain;
use super::listeners::{Listeners, Listens, Member};
use super::request::{self, Request};
use super::{SOURCE, info, params, place, private};
use abi::*;
use base::info::Info;
use base::log::{Deferring, Subsys, log_warn};
use base::{Error, Result};
use engine::address::mixed::Format;
use engine::eq::{Eq, EventQueue};
use engine::fabric::FabricShared;
use engine::transport::AddressFormat;
use object::handle;
use object::ops;
use object::ops::cm::CmCalls;
use object::ops::ep::EpCalls;
use object::ops::eq::EqErr;
use object::ops::options::{Opt, OptValue, Owner};
use object::ops::wr::record::set_sizes;
use object::{AddrForm, Kind, Other};
use sync::Use;
use sys::addr;
use sys::verbs::{Event, EventKind, Id};

/// The handle.
pub struct Pep {
    shared: Arc<Shared>,
    _fabric: Use,
}

/// Shared by the handle and the event queue that drives it.
struct Shared {
    state: Mutex<State>,
    info: Info,
}

struct State {
    /// `None` after an endpoint has taken it.
    id: Option<Id>,
    listening: bool,
    /// FI_BACKLOG: connection requests that may wait for us; 0 for the kernel's default.
    backlog: c_int,
    eq: Option<Bound>,
    /// The handle, for events.
    fid: usize,
}

struct Bound {
    queue: Arc<EventQueue>,
    member: Member,
    _use: Use,
}

impl Pep {
    pub fn open(
        fabric: &Arc<FabricShared<Domain>>,
        mut info: Info,
        context: *mut c_void,
    ) -> Result<*mut fid_pep> {
        if info.ep.ep_type != FI_EP_MSG.0 {
            return Err(Error::INVAL);
        }
        let space = place::space_of(info.src_addr.as_deref().unwrap_or_default());
        let id = Id::new(None, space, 0)?;
        if let Some(src) = &info.src_addr {
            id.bind(src)?;
        }
        info.dest_addr = None;
        info.fabric.api_version = fabric.api_version;
        let state = State {
            id: Some(id),
            listening: false,
            backlog: 0,
            eq: None,
            fid: 0,
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            info,
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

/// The identifier of a passive endpoint that does not listen, for an endpoint that is opened with its handle
/// (fi_endpoint(3)). Returns nothing if the handle is something else.
pub fn take_bound(handle: usize) -> Option<Result<Id>> {
    handle::with(handle, |pep: &Pep| {
        let mut state = pep.shared.state();
        match state.listening {
            true => Err(Error::OPBADSTATE),
            false => state.id.take().ok_or(Error::OPBADSTATE),
        }
    })
}

impl Shared {
    /// Lines that are logged while it is locked wait: their callbacks may read the event queue, which comes here.
    fn state(&self) -> Deferring<MutexGuard<'_, State>> {
        Deferring::new(self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The device of a request, if the passive endpoint accepts requests from it.
    fn adapter_of(&self, id: &Id) -> Option<&'static Adapter> {
        let device = id.device()?;
        let mut all = adapters(params()).iter();
        let adapter = all.find(|adapter| adapter.device == device)?;
        let name = self.info.domain.name.as_deref().map(CStr::to_bytes);
        let fits = name.is_none_or(|name| {
            name == info::ANY_DOMAIN.to_bytes()
                || name.eq_ignore_ascii_case(adapter.name.as_bytes())
        });
        fits.then_some(adapter)
    }

    /// Reports a connection request.
    fn report(&self, state: &State, id: Id, bytes: &[u8]) {
        let Some(eq) = &state.eq else {
            return;
        };
        let Some(adapter) = self.adapter_of(&id) else {
            // The request ends with its identifier.
            return eq.queue.error(EqErr {
                fid: state.fid,
                err: Error::NODATA.code(),
                prov_errno: Error::NODATA.negative(),
                ..EqErr::default()
            });
        };
        let (local, peer) = (id.local(), id.peer());
        let data = private::decode_request(bytes, &local).to_vec();
        let mut info = info::of_request(adapter, &self.info, (local, peer));
        let handle = Request::open(id);
        info.handle = handle;
        // The sizes were not read from the caller, whose struct may end before them.
        set_sizes(&mut info);
        match info.write_for_event() {
            Ok((info, release)) => {
                // An event that is not read ends with its passive endpoint or its queue.
                let unread = Box::new(move || {
                    request::end(handle);
                    release();
                });
                let (queue, fid) = (&eq.queue, state.fid);
                queue.cm_event(FI_CONNREQ, fid, info, &data, Some(unread));
            }
            Err(error) => {
                log_warn!(&SOURCE, Subsys::EpCtrl, "request dropped: {error}");
                request::end(handle);
            }
        }
    }

    fn report_error(&self, state: &State, error: Error) {
        if let Some(eq) = &state.eq {
            eq.queue.error(EqErr {
                fid: state.fid,
                err: error.code(),
                prov_errno: error.negative(),
                ..EqErr::default()
            });
        }
    }
}

impl Listens for Shared {
    fn handle(&self, event: Event) {
        let state = self.state();
        match (event.kind, event.request) {
            (EventKind::Request, Some(id)) => self.report(&state, id, &event.private),
            (EventKind::DeviceRemoved, _) => self.report_error(&state, Error::NODEV),
            (EventKind::AddressChanged, _) => self.report_error(&state, Error::ADDRNOTAVAIL),
            _ => {}
        }
    }
}

impl Drop for Pep {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        let (id, eq, fid) = (state.id.take(), state.eq.take(), state.fid);
        drop(state);
        drop(id);
        if let Some(eq) = eq {
            eq.queue.forget(fid);
        }
    }
}

impl Kind for Pep {
    type Head = fid_pep;

    fn bind(&self, other: Other<'_>, flags: u64) -> Result {
        let eq = other.downcast::<Eq>().ok_or(Error::INVAL)?;
        if flags != 0 {
            return Err(Error::BADFLAGS);
        }
        let mut guard = self.shared.state();
        let state = &mut *guard;
        if state.eq.is_some() {
            return Err(Error::INVAL);
        }
        let id = state.id.as_mut().ok_or(Error::OPBADSTATE)?;
        let shared: Weak<Shared> = Arc::downgrade(&self.shared);
        let member = Listeners::join(&eq.queue, shared)?;
        id.migrate(member.channel(), member.token())?;
        state.eq = Some(Bound {
            queue: eq.queue.clone(),
            member,
            _use: eq.queue.uses.take(),
        });
        Ok(())
    }

    fn set_backlog(&self, backlog: c_int) -> Result {
        if backlog < 0 {
            return Err(Error::INVAL);
        }
        self.shared.state().backlog = backlog;
        Ok(())
    }
}

impl EpCalls for Pep {
    fn is_owner(&self, owner: Owner) -> bool {
        owner == Owner::Connected
    }

    fn get_opt(&self, opt: Opt) -> Result<OptValue> {
        match opt {
            Opt::CmDataSize => Ok(OptValue::Size(private::MOST)),
            _ => Err(Error::NOPROTOOPT),
        }
    }
}

impl CmCalls for Pep {
    fn name(&self) -> Result<Vec<u8>> {
        let state = self.shared.state();
        Ok(state.id.as_ref().map(Id::local).unwrap_or_default())
    }

    /// Replaces the identifier, because one that is bound cannot get another address.
    fn set_name(&self, bytes: &[u8]) -> Result {
        let mut guard = self.shared.state();
        let state = &mut *guard;
        if state.listening {
            return Err(Error::OPBADSTATE);
        }
        if !place::is_address(bytes) {
            return Err(Error::INVAL);
        }
        let mut id = Id::new(None, place::space_of(bytes), 0)?;
        id.bind(bytes)?;
        if let Some(eq) = &state.eq {
            id.migrate(eq.member.channel(), eq.member.token())?;
        }
        state.id = Some(id);
        Ok(())
    }

    fn addr_form(&self) -> AddrForm {
        Format::Ip.form()
    }

    fn listen(&self) -> Result {
        let mut guard = self.shared.state();
        let state = &mut *guard;
        if state.eq.is_none() {
            return Err(Error::NOEQ);
        }
        let id = state.id.as_ref().ok_or(Error::OPBADSTATE)?;
        if state.listening {
            return Err(Error::OPBADSTATE);
        }
        if id.local().is_empty() {
            let any = (Ipv4Addr::UNSPECIFIED, 0).into();
            id.bind(&addr::to_bytes(&any))?;
        }
        id.listen(state.backlog)?;
        state.listening = true;
        Ok(())
    }

    fn reject(&self, handle: Other<'_>, param: &[u8]) -> Result {
        private::encode(param)?;
        handle::take::<Request>(handle.number())?.reject(param)
    }
}
