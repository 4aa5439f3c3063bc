#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""test_hmem.py FOLDER [NAME...]: the hook hmem of the libfabric.so.1 of FOLDER, with a driver that calls memory of the host a
device's (fake_cuda.c), and a hook inside that says which descriptors arrive (desc_hook.c)."""
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "plugins"))
try:
    from case import PATIENCE, check, compile_c, equal
except ImportError:
    from run import PATIENCE, check, compile_c, equal

# Expected output for the steps of device.c, in order; regions are numbered in the order of registration.
STEPS = {
    "tagged": ["trecv 0", "tsend 1"], "tagged vector": ["trecvv 0 -", "tsendv 1 - 0"], "tagged message": ["trecvmsg 0", "tsendmsg 1"],
    "tagged data": ["trecv 0", "tsenddata 1"], "untagged": ["recv 0", "send 1"], "untagged vector": ["recvv 0 -", "sendv 1 - 0"],
    "untagged message": ["recvmsg 0", "sendmsg 1"], "untagged data": ["recv 0", "senddata 1"], "inject": ["trecv 0"],
    "write": ["write 1"], "write vector": ["writev 1 -"], "write message": ["writemsg 1 -"], "write data": ["writedata 1"],
    "read": ["read 0"], "read vector": ["readv - 0"], "read message": ["readmsg - 0"], "atomic": ["atomic 1"],
    "atomic message": ["atomicmsg 1"], "fetch": ["fetch - 0"], "fetch message": ["fetchmsg 1 0"], "compare vector": ["comparev 1 - 0"],
    "host memory": ["trecv -", "tsend -"], "managed memory": ["trecv -", "tsend -"],
    "descriptor of the program": ["trecv -", "tsend 2", "region 2 closed"], "alias": ["trecv -", "tsend 1"],
    # The memory of region 1 has been freed. The first buffer now reaches beyond the existing memory.
    "not within an allocation": ["trecv -", "region 1 closed", "tsend -", "trecv -", "tsend -"],
    "another allocation at the same place": ["trecv -", "region 3 closed", "tsend 4"],
}
MANY = 200
REGION = re.compile(r"desc: region (\d+) iface 1 device 3 pieces 1 len (\d+) access (\w+) flags 0")


def run(case, hooks, provider="tcp", driver=True, level="warn", macros=(), under=(), **env):
    """The steps of the program with what the inner hook said of each, and the log. It must succeed."""
    folder = case.folder / "-".join(["hmem", *macros])
    for name in ("cuda", "hooks"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    program = folder / "device"
    if not program.exists():
        compile_c(program, HERE / "device.c", [f"-L{case.library}", "-lfabric", "-ldl"], case.library)
        compile_c(folder / "cuda/libcuda.so.1", HERE / "fake_cuda.c", ["-shared", "-fPIC"], case.library)
        compile_c(folder / "hooks/libdesc-fi.so", HERE / "desc_hook.c",
                  ["-shared", "-fPIC", *[f"-D{name}" for name in macros]], case.library)
    kept = {key: value for key, value in os.environ.items() if not key.startswith("FI_")}
    libraries = [str(case.library), *([str(folder / "cuda")] if driver else [])]
    kept |= {"LD_LIBRARY_PATH": ":".join(libraries), "FI_LOG_LEVEL": level, "FI_TCP_IFACE": "lo", "FI_HOOK": hooks,
             "FI_PROVIDER_PATH": str(folder / "hooks")}
    kept |= env
    done = subprocess.run([*under, program, provider], env=kept, capture_output=True, text=True, timeout=120 * PATIENCE)
    check(done.returncode == 0 and done.stdout == "done\n", f"{hooks}: {done.returncode} {done.stdout} {done.stderr[-2000:]}")
    steps, log, step = {}, [], None
    for line in done.stderr.splitlines():
        if line.startswith("step: "):
            step = steps.setdefault(line[6:], [])
        elif line.startswith("desc: ") and step is not None:
            step.append(line[6:])
        elif line.startswith("libfabric:") or line.startswith("asked: "):
            log.append(line)
    return steps, log


def without_registrations(lines):
    return [line for line in lines if not REGION.fullmatch(f"desc: {line}")]


def registrations(steps):
    """Number, length and access rights."""
    lines = [line for step in steps.values() for line in step]
    return [match.groups() for line in lines if (match := REGION.fullmatch(f"desc: {line}"))]


def numbers_without_one(count, *missing):
    return [str(number) for number in range(count) if number not in missing]


def hmem_gives_descriptors(case):
    """Every call with a descriptor gets that of the buffer's region; each allocation is registered once."""
    for provider in ("tcp", "shm"):
        # Outer hooks do not see the descriptors, and may be in between.
        for hooks in ("desc;hmem", "desc;noop;hmem;noop"):
            steps, log = run(case, hooks, provider)
            for name, wanted in STEPS.items():
                equal((name, without_registrations(steps[name])), (name, wanted))
            regions = registrations(steps)
            equal([region[0] for region in regions], numbers_without_one(5 + MANY))
            # FI_SEND | FI_RECV | FI_READ | FI_WRITE, except for the program's own.
            equal([region[1:] for region in regions[:5]],
                  [("65536", "f00"), ("65536", "f00"), ("4096", "800"), ("4096", "f00"), ("65536", "f00")])
            beyond = [line for line in log if "<warn>" in line]
            check(len(beyond) == 1 and "reach beyond the allocation of 4096 bytes" in beyond[0], log)
            check("asked: often" in log, log)


def hmem_closes_regions(case):
    """Those of freed memory now and then, and all of a domain before that is closed."""
    steps, _ = run(case, "desc;hmem")
    many = steps["many that are freed"]
    closed = [index for index, line in enumerate(many) if line.endswith("closed")]
    check(100 < len(closed) < MANY and closed[0] < len(many) // 2, f"{len(closed)} of {MANY} closed")
    end = steps["end"]
    equal(end[-1], "domain closed")
    check(all(re.fullmatch(r"region \d+ closed", line) for line in end[:-1]), end)
    ended = [line.split()[1] for step in steps.values() for line in step if line.endswith("closed")][:-1]
    equal(sorted(map(int, ended)), list(range(5 + MANY)))


def hmem_without_regions(case):
    """Where nothing can be registered operations go on; the log tells it once for each allocation."""
    steps, log = run(case, "desc;hmem", macros=["REFUSES"])
    equal([line for line in steps["tagged"] if line != "refused"], ["trecv -", "tsend -"])
    equal(steps["untagged"], ["recv -", "send -"])
    warnings = [line for line in log if "<warn>" in line]
    # Two at first, two at the places of one of them, and many.
    equal(len(warnings), 4 + MANY)
    check(all("of CUDA device 3 cannot be registered (Cannot allocate memory)" in line for line in warnings), warnings)
    # Providers that ignore descriptors.
    for provider in ("tcp", "shm"):
        _, log = run(case, "hmem", provider)
        check(not any("cannot be registered" in line for line in log), log)


def hmem_keys_may_be_short(case):
    steps, log = run(case, "desc;hmem", macros=["SHORT_KEYS"])
    equal(without_registrations(steps["tagged"]), STEPS["tagged"])
    equal(len(registrations(steps)), 5 + MANY)
    check(not any("cannot be registered" in line for line in log), log)


def hmem_without_devices(case):
    """Without driver, or if FI_HMEM leaves it out, nothing is looked at."""
    for options, said, asked in (({"driver": False}, "libcuda.so.1", "asked: nobody"),
                                 ({"FI_HMEM": "rocr;ze"}, "FI_HMEM does not name cuda", "asked: never"),
                                 ({"FI_HMEM": ""}, "FI_HMEM does not name cuda", "asked: never")):
        steps, log = run(case, "desc;hmem", level="info", **options)
        equal(steps["tagged"], ["trecv -", "tsend -"])
        check(asked in log, log)
        equal(len([line for line in log if "hmem: " in line and said in line and "<info>" in line]), 1)
    steps, log = run(case, "desc;hmem", FI_HMEM="rocr;CUDA")
    equal(without_registrations(steps["tagged"]), STEPS["tagged"])


def main():
    from case import run_tests, tests_of
    named = {name: value for name, value in globals().items() if name.startswith("hmem_")}
    run_tests(tests_of(named), pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:])


if __name__ == "__main__":
    main()
