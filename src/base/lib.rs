// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Types that every layer uses: errors, texts, settings, logs, descriptions of capabilities.

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
pub use iovec::{Block, IoVec, Piece, Registered, Source, Span};
pub use secret::Secret;

/// A child must not use what its parent has opened, and a callback must not use an object that its caller is changing.
impl From<sync::Refused> for Error {
    fn from(_: sync::Refused) -> Error {
        Error::OPBADSTATE
    }
}
