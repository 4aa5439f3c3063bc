// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Fabric, domain, event queue and listener as the programs open them: fi_fabric(3), fi_domain(3), fi_eq(3), fi_cm(3).

use std::sync::Arc;
use std::time::Duration;

use super::failure::{Failure, Result};
use abi::*;
use base::Error;
use client::{Domain, Eq, EqAttr, Event, Fabric, Info, PassiveEp};

pub fn open(info: Info<'_>) -> Result<Arc<Fabric>> {
    Fabric::open(info).map_err(Failure::by("fi_fabric"))
}

pub fn domain(fabric: &Arc<Fabric>, info: Info<'_>) -> Result<Arc<Domain>> {
    // SAFETY: the programs open and use domains from their first thread only.
    unsafe { Domain::open(fabric, info) }.map_err(Failure::by("fi_domain"))
}

pub fn events(fabric: &Arc<Fabric>) -> Result<Arc<Eq>> {
    let attr = EqAttr {
        wait_obj: FI_WAIT_UNSPEC,
        ..EqAttr::default()
    };
    Eq::open(fabric, &attr).map_err(Failure::by("fi_eq_open"))
}

/// Waits for the next event, for a limited time.
pub fn event(events: &Eq, limit: Duration) -> Result<Option<Event>> {
    match events.sread(Some(limit)) {
        Ok(event) => Ok(Some(event)),
        Err(Error::AGAIN | Error::TIMEDOUT | Error::INTR) => Ok(None),
        Err(Error::AVAIL) => match events.readerr() {
            Ok(error) => Err(Failure::of("connection", error.error).or_words(error.words)),
            Err(error) => Err(Failure::of("fi_eq_readerr", error)),
        },
        Err(error) => Err(Failure::of("fi_eq_sread", error)),
    }
}

/// Opens a passive endpoint and makes it listen.
pub fn listen(fabric: &Arc<Fabric>, info: Info<'_>, events: &Arc<Eq>) -> Result<Arc<PassiveEp>> {
    let pep = PassiveEp::open(fabric, info).map_err(Failure::by("fi_passive_ep"))?;
    pep.bind(events, 0)
        .map_err(Failure::by("binding passive endpoint to event queue"))?;
    pep.listen().map_err(Failure::by("fi_listen"))?;
    Ok(pep)
}
