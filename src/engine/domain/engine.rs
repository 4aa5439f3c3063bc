// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The state of a domain, its lock, and the engine that the handles of the domain's objects share.

use core::ffi::CStr;
use core::sync::atomic::{AtomicU64, Ordering};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::auth::Key;
use crate::domain_state::{DomainState, Regions};
use crate::eq::{Driver, EventQueue};
use crate::fabric::FabricShared;
use crate::mr::KeyPolicy;
use crate::mr::descs::Descs;
use crate::report::late::LateReceives;
use crate::stats::Stats;
use crate::transport::{DomainStateOf, Transport};
use abi::*;
use base::flags::flags;
use base::info::{DomainAttr, Info, since};
use base::log::{Source, Subsys, log_info};
use base::settings::Settings;
use base::text::names;
use base::{Caps, Error, MrMode, OpFlags, Result};
use hmem::driver::User;
use hmem::own_copies::{Functions, InUse};
use hmem::{import, ze};
use object::ops::transfer::Rx;
use sync::{Callers, Children, Guard, Lock, Refused, Serialized, Uses};
use sys::event::SharedFd;
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
    pub(super) fn children_may(&self) -> Children {
        self.domain.stats.abandon_in_child();
        self.transport.children_may()
    }

    #[inline(always)]
    pub fn progress(&mut self) {
        self.transport.progress(&mut self.domain);
        self.run_triggers();
    }

    /// Like `progress`, for a read of this completion queue.
    #[inline(always)]
    pub fn progress_queue(&mut self, cq: usize) {
        self.transport.progress_queue(&mut self.domain, cq);
        self.run_triggers();
    }

    /// Polls without system calls, for a thread that was just woken.
    pub fn take_ready(&mut self) {
        self.transport.take_ready(&mut self.domain);
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
    pub fn after_receive(&mut self, rx: &Rx) {
        if rx.flags.contains(OpFlags::PEEK) {
            self.progress();
            self.transport.hold();
        }
    }
}

/// Shared by a domain's handle and the handles of its objects.
pub struct Engine<T: Transport> {
    pub(super) state: Lock<State<T>>,
    /// Shared with the threads that sleep on it.
    pub(super) poll_fd: SharedFd,
    pub format: T::Format,
    pub(super) birth: Birth,
    pub(super) provider: &'static Source,
    /// The provider name in `fi_info` entries.
    pub(super) prov_name: &'static CStr,
    pub info: Info,
    pub api_version: u32,
    pub uses: Uses,
    /// Whether the transport uses the descriptors of the application's memory.
    pub(super) reads_descs: bool,
    /// Operations may name memory of devices (FI_HMEM).
    pub(super) takes_devices: bool,
    _device_user: Option<User>,
    /// The program's functions that copy device memory.
    own_copies: Mutex<Option<InUse>>,
    /// The engine has given regions their descriptors, in this table; otherwise the transport has.
    pub(super) gives_descs: bool,
    descs: Mutex<Descs>,
    /// Number of polls by the application. The progress thread stays idle while there are many.
    pub(super) looks: AtomicU64,
    pub(super) auto: bool,
    /// Number of the domain in this process.
    pub(super) number: u64,
    /// fi_domain_bind: the event queue of endpoints that have none of their own.
    pub(super) eq: Mutex<Option<Arc<EventQueue>>>,
    /// fi_domain_bind with FI_REG_MR: the event queue for registrations.
    pub(super) mr_eq: Mutex<Option<Arc<EventQueue>>>,
}

impl<T: Transport> Engine<T> {
    /// Makes the engine of a domain over an open transport.
    pub(super) fn open(
        fabric: &FabricShared<T>,
        info: Info,
        serialized: Serialized,
        transport: T,
        auto: bool,
    ) -> Result<Arc<Engine<T>>> {
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
        // fi_mr(3): before API 1.22 only FI_MR_LOCAL says that descriptors are valid or NULL.
        let has_descs = fabric.api_version >= since::V1_22
            || info.domain.mr_mode.intersects(flags!(MrMode: LOCAL | HMEM));
        let takes_devices = T::HMEM && info.caps.contains(Caps::HMEM);
        let device_user = takes_devices.then(user_of_devices);
        let gives_descs = takes_devices && !transport.reads_descs();
        let reads_descs = has_descs && (transport.reads_descs() || gives_descs);
        let mut domain = DomainState::new(Regions::new(policy));
        // The progress thread counts as a watcher.
        if auto {
            domain.watchers.add();
        }
        domain.auto = auto;
        domain.stats = Stats::open();
        domain.late = LateReceives::of(T::provider(&fabric.provider), T::SOURCE);
        let number = domain.stats.domain();
        let mut state = Lock::new(
            callers,
            serialized,
            State::children_may,
            State { domain, transport },
        )?;
        state.get_mut().domain.waiters = state.waiters();
        let engine = Arc::new(Engine {
            state,
            poll_fd,
            format,
            birth: Birth::here(),
            provider: T::provider(&fabric.provider),
            prov_name: T::prov_name(&fabric.provider),
            api_version: fabric.api_version,
            info,
            uses: Uses::default(),
            reads_descs,
            takes_devices,
            _device_user: device_user,
            own_copies: Mutex::default(),
            gives_descs,
            descs: Mutex::default(),
            looks: AtomicU64::new(0),
            auto,
            number,
            eq: Mutex::default(),
            mr_eq: Mutex::default(),
        });
        log_info!(
            engine.provider,
            Subsys::Domain,
            "domain {} opened: {}, progress {}, lock for {}",
            engine
                .info
                .domain
                .name
                .as_deref()
                .unwrap_or_default()
                .to_string_lossy(),
            names::THREADING.of(engine.info.domain.threading),
            if auto { "automatic" } else { "manual" },
            callers.words(),
        );
        Ok(engine)
    }

    pub(super) fn descs(&self) -> MutexGuard<'_, Descs> {
        self.descs.lock().unwrap_or_else(PoisonError::into_inner)
    }

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

    /// Records that this thread did not run for a while, because other threads used the processor: the next poll also
    /// looks where polls usually do not look.
    #[cold]
    pub(super) fn note_pause(&self) {
        if let Ok(mut state) = self.lock_data() {
            state.transport.poll_wide();
        }
    }

    /// Records that a call of the application polls the whole transport, so the progress thread may stay idle for a
    /// while. Called under the lock.
    #[inline]
    pub(super) fn note_poll(&self) {
        if self.auto {
            let looks = &self.looks;
            // Relaxed: only a hint, and written under the lock.
            let n = looks.load(Ordering::Relaxed);
            looks.store(n.wrapping_add(1), Ordering::Relaxed);
        }
    }

    pub fn poll_fd(&self) -> &SharedFd {
        &self.poll_fd
    }

    /// The authorization key of an object of the domain: the one given for it, or that of the domain.
    pub(super) fn auth_key(&self, size: usize, bytes: Option<&[u8]>) -> Result<Option<Key>> {
        let domain = domain_key::<T>(&self.info.domain)?;
        // With FI_AV_AUTH_KEY only vectors have keys.
        match self.has_keys_in_av() && size != 0 {
            true => Err(Error::INVAL),
            false => Key::given(size, bytes, domain.as_ref(), T::AUTH_KEY_SIZE),
        }
    }

    /// Completes the attributes with which an endpoint is opened: its authorization key and its traffic class.
    pub(super) fn with_defaults(&self, mut info: Info) -> Result<Info> {
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
    pub(super) fn give_keys(&self, state: &mut State<T>, ep: usize) -> Result {
        match state.domain.eps[ep].av {
            Some(av) if self.has_keys_in_av() => {
                let keys = state.domain.avs[av].keys.hold(ep);
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
    pub(super) fn flush_aside(&self) -> bool {
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

    fn fd(&self) -> BorrowedFd<'_> {
        self.poll_fd.as_fd()
    }
}

/// fi_domain(3), auth_key.
pub(super) fn domain_key<T: Transport>(attr: &DomainAttr) -> Result<Option<Key>> {
    let key = attr.auth_key.as_deref();
    if attr.auth_key_size == FI_AV_AUTH_KEY && T::AUTH_KEYS > 0 {
        return Ok(None);
    }
    Key::given(attr.auth_key_size, key, None, T::AUTH_KEY_SIZE)
}

/// A weak reference by which an event queue drives a domain without keeping it open.
pub fn driver<T: Transport>(engine: &Arc<Engine<T>>) -> Weak<dyn Driver> {
    let weak: Weak<Engine<T>> = Arc::downgrade(engine);
    weak
}

impl<T: Transport> Engine<T> {
    /// FI_SET_OPS_HMEM_OVERRIDE: the functions count until the domain is closed. `NOSYS`: the domain has no FI_HMEM.
    pub(super) fn copy_devices_by(&self, functions: Functions) -> Result {
        if !self.takes_devices {
            return Err(Error::NOSYS);
        }
        let mut own = (self.own_copies.lock()).unwrap_or_else(PoisonError::into_inner);
        *own = Some(InUse::new(functions));
        Ok(())
    }
}

/// Opens the drivers of devices for a domain, with the limits of the settings.
fn user_of_devices() -> User {
    let settings = Settings::get();
    let (count, bytes) = (settings.mr_cache_max_count, settings.mr_cache_max_size);
    import::limit(count, bytes);
    ze::engine::prefer(settings.hmem_ze_copy_engine.as_deref());
    User::new(|kind| settings.wants_hmem(kind))
}
