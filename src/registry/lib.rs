// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The providers that exist, their order, and which of them may answer: fi_getinfo(3), fi_fabric(3).
#![forbid(unsafe_code)]

mod below;
mod filter;
mod getinfo;
mod hooks;
mod kind;
#[cfg(feature = "plugin")]
pub mod lent;
pub mod names;
mod open;
mod order;
mod plugins;
mod registered;

use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::OnceLock;

use base::log::{CORE, Subsys, log_info, log_warn};
use base::settings::Settings;
use base::{Error, Result};
use base::{identity, params};
use kind::Kind;
use plugins::{Foreign, Found, Search};
use prov::{Provider, hook, lnx, mrail, off_coll, rxd, rxm, shm, sockets, tcp, udp, verbs};
use registered::Registered;
use sys::shared_object;

pub use getinfo::getinfo;
pub use hooks::put_around;
pub use open::open_fabric;

/// Returns the providers of the library, in the order of FI_PROV_ATTR_ONLY.
fn own() -> Vec<Box<dyn Provider>> {
    // A plug-in has none, because the library that loads it has its own layers and hooks.
    let is_plugin = cfg!(feature = "plugin");
    let mut own: Vec<Box<dyn Provider>> = match is_plugin {
        true => Vec::new(),
        false => vec![
            Box::new(rxm::Rxm),
            Box::new(rxd::Rxd),
            Box::new(lnx::Lnx),
            Box::new(mrail::Mrail),
            Box::new(off_coll::OffColl),
        ],
    };
    let cores: [Box<dyn Provider>; 6] = [
        Box::new(verbs::Verbs),
        Box::new(shm::Shm),
        Box::new(udp::Udp),
        Box::new(tcp::Tcp),
        Box::new(sockets::Sockets::over(tcp::BACKING)),
        Box::new(shm::Sm2),
    ];
    own.extend(cores);
    if !is_plugin {
        own.extend(hook::all());
    }
    own
}

/// Returns all providers, with their variables defined after those of the library. The first call determines the list.
/// Returns `BUSY` if a loadable provider calls this while it is being loaded.
pub fn providers() -> Result<&'static [Registered]> {
    static CHECKED: AtomicBool = AtomicBool::new(false);
    if plugins::is_inside() {
        log_warn!(
            &CORE,
            Subsys::Core,
            "providers are asked for while they are loaded (fi_prov_ini, a constructor, a callback of the log)"
        );
        return Err(Error::BUSY);
    }
    introduce();
    let mut search = None;
    let providers = PROVIDERS.get_or_init(|| {
        // A plug-in does not load other plug-ins.
        let mut found = match cfg!(feature = "plugin") {
            true => Search::default(),
            false => Search::run(Settings::get()),
        };
        let own = own();
        for provider in &own {
            provider.define_params();
        }
        let plugins = found.take_found();
        search = Some(found);
        list(plugins, own)
    });
    // Log lines may go to a callback that calls back into this function, so they are written after the call above.
    // Relaxed: a second caller leaves this to the first.
    if let Some(mut search) = search {
        search.tell();
    }
    if !CHECKED.swap(true, Ordering::Relaxed) && !cfg!(feature = "plugin") {
        check_settings(providers);
    }
    Ok(providers)
}

/// Writes the first line of the log, which names this library.
fn introduce() {
    static DONE: AtomicBool = AtomicBool::new(false);
    // Relaxed: a callback of the log may call back into this function.
    if !DONE.swap(true, Ordering::Relaxed) {
        let own = shared_object::file_of(introduce as *const ()).unwrap_or_default();
        log_info!(
            &CORE,
            Subsys::Core,
            "{}, {}",
            identity::text(),
            own.display()
        );
    }
}

/// Lists the providers; loadable ones register first.
fn list(found: Found, own: Vec<Box<dyn Provider>>) -> Vec<Registered> {
    let plugins = found
        .plugins
        .into_iter()
        .map(|(plugin, preferred)| Registered::plugin(Box::new(Foreign::new(plugin)), preferred));
    let own = own.into_iter().map(Registered::own);
    registered::arrange(plugins.chain(own).collect(), found.by_discovery)
}

static PROVIDERS: OnceLock<Vec<Registered>> = OnceLock::new();

/// Cleans up loadable providers at the end of the process.
pub fn clean_up() {
    for registered in PROVIDERS.get().into_iter().flatten() {
        registered.provider.clean_up();
    }
}

/// Warns about environment variables that are probably misspelt.
fn check_settings(providers: &[Registered]) {
    let counts = |one: &&Registered| !one.hidden && one.kind != Kind::Hook;
    let counts: Vec<&Registered> = providers.iter().filter(counts).collect();
    let names: Vec<String> = counts.iter().map(|one| one.name()).collect();
    let there: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    let variable = Settings::get().provider.as_deref();
    if let Some(complaint) = variable.and_then(|text| names::complaint(text, &there)) {
        log_warn!(&CORE, Subsys::Core, "{complaint}");
    }
    for unknown in params::unknown() {
        let variable = &unknown.name;
        let owner = counts
            .iter()
            .zip(&there)
            .find(|(_, name)| unknown.is_like_those_of(name));
        let meant = unknown
            .nearest
            .as_deref()
            .map(|near| format!("; {near} is meant?"));
        let meant = meant.unwrap_or_default();
        match owner {
            // A loadable provider may have further variables that are not known here.
            Some((registered, _)) if !registered.is_own() => {}
            Some((registered, name)) => log_warn!(
                registered.provider.source(),
                Subsys::Core,
                "{variable} is no variable of {name}; `fi_info -g {name}` lists them{meant}"
            ),
            None if meant.is_empty() => {}
            None => log_warn!(&CORE, Subsys::Core, "{variable} is no variable{meant}"),
        }
    }
}
