// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What tests and the simulator need: an endpoint with its sessions over a socket without I/O.

mod name;
mod node;
mod socket;

pub use self::name::Name;
pub use self::node::{KEY, Node, Posted};
pub use self::socket::Socket;
pub use super::session::{From, Settings};

/// Returns the settings of a process without variables.
pub fn default_settings() -> Settings {
    super::params::Params::default().settings()
}
