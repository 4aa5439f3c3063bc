// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Loadable providers: fi_provider(7), `fi_prov_ini`. Loads a provider from a file and calls its functions.
//!
//! Trusted with: the functions in a plug-in's `struct fi_provider`, which stays at its address until the process ends,
//! and the lists that these functions return.

use core::ffi::CStr;
use core::ptr;
use std::collections::HashSet;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, mpsc};
use std::thread;
use std::time::Duration;

use crate::wrap;
use abi::*;
use base::info::{FabricAttr, Hints, Info, Layout, Made, Query, release};
use base::log::Source;
use base::{Error, Result};
use object::foreign;
use object::nic::nic_of;
use sys::shared_object::{self, SharedObject};

/// A provider in a file.
///
/// A hook gets the provider of the fabric as a struct, never as an address:
///
/// ```compile_fail,E0308
/// fn hook(plugin: &client::plugin::Plugin, fabric: client::wrap::Fabric) {
///     let _ = plugin.hook(fabric, core::ptr::null());
/// }
/// ```
///
/// The context of a fabric is a number, because it belongs to the application:
///
/// ```compile_fail,E0308
/// fn open(plugin: &client::plugin::Plugin, attr: &base::info::FabricAttr) {
///     let _ = plugin.open_fabric(attr, 0, core::ptr::null_mut());
/// }
/// ```
pub struct Plugin {
    raw: &'static fi_provider,
    source: &'static Source,
    path: PathBuf,
    /// Set by `clean_up`. Locked for reading while a function of the plug-in runs that this type calls.
    is_over: RwLock<bool>,
}

// SAFETY: the struct does not change any more, and any thread may call the functions of a provider.
unsafe impl Send for Plugin {}
// SAFETY: as above.
unsafe impl Sync for Plugin {}

/// Reason why a file is not used as a provider.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused {
    /// The file has no provider to offer, or its provider has no name. This is not reported.
    Silent,
    /// The provider cannot be used, for this reason.
    Because(String),
}

type Entry = unsafe extern "C" fn() -> *mut fi_provider;

/// The oldest interface that a plug-in may declare.
const OLDEST: u32 = 1 << 16 | 3;
/// The interface in which the structs of an `fi_info` became longer than in 2.6.
const WITH_XPU: u32 = 2 << 16 | 7;

impl Plugin {
    /// Opens the file and calls its `fi_prov_ini` in a new thread. If the call does not return within `limit`, the
    /// thread is abandoned. `inside` is called in that thread first.
    pub fn load(
        file: &Path,
        limit: Duration,
        inside: fn(),
    ) -> core::result::Result<Plugin, Refused> {
        let object = SharedObject::open(file).map_err(Refused::Because)?;
        // SAFETY: fi_provider(7) defines the type of this function; the object stays open while the function runs.
        let Some(entry) = (unsafe { object.function::<Entry>(c"fi_prov_ini") }) else {
            return Err(Refused::Because("it has no fi_prov_ini".to_owned()));
        };
        let (sender, answer) = mpsc::channel();
        let started = thread::Builder::new().spawn(move || {
            inside();
            // SAFETY: a plug-in's function without arguments.
            let provider = unsafe { entry() };
            // This fails if `load` has stopped waiting.
            let _ = sender.send(provider.expose_provenance());
        });
        let thread = started
            .map_err(|error| Refused::Because(format!("no thread for fi_prov_ini: {error}")))?;
        let Ok(raw) = answer.recv_timeout(limit) else {
            object.keep();
            return Err(Refused::Because(format!(
                "fi_prov_ini has not come back within {} ms",
                limit.as_millis()
            )));
        };
        // The thread must end before the file may be closed, because its thread-local data may have destructors in the
        // plug-in. It cannot have panicked.
        let _ = thread.join();
        let raw: *const fi_provider = ptr::with_exposed_provenance(raw);
        // SAFETY: NULL or the plug-in's struct, which stays until the process ends, because an object that has one is
        // never closed (`keep`).
        let Some(provider) = (unsafe { raw.as_ref::<'static>() }) else {
            return Err(Refused::Silent);
        };
        if let Some(refused) = unusable(provider) {
            if let Some(cleanup) = provider.cleanup {
                // SAFETY: the plug-in's function; it is not used any more.
                unsafe { cleanup() };
            }
            return Err(refused);
        }
        let path = shared_object::file_of(raw.cast()).and_then(|path| path.canonicalize().ok());
        // SAFETY: not NULL, and terminated. The struct and its strings stay until the process ends, because the object
        // is never closed.
        let name = unsafe { CStr::from_ptr(provider.name) };
        object.keep();
        Ok(Plugin {
            raw: provider,
            source: Box::leak(Box::new(Source::new(name))),
            path: path.unwrap_or_else(|| file.to_owned()),
            is_over: RwLock::new(false),
        })
    }

    /// Returns the struct for calls of its functions, which `clean_up` does not overtake while the guard exists.
    /// FI_NODEV after `clean_up`. A plug-in may call the library again from a function of its own.
    fn enter(&self) -> Result<(&fi_provider, RwLockReadGuard<'_, bool>)> {
        let is_over = self.is_over.read().unwrap_or_else(PoisonError::into_inner);
        match *is_over {
            false => Ok((self.raw, is_over)),
            true => Err(Error::NODEV),
        }
    }

    pub fn source(&self) -> &'static Source {
        self.source
    }

    pub fn name(&self) -> &'static CStr {
        self.source.name()
    }

    pub fn version(&self) -> u32 {
        self.raw.version
    }

    /// Returns the interface that the provider was written for.
    pub fn api(&self) -> u32 {
        self.raw.fi_version
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the provider has a getinfo function: a hook has none.
    pub fn has_getinfo(&self) -> bool {
        self.raw.getinfo.is_some()
    }

    /// Returns the entries of the provider for the query, unchanged.
    pub fn getinfo(&self, query: &Query) -> Result<Vec<Info>> {
        let (provider, _entered) = self.enter()?;
        let getinfo = provider.getinfo.ok_or(Error::NODATA)?;
        let write = |hints: &Hints| {
            let mut hints = hints.clone();
            // The provider gets its own objects, without the wrappers around them.
            hints.handle = wrap::innermost(hints.handle);
            if let Some(fabric) = &mut hints.fabric {
                fabric.fabric = wrap::innermost(fabric.fabric);
            }
            if let Some(domain) = &mut hints.domain {
                domain.domain = wrap::innermost(domain.domain);
            }
            hints.write()
        };
        let hints = query.hints.map(write).transpose()?;
        let text = |text: Option<&CStr>| text.map_or(ptr::null(), CStr::as_ptr);
        let mut list = ptr::null_mut();
        // SAFETY: fi_getinfo(3) of one provider: the strings and the hints live for the call.
        let code = unsafe {
            getinfo(
                query.version,
                text(query.node),
                text(query.service),
                query.flags,
                hints.unwrap_or(ptr::null_mut()),
                &raw mut list,
            )
        };
        if let Some(hints) = hints {
            // SAFETY: allocated above; the provider has kept no pointer into it.
            unsafe { release(hints) };
        }
        match code {
            // SAFETY: a list that the provider allocated for its caller.
            0 => unsafe { self.entries(list) },
            code => Err(Error::new(code.saturating_abs())),
        }
    }

    /// # Safety
    /// `list` is NULL or a list of the provider that belongs to the caller.
    unsafe fn entries(&self, mut list: *mut fi_info) -> Result<Vec<Info>> {
        let mut entries = Ok(Vec::new());
        // A faulty list may be circular.
        let mut seen = HashSet::new();
        while !list.is_null() && seen.insert(list) {
            // SAFETY: an entry of the list, which belongs to this function now.
            let next = unsafe { (*list).next };
            // SAFETY: as above; its parts are NULL or valid structs of their types.
            let info = match unsafe { is_whole(list) } {
                // SAFETY: as above, at least as long as in 2.6.
                true => unsafe { Info::read(list, Layout::FABRIC_1_9) },
                false => Err(Error::INVAL),
            };
            // SAFETY: as above; its NIC is NULL or an open object.
            let nic = info.is_ok().then(|| unsafe { nic_of((*list).nic) });
            // SAFETY: as above.
            let made = unsafe { Made::new(list, self.layout()) };
            // After an error the rest of the list is still freed, entry by entry.
            match (&mut entries, made, info) {
                (Ok(entries), Ok(made), Ok(mut info)) => {
                    (info.made, info.nic) = (Some(made), nic.flatten());
                    entries.push(info);
                }
                (Ok(_), Err(error), _) => entries = Err(error),
                _ => {}
            }
            list = next;
        }
        entries
    }

    /// Returns the least layout of the provider's entries: their structs are at least that long.
    fn layout(&self) -> Layout {
        match self.api() < WITH_XPU {
            true => Layout::FABRIC_1_9,
            false => Layout::FABRIC_1_10,
        }
    }

    /// fi_fabric(3). `context` is the application's number of the fabric.
    pub fn open_fabric(
        &self,
        attr: &FabricAttr,
        api_version: u32,
        context: usize,
    ) -> Result<*mut fid_fabric> {
        let (provider, _entered) = self.enter()?;
        let open = provider.fabric.ok_or(Error::NODEV)?;
        let context = ptr::with_exposed_provenance_mut(context);
        let text = |name: &Option<CString>| {
            name.as_deref()
                .map_or(ptr::null_mut(), |name| name.as_ptr().cast_mut())
        };
        let mut raw = fi_fabric_attr {
            fabric: ptr::null_mut(),
            name: text(&attr.name),
            prov_name: text(&attr.prov_name),
            prov_version: attr.prov_version,
            api_version,
        };
        let mut fabric: *mut fid_fabric = ptr::null_mut();
        // SAFETY: fi_fabric(3) of one provider: the strings live for the call.
        let code = unsafe { open(&raw mut raw, &raw mut fabric, context) };
        if code != 0 {
            return Err(Error::new(code.saturating_abs()));
        }
        if fabric.is_null() {
            return Err(Error::NODEV);
        }
        foreign::expect();
        if self.api() >= WITH_API_VERSION {
            // SAFETY: the provider has just opened it, with structs that have the member.
            unsafe { (*fabric).api_version = api_version };
        }
        Ok(fabric)
    }

    /// fi_hook(7): opens a fabric of the hook around the given fabric. `hooked` is the provider of the given fabric, as
    /// its C struct. On failure the given fabric is returned.
    pub fn hook(&self, fabric: wrap::Fabric, hooked: &fi_provider) -> wrap::Hooked {
        let (provider, _entered) = match self.enter() {
            Ok(entered) => entered,
            Err(error) => return Err((fabric, error)),
        };
        let Some(open) = provider.fabric else {
            return Err((fabric, Error::NODEV));
        };
        let mut attr = fi_fabric_attr {
            fabric: fabric.as_ptr(),
            name: ptr::null_mut(),
            prov_name: ptr::null_mut(),
            prov_version: 0,
            api_version: 0,
        };
        let mut around: *mut fid_fabric = ptr::null_mut();
        // SAFETY: a hook's function, with an open fabric and its provider.
        let code = unsafe {
            let hooked = ptr::from_ref(hooked).cast_mut().cast();
            open(&raw mut attr, &raw mut around, hooked)
        };
        if code != 0 {
            return Err((fabric, Error::new(code.saturating_abs())));
        }
        foreign::expect();
        // SAFETY: opened just now; it has taken the given fabric.
        unsafe { wrap::Fabric::new(around) }.map_err(|error| (fabric, error))
    }

    /// Returns the plug-in's struct.
    pub fn raw(&self) -> &'static fi_provider {
        self.raw
    }

    /// fi_provider(7): calls the plug-in's cleanup function before the library is unloaded, unless a thread is inside a
    /// function of the plug-in. Later calls of this type's methods return FI_NODEV.
    pub fn clean_up(&self) {
        let Ok(mut is_over) = self.is_over.try_write() else {
            return;
        };
        let was_over = core::mem::replace(&mut *is_over, true);
        // The function may call the library, and that the plug-in's provider.
        drop(is_over);
        if let Some(cleanup) = self.raw.cleanup.filter(|_| !was_over) {
            // SAFETY: the plug-in's function; no function of the struct is called after it (`enter`).
            unsafe { cleanup() };
        }
    }
}

/// The interface that added `api_version` to `struct fid_fabric`.
const WITH_API_VERSION: u32 = 1 << 16 | 5;

/// Whether an entry has the parts that the library and applications read without a check.
///
/// # Safety
/// `entry` is an entry whose parts are NULL or valid structs of their types.
unsafe fn is_whole(entry: *const fi_info) -> bool {
    // SAFETY: promised by the caller.
    unsafe {
        let entry = &*entry;
        !entry.ep_attr.is_null()
            && (entry.fabric_attr.as_ref()).is_some_and(|attr| !attr.name.is_null())
            && (entry.domain_attr.as_ref()).is_some_and(|attr| !attr.name.is_null())
    }
}

fn unusable(provider: &fi_provider) -> Option<Refused> {
    if provider.name.is_null() {
        return Some(Refused::Silent);
    }
    if provider.fabric.is_none() {
        return Some(Refused::Because(
            "its provider cannot open a fabric".to_owned(),
        ));
    }
    (provider.fi_version < OLDEST).then(|| {
        let (major, minor) = (provider.fi_version >> 16, provider.fi_version & 0xffff);
        Refused::Because(format!(
            "it is of interface {major}.{minor}, older than 1.3"
        ))
    })
}
