#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""roundtrip.py LIBRARY: two endpoints talk over tcp, opened and driven by Python's ctypes alone.

No C compiler and no header takes part: every function, also those that are inline in C, is a symbol of the library.
"""
import ctypes
import sys
import time
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_size_t, c_ssize_t, c_uint32, c_uint64, c_void_p

LIMIT = 20.0  # seconds until a completion is given up

FI_MSG, FI_TAGGED, FI_RECV, FI_SEND, FI_TRANSMIT = 1 << 1, 1 << 3, 1 << 10, 1 << 11, 1 << 11
FI_SOURCE, FI_REMOTE_CQ_DATA = 1 << 57, 1 << 17
FI_EP_RDM, FI_AV_TABLE, FI_CQ_FORMAT_TAGGED = 3, 2, 4
FI_EAGAIN, FI_EINVAL, FI_EBUSY, FI_EAVAIL, FI_ECANCELED = 11, 22, 16, 259, 125
FI_ADDR_UNSPEC = 2**64 - 1
FI_TYPE_EP_TYPE = 1
VERSION = 2 << 16 | 6


class EpAttr(Structure):
    _fields_ = [("type", c_int), ("protocol", c_uint32), ("protocol_version", c_uint32), ("max_msg_size", c_size_t)]


class FabricAttr(Structure):
    _fields_ = [("fabric", c_void_p), ("name", c_char_p), ("prov_name", c_void_p), ("prov_version", c_uint32),
                ("api_version", c_uint32)]


class DomainAttr(Structure):
    _fields_ = [("domain", c_void_p), ("name", c_char_p), ("threading", c_int), ("control_progress", c_int),
                ("progress", c_int), ("resource_mgmt", c_int), ("av_type", c_int), ("mr_mode", c_int)]


class Info(Structure):
    _fields_ = [("next", c_void_p), ("caps", c_uint64), ("mode", c_uint64), ("addr_format", c_uint32),
                ("src_addrlen", c_size_t), ("dest_addrlen", c_size_t), ("src_addr", c_void_p), ("dest_addr", c_void_p),
                ("handle", c_void_p), ("tx_attr", c_void_p), ("rx_attr", c_void_p), ("ep_attr", POINTER(EpAttr)),
                ("domain_attr", POINTER(DomainAttr)), ("fabric_attr", POINTER(FabricAttr)), ("nic", c_void_p)]


class CqAttr(Structure):
    _fields_ = [("size", c_size_t), ("flags", c_uint64), ("format", c_int), ("wait_obj", c_int),
                ("signaling_vector", c_int), ("wait_cond", c_int), ("wait_set", c_void_p)]


class AvAttr(Structure):
    _fields_ = [("type", c_int), ("rx_ctx_bits", c_int), ("count", c_size_t), ("ep_per_node", c_size_t),
                ("name", c_char_p), ("map_addr", c_void_p), ("flags", c_uint64)]


class TaggedEntry(Structure):
    _fields_ = [("op_context", c_void_p), ("flags", c_uint64), ("len", c_size_t), ("buf", c_void_p),
                ("data", c_uint64), ("tag", c_uint64)]


class ErrEntry(Structure):
    _fields_ = TaggedEntry._fields_ + [("olen", c_size_t), ("err", c_int), ("prov_errno", c_int),
                                       ("err_data", c_void_p), ("err_data_size", c_size_t), ("src_addr", c_uint64)]


assert (ctypes.sizeof(Info), ctypes.sizeof(ErrEntry), ctypes.sizeof(CqAttr)) == (120, 88, 40)

lib = ctypes.CDLL(sys.argv[1])
libc = ctypes.CDLL(None)
libc.strdup.restype = c_void_p
P = c_void_p
for name, result, *arguments in [
    ("fi_version", c_uint32),
    ("fi_strerror", c_char_p, c_int),
    ("fi_tostr", c_char_p, P, c_int),
    ("fi_allocinfo", POINTER(Info)),
    ("fi_freeinfo", None, POINTER(Info)),
    ("fi_getinfo", c_int, c_uint32, c_char_p, c_char_p, c_uint64, POINTER(Info), P),
    ("fi_fabric", c_int, P, P, P),
    ("fi_domain", c_int, P, P, P, P),
    ("fi_endpoint", c_int, P, P, P, P),
    ("fi_cq_open", c_int, P, P, P, P),
    ("fi_av_open", c_int, P, P, P, P),
    ("fi_ep_bind", c_int, P, P, c_uint64),
    ("fi_enable", c_int, P),
    ("fi_close", c_int, P),
    ("fi_getname", c_int, P, P, P),
    ("fi_av_insert", c_int, P, P, c_size_t, P, c_uint64, P),
    ("fi_av_straddr", c_char_p, P, P, P, P),
    ("fi_recv", c_ssize_t, P, P, c_size_t, P, c_uint64, P),
    ("fi_send", c_ssize_t, P, P, c_size_t, P, c_uint64, P),
    ("fi_senddata", c_ssize_t, P, P, c_size_t, P, c_uint64, c_uint64, P),
    ("fi_trecv", c_ssize_t, P, P, c_size_t, P, c_uint64, c_uint64, c_uint64, P),
    ("fi_tsend", c_ssize_t, P, P, c_size_t, P, c_uint64, c_uint64, P),
    ("fi_cancel", c_ssize_t, P, P),
    ("fi_cq_read", c_ssize_t, P, P, c_size_t),
    ("fi_cq_readerr", c_ssize_t, P, P, c_uint64),
]:
    function = getattr(lib, name)
    function.restype, function.argtypes = result, arguments


def must(what, result):
    if result < 0:
        sys.exit(f"{what}: {result} ({lib.fi_strerror(-result).decode()})")
    return result


def opened(what, function, *arguments):
    """Calls an open function whose last but one argument receives the object."""
    handle = c_void_p()
    must(what, function(*arguments, byref(handle), None))
    return handle


class Side:
    """An endpoint with its queue and addresses."""

    def __init__(self, domain, info):
        self.ep = opened("fi_endpoint", lib.fi_endpoint, domain, info)
        self.cq = opened("fi_cq_open", lib.fi_cq_open, domain, byref(CqAttr(format=FI_CQ_FORMAT_TAGGED)))
        self.av = opened("fi_av_open", lib.fi_av_open, domain, byref(AvAttr(type=FI_AV_TABLE)))
        must("fi_ep_bind", lib.fi_ep_bind(self.ep, self.cq, FI_TRANSMIT | FI_RECV))
        must("fi_ep_bind", lib.fi_ep_bind(self.ep, self.av, 0))
        must("fi_enable", lib.fi_enable(self.ep))

    def name(self):
        length = c_size_t(0)
        # fi_cm(3): too short is answered with the length that is needed.
        assert lib.fi_getname(self.ep, None, byref(length)) < 0 and length.value > 0
        address = ctypes.create_string_buffer(length.value)
        must("fi_getname", lib.fi_getname(self.ep, address, byref(length)))
        return address

    def meet(self, other):
        address, number = other.name(), c_uint64(FI_ADDR_UNSPEC)
        if must("fi_av_insert", lib.fi_av_insert(self.av, address, 1, byref(number), 0, None)) != 1:
            sys.exit("fi_av_insert did not insert the address")
        text, size = ctypes.create_string_buffer(128), c_size_t(128)
        assert b"127.0.0.1" in lib.fi_av_straddr(self.av, address, text, byref(size))
        self.peer = number.value

    def close(self):
        for what in (self.ep, self.cq, self.av):
            must("fi_close", lib.fi_close(what))


completions = {}


def progress(sides):
    """Reads each queue once; what comes is kept under (number of the side, context)."""
    for number, side in enumerate(sides):
        entry = TaggedEntry()
        read = lib.fi_cq_read(side.cq, byref(entry), 1)
        if read == -FI_EAVAIL:
            entry = ErrEntry()
            read = must("fi_cq_readerr", lib.fi_cq_readerr(side.cq, byref(entry), 0))
        if read == 1:
            completions[number, entry.op_context] = entry
        elif read != -FI_EAGAIN:
            must("fi_cq_read", read)


def post(sides, what, function, *arguments):
    """Posts an operation; -FI_EAGAIN asks for progress first, such as making the connection."""
    deadline = time.monotonic() + LIMIT
    while (result := function(*arguments)) == -FI_EAGAIN and time.monotonic() < deadline:
        progress(sides)
    must(what, result)


def drive(sides, wanted):
    """Reads both queues until each completion in `wanted`, a list of (side, context), has come; returns them."""
    deadline = time.monotonic() + LIMIT
    while len(completions) < len(wanted):
        if time.monotonic() > deadline:
            sys.exit(f"no completion within {LIMIT} s; got {sorted(completions)}, want {wanted}")
        progress(sides)
    got = dict(completions)
    completions.clear()
    if sorted(got) != sorted(wanted):
        sys.exit(f"completions {sorted(got)}, want {wanted}")
    return got


assert lib.fi_version() >= VERSION
hints = lib.fi_allocinfo()
hints.contents.caps = FI_MSG | FI_TAGGED
hints.contents.ep_attr.contents.type = FI_EP_RDM
hints.contents.fabric_attr.contents.prov_name = libc.strdup(b"tcp")
info = POINTER(Info)()
must("fi_getinfo", lib.fi_getinfo(VERSION, b"127.0.0.1", None, FI_SOURCE, hints, byref(info)))
lib.fi_freeinfo(hints)
assert ctypes.string_at(info.contents.fabric_attr.contents.prov_name) == b"tcp"
assert lib.fi_tostr(byref(c_int(info.contents.ep_attr.contents.type)), FI_TYPE_EP_TYPE) == b"FI_EP_RDM"

fabric = opened("fi_fabric", lib.fi_fabric, info.contents.fabric_attr)
domain = opened("fi_domain", lib.fi_domain, fabric, info)
a, b = sides = [Side(domain, info), Side(domain, info)]
a.meet(b)
b.meet(a)

# Small and large messages, both directions, untagged.
for size in (0, 1, 100, 70000, 3 << 20):
    for sender, receiver, here, there in ((a, b, 0, 1), (b, a, 1, 0)):
        text = bytes((7 * i + size) % 251 for i in range(size))
        outgoing, incoming = ctypes.create_string_buffer(text, max(size, 1)), ctypes.create_string_buffer(max(size, 1))
        must("fi_recv", lib.fi_recv(receiver.ep, incoming, size, None, FI_ADDR_UNSPEC, 0x11))
        post(sides, "fi_senddata", lib.fi_senddata, sender.ep, outgoing, size, None, 0xC0FFEE, sender.peer, 0x22)
        done = drive(sides, [(there, 0x11), (here, 0x22)])
        entry = done[there, 0x11]
        assert entry.len == size and entry.data == 0xC0FFEE and entry.flags & FI_REMOTE_CQ_DATA and entry.flags & FI_RECV
        assert incoming.raw[:size] == text, f"{size} bytes arrived changed"

# Tags: the second receive is the one that matches first.
buffers = [ctypes.create_string_buffer(16) for _ in range(2)]
must("fi_trecv", lib.fi_trecv(b.ep, buffers[0], 16, None, FI_ADDR_UNSPEC, 5, 0, 0x31))
must("fi_trecv", lib.fi_trecv(b.ep, buffers[1], 16, None, FI_ADDR_UNSPEC, 0x600, 0xFF, 0x32))
six = ctypes.create_string_buffer(b"six")
post(sides, "fi_tsend", lib.fi_tsend, a.ep, six, 4, None, a.peer, 0x6AB, 0x33)
done = drive(sides, [(1, 0x32), (0, 0x33)])
assert done[1, 0x32].tag == 0x6AB and buffers[1].value == b"six" and buffers[0].value == b""

# The first one is still posted: cancel it and read its error.
must("fi_cancel", lib.fi_cancel(b.ep, 0x31))
done = drive(sides, [(1, 0x31)])
assert isinstance(done[1, 0x31], ErrEntry) and done[1, 0x31].err == FI_ECANCELED

# What C answers by crashing, the symbols answer by a number.
assert lib.fi_close(None) == -FI_EINVAL and lib.fi_send(None, None, 0, None, 0, None) == -FI_EINVAL

assert lib.fi_close(domain) == -FI_EBUSY, "a domain with open endpoints was closed"
for side in sides:
    side.close()
must("fi_close", lib.fi_close(domain))
must("fi_close", lib.fi_close(fabric))
lib.fi_freeinfo(info)
print("ctypes: fabric, domain, two endpoints over tcp; 10 messages, a tagged one, a canceled one")
