// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Calls through the ops tables of somebody's object: the list of all slots, and what is made from it.
//!
//! From the list come the calls below, which `ffi::client` makes; the exported inline functions (`exports::inline`);
//! and the tables of slots that are not served (`ffi::ops::missing`). A new slot is added to `abi` and to the list.
//!
//! Trusted with: following the pointers of an open object to its tables.

// The list is of the ABI, not of what somebody calls at the moment.
#![allow(dead_code, unused_imports)]

#[macro_use]
mod list;

use core::ffi::{c_char, c_int, c_void};
use core::mem::offset_of;
use core::ptr::{null, null_mut};

use crate::abi::*;

pub(crate) use each_table;

/// What a call returns when there is nothing to call.
pub trait Answer {
    /// The object is NULL.
    const INVALID: Self;
    /// The object does not have the call.
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

/// `call_slot!(age (object, arguments ..) => holder.table.slot)` is the body of a call, in an unsafe function: the
/// slot's answer, or what [`Answer`] says where the object, the table or the slot is NULL. A `later` slot must also lie
/// within the size that the table says it has.
macro_rules! call_slot {
    // This member came with fi_ops_ep.tx_flush; an older endpoint ends before it.
    ($age:ident ($object:ident $(, $arg:ident)*) => fid_ep.wr.$slot:ident) => {{
        use $crate::ffi::slots::Answer;
        // SAFETY: the caller passes an open endpoint, or NULL.
        if !$object.is_null() && !unsafe { $crate::ffi::slots::has_requests($object.cast_const()) } {
            return Answer::NOSYS;
        }
        $crate::ffi::slots::call_slot!(@call $age ($object $(, $arg)*) => fid_ep.wr.$slot)
    }};
    ($age:ident $objects:tt => $holder:ident.$table:ident.$slot:ident) => {
        $crate::ffi::slots::call_slot!(@call $age $objects => $holder.$table.$slot)
    };
    (@call $age:ident ($object:ident $(, $arg:ident)*) => $holder:ident.$table:ident.$slot:ident) => {{
        use $crate::ffi::slots::Answer;
        if $object.is_null() {
            return Answer::INVALID;
        }
        // SAFETY: the caller passes an open object. Its maker keeps its tables in place while it is open. What the
        // operation asks of the other arguments is between the caller and the operation.
        unsafe {
            let table = (*$object.cast::<$holder>()).$table;
            if table.is_null() {
                return Answer::NOSYS;
            }
            let slot = &raw const (*table).$slot;
            if $crate::ffi::slots::call_slot!(@checks $age) && (*table).size <= slot.addr() - table.addr() {
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
pub(crate) use call_slot;

/// Whether an endpoint has the member `wr`: `abi::fi_wr`.
///
/// # Safety
/// It is open.
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
        /// The slot of this name.
        ///
        /// # Safety
        /// The object is NULL or open, and the arguments are what the manual page of the call asks for.
        #[inline]
        #[allow(clippy::too_many_arguments)] // Those of the C call.
        pub unsafe fn $slot($object: $of $(, $arg: $type)*) -> $return {
            // Safe users rely on it, so the size that a table states counts for all slots.
            call_slot!(later ($object $(, $arg)*) => $holder.$table.$slot)
        }
    };
}

each_table!(calls);

/// fi_profile(3): what happened, its description, its data and their length, the context given on registration.
pub type ProfileCallback = Option<
    unsafe extern "C" fn(
        *mut fid_profile,
        *mut fi_profile_desc,
        *mut c_void,
        usize,
        *mut c_void,
    ) -> c_int,
>;

// The list finds these tables of other endpoints through `fid_ep`.
const _: () = {
    assert!(offset_of!(fid_ep, ops) == offset_of!(fid_pep, ops));
    assert!(offset_of!(fid_ep, cm) == offset_of!(fid_pep, cm));
    assert!(offset_of!(fid_ep, ops) == offset_of!(fid_stx, ops));
};
