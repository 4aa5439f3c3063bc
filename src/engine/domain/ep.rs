// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The handle of an endpoint: fi_endpoint(3). What is bound to it is in `core`; how bytes move is the transport's.
#![forbid(unsafe_code)]

mod coll;
mod data;
mod limits;
mod triggered;

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use self::limits::Limits;
use crate::abi::*;
use crate::base::info::Info;
use crate::base::log::{Subsys, log_misuse};
use crate::base::{Error, Result};
use crate::engine::domain::av::Av;
use crate::engine::domain::cntr::Cntr;
use crate::engine::domain::cq::Cq;
use crate::engine::domain::profile::Profile;
use crate::engine::domain::sep::{Member, Side};
use crate::engine::domain::srx::SharedRx;
use crate::engine::domain::stx::SharedTx;
use crate::engine::domain::{Engine, State, driver};
use crate::engine::ep_state::{EpState, Event};
use crate::engine::eq::Eq;
use crate::engine::srx::Srx;
use crate::engine::transport::{Address, CoreOf, Transport};
use crate::ffi::object;
use crate::ffi::ops;
use crate::ffi::ops::cm::{CmCalls, Join};
use crate::ffi::ops::ep::{EpCalls, OptKind, OptValue};
use crate::ffi::ops::transfer::Tx;
use crate::ffi::{Kind, Other, WaitHandle};
use crate::sync::{Guard, Use, Uses};

/// Shared by an endpoint's handle and its aliases.
struct Shared<T: Transport> {
    engine: Arc<Engine<T>>,
    /// The number in `core.eps`.
    id: usize,
    info: Info,
    /// FI_COMPLETION where the queue was bound without FI_SELECTIVE_COMPLETION.
    tx_implied: AtomicU64,
    rx_implied: AtomicU64,
    /// The bind flags of the counters.
    counted: AtomicU64,
    limits: Limits,
    /// What is bound stays open.
    bound: Mutex<Vec<Use>>,
    /// Aliases keep the endpoint open, and so does a profile.
    aliases: Uses,
    /// A queue was bound to the endpoint itself; until then that of the domain serves.
    has_own_eq: AtomicBool,
    /// A shared transmit context was bound.
    shares_transmits: AtomicBool,
    /// It is a context of a scalable endpoint.
    member: Option<Member<T>>,
    /// The domain, or the scalable endpoint.
    _parent: Use,
}

pub struct Ep<T: Transport> {
    shared: Arc<Shared<T>>,
    tx_flags: AtomicU64,
    rx_flags: AtomicU64,
    /// Held by an alias.
    alias: Option<Use>,
}

/// Operation flags that say when an operation is complete.
const LEVELS: u64 =
    FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE | FI_COMMIT_COMPLETE;

/// Operation flags that may be set as an endpoint's default.
const TX_FLAGS: u64 = FI_COMPLETION
    | FI_INJECT
    | FI_INJECT_COMPLETE
    | FI_TRANSMIT_COMPLETE
    | FI_DELIVERY_COMPLETE
    | FI_COMMIT_COMPLETE
    | FI_TRANSMIT;
const RX_FLAGS: u64 = FI_COMPLETION | FI_MULTI_RECV | FI_RECV;

impl<T: Transport> Ep<T> {
    pub fn open(engine: &Arc<Engine<T>>, info: Info, context: *mut c_void) -> Result<*mut fid_ep> {
        let info = engine.with_defaults(info)?;
        let mut guard = engine.lock()?;
        let state = &mut *guard;
        let mut srx = Srx::new();
        srx.eps = 1;
        srx.many_tagged = EpState::caps_of(&info) & FI_TAGGED_MULTI_RECV != 0;
        let srx = state.core.srxs.insert(srx);
        let ep = Self::state(engine, &info, srx, context);
        let id = state.core.eps.insert(ep);
        if let Err(error) = state.transport.open_ep(&mut state.core, id, &info) {
            state.core.eps.remove(id);
            state.core.srxs.remove(srx);
            return Err(error);
        }
        drop(guard);
        Ok(Self::first_handle(engine, id, info, None, context))
    }

    /// A context of a scalable endpoint.
    pub fn open_context(member: Member<T>, info: Info, context: *mut c_void) -> *mut fid_ep {
        let (engine, id) = (member.port.engine().clone(), member.id());
        if let Ok(mut state) = engine.lock() {
            state.core.eps[id].context = context as usize;
            state.core.eps[id].tx_size = info.tx.size;
        }
        Self::first_handle(&engine, id, info, Some(member), context)
    }

    /// What the engine knows of an endpoint to which nothing is bound yet.
    pub fn state(
        engine: &Arc<Engine<T>>,
        info: &Info,
        srx: usize,
        context: *mut c_void,
    ) -> EpState {
        let caps = EpState::caps_of(info);
        EpState {
            fid: 0,
            context: context as usize,
            ep_type: info.ep.ep_type,
            caps,
            tx_cq: None,
            rx_cq: None,
            rx_implied: 0,
            cntrs: Default::default(),
            behind: None,
            av: None,
            user_ids: false,
            eq: engine.event_queue(),
            srx,
            shares_receives: false,
            checks_receives: caps & FI_EXACT_DIRECTED_RECV != 0,
            contexts: Vec::new(),
            enabled: false,
            orders_access: info.tx.msg_order & ACCESS_AFTER != 0,
            tx_size: info.tx.size,
            tx_pending: 0,
        }
    }

    fn first_handle(
        engine: &Arc<Engine<T>>,
        id: usize,
        info: Info,
        member: Option<Member<T>>,
        context: *mut c_void,
    ) -> *mut fid_ep {
        let parent = match &member {
            None => engine.uses.take(),
            Some(member) => member.hold(),
        };
        let names_contexts = member.is_some() || info.caps & FI_NAMED_RX_CTX != 0;
        let shared = Arc::new(Shared {
            engine: engine.clone(),
            id,
            tx_implied: AtomicU64::new(FI_COMPLETION),
            rx_implied: AtomicU64::new(FI_COMPLETION),
            counted: AtomicU64::new(0),
            limits: Limits::new(&info, T::ATOMIC_SIZE, names_contexts),
            bound: Mutex::default(),
            aliases: Uses::default(),
            has_own_eq: AtomicBool::new(false),
            shares_transmits: AtomicBool::new(false),
            member,
            _parent: parent,
            info,
        });
        if EpState::caps_of(&shared.info) & FI_TRIGGER != 0 {
            shared.watch();
        }
        let (tx_flags, rx_flags) = (shared.info.tx.op_flags, shared.info.rx.op_flags);
        let handle = Self::handle(shared, tx_flags, rx_flags, None, context);
        if let Ok(mut state) = engine.lock() {
            state.core.eps[id].fid = handle as usize;
        }
        handle
    }

    fn handle(
        shared: Arc<Shared<T>>,
        tx_flags: u64,
        rx_flags: u64,
        alias: Option<Use>,
        context: *mut c_void,
    ) -> *mut fid_ep {
        let caps = EpState::caps_of(&shared.info);
        let side = shared.member.as_ref().map(|member| member.side);
        let class = match side {
            None => FI_CLASS_EP,
            Some(Side::Transmit) => FI_CLASS_TX_CTX,
            Some(Side::Receive) => FI_CLASS_RX_CTX,
        };
        let (mut tx, mut rx) = EpState::sides_of(&shared.info);
        let mut cm = &ops::cm::NONE;
        match side {
            None => cm = ops::cm::table::<Ep<T>>(),
            Some(Side::Transmit) => rx = 0,
            Some(Side::Receive) => tx &= !(FI_MSG | FI_TAGGED),
        }
        let ep = Ep {
            shared,
            tx_flags: AtomicU64::new(tx_flags),
            rx_flags: AtomicU64::new(rx_flags),
            alias,
        };
        object::open(ep, class, context, |fid| fid_ep {
            fid,
            ops: core::ptr::from_ref(ops::ep::table::<Ep<T>>()).cast_mut(),
            cm: core::ptr::from_ref(cm).cast_mut(),
            msg: core::ptr::from_ref(msg_table::<T>(tx, rx)).cast_mut(),
            rma: table(tx, FI_RMA, ops::rma::table::<Ep<T>>(), &ops::rma::NONE),
            tagged: core::ptr::from_ref(tagged_table::<T>(tx, rx)).cast_mut(),
            atomic: table(
                tx,
                FI_ATOMIC,
                ops::atomic::table::<Ep<T>>(),
                &ops::atomic::NONE,
            ),
            collective: table(
                caps,
                FI_COLLECTIVE,
                ops::collective::table::<Ep<T>>(),
                &ops::collective::NONE,
            ),
        })
    }

    pub fn is_of(&self, engine: &Arc<Engine<T>>) -> bool {
        Arc::ptr_eq(engine, &self.shared.engine)
    }

    fn may_share(&self) -> bool {
        T::SHARES_MEMORY && self.shared.info.ep.ep_type == FI_EP_RDM.0
    }

    /// It has a receiving side: it is no transmit context.
    fn receives(&self) -> bool {
        let member = self.shared.member.as_ref();
        member.is_none_or(|member| member.side == Side::Receive)
    }

    fn keep(&self, r#use: Use) {
        let mut bound = self.shared.bound.lock();
        bound
            .as_mut()
            .unwrap_or_else(|_| unreachable!("no panic while it is held"))
            .push(r#use);
    }

    fn bind_cq(&self, cq: &Cq<T>, flags: u64) -> Result {
        let (tx, rx) = (flags & FI_TRANSMIT != 0, flags & FI_RECV != 0);
        if flags & !(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION) != 0 {
            return Err(Error::BADFLAGS);
        }
        if !tx && !rx {
            return Err(Error::INVAL);
        }
        let id = cq.id_in(&self.shared.engine).ok_or(Error::DOMAIN)?;
        let mut state = self.shared.engine.lock()?;
        let ep = &state.core.eps[self.shared.id];
        if (tx && ep.tx_cq.is_some()) || (rx && ep.rx_cq.is_some()) {
            return Err(Error::INVAL);
        }
        // An enabled endpoint without it does nothing that would complete there, but for what peers write with data.
        let ep = &mut state.core.eps[self.shared.id];
        let implied = match flags & FI_SELECTIVE_COMPLETION {
            0 => FI_COMPLETION,
            _ => 0,
        };
        if tx {
            ep.tx_cq = Some(id);
            self.shared.tx_implied.store(implied, Ordering::Relaxed);
        }
        if rx {
            ep.rx_cq = Some(id);
            ep.rx_implied = if ep.shares_receives { implied } else { 0 };
            self.shared.rx_implied.store(implied, Ordering::Relaxed);
        }
        drop(state);
        self.keep(cq.uses.take());
        Ok(())
    }

    fn bind_cntr(&self, cntr: &Cntr<T>, flags: u64) -> Result {
        let known = Event::ALL.iter().fold(0, |all, event| all | event.flag());
        if flags & !known != 0 {
            return Err(Error::BADFLAGS);
        }
        // fi_endpoint(3): what peers do is counted for endpoints with FI_RMA_EVENT.
        let by_peers = flags & (FI_REMOTE_READ | FI_REMOTE_WRITE) != 0;
        let info = &self.shared.info;
        if flags == 0 || by_peers && (info.caps | info.rx.caps) & FI_RMA_EVENT == 0 {
            return Err(Error::INVAL);
        }
        let counter = cntr.counter_in(&self.shared.engine).ok_or(Error::DOMAIN)?;
        let mut guard = self.shared.engine.lock()?;
        let state = &mut *guard;
        let ep = &mut state.core.eps[self.shared.id];
        let wanted = || Event::ALL.iter().filter(|event| flags & event.flag() != 0);
        if wanted().any(|&event| ep.bound(event).is_some()) {
            return Err(Error::INVAL);
        }
        for &event in wanted() {
            ep.bind_counter(event, counter);
        }
        // Peers reach a context through the endpoint it belongs to, which may listen already.
        let is_known = ep.enabled || self.shared.member.is_some();
        if is_known && flags & (FI_REMOTE_READ | FI_REMOTE_WRITE) != 0 {
            state.transport.counts_accesses(&mut state.core);
        }
        if self.shared.engine.info.caps & FI_TRIGGER != 0 {
            self.shared.watch();
        }
        self.shared.counted.fetch_or(flags, Ordering::Relaxed);
        drop(guard);
        self.keep(cntr.uses.take());
        Ok(())
    }

    fn bind_av(&self, av: &Av<T>, flags: u64) -> Result {
        if flags != 0 {
            return Err(Error::BADFLAGS);
        }
        let id = av.id_in(&self.shared.engine).ok_or(Error::DOMAIN)?;
        let mut state = self.unlocked_state()?;
        let user_ids = state.core.avs[id].has_user_ids();
        let ep = &mut state.core.eps[self.shared.id];
        if ep.av.is_some() || ep.ep_type == FI_EP_MSG.0 {
            return Err(Error::INVAL);
        }
        ep.av = Some(id);
        ep.user_ids = user_ids;
        drop(state);
        self.keep(av.uses.take());
        Ok(())
    }

    fn bind_eq(&self, eq: &Eq, flags: u64) -> Result {
        if flags != 0 {
            return Err(Error::BADFLAGS);
        }
        let mut state = self.unlocked_state()?;
        let ep = &mut state.core.eps[self.shared.id];
        if self.shared.has_own_eq.swap(true, Ordering::Relaxed) {
            return Err(Error::INVAL);
        }
        ep.eq = Some(eq.queue.clone());
        let joins = ep.caps & FI_COLLECTIVE != 0 && self.shared.engine.state.is_shared();
        let connects = ep.ep_type == FI_EP_MSG.0 || joins;
        // For good: the queue drives the domain from now on.
        state.core.watchers += usize::from(connects);
        drop(state);
        if connects {
            eq.queue.add_driver(driver(&self.shared.engine))?;
        }
        self.keep(eq.queue.uses.take());
        Ok(())
    }

    fn bind_srx(&self, srx: &SharedRx<T>, flags: u64) -> Result {
        if flags != 0 {
            return Err(Error::BADFLAGS);
        }
        let id = srx.id_in(&self.shared.engine).ok_or(Error::DOMAIN)?;
        srx.check(&self.shared.info.rx)?;
        if self.shared.info.ep.rx_ctx_cnt != FI_SHARED_CONTEXT {
            return Err(Error::INVAL);
        }
        let mut state = self.unlocked_state()?;
        let core = &mut state.core;
        let ep = &mut core.eps[self.shared.id];
        if std::mem::replace(&mut ep.shares_receives, true) {
            return Err(Error::INVAL);
        }
        ep.checks_receives = true;
        ep.rx_implied = self.shared.rx_implied.load(Ordering::Relaxed);
        let own = std::mem::replace(&mut ep.srx, id);
        core.srxs.remove(own);
        core.srxs[id].eps += 1;
        drop(state);
        self.keep(srx.uses.take());
        Ok(())
    }

    fn bind_stx(&self, stx: &SharedTx<T>, flags: u64) -> Result {
        if flags != 0 {
            return Err(Error::BADFLAGS);
        }
        stx.check(&self.shared.engine, &self.shared.info.tx)?;
        if self.shared.info.ep.tx_ctx_cnt != FI_SHARED_CONTEXT {
            return Err(Error::INVAL);
        }
        let _disabled = self.unlocked_state()?;
        if self.shared.shares_transmits.swap(true, Ordering::Relaxed) {
            return Err(Error::INVAL);
        }
        self.keep(stx.uses.take());
        Ok(())
    }

    /// fi_endpoint(3), fi_ep_bind: a shared context that was announced must be there; and unconnected endpoints that
    /// share a receive context share the address vector, too.
    fn check_shared(&self, core: &CoreOf<T>) -> Result {
        let wants_stx = self.shared.info.ep.tx_ctx_cnt == FI_SHARED_CONTEXT;
        if wants_stx && !self.shared.shares_transmits.load(Ordering::Relaxed) {
            return Err(Error::OPBADSTATE);
        }
        let ep = &core.eps[self.shared.id];
        // Connected ones have always been enabled without, and receive by themselves then.
        let wants_srx = self.shared.info.ep.rx_ctx_cnt == FI_SHARED_CONTEXT;
        if wants_srx && !ep.shares_receives && ep.ep_type != FI_EP_MSG.0 {
            return Err(Error::OPBADSTATE);
        }
        let differs = |(_, other): (usize, &EpState)| {
            other.srx == ep.srx && other.enabled && other.av != ep.av
        };
        match ep.shares_receives && ep.ep_type != FI_EP_MSG.0 && core.eps.iter().any(differs) {
            true => Err(Error::INVAL),
            false => Ok(()),
        }
    }

    /// The endpoint whose connections serve: of a context, that of the scalable endpoint.
    fn port(&self) -> usize {
        let member = self.shared.member.as_ref();
        member.map_or(self.shared.id, |member| member.port.id())
    }

    /// As `transmit`, where the destination may name a receive context, or operations wait for others.
    #[cold]
    fn post_from(&self, tx: Tx<'_, T::Memory>) -> Result {
        let engine = &*self.shared.engine;
        let mut guard = engine.lock_data()?;
        let state = &mut *guard;
        let (port, id) = (self.port(), self.shared.id);
        let result = match tx.flags & FI_TRIGGER {
            0 => state.transport.transmit_from(&mut state.core, port, id, tx),
            _ => self.transmit_when(state, tx),
        };
        state.run_triggers();
        state.posted();
        result
    }

    /// The state, while the endpoint is not yet enabled.
    fn unlocked_state(&self) -> Result<Guard<'_, State<T>>> {
        let state = self.shared.engine.lock()?;
        match state.core.eps[self.shared.id].enabled {
            true => Err(Error::OPBADSTATE),
            false => Ok(state),
        }
    }
}

impl<T: Transport> Ep<T> {
    /// Why nothing is bound.
    #[cold]
    fn not_bound(&self, flags: u64, error: Error) {
        let (source, ctrl) = (self.shared.engine.provider, Subsys::EpCtrl);
        match error {
            Error::OPBADSTATE => {
                log_misuse!(source, ctrl, "not bound: the endpoint is enabled already");
            }
            Error::DOMAIN => log_misuse!(source, ctrl, "not bound: it is of another domain"),
            Error::BADFLAGS => {
                log_misuse!(
                    source,
                    ctrl,
                    "not bound: the flags {flags:#x} are not for it"
                );
            }
            Error::INVAL => log_misuse!(
                source,
                ctrl,
                "not bound (flags {flags:#x}): the endpoint has one for that, or does not take such an object or flags"
            ),
            other => log_misuse!(source, ctrl, "not bound (flags {flags:#x}): {other:?}"),
        }
    }

    /// Why the endpoint is not enabled.
    #[cold]
    fn not_enabled(&self, error: Error) {
        let (source, ctrl) = (self.shared.engine.provider, Subsys::EpCtrl);
        match error {
            Error::NOCQ => log_misuse!(
                source,
                ctrl,
                "not enabled: it needs a completion queue bound with FI_TRANSMIT if it sends, reads or writes, and one \
                 bound with FI_RECV if it receives"
            ),
            Error::NOAV => log_misuse!(source, ctrl, "not enabled: no address vector is bound"),
            Error::NOEQ => log_misuse!(source, ctrl, "not enabled: no event queue is bound"),
            Error::OPBADSTATE => log_misuse!(
                source,
                ctrl,
                "not enabled: it is already, or the shared context that it was opened for is not bound"
            ),
            Error::INVAL => log_misuse!(
                source,
                ctrl,
                "not enabled: endpoints on its shared receive context have another address vector"
            ),
            other => log_misuse!(source, ctrl, "not enabled: {other:?}"),
        }
    }

    fn try_bind(&self, other: Other<'_>, flags: u64) -> Result {
        if let Some(member) = &self.shared.member {
            member.check_bind(flags)?;
            let known =
                other.downcast::<Cq<T>>().is_some() || other.downcast::<Cntr<T>>().is_some();
            if !known {
                return Err(Error::INVAL);
            }
        }
        if let Some(cq) = other.downcast::<Cq<T>>() {
            self.bind_cq(cq, flags)
        } else if let Some(cntr) = other.downcast::<Cntr<T>>() {
            self.bind_cntr(cntr, flags)
        } else if let Some(av) = other.downcast::<Av<T>>() {
            self.bind_av(av, flags)
        } else if let Some(eq) = other.downcast::<Eq>() {
            self.bind_eq(eq, flags)
        } else if let Some(srx) = other.downcast::<SharedRx<T>>() {
            self.bind_srx(srx, flags)
        } else if let Some(stx) = other.downcast::<SharedTx<T>>() {
            self.bind_stx(stx, flags)
        } else {
            Err(Error::INVAL)
        }
    }

    fn try_enable(&self) -> Result {
        let mut guard = self.unlocked_state()?;
        let state = &mut *guard;
        match &self.shared.member {
            Some(member) => member.enable(state)?,
            None => {
                check_bound(&state.core.eps[self.shared.id])?;
                self.check_shared(&state.core)?;
                self.shared.engine.give_keys(state, self.shared.id)?;
                state.transport.enable_ep(&mut state.core, self.shared.id)?;
            }
        }
        let ep = &mut state.core.eps[self.shared.id];
        if ep.caps & FI_TRIGGER != 0 {
            ep.tell_work()?;
        }
        ep.enabled = true;
        Ok(())
    }
}

/// Calls of an endpoint, or of a context of a scalable one, that sends by `tx` and receives by `rx`.
fn msg_table<T: Transport>(tx: u64, rx: u64) -> &'static fi_ops_msg {
    match (tx & FI_MSG != 0, rx & FI_MSG != 0) {
        (true, true) => ops::msg::table::<Ep<T>>(),
        (true, false) => ops::msg::send_table::<Ep<T>>(),
        (false, true) => ops::msg::receive_table::<Ep<T>>(),
        (false, false) => &ops::msg::NONE,
    }
}

/// As `msg_table`.
fn tagged_table<T: Transport>(tx: u64, rx: u64) -> &'static fi_ops_tagged {
    match (tx & FI_TAGGED != 0, rx & FI_TAGGED != 0) {
        (true, true) => ops::tagged::table::<Ep<T>>(),
        (true, false) => ops::tagged::send_table::<Ep<T>>(),
        (false, true) => ops::tagged::receive_table::<Ep<T>>(),
        (false, false) => &ops::tagged::NONE,
    }
}

fn table<O>(caps: u64, needed: u64, served: &'static O, none: &'static O) -> *mut O {
    let table = if caps & needed != 0 { served } else { none };
    core::ptr::from_ref(table).cast_mut()
}

/// What must be bound before an endpoint is enabled: fi_endpoint(3), fi_ep_bind. Errors of what it initiates have to be
/// reported, which counters cannot do.
fn check_bound(ep: &EpState) -> Result {
    if (ep.caps & (FI_SEND | FI_READ | FI_WRITE) != 0 && ep.tx_cq.is_none())
        || (ep.caps & FI_RECV != 0 && ep.rx_cq.is_none())
    {
        return Err(Error::NOCQ);
    }
    match ep.ep_type == FI_EP_MSG.0 {
        true if ep.eq.is_none() => Err(Error::NOEQ),
        false if ep.av.is_none() => Err(Error::NOAV),
        _ => Ok(()),
    }
}

impl<T: Transport> Drop for Shared<T> {
    fn drop(&mut self) {
        // A context ends with its membership; the scalable endpoint goes on.
        if self.member.is_some() {
            return;
        }
        self.engine.drain(self.id);
        let Ok(mut guard) = self.engine.lock_to_close() else {
            return;
        };
        let state = &mut *guard;
        state.transport.close_ep(&mut state.core, self.id);
        state.core.triggers.forget_ep(self.id);
        let ep = state.core.eps.remove(self.id);
        if let Some(av) = ep.av {
            state.core.avs[av].keys.release(self.id);
        }
        let srx = &mut state.core.srxs[ep.srx];
        srx.eps -= 1;
        match srx.eps {
            0 => drop(state.core.srxs.remove(ep.srx)),
            _ => srx.forget_ep(self.id),
        }
        drop(guard);
        if let Some(eq) = ep.eq {
            eq.forget(ep.fid);
        }
    }
}

impl<T: Transport> Kind for Ep<T> {
    type Head = fid_ep;

    fn check_close(&self) -> Result {
        match self.alias.is_none() && self.shared.aliases.any() {
            true => Err(Error::BUSY),
            false => Ok(()),
        }
    }

    fn bind(&self, other: Other<'_>, flags: u64) -> Result {
        self.try_bind(other, flags)
            .inspect_err(|&error| self.not_bound(flags, error))
    }

    fn enable(&self) -> Result {
        self.try_enable()
            .inspect_err(|&error| self.not_enabled(error))
    }

    fn op_flags(&self, side: u64) -> Result<u64> {
        match (side & FI_TRANSMIT != 0, side & FI_RECV != 0) {
            (true, false) => Ok(self.tx_flags.load(Ordering::Relaxed)),
            (false, true) => Ok(self.rx_flags.load(Ordering::Relaxed)),
            _ => Err(Error::INVAL),
        }
    }

    fn set_op_flags(&self, flags: u64) -> Result {
        let (slot, side, known) = match (flags & FI_TRANSMIT != 0, flags & FI_RECV != 0) {
            (true, false) => (&self.tx_flags, FI_TRANSMIT, TX_FLAGS),
            (false, true) => (&self.rx_flags, FI_RECV, RX_FLAGS),
            _ => return Err(Error::INVAL),
        };
        if flags & !(known | (EpState::caps_of(&self.shared.info) & FI_TRIGGER)) != 0 {
            return Err(Error::BADFLAGS);
        }
        slot.store(flags & !side, Ordering::Relaxed);
        Ok(())
    }

    fn alias(&self, flags: u64) -> Result<*mut fid> {
        let (tx, rx) = (flags & FI_TRANSMIT != 0, flags & FI_RECV != 0);
        if tx == rx {
            return Err(Error::INVAL);
        }
        let known = if rx { RX_FLAGS } else { TX_FLAGS };
        if flags & !(known | (EpState::caps_of(&self.shared.info) & FI_TRIGGER)) != 0 {
            return Err(Error::BADFLAGS);
        }
        let current = |slot: &AtomicU64| slot.load(Ordering::Relaxed);
        let flags = flags & !(FI_TRANSMIT | FI_RECV);
        let (tx_flags, rx_flags) = match rx {
            true => (current(&self.tx_flags), flags),
            false => (flags, current(&self.rx_flags)),
        };
        let context = self.shared.engine.lock()?.core.eps[self.shared.id].context;
        let handle = Self::handle(
            self.shared.clone(),
            tx_flags,
            rx_flags,
            Some(self.shared.aliases.take()),
            context as *mut c_void,
        );
        Ok(handle.cast())
    }

    fn profile(&self, context: *mut c_void) -> Result<*mut fid_profile> {
        let of = self.shared.aliases.take();
        let ep = Some(self.shared.id);
        Ok(Profile::open(&self.shared.engine, ep, of, context))
    }

    /// An endpoint has no wait object of its own; its queues have. What it may have is a socket: FI_GET_FD.
    fn wait_handle(&self) -> Result<WaitHandle> {
        if self.shared.member.is_some() {
            return Err(Error::NOSYS);
        }
        let state = self.shared.engine.lock()?;
        state.transport.socket(self.shared.id).map(WaitHandle::Fd)
    }
}

impl<T: Transport> EpCalls for Ep<T> {
    fn get_opt(&self, name: c_int) -> Result<OptValue> {
        let info = &self.shared.info;
        let size = match name {
            FI_OPT_MIN_MULTI_RECV if self.receives() => {
                let state = self.shared.engine.lock()?;
                state.core.srxs[state.core.eps[self.shared.id].srx].min_multi_recv
            }
            FI_OPT_CM_DATA_SIZE if info.ep.ep_type == FI_EP_MSG.0 => CM_DATA_SIZE,
            FI_OPT_TX_SIZE => info.tx.size,
            FI_OPT_RX_SIZE => info.rx.size,
            _ => {
                let limit = self.shared.limits.named(name, EpState::caps_of(info));
                limit.ok_or(Error::NOPROTOOPT)?.load(Ordering::Relaxed)
            }
        };
        Ok(OptValue::Size(size))
    }

    fn set_opt(&self, name: c_int, value: &dyn Fn(OptKind) -> Result<OptValue>) -> Result {
        match name {
            FI_OPT_MIN_MULTI_RECV if self.receives() => {
                if let OptValue::Size(size) = value(OptKind::Size)? {
                    let mut state = self.shared.engine.lock()?;
                    let srx = state.core.eps[self.shared.id].srx;
                    state.core.srxs[srx].min_multi_recv = size;
                }
                Ok(())
            }
            // Where shared memory is not used, whatever is permitted. Nothing else is where there is nothing else.
            FI_OPT_SHARED_MEMORY_PERMITTED if !self.may_share() => value(OptKind::Bool).map(drop),
            FI_OPT_SHARED_MEMORY_PERMITTED if self.shared.member.is_none() => {
                match value(OptKind::Bool)? {
                    OptValue::Bool(on) => {
                        let id = self.shared.id;
                        self.unlocked_state()?.transport.permit_sharing(id, on)
                    }
                    _ => Err(Error::INVAL),
                }
            }
            // fi_endpoint(3): there is no CUDA here.
            FI_OPT_CUDA_API_PERMITTED if T::HMEM => Err(Error::INVAL),
            FI_OPT_FIREWALL_ADDR if self.shared.member.is_none() => match value(OptKind::Bool)? {
                OptValue::Bool(on) => self
                    .shared
                    .engine
                    .lock()?
                    .transport
                    .set_firewalled(self.shared.id, on),
                _ => Err(Error::INVAL),
            },
            _ => {
                let info = &self.shared.info;
                let limit = self.shared.limits.named(name, EpState::caps_of(info));
                let limit = limit.ok_or(Error::NOPROTOOPT)?;
                if let OptValue::Size(size) = value(OptKind::Size)? {
                    let _disabled = self.unlocked_state()?;
                    if size > Limits::most(name, info, T::ATOMIC_SIZE) {
                        return Err(Error::INVAL);
                    }
                    limit.store(size, Ordering::Relaxed);
                    self.shared.limits.set_any();
                }
                Ok(())
            }
        }
    }

    fn cancel(&self, context: usize) -> Result {
        // fi_endpoint(3): operations without a context cannot be cancelled.
        if context == 0 {
            return Ok(());
        }
        let mut guard = self.shared.engine.lock()?;
        let State { core, transport } = &mut *guard;
        if core.cancel_triggered(self.shared.id, context) {
            guard.run_triggers();
            return Ok(());
        }
        // A receive that is not there any more has met its message.
        let cancelled = match self.receives() {
            true => core.cancel(self.shared.id, context),
            false => Err(Error::NOENT),
        };
        match cancelled {
            Err(Error::NOENT) => transport.cancel(core, self.shared.id, context),
            result => result?,
        }
        guard.run_triggers();
        Ok(())
    }

    fn rx_size_left(&self) -> Result<usize> {
        let state = self.shared.engine.lock()?;
        match state.core.eps[self.shared.id].enabled {
            true => Ok(self.shared.info.rx.size),
            false => Err(Error::OPBADSTATE),
        }
    }

    fn tx_size_left(&self) -> Result<usize> {
        let mut guard = self.shared.engine.lock()?;
        let State { core, transport } = &mut *guard;
        let ep = &core.eps[self.shared.id];
        if !ep.enabled {
            return Err(Error::OPBADSTATE);
        }
        if core.may_post(self.shared.id).is_err() {
            return Ok(0);
        }
        let queue = match self.shared.limits.strict {
            true => usize::from(ep.tx_pending == 0),
            false => ep.tx_size - ep.tx_pending,
        };
        let info = &self.shared.info;
        let room = transport.tx_room(self.port(), info.tx.inject_size, EpState::caps_of(info));
        Ok(queue.min(room))
    }
}

/// Bytes of private data that fi_connect and its sisters take (FI_OPT_CM_DATA_SIZE).
pub const CM_DATA_SIZE: usize = 256;

/// fi_cm(3): application data that does not fit is cut without a word.
pub fn cut(param: &[u8]) -> &[u8] {
    &param[..param.len().min(CM_DATA_SIZE)]
}

impl<T: Transport> CmCalls for Ep<T> {
    fn name(&self) -> Result<Vec<u8>> {
        self.shared.engine.lock()?.transport.name(self.shared.id)
    }

    fn set_name(&self, addr: &[u8]) -> Result {
        let mut state = self.unlocked_state()?;
        state.transport.set_name(self.shared.id, addr)
    }

    fn peer(&self) -> Result<Vec<u8>> {
        self.shared.engine.lock()?.transport.peer(self.shared.id)
    }

    fn addr_len(&self, addr: *const c_void) -> usize {
        T::Addr::len_at(addr)
    }

    fn connect(&self, addr: Option<&[u8]>, param: &[u8]) -> Result {
        let param = cut(param);
        self.cm(|state, id| state.transport.connect(&mut state.core, id, addr, param))
    }

    fn accept(&self, param: &[u8]) -> Result {
        let param = cut(param);
        self.cm(|state, id| state.transport.accept(&mut state.core, id, param))
    }

    fn join(&self, join: &Join<'_>, context: *mut c_void) -> Result<*mut fid_mc> {
        self.join_group(join, context)
    }

    fn shutdown(&self, flags: u64) -> Result {
        if flags != 0 {
            return Err(Error::BADFLAGS);
        }
        if self.shared.info.ep.ep_type != FI_EP_MSG.0 {
            return Err(Error::NOSYS);
        }
        self.shared.engine.drain(self.shared.id);
        let mut guard = self.shared.engine.lock()?;
        let State { core, transport } = &mut *guard;
        transport.shutdown(core, self.shared.id)
    }
}

impl<T: Transport> Ep<T> {
    /// A call of fi_cm(3), which enables the endpoint if that has not been done.
    fn cm(&self, call: impl FnOnce(&mut State<T>, usize) -> Result) -> Result {
        if self.shared.info.ep.ep_type != FI_EP_MSG.0 {
            return Err(Error::NOSYS);
        }
        match self.try_enable() {
            Ok(()) => {}
            // It had been done.
            Err(Error::OPBADSTATE) if self.unlocked_state().is_err() => {}
            Err(error) => {
                self.not_enabled(error);
                return Err(error);
            }
        }
        call(&mut *self.shared.engine.lock()?, self.shared.id)
    }
}

/// Orders of an access to memory behind what was posted before it.
const ACCESS_AFTER: u64 =
    FI_ORDER_RAW | FI_ORDER_RAS | FI_ORDER_WAW | FI_ORDER_WAS | FI_ORDER_RMA_RAW | FI_ORDER_RMA_WAW;
