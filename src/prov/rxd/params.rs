// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The FI_OFI_RXD_ variables: fi_rxd(7).

use core::time::Duration;

use super::SOURCE;
use super::session::Settings;
use base::params::Kind;

base::params::variables! {
    /// The settings of the provider, read once.
    pub struct Params of SOURCE {
        = ignored(Kind::Int), "spin_count",
            "accepted and ignored: packets taken by one call that makes progress (default: 1000)";
        /// Whether lost packets are sent again.
        retry: bool = flag(true), "retry",
            "whether packets that are lost are sent again (default: yes)";
        = ignored(Kind::Int), "max_peers",
            "accepted and ignored: peers of an endpoint (default: 1024)";
        /// Packets that may be in flight to a peer, and from a peer.
        window: usize = count(WINDOW), "max_unacked",
            "packets that may be under way to a peer at a time, and from it (default: 128)";
        = ignored(Kind::Bool), "rescan",
            "accepted and ignored: fi_getinfo looks for new interfaces";
        /// How long closing an endpoint waits for accepted operations to leave.
        close_timeout: Duration = time_limit(Duration::from_secs(5)), "close_timeout",
            "milliseconds for which fi_close and exit(3) wait for peers to take what was injected, 0 for no limit \
             (default: 5000)";
        /// Time after which operations that wait for a peer are logged; zero: never.
        stall_report: Duration = milliseconds(Duration::from_secs(60)), "stall_report",
            "milliseconds after which the log tells of operations that wait for a peer, 0 for never; if \
             set, also of receives that name one (default: 60000)";
        /// Cap of the memory for unexpected messages kept per endpoint, in bytes.
        max_saved_bytes: usize = size(64 << 20), "max_saved_bytes",
            "most bytes of messages without a receive that an endpoint keeps (default: 67108864)";
    }
}

impl Params {
    /// Returns the settings of the environment. A window of 0 packets is none.
    pub fn read() -> Params {
        let mut params = Params::given();
        params.window = match params.window {
            0 => WINDOW,
            window => window.min(MOST),
        };
        params
    }

    pub fn settings(&self) -> Settings {
        Settings {
            window: self.window as u32,
            retry: self.retry,
            saved: self.max_saved_bytes,
            extended: true,
        }
    }
}

/// Window without a variable.
const WINDOW: usize = 128;
/// Largest window that is announced to a peer.
const MOST: usize = 4096;

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
