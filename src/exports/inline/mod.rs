// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The inline functions of the public headers as real symbols, for callers without a C compiler.
//!
//! Most of them call one slot of a table; `slots` generates these from the list of slots. The other modules, one per
//! header, have the functions that do more. They call the object's operations as the C code of src/abi/*.h.in does, but
//! return an error if that code would follow a null pointer: -FI_EINVAL for a null object, -FI_ENOSYS for a missing
//! table or member; see `object::slots::Answer`. ctests/inline.py compares the two.

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
