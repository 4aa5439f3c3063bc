# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Where the files of ironfabric are, a libfabric.so.1, and how to run an MPI program on it.

The command is `ironfabric`, or `python -m ironfabric`. `ironfabric.fabric` is the API for programs. Python 3.8 or
newer, nothing but its standard library.
"""

import os
from pathlib import Path

# As typing's own; the command starts faster without that module.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, Optional

SONAME = "libfabric.so.1"
PACKAGE = Path(__file__).resolve().parent


def version() -> str:
    """The version of this package."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as version_of

    try:
        return version_of("ironfabric")
    except PackageNotFoundError:
        return "not installed"


def library_folder() -> Path:
    """The folder of libfabric.so.1: that of this package, or the one that IRONFABRIC_LIBRARY names."""
    return Path(os.environ.get("IRONFABRIC_LIBRARY") or PACKAGE / "lib").absolute()


def program(name: str) -> "Optional[Path]":
    """The path of one of the programs, fi_info and so on."""
    for folder in (PACKAGE / "bin", library_folder(), library_folder().parent / "bin"):
        if (folder / name).is_file():
            return folder / name
    return None


def include_folder() -> Path:
    """The folder of the headers of the default release."""
    return PACKAGE / "include"


def other_include_folders() -> "Dict[str, Path]":
    """The folders of the headers of other releases, by name: include-2.6 and so on."""
    return {folder.name: folder for folder in sorted(PACKAGE.glob("include-*"))}
