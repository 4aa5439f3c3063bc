// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Variables of the environment: `fi_param_define`, `fi_param_get` in fi_provider(3).
//!
//! A variable has to be defined before it is read. Its name in the environment is `FI_`, the provider and the
//! parameter, all in upper case. The value comes from the environment or from the system's file (`sysconfig`); `value`
//! parses its text.
#![forbid(unsafe_code)]

pub mod row;
pub mod spelling;
mod sysconfig;
mod value;

use core::fmt;
use core::time::Duration;
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStringExt;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use self::spelling::nearest;
use self::sysconfig::SystemFile;
use crate::log::{self, CORE, Level, Origin, Source, Subsys, log_warn};
use crate::{Error, Result};
use sys::user;

pub use self::row::variables;
pub use self::value::{Kind, Value};

/// One defined variable.
#[derive(Clone, Debug)]
pub struct Definition {
    /// The provider's name, or `None` for the library's own.
    pub provider: Option<String>,
    /// The parameter's name as it was defined.
    pub name: String,
    /// The name in the environment.
    pub variable: String,
    pub kind: Kind,
    pub help: String,
}

/// Defines a variable; `source` is its provider, or `None` for the library's own.
///
/// A second definition of the same name is listed but has no further effect.
pub fn define(source: Option<&Source>, name: &str, kind: Kind, help: &str) -> Result {
    define_for(provider_of(source), name, kind, help)
}

/// Returns the value as text; bytes that are not UTF-8 are replaced.
pub fn get_str(source: Option<&Source>, name: &str) -> Result<String> {
    match get(source, name)? {
        Value::String(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        _ => Err(Error::INVAL),
    }
}

pub fn get_int(source: Option<&Source>, name: &str) -> Result<i32> {
    match get(source, name)? {
        Value::Int(number) => Ok(number),
        _ => Err(Error::INVAL),
    }
}

pub fn get_bool(source: Option<&Source>, name: &str) -> Result<bool> {
    match get(source, name)? {
        Value::Bool(truth) => Ok(truth),
        _ => Err(Error::INVAL),
    }
}

pub fn get_size(source: Option<&Source>, name: &str) -> Result<usize> {
    match get(source, name)? {
        Value::Size(number) => Ok(number),
        _ => Err(Error::INVAL),
    }
}

/// Defines several variables of a provider, with name, kind and help.
pub fn define_all(source: &'static Source, variables: &[(&str, Kind, &str)]) {
    for (name, kind, help) in variables {
        if let Err(error) = define(Some(source), name, *kind, help) {
            log_warn!(source, Subsys::Core, "variable {name}: {error}");
        }
    }
}

/// A time limit that never expires (136 years), so that it can be added to a point in time.
pub const NO_LIMIT: Duration = Duration::from_secs(1 << 32);

/// The variables of a provider that are set and valid.
#[derive(Clone, Copy)]
pub struct Given(pub &'static Source);

impl Given {
    pub fn text(self, name: &str) -> Option<String> {
        get_str(Some(self.0), name).ok()
    }

    pub fn int(self, name: &str) -> Option<i32> {
        get_int(Some(self.0), name).ok()
    }

    /// Returns an int that is a count; a negative value means 0.
    pub fn count(self, name: &str) -> Option<usize> {
        self.int(name)
            .map(|number| usize::try_from(number).unwrap_or(0))
    }

    /// Returns an int of milliseconds; a negative value means 0.
    pub fn milliseconds(self, name: &str) -> Option<Duration> {
        self.count(name)
            .map(|number| Duration::from_millis(number as u64))
    }

    pub fn size(self, name: &str) -> Option<usize> {
        get_size(Some(self.0), name).ok()
    }

    pub fn flag(self, name: &str) -> Option<bool> {
        get_bool(Some(self.0), name).ok()
    }
}

/// As `define`, for a provider without a `Source`.
pub fn define_for(provider: Option<&str>, name: &str, kind: Kind, help: &str) -> Result {
    log::start();
    define_silently(provider, name, kind, help)
}

/// Returns the value of a variable in the type of its definition, and logs it with the source `origin`.
///
/// Errors: `NOENT`: not defined; `NODATA`: not set; `INVAL`: the text is not valid for that type.
pub fn get_for(origin: &Origin, provider: Option<&str>, name: &str) -> Result<Value> {
    let (level, outcome, result) = match read(provider, name) {
        Ok(value) => (Level::Info, value.to_string(), Ok(value)),
        Err(Absent::Unset) => (Level::Info, "<not set>".to_owned(), Err(Error::NODATA)),
        Err(Absent::Senseless(senseless)) => {
            warn_once(origin, &senseless);
            return Err(Error::INVAL);
        }
        Err(Absent::Undefined) => return Err(Error::NOENT),
    };
    if log::enabled_for(origin, level, Subsys::Core) {
        let message = format_args!("variable {name}={outcome}");
        log::write_for(origin, level, Subsys::Core, "get_for", line!(), message);
    }
    result
}

/// Warns once per variable, because a program may read its variable many times.
fn warn_once(origin: &Origin, senseless: &Senseless) {
    static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if !log::enabled_for(origin, Level::Warn, Subsys::Core) {
        return;
    }
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    let is_new = told.insert(senseless.variable.clone());
    // The callback that receives the line may read a variable itself.
    drop(told);
    if is_new {
        let message = format_args!("{senseless}");
        log::write_for(
            origin,
            Level::Warn,
            Subsys::Core,
            "get_for",
            line!(),
            message,
        );
    }
}

/// A variable of the environment that is not defined.
pub struct Unknown {
    pub name: String,
    /// A defined one that is probably meant.
    pub nearest: Option<String>,
}

impl Unknown {
    /// Whether its name begins like the variables of this provider.
    pub fn is_like_those_of(&self, provider: &str) -> bool {
        self.name.starts_with(&variable_name(Some(provider), ""))
    }
}

/// Returns variables of the environment that begin with `FI_`, but are not defined.
pub fn unknown() -> Vec<Unknown> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let mut names: Vec<String> = names.filter(|name| name.starts_with("FI_")).collect();
    let table = table();
    let known = || table.iter().map(|definition| definition.variable.as_str());
    names.retain(|name| known().all(|known| known != name));
    names.sort_unstable();
    let unknown = |name: String| Unknown {
        nearest: nearest(&name, known()).map(str::to_owned),
        name,
    };
    names.into_iter().map(unknown).collect()
}

/// Returns all definitions in their order.
pub fn definitions() -> Vec<Definition> {
    table().clone()
}

/// Returns the value in the environment, whatever the system's file has.
pub fn environment(variable: &str) -> Option<Vec<u8>> {
    std::env::var_os(variable).map(OsStringExt::into_vec)
}

/// As `define`, before the log is ready.
pub(super) fn define_silently(
    provider: Option<&str>,
    name: &str,
    kind: Kind,
    help: &str,
) -> Result {
    if help.is_empty() {
        return Err(Error::INVAL);
    }
    table().push(Definition {
        provider: provider.map(str::to_owned),
        name: name.to_owned(),
        variable: variable_name(provider, name),
        kind,
        help: match provider {
            Some(provider) => format!("{provider}: {help}"),
            None => help.to_owned(),
        },
    });
    Ok(())
}

/// Returns a variable of the library before the log is ready. The caller reports a text that is not valid.
pub(super) fn get_silently(name: &str) -> core::result::Result<Option<Value>, Senseless> {
    match read(None, name) {
        Ok(value) => Ok(Some(value)),
        Err(Absent::Senseless(senseless)) => Err(senseless),
        Err(Absent::Unset | Absent::Undefined) => Ok(None),
    }
}

fn get(source: Option<&Source>, name: &str) -> Result<Value> {
    let origin = Origin::from(source.unwrap_or(&CORE));
    get_for(&origin, provider_of(source), name)
}

/// The reason why a variable has no value.
enum Absent {
    Undefined,
    Unset,
    Senseless(Senseless),
}

/// A text that is not valid for the type of its variable.
pub(super) struct Senseless {
    variable: String,
    kind: Kind,
    text: Vec<u8>,
}

impl fmt::Display for Senseless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (variable, text) = (&self.variable, String::from_utf8_lossy(&self.text));
        let meaning = self.kind.meaning();
        write!(
            f,
            "{variable}={text:?}: {meaning} is wanted; the default stays"
        )
    }
}

fn read(provider: Option<&str>, name: &str) -> core::result::Result<Value, Absent> {
    let (variable, kind) = table()
        .iter()
        .find(|definition| definition.name == name && definition.provider.as_deref() == provider)
        .map(|definition| (definition.variable.clone(), definition.kind))
        .ok_or(Absent::Undefined)?;
    let text = text_of(&variable, kind, user::is_elevated()).ok_or(Absent::Unset)?;
    let value = kind.parse(&text);
    value.ok_or(Absent::Senseless(Senseless {
        variable,
        kind,
        text,
    }))
}

/// Returns the text of a variable. `elevated`: the program has rights that its caller, who wrote the environment, may
/// lack; then a path from the environment is ignored, because the program would create or connect to that path.
fn text_of(variable: &str, kind: Kind, elevated: bool) -> Option<Vec<u8>> {
    match kind == Kind::Path && elevated {
        true => system_file().choose(variable, |_| None),
        false => system_file().choose(variable, environment),
    }
}

fn system_file() -> &'static SystemFile {
    static FILE: OnceLock<SystemFile> = OnceLock::new();
    FILE.get_or_init(SystemFile::load)
}

fn provider_of(source: Option<&Source>) -> Option<&'static str> {
    source.and_then(|source| source.name().to_str().ok())
}

fn variable_name(provider: Option<&str>, name: &str) -> String {
    let mut variable = match provider {
        Some(provider) => format!("FI_{provider}_{name}"),
        None => format!("FI_{name}"),
    };
    variable.make_ascii_uppercase();
    variable
}

fn table() -> MutexGuard<'static, Vec<Definition>> {
    static TABLE: Mutex<Vec<Definition>> = Mutex::new(Vec::new());
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;
