// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The FI_TCP_ variables: fi_tcp(7).

use core::time::Duration;

use super::SOURCE;
use base::log::{Subsys, log_warn};
use base::params::{self, Given, Kind};

/// The settings of the provider, read once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params {
    /// Offer only addresses of this interface.
    pub iface: Option<String>,
    /// Port range of listeners without a fixed port; both 0: chosen by the kernel.
    pub port_low: u16,
    pub port_high: u16,
    /// Queue sizes if the hints have none.
    pub tx_size: usize,
    pub rx_size: usize,
    /// The offered inject limit.
    pub max_inject: usize,
    /// Number of unexpected tagged messages kept per known peer before reading from it stops.
    pub max_saved: usize,
    /// The largest unexpected tagged message that is kept.
    pub max_saved_size: usize,
    /// Size of the internal receive buffers.
    pub max_rx_size: usize,
    /// Forces TCP_NODELAY on or off.
    pub nodelay: Option<bool>,
    /// Size of the buffer that collects small sends; 0: none.
    pub staging_size: usize,
    /// Size of the buffer for reading ahead from the socket; 0: none.
    pub prefetch_size: usize,
    /// From this size on, the kernel sends without copying.
    pub zerocopy_size: usize,
    /// No progress thread, although automatic progress is offered.
    pub disable_auto_progress: bool,
    /// Ask peers not to connect to this endpoint.
    pub firewall_addr: bool,
    /// Whether a query without hints also returns the entries that are otherwise offered only on request.
    pub offer_all: bool,
    /// Log every frame header.
    pub trace_msg: bool,
    /// Time limit for a peer to accept a connection; `NO_LIMIT` for none.
    pub conn_timeout: Duration,
    /// Time that closing waits for peers to take accepted data; `NO_LIMIT` for no limit.
    pub close_timeout: Duration,
    /// Time without any acknowledgement after which a peer is given up; zero: never.
    pub peer_timeout: Duration,
    /// Time after which an operation that waits for its peer fails, or is reported; zero: never.
    pub op_timeout: Duration,
    pub stall_report: Duration,
    /// Limit on unexpected messages kept per endpoint, in bytes.
    pub max_saved_bytes: usize,
    /// Whether RDM endpoints share memory with peers of this host.
    pub shared_memory: bool,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            iface: None,
            port_low: 0,
            port_high: 0,
            tx_size: 256,
            rx_size: 256,
            max_inject: 128,
            max_saved: 64,
            max_saved_size: usize::MAX,
            max_rx_size: 16384,
            nodelay: None,
            staging_size: 9000,
            prefetch_size: 9000,
            zerocopy_size: usize::MAX,
            disable_auto_progress: false,
            firewall_addr: false,
            offer_all: false,
            trace_msg: false,
            conn_timeout: Duration::from_secs(15),
            close_timeout: Duration::from_secs(5),
            peer_timeout: Duration::from_secs(60),
            op_timeout: Duration::ZERO,
            stall_report: Duration::from_secs(60),
            max_saved_bytes: 64 << 20,
            shared_memory: true,
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
        let (port_low, port_high) = port_range(
            given.int("port_low_range").unwrap_or(0),
            given.int("port_high_range").unwrap_or(0),
        );
        let max_inject = given.size("max_inject").unwrap_or(default.max_inject);
        let max_rx_size = given
            .size("max_rx_size")
            .unwrap_or(default.max_rx_size)
            .max(max_inject);
        Params {
            iface: given.text("iface").filter(|iface| !iface.is_empty()),
            port_low,
            port_high,
            tx_size: given.size("tx_size").unwrap_or(default.tx_size),
            rx_size: given.size("rx_size").unwrap_or(default.rx_size),
            max_inject,
            max_saved: given.count("max_saved").unwrap_or(default.max_saved),
            max_saved_size: given
                .size("max_saved_size")
                .unwrap_or(default.max_saved_size)
                .max(max_rx_size),
            max_rx_size,
            nodelay: given.flag("nodelay"),
            staging_size: given
                .count("staging_sbuf_size")
                .unwrap_or(default.staging_size),
            prefetch_size: given
                .count("prefetch_rbuf_size")
                .unwrap_or(default.prefetch_size),
            zerocopy_size: given.size("zerocopy_size").unwrap_or(default.zerocopy_size),
            disable_auto_progress: given
                .flag("disable_auto_progress")
                .unwrap_or(default.disable_auto_progress),
            firewall_addr: given.flag("firewall_addr").unwrap_or(default.firewall_addr),
            offer_all: given.flag("offer_all").unwrap_or(default.offer_all),
            trace_msg: given.flag("trace_msg").unwrap_or(default.trace_msg),
            conn_timeout: given.time_limit("conn_timeout", default.conn_timeout),
            close_timeout: given.time_limit("close_timeout", default.close_timeout),
            peer_timeout: given.milliseconds("peer_timeout", default.peer_timeout),
            op_timeout: given.milliseconds("op_timeout", default.op_timeout),
            stall_report: given.milliseconds("stall_report", default.stall_report),
            max_saved_bytes: given
                .size("max_saved_bytes")
                .unwrap_or(default.max_saved_bytes),
            shared_memory: given.flag("shared_memory").unwrap_or(default.shared_memory),
        }
    }
}

/// Returns the port range. Ignores it if it is negative, reversed or beyond the largest port.
fn port_range(low: i32, high: i32) -> (u16, u16) {
    let port = |number| u16::try_from(number).ok();
    let range = port(low).zip(port(high)).filter(|(low, high)| low <= high);
    range.unwrap_or_else(|| {
        log_warn!(
            &SOURCE,
            Subsys::Core,
            "FI_TCP_PORT_LOW_RANGE={low} and FI_TCP_PORT_HIGH_RANGE={high} are no range of ports: ignored, the kernel chooses ports"
        );
        (0, 0)
    })
}

const VARIABLES: [(&str, Kind, &str); 26] = [
    (
        "prov_name",
        Kind::String,
        "accepted and ignored: another name for the provider",
    ),
    (
        "iface",
        Kind::String,
        "name of the only network interface to use (default: all)",
    ),
    (
        "port_low_range",
        Kind::Int,
        "lowest port for listeners without a fixed one; a range with ports above 65535 is ignored \
         (default: the kernel chooses)",
    ),
    (
        "port_high_range",
        Kind::Int,
        "highest port for listeners without a fixed one (default: the kernel chooses)",
    ),
    (
        "tx_size",
        Kind::Size,
        "transmit queue size when the application names none (default: 256)",
    ),
    (
        "rx_size",
        Kind::Size,
        "receive queue size when the application names none (default: 256)",
    ),
    (
        "max_inject",
        Kind::Size,
        "largest message that may be injected, in bytes (default: 128)",
    ),
    (
        "max_saved",
        Kind::Int,
        "unexpected tagged messages kept per peer before its connection is stopped (default: 64)",
    ),
    (
        "max_saved_size",
        Kind::Size,
        "largest unexpected tagged message that is kept; the sender offers larger ones first (default: no limit)",
    ),
    (
        "max_rx_size",
        Kind::Size,
        "size of internal receive buffers in bytes (default: 16384)",
    ),
    (
        "nodelay",
        Kind::Bool,
        "forces TCP_NODELAY on or off (default: on)",
    ),
    (
        "staging_sbuf_size",
        Kind::Int,
        "bytes per connection in which small sends gather, 0 for none (default: 9000)",
    ),
    (
        "prefetch_rbuf_size",
        Kind::Int,
        "bytes per connection to read ahead into, 0 for none (default: 9000)",
    ),
    (
        "zerocopy_size",
        Kind::Size,
        "from this many bytes on the kernel sends without copying (default: never)",
    ),
    (
        "trace_msg",
        Kind::Bool,
        "log the header of every message at level trace (default: no)",
    ),
    (
        "disable_auto_progress",
        Kind::Bool,
        "start no progress thread (default: no)",
    ),
    (
        "io_uring",
        Kind::Bool,
        "accepted and ignored: use io_uring (default: no)",
    ),
    (
        "firewall_addr",
        Kind::Bool,
        "tell peers that they cannot connect to this process (default: no)",
    ),
    (
        "offer_all",
        Kind::Bool,
        "fi_getinfo without hints shows entries with all that is there on request, too (default: no)",
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
        "milliseconds for which fi_close and the end of the process wait for peers to take what was injected, 0 for \
         no limit (default: 5000)",
    ),
    (
        "peer_timeout",
        Kind::Int,
        "milliseconds after which a peer that acknowledges nothing is given up, 0 for never (default: 60000)",
    ),
    (
        "op_timeout",
        Kind::Int,
        "milliseconds after which an operation that waits for its peer fails, 0 for never (default: 0)",
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
        "shared_memory",
        Kind::Bool,
        "RDM endpoints go over shared memory to peers of the same host and user (default: yes)",
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
        let found = report("tcp::params::tests::child", environment);
        assert_eq!(found, format!("{expected:?}"), "{environment:?}");
    }

    #[test]
    fn without_variables_the_defaults_hold() {
        check(&[], |_| ());
        // Variables of other providers and unknown names change nothing.
        check(
            &[
                ("FI_TX_SIZE", "1"),
                ("FI_TCP_TXSIZE", "1"),
                ("FI_SHM_TX_SIZE", "1"),
            ],
            |_| (),
        );
    }

    #[test]
    fn every_variable_has_its_field() {
        let environment = [
            ("FI_TCP_IFACE", "lo"),
            ("FI_TCP_PORT_LOW_RANGE", "2000"),
            ("FI_TCP_PORT_HIGH_RANGE", "0x1000"),
            ("FI_TCP_TX_SIZE", "11"),
            ("FI_TCP_RX_SIZE", "12"),
            ("FI_TCP_MAX_INJECT", "13"),
            ("FI_TCP_MAX_SAVED", "14"),
            ("FI_TCP_MAX_SAVED_SIZE", "100000"),
            ("FI_TCP_MAX_RX_SIZE", "16"),
            ("FI_TCP_NODELAY", "off"),
            ("FI_TCP_STAGING_SBUF_SIZE", "0"),
            ("FI_TCP_PREFETCH_RBUF_SIZE", "18"),
            ("FI_TCP_ZEROCOPY_SIZE", "19"),
            ("FI_TCP_TRACE_MSG", "1"),
            ("FI_TCP_DISABLE_AUTO_PROGRESS", "yes"),
            ("FI_TCP_FIREWALL_ADDR", "true"),
            ("FI_TCP_CONN_TIMEOUT", "21"),
            ("FI_TCP_CLOSE_TIMEOUT", "26"),
            ("FI_TCP_PEER_TIMEOUT", "23"),
            ("FI_TCP_OFFER_ALL", "1"),
            ("FI_TCP_OP_TIMEOUT", "24"),
            ("FI_TCP_STALL_REPORT", "25"),
            ("FI_TCP_MAX_SAVED_BYTES", "22"),
            ("FI_TCP_SHARED_MEMORY", "no"),
        ];
        check(&environment, |params| {
            *params = Params {
                iface: Some("lo".to_owned()),
                port_low: 2000,
                port_high: 4096,
                tx_size: 11,
                rx_size: 12,
                max_inject: 13,
                max_saved: 14,
                max_saved_size: 100_000,
                max_rx_size: 16,
                nodelay: Some(false),
                staging_size: 0,
                prefetch_size: 18,
                zerocopy_size: 19,
                disable_auto_progress: true,
                firewall_addr: true,
                offer_all: true,
                trace_msg: true,
                conn_timeout: Duration::from_millis(21),
                close_timeout: Duration::from_millis(26),
                peer_timeout: Duration::from_millis(23),
                op_timeout: Duration::from_millis(24),
                stall_report: Duration::from_millis(25),
                max_saved_bytes: 22,
                shared_memory: false,
            }
        });
    }

    #[test]
    fn a_limit_raises_those_that_must_not_be_below_it() {
        check(&[("FI_TCP_MAX_INJECT", "20000")], |params| {
            params.max_inject = 20_000;
            params.max_rx_size = 20_000;
        });
        check(&[("FI_TCP_MAX_SAVED_SIZE", "5")], |params| {
            params.max_saved_size = 16_384;
        });
        let all_low = [("FI_TCP_MAX_SAVED_SIZE", "5"), ("FI_TCP_MAX_RX_SIZE", "6")];
        check(&all_low, |params| {
            params.max_rx_size = 128;
            params.max_saved_size = 128;
        });
    }

    #[test]
    fn what_is_not_understood_changes_nothing() {
        let environment = [
            ("FI_TCP_NODELAY", "perhaps"),
            ("FI_TCP_FIREWALL_ADDR", ""),
            ("FI_TCP_TRACE_MSG", "2"),
            ("FI_TCP_TX_SIZE", "10s"),
            ("FI_TCP_MAX_SAVED", "2147483648"),
            ("FI_TCP_PREFETCH_RBUF_SIZE", "x"),
        ];
        check(&environment, |_| ());
    }

    #[test]
    fn less_than_nothing_is_nothing() {
        let environment = [
            ("FI_TCP_MAX_SAVED", "-1"),
            ("FI_TCP_STAGING_SBUF_SIZE", "-9000"),
            ("FI_TCP_PREFETCH_RBUF_SIZE", "-1"),
        ];
        check(&environment, |params| {
            params.max_saved = 0;
            params.staging_size = 0;
            params.prefetch_size = 0;
        });
    }

    #[test]
    fn an_impossible_port_range_is_no_range() {
        assert_eq!(port_range(0, 0), (0, 0));
        assert_eq!(port_range(1024, 2048), (1024, 2048));
        assert_eq!(port_range(1024, 1024), (1024, 1024));
        assert_eq!(port_range(1024, 65535), (1024, 65535));
        let beyond = [(1024, 65536), (70_000, 80_000), (65536, 65536)];
        let impossible = [(2048, 1024), (-1, 1024), (1024, -1), (-2, -1), (1024, 0)];
        for (low, high) in beyond.into_iter().chain(impossible) {
            assert_eq!(port_range(low, high), (0, 0), "{low} {high}");
        }
    }
}
