// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The FI_SOCKETS_ variables: fi_sockets(7). Variables for features that do not exist here are accepted and have no
//! effect. The transport uses its own variables, FI_TCP_.

use core::time::Duration;

use super::SOURCE;
use base::params::Kind;

base::params::variables! {
    /// The settings of the provider, read once.
    pub struct Params of SOURCE {
        = ignored(Kind::Int), "pe_waittime",
            "accepted and ignored: milliseconds for which a progress thread spins";
        /// Time for a peer to accept a connection, if the variable is set.
        conn_timeout: Option<Duration> = any_time_limit(), "conn_timeout",
            "milliseconds that a host or port has to accept a connection before operations for it fail, 0 for no limit \
             (default: 15000)";
        = ignored(Kind::Int), "max_conn_retry",
            "accepted and ignored: attempts to connect; they go on until the time is over";
        = ignored(Kind::Int), "def_conn_map_sz",
            "accepted and ignored: connections expected; the table grows";
        = ignored(Kind::Int), "def_av_sz",
            "accepted and ignored: addresses expected; vectors grow";
        = ignored(Kind::Int), "def_cq_sz",
            "accepted and ignored: entries of a completion queue that names no size";
        = ignored(Kind::Int), "def_eq_sz",
            "accepted and ignored: entries of an event queue that names no size";
        = ignored(Kind::String), "pe_affinity",
            "accepted and ignored: processors of the progress thread";
        = ignored(Kind::Bool), "keepalive_enable",
            "accepted and ignored: silent peers are always probed, see FI_TCP_PEER_TIMEOUT";
        = ignored(Kind::Int), "keepalive_time",
            "accepted and ignored: seconds of silence before the first probe";
        = ignored(Kind::Int), "keepalive_intvl",
            "accepted and ignored: seconds between probes";
        = ignored(Kind::Int), "keepalive_probes",
            "accepted and ignored: probes before a peer is given up";
        /// The only interface whose addresses are offered, if it is set.
        iface: Option<String> = text(), "iface",
            "name of the only network interface to use (default: all)";
        = ignored(Kind::Int), "max_buf_sz",
            "accepted and ignored: bytes of the kernel's buffers of a connection";
    }
}

impl Params {
    /// Reads the settings from the environment.
    pub fn read() -> Params {
        Params::given()
    }
}

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
            conn_timeout: Some(base::params::NO_LIMIT),
            ..Params::default()
        };
        check(&[("FI_SOCKETS_CONN_TIMEOUT", "-1")], &negative);
    }
}
