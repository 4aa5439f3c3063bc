// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_getinfo(3): queries every provider that may answer, and puts the answers in order.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;

use super::below::View;
use super::filter::{Filter, UNFILTERED};
use super::registered::Registered;
use super::{hooks, open, order, providers};
use abi::{FI_PROV_ATTR_ONLY, release};
use base::info::{Info, Query, Reason, Refusal, Value};
use base::log::{CORE, Source, Subsys, log_info};
use base::settings::Settings;
use base::{Error, Result};
use prov::Below;
use sys::netif::OneLook;

/// Returns the entries for a query, at least one. The log gets the reasons why others are missing.
pub fn getinfo(query: &Query) -> Result<Vec<Info>> {
    if query.version > release::API {
        let refusal = Refusal::new(
            "version",
            Value::Version(query.version),
            Value::Version(release::API),
        );
        log_reason(&CORE, &refusal.by("core"));
        return Err(Error::NOSYS);
    }
    let providers = providers()?;
    if query.flags == FI_PROV_ATTR_ONLY {
        return Ok(providers.iter().map(bare).collect());
    }
    let variable = Settings::get().provider.as_deref();
    let _one = OneLook::begin();
    let answer = View::of_application(providers, variable).offers(query);
    for (i, reason) in answer.reasons.iter().enumerate() {
        // A provider may be queried for itself and for layers above it.
        if answer.reasons[..i].contains(reason) {
            continue;
        }
        let mut sources = providers.iter().map(|other| other.provider.source());
        let source = sources.find(|source| source.name().to_bytes() == reason.provider.as_bytes());
        log_reason(source.unwrap_or(&CORE), reason);
    }
    let mut entries = answer.entries;
    if query.flags & UNFILTERED != 0 {
        return match entries.is_empty() {
            true => Err(Error::NODATA),
            false => Ok(entries),
        };
    }
    if let Some(format) = Settings::get().addr_format {
        let any = entries.len();
        entries.retain(|entry| entry.addr_format == format);
        log_info!(
            &CORE,
            Subsys::Core,
            "FI_ADDR_FORMAT leaves {} of {any} entries",
            entries.len()
        );
    }
    if let Some(hints) = query.hints {
        open::restrict(&mut entries, hints);
    }
    let layering = Filter::of(query, variable).layering();
    let mut entries = order::prefer_native(entries, layering);
    if entries.is_empty() {
        return Err(Error::NODATA);
    }
    open::find_open(&mut entries);
    hooks::show_outermost(&mut entries);
    Ok(entries)
}

/// Returns the entry of a provider for FI_PROV_ATTR_ONLY, usable or not. The name of the fabric holds the file of a
/// loadable provider.
fn bare(registered: &Registered) -> Info {
    let provider = &registered.provider;
    let mut info = Info::default();
    info.fabric.prov_name = Some(provider.source().name().to_owned());
    info.fabric.prov_version = provider.version();
    info.fabric.name = provider
        .file()
        .and_then(|file| CString::new(file.as_os_str().as_bytes()).ok());
    info
}

fn log_reason(source: &'static Source, reason: &Reason) {
    log_info!(source, Subsys::Core, "{reason}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::info::{FabricAttr, Hints};

    fn query<'a>(hints: Option<&'a Hints>, version: u32, flags: u64) -> Query<'a> {
        Query {
            version,
            node: None,
            service: None,
            flags,
            hints,
        }
    }

    fn naming(provider: &std::ffi::CStr) -> Hints {
        Hints {
            fabric: Some(FabricAttr {
                prov_name: Some(provider.to_owned()),
                ..FabricAttr::default()
            }),
            ..Hints::default()
        }
    }

    #[test]
    fn newer_versions_are_not_known() {
        for version in [release::API + 1, 3 << 16, 99 << 16, u32::MAX] {
            let answer = getinfo(&query(None, version, 0));
            assert_eq!(answer, Err(Error::NOSYS), "{version:#x}");
        }
        for version in [0, release::API] {
            assert!(getinfo(&query(None, version, 0)).is_ok(), "{version:#x}");
        }
    }

    #[test]
    fn provider_attributes_alone_need_nothing_else() {
        let unknown = naming(c"zork");
        let entries = getinfo(&query(Some(&unknown), release::API, FI_PROV_ATTR_ONLY)).unwrap();
        let names: Vec<_> = entries.iter().map(|e| e.fabric.prov_name.clone()).collect();
        let own = [
            c"verbs",
            c"ofi_rxm",
            c"ofi_rxd",
            c"shm",
            c"udp",
            c"tcp",
            c"sockets",
            c"ofi_hook_perf",
            c"ofi_hook_trace",
            c"ofi_hook_profile",
            c"ofi_hook_monitor",
            c"ofi_hook_debug",
            c"ofi_hook_noop",
            c"ofi_hook_hmem",
            c"off_coll",
            c"ofi_mrail",
            c"sm2",
            c"lnx",
        ];
        assert_eq!(names, own.map(|name| Some(name.to_owned())));
        assert_eq!(entries[0].fabric.prov_version, release::PROVIDER_VERSION);
        assert_eq!(entries[0].ep, Info::default().ep);
    }

    #[test]
    fn an_unknown_provider_has_no_data() {
        let hints = naming(c"zork");
        assert_eq!(
            getinfo(&query(Some(&hints), release::API, 0)),
            Err(Error::NODATA)
        );
    }

    #[test]
    fn a_layer_that_is_not_here_has_no_data_in_either_order() {
        for name in [c"ofi_rxn;tcp", c"tcp;ofi_rxn", c"ofi_rxn;udp"] {
            let hints = naming(name);
            let query = query(Some(&hints), release::API, 0);
            assert_eq!(getinfo(&query), Err(Error::NODATA), "{name:?}");
            let filter = Filter::of(&query, None);
            let reason = filter.refuse("tcp").unwrap().by("tcp").to_string();
            let wanted = name.to_str().unwrap();
            let text =
                format!(r#"refused: tcp: fabric_attr.prov_name: wanted "{wanted}", offered "tcp""#);
            assert_eq!(reason, text);
        }
    }

    #[test]
    fn native_endpoints_come_first_unless_layering_is_excluded() {
        let first = |name| {
            getinfo(&query(Some(&naming(name)), release::API, 0)).unwrap()[0]
                .ep
                .ep_type
        };
        assert_eq!(first(c"tcp"), 3);
        assert_eq!(first(c"tcp;^ofi_rxm"), 1);
    }

    #[test]
    fn refusals_by_name_have_their_reason() {
        let hints = naming(c"udp");
        let filter = Filter::of(&query(Some(&hints), release::API, 0), None);
        let reason = filter.refuse("tcp").unwrap().by("tcp");
        let text = r#"refused: tcp: fabric_attr.prov_name: wanted "udp", offered "tcp""#;
        assert_eq!(reason.to_string(), text);
        let filter = Filter::of(&query(None, release::API, 0), Some("^tcp"));
        let reason = filter.refuse("tcp").unwrap().by("tcp");
        let text = r#"refused: tcp: FI_PROVIDER: wanted "^tcp", offered "tcp""#;
        assert_eq!(reason.to_string(), text);
    }
}
