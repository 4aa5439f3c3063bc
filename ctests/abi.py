# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What the public headers declare, read from include/ or the folder that INCLUDE names: inline functions, tables of
operations, objects, constants."""
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
INCLUDE = os.environ.get("INCLUDE", f"{ROOT}/include")
HEADERS = [f"rdma/{name}" for name in sorted(os.listdir(f"{INCLUDE}/rdma")) if name.endswith(".h")] + [
    f"rdma/providers/{name}" for name in sorted(os.listdir(f"{INCLUDE}/rdma/providers"))]
NESTED = r"(?:[^()]|\((?:[^()]|\([^()]*\))*\))*"


def parameters(text):
    """`int a, int (*b)(void)` as a list of (type or "callback", name, whole)."""
    parts, depth, part = [], 0, ""
    for char in text + ",":
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append(" ".join(part.split()))
            part = ""
        else:
            part += char
    named = []
    for part in (p for p in parts if p != "void"):
        callback = re.search(r"\(\*(\w*)\)", part)
        name = callback.group(1) if callback else re.search(r"(\w+)$", part).group(1)
        named.append(("callback" if callback else part[:len(part) - len(name)], name, part))
    return named


def is_pointer(kind):
    return "*" in kind or kind.replace("const", "").strip() in ("fid_t", "fi_wr", "callback")


class Headers:
    """`functions`: (return type, name, parameters) of each inline function. `tables`: the same for the members of each
    struct of function pointers, by its name. `objects`: (table, member) of each struct fid_*. `text`: without comments."""

    def __init__(self):
        text = "".join(open(f"{INCLUDE}/{header}").read() for header in HEADERS)
        self.text = text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
        self.functions = [(" ".join(ret.split()), name, parameters(ps)) for ret, name, ps in re.findall(
            rf"static inline ([\w *]+?)\s*\b(fi_\w+)\(({NESTED})\)\s*\{{", text)]
        structs = {name: " ".join(body.split()) for name, body in re.findall(
            r"^struct (\w+) \{\n(.*?)^\};", text, flags=re.S | re.M)}
        self.tables, self.objects = {}, {}
        for struct, body in structs.items():
            slots = re.findall(rf"([\w ]+?[ *]+)\(\*(\w+)\)\(({NESTED})\);", body)
            if slots and body.startswith("size_t size;"):
                self.tables[struct] = [(ret.split(";")[-1].strip(), name, parameters(ps)) for ret, name, ps in slots]
        for struct, body in structs.items():
            # What a device knows of an object (fid_xpu) is none.
            if struct.startswith("fid") and (struct == "fid" or body.startswith("struct fid fid;")):
                self.objects[struct] = [(table, member) for table, member in re.findall(r"struct (\w+) \*(\w+);", body)
                                        if table in self.tables]

    def constant(self, name):
        """A constant with a plain number: 12, (1ull << 3), (-5)."""
        value = re.search(rf"^#define {name} (.*)$|^ +{name} = (.*),$", self.text, flags=re.M)
        text = (value.group(1) or value.group(2)).strip()
        number = re.fullmatch(r"\(?(-?\d+)(?:ull)?(?: << (\d+))?\)?", text)
        return int(number.group(1)) << int(number.group(2) or 0) if number else self.constant(text)
