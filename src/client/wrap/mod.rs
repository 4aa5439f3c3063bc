// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Wrappers around the objects of a provider, for hooks: fi_hook(7).
//!
//! The application holds a wrapper instead of the fabric, and gets wrappers of all objects that it opens through it. A
//! wrapper has the head and the tables of the object that it wraps. Each slot, generated from the list of
//! `object::slots`, translates the handles in its arguments, calls the hook's [`Watch`], and calls the same slot of
//! the object inside. Contexts are those of the application at every depth. Wrappers may wrap wrappers.
//!
//! Trusted with: calling the tables of the object inside, and the arguments of C calls as the man pages describe them.

mod call;
mod credits;
mod forward;
mod local;
mod read;
mod region;
mod special;
#[cfg(test)]
mod tests;
mod translate;
mod trigger;

use core::ptr::{self, NonNull};
use core::sync::atomic::AtomicU8;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use abi::*;
use base::{Error, Result};
use object::handle::{self, Head, Inner, Kind};
use object::live;
use object::ops::missing::Missing;
use object::slots;

pub use call::{Call, Name, Slot, Watch};
pub use read::Completion;
pub use region::{Buffer, Domain, Region};

/// A fabric that is open. Its holder closes it, so it cannot be wrapped twice:
///
/// ```compile_fail,E0382
/// use client::wrap::{Fabric, wrap_fabric};
/// fn twice(fabric: Fabric) -> [Fabric; 2] {
///     [wrap_fabric(fabric, 0, None), wrap_fabric(fabric, 0, None)]
/// }
/// ```
pub struct Fabric(NonNull<fid_fabric>);

impl Fabric {
    /// # Safety
    /// The fabric is open, and only the holder of this value, or of a wrapper made from it, closes the fabric.
    pub unsafe fn new(fabric: *mut fid_fabric) -> Result<Fabric> {
        NonNull::new(fabric).map(Fabric).ok_or(Error::NODEV)
    }

    pub fn raw(self) -> *mut fid_fabric {
        self.0.as_ptr()
    }

    pub(super) fn as_ptr(&self) -> *mut fid_fabric {
        self.0.as_ptr()
    }
}

/// Result of wrapping a fabric: the fabric around it, or the fabric itself and the error.
pub type Hooked = core::result::Result<Fabric, (Fabric, Error)>;

/// One hook around one fabric, and around all objects that are opened through it.
struct Layer {
    watch: Option<Box<dyn Watch>>,
    /// The interface of the provider of the objects inside.
    api: u32,
    /// The interface of the application.
    app_api: u32,
    credits: credits::Credits,
}

/// Puts a layer around a fabric whose structs follow the interface `api`. Without a watch, calls are only translated.
pub fn wrap_fabric(fabric: Fabric, api: u32, watch: Option<Box<dyn Watch>>) -> Fabric {
    // SAFETY: a `Fabric` is open.
    let app_api = unsafe { fabric.0.as_ref() }.api_version;
    let layer = Arc::new(Layer {
        watch,
        api,
        app_api,
        credits: credits::Credits::default(),
    });
    // SAFETY: a `Fabric` is open.
    let wrapper = unsafe { wrap(fabric.0, &layer, Note::default()) };
    Fabric(wrapper)
}

/// The object behind a wrapper's handle.
struct Wrapper<H: Wrapped> {
    inner: NonNull<H>,
    layer: Arc<Layer>,
    /// For a completion queue, the format of its entries as a number; otherwise 0.
    format: u32,
    /// For an endpoint, its domain (the object inside). For a domain, the object inside. Otherwise 0.
    domain: usize,
    /// Additional work of each call: `WATCHED` and the flags below. Usually none.
    besides: AtomicU8,
}

/// Calls are reported to a watch.
const WATCHED: u8 = 1;
/// FI_TRIGGER is a default flag of transmit operations, so their contexts are trigger structs that name a counter.
const SEND_TRIGGERS: u8 = 2;
/// The same for receives.
const RECV_TRIGGERS: u8 = 4;

// SAFETY: the object inside is used through its tables only, by the threads that its provider allows.
unsafe impl<H: Wrapped> Send for Wrapper<H> {}
// SAFETY: as above.
unsafe impl<H: Wrapped> Sync for Wrapper<H> {}

impl<H: Wrapped> Wrapper<H> {
    fn fid(&self) -> *mut fid {
        self.inner.as_ptr().cast()
    }
}

impl<H: Wrapped> Kind for Wrapper<H> {
    type Head = H;

    /// Closes the object inside; the wrapper stays if that cannot be closed.
    fn check_close(&self) -> Result {
        let outside = handle::number_of(self);
        // SAFETY: an open object.
        let class = unsafe { (*self.fid()).fclass } as u32;
        // SAFETY: an open object, which only its wrapper closes.
        let code = unsafe { slots::base::close(self.fid()) };
        if code != 0 {
            return Err(Error::new(code.saturating_abs()));
        }
        // Keep the map entries of these classes: their events may be read after they are closed.
        if matches!(
            class,
            FI_CLASS_EP | FI_CLASS_PEP | FI_CLASS_AV | FI_CLASS_MC
        ) {
            return Ok(());
        }
        let mut wrappers = wrappers();
        // The provider may already have reused the address for another object.
        if wrappers.get(&self.fid().addr()) == Some(&outside) {
            wrappers.remove(&self.fid().addr());
        }
        Ok(())
    }

    fn wrapped(&self) -> Option<Inner> {
        // SAFETY: `wrap`: open, and closed with the wrapper.
        Some(unsafe { Inner::new(self.fid()) })
    }
}

/// A C object that can be wrapped.
trait Wrapped: Head + Sized {
    /// Returns the head of the wrapper: `fid`, the tables of this module, and the other members of the object inside.
    ///
    /// # Safety
    /// `inner` is an open object whose struct has the members of the interface `api`.
    unsafe fn head(fid: fid, inner: *mut Self, api: u32) -> Self;
}

macro_rules! wrapped {
    ($($name:ident { $($table:ident: $module:ident),* } { $($copied:ident),* };)*) => { $(
        impl Wrapped for $name {
            unsafe fn head(fid: fid, inner: *mut Self, _api: u32) -> Self {
                let _ = inner;
                $name {
                    fid,
                    $($table: forward::$module::table::<$name>(),)*
                    // SAFETY: an open object, by the caller's promise.
                    $($copied: unsafe { (*inner).$copied },)*
                }
            }
        }
    )* };
}

wrapped! {
    fid_fabric { ops: fabric } { api_version };
    fid_domain { ops: domain, mr: mr } {};
    fid_eq { ops: eq } {};
    fid_wait { ops: wait } {};
    fid_poll { ops: poll } {};
    fid_cq { ops: cq } {};
    fid_cntr { ops: cntr } {};
    fid_av { ops: av } {};
    fid_av_set { ops: av_set } {};
    fid_mr {} { mem_desc, key };
    fid_pep { ops: ep, cm: cm } {};
    fid_stx { ops: ep } {};
    fid_mc {} { fi_addr };
}

impl Wrapped for fid_ep {
    unsafe fn head(fid: fid, _inner: *mut Self, api: u32) -> Self {
        fid_ep {
            fid,
            ops: forward::ep::table::<fid_ep>(),
            cm: forward::cm::table::<fid_ep>(),
            msg: forward::msg::table::<fid_ep>(),
            rma: forward::rma::table::<fid_ep>(),
            tagged: forward::tagged::table::<fid_ep>(),
            atomic: forward::atomic::table::<fid_ep>(),
            // Endpoints of older interfaces end before this member.
            collective: match api >= WITH_COLLECTIVE {
                true => forward::collective::table::<fid_ep>(),
                false => (&raw const NO_COLLECTIVE).cast_mut(),
            },
            wr: forward::wr::table::<fid_ep>(),
        }
    }
}

static NO_COLLECTIVE: fi_ops_collective = fi_ops_collective::TABLE;
/// Version 1.9 added the table of collective operations.
const WITH_COLLECTIVE: u32 = 1 << 16 | 9;
/// The same version added `iface`, the kind of memory, to regions.
const WITH_IFACE: u32 = WITH_COLLECTIVE;

/// Attributes that a wrapper takes from the call that opens it.
#[derive(Clone, Copy, Default)]
struct Note {
    /// For a completion queue.
    format: u32,
    /// For an endpoint.
    domain: usize,
    /// `SEND_TRIGGERS`, `RECV_TRIGGERS`.
    triggers: u8,
}

/// Wraps an object that has just been opened.
///
/// # Safety
/// The object is open, and only the wrapper closes it.
unsafe fn wrap<H: Wrapped>(inner: NonNull<H>, layer: &Arc<Layer>, note: Note) -> NonNull<H> {
    // SAFETY: every head begins with its `fid`; the object is open.
    let fid = unsafe { inner.cast::<fid>().as_ref() };
    let (class, context) = (fid.fclass as u32, fid.context);
    let watched = if layer.watch.is_some() { WATCHED } else { 0 };
    let wrapper = Wrapper {
        inner,
        layer: layer.clone(),
        format: note.format,
        domain: match class {
            FI_CLASS_DOMAIN => inner.as_ptr().expose_provenance(),
            _ => note.domain,
        },
        besides: AtomicU8::new(watched | note.triggers),
    };
    let outside = handle::open(wrapper, class, context, |fid| {
        let fid = abi::fid {
            ops: forward::base::table::<H>(),
            ..fid
        };
        // SAFETY: open, by the caller's promise.
        unsafe { H::head(fid, inner.as_ptr(), layer.api) }
    });
    let mut wrappers = wrappers();
    // An old entry of a closed object at this address would make the lookup circular.
    wrappers.remove(&outside.addr());
    wrappers.insert(inner.as_ptr().addr(), outside.addr());
    drop(wrappers);
    // SAFETY: `open` makes a box.
    unsafe { NonNull::new_unchecked(outside) }
}

/// Returns the wrapper of an object, or the object itself if it has none.
fn outside(inner: *mut fid) -> *mut fid {
    match wrappers().get(&inner.addr()) {
        // The wrapper is an allocation of its own; `handle::open` has exposed it.
        Some(outside) => ptr::with_exposed_provenance_mut(*outside),
        None => inner,
    }
}

/// Returns the object inside a wrapper, or the handle itself if it is no wrapper.
fn inside(handle: *mut fid) -> *mut fid {
    live::wrapped(handle).unwrap_or(handle)
}

/// Returns the application's handle of a provider's object.
pub fn outermost(object: usize) -> usize {
    let wrappers = wrappers();
    let mut handle = object;
    while let Some(outside) = wrappers.get(&handle) {
        handle = *outside;
    }
    handle
}

/// Returns the provider's object behind a handle of the application.
pub fn innermost(handle: usize) -> usize {
    let mut object = ptr::with_exposed_provenance_mut::<fid>(handle);
    while let Some(inner) = live::wrapped(object) {
        object = inner;
    }
    object.addr()
}

/// Map from the address of an object to the address of its wrapper.
fn wrappers() -> MutexGuard<'static, BTreeMap<usize, usize>> {
    static WRAPPERS: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());
    WRAPPERS.lock().unwrap_or_else(PoisonError::into_inner)
}
