// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Loadable providers: fi_provider(7). `places` finds their files; this module opens them.

mod foreign;
mod places;

use core::cell::Cell;
use core::time::Duration;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::kind::KNOWN;
use super::names::Allowed;
use base::log::{CORE, Subsys, log_debug, log_info, log_warn};
use base::params;
use base::settings::Settings;
use client::plugin::{Plugin, Refused};
use sys::{regular_file, shared_object, user};

pub use foreign::Foreign;
use places::{Piece, Places, file_name, files_in, short_name};

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread is loading plug-ins. A request for the list of providers would then deadlock.
pub fn is_inside() -> bool {
    INSIDE.get()
}

fn enter() {
    INSIDE.set(true);
}

/// Plug-ins in the order of their registration, each with a flag that FI_PROVIDER_PATH prefers it.
#[derive(Default)]
pub struct Found {
    pub plugins: Vec<(Plugin, bool)>,
    pub by_discovery: bool,
}

/// Result of a search. It collects log lines, because a log callback may call back into the registry, which is not
/// ready.
#[derive(Default)]
pub struct Search {
    found: Found,
    /// Time limit for a plug-in to return its provider.
    limit: Duration,
    warnings: Vec<String>,
    notes: Vec<String>,
    opened: HashSet<PathBuf>,
}

impl Search {
    /// Opens the files that the settings name. Their constructors and log callbacks run in this thread.
    pub fn run(settings: &Settings) -> Search {
        enter();
        let search = Search::open_all(settings);
        INSIDE.set(false);
        search
    }

    fn open_all(settings: &Settings) -> Search {
        let own = shared_object::file_of(Search::run as *const ());
        let default = own
            .as_deref()
            .and_then(|file| Some(file.canonicalize().ok()?.parent()?.join("libfabric")));
        let places = Places::of(settings.provider_path.as_deref(), default.as_deref());
        let mut search = Search {
            found: Found {
                plugins: Vec::new(),
                by_discovery: places.by_discovery,
            },
            limit: settings.provider_timeout,
            warnings: places.complaints,
            ..Search::default()
        };
        if user::is_elevated() && params::environment("FI_PROVIDER_PATH").is_some() {
            search.warnings.push(
                "FI_PROVIDER_PATH is ignored: the program has rights that who started it may not have"
                    .to_owned(),
            );
        }
        let allowed = match settings.provider_open_all {
            true => Allowed::parse(None),
            false => Allowed::parse(settings.provider.as_deref()),
        };
        if places.bare_names {
            for name in KNOWN.iter().filter(|name| may_matter(&allowed, name)) {
                search.try_bare(Path::new(&file_name(name)));
            }
        }
        for piece in &places.pieces {
            match piece {
                Piece::Preferred(file) => search.open(file, true),
                Piece::Folder(folder) => {
                    if let Err(error) = std::fs::read_dir(folder)
                        && default.as_ref() != Some(folder)
                    {
                        let complaint = format!("FI_PROVIDER_PATH: {}: {error}", folder.display());
                        search.warnings.push(complaint);
                    }
                    for file in files_in(folder) {
                        search.open_unless_excluded(&file, &allowed);
                    }
                }
            }
        }
        search
    }

    fn open_unless_excluded(&mut self, file: &Path, allowed: &Allowed) {
        let known = short_name(file).and_then(|short| {
            let mut known = KNOWN.iter();
            known.find(|name| file_name(name) == format!("lib{short}-fi.so"))
        });
        match known.filter(|name| !may_matter(allowed, name)) {
            None => self.open(file, false),
            Some(name) => self.notes.push(format!(
                "{}: not opened, FI_PROVIDER leaves {name} out (FI_PROVIDER_OPEN=all opens it)",
                file.display()
            )),
        }
    }

    fn open(&mut self, file: &Path, preferred: bool) {
        let real = file.canonicalize().unwrap_or_else(|_| file.to_owned());
        if self.opened.contains(&real) {
            self.notes
                .push(format!("{}: this file was opened before", file.display()));
            let mut plugins = self.found.plugins.iter_mut();
            let known = plugins.find(|(plugin, _)| plugin.path() == real);
            if let Some((_, is_preferred)) = known {
                *is_preferred |= preferred;
            }
            return;
        }
        if regular_file::is_other(&real) {
            let why = regular_file::NOT_REGULAR;
            self.warnings.push(format!("{}: {why}", file.display()));
            return;
        }
        // Logged before the load: if the plug-in ends the process, the last line names it.
        log_debug!(&CORE, Subsys::Core, "opening {}", file.display());
        match Plugin::load(file, self.limit, enter) {
            Ok(plugin) => self.add(plugin, preferred),
            Err(Refused::Silent) => {}
            Err(Refused::Because(why)) => self.warnings.push(format!("{}: {why}", file.display())),
        }
        self.opened.insert(real);
    }

    /// Tries the loader's own search; not finding a file is normal and is not logged.
    fn try_bare(&mut self, file: &Path) {
        if let Ok(plugin) = Plugin::load(file, self.limit, enter) {
            self.opened.insert(plugin.path().to_owned());
            self.add(plugin, false);
        }
    }

    fn add(&mut self, plugin: Plugin, preferred: bool) {
        let version = plugin.version();
        self.notes.push(format!(
            "registering provider {} ({}.{}) of {}{}",
            plugin.name().to_string_lossy(),
            version >> 16,
            version & 0xffff,
            plugin.path().display(),
            if preferred { ", preferred" } else { "" }
        ));
        self.found.plugins.push((plugin, preferred));
    }

    /// Returns the plug-ins; the log lines stay.
    pub fn take_found(&mut self) -> Found {
        std::mem::take(&mut self.found)
    }

    /// Writes the collected log lines.
    pub fn tell(&mut self) {
        for warning in self.warnings.drain(..) {
            log_warn!(&CORE, Subsys::Core, "{warning}");
        }
        for note in self.notes.drain(..) {
            log_info!(&CORE, Subsys::Core, "{note}");
        }
    }
}

/// Returns whether FI_PROVIDER allows a result that contains this provider. A list of core providers does not name the
/// layers over them, so it excludes a layer only by a negated name.
fn may_matter(allowed: &Allowed, name: &str) -> bool {
    let is_layer = name.starts_with("ofi_") || name.starts_with("off_");
    match is_layer {
        true => !allowed.excludes(name),
        false => allowed.part(name),
    }
}
