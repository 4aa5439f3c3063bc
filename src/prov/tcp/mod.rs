// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The provider `tcp`: MSG and RDM endpoints over TCP sockets, see fi_tcp(7).

pub mod params;
// Until the endpoints that speak it are here.
#[allow(dead_code, unused_imports)]
mod proto;

use crate::base::log::Source;

/// Who logs and owns the FI_TCP_ variables.
pub static SOURCE: Source = Source::new(c"tcp");
