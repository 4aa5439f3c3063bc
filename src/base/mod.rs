// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The words every layer speaks: errors, text, settings, logs, descriptions of what is offered.

pub mod error;
pub mod escape;
pub mod flags;
pub mod grow;
pub mod identity;
pub mod info;
pub mod iovec;
pub mod log;
pub mod params;
pub mod rights;
pub mod secret;
pub mod settings;
pub mod text;

pub use error::{Error, Result};
pub use flags::{Access, Caps, CompFlags, CompOrder, Mode, MrMode, MsgOrder, OpFlags};
pub use iovec::{IoVec, Piece, Registered, Span};
pub use secret::Secret;

/// A child has no part in what its parent has opened, and a callback none in what its caller is about to change.
impl From<crate::sync::Refused> for Error {
    fn from(_: crate::sync::Refused) -> Error {
        Error::OPBADSTATE
    }
}
