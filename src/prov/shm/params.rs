// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The FI_SHM_ variables: fi_shm(7). sm2 has no variables; it uses those of shm except the queue sizes.

use core::time::Duration;
use std::path::PathBuf;

use super::kind::SHM;
use base::params::{self, Given, Kind};
use sys::memory;

/// The settings of both providers, read once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Params {
    /// Queue sizes of shm: default and maximum.
    pub tx_size: usize,
    pub rx_size: usize,
    /// Whether copies between processes by the kernel are disabled.
    pub disable_cma: bool,
    /// Bytes of the ring of a pair of endpoints for each direction; a power of two. If not set, the size depends on the
    /// number of peers: `Stream::ring_size`.
    pub ring_size: Option<usize>,
    /// Folder of sockets, for processes that do not share a network namespace; if not set, sockets are abstract.
    pub folder: Option<PathBuf>,
    /// The largest unexpected tagged message that is kept.
    pub max_saved_size: usize,
    /// Limit on unexpected messages kept per endpoint, in bytes.
    pub max_saved_bytes: usize,
    /// Time limit for a peer to accept a connection; `NO_LIMIT` for none.
    pub conn_timeout: Duration,
    /// Time that closing waits for peers to take accepted data; `NO_LIMIT` for no limit.
    pub close_timeout: Duration,
    /// Time after which an operation that waits for its peer fails, or is reported; zero: never.
    pub op_timeout: Duration,
    pub stall_report: Duration,
    /// No progress thread, even if automatic progress was requested.
    pub disable_auto_progress: bool,
    /// Whether a query without hints also returns the entries that are otherwise offered only on request.
    pub offer_all: bool,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            tx_size: QUEUE,
            rx_size: QUEUE,
            disable_cma: false,
            ring_size: None,
            folder: None,
            max_saved_size: usize::MAX,
            max_saved_bytes: 64 << 20,
            conn_timeout: Duration::from_secs(15),
            close_timeout: Duration::from_secs(5),
            op_timeout: Duration::ZERO,
            stall_report: Duration::from_secs(60),
            disable_auto_progress: false,
            offer_all: false,
        }
    }
}

impl Params {
    /// Defines the variables in the order in which `fi_getparams` lists them.
    pub fn define() {
        params::define_all(&SHM, &VARIABLES);
    }

    /// Returns the settings of the environment, with defaults for the others. Call `define` first.
    pub fn read() -> Params {
        let default = Params::default();
        let given = Given(&SHM);
        let queue = |name, default| given.size(name).unwrap_or(default).clamp(1, MAX_QUEUE);
        let folder = given.text("folder").filter(|folder| !folder.is_empty());
        Params {
            tx_size: queue("tx_size", default.tx_size),
            rx_size: queue("rx_size", default.rx_size),
            disable_cma: given.flag("disable_cma").unwrap_or(default.disable_cma),
            ring_size: given.size("ring_size").map(ring_size),
            folder: folder.map(PathBuf::from),
            max_saved_size: given
                .size("max_saved_size")
                .unwrap_or(default.max_saved_size),
            max_saved_bytes: given
                .size("max_saved_bytes")
                .unwrap_or(default.max_saved_bytes),
            conn_timeout: given.time_limit("conn_timeout", default.conn_timeout),
            close_timeout: given.time_limit("close_timeout", default.close_timeout),
            op_timeout: given.milliseconds("op_timeout", default.op_timeout),
            stall_report: given.milliseconds("stall_report", default.stall_report),
            disable_auto_progress: given
                .flag("disable_auto_progress")
                .unwrap_or(default.disable_auto_progress),
            offer_all: given.flag("offer_all").unwrap_or(default.offer_all),
        }
    }
}

/// Returns the next valid ring size.
fn ring_size(wanted: usize) -> usize {
    let size = wanted.clamp(memory::page_size(), MAX_RING);
    size.next_power_of_two()
}

const MAX_RING: usize = 16 << 20;
/// Queue entries if no variable is set.
pub const QUEUE: usize = 1024;
const MAX_QUEUE: usize = 1 << 20;

const VARIABLES: [(&str, Kind, &str); 17] = [
    (
        "tx_size",
        Kind::Size,
        "transmit queue size, and the largest that an application may ask for (default: 1024)",
    ),
    (
        "rx_size",
        Kind::Size,
        "receive queue size, and the largest that an application may ask for (default: 1024)",
    ),
    (
        "disable_cma",
        Kind::Bool,
        "copy nothing from process to process through the kernel (default: no)",
    ),
    (
        "use_dsa_sar",
        Kind::Bool,
        "accepted and ignored: let Intel DSA copy (default: no)",
    ),
    (
        "max_gdrcopy_size",
        Kind::Size,
        "accepted and ignored: largest message that gdrcopy copies from or to a device, in bytes",
    ),
    (
        "use_xpmem",
        Kind::Bool,
        "accepted and ignored: prefer XPMEM where processes copy from each other (default: no)",
    ),
    (
        "buffer_threshold",
        Kind::Size,
        "accepted and ignored: unexpected messages from which on the receiver is asked to copy them (default: 1)",
    ),
    (
        "ring_size",
        Kind::Size,
        "bytes of the ring between two endpoints, each way; a power of two from a page to 16 MiB (default: 2 MiB with the first peer, less with each further one, down to 32 KiB)",
    ),
    (
        "folder",
        Kind::Path,
        "folder in which processes of several network namespaces find each other, not writable by other users (default: none)",
    ),
    (
        "max_saved_size",
        Kind::Size,
        "largest unexpected tagged message that is kept; the sender offers larger ones first (default: no limit)",
    ),
    (
        "max_saved_bytes",
        Kind::Size,
        "bytes of memory for unexpected messages kept per endpoint (default: 67108864)",
    ),
    (
        "conn_timeout",
        Kind::Int,
        "milliseconds after which operations that wait for a peer to appear fail, 0 for no limit (default: 15000)",
    ),
    (
        "close_timeout",
        Kind::Int,
        "milliseconds for which fi_close and the end of the process wait for peers to take what was injected, 0 for \
         no limit (default: 5000)",
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
        "disable_auto_progress",
        Kind::Bool,
        "start no progress thread (default: no)",
    ),
    (
        "offer_all",
        Kind::Bool,
        "fi_getinfo without hints shows entries with all that is there on request, too (default: no)",
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
        let found = report("shm::params::tests::child", environment);
        assert_eq!(found, format!("{expected:?}"), "{environment:?}");
    }

    #[test]
    fn without_variables_the_defaults_hold() {
        check(&[], |_| ());
        // Variables of other providers and ignored variables change nothing.
        check(
            &[
                ("FI_TCP_TX_SIZE", "1"),
                ("FI_SM2_TX_SIZE", "1"),
                ("FI_SHM_USE_XPMEM", "1"),
                ("FI_SHM_USE_DSA_SAR", "1"),
                ("FI_SHM_MAX_GDRCOPY_SIZE", "1"),
                ("FI_SHM_BUFFER_THRESHOLD", "7"),
                ("FI_SHM_FOLDER", ""),
                ("FI_SHM_DISABLE_CMA", "perhaps"),
            ],
            |_| (),
        );
    }

    #[test]
    fn every_variable_has_its_field() {
        let environment = [
            ("FI_SHM_TX_SIZE", "11"),
            ("FI_SHM_RX_SIZE", "12"),
            ("FI_SHM_DISABLE_CMA", "yes"),
            ("FI_SHM_RING_SIZE", "131072"),
            ("FI_SHM_FOLDER", "/run/jobs"),
            ("FI_SHM_MAX_SAVED_SIZE", "13"),
            ("FI_SHM_MAX_SAVED_BYTES", "14"),
            ("FI_SHM_CONN_TIMEOUT", "15"),
            ("FI_SHM_CLOSE_TIMEOUT", "18"),
            ("FI_SHM_OP_TIMEOUT", "16"),
            ("FI_SHM_STALL_REPORT", "17"),
            ("FI_SHM_DISABLE_AUTO_PROGRESS", "1"),
            ("FI_SHM_OFFER_ALL", "on"),
        ];
        check(&environment, |params| {
            *params = Params {
                tx_size: 11,
                rx_size: 12,
                disable_cma: true,
                ring_size: Some(131_072),
                folder: Some(PathBuf::from("/run/jobs")),
                max_saved_size: 13,
                max_saved_bytes: 14,
                conn_timeout: Duration::from_millis(15),
                close_timeout: Duration::from_millis(18),
                op_timeout: Duration::from_millis(16),
                stall_report: Duration::from_millis(17),
                disable_auto_progress: true,
                offer_all: true,
            }
        });
    }

    #[test]
    fn sizes_stay_within_bounds() {
        let none = [
            ("FI_SHM_TX_SIZE", "0"),
            ("FI_SHM_RX_SIZE", "-1"),
            ("FI_SHM_CONN_TIMEOUT", "-5"),
        ];
        check(&none, |params| {
            params.tx_size = 1;
            params.rx_size = MAX_QUEUE;
            params.conn_timeout = params::NO_LIMIT;
        });
        assert_eq!(ring_size(0), memory::page_size());
        assert_eq!(ring_size(65535), 65536);
        assert_eq!(ring_size(65536), 65536);
        assert_eq!(ring_size(65537), 131_072);
        assert_eq!(ring_size(MAX_RING - 1), MAX_RING);
        assert_eq!(ring_size(usize::MAX), MAX_RING);
    }
}
