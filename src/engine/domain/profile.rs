// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Statistics of a domain or an endpoint: fi_profile(3).

use core::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

use crate::domain::Engine;
use crate::transport::Transport;
use abi::*;
use base::{Error, Result};
use object::Kind;
use object::handle;
use object::ops;
use object::ops::profile::{ProfileCalls, Variable};
use sync::Use;

pub struct Profile<T: Transport> {
    engine: Arc<Engine<T>>,
    /// The endpoint's index in `domain.eps`; none for the domain as a whole.
    ep: Option<usize>,
    /// The number of unexpected messages between fi_profile_start_reads and fi_profile_end_reads.
    kept: Mutex<Option<u64>>,
    /// Keeps the profiled object open.
    _of: Use,
}

impl<T: Transport> Profile<T> {
    pub fn open(
        engine: &Arc<Engine<T>>,
        ep: Option<usize>,
        of: Use,
        context: *mut c_void,
    ) -> *mut fid_profile {
        let profile = Profile {
            engine: engine.clone(),
            ep,
            kept: Mutex::default(),
            _of: of,
        };
        handle::open(profile, FI_CLASS_PROFILE, context, |fid| fid_profile {
            fid,
            ops: core::ptr::from_ref(ops::profile::table::<Profile<T>>()).cast_mut(),
        })
    }

    fn unexpected(&self) -> Result<u64> {
        let state = self.engine.lock()?;
        let domain = &state.domain;
        let count: usize = match self.ep {
            Some(ep) => domain.srxs[domain.eps[ep].srx].unexpected_len(),
            None => domain
                .srxs
                .iter()
                .map(|(_, srx)| srx.unexpected_len())
                .sum(),
        };
        Ok(count as u64)
    }
}

const VARIABLES: &[Variable] = &[Variable {
    id: FI_VAR_UNEXP_MSG_CNT,
    name: c"unexpected message count",
    desc: c"messages that wait for a receive",
}];

impl<T: Transport> Kind for Profile<T> {
    type Head = fid_profile;
}

impl<T: Transport> ProfileCalls for Profile<T> {
    fn variables(&self) -> &'static [Variable] {
        VARIABLES
    }

    fn read(&self, id: u32) -> Result<u64> {
        if id != FI_VAR_UNEXP_MSG_CNT {
            return Err(Error::INVAL);
        }
        let kept = *self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.map_or_else(|| self.unexpected(), Ok)
    }

    fn keep(&self, on: bool) {
        let value = on.then(|| self.unexpected().ok()).flatten();
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = value;
    }
}
