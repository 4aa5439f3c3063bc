// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The inline functions of the public headers as real symbols, for callers without a C compiler; one module per header.
//!
//! They call the object's operations as the C text of src/abi/*.h.in does, and are kinder in one respect: where the C
//! text would follow a null pointer, they answer. A null object is -FI_EINVAL, a table or member that is not there
//! -FI_ENOSYS; see [`Answer`]. ctests/inline.sh compares the two.

use core::ffi::{c_char, c_int, c_void};
use core::ptr::{null, null_mut};

use crate::abi::{FI_EINVAL, FI_ENOSYS};

/// What a function returns when there is nothing to call.
trait Answer {
    /// The object is null.
    const INVALID: Self;
    /// The object does not serve the operation.
    const NOSYS: Self;
}

macro_rules! answers {
    ($($type:ty: $invalid:expr, $nosys:expr;)*) => { $(
        impl Answer for $type {
            const INVALID: Self = $invalid;
            const NOSYS: Self = $nosys;
        }
    )* };
}

answers! {
    (): (), ();
    c_int: -FI_EINVAL, -FI_ENOSYS;
    isize: -FI_EINVAL as isize, -FI_ENOSYS as isize;
    // A counter's value.
    u64: 0, 0;
    // A message.
    *const c_char: null(), null();
    *mut c_void: null_mut(), null_mut();
}

/// `fn name(object, ..) => table.member`: calls that member of the object's table with the same arguments.
///
/// `(fid) table.member` looks for the table in another view of the object; every object begins with a `fid`, and
/// fi_endpoint(3) and fi_cm(3) let a `fid_t` stand for an endpoint. `optional` marks what FI_CHECK_OP guards in C: the
/// table must also be long enough, because it may come from a maker that did not know the member yet.
macro_rules! slots {
    ($(
        $(#[$meta:meta])*
        $vis:vis fn $name:ident($object:ident: $of:ty $(, $arg:ident: $type:ty)* $(,)?) $(-> $return:ty)?
            => $(($holder:ty))? $table:ident.$slot:ident $($optional:ident)?;
    )*) => { $(
        $(#[$meta])*
        $vis unsafe extern "C" fn $name($object: $of $(, $arg: $type)*) $(-> $return)? {
            use $crate::exports::inline::Answer;
            if $object.is_null() {
                return Answer::INVALID;
            }
            // SAFETY: the caller passes an open object; its maker keeps its tables in place while it is open, and what
            // the operation asks of the other arguments is between the caller and the operation.
            unsafe {
                let table = (*$object$(.cast::<$holder>())?).$table;
                if table.is_null() {
                    return Answer::NOSYS;
                }
                let slot = &raw const (*table).$slot;
                $(
                    let $optional = slot.addr() - table.addr();
                    if (*table).size <= $optional {
                        return Answer::NOSYS;
                    }
                )?
                match *slot {
                    Some(slot) => slot($object.cast() $(, $arg)*),
                    None => Answer::NOSYS,
                }
            }
        }
    )* };
}

/// `slots!`, exported.
macro_rules! inline {
    ($(
        fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $return:ty)?
            => $(($holder:ty))? $table:ident.$slot:ident $($optional:ident)?;
    )*) => { $(
        slots! {
            #[unsafe(no_mangle)]
            pub fn $name($($arg: $type),*) $(-> $return)? => $(($holder))? $table.$slot $($optional)?;
        }
        symver!($name @@ "FABRIC_RS_1.0");
    )* };
}

mod atomic;
mod cm;
mod collective;
mod domain;
mod endpoint;
mod eq;
mod ext;
mod fabric;
mod profile;
mod prov;
mod rma;
mod tagged;
