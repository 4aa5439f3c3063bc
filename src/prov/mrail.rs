// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The name and the variables of `ofi_mrail`, which libfabric's releases call experimental. It has no entries here: a
//! program that asks for them, or sets the variables, is told of `lnx`, which links several rails.

use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, Ordering};

use super::{Below, Provider};
use base::info::{Answer, FabricAttr, Query, Refusal};
use base::log::{Source, Subsys, log_warn};
use base::params::Kind;
use base::{Error, Result};

/// Log source and variable prefix of this provider.
pub static SOURCE: Source = Source::new(c"ofi_mrail");

base::params::variables! {
    /// The settings, which are only told of.
    pub struct Params of SOURCE {
        /// Addresses of rails.
        addr: Option<String> = text(), "addr",
            "accepted and ignored: addresses of rails; lnx links several of them (FI_LNX_PROV_LINKS)";
        = ignored(Kind::String), "addr_strc",
            "accepted and ignored: the same under an older name";
        = ignored(Kind::String), "config",
            "accepted and ignored: how messages are spread over rails";
    }
}

/// The provider in the registry's list.
pub struct Mrail;

const ADVICE: &str = "nothing; lnx links several rails: FI_LNX_PROV_LINKS, fi_lnx(7)";

impl Provider for Mrail {
    fn source(&self) -> &'static Source {
        &SOURCE
    }

    fn version(&self) -> u32 {
        abi::release::PROVIDER_VERSION
    }

    fn define_params(&self) {
        Params::define();
    }

    fn is_set_up(&self) -> bool {
        Params::given().addr.is_some()
    }

    fn offers(&self, _query: &Query, _below: &dyn Below) -> Answer {
        static TOLD: AtomicBool = AtomicBool::new(false);
        let addr = Params::given().addr;
        if let Some(addr) = &addr
            && !TOLD.swap(true, Ordering::Relaxed)
        {
            log_warn!(&SOURCE, Subsys::Core, "FI_OFI_MRAIL_ADDR={addr}: {ADVICE}");
        }
        let wanted = addr.unwrap_or_default();
        let refusal = Refusal::new("FI_OFI_MRAIL_ADDR", (*wanted).into(), ADVICE.into());
        Answer {
            entries: Vec::new(),
            reasons: vec![refusal.by("ofi_mrail")],
        }
    }

    fn open_fabric(
        &self,
        _attr: &FabricAttr,
        _api_version: u32,
        _flags: u64,
        _context: *mut c_void,
        _below: &dyn Below,
    ) -> Result<*mut abi::fid_fabric> {
        Err(Error::NODATA)
    }
}
