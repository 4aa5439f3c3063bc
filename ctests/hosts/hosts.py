# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Several hosts on one machine: network namespaces with an interface each on one bridge, or one behind a slow forwarder.

Everything is made in namespaces of this process's own, into which `enter_own_world` restarts it, so that nothing of it is
left when the process ends, however it ends. Needs iproute2, and for loss nftables; root, or user namespaces.
"""
import fcntl
import heapq
import os
import select
import shutil
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

NETWORK = "10.77.0"
SECOND = "10.78.0"
MARK = "IRONFABRIC_HOSTS_WORLD"
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000


class NotPermitted(Exception):
    """Why there can be no hosts here."""


def enter_own_world():
    """Restarts this program as the first process of its own network, mount and process namespaces."""
    if os.environ.get(MARK):
        return
    for tool in ("unshare", "ip"):
        if not shutil.which(tool):
            raise NotPermitted(f"{tool} is not here (Debian: util-linux, iproute2)")
    command = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if os.geteuid() != 0:
        command[1:1] = ["--user", "--map-root-user"]
    probe = subprocess.run([*command, "true"], capture_output=True, text=True)
    if probe.returncode:
        raise NotPermitted(f"no namespaces: {probe.stderr.strip()}")
    os.environ[MARK] = "1"
    os.execvp(command[0], [*command, sys.executable, *sys.argv])


def tool(*command, check=True):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if check and done.returncode:
        raise NotPermitted(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return done


def prepare():
    """The names of namespaces are files: of this world alone."""
    tool("mount", "--make-rprivate", "/")
    os.makedirs("/run/netns", exist_ok=True)
    tool("mount", "-t", "tmpfs", "none", "/run/netns")
    tool("ip", "link", "set", "lo", "up")


class Hosts:
    """`count` hosts, called h0, h1, ..., with the addresses 10.77.0.1, 10.77.0.2, ..."""

    launcher = Path(__file__).resolve().parent / "launcher.sh"

    def __init__(self, count, delay=0.0):
        self.names = [f"h{n}" for n in range(count)]
        self.addresses = [f"{NETWORK}.{n + 1}" for n in range(count)]
        self.forwarder = Forwarder(delay) if delay else None
        if not self.forwarder:
            tool("ip", "link", "add", "bridge0", "type", "bridge")
            tool("ip", "link", "set", "bridge0", "up")
        for n, name in enumerate(self.names):
            tool("ip", "netns", "add", name)
            self.ip(n, "link", "set", "lo", "up")
            if self.forwarder:
                self.forwarder.add(name, self.addresses[n])
            else:
                tool("ip", "link", "add", f"port{n}", "type", "veth", "peer", "name", "eth0", "netns", name)
                tool("ip", "link", "set", f"port{n}", "master", "bridge0", "up")
            self.ip(n, "addr", "add", f"{self.addresses[n]}/24", "dev", "eth0")
            self.ip(n, "link", "set", "eth0", "up")
        if self.forwarder:
            self.forwarder.start()

    def ip(self, n, *arguments):
        return tool("ip", "-n", self.names[n], *arguments)

    def add_network(self):
        """A second interface for each host, eth1, on a bridge of its own; each interface carries 1 Gbit/s."""
        tool("ip", "link", "add", "bridge1", "type", "bridge")
        tool("ip", "link", "set", "bridge1", "up")
        for n, name in enumerate(self.names):
            tool("ip", "link", "add", f"second{n}", "type", "veth", "peer", "name", "eth1", "netns", name)
            tool("ip", "link", "set", f"second{n}", "master", "bridge1", "up")
            self.ip(n, "addr", "add", f"{SECOND}.{n + 1}/24", "dev", "eth1")
            self.ip(n, "link", "set", "eth1", "up")
            for interface in ("eth0", "eth1"):
                tool(*self.inside(n), "tc", "qdisc", "add", "dev", interface, "root", "tbf", "rate", "1gbit", "burst", "128kb",
                     "latency", "20ms")

    def inside(self, n):
        """What a command begins with to run on host n."""
        return ["ip", "netns", "exec", self.names[n]]

    def lose(self, percent):
        """Each host drops so many of the packets that it receives."""
        if not shutil.which("nft"):
            raise NotPermitted("nft is not here (Debian: nftables)")
        for n in range(len(self.names)):
            rules = (f"table inet loss {{ chain input {{ type filter hook input priority 0; iif != \"lo\" "
                     f"meta l4proto {{ tcp, udp }} numgen random mod 100 < {percent} drop; }}; }}")
            tool(*self.inside(n), "nft", rules)

    def cut_off(self, n):
        """Pulls the cable of host n: nothing tells the others."""
        tool("ip", "link", "set", f"port{n}", "nomaster")

    def clutter(self, n):
        """Twenty more interfaces: those of containers and virtual machines, with the same addresses on every host; links
        that are down; ones that have nothing but a link-local address; a tunnel."""
        for k in range(6):
            # A bridge with a port that is up is as fast as any, and the last one configured.
            self.ip(n, "link", "add", f"docker{k}", "type", "bridge")
            self.ip(n, "link", "add", f"box{k}", "type", "veth", "peer", "name", f"in{k}")
            self.ip(n, "link", "set", f"box{k}", "master", f"docker{k}", "up")
            self.ip(n, "link", "set", f"in{k}", "up")
            self.ip(n, "addr", "add", f"172.{17 + k}.0.1/16", "dev", f"docker{k}")
            self.ip(n, "link", "set", f"docker{k}", "up")
        for k in range(4):
            self.ip(n, "link", "add", f"down{k}", "type", "veth", "peer", "name", f"off{k}")
            self.ip(n, "link", "set", f"down{k}", "up")
            self.ip(n, "addr", "add", f"192.168.{k}.1/24", "dev", f"down{k}")
        for k in range(3):
            self.ip(n, "link", "add", f"virbr{k}", "type", "bridge")
            self.ip(n, "addr", "add", f"192.168.{122 + k}.1/24", "dev", f"virbr{k}")
            self.ip(n, "link", "set", f"virbr{k}", "up")
        self.ip(n, "tuntap", "add", "vpn0", "mode", "tun")
        self.ip(n, "addr", "add", "10.99.0.1/32", "dev", "vpn0")
        self.ip(n, "link", "set", "vpn0", "up")


class Forwarder(threading.Thread):
    """Carries packets between the hosts, each after `delay` seconds. The hosts have TUN devices: their other ends are here."""

    def __init__(self, delay):
        super().__init__(daemon=True)
        self.delay, self.fds = delay, {}

    def add(self, name, address):
        # The device is made in the host's network; only the descriptor stays here.
        here = os.open("/proc/self/ns/net", os.O_RDONLY)
        there = os.open(f"/run/netns/{name}", os.O_RDONLY)
        try:
            os.setns(there) if hasattr(os, "setns") else setns(there)
            fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", b"eth0", IFF_TUN | IFF_NO_PI))
        except OSError as error:
            raise NotPermitted(f"no TUN device: {error}") from error
        finally:
            os.setns(here) if hasattr(os, "setns") else setns(here)
            os.close(here)
            os.close(there)
        self.fds[bytes(map(int, address.split(".")))] = fd

    def run(self):
        poll, waiting, order = select.poll(), [], 0
        for fd in self.fds.values():
            poll.register(fd, select.POLLIN)
        while True:
            now = time.monotonic()
            timeout = (waiting[0][0] - now) * 1000 if waiting else None
            for fd, _ in poll.poll(None if timeout is None else max(0, timeout)):
                try:
                    while True:
                        packet = os.read(fd, 65536)
                        target = self.fds.get(packet[16:20]) if packet[0] >> 4 == 4 else None
                        if target is not None:
                            order += 1
                            heapq.heappush(waiting, (time.monotonic() + self.delay, order, target, packet))
                except BlockingIOError:
                    pass
            now = time.monotonic()
            while waiting and waiting[0][0] <= now:
                _, _, target, packet = heapq.heappop(waiting)
                try:
                    os.write(target, packet)
                except OSError:
                    pass  # a full queue loses packets, as real ones do


def setns(fd):
    """os.setns is of Python 3.12."""
    import ctypes
    if ctypes.CDLL(None, use_errno=True).setns(fd, 0):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
