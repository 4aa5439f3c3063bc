// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The FI_SHM_ variables: fi_shm(7). sm2 has no variables; it uses those of shm except the queue sizes.

use core::time::Duration;
use std::path::PathBuf;

use super::kind::SHM;
use base::params::Kind;
use sys::memory;

base::params::variables! {
    /// The settings of both providers, read once.
    pub struct Params of SHM {
        /// Queue sizes of shm: default and maximum.
        tx_size: usize = size(QUEUE), "tx_size",
            "transmit queue size, and the largest that an application may ask for (default: 1024)";
        rx_size: usize = size(QUEUE), "rx_size",
            "receive queue size, and the largest that an application may ask for (default: 1024)";
        /// Whether copies between processes by the kernel are disabled.
        disable_cma: bool = flag(false), "disable_cma",
            "copy nothing from process to process through the kernel (default: no)";
        = ignored(Kind::Bool), "use_dsa_sar",
            "accepted and ignored: let Intel DSA copy (default: no)";
        = ignored(Kind::Size), "max_gdrcopy_size",
            "accepted and ignored: largest message that gdrcopy copies from or to a device, in bytes";
        = ignored(Kind::Bool), "use_xpmem",
            "accepted and ignored: prefer XPMEM where processes copy from each other (default: no)";
        = ignored(Kind::Size), "buffer_threshold",
            "accepted and ignored: unexpected messages from which on the receiver is asked to copy them (default: 1)";
        /// Bytes of the ring of a pair of endpoints for each direction; a power of two. If not set, the size depends
        /// on the number of peers: `Stream::ring_size`.
        ring_size: Option<usize> = any_size(), "ring_size",
            "bytes of the ring between two endpoints, each way; a power of two from a page to 16 MiB (default: 2 MiB with the first peer, less with each further one, down to 32 KiB)";
        /// Folder of sockets, for processes that do not share a network namespace; if not set, sockets are abstract.
        folder: Option<PathBuf> = path(), "folder",
            "folder in which processes of several network namespaces find each other, not writable by other users (default: none)";
        /// The largest unexpected tagged message that is kept.
        max_saved_size: usize = size(usize::MAX), "max_saved_size",
            "largest unexpected tagged message that is kept; the sender offers larger ones first (default: no limit)";
        /// Limit on unexpected messages kept per endpoint, in bytes.
        max_saved_bytes: usize = size(64 << 20), "max_saved_bytes",
            "bytes of memory for unexpected messages kept per endpoint (default: 67108864)";
        /// Time limit for a peer to accept a connection; `NO_LIMIT` for none.
        conn_timeout: Duration = time_limit(Duration::from_secs(15)), "conn_timeout",
            "milliseconds after which operations that wait for a peer to appear fail, 0 for no limit (default: 15000)";
        /// Time that closing waits for peers to take accepted data; `NO_LIMIT` for no limit.
        close_timeout: Duration = time_limit(Duration::from_secs(5)), "close_timeout",
            "milliseconds for which fi_close and the end of the process wait for peers to take what was injected, 0 for \
             no limit (default: 5000)";
        /// Time after which an operation that waits for its peer fails, or is reported; zero: never.
        op_timeout: Duration = milliseconds(Duration::ZERO), "op_timeout",
            "milliseconds after which an operation that waits for its peer fails, 0 for never (default: 0)";
        stall_report: Duration = milliseconds(Duration::from_secs(60)), "stall_report",
            "milliseconds after which the log tells of operations that wait for a peer, 0 for never; if \
             set, also of receives that name one (default: 60000)";
        /// No progress thread, even if automatic progress was requested.
        disable_auto_progress: bool = flag(false), "disable_auto_progress",
            "start no progress thread (default: no)";
        /// Whether a query without hints also returns the entries that are otherwise offered only on request.
        offer_all: bool = flag(false), "offer_all",
            "fi_getinfo without hints shows entries with all that is there on request, too (default: no)";
    }
}

impl Params {
    /// Returns the settings of the environment, within their bounds.
    pub fn read() -> Params {
        let mut params = Params::given();
        params.tx_size = params.tx_size.clamp(1, MAX_QUEUE);
        params.rx_size = params.rx_size.clamp(1, MAX_QUEUE);
        params.ring_size = params.ring_size.map(ring_size);
        params
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
            params.conn_timeout = base::params::NO_LIMIT;
        });
        assert_eq!(ring_size(0), memory::page_size());
        assert_eq!(ring_size(65535), 65536);
        assert_eq!(ring_size(65536), 65536);
        assert_eq!(ring_size(65537), 131_072);
        assert_eq!(ring_size(MAX_RING - 1), MAX_RING);
        assert_eq!(ring_size(usize::MAX), MAX_RING);
    }
}
