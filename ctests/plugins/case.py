# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Loadable providers in folders, programs that ask a libfabric.so.1 about them, and how tests of them are run."""
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
OWN_HOOKS = "ofi_hook_"
PATIENCE = float(os.environ.get("PATIENCE", "1"))
sys.path.insert(0, str(ROOT / "scripts"))
import releases  # noqa: E402
RELEASE = releases.default()
PROVIDER = int(RELEASE.provider)


class Answer:
    def __init__(self, done):
        self.code, self.err = done.returncode, done.stderr
        lines = done.stdout.splitlines()
        self.out = done.stdout
        self.entries = [line.split()[1] for line in lines if line.startswith("entry ")]
        providers = [tuple(line.split()[1:]) for line in lines if line.startswith("provider ")]
        self.providers = [provider for provider in providers if not provider[0].startswith(OWN_HOOKS)]
        self.said = [line for line in self.err.splitlines() if not line.startswith("libfabric:")]
        self.log = [line for line in self.err.splitlines() if line.startswith("libfabric:")]

    def started(self):
        """Names in the order in which fi_prov_ini was called."""
        return [line.split(":")[0] for line in self.said if "fi_prov_ini" in line]

    def of(self, name):
        """Entries of a provider, alone or above others."""
        return [entry for entry in self.entries if entry.split(";")[-1] == name]

    def logged(self, *parts):
        return any(all(part in line for part in parts) for line in self.log)


class Case:
    """A folder of plug-ins, and a program that asks."""

    def __init__(self, library, folder):
        self.library, self.folder = library, folder
        self.ask_program = folder / "ask"
        compile_for_others(self.ask_program, HERE / "ask.c", [], library)

    def make(self, path, name="plug", version=1, api="FI_VERSION(2, 6)", **options):
        """A plug-in at folder/path; options are macros, true or with a text."""
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        macros = [f'-DNAME="{name}"', f"-DVERSION={version}", f"-DAPI={api}"]
        macros += [f"-D{key}" if value is True else f'-D{key}="{value}"' for key, value in options.items()]
        compile_c(file, HERE / "plugin.c", ["-shared", "-fPIC", *macros, f"-L{self.library}", "-lfabric"], self.library)
        return file

    def ask(self, *arguments, path=None, cwd=None, **env):
        """`path`: FI_PROVIDER_PATH, with D for this folder."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("FI_")}
        kept |= {"LD_LIBRARY_PATH": str(self.library), "FI_LOG_LEVEL": "info", "FI_TCP_IFACE": "lo", "FI_UDP_IFACE": "lo"}
        if path is not None:
            kept["FI_PROVIDER_PATH"] = path.replace("D/", f"{self.folder}/")
        kept |= env
        done = subprocess.run([self.ask_program, *arguments], env=kept, cwd=cwd, capture_output=True, text=True,
                              timeout=60 * PATIENCE)
        return Answer(done)


def compile_c(out, source, options, _library):
    compile_with([f"-I{ROOT / 'include'}", "-o", str(out), str(source), *options])


def compile_for_others(out, source, options, library):
    """A program that also runs on a libfabric of the oldest release in src/abi/releases.tsv."""
    compile_with(["-o", str(out), str(source), *options, *releases.oldest_set(library)])


def compile_with(options):
    subprocess.run([os.environ.get("CC", "cc"), "-std=gnu17", "-g", "-Wall", "-Wextra", "-Wno-missing-field-initializers",
                    *options], check=True)


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def equal(found, wanted):
    check(found == wanted, f"{found} instead of {wanted}")


def run_tests(tests, library, words=()):
    """Each test gets a Case; what it returns is why it could not be run."""
    if not (library / "libfabric.so.1").exists():
        sys.exit(f"there is no libfabric.so.1 in {library}")
    passed, failed, skipped = 0, [], []
    for test in tests:
        if words and not any(word in test.__name__ for word in words):
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                why = test(Case(library, pathlib.Path(folder)))
            except (AssertionError, subprocess.SubprocessError, StopIteration) as error:
                failed.append(test.__name__)
                print(f"FAILED {test.__name__}: {error}")
                continue
        if why:
            skipped.append(test.__name__)
            print(f"skip {test.__name__} ({why})")
        else:
            passed += 1
            print(f"ok   {test.__name__}")
    print(f"{passed} passed, {len(failed)} failed, {len(skipped)} skipped")
    sys.exit(1 if failed or not passed else 0)


def tests_of(names):
    """The functions of a module whose first argument is a case, in their order."""
    codes = [(value, getattr(value, "__code__", None)) for value in names.values()]
    return [value for value, code in codes if code and code.co_argcount == 1 and code.co_varnames[0] == "case"]
