// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The inline functions that call one slot of a table, as symbols: all of `object::slots`' list.

use core::ffi::{c_char, c_int, c_void};

use abi::*;
use object::slots::{ProfileCallback, call_slot, each_table};

macro_rules! exported {
    ($(
        $(#[$doc:meta])*
        $module:ident: $ops:ident in $holder:ident.$table:ident {
            $($age:ident $slot:ident $args:tt -> $return:ty [$($name:ident)*];)*
        }
    )*) => { $($(
        exported!(@slot $age $args -> $return, $holder.$table.$slot [$($name)*]);
    )*)* };
    (@slot $age:ident $args:tt -> $return:ty, $holder:ident.$table:ident.$slot:ident [$($name:ident)*]) => { $(
        exported!(@one $name $age $args -> $return, $holder.$table.$slot);
    )* };
    (@one $name:ident $age:ident ($object:ident: $of:ty $(, $arg:ident: $type:ty)*) -> $return:ty,
        $holder:ident.$table:ident.$slot:ident) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($object: $of $(, $arg: $type)*) -> $return {
            call_slot!($age ($object $(, $arg)*) => $holder.$table.$slot)
        }
        symver!($name @@ "FABRIC_RS_1.0");
    };
}

each_table!(exported);
