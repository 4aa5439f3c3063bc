// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Turns the command line into an endpoint that can reach the peer's, with a posted receive.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::control::{Address, Control, Role};
use crate::game::{END, SIZES};
use crate::journal::note;
use crate::operation::Operation;
use crate::options::Options;
use crate::sockaddr;
use abi::*;
use calls::endpoint::{Endpoint, Plan};
use calls::failure::{Failure, Result};
use calls::info::{Hints, Query};
use calls::remote::{Access, Place, Target, longest_atomic};
use calls::{fabric, text};
use client::{Domain, Eq, Event, Fabric, Info, InfoList, PassiveEp};

pub struct Session {
    pub endpoint: Endpoint,
    /// The longest message that the endpoint takes.
    pub longest: usize,
    pub about: About,
    /// The target of accesses to the peer's memory.
    pub place: Place,
    pub rest: Rest,
}

/// Objects that stay open as long as the endpoint.
#[derive(Default)]
pub struct Rest {
    /// Memory that the peer may access.
    target: Option<Target>,
    /// The listener that accepted the connection.
    listener: Option<Arc<PassiveEp>>,
}

/// Description of the opened endpoint, for reports.
#[derive(Clone)]
pub struct About {
    pub provider: Option<String>,
    pub domain: Option<String>,
    pub endpoint: &'static str,
}

impl Session {
    pub fn open(options: &Options, control: &mut Control) -> Result<Session> {
        let mut session = Session::reach(options, control)?;
        if let Some(target) = &session.rest.target {
            session.place = control.exchange_place(target.place)?;
        }
        Ok(session)
    }

    fn reach(options: &Options, control: &mut Control) -> Result<Session> {
        let ep_type = options.ep_type.unwrap_or(FI_EP_DGRAM);
        let hints = hints(options, ep_type)?;
        match (ep_type, control.role) {
            (FI_EP_MSG, Role::Server) => accept(options, hints, control),
            (FI_EP_MSG, Role::Client) => connect(options, hints, control),
            (_, Role::Server) => {
                let (mut session, own) = unconnected(options, None)?;
                control.send_address(&own)?;
                let peer = control.receive_address()?;
                session.endpoint.set_peer(&peer.bytes)?;
                Ok(session)
            }
            (_, Role::Client) => {
                let peer = control.receive_address()?;
                let (mut session, own) = unconnected(options, Some(&peer))?;
                session.endpoint.set_peer(&peer.bytes)?;
                control.send_address(&own)?;
                Ok(session)
            }
        }
    }
}

/// Opens an endpoint without connections, and returns its address, too.
fn unconnected(options: &Options, peer: Option<&Address>) -> Result<(Session, Address)> {
    let of = |ep_type| -> Result<InfoList> {
        let hints = hints(options, ep_type)?;
        ask(options, peer.into_iter().fold(hints, toward))
    };
    let list = match options.ep_type {
        Some(ep_type) => of(ep_type)?,
        // Datagrams as in all releases, if they are available. A peer of another release always uses datagrams.
        None => match of(FI_EP_DGRAM) {
            Err(failure) if failure.code() == FI_ENODATA => of(FI_EP_RDM)?,
            list => list?,
        },
    };
    let info = first(&list)?;
    let fabric = fabric::open(info)?;
    let session = endpoint(options, &fabric, info, None)?;
    let address = Address {
        format: info.raw().addr_format,
        bytes: session.endpoint.address()?,
    };
    Ok((session, address))
}

fn accept(options: &Options, hints: Hints, control: &mut Control) -> Result<Session> {
    let list = ask(options, hints)?;
    let info = first(&list)?;
    let fabric = fabric::open(info)?;
    let events = fabric::events(&fabric)?;
    let listener = fabric::listen(&fabric, info, &events)?;
    control.send_address(&Address {
        format: info.raw().addr_format,
        bytes: listener.name().map_err(Failure::by("fi_getname"))?,
    })?;
    note!("waiting for a connection");
    let request = wait(
        &events,
        control,
        "connection request",
        |event| match event {
            Event::Request { info, .. } => Some(info),
            _ => None,
        },
    )?;
    let info = first(&request)?;
    let mut session = endpoint(options, &fabric, info, Some(&events))?;
    session.rest.listener = Some(listener);
    session.endpoint.accept()?;
    wait(&events, control, "connection", connected)?;
    Ok(session)
}

fn connect(options: &Options, hints: Hints, control: &mut Control) -> Result<Session> {
    let peer = control.receive_address()?;
    let list = ask(options, toward(hints, &peer))?;
    let info = first(&list)?;
    let fabric = fabric::open(info)?;
    let events = fabric::events(&fabric)?;
    let session = endpoint(options, &fabric, info, Some(&events))?;
    session.endpoint.connect(&peer.bytes)?;
    wait(&events, control, "connection", connected)?;
    Ok(session)
}

fn endpoint(
    options: &Options,
    fabric: &Arc<Fabric>,
    info: Info<'_>,
    events: Option<&Arc<Eq>>,
) -> Result<Session> {
    note!("opening this endpoint:\n{}", text::info(info));
    let domain = fabric::domain(fabric, info)?;
    let longest = limit(options, &domain, info)?;
    let fits = |size: &&usize| **size <= longest;
    let largest = SIZES.iter().filter(fits).max().copied().unwrap_or(0);
    let room = options.size.unwrap_or(largest).max(END.len());
    let plan = Plan {
        // The second half is for the values that a fetching operation returns.
        longest: if options.operation.is_atomic() {
            2 * room
        } else {
            room
        },
        tag: (options.operation == Operation::Tagged).then_some(TAG),
        window: options.window as usize,
        access: match options.operation.access() {
            None => FI_SEND,
            Some(_) => FI_SEND | FI_WRITE | FI_READ,
        },
        inject: options.window == 1 || options.operation == Operation::Inject,
    };
    let target = match options.operation.access() {
        Some(_) => Some(Target::open(&domain, info, room)?),
        None => None,
    };
    let mut endpoint = Endpoint::open(&domain, info, events, &plan)?;
    endpoint.post_by(Instant::now() + LIMIT, Endpoint::receive)?;
    note!("endpoint is open");
    Ok(Session {
        endpoint,
        longest,
        about: About {
            provider: info.provider(),
            domain: info.domain_name(),
            endpoint: match info.ep_type() {
                FI_EP_MSG => "msg",
                FI_EP_RDM => "rdm",
                _ => "dgram",
            },
        },
        place: Place::default(),
        rest: Rest {
            target,
            listener: None,
        },
    })
}

/// Returns the greatest length of a message or access. Fails if the requested size is longer.
fn limit(options: &Options, domain: &Arc<Domain>, info: Info<'_>) -> Result<usize> {
    let operation = options.operation;
    let (limit, what) = match operation {
        Operation::Inject => {
            let inject = info.tx().map_or(0, |attr| attr.inject_size);
            (
                inject.saturating_sub(info.msg_prefix(FI_SEND)),
                "tx_attr.inject_size",
            )
        }
        Operation::Access(access @ (Access::Atomic | Access::Fetch)) => {
            let limit = longest_atomic(domain, access == Access::Fetch).ok_or_else(|| {
                let message = "this endpoint has no FI_SUM of FI_UINT64";
                Failure::new(format!("--op {}", operation.name()), FI_EOPNOTSUPP).detail(message)
            })?;
            (limit, "the count of fi_query_atomic")
        }
        _ => return Ok(longest(info)),
    };
    let refused = |why: String| {
        Err(Failure::new(format!("--op {}", operation.name()), FI_EMSGSIZE).detail(why))
    };
    match options.size {
        Some(size) if size > limit => refused(format!("{size} bytes, but {what} is {limit}")),
        Some(size) if operation.is_atomic() && (size == 0 || size % 8 != 0) => {
            refused(format!("{size} bytes are no numbers of 8 bytes"))
        }
        _ => Ok(limit),
    }
}

fn longest(info: Info<'_>) -> usize {
    let Some(attr) = info.ep() else {
        return 0;
    };
    match info.raw().mode & FI_MSG_PREFIX {
        0 => attr.max_msg_size,
        _ => attr.max_msg_size.saturating_sub(attr.msg_prefix_size),
    }
}

fn hints(options: &Options, ep_type: fi_ep_type) -> Result<Hints> {
    let mut hints = Hints::new()?;
    let operation = options.operation;
    *hints.caps() = operation.caps();
    *hints.mode() = FI_CONTEXT | FI_CONTEXT2;
    match operation.access() {
        None => *hints.mode() |= FI_MSG_PREFIX,
        // A write is complete when the peer's memory has changed.
        Some(Access::Write | Access::WriteData) => hints.tx().op_flags = FI_DELIVERY_COMPLETE,
        Some(_) => {}
    }
    if operation == Operation::Access(Access::WriteData) {
        hints.domain().cq_data_size = 1;
    }
    hints.domain().mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints.ep().r#type = ep_type;
    if !operation.is_atomic() {
        hints.ep().max_msg_size = options.size.unwrap_or(0);
    }
    if let Some(name) = &options.provider {
        hints.set_provider(name);
    }
    if let Some(name) = &options.domain {
        hints.set_domain_name(name);
    }
    if let Some(name) = &options.fabric {
        hints.set_fabric_name(name);
    }
    if let Some(name) = &options.source {
        let source = sockaddr::resolve(name, options.ipv6)?;
        *hints.addr_format() = source.format;
        hints.set_source(&source.bytes);
    }
    Ok(hints)
}

/// Adds the peer's address to the hints.
fn toward(mut hints: Hints, peer: &Address) -> Hints {
    *hints.addr_format() = peer.format;
    hints.set_destination(&peer.bytes);
    hints
}

fn ask(options: &Options, hints: Hints) -> Result<InfoList> {
    let query = Query {
        hints: Some(hints),
        ..Query::default()
    };
    query.ask().map_err(|failure| match failure.code() {
        FI_ENODATA if options.operation_named => failure.detail(format!(
            "no endpoint that fits these options has {}, which --op {} needs; `fi_info --why` says more",
            options.operation.needs(),
            options.operation.name()
        )),
        FI_ENODATA => failure.detail("nothing fits these options; `fi_info --why` says more"),
        _ => failure,
    })
}

fn first(list: &InfoList) -> Result<Info<'_>> {
    list.first()
        .ok_or_else(|| Failure::new("fi_getinfo", FI_ENODATA))
}

fn connected(event: Event) -> Option<()> {
    matches!(event, Event::Connected { .. }).then_some(())
}

/// Waits for an event that `pick` accepts, as long as the peer is connected.
fn wait<T>(
    events: &Eq,
    control: &Control,
    doing: &str,
    pick: impl Fn(Event) -> Option<T>,
) -> Result<T> {
    let deadline = Instant::now() + LIMIT;
    while Instant::now() < deadline {
        let event = fabric::event(events, BREATH)?;
        if let Some(Event::Shutdown { .. }) = event {
            return Err(Failure::new(doing, FI_ECONNRESET));
        }
        if let Some(Event::Completed { kind, .. } | Event::Other { kind, .. }) = &event {
            note!("event {kind}");
        }
        match event.and_then(&pick) {
            Some(picked) => return Ok(picked),
            None if control.peer_left() => {
                return Err(Failure::new(doing, FI_ECONNABORTED).detail("the peer has ended"));
            }
            None => {}
        }
    }
    Err(Failure::new(doing, FI_ETIMEDOUT))
}

/// The tag of all releases.
const TAG: u64 = 1234;

const LIMIT: Duration = Duration::from_secs(15);
/// Time between two checks of the peer.
const BREATH: Duration = Duration::from_millis(100);
