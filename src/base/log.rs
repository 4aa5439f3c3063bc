// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Log lines: their source, subsystem and level, and the check whether a line is wanted: "Logging interface" of
//! fabric(7).
//!
//! A module that logs uses a macro, which formats nothing unless the line is wanted: `log_warn!(&SOURCE,
//! Subsys::EpCtrl, "no route to {peer}")`. `filter` selects the lines, `sink` writes them, and `import` passes them to
//! callbacks of the application instead (fi_provider(3), `fi_import_log`).
//!
//! Trusted with: sharing a `Source` among threads.

mod alert;
mod deferred;
mod filter;
mod import;
mod settings;
mod sink;

use core::ffi::{CStr, c_int};
use core::fmt;
use core::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::ffi::CString;
use std::sync::OnceLock;

use self::deferred::Line;
use self::settings::settings;
use crate::escape;
use abi::{fi_context, fi_provider, release};

pub use self::deferred::{Deferring, at_exit, begin as begin_to_defer};
pub use self::import::{Callbacks, install};

/// A source of log lines: the core or a provider. Its address is a valid `const struct fi_provider *`.
#[repr(C)]
pub struct Source {
    provider: fi_provider,
    name: &'static CStr,
}

// SAFETY: a `Source` is never written to, and its only pointer that is not null is that of `name`, which is static.
unsafe impl Sync for Source {}

impl Source {
    pub const fn new(name: &'static CStr) -> Source {
        Source {
            provider: fi_provider {
                version: release::PROVIDER_VERSION,
                fi_version: release::API,
                context: fi_context {
                    internal: [core::ptr::null_mut(); 4],
                },
                name: name.as_ptr(),
                getinfo: None,
                fabric: None,
                cleanup: None,
            },
            name,
        }
    }

    pub fn name(&self) -> &'static CStr {
        self.name
    }

    /// Returns the provider struct that callbacks of the application receive for this source.
    pub fn provider(&self) -> &fi_provider {
        &self.provider
    }
}

/// The library itself, as opposed to one of its providers.
pub static CORE: Source = Source::new(c"core");

/// The level of a line; a log at one level includes the levels before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(i32)]
#[allow(dead_code)] // The values are those of the interface, whether or not this library uses them.
pub enum Level {
    Warn = 0,
    Trace = 1,
    Info = 2,
    Debug = 3,
}

/// The subsystem of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
#[allow(dead_code)] // As above.
pub enum Subsys {
    Core = 0,
    Fabric = 1,
    Domain = 2,
    EpCtrl = 3,
    EpData = 4,
    Av = 5,
    Cq = 6,
    Eq = 7,
    Mr = 8,
    Cntr = 9,
}

/// Returns true if a line of this kind is wanted. Costs one relaxed load while logging is off.
#[inline]
pub fn enabled(source: &Source, level: Level, subsys: Subsys) -> bool {
    enabled_for(&Origin::from(source), level, subsys)
}

/// As `enabled`, for a caller without a `Source`.
#[inline]
pub fn enabled_for(origin: &Origin, level: Level, subsys: Subsys) -> bool {
    // Relaxed: the value guards no other memory; what `has_waiter` reads has its own synchronisation.
    level as i32 <= LIMIT.load(Ordering::Relaxed)
        && (asks_later() || has_waiter(origin, level as c_int, subsys as c_int))
}

/// Writes a line, wanted or not; the macros call `enabled` first.
#[cold]
pub fn write(
    source: &Source,
    level: Level,
    subsys: Subsys,
    function: &str,
    line: u32,
    text: fmt::Arguments,
) {
    write_for(&Origin::from(source), level, subsys, function, line, text);
}

/// As `write`, for a caller without a `Source`.
#[cold]
pub fn write_for(
    origin: &Origin,
    level: Level,
    subsys: Subsys,
    function: &str,
    line: u32,
    text: fmt::Arguments,
) {
    write_limited(origin, level, subsys, function, line, text, None);
}

/// Writes a failure that probably ends a job, although no line of its kind is wanted. The application's callbacks
/// decide for themselves, so it is not passed to them.
#[cold]
pub fn write_unasked(
    source: &Source,
    subsys: Subsys,
    function: &str,
    line: u32,
    text: fmt::Arguments,
) {
    let settings = settings();
    if import::callbacks().is_some() {
        return;
    }
    let Some(is_last) = settings.alerts.take() else {
        return;
    };
    let mut message = escape::line(&text.to_string());
    if is_last {
        message.push_str(alert::LAST);
    }
    settings.sink.write(
        source.name(),
        Level::Warn as c_int,
        subsys as c_int,
        &text_to_c(function.to_owned()),
        line as c_int,
        &text_to_c(message),
    );
}

/// As `write_for`, after a call of `is_due_from` with `next`.
#[cold]
pub fn write_limited(
    origin: &Origin,
    level: Level,
    subsys: Subsys,
    function: &str,
    line: u32,
    text: fmt::Arguments,
    next: Option<&'static AtomicU64>,
) {
    let message = text_to_c(escape::line(&text.to_string()));
    let function = text_to_c(function.to_owned());
    let (level, subsys, line) = (level as c_int, subsys as c_int, line as c_int);
    hand_on(origin, level, subsys, function, line, message, next);
}

/// Writes a complete line, at once or when its thread has left its locks. The numbers may come from C.
#[cold]
pub fn hand_on(
    origin: &Origin,
    level: c_int,
    subsys: c_int,
    function: CString,
    line: c_int,
    message: CString,
    next: Option<&'static AtomicU64>,
) {
    match deferred::is_on() {
        false => emit(origin, level, subsys, &function, line, &message),
        true => Line {
            provider: origin.provider,
            name: origin.name.to_owned(),
            level,
            subsys,
            function,
            line,
            message,
            next: next.filter(|_| asks_later()),
        }
        .push(),
    }
}

/// Returns true if callbacks decide but cannot be called yet, because this thread is inside a lock. A line then counts
/// as wanted until it is delivered.
fn asks_later() -> bool {
    deferred::is_on() && import::callbacks().is_some()
}

/// The source of a line in the form of C: a provider that is loaded has no `Source`.
#[derive(Clone, Copy)]
pub struct Origin<'a> {
    pub provider: *const fi_provider,
    pub name: &'a CStr,
}

impl<'a> From<&'a Source> for Origin<'a> {
    fn from(source: &'a Source) -> Origin<'a> {
        Origin {
            provider: source.provider(),
            name: source.name(),
        }
    }
}

/// As `enabled`, for numbers from C, which can have any value. A loaded provider may call this from within a call that
/// was made under a lock; its line then counts as wanted until it is delivered.
#[cold]
pub fn has_waiter(origin: &Origin, level: c_int, subsys: c_int) -> bool {
    let settings = settings();
    let filtered = settings.filter.excludes_provider(origin.name);
    match import::callbacks() {
        Some(_) if deferred::is_on() => true,
        Some(callbacks) => callbacks.enabled(origin.provider, level, subsys, filtered),
        None => !filtered && settings.filter.includes(level, subsys),
    }
}

/// As `has_waiter`, but not more often than FI_LOG_INTERVAL allows: `next` is the earliest time of the next line, in
/// milliseconds of the monotonic clock.
pub fn ready(origin: &Origin, level: c_int, subsys: c_int, next: &AtomicU64) -> bool {
    let settings = settings();
    let filtered = settings.filter.excludes_provider(origin.name);
    if let Some(callbacks) = import::callbacks()
        && !deferred::is_on()
    {
        return callbacks.ready(origin.provider, level, subsys, filtered, next);
    }
    if !asks_later() && (filtered || !settings.filter.includes(level, subsys)) {
        return false;
    }
    is_due(next, milliseconds(), settings.interval)
}

/// As `enabled`, and not more often than FI_LOG_INTERVAL allows.
#[cold]
pub fn is_due_from(source: &Source, level: Level, subsys: Subsys, next: &AtomicU64) -> bool {
    let origin = Origin::from(source);
    let is_ready = || ready(&origin, level as c_int, subsys as c_int, next);
    enabled(source, level, subsys) && (asks_later() || is_ready())
}

/// Returns true for one thread, if several threads find that the line is due.
fn is_due(next: &AtomicU64, now: u64, interval: u64) -> bool {
    // Relaxed: no other data depends on this number.
    let due = next.load(Ordering::Relaxed);
    now >= due
        && next
            .compare_exchange(due, now + interval, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
}

/// Passes one line to the application's callback or to the place in FI_LOG_LOCATION.
pub fn emit(
    origin: &Origin,
    level: c_int,
    subsys: c_int,
    function: &CStr,
    line: c_int,
    message: &CStr,
) {
    let settings = settings();
    match import::callbacks() {
        Some(callbacks) => {
            callbacks.log(origin.provider, level, subsys, function, line, message);
        }
        None => settings
            .sink
            .write(origin.name, level, subsys, function, line, message),
    }
}

/// Returns the word for a level in a log line and in FI_LOG_LEVEL.
pub fn level_name(level: c_int) -> Option<&'static str> {
    LEVELS.get(usize::try_from(level).ok()?).copied()
}

/// Returns the word for a subsystem in a log line and in FI_LOG_SUBSYS.
pub fn subsys_name(subsys: c_int) -> Option<&'static str> {
    SUBSYSTEMS.get(usize::try_from(subsys).ok()?).copied()
}

/// Returns the name of the logging function, from the path of a function that the macros declare inside it.
pub fn function_of(here: &'static str) -> &'static str {
    here.rsplit("::")
        .skip(1)
        .find(|name| *name != "{{closure}}")
        .unwrap_or(here)
}

#[doc(hidden)]
#[macro_export]
macro_rules! log_at {
    ($level:ident, $source:expr, $subsys:expr, $($text:tt)+) => {{
        let source: &$crate::log::Source = $source;
        let subsys: $crate::log::Subsys = $subsys;
        if $crate::log::enabled(source, $crate::log::Level::$level, subsys) {
            fn here() {}
            $crate::log::write(
                source,
                $crate::log::Level::$level,
                subsys,
                $crate::log::function_of(::core::any::type_name_of_val(&here)),
                ::core::line!(),
                ::core::format_args!($($text)+),
            );
        }
    }};
}

/// Something that the user must know: `log_warn!(&SOURCE, Subsys::EpCtrl, "{} {}", a, b)`.
#[macro_export]
macro_rules! log_warn {
    ($($arguments:tt)+) => { $crate::log::log_at!(Warn, $($arguments)+) };
}

/// A failure that probably ends a job, as `log_warn`. Without FI_LOG_LEVEL the first ones of a process are written,
/// too.
#[macro_export]
macro_rules! log_failure {
    ($source:expr, $subsys:expr, $($text:tt)+) => {{
        let (source, subsys): (&$crate::log::Source, _) = ($source, $subsys);
        if $crate::log::enabled(source, $crate::log::Level::Warn, subsys) {
            $crate::log::log_warn!(source, subsys, $($text)+);
        } else {
            fn here() {}
            $crate::log::write_unasked(
                source,
                subsys,
                $crate::log::function_of(::core::any::type_name_of_val(&here)),
                ::core::line!(),
                ::core::format_args!($($text)+),
            );
        }
    }};
}

/// The steps of a program's run, without details.
#[macro_export]
macro_rules! log_trace {
    ($($arguments:tt)+) => { $crate::log::log_at!(Trace, $($arguments)+) };
}

/// Details: why something was chosen or refused.
#[macro_export]
macro_rules! log_info {
    ($($arguments:tt)+) => { $crate::log::log_at!(Info, $($arguments)+) };
}

/// The reason why a wrong call of the application is refused. Each place logs it at level info and not more often than
/// FI_LOG_INTERVAL allows, because a program may repeat the mistake with every message. Not for regular calls.
#[macro_export]
macro_rules! log_misuse {
    ($source:expr, $subsys:expr, $($text:tt)+) => {{
        static NEXT: ::core::sync::atomic::AtomicU64 = ::core::sync::atomic::AtomicU64::new(0);
        let (source, subsys): (&$crate::log::Source, _) = ($source, $subsys);
        if $crate::log::is_due_from(source, $crate::log::Level::Info, subsys, &NEXT) {
            fn here() {}
            $crate::log::write_limited(
                &source.into(),
                $crate::log::Level::Info,
                subsys,
                $crate::log::function_of(::core::any::type_name_of_val(&here)),
                ::core::line!(),
                ::core::format_args!($($text)+),
                Some(&NEXT),
            );
        }
    }};
}

/// Details that only help to find a bug in the library.
#[macro_export]
macro_rules! log_debug {
    ($($arguments:tt)+) => { $crate::log::log_at!(Debug, $($arguments)+) };
}

pub use {log_at, log_debug, log_failure, log_info, log_misuse, log_trace, log_warn};

/// Called by `import`: if callbacks are installed, they have to be called for every line.
fn set_asking(asked: bool) {
    let limit = settings().filter.level();
    LIMIT.store(if asked { EVERYTHING } else { limit }, Ordering::Relaxed);
}

/// Makes sure that the variables of the log are defined before all others.
pub(super) fn start() {
    settings();
}

fn milliseconds() -> u64 {
    static START: OnceLock<std::time::Instant> = OnceLock::new();
    // One second, so that a zero `next` is always in the past.
    START
        .get_or_init(std::time::Instant::now)
        .elapsed()
        .as_millis() as u64
        + 1000
}

/// C strings end at the first zero byte; a text that contains one is cut there.
fn text_to_c(text: String) -> CString {
    let mut bytes = text.into_bytes();
    bytes.truncate(bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len()));
    CString::new(bytes).unwrap_or_default()
}

/// The highest level that may be wanted. `EVERYTHING` until the settings are read, and while callbacks are installed.
static LIMIT: AtomicI32 = AtomicI32::new(EVERYTHING);
const EVERYTHING: i32 = i32::MAX;

const LEVELS: [&str; 4] = ["warn", "trace", "info", "debug"];
const SUBSYSTEMS: [&str; 10] = [
    "core", "fabric", "domain", "ep_ctrl", "ep_data", "av", "cq", "eq", "mr", "cntr",
];

#[cfg(test)]
mod tests;
