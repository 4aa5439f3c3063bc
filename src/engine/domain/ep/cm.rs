// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The calls of fi_cm(3) of an endpoint.

use core::ffi::c_void;

use super::Ep;
use crate::domain::State;
use crate::transport::{AddressFormat, Transport};
use abi::*;
use base::{Error, Result};
use object::AddrForm;
use object::ops::cm::{CmCalls, Join};

/// Most bytes of private data in fi_connect and similar calls (FI_OPT_CM_DATA_SIZE).
pub const CM_DATA_SIZE: usize = 256;

/// fi_cm(3): application data that does not fit is cut without an error.
pub fn cut(param: &[u8]) -> &[u8] {
    &param[..param.len().min(CM_DATA_SIZE)]
}

impl<T: Transport> CmCalls for Ep<T> {
    fn name(&self) -> Result<Vec<u8>> {
        self.shared.engine.lock()?.transport.name(self.shared.id)
    }

    fn name_within(&self, room: usize) -> Result<Vec<u8>> {
        let state = self.shared.engine.lock()?;
        state.transport.name_within(self.shared.id, room)
    }

    fn set_name(&self, addr: &[u8]) -> Result {
        let mut state = self.unlocked_state()?;
        state.transport.set_name(self.shared.id, addr)
    }

    fn peer(&self) -> Result<Vec<u8>> {
        self.shared.engine.lock()?.transport.peer(self.shared.id)
    }

    fn addr_form(&self) -> AddrForm {
        self.shared.engine.format.form()
    }

    fn connect(&self, addr: Option<&[u8]>, param: &[u8]) -> Result {
        let param = cut(param);
        self.cm(|state, id| state.transport.connect(&mut state.domain, id, addr, param))
    }

    fn accept(&self, param: &[u8]) -> Result {
        let param = cut(param);
        self.cm(|state, id| state.transport.accept(&mut state.domain, id, param))
    }

    fn join(&self, join: &Join<'_>, context: *mut c_void) -> Result<*mut fid_mc> {
        self.join_group(join, context)
    }

    fn join_multicast(
        &self,
        addr: Option<&[u8]>,
        flags: u64,
        context: *mut c_void,
    ) -> Result<*mut fid_mc> {
        self.join_address(addr, flags, context)
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
        let State { domain, transport } = &mut *guard;
        transport.shutdown(domain, self.shared.id)
    }
}

impl<T: Transport> Ep<T> {
    /// Makes a call of fi_cm(3). Enables the endpoint first if it is not enabled yet.
    fn cm(&self, call: impl FnOnce(&mut State<T>, usize) -> Result) -> Result {
        if self.shared.info.ep.ep_type != FI_EP_MSG.0 {
            return Err(Error::NOSYS);
        }
        match self.try_enable() {
            Ok(()) => {}
            // The endpoint was enabled already.
            Err(Error::OPBADSTATE) if self.unlocked_state().is_err() => {}
            Err(error) => {
                self.not_enabled(error);
                return Err(error);
            }
        }
        call(&mut *self.shared.engine.lock()?, self.shared.id)
    }
}
