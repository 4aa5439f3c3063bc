// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The table of a provider's variables. A row has the field of the settings, the kind of value with its default, the
//! name of the variable and its help; definition, reading and the struct of settings follow from it.
#![forbid(unsafe_code)]

use core::time::Duration;
use std::path::PathBuf;

use super::{Given, Kind, NO_LIMIT};

/// How the value of a variable is read, and its default.
pub struct Row<T> {
    pub kind: Kind,
    pub default: T,
    read: fn(Given, &str) -> Option<T>,
}

impl<T> Row<T> {
    /// Returns the value of the variable `name`, or the default.
    pub fn value(self, given: Given, name: &str) -> T {
        (self.read)(given, name).unwrap_or(self.default)
    }
}

pub const fn size(default: usize) -> Row<usize> {
    Row {
        kind: Kind::Size,
        default,
        read: Given::size,
    }
}

/// A size without a default.
pub const fn any_size() -> Row<Option<usize>> {
    Row {
        kind: Kind::Size,
        default: None,
        read: |given, name| given.size(name).map(Some),
    }
}

pub const fn flag(default: bool) -> Row<bool> {
    Row {
        kind: Kind::Bool,
        default,
        read: Given::flag,
    }
}

/// A flag without a default.
pub const fn any_flag() -> Row<Option<bool>> {
    Row {
        kind: Kind::Bool,
        default: None,
        read: |given, name| given.flag(name).map(Some),
    }
}

pub const fn int(default: i32) -> Row<i32> {
    Row {
        kind: Kind::Int,
        default,
        read: Given::int,
    }
}

/// An int without a default.
pub const fn any_int() -> Row<Option<i32>> {
    Row {
        kind: Kind::Int,
        default: None,
        read: |given, name| given.int(name).map(Some),
    }
}

/// An int that is a count; a negative value means 0.
pub const fn count(default: usize) -> Row<usize> {
    Row {
        kind: Kind::Int,
        default,
        read: Given::count,
    }
}

/// An int of milliseconds; 0 and less are zero.
pub const fn milliseconds(default: Duration) -> Row<Duration> {
    Row {
        kind: Kind::Int,
        default,
        read: Given::milliseconds,
    }
}

/// An int of milliseconds; 0 and less are `NO_LIMIT`.
pub const fn time_limit(default: Duration) -> Row<Duration> {
    Row {
        kind: Kind::Int,
        default,
        read: limit,
    }
}

/// A time limit without a default.
pub const fn any_time_limit() -> Row<Option<Duration>> {
    Row {
        kind: Kind::Int,
        default: None,
        read: |given, name| limit(given, name).map(Some),
    }
}

fn limit(given: Given, name: &str) -> Option<Duration> {
    given.milliseconds(name).map(|time| match time {
        Duration::ZERO => NO_LIMIT,
        limit => limit,
    })
}

/// A text; an empty one is the same as none.
pub const fn text() -> Row<Option<String>> {
    Row {
        kind: Kind::String,
        default: None,
        read: |given, name| given.text(name).filter(|text| !text.is_empty()).map(Some),
    }
}

/// A path; an empty one is the same as none.
pub const fn path() -> Row<Option<PathBuf>> {
    Row {
        kind: Kind::Path,
        default: None,
        read: |given, name| (text().read)(given, name).map(|text| text.map(PathBuf::from)),
    }
}

/// A variable of upstream that has no effect here.
pub const fn ignored(kind: Kind) -> Row<()> {
    elsewhere(kind)
}

/// A variable that is read where it is used.
pub const fn elsewhere(kind: Kind) -> Row<()> {
    Row {
        kind,
        default: (),
        read: |_, _| None,
    }
}

/// `variables! { pub struct Params of SOURCE { field: Type = row(default), "name", "help"; ... } }` makes the struct
/// of a provider's settings, its default, `define` and `given`. A row without a field is `= ignored(kind), "name",
/// "help"` or `= elsewhere(kind), "name", "help"`.
#[macro_export]
macro_rules! variables {
    (
        $(#[$meta:meta])* pub struct $name:ident of $source:ident {
            $(
                $($(#[$doc:meta])* $field:ident: $type:ty)? = $row:ident $arguments:tt, $variable:literal, $help:expr;
            )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name { $($($(#[$doc])* pub $field: $type,)?)* }

        impl Default for $name {
            fn default() -> $name {
                $name { $($($field: <$type>::from($crate::params::row::$row $arguments.default),)?)* }
            }
        }

        impl $name {
            /// Defines the variables in the order in which `fi_getparams` lists them.
            pub fn define() {
                let rows = [$(($variable, $crate::params::row::$row $arguments.kind, $help),)*];
                $crate::params::define_all(&$source, &rows);
            }

            /// Returns the settings of the environment, with defaults for the others. Call `define` first.
            fn given() -> $name {
                let given = $crate::params::Given(&$source);
                $name { $($($field: <$type>::from($crate::params::row::$row $arguments.value(given, $variable)),)?)* }
            }
        }
    };
}
pub use variables;
