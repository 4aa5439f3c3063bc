// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What a job of many ranks needs of each host. The formulas are here only: `--doctor --ranks` compares them with the
//! host, and a test compares them with the table of docs/scale.md.

/// A job in which each rank exchanges messages with all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    pub ranks: u64,
    /// Ranks on each host.
    pub per_host: u64,
}

/// Needs of one rank, unless the name is that of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Descriptors over tcp or ofi_rxm. shm needs those for peers on the host, ofi_rxd needs `OWN_FILES`.
    pub files: u64,
    pub host_files: u64,
    /// Connections that may wait at the listener.
    pub backlog: u64,
    /// Receive buffer of ofi_rxd, in bytes.
    pub receive_buffer: u64,
    pub host_ports: u64,
    pub mappings: u64,
    pub host_threads: u64,
    /// Memory for idle peers, in bytes. That of shared memory is in addition to tcp.
    pub host_tcp: u64,
    pub host_rxm: u64,
    pub host_rxd: u64,
    pub host_shared: u64,
}

impl Job {
    /// Reads `RANKS` or `RANKS:PER_HOST`. Without the second number all ranks but one are on other hosts.
    pub fn read(text: &str) -> Option<Job> {
        let (ranks, per_host) = text.split_once(':').unwrap_or((text, "1"));
        let (ranks, per_host) = (ranks.parse().ok()?, per_host.parse().ok()?);
        let is_valid = (1..=MOST).contains(&ranks) && (1..=ranks).contains(&per_host);
        is_valid.then_some(Job { ranks, per_host })
    }

    pub fn needs(&self) -> Needs {
        let Job { ranks, per_host } = *self;
        let (near, far) = (per_host - 1, ranks - per_host);
        let files = OWN_FILES + far + FILES_OF_A_NEIGHBOUR * near;
        let peers = per_host * (ranks - 1);
        Needs {
            files,
            host_files: per_host * files,
            backlog: (ranks - 1).min(BACKLOG),
            receive_buffer: ((ranks - 1) * PACKET).min(RECEIVE_BUFFER),
            host_ports: PORTS * per_host,
            mappings: OWN_MAPPINGS + MAPPINGS_OF_A_NEIGHBOUR * near,
            host_threads: THREADS * per_host,
            host_tcp: peers * TCP_PEER,
            host_rxm: peers * RXM_PEER,
            host_rxd: peers * RXD_PEER,
            host_shared: per_host * near / 2 * SHARED_PAIR,
        }
    }
}

/// Most ranks of a job: an endpoint of ofi_rxd has at most as many peers.
const MOST: u64 = 1 << 20;
/// Descriptors of an MPICH rank with one endpoint and no peer, rounded up: 20 were counted.
pub const OWN_FILES: u64 = 32;
/// Descriptors per peer on this host: a connection and the shared memory. A peer on another host only has the
/// connection.
pub const FILES_OF_A_NEIGHBOUR: u64 = 2;
/// Queue that the library requests for its listeners.
const BACKLOG: u64 = 4096;
/// Receive buffer that the library requests for a socket of datagrams. The kernel doubles the number, and counts 2,304
/// bytes for a datagram of 1,472, so this is room for one datagram of a peer.
const RECEIVE_BUFFER: u64 = 4 << 20;
const PACKET: u64 = 1152;
/// Ports of a rank: its listener, that for peers of this host, and one for connections that it opens. Connections to
/// different peers share a port.
const PORTS: u64 = 3;
/// Mappings of a process with an MPI and without peers, rounded up.
const OWN_MAPPINGS: u64 = 1024;
/// Mappings per peer on this host: both directions of its rings.
const MAPPINGS_OF_A_NEIGHBOUR: u64 = 2;
/// Threads of a rank: its own, the library's progress thread, and one of the MPI.
const THREADS: u64 = 3;
/// Bytes of memory per idle peer, measured: docs/scale.md.
const TCP_PEER: u64 = 1_434;
const RXM_PEER: u64 = 4_813;
const RXD_PEER: u64 = 1_741;
/// Bytes of shared memory that two ranks of a host have after they connected.
const SHARED_PAIR: u64 = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_a_number_of_ranks_and_those_on_a_host() {
        let job = |ranks, per_host| Some(Job { ranks, per_host });
        assert_eq!(Job::read("1000"), job(1000, 1));
        assert_eq!(Job::read("1000:64"), job(1000, 64));
        for wrong in [
            "", "0", "-1", "x", "10:", "10:0", "10:11", "10:2:3", "1048577",
        ] {
            assert_eq!(Job::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_job_of_one_rank_needs_little() {
        let job = Job {
            ranks: 1,
            per_host: 1,
        };
        let needs = job.needs();
        assert_eq!((needs.files, needs.backlog, needs.host_rxm), (32, 0, 0));
    }

    /// A row of the table in docs/scale.md.
    fn row(ranks: u64, per_host: u64) -> String {
        let needs = Job { ranks, per_host }.needs();
        let kib = |bytes: u64| format!("{} KiB", bytes.div_ceil(1 << 10));
        let mib = |bytes: u64| format!("{} MiB", bytes.div_ceil(1 << 20));
        format!(
            "| {ranks}:{per_host} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            needs.files,
            needs.host_files,
            needs.backlog,
            kib(needs.receive_buffer),
            needs.host_ports,
            needs.mappings,
            needs.host_threads,
            mib(needs.host_tcp),
            mib(needs.host_shared),
            mib(needs.host_rxm),
            mib(needs.host_rxd),
        )
    }

    #[test]
    fn the_page_has_the_numbers_of_the_formulas() {
        let page = include_str!("../../../../docs/scale.md");
        for (ranks, per_host) in [
            (100, 50),
            (1_000, 1),
            (1_000, 64),
            (10_000, 64),
            (10_000, 256),
            (100_000, 128),
        ] {
            let row = row(ranks, per_host);
            assert!(page.contains(&row), "docs/scale.md lacks\n{row}");
        }
    }
}
