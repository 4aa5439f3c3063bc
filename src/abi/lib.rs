// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! C types and constants, one module per public header; no behaviour.
//!
//! build.rs turns each module into its header under include/rdma.

#![allow(
    clippy::type_complexity,
    non_camel_case_types,
    non_upper_case_globals,
    dead_code,
    unused_imports
)]

/// An open set of C enumerators. C may store any integer in an enum field, so the Rust type is a number with named
/// values.
macro_rules! c_enum {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$doc:meta])* $member:ident = $value:literal,)* }) => {
        $(#[$meta])*
        #[repr(transparent)]
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
        pub struct $name(pub ::core::ffi::c_uint);
        $($(#[$doc])* pub const $member: $name = $name($value);)*
    };
}

pub mod fabric;
pub mod fi_atomic;
pub mod fi_cm;
pub mod fi_collective;
pub mod fi_domain;
pub mod fi_endpoint;
pub mod fi_eq;
pub mod fi_errno;
pub mod fi_ext;
pub mod fi_log;
pub mod fi_peer;
pub mod fi_profile;
pub mod fi_prov;
pub mod fi_rma;
pub mod fi_tagged;
pub mod fi_trigger;
pub mod fi_wr;
pub mod fi_xpu;
#[cfg(test)]
mod layout;
pub mod release;

pub use fabric::*;
pub use fi_atomic::*;
pub use fi_cm::*;
pub use fi_collective::*;
pub use fi_domain::*;
pub use fi_endpoint::*;
pub use fi_eq::*;
pub use fi_errno::*;
pub use fi_ext::*;
pub use fi_log::*;
pub use fi_peer::*;
pub use fi_profile::*;
pub use fi_prov::*;
pub use fi_rma::*;
pub use fi_tagged::*;
pub use fi_trigger::*;
pub use fi_wr::*;
pub use fi_xpu::*;
pub use libc::{POLLIN, iovec, pollfd, pthread_cond_t, pthread_mutex_t, ssize_t};
