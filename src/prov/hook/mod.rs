// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Hooks, fi_hook(7): the layers that FI_HOOK puts around the fabrics of any provider.
//!
//! `client::wrap` makes the objects and forwards the calls. A hook here consists of a [`Watch`], which handles each
//! call. All hooks except `hmem` only observe and change nothing.

mod counts;
mod debug;
mod hmem;
mod monitor;
mod perf;
mod profile;
mod trace;

use core::ffi::c_void;

use crate::{Below, Provider};
use abi::{fid_fabric, release};
use base::info::{Answer, FabricAttr, Query};
use base::log::{self, Level, Source, Subsys, log_trace};
use base::{Error, Result, params};
use client::wrap::{Call, Fabric, Hooked, Watch, wrap_fabric};

/// A built-in hook.
struct Hook {
    source: &'static Source,
    variables: &'static [(&'static str, params::Kind, &'static str)],
    /// Makes the observer of the calls to a provider's objects, or none. The argument is the log source of that
    /// provider.
    watch: Start,
}

type Start = fn(&'static Source) -> Result<Option<Box<dyn Watch>>>;

/// All built-in hooks.
pub fn all() -> impl Iterator<Item = Box<dyn Provider>> {
    let hooks = [
        Hook {
            source: &PERF,
            variables: &[],
            watch: |hooked| Ok(Some(Box::new(perf::Perf::new(hooked)))),
        },
        Hook {
            source: &TRACE,
            variables: &[],
            watch: |hooked| Ok(Some(Box::new(trace::Trace::new(hooked)))),
        },
        Hook {
            source: &PROFILE,
            variables: &[],
            watch: |hooked| Ok(Some(Box::new(profile::Profile::new(hooked)))),
        },
        Hook {
            source: &monitor::SOURCE,
            variables: &monitor::VARIABLES,
            watch: |hooked| Ok(Some(Box::new(monitor::Monitor::new(hooked)?))),
        },
        Hook {
            source: &DEBUG,
            variables: &[],
            watch: |hooked| Ok(Some(Box::new(debug::Debug::new(hooked)))),
        },
        Hook {
            source: &NOOP,
            variables: &[],
            watch: |_| Ok(None),
        },
        Hook {
            source: &HMEM,
            variables: &[],
            watch: |hooked| Ok(hmem::start(hooked)),
        },
    ];
    hooks
        .into_iter()
        .map(|hook| Box::new(hook) as Box<dyn Provider>)
}

static PERF: Source = Source::new(c"ofi_hook_perf");
static TRACE: Source = Source::new(c"ofi_hook_trace");
static PROFILE: Source = Source::new(c"ofi_hook_profile");
static DEBUG: Source = Source::new(c"ofi_hook_debug");
static NOOP: Source = Source::new(c"ofi_hook_noop");
static HMEM: Source = Source::new(c"ofi_hook_hmem");

impl Provider for Hook {
    fn source(&self) -> &'static Source {
        self.source
    }

    fn version(&self) -> u32 {
        release::PROVIDER_VERSION
    }

    fn define_params(&self) {
        params::define_all(self.source, self.variables);
    }

    fn offers(&self, _query: &Query, _below: &dyn Below) -> Answer {
        Answer::default()
    }

    fn open_fabric(
        &self,
        _attr: &FabricAttr,
        _api_version: u32,
        _flags: u64,
        _context: *mut c_void,
        _below: &dyn Below,
    ) -> Result<*mut fid_fabric> {
        Err(Error::NODEV)
    }

    fn is_hook(&self) -> bool {
        true
    }

    fn hook(&self, fabric: Fabric, hooked: &dyn Provider) -> Hooked {
        match (self.watch)(hooked.source()) {
            Ok(watch) => Ok(wrap_fabric(fabric, hooked.api(), watch)),
            Err(error) => Err((fabric, error)),
        }
    }
}

/// Prints the lines of a table. Hooks do this when their fabric is closed.
fn print(source: &Source, lines: impl IntoIterator<Item = String>) {
    if log::enabled(source, Level::Trace, Subsys::Core) {
        for text in lines {
            log_trace!(source, Subsys::Core, "{text}");
        }
    }
}

/// The log subsystem for lines about a call.
fn subsys_of(call: &Call<'_>) -> Subsys {
    match call.slot().table() {
        "msg" | "tagged" | "wr" | "rma" | "atomic" | "collective" => Subsys::EpData,
        "cq" => Subsys::Cq,
        "cm" | "ep" => Subsys::EpCtrl,
        "av" | "av_set" => Subsys::Av,
        "eq" => Subsys::Eq,
        "cntr" => Subsys::Cntr,
        "fabric" | "wait" => Subsys::Fabric,
        "base" => Subsys::Core,
        _ => Subsys::Domain,
    }
}
