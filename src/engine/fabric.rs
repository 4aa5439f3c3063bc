// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A fabric: fi_fabric(3). Opens domains, event queues, passive endpoints and wait sets.

mod shared;

use core::ffi::{CStr, c_int, c_void};
use std::sync::{Arc, Weak};

use crate::domain::Domain;
use crate::eq::{Eq, EventQueue};
use crate::transport::Transport;
use crate::wait::{Wait, WaitSet};
use abi::*;
use base::info::{FabricAttr, Info};
use base::{Error, Result};
use object::handle;
use object::ops;
use object::ops::fabric::{EqRequest, FabricCalls};
use object::ops::poll::WaitCalls;
use object::{Kind, Other, WaitHandle};
use sync::{Serialized, Use, Uses};

pub use shared::FabricShared;

/// The handle of a fabric.
pub struct Fabric<T: Transport> {
    shared: Arc<FabricShared<T>>,
}

impl<T: Transport> Fabric<T> {
    pub fn open(
        provider: T::Fabric,
        attr: &FabricAttr,
        api_version: u32,
        context: *mut c_void,
    ) -> Result<*mut fid_fabric> {
        let shared = Arc::new(FabricShared {
            provider,
            api_version,
            name: attr.name.clone(),
            uses: Uses::default(),
        });
        let fabric = Fabric::<T> { shared };
        Ok(handle::open(fabric, FI_CLASS_FABRIC, context, |fid| {
            fid_fabric {
                fid,
                ops: core::ptr::from_ref(ops::fabric::table::<Fabric<T>>()).cast_mut(),
                api_version,
            }
        }))
    }
}

impl<T: Transport> Kind for Fabric<T> {
    type Head = fid_fabric;

    fn check_close(&self) -> Result {
        match self.shared.uses.any() {
            true => Err(Error::BUSY),
            false => Ok(()),
        }
    }

    fn named(&self) -> Option<(&CStr, &CStr)> {
        Some((
            T::prov_name(&self.shared.provider),
            self.shared.name.as_deref()?,
        ))
    }
}

impl<T: Transport> FabricCalls for Fabric<T> {
    fn api_version(&self) -> u32 {
        self.shared.api_version
    }

    fn is_peer(&self) -> bool {
        T::IS_PEER
    }

    fn open_domain(
        &self,
        info: Info,
        serialized: Serialized,
        context: *mut c_void,
    ) -> Result<*mut fid_domain> {
        Domain::<T>::open(&self.shared, info, serialized, context)
    }

    fn open_pep(&self, info: Info, context: *mut c_void) -> Result<*mut fid_pep> {
        T::open_pep(&self.shared, info, context)
    }

    fn open_eq(&self, request: EqRequest<'_>, context: *mut c_void) -> Result<*mut fid_eq> {
        if request.flags & !(FI_WRITE | FI_AFFINITY | FI_PEER) != 0 {
            return Err(Error::BADFLAGS);
        }
        let (set, set_use) = wait_set(request.wait_set)?;
        let obj = match request.wait_obj {
            FI_WAIT_NONE if T::EVENTS_CAN_WAIT => FI_WAIT_FD,
            obj => obj,
        };
        let wait = Wait::new(obj, set.clone(), &[])?;
        let writable = request.flags & FI_WRITE != 0;
        let mut queue = EventQueue::new(request.size, writable, wait);
        queue.owner = request.owner.map(Arc::new);
        // The context of a queue of another provider was for this call only.
        let context = match queue.owner {
            Some(_) => core::ptr::null_mut(),
            None => context,
        };
        let queue = Arc::new(queue);
        if let Some(set) = set {
            let member: Weak<EventQueue> = Arc::downgrade(&queue);
            set.join(member);
        }
        let eq = Eq {
            queue,
            api_version: self.shared.api_version,
            text: T::event_text,
            _fabric: self.shared.uses.take(),
            _set: set_use,
        };
        Ok(handle::open(eq, FI_CLASS_EQ, context, |fid| fid_eq {
            fid,
            ops: core::ptr::from_ref(ops::eq::table::<Eq>()).cast_mut(),
        }))
    }

    fn open_wait(&self, wait_obj: fi_wait_obj) -> Result<*mut fid_wait> {
        let set = WaitSetHandle {
            set: Arc::new(WaitSet::new(wait_obj)?),
            _fabric: self.shared.uses.take(),
        };
        let none = core::ptr::null_mut();
        Ok(handle::open(set, FI_CLASS_WAIT, none, |fid| fid_wait {
            fid,
            ops: core::ptr::from_ref(ops::poll::wait_table::<WaitSetHandle>()).cast_mut(),
        }))
    }
}

/// The handle of a wait set: fi_poll(3).
pub struct WaitSetHandle {
    set: Arc<WaitSet>,
    _fabric: Use,
}

/// The wait set in the attributes, and the use that keeps it open.
pub fn wait_set(other: Option<Other<'_>>) -> Result<(Option<Arc<WaitSet>>, Option<Use>)> {
    match other {
        None => Ok((None, None)),
        Some(other) => {
            let handle = other.downcast::<WaitSetHandle>().ok_or(Error::INVAL)?;
            Ok((Some(handle.set.clone()), Some(handle.set.uses.take())))
        }
    }
}

impl Kind for WaitSetHandle {
    type Head = fid_wait;

    fn check_close(&self) -> Result {
        match self.set.uses.any() {
            true => Err(Error::BUSY),
            false => Ok(()),
        }
    }

    fn wait_handle(&self) -> Result<WaitHandle> {
        self.set.handle()
    }

    fn wait_obj(&self) -> Result<fi_wait_obj> {
        Ok(self.set.obj())
    }

    fn trywait(&self) -> Result {
        self.set.trywait()
    }
}

impl WaitCalls for WaitSetHandle {
    fn wait(&self, timeout: c_int) -> Result {
        // Keeps the set open while this thread waits for it.
        let _inside = self.set.uses.take();
        self.set.wait(timeout)
    }
}
