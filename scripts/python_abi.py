#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The ABI for Python's ctypes, packaging/wheel/src/ironfabric/fabric/abi.py, which is written from the headers in include/.

    python_abi.py --write
    python_abi.py --check    fails if the file is not what the headers say

It has every struct, integer constant and exported function of HEADERS. ctests/python/test_layout.py compares it with
what a C compiler makes of the headers.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "packaging/wheel/src/ironfabric/fabric/abi.py"
HEADERS = ("fi_errno.h", "fabric.h", "fi_eq.h", "fi_domain.h", "fi_endpoint.h", "fi_cm.h", "fi_rma.h", "fi_tagged.h",
           "fi_atomic.h", "fi_collective.h")
# Behind FI_REMOVED_NAMES, and the guards.
LEFT_OUT = re.compile(r"FI_PATH_MAX|FI_VERSION_MAX|fi_mr_mode|(FI|FABRIC)_?\w*_H")

SCALARS = {
    "int": "c_int", "uint8_t": "c_uint8", "uint16_t": "c_uint16", "uint32_t": "c_uint32", "uint64_t": "c_uint64",
    "size_t": "c_size_t", "ssize_t": "c_ssize_t", "fi_addr_t": "c_uint64",
}
HEAD = '''\
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The ABI of libfabric {version}: constants, structs and exported functions, under their names in C.

Written by scripts/python_abi.py from include/rdma; change that.

Structs that a program allocates have the members of this release, and an older library ignores those at the end.
Structs that a library allocates may be shorter: read only members that the version of that library has. Functions take
addresses as numbers, or anything else that ctypes accepts as a `c_void_p`.
"""

from __future__ import annotations

from ctypes import (
    CFUNCTYPE,
    POINTER,
    Array,
    Structure,
    Union,
    c_char_p,
    c_int,
    c_size_t,
    c_ssize_t,
    c_uint,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import TYPE_CHECKING, Any, Callable, Dict, Final, Optional, Tuple

if TYPE_CHECKING:
    from ctypes import _Pointer

'''


class Unreadable(Exception):
    """A definition that this script does not understand."""


def bare(text):
    """The text of a header without comments, and without the names that release 2.0 removed."""
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
    text = re.sub(r"^#ifdef FI_REMOVED_NAMES.*?^#endif\n(?=\n)", "", text, flags=re.S | re.M)
    return text.replace("\\\n", " ")


def constants(text):
    """Pairs of name and value: macros whose value is a number, and members of enumerations."""
    known = {"SIZE_MAX": 2**64 - 1, "UINT64_MAX": 2**64 - 1, "UINT32_MAX": 2**32 - 1}
    definition = re.compile(r"^[ \t]*#[ \t]*define (\w+) +([^\n]+)$|^enum \w+\s*\{(.*?)\};", re.M | re.S)
    later = []
    for found in definition.finditer(text):
        if found[3] is None:
            later.append((found[1], found[2]))
            continue
        for member in filter(str.strip, found[3].split(",")):
            name, _, value = member.partition("=")
            later.append((name.strip(), value))
    result = {}
    for name, value in later:
        expression = re.sub(r"\b(0x[0-9a-fA-F]+|\d+)[uUlL]+\b", r"\1", value.strip())
        words = re.findall(r"[A-Za-z_]\w*", re.sub(r"0x[0-9a-fA-F]+", "", expression))
        if LEFT_OUT.fullmatch(name) or not re.fullmatch(r"[\w ()<>|+\-]+", expression):
            continue
        if any(word not in known for word in words):
            continue
        # Only numbers, known names and operators: the two lines above.
        known[name] = result[name] = eval(expression, {"__builtins__": {}}, dict(known))  # noqa: S307
    return result


def closing(text, start):
    """The place behind the brace that closes the one at `start`."""
    depth = 0
    for at in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return at + 1
    raise Unreadable(text[start:start + 80])


def statements(body):
    """The member declarations of a struct's body."""
    at = 0
    while body[at:].strip():
        end, brace = body.index(";", at), body.find("{", at)
        if 0 <= brace < end:
            end = body.index(";", closing(body, brace))
        yield body[at:end].strip()
        at = end + 1


class Abi:
    """Structs and functions of the headers."""

    def __init__(self, text):
        self.structs, self.unions = {}, set()
        self.names = set(re.findall(r"^struct (\w+)\s*\{", text, re.M)) | {"iovec"}
        # POSIX, sys/uio.h.
        self.structs["iovec"] = self.members("iovec", "void *iov_base; size_t iov_len;")
        for found in re.finditer(r"^struct (\w+)\s*\{", text, re.M):
            end = closing(text, found.end() - 1)
            self.structs[found[1]] = self.members(found[1], text[found.end():end - 1])
        outside = re.sub(r"^(FI_DEPRECATED_FUNC )?static inline.*?^\}", "", text, flags=re.S | re.M)
        self.functions = {}
        for found in re.finditer(r"^(?!typedef|struct \w+;|#|extern)([\w ]+?\**)\s*\b(fi_\w+)\(([^;{]*)\)[^;{}]*;",
                                 outside, re.M):
            arguments = self.arguments(found[3])
            if arguments is not None:
                self.functions[found[2]] = self.argument(found[1] + " result", True), arguments

    def arguments(self, text):
        """ctypes of the arguments; nothing if their number varies."""
        if "..." in text:
            return None
        words = [" ".join(word.split()) for word in text.split(",")]
        return [self.argument(word) for word in words if word and word != "void"]

    def argument(self, text, is_result=False):
        text = " ".join(text.replace("const ", "").split())
        if "*" in text or re.match(r"fid_t\b|va_list\b", text):
            is_text = is_result and re.match(r"char \*[^*]*$", text)
            return "c_char_p" if is_text or re.match(r"char \*\w*$", text) and is_result else "c_void_p"
        if text.startswith("void") and is_result:
            return "None"
        if text.startswith("enum "):
            return "c_uint"
        kind = text.split(" ")[0]
        if kind not in SCALARS:
            raise Unreadable(text)
        return SCALARS[kind]

    def members(self, struct, body):
        """Tuples of name, ctypes type and type for type checkers."""
        result, anonymous = [], 0
        for statement in statements(body):
            text = " ".join(statement.replace("const ", "").split())
            nested = re.match(r"union \{(.*)\}\s*(\w*)$", text)
            call = re.match(r"([\w ]+?\**)\s*\(\*(\w+)\)\((.*)\)$", text)
            plain = re.match(r"(.+?)\s*(\**)\s*(\w+)(?:\[(\d*)\])?$", text)
            if nested:
                anonymous += 1
                name = f"{struct}_{nested[2] or f'anonymous{anonymous}'}"
                self.structs[name] = self.members(name, nested[1])
                self.unions.add(name)
                result.append((nested[2] or f"anonymous{anonymous}", name, name))
            elif call:
                types = [self.argument(call[1] + " result", True), *self.arguments(call[3])]
                hint = {"None": "None", "c_char_p": "Optional[bytes]"}.get(types[0], "int")
                result.append((call[2], f"CFUNCTYPE({', '.join(types)})", f"Callable[..., {hint}]"))
            elif plain:
                result.append((plain[3], *self.member(plain[1], plain[2], plain[4])))
            else:
                raise Unreadable(f"{struct}: {text}")
        return result

    def member(self, kind, stars, count):
        """A member that is not a function: its ctypes type, and the type for type checkers."""
        word = kind.split(" ")[-1]
        if kind == "fid_t":
            word, stars = "fid", "*"
        if stars:
            if stars == "*" and word in self.names:
                made = f"POINTER({word})", f"_Pointer[{word}]"
            elif kind == "char" and stars == "*":
                made = "c_char_p", "Optional[bytes]"
            else:
                made = "c_void_p", "Optional[int]"
        elif kind.startswith("enum "):
            made = "c_uint", "int"
        elif word in self.names:
            made = word, word
        elif kind in SCALARS:
            made = SCALARS[kind], "int"
        else:
            raise Unreadable(kind)
        return (f"{made[0]} * {count or 0}", f"Array[{made[0]}]") if count is not None else made

    def ordered(self):
        """Names of the structs, each behind those that it contains."""
        done = []

        def add(name):
            if name in done:
                return
            for _, kind, _ in self.structs[name]:
                if kind in self.structs:
                    add(kind)
            done.append(name)

        for name in self.structs:
            add(name)
        return done


def broken(prefix, parts, suffix, indent=" " * 4):
    """One line, or one line for each part if that is too long."""
    line = prefix + ", ".join(parts) + suffix
    if len(line) <= 120:
        return [line]
    return [prefix, *(f"{indent}{part}," for part in parts), suffix]


def generated():
    text = "\n".join(bare((ROOT / "include/rdma" / name).read_text()) for name in HEADERS)
    numbers, abi = constants(text), Abi(text)
    version = f"{numbers['FI_MAJOR_VERSION']}.{numbers['FI_MINOR_VERSION']}"
    lines = [HEAD.format(version=version)]
    # Type checkers then tell apart a constant and a variable.
    for name, value in numbers.items():
        lines.append(f"{name}: Final = {value if abs(value) < 4096 else hex(value)}\n")
    for name in abi.structs:
        base = "Union" if name in abi.unions else "Structure"
        lines.append(f"\n\nclass {name}({base}):\n    if TYPE_CHECKING:\n")
        lines += [f"        {member}: {hint}\n" for member, _, hint in abi.structs[name]]
        # A struct of C grows with the members of its unnamed union.
        for member, kind, _ in abi.structs[name]:
            if member.startswith("anonymous"):
                lines += [f"        {inner}: {hint}\n" for inner, _, hint in abi.structs[kind]]
                lines.append(f'\n    _anonymous_ = ("{member}",)\n')
    lines.append("\n\n")
    for name in abi.ordered():
        lines.append(f"{name}._fields_ = [\n")
        for member, kind, _ in abi.structs[name]:
            call = re.fullmatch(r"CFUNCTYPE\((.*)\)", kind)
            if call:
                made = broken(f'    ("{member}", CFUNCTYPE(', call[1].split(", "), ")),", " " * 8)
                if len(made) > 1:
                    made[-1] = "    )),"
            else:
                made = [f'    ("{member}", {kind}),']
            lines += [line + "\n" for line in made]
        lines.append("]\n")
    lines.append("\n# Exported functions: result and arguments. The other calls go through the tables of the objects.\n")
    lines.append("FUNCTIONS: Dict[str, Tuple[Any, Tuple[Any, ...]]] = {\n")
    for name, (result, arguments) in abi.functions.items():
        end = "," if len(arguments) == 1 else ""
        lines.append(f'    "{name}": ({result}, ({", ".join(arguments)}{end})),\n')
    lines.append("}\n")
    return "".join(lines)


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in ("--write", "--check"):
        sys.exit(__doc__)
    made = generated()
    if sys.argv[1] == "--write":
        OUTPUT.write_text(made)
    elif not OUTPUT.is_file() or OUTPUT.read_text() != made:
        sys.exit(f"{OUTPUT.relative_to(ROOT)} is not what the headers say: scripts/python_abi.py --write")


if __name__ == "__main__":
    main()
