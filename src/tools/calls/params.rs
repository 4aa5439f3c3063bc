// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The environment variables that the library reads: `fi_getparams` of fi_provider(3).

use core::ptr;

use super::exported;
use super::failure::{Failure, Result};
use abi::{fi_param, fi_param_type};

/// One variable, copied.
pub struct Param {
    pub name: String,
    pub kind: fi_param_type,
    pub help: String,
    /// The value in the environment.
    pub value: Option<String>,
}

/// Returns all variables that are defined so far, in the order of their definition.
pub fn all() -> Result<Vec<Param>> {
    let mut first = ptr::null_mut();
    let mut count = 0;
    // SAFETY: both are written on success.
    let code = unsafe { exported::fi_getparams(&raw mut first, &raw mut count) };
    if code != 0 {
        return Err(Failure::new("fi_getparams", code));
    }
    let count = usize::try_from(count).unwrap_or(0);
    let params = (0..count)
        // SAFETY: the library reports that there are `count` variables; each is valid until `fi_freeparams` below.
        .map(|at| copy(unsafe { &*first.add(at) }))
        .collect();
    if !first.is_null() {
        // SAFETY: allocated by `fi_getparams`; everything was copied.
        unsafe { exported::fi_freeparams(first) };
    }
    Ok(params)
}

fn copy(param: &fi_param) -> Param {
    // SAFETY: null or strings of the list that `all` holds.
    let string = |text| unsafe { client::string(text) };
    Param {
        name: string(param.name).unwrap_or_default(),
        kind: param.r#type,
        help: string(param.help_string).unwrap_or_default(),
        value: string(param.value),
    }
}
