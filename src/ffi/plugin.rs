// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Loadable providers: fi_provider(7), `fi_prov_ini`. A file becomes a provider that can be asked.
//!
//! Trusted with: the functions in a plug-in's `struct fi_provider`, which stays at its place until the process ends,
//! and the lists that they make.

use core::ffi::{CStr, c_void};
use core::ptr;
use std::collections::HashSet;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::abi::*;
use crate::base::info::{FabricAttr, Hints, Info, Layout, Made, Query, release};
use crate::base::log::Source;
use crate::base::{Error, Result};
use crate::ffi::nic::nic_of;
use crate::ffi::{foreign, wrap};
use crate::sys::shared_object::{self, SharedObject};

/// A provider in a file.
pub struct Plugin {
    raw: *const fi_provider,
    source: &'static Source,
    path: PathBuf,
}

// SAFETY: the struct is not changed any more, and providers are asked from any thread.
unsafe impl Send for Plugin {}
// SAFETY: as above.
unsafe impl Sync for Plugin {}

/// Why a file is no provider.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused {
    /// It does not want to be one.
    Silent,
    /// It cannot be used, for this reason.
    Because(String),
}

type Entry = unsafe extern "C" fn() -> *mut fi_provider;

/// The oldest interface of plug-ins.
const OLDEST: u32 = 1 << 16 | 3;
/// The interface that made the parts of an `fi_info` longer than those of 2.6.
const WITH_XPU: u32 = 2 << 16 | 7;

impl Plugin {
    /// Opens the file and asks it for its provider, in a thread of its own: one that does not come back within `limit`
    /// is left alone. `inside` is called in that thread first.
    pub fn load(
        file: &Path,
        limit: Duration,
        inside: fn(),
    ) -> core::result::Result<Plugin, Refused> {
        let object = SharedObject::open(file).map_err(Refused::Because)?;
        // SAFETY: what fi_provider(7) says of the name; the object stays open as long as the function is called.
        let Some(entry) = (unsafe { object.function::<Entry>(c"fi_prov_ini") }) else {
            return Err(Refused::Because("it has no fi_prov_ini".to_owned()));
        };
        let (sender, answer) = mpsc::channel();
        let started = thread::Builder::new().spawn(move || {
            inside();
            // SAFETY: a plug-in's function without arguments.
            let provider = unsafe { entry() };
            // Nobody listens any more if it took too long.
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
        // What the plug-in keeps of each thread ends with it, before the file may be closed. It cannot have panicked.
        let _ = thread.join();
        let raw: *const fi_provider = ptr::with_exposed_provenance(raw);
        // SAFETY: NULL or the plug-in's struct.
        let Some(provider) = (unsafe { raw.as_ref() }) else {
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
        // SAFETY: not NULL, and terminated: the struct and what it names stay until the process ends, for the object is
        // never closed.
        let name = unsafe { CStr::from_ptr(provider.name) };
        object.keep();
        Ok(Plugin {
            raw,
            source: Box::leak(Box::new(Source::new(name))),
            path: path.unwrap_or_else(|| file.to_owned()),
        })
    }

    fn provider(&self) -> &fi_provider {
        // SAFETY: it stays where it is until the process ends.
        unsafe { &*self.raw }
    }

    pub fn source(&self) -> &'static Source {
        self.source
    }

    pub fn name(&self) -> &'static CStr {
        self.source.name()
    }

    pub fn version(&self) -> u32 {
        self.provider().version
    }

    /// The interface that it was written for.
    pub fn api(&self) -> u32 {
        self.provider().fi_version
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it can be asked: a hook cannot.
    pub fn has_getinfo(&self) -> bool {
        self.provider().getinfo.is_some()
    }

    /// Its entries for the query, as it made them.
    pub fn getinfo(&self, query: &Query) -> Result<Vec<Info>> {
        let getinfo = self.provider().getinfo.ok_or(Error::NODATA)?;
        let write = |hints: &Hints| {
            let mut hints = hints.clone();
            // Of objects that are wrapped a provider knows what is inside.
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
        // SAFETY: fi_getinfo(3), of a provider alone: the strings and the hints stay during the call.
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
            // SAFETY: made above; the provider has kept nothing of it.
            unsafe { release(hints) };
        }
        match code {
            // SAFETY: a list that the provider has made for its caller.
            0 => unsafe { self.entries(list) },
            code => Err(Error::new(code.saturating_abs())),
        }
    }

    /// # Safety
    /// `list` is NULL or a list of the provider's that nobody else uses.
    unsafe fn entries(&self, mut list: *mut fi_info) -> Result<Vec<Info>> {
        let mut entries = Vec::new();
        // A list may lead back into itself.
        let mut seen = HashSet::new();
        while !list.is_null() && seen.insert(list) {
            // SAFETY: an entry of the list, which is ours now.
            let next = unsafe { (*list).next };
            // SAFETY: as above; parts are NULL or what their names say.
            let info = match unsafe { is_whole(list) } {
                // SAFETY: as above, at least as long as in 2.6.
                true => unsafe { Info::read(list, Layout::FABRIC_1_9) },
                false => Err(Error::INVAL),
            };
            // SAFETY: as above; its NIC is NULL or an open object.
            let nic = info.is_ok().then(|| unsafe { nic_of((*list).nic) });
            // SAFETY: as above.
            let made = unsafe { Made::new(list, self.layout()) }?;
            if let Ok(mut info) = info {
                (info.made, info.nic) = (Some(made), nic.flatten());
                entries.push(info);
            }
            list = next;
        }
        Ok(entries)
    }

    /// How long the parts of its entries are at least.
    fn layout(&self) -> Layout {
        match self.api() < WITH_XPU {
            true => Layout::FABRIC_1_9,
            false => Layout::FABRIC_1_10,
        }
    }

    /// fi_fabric(3).
    pub fn open_fabric(
        &self,
        attr: &FabricAttr,
        api_version: u32,
        context: *mut c_void,
    ) -> Result<*mut fid_fabric> {
        let open = self.provider().fabric.ok_or(Error::NODEV)?;
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
        // SAFETY: fi_fabric(3), of a provider alone: the strings stay during the call.
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

    /// fi_hook(7): opens a fabric of its own around the given one. The provider of that is told as C knows it.
    pub fn hook(&self, fabric: wrap::Fabric, hooked: *const fi_provider) -> Result<wrap::Fabric> {
        let open = self.provider().fabric.ok_or(Error::NODEV)?;
        let mut attr = fi_fabric_attr {
            fabric: fabric.raw(),
            name: ptr::null_mut(),
            prov_name: ptr::null_mut(),
            prov_version: 0,
            api_version: 0,
        };
        let mut around: *mut fid_fabric = ptr::null_mut();
        // SAFETY: a hook's function, with an open fabric and its provider.
        let code = unsafe { open(&raw mut attr, &raw mut around, hooked.cast_mut().cast()) };
        match code {
            // SAFETY: opened just now.
            0 => unsafe {
                foreign::expect();
                wrap::Fabric::new(around)
            },
            code => Err(Error::new(code.saturating_abs())),
        }
    }

    /// Where the plug-in has its struct.
    pub fn raw(&self) -> *const fi_provider {
        self.raw
    }

    /// fi_provider(7): before the library goes.
    pub fn clean_up(&self) {
        if let Some(cleanup) = self.provider().cleanup {
            // SAFETY: the plug-in's function; nothing of it is called any more.
            unsafe { cleanup() };
        }
    }
}

/// Fabrics know for which interface they were opened since then.
const WITH_API_VERSION: u32 = 1 << 16 | 5;

/// Entries without these parts are none: everybody reads them.
///
/// # Safety
/// `entry` is an entry whose parts are NULL or what their names say.
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
