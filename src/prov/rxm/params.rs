// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The FI_OFI_RXM_ variables: fi_rxm(7).

use core::time::Duration;

use super::SOURCE;
use base::params::{self, Given, Kind};

/// The settings of the provider, read once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params {
    /// Maximum size of a message in one packet; both sides must have the same.
    pub eager: usize,
    /// Maximum size of a message in segments.
    pub segmented: usize,
    /// Whether longer messages are written by the sender instead of read by the receiver.
    pub rendezvous_write: bool,
    /// Whether connections receive into a shared context; by default, over providers named tcp.
    pub shared_rx: Option<bool>,
    /// Queue sizes if the hints have none.
    pub tx_size: usize,
    pub rx_size: usize,
    /// Queue sizes for the provider below.
    pub msg_tx_size: Option<usize>,
    pub msg_rx_size: Option<usize>,
    /// A thread makes progress even if the application did not request that.
    pub auto_progress: bool,
    /// Time limit to connect before operations to the peer fail.
    pub conn_timeout: Duration,
    /// Time that closing waits for accepted operations.
    pub close_timeout: Duration,
    /// Time after which the log reports operations that wait for a peer; zero: never.
    pub stall_report: Duration,
    /// Limit on unexpected messages kept per endpoint, in bytes.
    pub max_saved_bytes: usize,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            eager: 16384,
            segmented: 131_072,
            rendezvous_write: false,
            shared_rx: None,
            tx_size: 2048,
            rx_size: 2048,
            msg_tx_size: None,
            msg_rx_size: None,
            auto_progress: false,
            conn_timeout: Duration::from_secs(15),
            close_timeout: Duration::from_secs(5),
            stall_report: Duration::from_secs(60),
            max_saved_bytes: 64 << 20,
        }
    }
}

impl Params {
    /// Defines the variables in the order in which `fi_getparams` lists them.
    pub fn define() {
        params::define_all(&SOURCE, &VARIABLES);
    }

    /// Returns the settings of the environment, with defaults for the others. Call `define` first.
    pub fn read() -> Params {
        let default = Params::default();
        let given = Given(&SOURCE);
        let size = |name| given.size(name);
        let eager = size("buffer_size").unwrap_or(default.eager);
        // The length field of a packet has 32 bits, and the answer to an atomic operation needs room in any case.
        let eager = eager.clamp(MIN_EAGER, MAX_EAGER);
        let segmented = size("sar_limit").unwrap_or(eager * SEGMENTS);
        Params {
            eager,
            // The length of a segment has to fit its field.
            segmented: if eager > MAX_SEGMENT { 0 } else { segmented },
            rendezvous_write: given
                .flag("use_rndv_write")
                .unwrap_or(default.rendezvous_write),
            shared_rx: given.flag("use_srx"),
            tx_size: size("tx_size").unwrap_or(default.tx_size),
            rx_size: size("rx_size").unwrap_or(default.rx_size),
            msg_tx_size: size("msg_tx_size"),
            msg_rx_size: size("msg_rx_size"),
            auto_progress: given
                .flag("data_auto_progress")
                .unwrap_or(default.auto_progress),
            conn_timeout: given.time_limit("conn_timeout", default.conn_timeout),
            close_timeout: given.time_limit("close_timeout", default.close_timeout),
            stall_report: given.milliseconds("stall_report", default.stall_report),
            max_saved_bytes: size("max_saved_bytes").unwrap_or(default.max_saved_bytes),
        }
    }
}

const SEGMENTS: usize = 8;
const MIN_EAGER: usize = 128;
const MAX_EAGER: usize = 1 << 30;
pub const MAX_SEGMENT: usize = 65535;

const VARIABLES: [(&str, Kind, &str); 22] = [
    (
        "buffer_size",
        Kind::Size,
        "longest message that goes in one packet; must be the same in all processes (default: 16384)",
    ),
    (
        "sar_limit",
        Kind::Size,
        "longest message that goes in several packets, no more than buffer_size for none (default: 8 x buffer_size)",
    ),
    (
        "use_rndv_write",
        Kind::Bool,
        "longer messages are written by the sender, not read by the receiver (default: no)",
    ),
    (
        "use_srx",
        Kind::Bool,
        "connections receive into one context that they share; only over tcp and sockets (default: over tcp)",
    ),
    (
        "tx_size",
        Kind::Size,
        "transmit queue size when the application names none (default: 2048)",
    ),
    (
        "rx_size",
        Kind::Size,
        "receive queue size when the application names none (default: 2048)",
    ),
    (
        "msg_tx_size",
        Kind::Size,
        "transmit queue size asked of the provider below, for each connection (default: its own)",
    ),
    (
        "msg_rx_size",
        Kind::Size,
        "receive queue size asked of the provider below (default: its own)",
    ),
    (
        "data_auto_progress",
        Kind::Bool,
        "a thread makes progress although the application asks for none (default: no)",
    ),
    (
        "conn_timeout",
        Kind::Int,
        "milliseconds that a host or port has to accept a connection before operations for it fail, 0 for no limit \
         (default: 15000)",
    ),
    (
        "close_timeout",
        Kind::Int,
        "milliseconds for which fi_close waits for what was accepted to leave, 0 for no limit (default: 5000)",
    ),
    (
        "stall_report",
        Kind::Int,
        "milliseconds after which the log tells of operations that wait for a peer, 0 for never (default: 60000)",
    ),
    (
        "max_saved_bytes",
        Kind::Size,
        "bytes of memory for unexpected messages kept per endpoint (default: 67108864)",
    ),
    (
        "enable_passthru",
        Kind::Bool,
        "accepted and ignored: data calls without packets of rxm (default: no)",
    ),
    (
        "comp_per_progress",
        Kind::Int,
        "accepted and ignored: completions taken at a time",
    ),
    (
        "cm_progress_interval",
        Kind::Int,
        "accepted and ignored: microseconds between looks for connections",
    ),
    (
        "cq_eq_fairness",
        Kind::Int,
        "accepted and ignored: completions between looks for connections",
    ),
    (
        "enable_direct_send",
        Kind::Bool,
        "accepted and ignored: buffers of the application are sent without a copy",
    ),
    (
        "detect_hmem_iface",
        Kind::Bool,
        "accepted and ignored: finds out what memory of the application is of a device",
    ),
    (
        "rescan",
        Kind::Bool,
        "accepted and ignored: fi_getinfo looks for new interfaces",
    ),
    (
        "def_wait_obj",
        Kind::String,
        "accepted and ignored: default wait object, fd or pollfd",
    ),
    (
        "def_tcp_wait_obj",
        Kind::String,
        "accepted and ignored: the same over tcp",
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
                segmented: 2000,
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
            (params.eager, params.segmented) = (300, 2400);
        });
        check(&[("FI_OFI_RXM_BUFFER_SIZE", "1")], |params| {
            (params.eager, params.segmented) = (128, 1024);
        });
        // The length of such a segment would not fit its field.
        let long = [
            ("FI_OFI_RXM_BUFFER_SIZE", "65536"),
            ("FI_OFI_RXM_SAR_LIMIT", "9999999"),
        ];
        check(&long, |params| {
            (params.eager, params.segmented) = (65536, 0);
        });
    }
}
