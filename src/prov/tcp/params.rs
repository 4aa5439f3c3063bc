// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The FI_TCP_ variables: fi_tcp(7).

use core::time::Duration;

use super::SOURCE;
use base::log::{Subsys, log_warn};
use base::params::Kind;

base::params::variables! {
    /// The settings of the provider, read once.
    pub struct Params of SOURCE {
        = ignored(Kind::String), "prov_name",
            "accepted and ignored: another name for the provider";
        /// Offer only addresses of this interface.
        iface: Option<String> = text(), "iface",
            "name of the only network interface to use (default: all)";
        /// Port range of listeners without a fixed port; both 0: chosen by the kernel.
        port_low: i32 = int(0), "port_low_range",
            "lowest port for listeners without a fixed one; a range with ports above 65535 is ignored \
             (default: the kernel chooses)";
        port_high: i32 = int(0), "port_high_range",
            "highest port for listeners without a fixed one (default: the kernel chooses)";
        /// Queue sizes if the hints have none.
        tx_size: usize = size(256), "tx_size",
            "transmit queue size when the application names none (default: 256)";
        rx_size: usize = size(256), "rx_size",
            "receive queue size when the application names none (default: 256)";
        /// The offered inject limit. MPI implementations inject all messages up to it, and request an acknowledgement
        /// for longer ones, so it is more than upstream's 128; and little enough for one record of a small ring.
        max_inject: usize = size(INJECT), "max_inject",
            "largest message that may be injected, in bytes (default: 8192)";
        /// Number of unexpected tagged messages kept per known peer before reading from it stops.
        max_saved: usize = count(64), "max_saved",
            "unexpected tagged messages kept per peer before its connection is stopped (default: 64)";
        /// The largest unexpected tagged message that is kept.
        max_saved_size: usize = size(usize::MAX), "max_saved_size",
            "largest unexpected tagged message that is kept; the sender offers larger ones first (default: no limit)";
        /// Size of the internal receive buffers.
        max_rx_size: usize = size(16384), "max_rx_size",
            "size of internal receive buffers in bytes (default: 16384)";
        /// Forces TCP_NODELAY on or off.
        nodelay: Option<bool> = any_flag(), "nodelay",
            "forces TCP_NODELAY on or off (default: on)";
        /// The congestion control of connections.
        congestion: Option<String> = text(), "congestion",
            "congestion control of connections, tcp(7) (default: the host's; within a host none that paces)";
        /// Size of the buffer that collects small sends; 0: none.
        staging_size: usize = count(9000), "staging_sbuf_size",
            "bytes per connection in which small sends gather, 0 for none (default: 9000)";
        /// Size of the buffer for reading ahead from the socket; 0: none.
        prefetch_size: usize = count(9000), "prefetch_rbuf_size",
            "bytes per connection to read ahead into, 0 for none (default: 9000)";
        /// From this size on, the kernel sends without copying.
        zerocopy_size: usize = size(usize::MAX), "zerocopy_size",
            "from this many bytes on the kernel sends without copying (default: never)";
        /// Log every frame header.
        trace_msg: bool = flag(false), "trace_msg",
            "log the header of every message at level trace (default: no)";
        /// No progress thread, although automatic progress is offered.
        disable_auto_progress: bool = flag(false), "disable_auto_progress",
            "start no progress thread (default: no)";
        = ignored(Kind::Bool), "io_uring",
            "accepted and ignored: use io_uring (default: no)";
        /// Ask peers not to connect to this endpoint.
        firewall_addr: bool = flag(false), "firewall_addr",
            "tell peers that they cannot connect to this process (default: no)";
        /// Whether a query without hints also returns the entries that are otherwise offered only on request.
        offer_all: bool = flag(false), "offer_all",
            "fi_getinfo without hints shows entries with all that is there on request, too (default: no)";
        /// Time limit for a peer to accept a connection; `NO_LIMIT` for none.
        conn_timeout: Duration = time_limit(Duration::from_secs(15)), "conn_timeout",
            "milliseconds that a host or port has to accept a connection before operations for it fail, 0 for no limit \
             (default: 15000)";
        /// Time that closing waits for peers to take accepted data; `NO_LIMIT` for no limit.
        close_timeout: Duration = time_limit(Duration::from_secs(5)), "close_timeout",
            "milliseconds for which fi_close and the end of the process wait for peers to take what was injected, 0 for \
             no limit (default: 5000)";
        /// Connections of a domain above which idle ones are closed; 0: none.
        max_connections: usize = count(0), "max_connections",
            "connections of a domain above which idle ones are closed, 0 for as many as there are descriptors \
             (default: 0)";
        /// Time without any acknowledgement after which a peer is given up; zero: never.
        peer_timeout: Duration = milliseconds(Duration::from_secs(60)), "peer_timeout",
            "milliseconds after which a peer that acknowledges nothing is given up, 0 for never (default: 60000)";
        /// Time after which an operation that waits for its peer fails, or is reported; zero: never.
        op_timeout: Duration = milliseconds(Duration::ZERO), "op_timeout",
            "milliseconds after which an operation that waits for its peer fails, 0 for never (default: 0)";
        stall_report: Duration = milliseconds(Duration::from_secs(60)), "stall_report",
            "milliseconds after which the log tells of operations that wait for a peer, 0 for never; if \
             set, also of receives that name one (default: 60000)";
        /// Limit on unexpected messages kept per endpoint, in bytes.
        max_saved_bytes: usize = size(64 << 20), "max_saved_bytes",
            "bytes of memory for unexpected messages kept per endpoint (default: 67108864)";
        /// Whether RDM endpoints share memory with peers of this host.
        shared_memory: bool = flag(true), "shared_memory",
            "RDM endpoints go over shared memory to peers of the same host and user (default: yes)";
    }
}

/// The default inject limit.
const INJECT: usize = 8 * 1024;

impl Params {
    /// Returns the settings of the environment. A limit raises those that must not be below it.
    pub fn read() -> Params {
        let mut params = Params::given();
        (params.port_low, params.port_high) = port_range(params.port_low, params.port_high);
        params.max_rx_size = params.max_rx_size.max(params.max_inject);
        params.max_saved_size = params.max_saved_size.max(params.max_rx_size);
        params
    }

    /// Returns the port range of listeners without a fixed port; `None`: the kernel chooses.
    pub fn ports(&self) -> Option<(u16, u16)> {
        let port = |number| u16::try_from(number).ok();
        let range = port(self.port_low).zip(port(self.port_high));
        range.filter(|range| *range != (0, 0))
    }
}

/// Returns the port range. Ignores it if it is negative, reversed or beyond the largest port.
fn port_range(low: i32, high: i32) -> (i32, i32) {
    let last = i32::from(u16::MAX);
    if 0 <= low && low <= high && high <= last {
        return (low, high);
    }
    log_warn!(
        &SOURCE,
        Subsys::Core,
        "FI_TCP_PORT_LOW_RANGE={low} and FI_TCP_PORT_HIGH_RANGE={high} are no range of ports: ignored, the kernel \
         chooses ports"
    );
    (0, 0)
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
            ("FI_TCP_CONGESTION", "reno"),
            ("FI_TCP_STAGING_SBUF_SIZE", "0"),
            ("FI_TCP_PREFETCH_RBUF_SIZE", "18"),
            ("FI_TCP_ZEROCOPY_SIZE", "19"),
            ("FI_TCP_TRACE_MSG", "1"),
            ("FI_TCP_DISABLE_AUTO_PROGRESS", "yes"),
            ("FI_TCP_FIREWALL_ADDR", "true"),
            ("FI_TCP_CONN_TIMEOUT", "21"),
            ("FI_TCP_CLOSE_TIMEOUT", "26"),
            ("FI_TCP_MAX_CONNECTIONS", "27"),
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
                congestion: Some("reno".to_owned()),
                staging_size: 0,
                prefetch_size: 18,
                zerocopy_size: 19,
                disable_auto_progress: true,
                firewall_addr: true,
                offer_all: true,
                trace_msg: true,
                conn_timeout: Duration::from_millis(21),
                close_timeout: Duration::from_millis(26),
                max_connections: 27,
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
            params.max_rx_size = INJECT;
            params.max_saved_size = INJECT;
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
