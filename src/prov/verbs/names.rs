// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The name server for datagram endpoints: a table of services and addresses on each host, in one of its processes.
//! Endpoints register there, and queries with the name of a node ask the server of that node. docs/wire/verbs.md has
//! the format. It is off unless FI_VERBS_DGRAM_USE_NAME_SERVER is set, because it has no authentication.
//!
//! `message` encodes and decodes, `client` has the calls, `server` the thread that answers them.

mod client;
mod message;
mod server;

use std::io;

use super::params::Params;
use engine::address::ib_ud;
use engine::transport::Address;

pub use self::client::Registered;
pub use self::server::Serving;

/// An address.
pub type Name = [u8; ib_ud::LEN];

/// The service that stands for any other.
pub const ANY: i32 = 0;

/// The name servers of all nodes.
#[derive(Clone, Copy, Debug)]
pub struct NameServer {
    port: u16,
}

impl NameServer {
    /// None if the settings do not ask for it.
    pub fn of(params: &Params) -> Option<NameServer> {
        let port = u16::try_from(params.dgram_name_server_port).ok();
        let port = port.filter(|_| params.dgram_use_name_server);
        port.map(|port| NameServer { port })
    }

    /// Asks the server of a node.
    pub fn query(self, node: &str, service: i32) -> io::Result<Option<Name>> {
        client::query((node, self.port), service)
    }

    /// Adds an address to the table of this host, until the result is dropped. Without a server there is no table.
    pub fn register(self, service: Option<i32>, addr: &ib_ud::Addr) -> Option<Registered> {
        // Endpoints without a source address get a number that others hardly have.
        let made = (std::process::id() & 0x7fff) << 16 | addr.pair & 0xffff;
        let service = service.unwrap_or(made as i32);
        let name: Name = addr.to_bytes().try_into().ok()?;
        Registered::add(self.port, service, name)
    }

    /// Serves as long as the result exists, unless another process of this host does.
    pub fn serve(self) -> Serving {
        Serving::begin(self.port)
    }
}
