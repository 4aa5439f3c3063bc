// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The variables of the log, which are the first that are read: fabric(7), "Logging interface".
#![forbid(unsafe_code)]

use core::ffi::c_int;
use core::sync::atomic::Ordering;
use std::sync::OnceLock;

use super::alert::Alerts;
use super::filter::{self, Filter};
use super::sink::Sink;
use super::{CORE, LIMIT, Level, Subsys, import, text_to_c};
use crate::escape;
use crate::params::{self, Kind, Value};

/// The variables of the log, read once.
pub(super) struct Settings {
    pub filter: Filter,
    pub sink: Sink,
    /// Failures that are written although the user has asked for no log.
    pub alerts: Alerts,
    /// Milliseconds between lines of a rate-limited message.
    pub interval: u64,
}

/// Reads the settings at the first call. Nothing in here may log.
pub(super) fn settings() -> &'static Settings {
    SETTINGS.get_or_init(|| {
        let settings = Settings::read();
        if import::callbacks().is_none() {
            LIMIT.store(settings.filter.level(), Ordering::Relaxed);
        }
        settings
    })
}

impl Settings {
    fn read() -> Settings {
        for (name, kind, help) in VARIABLES {
            let _ = params::define_silently(None, name, kind, help);
        }
        let mut complaints = Vec::new();
        let text = |name| match params::get_silently(name) {
            Ok(Some(Value::String(text))) => Some(String::from_utf8_lossy(&text).into_owned()),
            _ => None,
        };
        let mut number = |name, default| match params::get_silently(name) {
            Ok(Some(Value::Int(number))) => number,
            Err(senseless) => {
                complaints.push(senseless.to_string());
                default
            }
            _ => default,
        };
        let is_told = !matches!(
            params::get_silently("log_failures"),
            Ok(Some(Value::Bool(false)))
        );
        let (level, subsystems) = (text("log_level"), text("log_subsys"));
        let location = text("log_location").unwrap_or_default();
        let mode = number("log_location_mode", DEFAULT_MODE) as u32;
        let interval = number("log_interval", DEFAULT_INTERVAL).max(0) as u64;
        complaints.extend(filter::unknown_words(
            level.as_deref(),
            subsystems.as_deref(),
        ));
        let sink = Sink::open(&location, mode).unwrap_or_else(|error| {
            complaints.push(format!(
                "log lines go to stderr, not to FI_LOG_LOCATION={location}: {error}"
            ));
            Sink::Stderr
        });
        let providers = text("log_prov");
        let alerts = Alerts::new(is_told && level.is_none());
        let filter = Filter::new(
            level.as_deref(),
            providers.as_deref(),
            subsystems.as_deref(),
        );
        // If logging is on, complaints about its own settings are written even if those settings exclude them.
        if filter.level() >= Level::Warn as c_int {
            for complaint in complaints {
                let (name, line) = (CORE.name(), line!() as c_int);
                let (level, subsys) = (Level::Warn as c_int, Subsys::Core as c_int);
                sink.write(
                    name,
                    level,
                    subsys,
                    c"read",
                    line,
                    &text_to_c(escape::line(&complaint)),
                );
            }
        }
        Settings {
            filter,
            sink,
            alerts,
            interval,
        }
    }
}

static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// All variables that are read before the first line can be logged, in the order in which `fi_getparams` shows them.
const VARIABLES: [(&str, Kind, &str); 8] = [
    (
        "prefer_sysconfig",
        Kind::Bool,
        "the system's libfabric.conf wins over the environment (default: no)",
    ),
    (
        "log_interval",
        Kind::Int,
        "milliseconds between two lines of a rate-limited message (default: 2000)",
    ),
    (
        "log_level",
        Kind::String,
        "what is logged: warn, trace, info or debug, each with those before it; error is warn, none is nothing at all \
         (default: the first failures that probably end a job)",
    ),
    (
        "log_failures",
        Kind::Bool,
        "whether the first 5 failures that probably end a job are logged if FI_LOG_LEVEL is not set (default: yes)",
    ),
    (
        "log_prov",
        Kind::String,
        "providers that log, separated by commas; a leading ^ means all but these (default: all)",
    ),
    (
        "log_subsys",
        Kind::String,
        "subsystems that are logged: core, fabric, domain, ep_ctrl, ep_data, av, cq, eq, mr, cntr, separated by \
         commas; a leading ^ means all but these (default: all)",
    ),
    (
        "log_location",
        Kind::Path,
        "where the log goes: stderr, stdout, a file that does not exist yet, or a directory (default: stderr)",
    ),
    (
        "log_location_mode",
        Kind::Int,
        "permissions of the log file (default: 0600)",
    ),
];
const DEFAULT_INTERVAL: c_int = 2000;
const DEFAULT_MODE: c_int = 0o600;
