// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The regions of this library's memory: none, one of the domain, or one for each endpoint that uses it
//! (FI_MR_ENDPOINT).

use core::ffi::c_void;
use core::ptr::null_mut;
use std::sync::{Arc, Mutex, PoisonError};

use super::registrar::Registrar;
use crate::{Ep, Memory, Mr};
use base::Result;

pub(super) enum Regions {
    /// Local operations need none.
    None,
    OfDomain(Arc<Mr>),
    OfEndpoints(OfEndpoints),
}

pub(super) struct OfEndpoints {
    registrar: Registrar,
    access: u64,
    /// Regions with the number of their endpoint (`Handle::number`).
    open: Mutex<Vec<(usize, Arc<Mr>)>>,
}

impl Regions {
    /// Creates the regions. If they belong to endpoints, each is created with the first operation of its endpoint.
    pub fn new(registrar: &Registrar, memory: &Arc<Memory>, access: u64) -> Result<Regions> {
        Ok(match (registrar.wants_local(), registrar.of_endpoints()) {
            (false, _) => Regions::None,
            (true, false) => Regions::OfDomain(registrar.register(memory, access)?),
            (true, true) => Regions::OfEndpoints(OfEndpoints {
                registrar: registrar.clone(),
                access,
                open: Mutex::default(),
            }),
        })
    }

    pub fn of_endpoints(&self) -> bool {
        matches!(self, Regions::OfEndpoints(_))
    }

    /// Returns the descriptor for operations of `ep` on the memory that the regions belong to.
    #[inline]
    pub fn desc(&self, ep: &Arc<Ep>, memory: &Arc<Memory>) -> Result<*mut c_void> {
        match self {
            Regions::None => Ok(null_mut()),
            Regions::OfDomain(region) => Ok(region.desc()),
            Regions::OfEndpoints(regions) => regions.desc(ep, memory),
        }
    }

    /// Closes the region of an endpoint before the endpoint is closed, as fi_mr(3) requires.
    pub fn forget(&self, ep: &Ep) {
        if let Regions::OfEndpoints(regions) = self {
            let mut open = regions.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.retain(|&(of, _)| of != ep.number());
        }
    }
}

impl OfEndpoints {
    #[cold]
    fn desc(&self, ep: &Arc<Ep>, memory: &Arc<Memory>) -> Result<*mut c_void> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, region)) = open.iter().find(|&&(of, _)| of == ep.number()) {
            return Ok(region.desc());
        }
        let region = self
            .registrar
            .of_endpoint(ep)
            .register(memory, self.access)?;
        let desc = region.desc();
        open.push((ep.number(), region));
        Ok(desc)
    }
}
