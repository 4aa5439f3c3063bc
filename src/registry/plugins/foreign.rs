// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A loadable provider in this library's list: fi_provider(7).

use core::ffi::c_void;
use std::ffi::{CStr, CString};
use std::path::Path;

use crate::kind::Kind;
use abi::{fi_provider, fid_fabric};
use base::info::{Answer, FabricAttr, Info, Query};
use base::log::{Source, Subsys, log_info, log_warn};
use base::{Error, Result};
use client::plugin::Plugin;
use client::wrap;
use prov::{Below, Provider};

pub struct Foreign {
    plugin: Plugin,
    kind: Kind,
}

impl Foreign {
    pub fn new(plugin: Plugin) -> Foreign {
        let name = plugin.name().to_string_lossy();
        let kind = Kind::of(&name);
        Foreign { plugin, kind }
    }

    /// Returns the complete name: an answer names only the provider below, except that a link provider's is complete.
    fn full_name(&self, given: Option<&CStr>) -> CString {
        let own = self.plugin.name();
        match given {
            None => own.to_owned(),
            Some(given) if self.kind == Kind::Link => given.to_owned(),
            Some(given) => {
                let name = [given.to_bytes(), b";", own.to_bytes()].concat();
                // Two C strings and a separator contain no zero byte.
                CString::new(name).unwrap_or_else(|_| own.to_owned())
            }
        }
    }
}

impl Provider for Foreign {
    fn source(&self) -> &'static Source {
        self.plugin.source()
    }

    fn version(&self) -> u32 {
        self.plugin.version()
    }

    fn file(&self) -> Option<&Path> {
        Some(self.plugin.path())
    }

    fn api(&self) -> u32 {
        self.plugin.api()
    }

    fn define_params(&self) {}

    fn offers(&self, query: &Query, _below: &dyn Below) -> Answer {
        let source = self.plugin.source();
        let mut entries = match self.plugin.getinfo(query) {
            Ok(entries) => entries,
            Err(error) => {
                let named = query.hints.and_then(|hints| hints.fabric.as_ref());
                let named = named.and_then(|fabric| fabric.prov_name.as_deref());
                let path = self.plugin.path().display();
                match named == Some(source.name()) {
                    true => log_warn!(source, Subsys::Core, "{path}: fi_getinfo: {error}"),
                    false => log_info!(source, Subsys::Core, "{path}: fi_getinfo: {error}"),
                }
                return Answer::default();
            }
        };
        if entries.is_empty() {
            log_warn!(
                source,
                Subsys::Core,
                "{}: fi_getinfo succeeds without an entry",
                self.plugin.path().display()
            );
        }
        for Info { fabric, .. } in &mut entries {
            fabric.prov_name = Some(self.full_name(fabric.prov_name.as_deref()));
            fabric.prov_version = self.plugin.version();
            fabric.api_version = query.version;
        }
        Answer {
            entries,
            reasons: Vec::new(),
        }
    }

    fn open_fabric(
        &self,
        attr: &FabricAttr,
        api_version: u32,
        flags: u64,
        context: *mut c_void,
        _below: &dyn Below,
    ) -> Result<*mut fid_fabric> {
        if flags != 0 {
            return Err(Error::BADFLAGS);
        }
        log_info!(
            self.plugin.source(),
            Subsys::Fabric,
            "fabric opened by {}",
            self.plugin.path().display()
        );
        let context = context.expose_provenance();
        self.plugin.open_fabric(attr, api_version, context)
    }

    fn is_hook(&self) -> bool {
        !self.plugin.has_getinfo()
    }

    fn hook(&self, fabric: wrap::Fabric, hooked: &dyn Provider) -> wrap::Hooked {
        self.plugin.hook(fabric, hooked.raw())
    }

    fn raw(&self) -> &fi_provider {
        self.plugin.raw()
    }

    fn clean_up(&self) {
        self.plugin.clean_up();
    }
}
