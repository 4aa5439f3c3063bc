# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""forked.py ROUNDTRIP LIBRARY: does what examples/python/roundtrip.py does first, forks, and goes on in the child: on what
was there, and then on what it opens. Says what it has done, a line each, and waits for a line before each step."""
import os
import sys

path = sys.argv.pop(1)
exec(open(path).read().split("# Tags:")[0])


def say(*words):
    os.write(1, (" ".join(map(str, words)) + "\n").encode())
    os.read(0, 1)


def exchange(sender, receiver, sides):
    incoming, outgoing = ctypes.create_string_buffer(64), ctypes.create_string_buffer(64)
    must("fi_recv", lib.fi_recv(receiver.ep, incoming, 64, None, FI_ADDR_UNSPEC, 0x11))
    post(sides, "fi_send", lib.fi_send, sender.ep, outgoing, 64, None, sender.peer, 0x22)
    drive(sides, [(1, 0x11), (0, 0x22)])


say("parent", os.getpid())
if child := os.fork():
    os.waitpid(child, 0)
    os._exit(0)
for _ in range(7):
    # A thread of the parent reads the sockets, too, so this process cannot predict its received messages.
    message = ctypes.create_string_buffer(64)
    post(sides, "fi_send", lib.fi_send, a.ep, message, 64, None, a.peer, 0x22)
    drive(sides, [(0, 0x22)])
say("child", os.getpid())
other_domain = opened("fi_domain", lib.fi_domain, fabric, info)
c, d = own = [Side(other_domain, info), Side(other_domain, info)]
c.meet(d)
d.meet(c)
for _ in range(3):
    exchange(c, d, own)
say("own", os.getpid())
os._exit(0)
