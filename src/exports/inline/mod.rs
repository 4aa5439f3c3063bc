// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The inline functions of the public headers as real symbols, for callers without a C compiler.
//!
//! Most call one slot of a table; `slots` makes them all from the list of slots. The other modules, one per header,
//! have those that do more. They call the object's operations as the C text of src/abi/*.h.in does, and are kinder in
//! one respect: where the C text would follow a null pointer, they answer. A null object is -FI_EINVAL, a table or
//! member that is not there -FI_ENOSYS; see `ffi::slots::Answer`. ctests/inline.py compares the two.

mod cm;
mod collective;
mod domain;
mod endpoint;
mod eq;
mod ext;
mod fabric;
mod profile;
mod prov;
mod slots;
mod tagged;
