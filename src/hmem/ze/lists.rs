// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Immediate command lists for copies. One is used by one copy at a time, and kept for the next one of its device.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::calls::{Calls, Group, Handle, Outcome, QueueDesc, list};
use super::engine::{self, Engine};

/// Lists that no copy uses.
#[derive(Default)]
pub struct Lists(Mutex<Vec<List>>);

/// A list of a device. One that is dropped is never used again.
pub struct List {
    device: Handle,
    pub handle: Handle,
}

impl Lists {
    fn free(&self) -> MutexGuard<'_, Vec<List>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a list of a device.
    pub fn take(&self, calls: &Calls, context: Handle, device: Handle) -> Result<List, Outcome> {
        let mut free = self.free();
        if let Some(at) = free.iter().position(|list| list.device == device) {
            return Ok(free.swap_remove(at));
        }
        drop(free);
        // SAFETY: the driver has named the device.
        let groups = list(Group::new(), |count, all| unsafe {
            (calls.groups)(device, count, all)
        })?;
        let Engine { group, index } = engine::choose(&groups);
        let queue = QueueDesc::synchronous(group, index);
        let mut handle = 0;
        // SAFETY: context and device are the driver's; the place is written during the call.
        match unsafe { (calls.open_list)(context, device, &raw const queue, &raw mut handle) } {
            0 => Ok(List { device, handle }),
            code => Err(code),
        }
    }

    pub fn put(&self, list: List) {
        self.free().push(list);
    }

    /// Destroys the lists.
    pub fn clear(&self, calls: &Calls) {
        for list in core::mem::take(&mut *self.free()) {
            // SAFETY: no copy uses the list, and its commands are done.
            unsafe { (calls.close_list)(list.handle) };
        }
    }
}
