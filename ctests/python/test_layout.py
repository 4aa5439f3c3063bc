# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""abi.py against a C compiler: sizes, offsets, constants, and the functions of the library."""

import ctypes
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Any, Dict, List, Type

from ironfabric.fabric import abi

ROOT = Path(__file__).resolve().parent.parent.parent
HEADERS = ("fabric", "fi_errno", "fi_eq", "fi_domain", "fi_endpoint", "fi_cm", "fi_rma", "fi_tagged", "fi_atomic")


def structs() -> Dict[str, Type[ctypes.Structure]]:
    """The structs that have a name in C."""
    return {
        name: value
        for name, value in vars(abi).items()
        if isinstance(value, type) and issubclass(value, ctypes.Structure) and value is not ctypes.Structure
    }


def numbers() -> Dict[str, int]:
    return {name: value for name, value in vars(abi).items() if name.startswith("FI_") and isinstance(value, int)}


class Layout(unittest.TestCase):
    def test_compiler_agrees(self) -> None:
        """Every size, offset and constant is what the C compiler says."""
        compiler = shutil.which("cc") or shutil.which("gcc")
        if not compiler:
            self.skipTest("no C compiler")
        lines: List[str] = []
        expected: List[str] = []

        def fact(name: str, expression: str, value: int) -> None:
            lines.append(f'printf("{name} %llu\\n", (unsigned long long)({expression}));')
            expected.append(f"{name} {value % 2**64}")

        for name, struct in structs().items():
            fact(name, f"sizeof(struct {name})", ctypes.sizeof(struct))
            for field in struct._fields_:
                member = field[0]
                if member.startswith("anonymous"):
                    continue
                place: Any = getattr(struct, member)
                fact(f"{name}.{member}", f"offsetof(struct {name}, {member})", place.offset)
                if place.size:
                    fact(f"{name}.{member}:", f"sizeof(((struct {name} *)0)->{member})", place.size)
        for name, value in numbers().items():
            fact(name, name, value)
        self.assertGreater(len(expected), 1000)
        with tempfile.TemporaryDirectory() as folder:
            source, program = Path(folder, "probe.c"), Path(folder, "probe")
            includes = "".join(f"#include <rdma/{header}.h>\n" for header in (*HEADERS, "fi_collective"))
            body = "\n".join(lines)
            source.write_text(f"#include <stdio.h>\n#include <stddef.h>\n{includes}\nint main(void) {{\n{body}\n}}\n")
            made = subprocess.run(
                [compiler, "-w", f"-I{ROOT / 'include'}", "-o", str(program), str(source)],
                stderr=subprocess.PIPE,
                universal_newlines=True,
            )
            self.assertEqual(made.returncode, 0, made.stderr[-2000:])
            said = subprocess.run([str(program)], stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout
        self.assertEqual(said.splitlines(), expected)

    def test_every_definition(self) -> None:
        """The headers define no struct and no constant that abi.py lacks."""
        have = set(structs()) | set(vars(abi))
        for header in (*HEADERS, "fi_collective"):
            text = re.sub(r"/\*.*?\*/", "", (ROOT / f"include/rdma/{header}.h").read_text(), flags=re.DOTALL)
            text = re.sub(r"#ifdef FI_REMOVED_NAMES.*?^#endif\n(?=\n)", "", text, flags=re.DOTALL | re.MULTILINE)
            names = set(re.findall(r"^struct (\w+)\s*\{", text, re.MULTILINE))
            names |= set(re.findall(r"^#define (FI_\w+) [\d(][^\"\n]*$", text, re.MULTILINE))
            for members in re.findall(r"^enum \w+\s*\{(.*?)\}", text, re.DOTALL | re.MULTILINE):
                names |= set(re.findall(r"^\s*(FI_\w+)", members, re.MULTILINE))
            self.assertEqual(sorted(names - have), [], header)


if __name__ == "__main__":
    unittest.main()
