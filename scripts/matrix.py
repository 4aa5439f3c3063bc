#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""matrix.py FOLDER [--write | --check]: what the libfabric.so.1 in FOLDER offers, asked of the library itself.

Opens every kind of object of every provider and calls every member of every table of operations, each in a process of
its own, with zeroes and with an empty buffer for arguments: a member that answers -FI_ENOSYS is not served. Capabilities
and attributes are what fi_getinfo says. Prints Markdown; --write puts it into MATRIX.md, --check fails if that differs.
"""
import csv
import ctypes
import os
import re
import signal
import subprocess
import sys
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint32, c_uint64, c_void_p

os.environ["FI_TCP_IFACE"] = os.environ["FI_UDP_IFACE"] = "lo"
# Whether drivers of devices are installed must not change the page.
os.environ["FI_HMEM"] = "system"
# Without it lnx has no entries.
os.environ["FI_LNX_PROV_LINKS"] = "shm+tcp;ofi_rxm:lo"
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "ctests"))
with open(os.path.join(ROOT, "src", "abi", "releases.tsv")) as releases:
    NEWEST = releases.read().splitlines()[-1].split("\t")[1]
# The headers of the newest release contain everything that the library offers.
for argument in sys.argv[1:2]:
    os.environ.setdefault("INCLUDE", os.path.join(argument, f"include-{NEWEST}"))
from abi import Headers, is_pointer  # noqa: E402  (found by the line above)

headers = Headers()
C = headers.constant
VERSION = C("FI_MAJOR_VERSION") << 16 | C("FI_MINOR_VERSION")
NOSYS = -38

# Programs that run unmodified: name, provider and endpoint type, and the check that shows it.
PROGRAMS = [
    ("`fi_info`, `fi_pingpong`, `fi_strerror` of Debian (1.17)", "tcp: rdm, msg", "make check-debian"),
    ("MPICH 5 with mpi4py: point to point, collectives, one-sided, communicators, threads", "tcp: rdm", "make check-mpi"),
    ("The demo: ring, ping-pong, allreduce, all-to-all, put and get, communicator splits", "tcp: rdm", "make demo"),
    ("A process on libfabric 2.5 as the peer: messages, RMA, rendezvous, connections, crossings, restarts", "tcp: rdm, msg",
     "make check-mixed"),
    ("Python's ctypes and a Rust program, without a C compiler", "tcp: rdm", "make check-examples"),
]

# Commands that an object may support.
COMMANDS = ["FI_GETOPSFLAG", "FI_SETOPSFLAG", "FI_ALIAS", "FI_GETWAIT", "FI_GETWAITOBJ", "FI_ENABLE", "FI_BACKLOG",
            "FI_GET_RAW_MR", "FI_MAP_RAW_MR", "FI_UNMAP_KEY", "FI_QUEUE_WORK", "FI_CANCEL_WORK", "FI_FLUSH_WORK",
            "FI_REFRESH", "FI_DUP", "FI_GET_VAL", "FI_SET_VAL", "FI_EXPORT_FID", "FI_GET_FD"]
# Their arguments, as 64-bit words, if zeroes would be refused before the object is asked.
ARGUMENTS = {C("FI_ALIAS"): ["room", 0], C("FI_GET_VAL"): [0, "room"], C("FI_SET_VAL"): [0, "room"],
             C("FI_GET_RAW_MR"): [0, "room", "room", "room"], C("FI_MAP_RAW_MR"): [0, 0, "room", 8, "room"],
             C("FI_EXPORT_FID"): ["room", 0, 0]}
OPTIONS = [name for name in re.findall(r"^#define (FI_OPT_\w+)", headers.text, flags=re.M)
           if name != "FI_OPT_ENDPOINT" and "EFA" not in name]
# Without FI_REMOTE_COMM, which depends on the interfaces of the machine.
CAPABILITIES = ["FI_MSG", "FI_TAGGED", "FI_RMA", "FI_ATOMIC", "FI_COLLECTIVE", "FI_MULTICAST", "FI_READ", "FI_WRITE",
                "FI_RECV", "FI_SEND", "FI_REMOTE_READ", "FI_REMOTE_WRITE", "FI_MULTI_RECV", "FI_TAGGED_MULTI_RECV",
                "FI_DIRECTED_RECV", "FI_TAGGED_DIRECTED_RECV", "FI_EXACT_DIRECTED_RECV", "FI_SOURCE", "FI_SOURCE_ERR",
                "FI_NAMED_RX_CTX", "FI_RMA_EVENT", "FI_RMA_PMEM", "FI_TRIGGER", "FI_FENCE", "FI_HMEM", "FI_LOCAL_COMM",
                "FI_SHARED_AV", "FI_AV_USER_ID", "FI_PEER", "FI_WR"]


def layout(*members):
    return type("Layout", (ctypes.Structure,), {"_fields_": [(name, kind) for name, kind in members]})


EpAttr = layout(("type", c_int), ("protocol", c_uint32), ("protocol_version", c_uint32), ("max_msg_size", c_size_t),
                ("msg_prefix_size", c_size_t), ("max_order_raw_size", c_size_t), ("max_order_war_size", c_size_t),
                ("max_order_waw_size", c_size_t), ("mem_tag_format", c_uint64), ("tx_ctx_cnt", c_size_t), ("rx_ctx_cnt", c_size_t))
FabricAttr = layout(("fabric", c_void_p), ("name", c_char_p), ("prov_name", c_void_p))
Info = layout(("next", c_void_p), ("caps", c_uint64), ("mode", c_uint64), ("addr_format", c_uint32),
              ("src_addrlen", c_size_t), ("dest_addrlen", c_size_t), ("src_addr", c_void_p), ("dest_addr", c_void_p),
              ("handle", c_void_p), ("tx_attr", c_void_p), ("rx_attr", c_void_p), ("ep_attr", POINTER(EpAttr)),
              ("domain_attr", c_void_p), ("fabric_attr", POINTER(FabricAttr)), ("nic", c_void_p))


def word(address):
    return c_uint64.from_address(address).value


class Library:
    def __init__(self, folder):
        self.file = os.path.join(folder, "libfabric.so.1")
        self.lib = ctypes.CDLL(self.file)
        self.libc = ctypes.CDLL(None)
        self.libc.strdup.restype = c_void_p
        self.lib.fi_allocinfo.restype = POINTER(Info)
        self.lib.fi_tostr.restype = c_char_p

    def infos(self, provider=None, kind=None, caps=0, contexts=(0, 0)):
        """The entries for a provider, an endpoint type, capabilities and numbers of transmit and receive contexts; they stay
        for the life of the program."""
        hints = self.lib.fi_allocinfo()
        hints.contents.caps = caps
        hints.contents.mode = 2**64 - 1
        if kind:
            hints.contents.ep_attr.contents.type = C(kind)
        hints.contents.ep_attr.contents.tx_ctx_cnt, hints.contents.ep_attr.contents.rx_ctx_cnt = contexts
        if provider:
            hints.contents.fabric_attr.contents.prov_name = self.libc.strdup(provider.encode())
        first = POINTER(Info)()
        if self.lib.fi_getinfo(VERSION, None, None, c_uint64(0), hints, byref(first)) < 0:
            return []
        entries, entry = [], first
        while entry:
            entries.append(entry)
            entry = ctypes.cast(entry.contents.next, POINTER(Info))
        return entries

    def name(self, info):
        return ctypes.string_at(info.contents.fabric_attr.contents.prov_name).decode()

    def text(self, address, kind):
        return " ".join(self.lib.fi_tostr(c_void_p(address), C(kind)).decode().split())

    def open(self, function, *arguments):
        """The object that an open function gives, or its error number."""
        handle = c_void_p()
        call = getattr(self.lib, function)
        result = call(*[ctypes.c_void_p(a) if isinstance(a, int) else a for a in arguments[:-1]], byref(handle),
                      *([arguments[-1]] if arguments[-1] != () else []))
        return handle.value if result == 0 else result


def in_child(function):
    """What the function returns in a process of its own; None if that dies or takes too long."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(os.open("/dev/null", os.O_WRONLY), 2)
        signal.alarm(5)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        os.write(theirs, str(function()).encode())
        os._exit(0)
    os.close(theirs)
    answer = os.read(ours, 64)
    os.close(ours)
    os.waitpid(child, 0)
    return int(answer) if answer else None


def call(function, parameters, first, filled, info):
    """Calls a table's member: pointers are null or a buffer of zeroes (an info: the one at hand), numbers are 0."""
    buffers = []
    sockaddr = ctypes.create_string_buffer(b"\2\0\0\0\x7f\0\0\1", 128)

    def argument(kind, number):
        if number == 0:
            return c_void_p(first)
        if not is_pointer(kind):
            return c_uint64(0)
        if not filled or kind == "callback":
            return c_void_p(0)
        if "fi_info" in kind:
            return ctypes.cast(info, c_void_p)
        buffers.append(sockaddr if "const void" in kind else ctypes.create_string_buffer(4096))
        return ctypes.cast(buffers[-1], c_void_p)

    # Addresses of an address vector may be read; a buffer to send has length 0.
    arguments = [argument(kind, number) for number, (kind, _, _) in enumerate(parameters)]
    prototype = ctypes.CFUNCTYPE(ctypes.c_int64, *[type(a) for a in arguments])
    return prototype(function)(*arguments)


def served(member, result, parameters, function, first, info):
    """Whether the member of that return type does anything."""
    answers = [in_child(lambda: call(function, parameters, first, filled, info)) for filled in (False, True)]
    if None in answers:
        died.append(member)
    if result in ("int", "ssize_t"):
        return not any(a is not None and ctypes.c_int32(a).value == NOSYS for a in answers)
    return "*" not in result or any(a != 0 for a in answers)


died = []
# Members whose result for "not served" is also a valid value; they are served if their setting is.
BY_SETTING = {("fi_ops_cntr", "read"): "add", ("fi_ops_cntr", "readerr"): "adderr"}


def table_rows(struct, table, first, info):
    """(member, served) of a table in memory. A member beyond its size is not there."""
    rows, size = {}, word(table)
    for number, (result, name, parameters) in enumerate(headers.tables[struct]):
        offset = 8 * (number + 1)
        function = word(table + offset) if offset < size else 0
        rows[name] = bool(function) and served(f"{struct}.{name}", result, parameters, function, first, info)
    if struct == "fi_ops":
        # The results of these two depend on a name that zeroes are not; the first has a table of its own below.
        del rows["ops_open"], rows["ops_set"]
        rows["control"] = any(command_known(first, C(command)) for command in COMMANDS)
    for (owner, name), setting in BY_SETTING.items():
        if owner == struct:
            rows[name] = rows[setting]
    return rows


def object_tables(kind, address):
    """(struct, address of the table) for each table that an object of a fid_* struct points to."""
    tables = [("fi_ops", word(address + 16))]
    if kind != "fid":
        tables += [(struct, word(address + 24 + 8 * n)) for n, (struct, _) in enumerate(headers.objects[kind])]
    return [(struct, table) for struct, table in tables if table]


def objects(library, info, kind):
    """Every object that can be made from an entry: name -> (fid struct, address or error)."""
    lib, opened = library, {}
    blank = ctypes.create_string_buffer(256)

    def keep(name, struct, value):
        opened[name] = (struct, value)
        return value if value > 0 else None

    fabric = keep("fabric", "fid_fabric", lib.open("fi_fabric", info.contents.fabric_attr, None))
    if not fabric:
        return opened
    unspec = C("FI_WAIT_UNSPEC")  # without an object to wait on, the sread calls are not served
    keep("eq", "fid_eq", lib.open("fi_eq_open", fabric, (c_int * 8)(0, 0, C("FI_WRITE"), 0, unspec), None))
    keep("wait set", "fid_wait", lib.open("fi_wait_open", fabric, (c_int * 4)(unspec), ()))
    domain = keep("domain", "fid_domain", lib.open("fi_domain", fabric, info, None))
    if not domain:
        return opened
    keep("cq", "fid_cq", lib.open("fi_cq_open", domain, (c_int * 10)(0, 0, 0, 0, 0, unspec), None))
    keep("cntr", "fid_cntr", lib.open("fi_cntr_open", domain, (c_int * 6)(0, unspec), None))
    keep("poll set", "fid_poll", lib.open("fi_poll_open", domain, blank, ()))
    av = keep("av", "fid_av", lib.open("fi_av_open", domain, (c_int * 64)(C("FI_AV_TABLE")), None))
    if av:
        none = 2**64 - 1  # FI_ADDR_NOTAVAIL
        keep("av set", "fid_av_set", lib.open("fi_av_set", av, (c_uint64 * 8)(0, none, none, 1), None))
    region, memory = c_void_p(), ctypes.create_string_buffer(4096)
    kept.append(memory)
    result = lib.lib.fi_mr_reg(c_void_p(domain), memory, c_size_t(4096), c_uint64(C("FI_REMOTE_WRITE")), c_uint64(0),
                               c_uint64(0), c_uint64(0), byref(region), None)
    keep("mr", "fid", region.value if result == 0 else result)
    # Only endpoints that request them have work requests.
    asked = [entry for entry in lib.infos(lib.name(info), kind, info.contents.caps | C("FI_WR")) if lib.name(entry) == lib.name(info)]
    keep("ep", "fid_ep", lib.open("fi_endpoint", domain, asked[0] if asked else info, None))
    if kind == "FI_EP_MSG":
        keep("pep", "fid_pep", lib.open("fi_passive_ep", fabric, info, None))
    keep("scalable ep", "fid_ep", lib.open("fi_scalable_ep", domain, info, None))
    # These are offered on request.
    shared = 2**64 - 1  # FI_SHARED_CONTEXT
    for name, struct, call, contexts, side in [("shared tx", "fid_stx", "fi_stx_context", (shared, 0), "tx_attr"),
                                               ("shared rx", "fid_ep", "fi_srx_context", (0, shared), "rx_attr")]:
        entries = [entry for entry in lib.infos(lib.name(info), kind, 0, contexts) if lib.name(entry) == lib.name(info)]
        if not entries:
            keep(name, struct, -C("FI_ENODATA"))
            continue
        of = lib.open("fi_domain", fabric, entries[0], None)
        keep(name, struct, lib.open(call, of, getattr(entries[0].contents, side), None))
    if info.contents.nic:
        keep("nic", "fid", info.contents.nic)
    return opened


kept = []


def grid(heading, columns, rows):
    """A Markdown table; rows are (name, list of cells)."""
    lines = [f"| {heading} | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    return "\n".join(lines + [f"| {name} | " + " | ".join(cells) + " |" for name, cells in rows])


def mark(value):
    return {True: "yes", False: "-", None: ""}[value]


def offers(library, provider, kind, capability):
    """Whether an entry without shared receive context has it when it is asked for; some need their pair."""
    pairs = {C("FI_SOURCE_ERR"): C("FI_SOURCE")}
    entries = library.infos(provider, kind, capability | pairs.get(capability, 0))
    return any(i.contents.caps & capability for i in entries)


def symbols(file):
    names = subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", file], check=True, text=True,
                           capture_output=True).stdout.split()
    forms = {}
    for name in (n for n in names if n.startswith("fi_") and "@" in n):
        base, node = name.replace("@@", "@*").split("@")
        forms.setdefault(base, []).append(node)
    old = {base: sorted(nodes, key=lambda n: n.strip("*")) for base, nodes in forms.items() if "*FABRIC_RS_1.0" not in nodes}
    rows = [(f"`{base}`", [", ".join(f"**{n[1:]}**" if n.startswith("*") else n for n in nodes)])
            for base, nodes in sorted(old.items())]
    inline = len(forms) - len(old)
    return grid("symbol", ["nodes, the default in bold"], rows), sum(map(len, old.values())), inline


def real_programs():
    """What `make check-programs` ran last."""
    path = os.path.join(ROOT, "ctests/programs/results.tsv")
    if not os.path.exists(path):
        return []
    with open(path, newline="") as table:
        rows = [(row[0], [row[1], f"`{row[2]}`", row[3], row[4]]) for row in csv.reader(table, delimiter="\t")]
    return ["Real programs, as `make check-programs` found them (provider tcp, everything over it).", "",
            grid("program", ["version", "command", "result", "date"], rows), ""]


def document(folder):
    library = Library(folder)
    providers = []
    for info in library.infos():
        if library.name(info) not in providers:
            providers.append(library.name(info))
    columns, opened = [], []
    for provider in providers:
        for kind in ("FI_EP_MSG", "FI_EP_RDM", "FI_EP_DGRAM"):
            entries = [i for i in library.infos(provider, kind) if library.name(i) == provider]
            if entries:
                columns.append((provider, kind, entries))
                opened.append(objects(library, entries[0], kind))
    titles = [f"{provider} {kind[6:].lower()}" for provider, kind, _ in columns]

    table, forms, inline = symbols(library.file)
    out = ["# What works", "",
           "Written by `make matrix`, which asks the library itself; `make check-matrix` fails if this page is out of date. "
           "What is not there answers with the documented code, most often -FI_ENOSYS.", "",
           "## Symbols", "", f"{forms} forms of the {table.count('| `')} functions that libfabric has exported since 1.0, and "
           f"the {inline} inline functions of the headers as symbols in the node FABRIC_RS_1.0.", "", table, "",
           "## Programs", "", "Unmodified programs, and the check that runs them.", "",
           grid("program", ["on", "check"], [(what, [where, f"`{check}`"]) for what, where, check in PROGRAMS]), "",
           *real_programs(), "## Capabilities", "",
           "This table is made without a driver of a device. Where one is installed, `tcp`, `ofi_rxm`, `ofi_rxd`, `lnx` "
           "and `verbs` have `FI_HMEM`, too, on request: fi_mr(3). The tests use stand-ins for the drivers; no real "
           "driver with a device was seen.", "",
           grid("capability", titles, [(f"`{name}`", [mark(offers(library, provider, kind, C(name)))
                                                      for provider, kind, _ in columns]) for name in CAPABILITIES]), "",
           "## Objects", "", "What can be opened, and the answer where it cannot.", ""]
    kinds = list(dict.fromkeys(name for one in opened for name in one))
    strerror = library.lib.fi_strerror
    strerror.restype = c_char_p

    def state(one, name):
        if name not in one:
            return ""
        value = one[name][1]
        return "yes" if value > 0 else f"- ({strerror(-value).decode()})"

    out += [grid("object", titles, [(name, [state(one, name) for one in opened]) for name in kinds]), "",
            "## Operations", "", "Members of the tables of function pointers, by the object that holds the table.", ""]
    for name in kinds:
        results, order = [], []
        for one, (_, _, entries) in zip(opened, columns):
            struct, address = one.get(name, (None, 0))
            rows = {}
            for table_struct, table in object_tables(struct, address) if address > 0 else []:
                rows.update({(table_struct, member): value for member, value in table_rows(table_struct, table, address, entries[0]).items()})
            results.append(rows)
            order += [key for key in rows if key not in order]
        # A table that no object serves is one line.
        for struct in dict.fromkeys(struct for struct, _ in order):
            members = [key for key in order if key[0] == struct]
            if len(members) > 2 and not any(rows.get(key) for rows in results for key in members):
                order[order.index(members[0])] = (struct, "*")
                order = [key for key in order if key not in members]
                for rows in results:
                    rows[struct, "*"] = rows.get(members[0])
        if order:
            out += [grid(f"{name}", titles, [(f"`{struct}.{member}`", [mark(rows.get((struct, member))) for rows in results])
                                             for struct, member in order]), ""]
    out += ["## Commands", "", "Commands of fi_control(3) that an object answers with something else than -FI_ENOSYS.", ""]
    rows = []
    for name in kinds:
        cells = []
        for one in opened:
            address = one.get(name, (None, 0))[1]
            known = [c for c in COMMANDS if address > 0 and command_known(address, C(c))]
            cells.append(" ".join(f"`{c}`" for c in known))
        rows.append((name, cells))
    out += [grid("object", titles, rows), ""]
    known = [options_known(library, one["ep"][1]) if one.get("ep", (None, 0))[1] > 0 else [] for one in opened]
    out += ["## Options", "", "Options of an endpoint that fi_getopt(3) answers with something else than -FI_ENOPROTOOPT.", "",
            grid("option", titles, [(f"`{option}`", [mark(option in one) for one in known]) for option in OPTIONS]), ""]
    if died:
        sys.exit("these members crash or hang when they are called with zeroes: " + " ".join(sorted(set(died))))
    return "\n".join(out)


def command_known(address, command):
    control = word(word(address + 16) + 24)
    prototype = ctypes.CFUNCTYPE(c_int, c_void_p, c_int, c_void_p)
    argument, room = (c_uint64 * 512)(), (c_uint64 * 512)(8)
    for number, value in enumerate(ARGUMENTS.get(command, [])):
        argument[number] = ctypes.addressof(room) if value == "room" else value
    answer = in_child(lambda: prototype(control)(address, command, argument))
    return answer is not None and answer != NOSYS


def options_known(library, ep):
    """The options that fi_getopt of an endpoint knows."""
    def known(option):
        value, size = ctypes.create_string_buffer(4096), c_size_t(4096)
        answer = in_child(lambda: library.lib.fi_getopt(c_void_p(ep), C("FI_OPT_ENDPOINT"), C(option), value, byref(size)))
        return answer not in (None, NOSYS, -C("FI_ENOPROTOOPT"))

    return [option for option in OPTIONS if known(option)]


def main():
    arguments = [a for a in sys.argv[1:] if not a.startswith("--")]
    if not arguments:
        sys.exit(__doc__)
    text = document(arguments[0])
    page = os.path.join(ROOT, "MATRIX.md")
    if "--write" in sys.argv:
        with open(page, "w") as file:
            file.write(text)
    elif "--check" in sys.argv:
        import difflib
        old = open(page).read() if os.path.exists(page) else ""
        if old != text:
            sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), text.splitlines(True), "MATRIX.md", "the library"))
            sys.exit("MATRIX.md is out of date: make matrix")
        print("MATRIX.md is what the library says")
    else:
        print(text)


main()
