// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `fi_param_define`, `fi_param_get`, `fi_getparams`, `fi_freeparams`: fi_provider(3), and `fi_info -e`.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::CString;
use std::sync::{Mutex, PoisonError};

use crate::exports::log::origin;
use abi::{fi_param, fi_param_type, fi_provider};
use base::log::{CORE, Origin};
use base::params::{self, Definition, Kind, Value};
use base::settings::Settings;
use base::{Error, Result};
use object::ops::status;
use sys::{cformat, heap};

/// Declares a variable: `FI_` + provider + `_` + parameter, all upper case. A NULL provider is the library itself.
///
/// # Safety
/// The pointers are NULL or as fi_provider(3) requires; the arguments are those that the help text's format names.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_param_define(
    _provider: *const fi_provider,
    _param_name: *const c_char,
    _type: fi_param_type,
    _help_string_fmt: *const c_char,
) -> c_int {
    va_start_stub!(param_define_va, fixed = 4)
}
symver!(fi_param_define @@ "FABRIC_1.0");

/// # Safety
/// As `fi_param_define`; `arguments` is a `va_list` with the arguments that the format names.
unsafe extern "C" fn param_define_va(
    provider: *const fi_provider,
    name: *const c_char,
    kind: fi_param_type,
    help: *const c_char,
    arguments: *mut c_void,
) -> c_int {
    Settings::get();
    // SAFETY: fi_param_define's caller promises it.
    status(unsafe { define(provider, name, kind, help, arguments) })
}

/// # Safety
/// As `param_define_va`.
unsafe fn define(
    provider: *const fi_provider,
    name: *const c_char,
    kind: fi_param_type,
    help: *const c_char,
    arguments: *mut c_void,
) -> Result {
    // SAFETY: this function's caller promises it for all three.
    let (provider, name, help) = unsafe { (provider_name(provider)?, text(name)?, c_text(help)?) };
    let kind = Kind::try_from(kind)?;
    // SAFETY: the caller of fi_param_define passed arguments that fit its format; the stub made a list of them.
    let help = unsafe { cformat::format(help, arguments) }.ok_or(Error::INVAL)?;
    params::define_for(provider.as_deref(), &name, kind, &help.to_string_lossy())
}

/// Stores the value of a declared variable at `value`, in the type of the declaration. On failure `value` is unchanged.
///
/// # Safety
/// The pointers are NULL or as fi_provider(3) requires.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_param_get(
    provider: *mut fi_provider,
    param_name: *const c_char,
    value: *mut c_void,
) -> c_int {
    Settings::get();
    // SAFETY: this function's caller promises it.
    status(unsafe { get(provider, param_name, value) })
}
symver!(fi_param_get @@ "FABRIC_1.0");

/// # Safety
/// As `fi_param_get`.
unsafe fn get(provider: *const fi_provider, name: *const c_char, value: *mut c_void) -> Result {
    // SAFETY: this function's caller promises it for both.
    let (owner, name) = unsafe { (provider_name(provider)?, text(name)?) };
    if value.is_null() {
        return Err(Error::INVAL);
    }
    // SAFETY: this function's caller promises it.
    let origin = unsafe { origin(provider) }.unwrap_or(Origin::from(&CORE));
    let found = params::get_for(&origin, owner.as_deref(), &name)?;
    // SAFETY: not NULL, so the caller promises a place for a value of the type that the variable was defined with.
    unsafe {
        match found {
            Value::String(text) => value.cast::<*const c_char>().write(keep(text)?),
            Value::Int(number) => value.cast::<c_int>().write(number),
            Value::Bool(truth) => value.cast::<c_int>().write(c_int::from(truth)),
            Value::Size(number) => value.cast::<usize>().write(number),
        }
    }
    Ok(())
}

/// Lists all defined variables in the order of their definition, with an empty entry behind the last.
///
/// # Safety
/// Both pointers are NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_getparams(params: *mut *mut fi_param, count: *mut c_int) -> c_int {
    if params.is_null() || count.is_null() {
        return Error::INVAL.negative();
    }
    // If a loadable provider calls this while it is loaded, it gets the variables defined so far.
    let _ = registry::providers();
    let definitions = params::definitions();
    let Some(list) = list(&definitions) else {
        return Error::NOMEM.negative();
    };
    // SAFETY: not NULL, so the caller promises that both are writable.
    unsafe {
        params.write(list);
        count.write(definitions.len() as c_int);
    }
    0
}
symver!(fi_getparams @@ "FABRIC_1.0");

/// Frees a list of fi_getparams; NULL is allowed.
///
/// # Safety
/// `params` is NULL or from fi_getparams and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_freeparams(params: *mut fi_param) {
    // SAFETY: `list` allocates it as one piece, and this function's caller promises that it is from there.
    unsafe { heap::release(params) }
}
symver!(fi_freeparams @@ "FABRIC_1.0");

/// Allocates the entries, the empty entry and all their strings as one piece of memory; `None` if there is no memory.
fn list(definitions: &[Definition]) -> Option<*mut fi_param> {
    let entries = (definitions.len() + 1) * mem::size_of::<fi_param>();
    let mut strings = Vec::new();
    let mut places = Vec::new();
    for definition in definitions {
        let name = add(&mut strings, definition.variable.as_bytes());
        let help = add(&mut strings, definition.help.as_bytes());
        let value =
            params::environment(&definition.variable).map(|value| add(&mut strings, &value));
        places.push((name, help, value));
    }
    let piece = heap::zeroed(entries + strings.len())?.cast::<u8>();
    // SAFETY: the piece holds the entries and, behind them, the strings; it is new, so it overlaps nothing.
    let text = unsafe {
        let text = piece.as_ptr().add(entries);
        text.copy_from_nonoverlapping(strings.as_ptr(), strings.len());
        text
    };
    // SAFETY: every place lies within the strings.
    let string = |place: usize| unsafe { text.add(place) }.cast::<c_char>().cast_const();
    let first = piece.cast::<fi_param>();
    for (index, (definition, (name, help, value))) in definitions.iter().zip(places).enumerate() {
        let entry = fi_param {
            name: string(name),
            r#type: definition.kind.into(),
            help_string: string(help),
            value: value.map_or(core::ptr::null(), string),
        };
        // SAFETY: the piece begins with one entry more than there are definitions; malloc aligns it for any struct.
        unsafe { first.add(index).write(entry) };
    }
    Some(first.as_ptr())
}

/// Appends a string and its zero; returns its offset.
fn add(strings: &mut Vec<u8>, text: &[u8]) -> usize {
    let place = strings.len();
    strings.extend(text.iter().filter(|byte| **byte != 0));
    strings.push(0);
    place
}

/// Returns a string that stays for the life of the process, because fi_provider(3) does not define when a provider
/// stops using it. Each value is kept once.
fn keep(text: Vec<u8>) -> Result<*const c_char> {
    static KEPT: Mutex<BTreeSet<CString>> = Mutex::new(BTreeSet::new());
    let text = CString::new(text).map_err(|_| Error::INVAL)?;
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let pointer = match kept.get(&text) {
        Some(known) => known.as_ptr(),
        None => {
            let pointer = text.as_ptr();
            kept.insert(text);
            pointer
        }
    };
    Ok(pointer)
}

/// Returns the provider's part of a variable's name; `None` for the library itself.
///
/// # Safety
/// `provider` is NULL or a provider that, like its name, does not change while the result is in use.
unsafe fn provider_name<'a>(provider: *const fi_provider) -> Result<Option<Cow<'a, str>>> {
    // SAFETY: this function's caller promises it.
    match unsafe { provider.as_ref() } {
        // SAFETY: as above.
        Some(provider) => unsafe { text(provider.name) }.map(Some),
        None => Ok(None),
    }
}

/// # Safety
/// `text` is NULL or ends with a zero, and does not change while the result is in use.
unsafe fn text<'a>(text: *const c_char) -> Result<Cow<'a, str>> {
    // SAFETY: this function's caller promises it.
    unsafe { c_text(text) }.map(CStr::to_string_lossy)
}

/// # Safety
/// As `text`.
unsafe fn c_text<'a>(text: *const c_char) -> Result<&'a CStr> {
    if text.is_null() {
        return Err(Error::INVAL);
    }
    // SAFETY: not NULL, so this function's caller promises that it ends with a zero.
    Ok(unsafe { CStr::from_ptr(text) })
}
