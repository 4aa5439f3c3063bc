// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The provider `loopback`: RDM endpoints of one domain, which exchange messages by copying. It shows the smallest
//! provider that is useful: "A new provider in an afternoon" in CONTRIBUTING.md.
//!
//! `name` has the addresses, `info` the entry of fi_getinfo(3), as data, and `domain` is the transport. This file
//! makes a plug-in of them: fi_provider(7).

mod domain;
mod info;
mod name;

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::null_mut;

use abi::{fi_context, fi_fabric_attr, fi_info, fi_provider, fid_fabric, release};
use base::Error;
use base::info::{FabricAttr, Hints, Layout, Query, write_all};
use base::log::{Source, Subsys, log_info};
use engine::fabric::Fabric;
use object::ops::status;
use object::user::store;

use self::domain::Domain;

/// The log source. A loader knows the provider by the same name.
static SOURCE: Source = Source::new(NAME);
const NAME: &CStr = c"loopback";

/// The entry point of a plug-in: returns the provider.
#[unsafe(no_mangle)]
pub extern "C" fn fi_prov_ini() -> *mut fi_provider {
    Box::into_raw(Box::new(fi_provider {
        version: 1 << 16,
        fi_version: release::API,
        context: fi_context {
            internal: [null_mut(); 4],
        },
        name: NAME.as_ptr(),
        getinfo: Some(getinfo),
        fabric: Some(fabric),
        cleanup: None,
    }))
}

/// # Safety
/// fi_getinfo(3), as a libfabric calls a provider.
unsafe extern "C" fn getinfo(
    version: u32,
    node: *const c_char,
    service: *const c_char,
    flags: u64,
    hints: *const fi_info,
    info: *mut *mut fi_info,
) -> c_int {
    // SAFETY: the caller's strings are null or terminated, and unchanged during the call.
    let text = |text: *const c_char| (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) });
    let answer = || {
        // SAFETY: hints of a library with the interface that `fi_prov_ini` returns.
        let read = || unsafe { Hints::read(hints, Layout::of_api(release::API)) };
        let hints = (!hints.is_null()).then(read).transpose()?;
        let query = Query {
            version,
            node: text(node),
            service: text(service),
            flags,
            hints: hints.as_ref(),
        };
        let answer = info::offers(&query);
        for reason in &answer.reasons {
            log_info!(&SOURCE, Subsys::Core, "{reason}");
        }
        match answer.entries.is_empty() {
            true => Err(Error::NODATA),
            false => write_all(&answer.entries),
        }
    };
    // SAFETY: the caller's `info` is writable.
    status(unsafe { store(info, answer) })
}

/// # Safety
/// fi_fabric(3), as a libfabric calls a provider.
unsafe extern "C" fn fabric(
    attr: *mut fi_fabric_attr,
    fabric: *mut *mut fid_fabric,
    context: *mut c_void,
) -> c_int {
    let open = || {
        // SAFETY: passed on from the caller.
        let attr = unsafe { FabricAttr::read(attr) }.ok_or(Error::INVAL)?;
        Fabric::<Domain>::open((), &attr, attr.api_version, context)
    };
    // SAFETY: the caller's `fabric` is writable.
    status(unsafe { store(fabric, open) })
}
