# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What the bench measures: one Table per question, and the goals that the project has set itself."""
from dataclasses import dataclass

ALL_SIZES = [0] + [1 << n for n in range(27)]
QUICK_SIZES = [0, 8, 64, 256, 1024, 4096, 16384, 65536, 262144, 1 << 20, 4 << 20, 16 << 20]
SMALL_SIZES = [0, 1, 8, 32, 64]
RATE = "per second"


@dataclass
class Table:
    """`work` and `form` are the arguments of benches/bench; lines of its output that belong here carry `line` as form."""
    name: str
    title: str
    work: str
    form: str
    x: str
    unit: str
    quick: list
    full: list
    # Arguments of benches/bench for the comparison on our library, such as the same traffic on a bare socket; then the
    # provider, if it is another one.
    limit: tuple = ()
    # Lines of another form in the same run belong to another table, whose name this is.
    line: str = ""
    limit_name: str = "bare socket"
    # Many processes and MPI's own operation instead of a pair: run.Group. The limit is MPI on our library.
    group: bool = False
    other_name: str = "other"
    provider: str = "tcp"
    # Requests FI_THREAD_SAFE and automatic progress; the limit does not.
    shared: bool = False
    # The other library lacks the feature, or its feature is not comparable.
    ours_only: bool = False

    def xs(self, full):
        return self.full if full else self.quick

    @property
    def lines(self):
        return self.line or self.form

    @property
    def more_is_better(self):
        return self.unit == RATE


DEPTHS = [1, 10, 100, 1000, 10000]
ENDPOINTS = [1, 16, 64]
TALKING = [1, 64, 1024]
PEERS = [1, 100, 1000]
THREADS = [1, 2, 4, 8]
RANKS = [2, 4, 8]
SAFE = [8, 256, 4096, 65536]
# Numbers of messages that a program posts before it computes.
IN_A_ROW = [1, 2, 5, 50]
# Numbers of repetitions of rare operations.
TIMES = [100]
DATAGRAMS = [0, 8, 64, 512, 1400]
SOCKET = ("socket", "latency")
SOCKET_STREAM = ("socket", "stream")
# Providers by their names in tables, files and command lines, with their names for fi_getinfo.
PROVIDERS = {"tcp": "tcp", "shm": "shm", "sockets": "sockets", "udp": "udp", "rxm": "tcp;ofi_rxm", "rxd": "udp;ofi_rxd"}
# Providers whose peers share memory, so that the distance of the processors matters.
MEMORY = ["shm"]


def shm(name, *arguments, **options):
    return Table(f"shm-{name}", *arguments, **options, provider="shm")


def udp(name, *arguments, **options):
    return Table(f"udp-{name}", *arguments, **options, provider="udp")


def beside_tcp(provider):
    """What a provider that does what tcp does is to be compared with: the other library, and our tcp over sockets."""
    def table(name, title, work, form, *arguments, **options):
        return Table(f"{provider}-{name}", title, work, form, *arguments, provider=provider, limit=(work, form, "tcp"),
                     limit_name="our tcp", **options)

    return [
        table("latency-tagged", "Half round trip, fi_tsend", "latency", "tagged", "bytes", "us", QUICK_SIZES, ALL_SIZES),
        table("latency-inject", "Half round trip, fi_tinject", "latency", "inject", "bytes", "us", [0, 8, 64], SMALL_SIZES),
        table("stream-tagged", "Stream of fi_tsend, 256 under way", "stream", "tagged", "bytes", RATE, QUICK_SIZES, ALL_SIZES),
        table("stream-write", "Stream of fi_write, 256 under way", "stream", "write", "bytes", RATE, QUICK_SIZES, ALL_SIZES),
        table("stream-read", "Stream of fi_read, 256 under way", "stream", "read", "bytes", RATE, QUICK_SIZES, ALL_SIZES),
        table("atomic-add", "Stream of fi_atomic, FI_SUM of FI_UINT64, 256 under way", "atomic", "add", "bytes", RATE,
              [8, 64, 1024], [8, 16, 64, 256, 1024]),
    ]


def threads(provider):
    """One process with several threads to another."""
    def table(form, who):
        name = f"threads-{form}" if provider == "tcp" else f"{provider}-threads-{form}"
        return Table(name, f"Streams of 8-byte fi_tsend by threads, {who}", "threads", form, "threads", RATE, THREADS, THREADS,
                     provider=provider)

    return [table("domains", "a domain each"), table("endpoints", "an endpoint each on one domain"),
            table("shared", "all on one endpoint")]


def safe(provider):
    """What FI_THREAD_SAFE and automatic progress cost, which is what MPI_THREAD_MULTIPLE and Open MPI ask for."""
    def table(name, title, work, unit):
        name = f"safe-{name}" if provider == "tcp" else f"{provider}-safe-{name}"
        return Table(name, f"{title}, FI_THREAD_SAFE and automatic progress", work, "tagged", "bytes", unit, SAFE, SAFE,
                     (work, "tagged"), provider=provider, shared=True, limit_name="FI_THREAD_DOMAIN")

    return [table("latency", "Half round trip, fi_tsend", "latency", "us"),
            table("stream", "Stream of fi_tsend, 256 under way", "stream", RATE)]


TABLES = [
    Table("latency-tagged", "Half round trip, fi_tsend", "latency", "tagged", "bytes", "us", QUICK_SIZES, ALL_SIZES, SOCKET),
    Table("latency-inject", "Half round trip, fi_tinject", "latency", "inject", "bytes", "us", [0, 8, 64], SMALL_SIZES, SOCKET),
    Table("latency-msg", "Half round trip, fi_send", "latency", "msg", "bytes", "us", QUICK_SIZES, ALL_SIZES, SOCKET),
    Table("latency-write", "Half round trip, fi_writedata", "latency", "write", "bytes", "us", QUICK_SIZES, ALL_SIZES, SOCKET),
    Table("stream-tagged", "Stream of fi_tsend, 256 under way", "stream", "tagged", "bytes", RATE, QUICK_SIZES, ALL_SIZES,
          SOCKET_STREAM),
    Table("stream-write", "Stream of fi_write, 256 under way", "stream", "write", "bytes", RATE, QUICK_SIZES, ALL_SIZES,
          SOCKET_STREAM),
    Table("stream-read", "Stream of fi_read, 256 under way", "stream", "read", "bytes", RATE, QUICK_SIZES, ALL_SIZES),
    Table("stream-write-both", "Streams of fi_write both ways, 256 under way, over 64 MiB", "stream", "write-both", "bytes",
          RATE, QUICK_SIZES, ALL_SIZES),
    Table("stream-read-both", "Streams of fi_read both ways, 256 under way, over 64 MiB", "stream", "read-both", "bytes",
          RATE, QUICK_SIZES, ALL_SIZES),
    Table("atomic-fetch", "Half round trip of fi_fetch_atomic, FI_SUM of FI_UINT64", "atomic", "fetch", "bytes", "us",
          [8, 64, 1024], [8, 16, 64, 256, 1024], ("latency", "tagged"), limit_name="fi_tsend"),
    Table("atomic-add", "Stream of fi_atomic, FI_SUM of FI_UINT64, 256 under way", "atomic", "add", "bytes", RATE,
          [8, 64, 1024], [8, 16, 64, 256, 1024]),
    Table("window", "Stream of 8-byte fi_tsend, by messages under way", "window", "tagged", "under way", RATE,
          [1, 16, 64, 256, 1024], [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]),
    Table("posted", "Posted tags met in reverse order, a message", "posted", "reverse", "posted", "us",
          DEPTHS, DEPTHS + [100000]),
    Table("unexpected", "Unexpected messages fetched in reverse order, a message", "unexpected", "reverse", "waiting", "us",
          DEPTHS, DEPTHS + [100000]),
    Table("endpoints-one", "Half round trip, one of many endpoints on a queue", "endpoints", "one", "endpoints", "us",
          ENDPOINTS, ENDPOINTS),
    Table("endpoints-all", "Half round trip, many endpoints on a queue in turn", "endpoints", "all", "endpoints", "us",
          ENDPOINTS, ENDPOINTS),
    Table("endpoints-stream", "Stream of 8-byte fi_tsend to many endpoints in turn, a message", "endpoints", "stream",
          "endpoints", "us", TALKING, TALKING),
    Table("peers-connect", "All peers connected", "peers", "all", "peers", "s", PEERS, PEERS, line="connect"),
    Table("peers-memory", "Memory of the process for one idle peer", "peers", "all", "peers", "bytes", PEERS[1:], PEERS[1:],
          line="memory"),
    Table("peers-miss", "An empty poll of the queue", "peers", "all", "peers", "ns", PEERS, PEERS, line="miss"),
    Table("compute-tagged", "Post, then compute: the last of so many 8-byte fi_tsend is there", "compute", "tagged",
          "messages", "us", IN_A_ROW, IN_A_ROW),
    Table("compute-inject", "Post, then compute: the last of so many 8-byte fi_tinject is there", "compute", "inject",
          "messages", "us", IN_A_ROW, IN_A_ROW),
    Table("compute-large", "Post, then compute: a rendezvous is there, FI_PROGRESS_AUTO", "compute", "large", "bytes", "us",
          [1 << 20], [1 << 14, 1 << 17, 1 << 20, 1 << 23]),
    Table("compute-cpu", "The same: processor time of the sender's threads of the library", "compute", "large", "bytes", "us",
          [1 << 20], [1 << 17, 1 << 20, 1 << 23], line="cpu", ours_only=True),
    Table("barrier", "fi_barrier, and MPI_Barrier over the same provider", "collective", "barrier", "ranks", "us", RANKS, RANKS,
          group=True, other_name="MPICH", limit_name="MPICH on ours"),
    Table("allreduce", "fi_allreduce of a double, and MPI_Allreduce over the same provider", "collective", "allreduce", "ranks",
          "us", RANKS, RANKS, group=True, other_name="MPICH", limit_name="MPICH on ours"),
    Table("av-together", "Addresses inserted by one call", "av", "together", "addresses", "s", [100000], [1000, 10000, 100000]),
    Table("av-single", "Addresses inserted one by one", "av", "single", "addresses", "s", [100000], [1000, 10000, 100000]),
    Table("av-memory", "Memory of an address that nobody talks to", "av", "memory", "addresses", "bytes", [100000],
          [1000, 10000, 100000]),
    Table("setup-info", "fi_getinfo with a provider's name and capabilities", "setup", "info", "times", "us", TIMES, TIMES),
    Table("setup-domain", "A domain is opened and closed", "setup", "domain", "times", "us", TIMES, TIMES),
    Table("setup-endpoint", "An endpoint is opened, bound, enabled and closed", "setup", "endpoint", "times", "us", TIMES,
          TIMES),
    Table("setup-first", "The first message to a peer, there and back", "setup", "first", "times", "us", TIMES, TIMES,
          ("setup", "connect")),
    *threads("tcp"),
    *safe("tcp"),
    shm("latency-tagged", "Half round trip, fi_tsend", "latency", "tagged", "bytes", "us", QUICK_SIZES, ALL_SIZES),
    shm("latency-msg", "Half round trip, fi_send", "latency", "msg", "bytes", "us", QUICK_SIZES, ALL_SIZES),
    shm("latency-inject", "Half round trip, fi_tinject", "latency", "inject", "bytes", "us", [0, 8, 64], SMALL_SIZES),
    shm("stream-tagged", "Stream of fi_tsend, 256 under way", "stream", "tagged", "bytes", RATE, QUICK_SIZES, ALL_SIZES),
    shm("stream-write", "Stream of fi_write, 256 under way", "stream", "write", "bytes", RATE, QUICK_SIZES, ALL_SIZES),
    shm("stream-read", "Stream of fi_read, 256 under way", "stream", "read", "bytes", RATE, QUICK_SIZES, ALL_SIZES),
    shm("inject-write-both", "Streams of fi_inject_write both ways", "stream", "inject-both", "bytes", RATE, [8, 64], [8, 64]),
    shm("atomic-add", "Stream of fi_atomic, FI_SUM of FI_UINT64, 256 under way", "atomic", "add", "bytes", RATE,
        [8, 64, 1024], [8, 16, 64, 256, 1024]),
    shm("window", "Stream of 8-byte fi_tsend, by messages under way", "window", "tagged", "under way", RATE,
        [1, 16, 64, 256, 1024], [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]),
    shm("posted", "Posted tags met in reverse order, a message", "posted", "reverse", "posted", "us", DEPTHS[:4],
        DEPTHS[:4]),
    shm("unexpected", "Unexpected messages fetched in reverse order, a message", "unexpected", "reverse", "waiting", "us",
        DEPTHS[:4], DEPTHS[:4]),
    # libfabric's shm supports 256 addresses.
    shm("endpoints-stream", "Stream of 8-byte fi_tsend to many endpoints in turn, a message", "endpoints", "stream",
        "endpoints", "us", TALKING, TALKING, ours_only=True),
    shm("atomic-fetch", "Stream of fi_fetch_atomic, FI_SUM of FI_UINT64, 256 under way", "atomic", "fetch-stream", "bytes",
        RATE, [8, 64, 1024], [8, 16, 64, 256, 1024]),
    shm("wakeup", "From a message until fi_cq_sread returns, which slept", "wakeup", "sread", "microseconds before", "us",
        [50, 1000], [20, 50, 200, 1000, 10000], ("wakeup", "eventfd"), limit_name="eventfd", ours_only=True),
    shm("compute-tagged", "Post, then compute: the last of so many 8-byte fi_tsend is there", "compute", "tagged",
        "messages", "us", IN_A_ROW, IN_A_ROW),
    shm("compute-inject", "Post, then compute: the last of so many 8-byte fi_tinject is there", "compute", "inject",
        "messages", "us", IN_A_ROW, IN_A_ROW),
    # libfabric's shm has no automatic progress.
    shm("compute-large", "Post, then compute: a rendezvous is there, FI_PROGRESS_AUTO", "compute", "large", "bytes",
        "us", [1 << 20], [1 << 14, 1 << 17, 1 << 20, 1 << 23], ours_only=True),
    shm("setup-info", "fi_getinfo with a provider's name and capabilities", "setup", "info", "times", "us", TIMES, TIMES),
    shm("setup-domain", "A domain is opened and closed", "setup", "domain", "times", "us", TIMES, TIMES),
    shm("setup-endpoint", "An endpoint is opened, bound, enabled and closed", "setup", "endpoint", "times", "us", TIMES, TIMES),
    shm("setup-first", "The first message to a peer, there and back", "setup", "first", "times", "us", TIMES, TIMES,
        ("setup", "connect")),
    *threads("shm"),
    *safe("shm"),
    shm("senders", "Stream of 8-byte fi_tsend to one endpoint from many in turn, a message", "endpoints", "senders", "senders",
        "us", [1, 16, 64], [1, 2, 4, 8, 16, 32, 64]),
    shm("peers-memory", "Memory of one peer: half of what two share, and what the process has for it", "peers", "all", "peers",
        "bytes", [64, 256], [64, 256], line="memory", ours_only=True),
    shm("peers-miss", "An empty poll of the queue", "peers", "all", "peers", "ns", [1, 64, 256], [1, 64, 256],
        line="miss", ours_only=True),
    # libfabric's shm supports 256 addresses.
    shm("av-memory", "Memory of an address that nobody talks to", "av", "memory", "addresses", "bytes", [100000],
        [1000, 10000, 100000], ours_only=True),
    *beside_tcp("sockets"),
    *beside_tcp("rxm"),
    *beside_tcp("rxd"),
    udp("latency", "Half round trip, fi_send", "datagram", "latency", "bytes", "us", DATAGRAMS, DATAGRAMS,
        ("datagram-socket", "latency")),
    udp("stream", "Stream of fi_send, 64 under way, of what arrives", "datagram", "stream", "bytes", RATE, DATAGRAMS, DATAGRAMS,
        ("datagram-socket", "stream")),
]


# What `make bench QUICK=1` measures.
_NAMES = ["latency-tagged", "stream-tagged", "stream-write", "stream-read"]
HEADLINES = {"tcp": _NAMES, "shm": [f"shm-{name}" for name in _NAMES]}
HEADLINE_SIZES = [8, 256, 1024, 4096, 65536, 1 << 20]


@dataclass
class Goal:
    """`value` of a table at `x`, `sign`, `bound`. The value is the ratio to the other library, or to the limit, or to our own
    value at `base`, or how much is `beyond` the limit, or plain."""
    table: str
    x: int
    value: str
    sign: str
    bound: float
    base: int = 0


GOALS = [
    Goal("latency-tagged", 8, "ratio", "<=", 0.9),
    Goal("latency-tagged", 8, "limit", "<=", 1.03),
    Goal("latency-tagged", 65536, "ratio", "<=", 1.0),
    Goal("stream-tagged", 8, "ratio", ">=", 20),
    Goal("stream-tagged", 4096, "ratio", ">=", 3),
    Goal("stream-tagged", 1 << 20, "ratio", ">=", 1),
    Goal("stream-write", 8, "ratio", ">=", 20),
    Goal("stream-write-both", 8, "ratio", ">=", 20),
    Goal("stream-write-both", 1 << 20, "ratio", ">=", 4),
    Goal("stream-read", 8, "ratio", ">=", 25),
    Goal("stream-read-both", 8, "ratio", ">=", 20),
    Goal("stream-read-both", 1 << 20, "ratio", ">=", 4),
    Goal("atomic-fetch", 8, "limit", "<=", 1.1),
    Goal("atomic-add", 8, "ratio", ">=", 10),
    Goal("setup-info", 100, "plain", "<=", 1000),
    Goal("setup-first", 100, "limit", "<=", 1.2),
    Goal("shm-setup-info", 100, "plain", "<=", 1000),
    Goal("shm-setup-endpoint", 100, "plain", "<=", 200),
    Goal("shm-setup-first", 100, "plain", "<=", 100),
    Goal("barrier", 8, "ratio", "<=", 1),
    Goal("allreduce", 8, "ratio", "<=", 1),
    Goal("posted", 10000, "own", "<=", 2, 1),
    Goal("posted", 10000, "own", "<=", 2, 100),
    Goal("unexpected", 10000, "own", "<=", 2, 1),
    Goal("unexpected", 10000, "own", "<=", 2, 100),
    Goal("endpoints-one", 64, "own", "<=", 1.1, 1),
    Goal("endpoints-all", 64, "own", "<=", 1.05, 1),
    Goal("endpoints-stream", 64, "own", "<=", 1.3, 1),
    Goal("endpoints-stream", 1024, "own", "<=", 2, 1),
    Goal("shm-endpoints-stream", 64, "own", "<=", 1.3, 1),
    Goal("shm-endpoints-stream", 1024, "own", "<=", 2, 1),
    Goal("peers-miss", 1000, "own", "<=", 1.1, 1),
    Goal("peers-connect", 1000, "plain", "<=", 2),
    Goal("peers-memory", 1000, "plain", "<=", 2048),
    Goal("av-together", 100000, "plain", "<=", 0.2),
    Goal("av-single", 100000, "plain", "<=", 0.2),
    Goal("av-memory", 100000, "plain", "<=", 64),
    Goal("threads-domains", 8, "own", ">=", 0.9, 1),
    Goal("threads-endpoints", 8, "own", ">=", 1, 1),
    Goal("threads-endpoints", 8, "ratio", ">=", 2),
    Goal("threads-shared", 8, "ratio", ">=", 2),
    Goal("safe-latency", 8, "limit", "<=", 1.15),
    Goal("safe-stream", 8, "limit", ">=", 1 / 1.15),
    Goal("shm-threads-domains", 8, "own", ">=", 0.9, 1),
    Goal("shm-threads-endpoints", 8, "own", ">=", 1, 1),
    Goal("shm-threads-endpoints", 8, "ratio", ">=", 2),
    Goal("shm-threads-shared", 8, "ratio", ">=", 2),
    Goal("shm-safe-latency", 8, "limit", "<=", 1.15),
    Goal("shm-safe-stream", 8, "limit", ">=", 1 / 1.15),
    Goal("shm-inject-write-both", 8, "ratio", ">=", 1.2),
    Goal("shm-inject-write-both", 64, "ratio", ">=", 1.2),
    Goal("shm-latency-tagged", 8, "ratio", "<=", 0.7),
    Goal("shm-latency-tagged", 256, "ratio", "<=", 0.6),
    Goal("shm-latency-tagged", 4096, "ratio", "<=", 0.6),
    Goal("shm-stream-tagged", 8, "ratio", ">=", 2.5),
    Goal("shm-stream-tagged", 256, "ratio", ">=", 3.5),
    Goal("shm-stream-tagged", 4096, "ratio", ">=", 3),
    Goal("shm-stream-tagged", 65536, "ratio", ">=", 1),
    Goal("shm-stream-tagged", 262144, "ratio", ">=", 1.4),
    Goal("shm-stream-tagged", 1 << 20, "ratio", ">=", 1.5),
    Goal("shm-stream-tagged", 4 << 20, "ratio", ">=", 1.3),
    Goal("shm-stream-write", 8, "ratio", ">=", 3),
    Goal("shm-stream-write", 4096, "ratio", ">=", 3),
    Goal("shm-stream-read", 8, "ratio", ">=", 3),
    Goal("shm-stream-read", 4096, "ratio", ">=", 3),
    Goal("shm-atomic-add", 8, "ratio", ">=", 2),
    Goal("shm-atomic-fetch", 8, "ratio", ">=", 3),
    Goal("shm-wakeup", 50, "beyond", "<=", 5),
    Goal("shm-wakeup", 1000, "beyond", "<=", 5),
    Goal("shm-senders", 64, "own", "<=", 2, 1),
    Goal("shm-peers-memory", 64, "plain", "<=", 65536),
    Goal("shm-av-memory", 100000, "plain", "<=", 64),
    Goal("sockets-latency-tagged", 8, "limit", "<=", 1.05),
    Goal("sockets-stream-tagged", 8, "limit", ">=", 0.95),
    Goal("rxm-latency-tagged", 8, "limit", "<=", 1.1),
    Goal("rxm-latency-tagged", 65536, "ratio", "<=", 0.6),
    Goal("rxm-stream-tagged", 8, "limit", ">=", 0.5),
    Goal("rxm-stream-tagged", 65536, "ratio", ">=", 1.5),
    Goal("rxd-latency-tagged", 65536, "ratio", "<=", 0.4),
    Goal("rxd-stream-tagged", 8, "ratio", ">=", 3),
    Goal("rxd-stream-tagged", 65536, "ratio", ">=", 3),
    Goal("udp-latency", 8, "limit", "<=", 1.05),
    Goal("udp-latency", 1400, "limit", "<=", 1.05),
    Goal("udp-stream", 8, "ratio", ">=", 3),
    Goal("udp-stream", 1400, "ratio", ">=", 2),
]
