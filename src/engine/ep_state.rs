// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The engine's state of an endpoint: its attributes and the objects that are bound to it (fi_endpoint(3)).

use std::sync::Arc;

use crate::cntr::Counter;
use crate::eq::EventQueue;
use abi::*;
use base::flags::flags;
use base::info::Info;
use base::{Caps, Error, OpFlags, Result};

use object::ops::transfer::{Rx, What};
use sync::stats::{Count, EpStats};

/// The kinds of operations that a counter can be bound to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    Send,
    Recv,
    Read,
    Write,
    RemoteRead,
    RemoteWrite,
}

impl Event {
    pub const ALL: [Event; 6] = [
        Event::Send,
        Event::Recv,
        Event::Read,
        Event::Write,
        Event::RemoteRead,
        Event::RemoteWrite,
    ];

    /// The bind flag of fi_endpoint(3).
    pub const fn flag(self) -> u64 {
        match self {
            Event::Send => FI_SEND,
            Event::Recv => FI_RECV,
            Event::Read => FI_READ,
            Event::Write => FI_WRITE,
            Event::RemoteRead => FI_REMOTE_READ,
            Event::RemoteWrite => FI_REMOTE_WRITE,
        }
    }
}

/// One counter for each kind of event.
pub type Counters = [Option<Arc<Counter>>; 6];

/// Capabilities that may be requested in the receive attributes only.
const RX_EXTRAS: Caps = flags!(Caps:
    SOURCE_ERR | TAGGED_MULTI_RECV | TAGGED_DIRECTED_RECV | EXACT_DIRECTED_RECV | TRIGGER | ATOMIC
);
/// Receive capabilities that the receive attributes can remove.
const RX_MODIFIERS: Caps = flags!(Caps:
    SOURCE | SOURCE_ERR | DIRECTED_RECV | TAGGED_DIRECTED_RECV | EXACT_DIRECTED_RECV
);
/// Directions of messages, and of accesses to memory.
const MESSAGE_WAYS: Caps = flags!(Caps: SEND | RECV);
const MEMORY_WAYS: Caps = flags!(Caps: READ | WRITE | REMOTE_READ | REMOTE_WRITE);
/// Kinds of operations.
const KINDS: Caps = flags!(Caps: MSG | TAGGED | RMA | ATOMIC);
const TX_EXTRAS: Caps = flags!(Caps: FENCE | TRIGGER | ATOMIC);

/// Capabilities that need a transmit queue.
pub const INITIATES: Caps = flags!(Caps: SEND | READ | WRITE);

/// The part of an endpoint that an `EpState` represents.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    Endpoint,
    /// A scalable endpoint, and its receive context 0.
    Scalable {
        is_enabled: bool,
    },
    /// Another context of the scalable endpoint `of`.
    Receive {
        of: usize,
        index: usize,
    },
    Transmit {
        of: usize,
        index: usize,
    },
    /// Operations in flight of closed transmit contexts of the scalable endpoint `of`.
    Closed {
        of: usize,
    },
}

/// State of an endpoint, under the domain lock; its index is the one in `DomainState::eps`.
pub struct EpState {
    pub role: Role,
    /// The C handle and its context, which events contain.
    pub fid: usize,
    pub context: usize,
    pub ep_type: u32,
    pub caps: Caps,
    pub tx_cq: Option<usize>,
    pub rx_cq: Option<usize>,
    /// FI_COMPLETION for every receive of a shared context, unless the endpoint's queue was bound with
    /// FI_SELECTIVE_COMPLETION. Such a receive gets this flag with its message, because only the message determines the
    /// endpoint.
    pub rx_implied: OpFlags,
    pub cntrs: Counters,
    /// The counters that are bound, after deferred work was queued. `cntrs` then has watched counters that count
    /// nothing.
    pub behind: Option<Box<Counters>>,
    pub av: Option<usize>,
    /// The domain reports sources, but the receive attributes lack FI_SOURCE.
    pub hides_source: bool,
    /// Completions report identifiers of the application for some addresses (FI_AV_USER_ID).
    pub user_ids: bool,
    pub eq: Option<Arc<EventQueue>>,
    /// The receive context in `DomainState::srxs`: the endpoint's own, or one that it shares.
    pub srx: usize,
    /// The receive context is a shared one, to which receives are posted.
    pub shares_receives: bool,
    /// Receives are checked before they are posted, because the endpoint shares its context, receives must name their
    /// source, or no messages can arrive any more.
    pub checks_receives: bool,
    /// Why no messages can arrive any more: the error that ended the only connection.
    pub ended: Option<Error>,
    /// Indexes of the receive contexts of a scalable endpoint after the first, which is the endpoint's own.
    pub contexts: Vec<usize>,
    pub enabled: bool,
    /// FI_MORE guarantees that another operation follows (`OPT_MORE_FOLLOWS`).
    pub more_follows: bool,
    /// Source that completions give for the peer of a connected endpoint (`OPT_PEER_NUMBER`), or FI_ADDR_NOTAVAIL.
    pub peer_number: u64,
    /// Nothing is read from the peer of a connected endpoint (`OPT_PAUSE`).
    pub is_paused: bool,
    /// Memory accesses keep their order among each other, or with messages: FI_ORDER_RAW and similar.
    pub orders_access: bool,
    pub tx_size: usize,
    /// Operations that have not completed.
    pub tx_pending: usize,
    /// Statistics that other processes can read.
    pub stats: EpStats,
}

impl EpState {
    /// A context of the endpoint `of`, whose number is `number`, that the application does not see: the messages of the
    /// library itself. `index` is the number of the receive context.
    pub fn hidden(of: &EpState, number: usize, index: usize, cq: usize, srx: usize) -> EpState {
        EpState {
            role: Role::Receive { of: number, index },
            fid: 0,
            context: 0,
            ep_type: of.ep_type,
            caps: of.caps | flags!(Caps: MSG | TAGGED | SEND | RECV | DIRECTED_RECV),
            tx_cq: Some(cq),
            rx_cq: Some(cq),
            rx_implied: OpFlags::empty(),
            cntrs: Default::default(),
            behind: None,
            av: of.av,
            hides_source: false,
            user_ids: false,
            eq: None,
            srx,
            shares_receives: false,
            checks_receives: false,
            ended: None,
            contexts: Vec::new(),
            enabled: true,
            more_follows: false,
            peer_number: FI_ADDR_NOTAVAIL,
            is_paused: false,
            orders_access: false,
            tx_size: usize::MAX,
            tx_pending: 0,
            stats: EpStats::hidden(),
        }
    }

    /// The endpoint whose connections carry the operations of this one, which has the number `own`.
    pub fn port(&self, own: usize) -> usize {
        match self.role {
            Role::Receive { of, .. } | Role::Transmit { of, .. } | Role::Closed { of } => of,
            Role::Endpoint | Role::Scalable { .. } => own,
        }
    }

    /// The error for an operation that must be posted again later.
    #[cold]
    #[inline(never)]
    pub fn again(&self) -> Error {
        self.stats.count(Count::Again);
        Error::AGAIN
    }

    #[inline]
    pub fn cntr(&self, event: Event) -> Option<&Arc<Counter>> {
        self.cntrs[event as usize].as_ref()
    }

    /// Prepares for deferred work: its completions must be distinguished from those of other operations, which the
    /// endpoint's own counters count. Endpoints that never queue deferred work keep the direct counters.
    pub fn signal_work(&mut self) -> Result {
        if self.behind.is_some() {
            return Ok(());
        }
        let watcher = Arc::new(Counter::watcher()?);
        self.behind = Some(Box::new(self.cntrs.clone()));
        for event in [Event::Send, Event::Recv, Event::Read, Event::Write] {
            self.cntrs[event as usize] = Some(watcher.clone());
        }
        Ok(())
    }

    /// Binds a counter, before or after the endpoint is enabled.
    pub fn bind_counter(&mut self, event: Event, counter: &Arc<Counter>) {
        let slots = match &mut self.behind {
            // The watcher of `signal_work` stays in `cntrs`.
            Some(behind) => {
                if self.cntrs[event as usize].is_none() {
                    self.cntrs[event as usize] = Some(counter.clone());
                }
                &mut **behind
            }
            None => &mut self.cntrs,
        };
        slots[event as usize] = Some(counter.clone());
    }

    /// The counter that the application has bound.
    pub fn bound(&self, event: Event) -> Option<&Arc<Counter>> {
        self.behind.as_deref().unwrap_or(&self.cntrs)[event as usize].as_ref()
    }

    /// The capabilities in force for an endpoint that was opened with `info`.
    pub fn caps_of(info: &Info) -> Caps {
        let mut caps = info.caps | info.tx.caps & TX_EXTRAS | info.rx.caps & RX_EXTRAS;
        // fi_endpoint(3), fi_rx_attr: attributes without capabilities inherit those of the endpoint.
        if !info.rx.caps.is_empty() {
            caps &= info.rx.caps | !RX_MODIFIERS;
        }
        caps = with_directed(caps);
        // fi_getinfo(3), FI_SEND and FI_RECV: without FI_MSG and FI_TAGGED they include both kinds of messages.
        // Connected endpoints have tagged messages only on request.
        if !caps.intersects(Caps::MSG | Caps::TAGGED) && caps.intersects(Caps::SEND | Caps::RECV) {
            caps |= Caps::MSG;
            caps |= if info.ep.ep_type == FI_EP_MSG.0 {
                Caps::empty()
            } else {
                Caps::TAGGED
            };
        }
        // fi_getinfo(3): a capability without a direction includes all directions.
        if caps.intersects(Caps::MSG | Caps::TAGGED) && !caps.intersects(MESSAGE_WAYS) {
            caps |= MESSAGE_WAYS;
        }
        if caps.intersects(Caps::RMA | Caps::ATOMIC) && !caps.intersects(MEMORY_WAYS) {
            caps |= MEMORY_WAYS;
        }
        caps
    }

    /// Applies the attributes of a receive context of a scalable endpoint that is opened. The rest of the state stays,
    /// because memory and connections belong to the endpoint.
    pub fn narrow_receives(&mut self, info: &Info, hides_source: bool) {
        let caps = EpState::caps_of(info);
        self.caps = self.caps & !RX_MODIFIERS | caps & RX_MODIFIERS;
        self.checks_receives |= caps.contains(Caps::EXACT_DIRECTED_RECV);
        self.hides_source = hides_source;
    }

    /// The capabilities for calls of the sending and of the receiving side: all of the endpoint's, reduced by the
    /// attributes of that side (fi_endpoint(3)). A side without its direction has no messages: fi_getinfo(3), FI_SEND
    /// and FI_RECV.
    pub fn sides_of(info: &Info) -> (Caps, Caps) {
        let all = EpState::caps_of(info);
        (
            side_of(all, info.tx.caps, Caps::SEND),
            side_of(all, info.rx.caps, Caps::RECV),
        )
    }

    /// Whether deferred work may initiate such an operation.
    pub fn begins(&self, what: What) -> bool {
        self.caps.contains(match what {
            What::Msg => flags!(Caps: MSG | SEND),
            What::Tagged => flags!(Caps: TAGGED | SEND),
            What::Read => flags!(Caps: RMA | READ),
            What::Write => flags!(Caps: RMA | WRITE),
            What::Atomic | What::AtomicFetch => Caps::ATOMIC,
        })
    }

    /// Whether the endpoint can receive such messages.
    pub fn takes(&self, what: What) -> bool {
        self.caps.contains(match what {
            What::Tagged => flags!(Caps: TAGGED | RECV),
            _ => flags!(Caps: MSG | RECV),
        })
    }

    /// Whether receives may name their source.
    #[inline]
    pub fn directed(&self, what: What) -> bool {
        directed(self.caps, what)
    }

    /// Whether a receive may be posted here: fi_endpoint(3), fi_getinfo(3).
    #[cold]
    pub fn check_receive(&self, rx: &Rx) -> Result {
        // fi_endpoint(3): receives are posted to the shared context itself.
        if self.shares_receives {
            return Err(Error::NOSYS);
        }
        check_source(self.caps, rx)
    }
}

/// Whether receives of an endpoint or context with these capabilities may name their source.
#[inline]
pub fn directed(caps: Caps, what: What) -> bool {
    caps.contains(match what {
        What::Tagged => Caps::TAGGED_DIRECTED_RECV,
        _ => Caps::DIRECTED_RECV,
    })
}

/// fi_getinfo(3), FI_EXACT_DIRECTED_RECV: a directed receive has to name its source.
pub fn check_source(caps: Caps, rx: &Rx) -> Result {
    let exact = caps.contains(Caps::EXACT_DIRECTED_RECV);
    match exact && directed(caps, rx.what) && rx.src == FI_ADDR_UNSPEC {
        true => Err(Error::INVAL),
        false => Ok(()),
    }
}

/// fi_getinfo(3): FI_EXACT_DIRECTED_RECV alone applies to all receives; otherwise it modifies the other flags.
/// FI_DIRECTED_RECV includes tagged receives.
pub fn with_directed(mut caps: Caps) -> Caps {
    if caps & flags!(Caps: DIRECTED_RECV | TAGGED_DIRECTED_RECV | EXACT_DIRECTED_RECV)
        == Caps::EXACT_DIRECTED_RECV
    {
        caps |= Caps::DIRECTED_RECV;
    }
    if caps.contains(Caps::DIRECTED_RECV) {
        caps |= Caps::TAGGED_DIRECTED_RECV;
    }
    caps
}

/// Returns the part of `all` that one side has if its own attributes name `own`. `way` is the direction of the
/// messages of that side.
pub fn side_of(all: Caps, own: Caps, way: Caps) -> Caps {
    let named = |group: Caps| match own & group {
        own if own.is_empty() => Caps::all(),
        own => own | !group,
    };
    let mut side = all & named(KINDS) & named(MEMORY_WAYS);
    if !(all & named(MESSAGE_WAYS)).contains(way) {
        side &= !(Caps::MSG | Caps::TAGGED);
    }
    side
}
