// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Calls through the ops tables of the objects of any provider: the list of all slots, and the code generated from it.
//!
//! The list generates the calls below, which `client` uses, the exported inline functions (`exports::inline`), and
//! the tables of slots that are not served (`object::ops::missing`). A new slot is added to `abi` and to the list.
//!
//! Trusted with: following the pointers of an open object to its tables.

// The list has all slots of the ABI, also those that this library does not call.
#![allow(dead_code, unused_imports)]

#[macro_use]
mod list;

use core::ffi::{c_char, c_int, c_void};
use core::mem::offset_of;
use core::ptr::{null, null_mut};

use abi::*;

pub use each_table;

/// Return values of a call whose slot cannot be called.
pub trait Answer {
    /// The object is NULL.
    const INVALID: Self;
    /// The object does not have the call.
    const NOSYS: Self;
    /// The object was closed.
    const CLOSED: Self;
}

macro_rules! answers {
    ($($type:ty: $invalid:expr, $nosys:expr, $closed:expr;)*) => { $(
        impl Answer for $type {
            const INVALID: Self = $invalid;
            const NOSYS: Self = $nosys;
            const CLOSED: Self = $closed;
        }
    )* };
}

answers! {
    (): (), (), ();
    c_int: -FI_EINVAL, -FI_ENOSYS, -FI_EBADF;
    isize: -FI_EINVAL as isize, -FI_ENOSYS as isize, -FI_EBADF as isize;
    // The value of a counter.
    u64: 0, 0, 0;
    // A message.
    *const c_char: null(), null(), null();
    *mut c_void: null_mut(), null_mut(), null_mut();
}

/// `call_slot!(age (object, arguments ..) => holder.table.slot)` is the body of a call, in an unsafe function. It
/// returns the result of the slot, or a value of [`Answer`] if the object, the table or the slot is NULL. A `later`
/// slot must also lie within the size that its table states.
#[macro_export]
macro_rules! call_slot {
    // This member was added together with fi_ops_ep.tx_flush; an older endpoint ends before it.
    ($age:ident ($object:ident $(, $arg:ident)*) => fid_ep.wr.$slot:ident) => {{
        use $crate::slots::Answer;
        // SAFETY: the caller passes an open endpoint, or NULL.
        if !$object.is_null() && !unsafe { $crate::slots::has_requests($object.cast_const()) } {
            return Answer::NOSYS;
        }
        $crate::slots::call_slot!(@call $age ($object $(, $arg)*) => fid_ep.wr.$slot)
    }};
    ($age:ident $objects:tt => $holder:ident.$table:ident.$slot:ident) => {
        $crate::slots::call_slot!(@call $age $objects => $holder.$table.$slot)
    };
    (@call $age:ident ($object:ident $(, $arg:ident)*) => $holder:ident.$table:ident.$slot:ident) => {{
        use $crate::slots::Answer;
        if $object.is_null() {
            return Answer::INVALID;
        }
        // SAFETY: the caller passes an open object, whose provider keeps its tables in place while it is open. The
        // caller promises that the other arguments are as the operation requires.
        unsafe {
            let table = (*$object.cast::<$holder>()).$table;
            if table.is_null() {
                return Answer::NOSYS;
            }
            let slot = &raw const (*table).$slot;
            if $crate::slots::call_slot!(@checks $age) && (*table).size <= slot.addr() - table.addr() {
                return Answer::NOSYS;
            }
            match *slot {
                Some(slot) => slot($object $(, $arg)*),
                None => Answer::NOSYS,
            }
        }
    }};
    (@checks first) => { false };
    (@checks later) => { true };
}
pub use call_slot;

/// Whether an endpoint has the member `wr`: `abi::fi_wr`.
///
/// # Safety
/// The endpoint is open.
pub unsafe fn has_requests(ep: *const fid_ep) -> bool {
    // SAFETY: promised by the caller.
    let ops = unsafe { (*ep).ops };
    // SAFETY: the table of an open endpoint.
    !ops.is_null() && unsafe { (*ops).size } > offset_of!(fi_ops_ep, tx_flush)
}

macro_rules! calls {
    ($(
        $(#[$doc:meta])*
        $module:ident: $ops:ident in $holder:ident.$table:ident {
            $($age:ident $slot:ident $args:tt -> $return:ty [$($exported:ident)*];)*
        }
    )*) => { $(
        $(#[$doc])*
        pub mod $module {
            use super::*;
            $(calls!(@one $slot $args -> $return, $holder.$table);)*
        }
    )* };
    (@one $slot:ident ($object:ident: $of:ty $(, $arg:ident: $type:ty)*) -> $return:ty,
        $holder:ident.$table:ident) => {
        /// Calls the slot of this name.
        ///
        /// # Safety
        /// The object is NULL or open, and the arguments are as the manual page of the call requires.
        #[inline]
        #[allow(clippy::too_many_arguments)] // Those of the C call.
        pub unsafe fn $slot($object: $of $(, $arg: $type)*) -> $return {
            // Safe code relies on this function, so it checks the size of the table for all slots.
            call_slot!(later ($object $(, $arg)*) => $holder.$table.$slot)
        }
    };
}

each_table!(calls);

/// fi_profile(3): the profile, the description of the event, its data and their length, the context of the
/// registration.
pub type ProfileCallback = Option<
    unsafe extern "C" fn(
        *mut fid_profile,
        *mut fi_profile_desc,
        *mut c_void,
        usize,
        *mut c_void,
    ) -> c_int,
>;

// The list also uses `fid_ep` to find these tables of other kinds of endpoints.
const _: () = {
    assert!(offset_of!(fid_ep, ops) == offset_of!(fid_pep, ops));
    assert!(offset_of!(fid_ep, cm) == offset_of!(fid_pep, cm));
    assert!(offset_of!(fid_ep, ops) == offset_of!(fid_stx, ops));
};
