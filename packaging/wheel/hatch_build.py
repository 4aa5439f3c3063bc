# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Puts the files of IRONFABRIC_STAGE into the wheel, and the platform into its tag."""

import os
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Stage(BuildHookInterface):
    def initialize(self, version, build_data):
        stage, platform = (os.environ.get(f"IRONFABRIC_{name}") for name in ("STAGE", "PLATFORM"))
        if not stage or not platform:
            raise SystemExit("the wheel is built by `make wheel`, which says what goes into it")
        files = sorted(path for path in Path(stage).rglob("*") if path.is_file() and not path.is_symlink())
        if not any(path.name == "libfabric.so.1" for path in files):
            raise SystemExit(f"there is no libfabric.so.1 in {stage}")
        build_data["force_include"].update({str(path): f"ironfabric/{path.relative_to(stage)}" for path in files})
        # For any Python, but only on this platform.
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
