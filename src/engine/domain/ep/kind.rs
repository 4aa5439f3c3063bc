// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The calls of fi_fabric(3) and fi_control(3) that an endpoint gets.

use core::ffi::c_void;
use core::sync::atomic::Ordering;

use super::{Ep, current};
use crate::domain::profile::Profile;
use crate::transport::Transport;
use abi::*;
use base::{Error, OpFlags, Result};
use object::{Kind, Other, WaitHandle};

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

    fn op_flags(&self, side: OpFlags) -> Result<OpFlags> {
        match (
            side.contains(OpFlags::TRANSMIT),
            side.contains(OpFlags::RECV),
        ) {
            (true, false) => Ok(current(&self.tx_flags)),
            (false, true) => Ok(current(&self.rx_flags)),
            _ => Err(Error::INVAL),
        }
    }

    fn set_op_flags(&self, flags: OpFlags) -> Result {
        let (slot, side) = match (
            flags.contains(OpFlags::TRANSMIT),
            flags.contains(OpFlags::RECV),
        ) {
            (true, false) => (&self.tx_flags, OpFlags::TRANSMIT),
            (false, true) => (&self.rx_flags, OpFlags::RECV),
            _ => return Err(Error::INVAL),
        };
        if !self.known_flags(side == OpFlags::RECV).contains(flags) {
            return Err(Error::BADFLAGS);
        }
        if side == OpFlags::TRANSMIT {
            self.shared.expect(flags);
        }
        slot.store((flags & !side).bits(), Ordering::Relaxed);
        Ok(())
    }

    fn alias(&self, flags: OpFlags) -> Result<*mut fid> {
        let (tx, rx) = (
            flags.contains(OpFlags::TRANSMIT),
            flags.contains(OpFlags::RECV),
        );
        if tx == rx {
            return Err(Error::INVAL);
        }
        if !self.known_flags(rx).contains(flags) {
            return Err(Error::BADFLAGS);
        }
        let flags = flags & !(OpFlags::TRANSMIT | OpFlags::RECV);
        let (tx_flags, rx_flags) = match rx {
            true => (current(&self.tx_flags), flags),
            false => (flags, current(&self.rx_flags)),
        };
        let context = self.shared.engine.lock()?.domain.eps[self.shared.id].context;
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

    /// An endpoint has no wait object of its own; its queues have. FI_GET_FD returns the socket if there is one.
    fn wait_handle(&self) -> Result<WaitHandle> {
        if self.shared.member.is_some() {
            return Err(Error::NOSYS);
        }
        let state = self.shared.engine.lock()?;
        let socket = state.transport.socket(self.shared.id)?;
        Ok(WaitHandle::Fd(WaitHandle::number(socket)))
    }
}
