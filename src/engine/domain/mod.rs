// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A domain: fi_domain(3). The handle, and the engine behind it that the domain's objects share.
//!
//! FI_THREAD_COMPLETION uses the same mutex. To give each group of queues a lock, give each group its own `State`; only
//! `engine::domain` would change.

mod auto;
pub mod av;
pub mod av_set;
pub mod cntr;
pub mod cq;
mod drain;
mod due;
pub mod ep;
mod mr;
mod peers;
mod poll;
mod profile;
pub mod registered;
pub mod sep;
mod srx;
mod stx;
mod work;

use core::ffi::{CStr, c_void};
use core::sync::atomic::{AtomicU64, Ordering};
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::atomic::element_size;
use crate::auth::Key;
use crate::coll;
use crate::domain_state::{DomainState, Regions};
use crate::eq::{Driver, Eq, EventQueue};
use crate::fabric::FabricShared;
use crate::flusher::Flusher;
use crate::mr::{KeyPolicy, map_raw_key};
use crate::report::dump;
use crate::stats::Stats;
use crate::transport::{DomainStateOf, Transport};
use abi::*;
use base::info::{DomainAttr, Info, RxAttr, TxAttr};
use base::log::{Source, Subsys, log_info};
use base::{Caps, Error, OpFlags, Result};
use object::handle::{self, Kind, Other};
use object::ops;
use object::ops::atomic::{Elements, Family};
use object::ops::domain::*;
use object::ops::transfer::Rx;
use object::ops::work::WorkRequest;
use object::peer::PeerSrx;
use sync::{Callers, Children, Guard, Lock, Refused, Serialized, Use, Uses};
use sys::fork::Birth;

/// State protected by the domain lock.
pub struct State<T: Transport> {
    pub domain: DomainStateOf<T>,
    pub transport: T,
}

/// The state while its lock is held. Log lines written meanwhile reach callbacks of the application only after the lock
/// is released.
pub type Locked<'a, T> = Guard<'a, State<T>>;

impl<T: Transport> State<T> {
    /// Called after an operation was posted. Flushes at once if no thread flushes later.
    #[inline]
    pub fn posted(&mut self) {
        if self.transport.must_flush() {
            self.flush();
        }
    }

    /// Called in a child before anything else. Returns what the child may do.
    fn children_may(&self) -> Children {
        self.domain.stats.leave_to_parent();
        self.transport.children_may()
    }

    #[inline(always)]
    pub fn progress(&mut self) {
        self.transport.progress(&mut self.domain);
        self.run_triggers();
    }

    /// Polls without system calls, for a thread that was just woken.
    pub fn take_at_hand(&mut self) {
        self.transport.take_at_hand(&mut self.domain);
        self.run_triggers();
    }

    /// Polls everything, for a thread that is going to block: a descriptor that stays readable would end every sleep at
    /// once.
    pub fn progress_all(&mut self) {
        self.transport.progress_all(&mut self.domain);
        self.run_triggers();
    }

    #[inline]
    pub fn flush(&mut self) {
        self.transport.flush(&mut self.domain);
        self.run_triggers();
    }

    /// Called after a receive was posted. A peek is answered from the messages that are here, and reading its
    /// completion makes no progress, so a program that only peeks depends on this poll to see new messages. The poll
    /// follows the peek, so only the next peek finds what it brings. (MPICH looks here and among messages of the
    /// process to itself: in this order when it probes and in the other when it receives. If a probe found a message
    /// that had just arrived, the receive could take the wrong one.)
    #[inline]
    pub fn after_receive(&mut self, rx: &Rx<T::Memory>) {
        if rx.flags.contains(OpFlags::PEEK) {
            self.progress();
            self.transport.hold();
        }
    }
}

/// Shared by a domain's handle and the handles of its objects.
pub struct Engine<T: Transport> {
    state: Lock<State<T>>,
    poll_fd: RawFd,
    pub format: T::Format,
    birth: Birth,
    provider: &'static Source,
    /// The provider name in `fi_info` entries.
    prov_name: &'static CStr,
    pub info: Info,
    pub api_version: u32,
    pub uses: Uses,
    /// Number of polls by the application. The progress thread stays idle while there are many.
    looks: AtomicU64,
    auto: bool,
    /// Number of the domain in this process.
    number: u64,
    /// fi_domain_bind: the event queue of endpoints that have none of their own.
    eq: Mutex<Option<Arc<EventQueue>>>,
    /// fi_domain_bind with FI_REG_MR: the event queue for registrations.
    mr_eq: Mutex<Option<Arc<EventQueue>>>,
}

impl<T: Transport> Engine<T> {
    /// C gets `Refused` as `OPBADSTATE`. `Refused` has no size; an `Error` would make the result larger than the guard.
    #[inline]
    pub fn lock(&self) -> core::result::Result<Locked<'_, T>, Refused> {
        self.state.lock()
    }

    /// Like `lock`, for closing an object. If it fails, the object is left as it is.
    pub fn lock_to_close(&self) -> core::result::Result<Locked<'_, T>, Refused> {
        self.state.lock_to_close()
    }

    /// Like `lock`, from a call of the data path: with FI_THREAD_DOMAIN the application serializes those.
    #[inline(always)]
    pub fn lock_data(&self) -> core::result::Result<Locked<'_, T>, Refused> {
        self.state.lock_data()
    }

    /// Records that a call of the application polls the whole transport, so the progress thread may stay idle for a
    /// while. Called under the lock.
    #[inline]
    fn note_poll(&self) {
        if self.auto {
            let looks = &self.looks;
            // Relaxed: only a hint, and written under the lock.
            let n = looks.load(Ordering::Relaxed);
            looks.store(n.wrapping_add(1), Ordering::Relaxed);
        }
    }

    pub fn poll_fd(&self) -> RawFd {
        self.poll_fd
    }

    /// The authorization key of an object of the domain: the one given for it, or that of the domain.
    fn auth_key(&self, size: usize, bytes: Option<&[u8]>) -> Result<Option<Key>> {
        let domain = domain_key::<T>(&self.info.domain)?;
        // With FI_AV_AUTH_KEY only vectors have keys.
        match self.has_keys_in_av() && size != 0 {
            true => Err(Error::INVAL),
            false => Key::given(size, bytes, domain.as_ref(), T::AUTH_KEY_SIZE),
        }
    }

    /// Completes the attributes with which an endpoint is opened: its authorization key and its traffic class.
    fn with_defaults(&self, mut info: Info) -> Result<Info> {
        // fi_endpoint(3): FI_TC_UNSPEC.
        if info.tx.tclass == 0 {
            info.tx.tclass = self.info.domain.tclass;
        }
        // fi_domain(3): with FI_AV_AUTH_KEY all keys are those of vectors.
        if self.has_keys_in_av() && info.ep.ep_type == FI_EP_MSG.0 {
            return Err(Error::INVAL);
        }
        let key = self.auth_key(info.ep.auth_key_size, info.ep.auth_key.as_deref())?;
        info.ep.auth_key_size = key.as_ref().map_or(0, |key| key.bytes().len());
        info.ep.auth_key = key.map(|key| key.secret().clone());
        Ok(info)
    }

    /// With FI_AV_AUTH_KEY: gives the keys of its address vector to an endpoint that is being enabled.
    fn give_keys(&self, state: &mut State<T>, ep: usize) -> Result {
        match state.domain.ep(ep).av {
            Some(av) if self.has_keys_in_av() => {
                let keys = state.domain.av_mut(av).keys.hold(ep);
                state.transport.set_keys(ep, keys)
            }
            _ => Ok(()),
        }
    }

    /// Whether FI_AV_AUTH_KEY is used.
    pub fn has_keys_in_av(&self) -> bool {
        self.info.domain.auth_key_size == FI_AV_AUTH_KEY
    }

    pub fn event_queue(&self) -> Option<Arc<EventQueue>> {
        let eq = self.eq.lock().unwrap_or_else(PoisonError::into_inner);
        eq.clone()
    }

    pub fn registrations(&self) -> Option<Arc<EventQueue>> {
        let eq = self.mr_eq.lock().unwrap_or_else(PoisonError::into_inner);
        eq.clone()
    }

    /// Like `lock`, but from the flusher thread.
    fn flush_aside(&self) -> bool {
        let Ok(mut state) = self.state.lock_aside() else {
            return false;
        };
        state.flush();
        state.transport.end_holding();
        true
    }
}

impl<T: Transport> Driver for Engine<T> {
    fn drive(&self) {
        // Called by the thread that reads the event queue.
        let Ok(mut state) = self.lock() else {
            return;
        };
        self.note_poll();
        state.progress_all();
        state.flush();
    }

    fn fd(&self) -> RawFd {
        self.poll_fd
    }
}

/// The handle of a domain.
pub struct Domain<T: Transport> {
    engine: Arc<Engine<T>>,
    /// These end their threads when the handle is dropped.
    _auto: Option<auto::Thread>,
    _flusher: Option<Flusher>,
    /// Keeps the bound event queue open.
    eq: Mutex<Option<Use>>,
    _fabric: Use,
}

impl<T: Transport> Domain<T> {
    pub fn open(
        fabric: &Arc<FabricShared<T>>,
        info: Info,
        serialized: Serialized,
        context: *mut c_void,
    ) -> Result<*mut fid_domain> {
        check(&info.domain, T::CQ_DATA_SIZE)?;
        domain_key::<T>(&info.domain)?;
        let auto = fabric.wants_auto_progress(&info);
        let transport = T::open(&fabric.provider, &info)?;
        let policy = KeyPolicy::from_mr_mode(info.domain.mr_mode);
        // Event queues belong to the fabric, so a thread that reads connection events may run beside the thread that
        // the application uses for the domain.
        let connects = info.ep.ep_type == FI_EP_MSG.0;
        // Other threads may register memory or insert addresses, unless the application promises to serialize those
        // calls, too: fi_domain(3), threading.
        let unified = info.domain.progress == FI_PROGRESS_CONTROL_UNIFIED.0;
        let domain_alone = info.domain.threading == FI_THREAD_DOMAIN.0;
        let alone = unified && domain_alone;
        // Results of joins are events, too.
        let joins = info.caps.contains(Caps::COLLECTIVE);
        let callers = match auto || connects || joins || !alone {
            false => Callers::One,
            // Calls of event queues and control calls use `lock`.
            true if domain_alone && !auto => Callers::OneForData,
            true => Callers::Many,
        };
        let poll_fd = transport.poll_fd();
        let format = transport.format();
        let held_back = transport.held_back().cloned();
        let mut domain = DomainState::new(Regions::new(policy));
        // The progress thread counts as a watcher.
        domain.watchers = usize::from(auto);
        domain.contended = callers == Callers::Many;
        domain.auto = auto;
        domain.stats = Stats::open();
        let number = domain.stats.domain();
        let engine = Arc::new(Engine {
            state: Lock::new(
                callers,
                serialized,
                State::children_may,
                State { domain, transport },
            )?,
            poll_fd,
            format,
            birth: Birth::here(),
            provider: T::provider(&fabric.provider),
            prov_name: T::prov_name(&fabric.provider),
            api_version: fabric.api_version,
            info,
            uses: Uses::default(),
            looks: AtomicU64::new(0),
            auto,
            number,
            eq: Mutex::default(),
            mr_eq: Mutex::default(),
        });
        log_info!(
            engine.provider,
            Subsys::Domain,
            "domain {:?} opened: threading {}, progress {}, lock for {callers:?}",
            engine.info.domain.name,
            engine.info.domain.threading,
            if auto { "automatic" } else { "manual" },
        );
        let thread = match auto {
            true => Some(auto::Thread::start(&engine)?),
            false => None,
        };
        registered::register(&engine);
        dump::start();
        if let Some(held_back) = &held_back {
            let engine = Arc::downgrade(&engine);
            held_back.serve_by(move || engine.upgrade().is_some_and(|engine| engine.flush_aside()));
        }
        let domain = Domain {
            _fabric: fabric.uses.take(),
            _auto: thread,
            _flusher: held_back.map(Flusher),
            eq: Mutex::default(),
            engine,
        };
        Ok(handle::open(domain, FI_CLASS_DOMAIN, context, |fid| {
            fid_domain {
                fid,
                ops: core::ptr::from_ref(ops::domain::table::<Domain<T>>()).cast_mut(),
                mr: core::ptr::from_ref(ops::mr::table::<Domain<T>>()).cast_mut(),
            }
        }))
    }

    pub fn engine(&self) -> &Arc<Engine<T>> {
        &self.engine
    }
}

impl<T: Transport> Kind for Domain<T> {
    type Head = fid_domain;

    fn check_close(&self) -> Result {
        match self.engine.uses.any() {
            true => Err(Error::BUSY),
            false => Ok(()),
        }
    }

    /// fi_domain_bind: the event queue of endpoints that have none of their own, and with FI_REG_MR the one for
    /// registrations.
    fn bind(&self, other: Other<'_>, flags: u64) -> Result {
        let eq = other.downcast::<Eq>().ok_or(Error::INVAL)?;
        if flags & !FI_REG_MR != 0 {
            return Err(Error::BADFLAGS);
        }
        let engine = &*self.engine;
        let mut bound = self.eq.lock().unwrap_or_else(PoisonError::into_inner);
        match engine.event_queue() {
            // The queue that is bound already may also become the one for registrations.
            Some(known) if flags == 0 || !Arc::ptr_eq(&known, &eq.queue) => {
                return Err(Error::INVAL);
            }
            Some(_) => {}
            None => {
                *bound = Some(eq.queue.uses.take());
                set(&engine.eq, &eq.queue);
                // Without a lock only the application's thread for this domain may drive it, but any thread may read
                // the queue. Events of the domain are then reported only by calls of that thread.
                if engine.state.is_shared() {
                    engine.lock()?.domain.watchers += 1;
                    eq.queue.add_driver(driver(&self.engine))?;
                }
            }
        }
        if flags & FI_REG_MR != 0 {
            set(&engine.mr_eq, &eq.queue);
        }
        Ok(())
    }

    fn named(&self) -> Option<(&CStr, &CStr)> {
        Some((
            self.engine.prov_name,
            self.engine.info.domain.name.as_deref()?,
        ))
    }

    fn queue_work(&self, work: WorkRequest<'_>) -> Result {
        work::queue(&self.engine, work)
    }

    fn cancel_work(&self, name: usize) -> Result {
        work::cancel(&self.engine, name)
    }

    fn flush_work(&self, cntr: Option<Other<'_>>) -> Result {
        work::flush(&self.engine, cntr)
    }

    fn profile(&self, context: *mut c_void) -> Result<*mut fid_profile> {
        let of = self.engine.uses.take();
        Ok(profile::Profile::open(&self.engine, None, of, context))
    }

    fn map_raw_key(&self, raw: &[u8]) -> Result<u64> {
        map_raw_key(raw)
    }

    fn unmap_key(&self, _key: u64) -> Result {
        // A raw key is the key in bytes, so nothing is kept for it.
        Ok(())
    }
}

impl<T: Transport> DomainCalls for Domain<T> {
    fn api_version(&self) -> u32 {
        self.engine.api_version
    }

    fn open_av(&self, request: AvRequest<'_>, context: *mut c_void) -> Result<OpenedAv> {
        av::Av::open(&self.engine, request, context)
    }

    fn open_cq(&self, request: CqRequest<'_>, context: *mut c_void) -> Result<*mut fid_cq> {
        cq::Cq::open(&self.engine, request, context)
    }

    fn open_cntr(&self, request: CntrRequest<'_>, context: *mut c_void) -> Result<*mut fid_cntr> {
        cntr::Cntr::open(&self.engine, request, context)
    }

    fn open_ep(&self, info: Info, context: *mut c_void) -> Result<*mut fid_ep> {
        ep::Ep::open(&self.engine, info, context)
    }

    fn open_srx(
        &self,
        attr: Option<RxAttr>,
        owner: Option<PeerSrx>,
        context: *mut c_void,
    ) -> Result<*mut fid_ep> {
        srx::SharedRx::open(&self.engine, attr, owner, context)
    }

    fn open_stx(&self, attr: Option<TxAttr>, context: *mut c_void) -> Result<*mut fid_stx> {
        stx::SharedTx::open(&self.engine, attr, context)
    }

    fn open_sep(&self, info: Info, context: *mut c_void) -> Result<*mut fid_ep> {
        sep::ScalableEp::open(&self.engine, info, context)
    }

    fn open_poll(&self) -> Result<*mut fid_poll> {
        poll::PollSet::open(&self.engine)
    }

    fn query_collective(&self, query: &CollectiveQuery) -> Result<CollectiveLimits> {
        if !T::COLLECTIVES {
            return Err(Error::OPNOTSUPP);
        }
        let (size, _) = coll::check(query.what, query.datatype, query.op)?;
        Ok(CollectiveLimits {
            count: coll::MAX_BYTES.checked_div(size).unwrap_or(0),
            size,
            members: coll::MAX_MEMBERS,
        })
    }

    fn query_atomic(&self, family: Family, datatype: fi_datatype, op: fi_op) -> Result<Elements> {
        let size = element_size(family, datatype, op);
        let most = T::most_of(family, datatype, op);
        match size.filter(|&size| size <= most) {
            Some(size) => Ok(Elements {
                size,
                count: most / size,
            }),
            None => Err(Error::OPNOTSUPP),
        }
    }
}

fn set(place: &Mutex<Option<Arc<EventQueue>>>, queue: &Arc<EventQueue>) {
    *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(queue.clone());
}

/// fi_domain(3), auth_key.
fn domain_key<T: Transport>(attr: &DomainAttr) -> Result<Option<Key>> {
    let key = attr.auth_key.as_deref();
    if attr.auth_key_size == FI_AV_AUTH_KEY && T::AUTH_KEYS > 0 {
        return Ok(None);
    }
    Key::given(attr.auth_key_size, key, None, T::AUTH_KEY_SIZE)
}

/// Rejects values that are undefined, or that exceed what this provider supports.
fn check(attr: &DomainAttr, cq_data_size: usize) -> Result {
    let known = attr.threading <= FI_THREAD_ENDPOINT.0
        && attr.progress <= FI_PROGRESS_CONTROL_UNIFIED.0
        && attr.resource_mgmt <= FI_RM_ENABLED.0
        && attr.av_type <= FI_AV_TABLE.0;
    match known && attr.cq_data_size <= cq_data_size {
        true => Ok(()),
        false => Err(Error::INVAL),
    }
}

/// A weak reference by which an event queue drives a domain without keeping it open.
pub fn driver<T: Transport>(engine: &Arc<Engine<T>>) -> Weak<dyn Driver> {
    let weak: Weak<Engine<T>> = Arc::downgrade(engine);
    weak
}
