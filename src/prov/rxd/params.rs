// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The FI_OFI_RXD_ variables: fi_rxd(7).

use core::time::Duration;

use super::SOURCE;
use super::session::Settings;
use base::params::{self, Given, Kind};

/// The settings of the provider, read once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params {
    /// Whether lost packets are sent again.
    pub retry: bool,
    /// Packets that may be in flight to a peer, and from a peer.
    pub window: u32,
    /// How long closing an endpoint waits for accepted operations to leave.
    pub close_timeout: Duration,
    /// Time after which operations that wait for a peer are logged; zero: never.
    pub stall_report: Duration,
    /// Cap of the memory for unexpected messages kept per endpoint, in bytes.
    pub max_saved_bytes: usize,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            retry: true,
            window: 128,
            close_timeout: Duration::from_secs(5),
            stall_report: Duration::from_secs(60),
            max_saved_bytes: 64 << 20,
        }
    }
}

impl Params {
    /// Registers the variables, in the order in which `fi_getparams` shows them.
    pub fn define() {
        params::define_all(&SOURCE, &VARIABLES);
    }

    /// Reads the variables from the environment. Call `define` first.
    pub fn read() -> Params {
        let (given, default) = (Given(&SOURCE), Params::default());
        let window = given
            .int("max_unacked")
            .and_then(|packets| u32::try_from(packets).ok());
        Params {
            retry: given.flag("retry").unwrap_or(default.retry),
            window: window
                .filter(|&packets| packets > 0)
                .unwrap_or(default.window)
                .min(MOST),
            close_timeout: given.time_limit("close_timeout", default.close_timeout),
            stall_report: given.milliseconds("stall_report", default.stall_report),
            max_saved_bytes: given
                .size("max_saved_bytes")
                .unwrap_or(default.max_saved_bytes),
        }
    }

    pub fn settings(&self) -> Settings {
        Settings {
            window: self.window,
            retry: self.retry,
            saved: self.max_saved_bytes,
            extended: true,
        }
    }
}

/// Largest window that is announced to a peer.
const MOST: u32 = 4096;

const VARIABLES: [(&str, Kind, &str); 8] = [
    (
        "spin_count",
        Kind::Int,
        "accepted and ignored: packets taken by one call that makes progress (default: 1000)",
    ),
    (
        "retry",
        Kind::Bool,
        "whether packets that are lost are sent again (default: yes)",
    ),
    (
        "max_peers",
        Kind::Int,
        "accepted and ignored: peers of an endpoint (default: 1024)",
    ),
    (
        "max_unacked",
        Kind::Int,
        "packets that may be under way to a peer at a time, and from it (default: 128)",
    ),
    (
        "rescan",
        Kind::Bool,
        "accepted and ignored: fi_getinfo looks for new interfaces",
    ),
    (
        "close_timeout",
        Kind::Int,
        "milliseconds for which fi_close and exit(3) wait for peers to take what was injected, 0 for no limit \
         (default: 5000)",
    ),
    (
        "stall_report",
        Kind::Int,
        "milliseconds after which the log tells of operations that wait for a peer, 0 for never (default: 60000)",
    ),
    (
        "max_saved_bytes",
        Kind::Size,
        "most bytes of messages without a receive that an endpoint keeps (default: 67108864)",
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

    /// Checks that these variables change the default settings in this way only.
    fn check(environment: &[(&str, &str)], change: impl FnOnce(&mut Params)) {
        let mut expected = Params::default();
        change(&mut expected);
        let found = report("rxd::params::tests::child", environment);
        assert_eq!(found, format!("{expected:?}"), "{environment:?}");
    }

    #[test]
    fn every_variable_has_its_field() {
        check(&[], |_| ());
        let environment = [
            ("FI_OFI_RXD_RETRY", "no"),
            ("FI_OFI_RXD_MAX_UNACKED", "5"),
            ("FI_OFI_RXD_CLOSE_TIMEOUT", "8"),
            ("FI_OFI_RXD_STALL_REPORT", "17"),
            ("FI_OFI_RXD_MAX_SAVED_BYTES", "9"),
        ];
        check(&environment, |params| {
            *params = Params {
                retry: false,
                window: 5,
                close_timeout: Duration::from_millis(8),
                stall_report: Duration::from_millis(17),
                max_saved_bytes: 9,
            }
        });
    }

    #[test]
    fn a_window_has_a_packet_at_least() {
        for wrong in ["0", "-1", "words"] {
            check(&[("FI_OFI_RXD_MAX_UNACKED", wrong)], |_| ());
        }
        check(&[("FI_OFI_RXD_MAX_UNACKED", "99999999")], |params| {
            params.window = MOST
        });
    }
}
