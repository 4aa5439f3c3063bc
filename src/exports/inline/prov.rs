// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The inline functions of `<rdma/providers/fi_prov.h>` as symbols: fi_provider(3).

use core::ffi::{c_char, c_int};

use crate::exports::params::fi_param_get;
use abi::fi_provider;

/// fi_param_get with the type that the setting was declared with.
macro_rules! typed {
    ($($name:ident: $type:ty;)*) => { $(
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            provider: *mut fi_provider,
            param_name: *const c_char,
            value: *mut $type,
        ) -> c_int {
            // SAFETY: the caller's promises for this function are those of fi_param_get.
            unsafe { fi_param_get(provider, param_name, value.cast()) }
        }
        symver!($name @@ "FABRIC_RS_1.0");
    )* };
}

typed! {
    fi_param_get_str: *mut c_char;
    fi_param_get_int: c_int;
    fi_param_get_bool: c_int;
    fi_param_get_size_t: usize;
}
