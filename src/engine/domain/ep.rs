// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The handle of an endpoint: fi_endpoint(3). `domain_state` keeps the objects that are bound to it; the transport
//! moves the bytes.

mod bind;
mod cm;
mod coll;
mod credits;
mod data;
mod device;
mod enable;
mod kind;
mod limits;
mod multicast;
pub mod options;
mod triggered;
mod wr;

use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

pub use self::cm::{CM_DATA_SIZE, cut};
pub(super) use self::device::copy_operands;
use self::limits::Limits;
use crate::domain::peers::Caller;
use crate::domain::sep::{Member, Side};
use crate::domain::{Engine, Locked, State};
use crate::ep_state::{EpState, Role};
use crate::srx::Srx;
use crate::transport::Transport;
use abi::*;
use base::flags::flags;
use base::info::Info;
use base::{Caps, Error, MsgOrder, OpFlags, Result};
use object::handle;
use object::ops;
use object::ops::transfer::Tx;
use object::ops::wr::record::new_stamp;
use object::peer::{PeerTransfer, Transferred};
use sync::stats::EpStats;
use sync::{Use, Uses};

/// Shared by an endpoint's handle and its aliases.
struct Shared<T: Transport> {
    engine: Arc<Engine<T>>,
    /// The number in `domain.eps`.
    id: usize,
    info: Info,
    /// FI_COMPLETION if the queue was bound without FI_SELECTIVE_COMPLETION.
    tx_implied: AtomicU64,
    rx_implied: AtomicU64,
    /// The bind flags of the counters.
    counted: AtomicU64,
    limits: Limits,
    /// The first bytes of its prepared work requests.
    stamp: u64,
    /// Keeps bound objects open.
    bound: Mutex<Vec<Use>>,
    /// Aliases keep the endpoint open, and so does a profile.
    aliases: Uses,
    /// An event queue was bound to the endpoint itself. Until then the one of the domain is used.
    has_own_eq: AtomicBool,
    /// A shared transmit context was bound.
    shares_transmits: AtomicBool,
    /// Set if this is a context of a scalable endpoint.
    member: Option<Member<T>>,
    /// The endpoint of another provider that moves the messages: fi_peer(3).
    owner: Option<Arc<PeerTransfer>>,
    /// The domain, or the scalable endpoint.
    _parent: Use,
}

pub struct Ep<T: Transport> {
    shared: Arc<Shared<T>>,
    tx_flags: AtomicU64,
    rx_flags: AtomicU64,
    /// Set if this handle is an alias.
    alias: Option<Use>,
}

/// Operation flags that define when an operation is complete.
const LEVELS: OpFlags = flags!(OpFlags:
    INJECT_COMPLETE | TRANSMIT_COMPLETE | DELIVERY_COMPLETE | COMMIT_COMPLETE
);

/// Operation flags that may be set as an endpoint's default.
const TX_FLAGS: OpFlags = flags!(OpFlags:
    COMPLETION | INJECT | INJECT_COMPLETE | TRANSMIT_COMPLETE | DELIVERY_COMPLETE | COMMIT_COMPLETE
    | TRANSMIT
);
const RX_FLAGS: OpFlags = flags!(OpFlags: COMPLETION | MULTI_RECV | RECV);

impl<T: Transport> Ep<T> {
    /// `owner`: another provider's endpoint that moves the messages, if that is how the transport works.
    pub fn open(
        engine: &Arc<Engine<T>>,
        info: Info,
        owner: Option<PeerTransfer>,
        context: *mut c_void,
    ) -> Result<*mut fid_ep> {
        let owner = owner.map(Arc::new);
        let info = engine.with_defaults(info)?;
        let mut guard = engine.lock()?;
        let state = &mut *guard;
        let mut srx = Srx::new();
        srx.eps = 1;
        srx.many_tagged = EpState::caps_of(&info).contains(Caps::TAGGED_MULTI_RECV);
        let name = engine.prov_name.to_string_lossy();
        let stats = state.domain.stats.record(&name, info.ep.ep_type);
        srx.stats = stats.clone();
        let srx = state.domain.srxs.insert(srx);
        let ep = Self::state(engine, &info, srx, context, &stats);
        let id = state.domain.eps.insert(ep);
        if let Err(error) = state.transport.open_ep(&mut state.domain, id, &info) {
            state.domain.eps.remove(id);
            state.domain.srxs.remove(srx);
            return Err(error);
        }
        if let Some(owner) = &owner {
            state.transport.lend_ep(id, owner);
        }
        drop(guard);
        Ok(Self::first_handle(engine, id, info, (None, owner), context))
    }

    /// Opens a context of a scalable endpoint.
    pub fn open_context(member: Member<T>, info: Info, context: *mut c_void) -> *mut fid_ep {
        let (engine, id) = (member.port.engine().clone(), member.id());
        if let Ok(mut state) = engine.lock() {
            state.domain.eps[id].context = context as usize;
            let ep = &mut state.domain.eps[id];
            ep.tx_size = info.tx.size;
            if member.side == Side::Receive {
                let hides = Self::hides_source(&engine, EpState::caps_of(&info));
                ep.narrow_receives(&info, hides);
            }
        }
        Self::first_handle(&engine, id, info, (Some(member), None), context)
    }

    /// fi_cq(3), fi_cq_readfrom: an endpoint without FI_SOURCE reports no sources, although its queue could.
    fn hides_source(engine: &Engine<T>, caps: Caps) -> bool {
        engine.info.caps.contains(Caps::SOURCE) && !caps.contains(Caps::SOURCE)
    }

    /// The initial engine state of an endpoint to which nothing is bound.
    pub fn state(
        engine: &Arc<Engine<T>>,
        info: &Info,
        srx: usize,
        context: *mut c_void,
        stats: &EpStats,
    ) -> EpState {
        let caps = EpState::caps_of(info);
        EpState {
            role: Role::Endpoint,
            fid: 0,
            context: context as usize,
            ep_type: info.ep.ep_type,
            caps,
            tx_cq: None,
            rx_cq: None,
            rx_implied: OpFlags::empty(),
            cntrs: Default::default(),
            behind: None,
            av: None,
            hides_source: Self::hides_source(engine, caps),
            user_ids: false,
            eq: engine.event_queue(),
            srx,
            shares_receives: false,
            checks_receives: caps.contains(Caps::EXACT_DIRECTED_RECV) || engine.takes_devices,
            ended: None,
            contexts: Vec::new(),
            enabled: false,
            more_follows: false,
            peer_number: FI_ADDR_NOTAVAIL,
            is_paused: false,
            orders_access: info.tx.msg_order.intersects(ACCESS_AFTER),
            tx_size: info.tx.size,
            tx_pending: 0,
            stats: stats.clone(),
        }
    }

    fn first_handle(
        engine: &Arc<Engine<T>>,
        id: usize,
        info: Info,
        (member, owner): (Option<Member<T>>, Option<Arc<PeerTransfer>>),
        context: *mut c_void,
    ) -> *mut fid_ep {
        let parent = match &member {
            None => engine.uses.take(),
            Some(member) => member.hold(),
        };
        // An ordinary endpoint's destinations name contexts only once an address vector with context bits is bound.
        let names_contexts = member.is_some();
        let shared = Arc::new(Shared {
            engine: engine.clone(),
            id,
            tx_implied: AtomicU64::new(OpFlags::COMPLETION.bits()),
            rx_implied: AtomicU64::new(OpFlags::COMPLETION.bits()),
            counted: AtomicU64::new(0),
            limits: Limits::new(&info, T::ATOMIC_SIZE, names_contexts, engine.takes_devices),
            stamp: new_stamp(),
            bound: Mutex::default(),
            aliases: Uses::default(),
            has_own_eq: AtomicBool::new(false),
            shares_transmits: AtomicBool::new(false),
            member,
            owner,
            _parent: parent,
            info,
        });
        shared.imply(OpFlags::COMPLETION);
        let (tx_flags, rx_flags) = (shared.info.tx.op_flags, shared.info.rx.op_flags);
        let handle = Self::handle(shared, tx_flags, rx_flags, None, context);
        if let Ok(mut state) = engine.lock() {
            state.domain.eps[id].fid = handle as usize;
        }
        handle
    }

    fn handle(
        shared: Arc<Shared<T>>,
        tx_flags: OpFlags,
        rx_flags: OpFlags,
        alias: Option<Use>,
        context: *mut c_void,
    ) -> *mut fid_ep {
        let caps = EpState::caps_of(&shared.info);
        shared.expect(tx_flags);
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
            Some(Side::Transmit) => rx = Caps::empty(),
            Some(Side::Receive) => tx &= !(Caps::MSG | Caps::TAGGED),
        }
        let ep = Ep {
            shared,
            tx_flags: AtomicU64::new(tx_flags.bits()),
            rx_flags: AtomicU64::new(rx_flags.bits()),
            alias,
        };
        handle::open(ep, class, context, |fid| fid_ep {
            fid,
            ops: core::ptr::from_ref(ops::ep::table::<Ep<T>>()).cast_mut(),
            cm: core::ptr::from_ref(cm).cast_mut(),
            msg: core::ptr::from_ref(msg_table::<T>(tx, rx)).cast_mut(),
            rma: core::ptr::from_ref(rma_table::<T>(tx)).cast_mut(),
            tagged: core::ptr::from_ref(tagged_table::<T>(tx, rx)).cast_mut(),
            atomic: table(
                tx,
                Caps::ATOMIC,
                ops::atomic::table::<Ep<T>>(),
                &ops::atomic::NONE,
            ),
            collective: table(
                caps,
                Caps::COLLECTIVE,
                ops::collective::table::<Ep<T>>(),
                &ops::collective::NONE,
            ),
            wr: table(caps, Caps::WR, ops::wr::table::<Ep<T>>(), &ops::wr::NONE),
        })
    }

    pub fn is_of(&self, engine: &Arc<Engine<T>>) -> bool {
        Arc::ptr_eq(engine, &self.shared.engine)
    }

    /// Whether the endpoint has a receiving side. Only transmit contexts have none.
    fn receives(&self) -> bool {
        let member = self.shared.member.as_ref();
        member.is_none_or(|member| member.side == Side::Receive)
    }

    /// The endpoint whose connections are used. A context uses those of its scalable endpoint.
    fn port(&self) -> usize {
        let member = self.shared.member.as_ref();
        member.map_or(self.shared.id, |member| member.port.id())
    }

    /// The operation flags that may be set as default: FI_TRIGGER and FI_MULTICAST only with the capability of that
    /// name.
    fn known_flags(&self, receives: bool) -> OpFlags {
        let caps = EpState::caps_of(&self.shared.info);
        let mut known = if receives { RX_FLAGS } else { TX_FLAGS };
        known.set(OpFlags::TRIGGER, caps.contains(Caps::TRIGGER));
        known.set(
            OpFlags::MULTICAST,
            !receives && caps.contains(Caps::MULTICAST),
        );
        known
    }

    /// Like `transmit`, if the destination may name a receive context, or if other operations may wait for this one.
    /// `check` decides under the lock whether the operation is posted.
    #[cold]
    fn post_from(&self, tx: &mut Tx<'_>, check: impl FnOnce(&State<T>) -> Result) -> Result {
        let engine = &*self.shared.engine;
        let mut guard = engine.lock_data()?;
        let state = &mut *guard;
        check(state)?;
        let (port, id) = (self.port(), self.shared.id);
        let result = match tx.flags.contains(OpFlags::TRIGGER) {
            false => state
                .transport
                .transmit_from(&mut state.domain, port, id, tx),
            true => self.transmit_when(state, tx),
        };
        state.run_triggers();
        state.posted();
        result
    }

    /// The state, while the endpoint is not yet enabled.
    fn unlocked_state(&self) -> Result<Locked<'_, T>> {
        let state = self.shared.engine.lock()?;
        match state.domain.eps[self.shared.id].enabled {
            true => Err(Error::OPBADSTATE),
            false => Ok(state),
        }
    }
}

impl<T: Transport> Transferred for Ep<T> {
    fn transferred(&self, context: usize, result: Result<(usize, u64)>) -> Result {
        let owner = self.shared.owner.as_ref().ok_or(Error::INVAL)?;
        let number = owner.end(context).ok_or(Error::INVAL)?;
        let mut guard = self.shared.engine.lock()?;
        let State { domain, transport } = &mut *guard;
        transport.transferred(domain, self.shared.id, number, result);
        Ok(())
    }
}

/// Message calls of an endpoint, or of a context of a scalable one, with the capabilities `tx` for sends and `rx` for
/// receives.
fn msg_table<T: Transport>(tx: Caps, rx: Caps) -> &'static fi_ops_msg {
    match (tx.contains(Caps::MSG), rx.contains(Caps::MSG)) {
        (true, true) => ops::msg::table::<Ep<T>>(),
        (true, false) => ops::msg::send_table::<Ep<T>>(),
        (false, true) => ops::msg::receive_table::<Ep<T>>(),
        (false, false) => &ops::msg::NONE,
    }
}

/// RMA calls of an endpoint, or of a context of a scalable one, with the capabilities `tx`.
fn rma_table<T: Transport>(tx: Caps) -> &'static fi_ops_rma {
    let has = |way: Caps| tx.contains(Caps::RMA | way);
    match (has(Caps::READ), has(Caps::WRITE)) {
        (true, true) => ops::rma::table::<Ep<T>>(),
        (true, false) => ops::rma::read_table::<Ep<T>>(),
        (false, true) => ops::rma::write_table::<Ep<T>>(),
        (false, false) => &ops::rma::NONE,
    }
}

/// Like `msg_table`.
fn tagged_table<T: Transport>(tx: Caps, rx: Caps) -> &'static fi_ops_tagged {
    match (tx.contains(Caps::TAGGED), rx.contains(Caps::TAGGED)) {
        (true, true) => ops::tagged::table::<Ep<T>>(),
        (true, false) => ops::tagged::send_table::<Ep<T>>(),
        (false, true) => ops::tagged::receive_table::<Ep<T>>(),
        (false, false) => &ops::tagged::NONE,
    }
}

/// The flags stored in one of an endpoint's atomic words.
#[inline]
fn current(word: &AtomicU64) -> OpFlags {
    OpFlags::from_bits_retain(word.load(Ordering::Relaxed))
}

fn table<O>(caps: Caps, needed: Caps, served: &'static O, none: &'static O) -> *mut O {
    let table = if caps.contains(needed) { served } else { none };
    core::ptr::from_ref(table).cast_mut()
}

impl<T: Transport> Drop for Shared<T> {
    fn drop(&mut self) {
        // A context ends with its membership; the scalable endpoint stays open.
        if self.member.is_some() {
            return;
        }
        self.engine.drain(self.id);
        let Ok(mut guard) = self.engine.lock_to_close() else {
            return;
        };
        let state = &mut *guard;
        state.transport.close_ep(&mut state.domain, self.id);
        state.domain.triggers.forget_ep(self.id);
        let ep = state.domain.eps.remove(self.id);
        if let Some(av) = ep.av {
            state.domain.avs[av].keys.release(self.id);
        }
        let srx = &mut state.domain.srxs[ep.srx];
        srx.eps -= 1;
        match srx.eps {
            0 => drop(state.domain.srxs.remove(ep.srx)),
            _ => srx.forget_ep(self.id),
        }
        let owes = state.domain.has_owner_calls();
        drop(guard);
        if owes {
            self.engine.deliver(Caller::Control);
        }
        if let Some(eq) = ep.eq {
            eq.forget(ep.fid);
        }
    }
}

/// Orders of a memory access after operations that were posted before it.
const ACCESS_AFTER: MsgOrder = flags!(MsgOrder: RAW | RAS | WAW | WAS | RMA_RAW | RMA_WAW);
