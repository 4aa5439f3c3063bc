// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The FI_OFI_RXM_ variables: fi_rxm(7).

use core::time::Duration;

use super::SOURCE;
use base::params::Kind;

base::params::variables! {
    /// The settings of the provider, read once.
    pub struct Params of SOURCE {
        /// Maximum size of a message in one packet; both sides must have the same.
        eager: usize = size(16384), "buffer_size",
            "longest message that goes in one packet; must be the same in all processes (default: 16384)";
        /// The longest message that is sent in several packets, if it is set.
        sar_limit: Option<usize> = any_size(), "sar_limit",
            "longest message that goes in several packets, no more than buffer_size for none (default: 8 x buffer_size)";
        /// Whether longer messages are written by the sender instead of read by the receiver.
        rendezvous_write: bool = flag(false), "use_rndv_write",
            "longer messages are written by the sender, not read by the receiver (default: no)";
        /// Whether connections receive into a shared context; by default, over providers named tcp.
        shared_rx: Option<bool> = any_flag(), "use_srx",
            "connections receive into one context that they share; only over tcp and sockets (default: over tcp)";
        /// Queue sizes if the hints have none.
        tx_size: usize = size(2048), "tx_size",
            "transmit queue size when the application names none (default: 2048)";
        rx_size: usize = size(2048), "rx_size",
            "receive queue size when the application names none (default: 2048)";
        /// Queue sizes for the provider below.
        msg_tx_size: Option<usize> = any_size(), "msg_tx_size",
            "transmit queue size asked of the provider below, for each connection (default: its own)";
        msg_rx_size: Option<usize> = any_size(), "msg_rx_size",
            "receive queue size asked of the provider below (default: its own)";
        /// A thread makes progress even if the application did not request that.
        auto_progress: bool = flag(false), "data_auto_progress",
            "a thread makes progress although the application asks for none (default: no)";
        /// Time limit to connect before operations to the peer fail.
        conn_timeout: Duration = time_limit(Duration::from_secs(15)), "conn_timeout",
            "milliseconds that a host or port has to accept a connection before operations for it fail, 0 for no limit \
             (default: 15000)";
        /// Time that closing waits for accepted operations.
        close_timeout: Duration = time_limit(Duration::from_secs(5)), "close_timeout",
            "milliseconds for which fi_close waits for what was accepted to leave, 0 for no limit (default: 5000)";
        /// Time after which the log reports operations that wait for a peer; zero: never.
        stall_report: Duration = milliseconds(Duration::from_secs(60)), "stall_report",
            "milliseconds after which the log tells of operations that wait for a peer, 0 for never; if \
             set, also of receives that name one (default: 60000)";
        /// Limit on unexpected messages kept per endpoint, in bytes.
        max_saved_bytes: usize = size(64 << 20), "max_saved_bytes",
            "bytes of memory for unexpected messages kept per endpoint (default: 67108864)";
        = ignored(Kind::Bool), "enable_passthru",
            "accepted and ignored: data calls without packets of rxm (default: no)";
        = ignored(Kind::Int), "comp_per_progress",
            "accepted and ignored: completions taken at a time";
        = ignored(Kind::Int), "cm_progress_interval",
            "accepted and ignored: microseconds between looks for connections";
        = ignored(Kind::Int), "cq_eq_fairness",
            "accepted and ignored: completions between looks for connections";
        = ignored(Kind::Bool), "enable_direct_send",
            "accepted and ignored: buffers of the application are sent without a copy";
        = ignored(Kind::Bool), "detect_hmem_iface",
            "accepted and ignored: finds out what memory of the application is of a device";
        = ignored(Kind::Bool), "rescan",
            "accepted and ignored: fi_getinfo looks for new interfaces";
        = ignored(Kind::String), "def_wait_obj",
            "accepted and ignored: default wait object, fd or pollfd";
        = ignored(Kind::String), "def_tcp_wait_obj",
            "accepted and ignored: the same over tcp";
    }
}

impl Params {
    /// Returns the settings of the environment, within their bounds.
    pub fn read() -> Params {
        let mut params = Params::given();
        // The length field of a packet has 32 bits, and the answer to an atomic operation needs room in any case.
        params.eager = params.eager.clamp(MIN_EAGER, MAX_EAGER);
        params
    }

    /// Returns the length of the longest message that is sent in several packets.
    pub fn segmented(&self) -> usize {
        // The length of a segment has to fit its field.
        match self.eager > MAX_SEGMENT {
            true => 0,
            false => self.sar_limit.unwrap_or(self.eager * SEGMENTS),
        }
    }
}

const SEGMENTS: usize = 8;
const MIN_EAGER: usize = 128;
const MAX_EAGER: usize = 1 << 30;
pub const MAX_SEGMENT: usize = 65535;

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

    /// Checks that these variables change only that setting.
    fn check(environment: &[(&str, &str)], change: impl FnOnce(&mut Params)) {
        let mut expected = Params::default();
        change(&mut expected);
        let found = report("rxm::params::tests::child", environment);
        assert_eq!(found, format!("{expected:?}"), "{environment:?}");
    }

    #[test]
    fn every_variable_has_its_field() {
        check(&[], |_| ());
        let environment = [
            ("FI_OFI_RXM_BUFFER_SIZE", "1000"),
            ("FI_OFI_RXM_SAR_LIMIT", "2000"),
            ("FI_OFI_RXM_USE_RNDV_WRITE", "1"),
            ("FI_OFI_RXM_USE_SRX", "no"),
            ("FI_OFI_RXM_TX_SIZE", "3"),
            ("FI_OFI_RXM_RX_SIZE", "4"),
            ("FI_OFI_RXM_MSG_TX_SIZE", "5"),
            ("FI_OFI_RXM_MSG_RX_SIZE", "6"),
            ("FI_OFI_RXM_DATA_AUTO_PROGRESS", "yes"),
            ("FI_OFI_RXM_CONN_TIMEOUT", "7"),
            ("FI_OFI_RXM_CLOSE_TIMEOUT", "8"),
            ("FI_OFI_RXM_STALL_REPORT", "17"),
            ("FI_OFI_RXM_MAX_SAVED_BYTES", "9"),
        ];
        check(&environment, |params| {
            *params = Params {
                eager: 1000,
                sar_limit: Some(2000),
                rendezvous_write: true,
                shared_rx: Some(false),
                tx_size: 3,
                rx_size: 4,
                msg_tx_size: Some(5),
                msg_rx_size: Some(6),
                auto_progress: true,
                conn_timeout: Duration::from_millis(7),
                close_timeout: Duration::from_millis(8),
                stall_report: Duration::from_millis(17),
                max_saved_bytes: 9,
            }
        });
    }

    #[test]
    fn the_limit_of_segments_follows_that_of_packets() {
        check(&[("FI_OFI_RXM_BUFFER_SIZE", "300")], |params| {
            params.eager = 300;
        });
        check(&[("FI_OFI_RXM_BUFFER_SIZE", "1")], |params| {
            params.eager = 128;
        });
        // The length of such a segment would not fit its field.
        let long = [
            ("FI_OFI_RXM_BUFFER_SIZE", "65536"),
            ("FI_OFI_RXM_SAR_LIMIT", "9999999"),
        ];
        check(&long, |params| {
            (params.eager, params.sar_limit) = (65536, Some(9_999_999));
        });
    }
}
