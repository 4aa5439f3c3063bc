# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The environment that gives a program this library, and its MPI a reason to use it."""

import os
import re

from . import SONAME, library_folder
from .loader import loaded, resolve, rpath_hides, same
from .mpi import variables

PROVIDER = "tcp"


class Settings:
    """What is set (`changed`), what the user had set already and is left so (`kept`), and the whole (`env`)."""

    def __init__(self, mpi, command, provider=None, preload="auto", base=None):
        base = dict(os.environ if base is None else base)
        self.base = base
        self.folder = library_folder()
        self.library = self.folder / SONAME
        self.provider = provider or base.get("FI_PROVIDER") or PROVIDER
        self.changed, self.kept = {}, {}
        self.changed["LD_LIBRARY_PATH"] = _in_front(str(self.folder), base.get("LD_LIBRARY_PATH"))
        for name, value in variables(mpi.family, mpi.version, self.provider).items():
            if name in base and base[name] != value and not (name == "FI_PROVIDER" and provider):
                self.kept[name] = (base[name], value)
            elif base.get(name) != value:
                self.changed[name] = value
        self.env = {**base, **self.changed}
        self.preload_because = self._preload(mpi, command, preload)
        if self.preload_because:
            self.changed["LD_PRELOAD"] = _in_front(str(self.library), base.get("LD_PRELOAD"))
            self.env["LD_PRELOAD"] = self.changed["LD_PRELOAD"]

    def _preload(self, mpi, command, preload):
        """Why LD_LIBRARY_PATH is not enough."""
        if preload == "never":
            return None
        if preload == "always":
            return "asked for"
        for user in mpi.users:
            file = loaded(user, self.env)
            if file and not same(file, self.library):
                return f"{user} takes {file} in spite of LD_LIBRARY_PATH"
        # Any word of the command may be the program; its RPATH applies to all that it loads.
        for word in command:
            path = resolve(word) if not word.startswith("-") else None
            hidden = rpath_hides(path) if path else None
            if hidden and not same(f"{hidden}/{SONAME}", self.library):
                return f"the RPATH of {path} names {hidden}, which has a {SONAME}"
        return None


def _in_front(first, rest):
    """A path list that begins with `first`, and has it once."""
    words = [word for word in re.split("[: ]" if rest and ".so" in rest else ":", rest or "") if word and word != first]
    return ":".join([first, *words])
