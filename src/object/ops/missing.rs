// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Unsupported table slots: each is a function of the slot's own type that returns FI_ENOSYS, never a null pointer,
//! because most inline functions call without a check. The slots of closed objects return FI_EBADF.
#![forbid(unsafe_code)]

use core::ffi::{c_char, c_int, c_void};

use crate::slots::{Answer, ProfileCallback, each_table};
use abi::*;
use base::log::{CORE, Subsys, log_misuse};

/// A table without supported calls. `..Missing::TABLE` fills the slots that a table does not name.
pub trait Missing {
    const TABLE: Self;
    /// The table of an object that was closed.
    const CLOSED: Self;
}

macro_rules! tables {
    ($(
        $(#[$doc:meta])*
        $module:ident: $ops:ident in $holder:ident.$table:ident {
            $($age:ident $slot:ident $args:tt -> $return:ty [$($exported:ident)*];)*
        }
    )*) => { $(
        impl Missing for $ops {
            const TABLE: $ops = $ops {
                size: size_of::<$ops>(),
                $($slot: Some(tables!(@call log_missing NOSYS $args -> $return)),)*
            };
            const CLOSED: $ops = $ops {
                size: size_of::<$ops>(),
                $($slot: Some(tables!(@call log_closed CLOSED $args -> $return)),)*
            };
        }
    )* };
    (@call $log:ident $answer:ident ($($arg:ident: $type:ty),*) -> $return:ty) => {{
        extern "C" fn answer($(_: $type),*) -> $return {
            $log();
            <$return as Answer>::$answer
        }
        answer
    }};
}

each_table!(tables);

#[cold]
fn log_missing() {
    log_misuse!(
        &CORE,
        Subsys::Core,
        "FI_ENOSYS: the object does not have this call; it may be one that its capabilities leave out"
    );
}

#[cold]
fn log_closed() {
    log_misuse!(
        &CORE,
        Subsys::Core,
        "FI_EBADF: the object was closed before this call"
    );
}
