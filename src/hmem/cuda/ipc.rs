// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Allocations that processes map from each other: "cuIpcGetMemHandle". Memory of pools, memory that the program has
//! mapped itself and managed memory have no handle.

use core::ffi::{c_int, c_uint};

use super::calls::{Calls, IpcCalls, IpcHandle};
use super::context::{Current, INVALID_CONTEXT};
use super::{Cuda, IS_MANAGED};
use crate::driver::Driver;
use crate::export::{Export, HANDLE, NAME};
use crate::faults::Fault;
use crate::kind::Kind;

/// CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE.
const CAN_SHARE: c_int = 10;
/// CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS.
const ENABLE_PEER_ACCESS: c_uint = 1;

impl Cuda {
    pub(super) fn export_of(&self, ipc: &IpcCalls, address: usize) -> Option<Export> {
        // Drivers that do not know the attribute give a handle or an error.
        if self
            .ask(CAN_SHARE, address)
            .is_some_and(|can| can & 0xff == 0)
            || self.ask(IS_MANAGED, address)? & 0xff != 0
        {
            return None;
        }
        let calls = self.calls().ok()?;
        let allocation = self.allocation(address)?;
        let _current = self.enter(calls, address).ok()?;
        let mut handle = IpcHandle([0; HANDLE]);
        // SAFETY: the place is written during the call, which checks the address.
        let code = unsafe { (ipc.handle)(&raw mut handle, allocation.base as u64) };
        self.check(code).ok()?;
        Some(Export {
            kind: Kind::Cuda,
            handle: handle.0,
            device: device_name(ipc, allocation.ordinal)?,
            base: allocation.base as u64,
            len: allocation.len as u64,
        })
    }

    pub(super) fn import_of(
        &self,
        ipc: &IpcCalls,
        export: &Export,
        near: Option<usize>,
    ) -> Result<(usize, usize), Fault> {
        let calls = self.calls()?;
        let _current = match near {
            Some(near) => self.enter(calls, near)?,
            None => self.enter_for(calls, ipc, export.device)?,
        };
        let mut base = 0;
        // SAFETY: the place is written during the call; the driver checks the handle.
        let code =
            unsafe { (ipc.open)(&raw mut base, IpcHandle(export.handle), ENABLE_PEER_ACCESS) };
        self.check(code)?;
        let base = base as usize;
        let whole = self.allocation(base).filter(|whole| whole.base == base);
        whole.map(|whole| (base, whole.len)).ok_or_else(|| {
            self.close_import(ipc, base);
            Fault { code: 0 }
        })
    }

    pub(super) fn close_import(&self, ipc: &IpcCalls, base: usize) {
        if let Ok(calls) = self.calls()
            && let Ok(_current) = self.enter(calls, base)
        {
            // SAFETY: `import_of` has returned the address, and no copy uses it.
            unsafe { (ipc.close)(base as u64) };
        }
    }

    /// Enters the primary context of the device with this name, or of any device whose context the program has made.
    fn enter_for<'a>(
        &'a self,
        calls: &'a Calls,
        ipc: &IpcCalls,
        device: [u8; NAME],
    ) -> Result<Current<'a>, Fault> {
        let count = self.devices()? as c_int;
        let own = (0..count).find(|&one| device_name(ipc, one) == Some(device));
        let contexts = own.into_iter().chain(0..count);
        let mut entered = contexts.map(|device| Current::primary(calls, device));
        entered.find_map(Result::ok).ok_or(Fault {
            code: INVALID_CONTEXT,
        })
    }
}

fn device_name(ipc: &IpcCalls, device: c_int) -> Option<[u8; NAME]> {
    let mut name = [0; NAME];
    // SAFETY: a CUuuid has 16 bytes, which are written during the call.
    let code = unsafe { (ipc.name)(name.as_mut_ptr(), device) };
    (code == 0).then_some(name)
}
