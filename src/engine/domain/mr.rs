// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The handle of a memory region: fi_mr(3). The table of keys is in `domain_state`.

use core::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

use crate::auth::Key;
use crate::cntr::Counter;
use crate::domain::av::Av;
use crate::domain::cntr::Cntr;
use crate::domain::ep::Ep;
use crate::domain::{Domain, Engine, State};
use crate::mr::Region;
use crate::mr::descs::Segment;
use crate::transport::{Registration, Transport};
use abi::*;
use base::rights::{KEPT, UNCACHED};
use base::{Caps, Error, Registered, Result, Span};
use object::handle;
use object::ops::mr::{MrCalls, MrRequest};
use object::{Kind, Other};
use sync::{Use, Uses};

pub struct Mr<T: Transport> {
    engine: Arc<Engine<T>>,
    region: Arc<Region<Arc<Counter>>>,
    desc: usize,
    /// Keeps the bound counter open.
    cntr: Mutex<Option<Use>>,
    /// Uses by regions made from this one.
    uses: Uses,
    /// Use of the region from which this one was made.
    _base: Option<Use>,
    _domain: Use,
}

impl<T: Transport> Domain<T> {
    fn open_mr(&self, mut request: MrRequest<'_>) -> Result<*mut fid_mr> {
        let engine = self.engine();
        let keyed = engine.has_keys_in_av();
        let known = match engine.info.caps.contains(Caps::HMEM) {
            false => FLAGS,
            true => FLAGS | FI_HMEM_DEVICE_ONLY | FI_HMEM_HOST_ALLOC,
        };
        let buffers = match self.takes_buffers() {
            true => FI_MR_DMABUF,
            false => 0,
        };
        let known = known | buffers | if keyed { FI_AUTH_KEY } else { 0 };
        if request.flags & !known != 0 {
            return Err(Error::BADFLAGS);
        }
        // fi_mr(3): the offset is reserved.
        if request.offset != 0 {
            return Err(Error::INVAL);
        }
        let auth = keys(engine, &request)?;
        let base = match request.base.take() {
            None => None,
            Some(base) => Some(part_of(base, engine, &request.segments)?),
        };
        if engine.takes_devices {
            mark(&mut request)?;
        }
        let segments: Vec<Segment> = match engine.gives_descs {
            true => request.segments.iter().map(segment_of).collect(),
            false => Vec::new(),
        };
        let (flags, context) = (request.flags, request.context);
        let mut state = engine.lock()?;
        let State { domain, transport } = &mut *state;
        let Registration { region, mut desc } = transport.register(domain, request)?;
        if engine.gives_descs {
            desc = engine.descs().insert(segments) as usize;
        }
        if flags & FI_MR_SINGLE_USE != 0 {
            region.allow_one_use();
        }
        if let Some(auth) = auth {
            region.restrict_to(auth);
        }
        if flags & FI_RMA_PMEM != 0 {
            region.set_persistent();
        }
        transport.region_opened(domain, &region);
        drop(state);
        let key = region.key;
        let mr = Mr {
            engine: engine.clone(),
            region,
            desc,
            cntr: Mutex::default(),
            uses: Uses::default(),
            _base: base,
            _domain: engine.uses.take(),
        };
        let context = context as *mut c_void;
        Ok(handle::open(mr, FI_CLASS_MR, context, |fid| fid_mr {
            fid,
            mem_desc: desc as *mut c_void,
            key,
        }))
    }
}

/// The authorization keys of a region; none if keys are not used.
fn keys<T: Transport>(
    engine: &Arc<Engine<T>>,
    request: &MrRequest<'_>,
) -> Result<Option<Vec<Key>>> {
    if !engine.has_keys_in_av() {
        let key = engine.auth_key(request.auth_key_size, request.auth_key.as_deref())?;
        return Ok(key.map(|key| vec![key]));
    }
    // fi_mr(3): fi_mr_regattr must be used, and names a vector.
    let (av, handle) = request.keys_of.as_ref().ok_or(Error::INVAL)?;
    let av = av.downcast::<Av<T>>().ok_or(Error::INVAL)?;
    av.id_in(engine).ok_or(Error::DOMAIN)?;
    // Endpoint addresses limit a region only if the domain's capabilities include FI_DIRECTED_RECV; those of our
    // providers do not.
    let one = (request.flags & FI_AUTH_KEY != 0).then_some(*handle);
    av.keys(one).map(Some)
}

/// Flags of a registration that fi_mr(3) allows for host memory, and the private one of libraries above.
const FLAGS: u64 = FI_RMA_EVENT | FI_RMA_PMEM | FI_MR_SINGLE_USE | UNCACHED | KEPT;

/// Marks the segments that a device has. The driver decides, whatever the attributes say: a program may register memory
/// of a device by fi_mr_reg, and name a device for memory of the host.
///
/// `NOSYS`: the kind's driver is absent, not initialized by the program, or excluded by FI_HMEM. `INVAL`: there is no
/// such device, or the memory that only the device is to access is not the device's. `OPNOTSUPP`: a buffer without
/// addresses.
#[cold]
fn mark(request: &mut MrRequest<'_>) -> Result {
    if let Some(buffer) = &request.buffer
        && request
            .segments
            .iter()
            .any(|segment| segment.span().start as u64 == buffer.offset)
    {
        return Err(Error::OPNOTSUPP);
    }
    let owner = match request.kind {
        hmem::Kind::Host => None,
        kind => {
            let driver = hmem::driver::of(kind).ok_or(Error::NOSYS)?;
            let is_there = driver
                .has_device(request.device)
                .map_err(|_| Error::NOSYS)?;
            if !is_there && request.flags & FI_HMEM_HOST_ALLOC == 0 {
                return Err(Error::INVAL);
            }
            Some(driver)
        }
    };
    for segment in &mut request.segments {
        let Span { start, len } = segment.span();
        if len == 0 {
            continue;
        }
        if hmem::driver::owner(start).is_some() {
            segment.mark();
        } else if owner.is_some() && request.flags & FI_HMEM_DEVICE_ONLY != 0 {
            return Err(Error::INVAL);
        }
    }
    Ok(())
}

fn segment_of(registered: &Registered) -> Segment {
    Segment {
        span: registered.span(),
        is_device: registered.is_device(),
    }
}

/// fi_mr(3), base_mr: the base must belong to the same domain and contain the new region, which keeps it open.
fn part_of<T: Transport>(
    base: Other<'_>,
    engine: &Arc<Engine<T>>,
    segments: &[Registered],
) -> Result<Use> {
    let base = base.downcast::<Mr<T>>().ok_or(Error::INVAL)?;
    let spans: Vec<Span> = segments.iter().map(Registered::span).collect();
    match Arc::ptr_eq(&base.engine, engine) && base.region.contains(&spans) {
        true => Ok(base.uses.take()),
        false => Err(Error::INVAL),
    }
}

impl<T: Transport> MrCalls for Domain<T> {
    fn api_version(&self) -> u32 {
        self.engine().api_version
    }

    fn iov_limit(&self) -> usize {
        self.engine().info.domain.mr_iov_limit.max(1)
    }

    fn names_devices(&self) -> bool {
        self.engine().info.caps.contains(Caps::HMEM)
    }

    fn takes_devices(&self) -> bool {
        self.engine().takes_devices
    }

    fn takes_buffers(&self) -> bool {
        T::TAKES_BUFFERS || self.engine().takes_devices
    }

    fn has_keys_in_av(&self) -> bool {
        self.engine().has_keys_in_av()
    }

    fn register(&self, request: MrRequest<'_>) -> Result<*mut fid_mr> {
        self.open_mr(request)
    }

    fn registered(&self, mr: usize, context: usize) {
        if let Some(eq) = self.engine().registrations() {
            eq.complete(FI_MR_COMPLETE, mr, context, 0);
        }
    }
}

impl<T: Transport> Drop for Mr<T> {
    fn drop(&mut self) {
        let Ok(mut state) = self.engine.lock_to_close() else {
            return;
        };
        if self.engine.gives_descs {
            self.engine.descs().remove(self.desc as u32);
        }
        let State { domain, transport } = &mut *state;
        domain.mrs.close(&self.region);
        transport.region_closed(domain, &self.region);
    }
}

impl<T: Transport> Kind for Mr<T> {
    type Head = fid_mr;

    fn check_close(&self) -> Result {
        match self.uses.any() {
            true => Err(Error::BUSY),
            false => Ok(()),
        }
    }

    /// fi_mr_bind: binds a counter of remote writes, or an endpoint.
    fn bind(&self, other: Other<'_>, flags: u64) -> Result {
        if let Some(cntr) = other.downcast::<Cntr<T>>() {
            if flags != FI_REMOTE_WRITE {
                return Err(Error::BADFLAGS);
            }
            let counter = cntr.counter_in(&self.engine).ok_or(Error::INVAL)?;
            let mut state = self.engine.lock()?;
            let State { domain, transport } = &mut *state;
            if self.region.counter().is_some() {
                return Err(Error::BUSY);
            }
            transport.count_region(domain, &self.region, counter)?;
            self.region.bind_counter(counter.clone())?;
            // From now on each access to the region must be counted.
            transport.region_closed(domain, &self.region);
            drop(state);
            *self.cntr.lock().unwrap_or_else(PoisonError::into_inner) = Some(cntr.uses.take());
            return Ok(());
        }
        // A region serves all endpoints of the domain. FI_MR_ENDPOINT is never required, so binding an endpoint has no
        // effect.
        match other.downcast::<Ep<T>>() {
            Some(ep) if !ep.is_of(&self.engine) => Err(Error::INVAL),
            Some(_) if flags != 0 => Err(Error::BADFLAGS),
            Some(_) => Ok(()),
            None => Err(Error::INVAL),
        }
    }

    /// Regions are enabled when they are registered.
    fn enable(&self) -> Result {
        Ok(())
    }

    fn refresh(&self, ranges: &[Span], flags: u64) -> Result {
        match flags {
            0 => self.region.refresh(ranges),
            _ => Err(Error::BADFLAGS),
        }
    }

    fn raw_key(&self) -> Result<(u64, [u8; 8])> {
        Ok((self.region.remote_base(), self.region.raw_key()))
    }
}
