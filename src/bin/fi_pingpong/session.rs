// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! From the command line to an endpoint that can reach the peer's, with a receive posted.
#![forbid(unsafe_code)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::abi::*;
use crate::calls::endpoint::{Endpoint, Plan};
use crate::calls::failure::{Failure, Result};
use crate::calls::info::{Hints, Query};
use crate::calls::{fabric, text};
use crate::control::{Address, Control, Role};
use crate::ffi::client::{Eq, Event, Fabric, Info, InfoList, PassiveEp};
use crate::game::{END, SIZES};
use crate::journal::note;
use crate::options::Options;
use crate::sockaddr;

pub struct Session {
    pub endpoint: Endpoint,
    /// The longest message that the endpoint takes.
    pub longest: usize,
    /// Kept open while the endpoint that came of it is.
    _listener: Option<Arc<PassiveEp>>,
}

impl Session {
    pub fn open(options: &Options, control: &mut Control) -> Result<Session> {
        let hints = hints(options)?;
        match (options.ep_type, control.role) {
            (FI_EP_MSG, Role::Server) => accept(options, hints, control),
            (FI_EP_MSG, Role::Client) => connect(options, hints, control),
            (_, Role::Server) => {
                let (mut session, own) = unconnected(options, hints)?;
                control.send_address(&own)?;
                let peer = control.receive_address()?;
                session.endpoint.set_peer(&peer.bytes)?;
                Ok(session)
            }
            (_, Role::Client) => {
                let peer = control.receive_address()?;
                let (mut session, own) = unconnected(options, toward(hints, &peer))?;
                session.endpoint.set_peer(&peer.bytes)?;
                control.send_address(&own)?;
                Ok(session)
            }
        }
    }
}

/// An endpoint without connections, and its address.
fn unconnected(options: &Options, hints: Hints) -> Result<(Session, Address)> {
    let list = ask(hints)?;
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
    let list = ask(hints)?;
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
    session._listener = Some(listener);
    session.endpoint.accept()?;
    wait(&events, control, "connection", connected)?;
    Ok(session)
}

fn connect(options: &Options, hints: Hints, control: &mut Control) -> Result<Session> {
    let peer = control.receive_address()?;
    let list = ask(toward(hints, &peer))?;
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
    let longest = longest(info);
    let fits = |size: &&usize| **size <= longest;
    let largest = SIZES.iter().filter(fits).max().copied().unwrap_or(0);
    let plan = Plan {
        longest: options.size.unwrap_or(largest).max(END.len()),
        tag: options.tagged.then_some(TAG),
    };
    let mut endpoint = Endpoint::open(&domain, info, events, &plan)?;
    endpoint.post_by(Instant::now() + LIMIT, Endpoint::receive)?;
    note!("endpoint is open");
    Ok(Session {
        endpoint,
        longest,
        _listener: None,
    })
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

fn hints(options: &Options) -> Result<Hints> {
    let mut hints = Hints::new()?;
    *hints.caps() = match options.tagged {
        true => FI_TAGGED,
        false => FI_MSG,
    };
    *hints.mode() = FI_CONTEXT | FI_CONTEXT2 | FI_MSG_PREFIX;
    hints.domain().mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints.ep().r#type = options.ep_type;
    hints.ep().max_msg_size = options.size.unwrap_or(0);
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

/// The hints for an endpoint that reaches `peer`.
fn toward(mut hints: Hints, peer: &Address) -> Hints {
    *hints.addr_format() = peer.format;
    hints.set_destination(&peer.bytes);
    hints
}

fn ask(hints: Hints) -> Result<InfoList> {
    let query = Query {
        hints: Some(hints),
        ..Query::default()
    };
    query.ask().map_err(|failure| match failure.code() {
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

/// Waits for the event that `pick` picks, as long as the peer is there.
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

/// The same in all releases.
const TAG: u64 = 1234;

const LIMIT: Duration = Duration::from_secs(15);
/// How often to look after the peer.
const BREATH: Duration = Duration::from_millis(100);
