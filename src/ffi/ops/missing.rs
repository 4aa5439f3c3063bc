// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Table slots that are not served: each is a function of the slot's own type that answers FI_ENOSYS, never a null
//! pointer, because most inline functions call without looking.
#![forbid(unsafe_code)]

use core::ffi::{c_char, c_int};

use crate::base::Error;
use crate::base::log::{CORE, Subsys, log_misuse};

/// What a call of this return type answers when it is not there.
pub trait Answer {
    fn missing() -> Self;
}

impl Answer for c_int {
    fn missing() -> c_int {
        say_missing();
        Error::NOSYS.negative()
    }
}

impl Answer for isize {
    fn missing() -> isize {
        say_missing();
        Error::NOSYS.negative() as isize
    }
}

impl Answer for u64 {
    fn missing() -> u64 {
        0
    }
}

impl Answer for *const c_char {
    fn missing() -> *const c_char {
        core::ptr::null()
    }
}

#[cold]
fn say_missing() {
    log_misuse!(
        &CORE,
        Subsys::Core,
        "FI_ENOSYS: the object does not have this call; it may be one that its capabilities leave out"
    );
}

/// The function of this type that answers "not there". `Some(Missing::CALL)` fits any slot.
pub trait Missing {
    const CALL: Self;
}

macro_rules! missing {
    ($($arg:ident)*) => {
        impl<R: Answer, $($arg),*> Missing for unsafe extern "C" fn($($arg),*) -> R {
            const CALL: Self = {
                extern "C" fn call<R: Answer, $($arg),*>($(_: $arg),*) -> R {
                    R::missing()
                }
                call::<R, $($arg),*>
            };
        }
    };
}

missing!(A);
missing!(A B);
missing!(A B C);
missing!(A B C D);
missing!(A B C D E);
missing!(A B C D E F);
missing!(A B C D E F G);
missing!(A B C D E F G H);
missing!(A B C D E F G H I);
missing!(A B C D E F G H I J);
missing!(A B C D E F G H I J K);
missing!(A B C D E F G H I J K L);
missing!(A B C D E F G H I J K L M);
missing!(A B C D E F G H I J K L M N);
missing!(A B C D E F G H I J K L M N O);
missing!(A B C D E F G H I J K L M N O P);
missing!(A B C D E F G H I J K L M N O P Q);
