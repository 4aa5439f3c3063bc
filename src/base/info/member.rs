// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Members of the attributes in C and in Rust: `fields` has the table.
//!
//! Trusted with: the strings and keys that a C struct points to.

use core::ffi::{CStr, c_char, c_int};
use core::ptr;
use core::slice;
use std::ffi::CString;

use super::fields::each_attr;
use super::layout::LONGEST;
use super::{DomainAttr, EpAttr, FabricAttr, RxAttr, TxAttr};
use crate::{Caps, CompOrder, Error, Mode, MrMode, MsgOrder, OpFlags, Result, Secret};
use sys::heap;

/// Reads a member from its C form, `Raw`.
trait Read<Raw>: Sized {
    /// # Safety
    /// A string is null or terminated, a key is null or readable for the length beside it.
    unsafe fn read(raw: Raw) -> Result<Self>;
}

/// Makes the C form of a member. Strings and keys are copied to the C library's heap.
trait Store<Raw> {
    fn store(&self) -> Result<Raw>;
}

macro_rules! numbers {
    ($($type:ty),*) => { $(
        impl Read<$type> for $type {
            unsafe fn read(raw: $type) -> Result<$type> {
                Ok(raw)
            }
        }

        impl Store<$type> for $type {
            fn store(&self) -> Result<$type> {
                Ok(*self)
            }
        }
    )* };
}

numbers!(u32, u64, usize);

macro_rules! sets {
    ($($type:ty: $raw:ty),*) => { $(
        impl Read<$raw> for $type {
            unsafe fn read(raw: $raw) -> Result<$type> {
                Ok(<$type>::from_bits_retain(raw))
            }
        }

        impl Store<$raw> for $type {
            fn store(&self) -> Result<$raw> {
                Ok(self.bits())
            }
        }
    )* };
}

sets!(Caps: u64, Mode: u64, OpFlags: u64, MsgOrder: u64, CompOrder: u64, MrMode: c_int);

/// A pointer to an object, as a number.
impl<T> Read<*mut T> for usize {
    unsafe fn read(raw: *mut T) -> Result<usize> {
        Ok(raw.expose_provenance())
    }
}

impl<T> Store<*mut T> for usize {
    fn store(&self) -> Result<*mut T> {
        Ok(ptr::with_exposed_provenance_mut(*self))
    }
}

impl Read<*mut c_char> for Option<CString> {
    unsafe fn read(raw: *mut c_char) -> Result<Option<CString>> {
        if raw.is_null() {
            return Ok(None);
        }
        // SAFETY: passed on from the caller.
        Ok(Some(unsafe { CStr::from_ptr(raw) }.to_owned()))
    }
}

impl Store<*mut c_char> for Option<CString> {
    fn store(&self) -> Result<*mut c_char> {
        bytes(self.as_deref().map(CStr::to_bytes_with_nul)).map(<*mut u8>::cast)
    }
}

/// A key and its length, which may be `FI_AV_AUTH_KEY`: the keys are in the address vector.
impl Read<(*mut u8, usize)> for Option<Secret> {
    unsafe fn read((raw, len): (*mut u8, usize)) -> Result<Option<Secret>> {
        if raw.is_null() || len == abi::FI_AV_AUTH_KEY {
            return Ok(None);
        }
        check_length(len)?;
        // SAFETY: passed on from the caller.
        Ok(Some(unsafe { slice::from_raw_parts(raw, len) }.into()))
    }
}

impl Store<*mut u8> for Option<Secret> {
    fn store(&self) -> Result<*mut u8> {
        bytes(self.as_deref())
    }
}

/// Returns a copy on the C library's heap, or null.
pub(super) fn bytes(value: Option<&[u8]>) -> Result<*mut u8> {
    match value {
        None => Ok(ptr::null_mut()),
        Some(value) => Ok(heap::copy(value).ok_or(Error::NOMEM)?.as_ptr().cast()),
    }
}

/// Refuses lengths that no address or key has: a field that was never set, or an entry of a faulty plug-in.
pub(super) fn check_length(len: usize) -> Result<()> {
    match len <= LONGEST {
        true => Ok(()),
        false => Err(Error::INVAL),
    }
}

/// The C form of a member: one place, or a key with its length.
macro_rules! form {
    ($place:expr) => {
        $place
    };
    ($place:expr, $len:expr) => {
        ($place, $len)
    };
}

macro_rules! conversions {
    ($($name:ident of $raw:ident {
        $($(#[$doc:meta])* $field:ident: $type:ty = [$($place:tt)+] $(with $len:ident)?,
            $show:ident $how:tt $label:literal $(since $since:ident)?;)*
    })*) => { $(
        impl $name {
            /// # Safety
            /// Strings are null or terminated, a key is null or readable for the length beside it.
            pub(super) unsafe fn of_raw(raw: &abi::$raw) -> Result<$name> {
                // SAFETY: passed on from the caller; the members of unions are integers of one type.
                unsafe {
                    Ok($name { $($field: Read::read(form!(raw.$($place)+ $(, raw.$len)?))?,)* })
                }
            }

            /// Sets each member, so that the padding stays zero. Pieces on the heap are in `raw` also after a failure.
            pub(super) fn store_in(&self, raw: &mut abi::$raw) -> Result {
                $(raw.$($place)+ = Store::store(&self.$field)?;)*
                Ok(())
            }
        }
    )* };
}

each_attr!(conversions);
