// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `fi_prov_ini`: this library's providers as plug-ins for another libfabric, fi_provider(7). The only exported name
//! of the plug-in.
//!
//! A plug-in is one provider, so the file is installed under as many names as this library has providers. A libfabric
//! that loads all names opens one object, whose function returns the next provider at each call.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicUsize, Ordering};

use super::info::text;
use abi::*;
use base::info::{FabricAttr, Hints, Layout, Query, write_all};
use base::log::{CORE, Subsys, log_warn};
use base::{Error, Result};
use object::ops::status;
use object::user::store;
use registry::lent;
use sys::shared_object;

/// Version of these providers. It is higher than any libfabric's, so they replace its providers of the same names.
const VERSION: u32 = 1000 << 16;
/// The interface of the structs of these providers.
const API: u32 = 2 << 16 | 6;

/// Returns the next provider that IRONFABRIC_PROVIDERS names, or the next of all if it is not set; NULL after the last.
#[unsafe(no_mangle)]
pub extern "C" fn fi_prov_ini() -> *mut fi_provider {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let wanted = std::env::var("IRONFABRIC_PROVIDERS").ok();
    let has_waiter = |name: &&CStr| {
        wanted.as_deref().is_none_or(|list| {
            let mut list = list.split(',');
            list.any(|wanted| wanted.as_bytes().eq_ignore_ascii_case(name.to_bytes()))
        })
    };
    let all = lent::names();
    // Relaxed: a libfabric loads plug-ins under a lock.
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    let known = |name: &&str| {
        all.iter()
            .any(|our| our.to_bytes().eq_ignore_ascii_case(name.as_bytes()))
    };
    let list = wanted.as_deref().unwrap_or_default();
    // Unknown names are reported in the first call only.
    for name in list
        .split(',')
        .filter(|name| call == 0 && !name.is_empty() && !known(name))
    {
        log_warn!(
            &CORE,
            Subsys::Core,
            "IRONFABRIC_PROVIDERS: no provider of ours is called {name:?}"
        );
    }
    let numbered = all.iter().copied().enumerate();
    let mut ours = numbered.filter(|(_, name)| has_waiter(name));
    let Some((number, name)) = ours.nth(call) else {
        return null_mut();
    };
    let Some((getinfo, fabric)) = CALLBACKS.get(number) else {
        return null_mut();
    };
    Box::into_raw(Box::new(fi_provider {
        version: VERSION,
        fi_version: API,
        context: fi_context {
            internal: [null_mut(); 4],
        },
        name: name.as_ptr(),
        getinfo: Some(*getinfo),
        fabric: Some(*fabric),
        cleanup: Some(cleanup),
    }))
}

type Getinfo = unsafe extern "C" fn(
    u32,
    *const c_char,
    *const c_char,
    u64,
    *const fi_info,
    *mut *mut fi_info,
) -> c_int;
type Fabric = unsafe extern "C" fn(*mut fi_fabric_attr, *mut *mut fid_fabric, *mut c_void) -> c_int;

/// The functions have no argument for the provider, so each provider needs its own. There are enough for all providers.
const CALLBACKS: [(Getinfo, Fabric); 8] = [
    (getinfo::<0>, fabric::<0>),
    (getinfo::<1>, fabric::<1>),
    (getinfo::<2>, fabric::<2>),
    (getinfo::<3>, fabric::<3>),
    (getinfo::<4>, fabric::<4>),
    (getinfo::<5>, fabric::<5>),
    (getinfo::<6>, fabric::<6>),
    (getinfo::<7>, fabric::<7>),
];

fn name_of(number: usize) -> Result<&'static CStr> {
    lent::names().get(number).copied().ok_or(Error::NODEV)
}

/// Returns the layout of the structs of the loading library, by its version.
fn layout() -> Layout {
    type Version = unsafe extern "C" fn() -> u32;
    // SAFETY: fi_version(3), which every libfabric has.
    match unsafe { shared_object::global::<Version>(c"fi_version") } {
        // SAFETY: as above.
        Some(version) => Layout::of_api(unsafe { version() }),
        None => Layout::of_api(API),
    }
}

/// # Safety
/// fi_getinfo(3), as a libfabric calls a provider.
unsafe extern "C" fn getinfo<const N: usize>(
    version: u32,
    node: *const c_char,
    service: *const c_char,
    flags: u64,
    hints: *const fi_info,
    info: *mut *mut fi_info,
) -> c_int {
    let ask = || {
        let hints = match hints.is_null() {
            true => None,
            // SAFETY: hints of the loading library.
            false => Some(unsafe { Hints::read(hints, layout())? }),
        };
        let query = Query {
            version,
            // SAFETY: the caller's strings are null or terminated, and unchanged during the call.
            node: unsafe { text(node) },
            // SAFETY: as above.
            service: unsafe { text(service) },
            flags,
            hints: hints.as_ref(),
        };
        write_all(&lent::getinfo(name_of(N)?, &query)?)
    };
    // SAFETY: the caller's `info` is writable.
    status(unsafe { store(info, ask) })
}

/// # Safety
/// fi_fabric(3), as a libfabric calls a provider.
unsafe extern "C" fn fabric<const N: usize>(
    attr: *mut fi_fabric_attr,
    fabric: *mut *mut fid_fabric,
    context: *mut c_void,
) -> c_int {
    let open = || {
        // SAFETY: passed on from the caller.
        let attr = unsafe { FabricAttr::read(attr) }.ok_or(Error::INVAL)?;
        lent::open_fabric(name_of(N)?, &attr, context)
    };
    // SAFETY: the caller's `fabric` is writable.
    status(unsafe { store(fabric, open) })
}

/// Does nothing: the destructor of this plug-in (`exit`) has already run, because it runs before that of the library
/// that calls this.
extern "C" fn cleanup() {}
