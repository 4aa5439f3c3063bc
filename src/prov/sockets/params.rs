// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The FI_SOCKETS_ variables: fi_sockets(7). Variables for features that do not exist here are accepted and have no
//! effect. The transport uses its own variables, FI_TCP_.

use core::time::Duration;

use super::SOURCE;
use base::params::{self, Given, Kind};

/// The settings of the provider, read once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Params {
    /// The only interface whose addresses are offered, if it is set.
    pub iface: Option<String>,
    /// Time for a peer to accept a connection, if the variable is set.
    pub conn_timeout: Option<Duration>,
}

impl Params {
    /// Defines the variables, in the order in which `fi_getparams` lists them.
    pub fn define() {
        params::define_all(&SOURCE, &VARIABLES);
    }

    /// Reads the settings from the environment. `define` must come first.
    pub fn read() -> Params {
        let given = Given(&SOURCE);
        Params {
            iface: given.text("iface").filter(|iface| !iface.is_empty()),
            conn_timeout: given
                .int("conn_timeout")
                .map(|_| given.time_limit("conn_timeout", params::NO_LIMIT)),
        }
    }
}

const VARIABLES: [(&str, Kind, &str); 14] = [
    (
        "pe_waittime",
        Kind::Int,
        "accepted and ignored: milliseconds for which a progress thread spins",
    ),
    (
        "conn_timeout",
        Kind::Int,
        "milliseconds that a host or port has to accept a connection before operations for it fail, 0 for no limit \
         (default: 15000)",
    ),
    (
        "max_conn_retry",
        Kind::Int,
        "accepted and ignored: attempts to connect; they go on until the time is over",
    ),
    (
        "def_conn_map_sz",
        Kind::Int,
        "accepted and ignored: connections expected; the table grows",
    ),
    (
        "def_av_sz",
        Kind::Int,
        "accepted and ignored: addresses expected; vectors grow",
    ),
    (
        "def_cq_sz",
        Kind::Int,
        "accepted and ignored: entries of a completion queue that names no size",
    ),
    (
        "def_eq_sz",
        Kind::Int,
        "accepted and ignored: entries of an event queue that names no size",
    ),
    (
        "pe_affinity",
        Kind::String,
        "accepted and ignored: processors of the progress thread",
    ),
    (
        "keepalive_enable",
        Kind::Bool,
        "accepted and ignored: silent peers are always probed, see FI_TCP_PEER_TIMEOUT",
    ),
    (
        "keepalive_time",
        Kind::Int,
        "accepted and ignored: seconds of silence before the first probe",
    ),
    (
        "keepalive_intvl",
        Kind::Int,
        "accepted and ignored: seconds between probes",
    ),
    (
        "keepalive_probes",
        Kind::Int,
        "accepted and ignored: probes before a peer is given up",
    ),
    (
        "iface",
        Kind::String,
        "name of the only network interface to use (default: all)",
    ),
    (
        "max_buf_sz",
        Kind::Int,
        "accepted and ignored: bytes of the kernel's buffers of a connection",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use base::params::testing::{print_report, report};

    #[test]
    #[ignore = "run by the other tests, in an environment of its own"]
    fn child() {
        Params::define();
        print_report(&format!("{:?}", Params::read()));
    }

    fn check(environment: &[(&str, &str)], expected: &Params) {
        let found = report("sockets::params::tests::child", environment);
        assert_eq!(found, format!("{expected:?}"), "{environment:?}");
    }

    #[test]
    fn what_is_not_given_is_the_transport_s_business() {
        let others = [("FI_TCP_IFACE", "lo"), ("FI_TCP_CONN_TIMEOUT", "1")];
        check(&[], &Params::default());
        check(&others, &Params::default());
        check(&[("FI_SOCKETS_IFACE", "")], &Params::default());
    }

    #[test]
    fn interface_and_timeout_are_read() {
        let environment = [
            ("FI_SOCKETS_IFACE", "lo"),
            ("FI_SOCKETS_CONN_TIMEOUT", "77"),
        ];
        let expected = Params {
            iface: Some("lo".to_owned()),
            conn_timeout: Some(Duration::from_millis(77)),
        };
        check(&environment, &expected);
        let negative = Params {
            conn_timeout: Some(params::NO_LIMIT),
            ..Params::default()
        };
        check(&[("FI_SOCKETS_CONN_TIMEOUT", "-1")], &negative);
    }
}
