#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""run.py FOLDER [NAME...]: hooks (FI_HOOK) around fabrics of the libfabric.so.1 of FOLDER, ours and those of plug-ins. Tests are
called after the rules of fi_hook(7): which are put around what, in which order, and what each of ours prints or writes.

MON_SAMPLER may name the fi_mon_sampler of another build; then the file of the hook monitor is read by that, too. UPSTREAM_PLUGINS
may name a folder with a loadable ofi_rxm; then the fabrics that a layered provider opens below itself are looked at.
"""
import csv
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "plugins"))
from case import PATIENCE, PROVIDER, check, compile_c, equal, run_tests, tests_of  # noqa: E402


def run(case, hooks, *arguments, program="traffic", path=None, level="trace", **env):
    """What the program logs, without time and process; it must succeed."""
    binary = case.folder / program
    if not binary.exists():
        compile_c(binary, HERE / f"{program}.c", ["-Wno-deprecated-declarations", f"-L{case.library}", "-lfabric"], case.library)
    kept = {key: value for key, value in os.environ.items() if not key.startswith("FI_")}
    kept |= {"LD_LIBRARY_PATH": str(case.library), "FI_LOG_LEVEL": level, "FI_TCP_IFACE": "lo", "FI_HOOK": hooks,
             "FI_TCP_MAX_INJECT": "128", "FI_OFI_HOOK_MONITOR_BASEPATH": str(case.folder / "monitor")}
    if path is not None:
        kept["FI_PROVIDER_PATH"] = str(path)
    kept |= env
    done = subprocess.run([binary, *arguments], env=kept, capture_output=True, text=True, timeout=60 * PATIENCE)
    check(done.returncode == 0 and done.stdout == "done\n", f"{hooks}: {done.returncode} {done.stdout} {done.stderr[-2000:]}")
    return [re.sub(r"^libfabric:\d+:\d+:[^:]*:", "", line) for line in done.stderr.splitlines()]


def lines_with(lines, *parts):
    return [line for line in lines if all(part in line for part in parts)]


def make_hook(case, name, **options):
    macros = [f'-DNAME="{name}"', *[f"-D{key}" for key in options]]
    folder = case.folder / "hooks"
    folder.mkdir(exist_ok=True)
    compile_c(folder / f"lib{name}-fi.so", HERE / "hook.c", ["-shared", "-fPIC", *macros], case.library)
    return folder


def h1_h2_names(case):
    lines = run(case, "ofi_hook_noop;bogus;tcp;NOOP")
    # Two fabrics.
    equal(len(lines_with(lines, "hook ofi_hook_noop installed")), 4)
    for name in ("bogus", "tcp"):
        equal(len(lines_with(lines, "<warn>", f'no hook is called "{name}"')), 2)
    equal(len(lines_with(run(case, "perf,trace"), "<warn>", '"perf,trace"')), 2)
    equal(len(lines_with(run(case, ""), "<warn>", "FI_HOOK")), 2)


def h3_fi_provider_leaves_hooks_alone(case):
    for provider in ("tcp", "^ofi_hook_noop"):
        lines = run(case, "noop", FI_PROVIDER=provider)
        equal(len(lines_with(lines, "hook ofi_hook_noop installed")), 2)


def h4_h5_h6_the_first_is_innermost(case):
    folder = make_hook(case, "h1")
    make_hook(case, "h2")
    make_hook(case, "unwilling", REFUSES=True)
    lines = run(case, "h1;noop;unwilling;h2", path=folder)
    own = [line for line in lines if line.startswith(("h1:", "h2:", "unwilling:"))]
    around = [f"{name}: around tcp {PROVIDER}.0, attributes zero" for name in ("h1", "unwilling", "h2")]
    # The domain call passes through both hooks, the outer one first; so does closing.
    equal(own, around * 2 + ["h2: domain", "h1: domain"] + ["h2: closes", "h1: closes"] * 2)
    check(lines_with(lines, "unwilling", "leaves the fabric alone"), "one that refuses is not told")
    lines = run(case, "h1;H1", path=folder)
    equal(len(lines_with(lines, "h1: around")), 4)


def h7_fabrics_below_are_wrapped(case):
    folder = os.environ.get("UPSTREAM_PLUGINS")
    if not folder:
        return "UPSTREAM_PLUGINS does not name a folder with librxm-fi.so"
    lines = run(case, "noop;trace", "tcp;ofi_rxm", path=folder, FI_PROVIDER="tcp,ofi_rxm")
    check(lines_with(lines, "tcp:", "hook ofi_hook_trace installed"), "tcp's fabric is not wrapped")
    check(lines_with(lines, "ofi_rxm:", "hook ofi_hook_trace installed"), "the layer's fabric is not wrapped")
    check(lines_with(lines, "tcp:ep_data:trace_send"), "no call of the layer's")
    return None


def attributes_stay_the_callers(case):
    for hooks in ("noop", "noop;noop"):
        run(case, hooks, "tcp", "wait_set")


def h9_they_print_as_who_is_hooked(case):
    check(lines_with(run(case, "trace", FI_LOG_PROV="tcp"), "tcp:ep_data:trace_tsend"), "tcp's lines")
    equal(lines_with(run(case, "trace", FI_LOG_PROV="shm"), "trace_"), [])
    equal(lines_with(run(case, "trace", level="warn"), "trace_"), [])


def trace_says_what_is_called(case):
    lines = run(case, "trace")
    sends = lines_with(lines, "tcp:ep_data:trace_tsend():")
    equal(len(sends), 16)
    check(re.search(r"buf 0x[0-9a-f]+ len 1000 addr 0 data 0 flags 0x0 tag 0x7 ignore 0x0 ctx 0x[0-9a-f]+$", sends[10]), sends[10])
    # One call is refused.
    equal(len(lines_with(lines, "tcp:ep_data:trace_tinject():")), 1)
    writes = lines_with(lines, "tcp:ep_data:trace_write():")
    check(len(writes) == 1 and re.search(r" len 100 addr 0 raddr 0x0 data 0 flags 0x0 key 0x5 ctx ", writes[0]), writes)
    # Each message has one entry of a send, which has only its flags, and one of a receive; then a failure, an injected
    # message and the write.
    entries = lines_with(lines, "tcp:cq:trace_cq_read():")
    equal(len(entries), 33)
    check(any(re.search(r"ctx 0x\w+ flags 0x808$", line) for line in entries), entries[:3])
    check(any(re.search(r"ctx 0x\w+ flags 0x408 len 1000 buf 0x\w+, data 0 tag 0x7$", line) for line in entries), entries[:3])
    errors = lines_with(lines, "tcp:cq:trace_cq_readerr():", "olen 4", "err 265")
    equal(len(errors), 1)
    check(lines_with(lines, "tcp:domain:trace_mr_reg():", " len 100 flags 0x0"), "the region")
    check(lines_with(lines, "tcp:ep_ctrl:trace_getname():", "addr: fi_sockaddr_in"), "the address")
    check(lines_with(lines, "trace_cq_open", "format: FI_CQ_FORMAT_TAGGED"), "attributes")


def perf_counts_or_measures(case):
    for counter, unit in (("cpu_instr", "CPU instr"), ("cpu_cycles", "CPU cycles")):
        lines = run(case, "perf", FI_PERF_CNTR=counter)
        refused = lines_with(lines, "<warn>", counter, "cannot be counted", "nanoseconds")
        equal(len(refused), 2 if lines_with(lines, "PERF: nanoseconds") else 0)
        check(refused or lines_with(lines, f"PERF: {unit}"), "no table")
        rows = {line.split()[1]: line.split()[2:] for line in lines_with(lines, "perf_") if len(line.split()) == 4}
        equal(rows["perf_tsend"][1], "16")
        equal(rows["perf_tinject"][1], "2")
        check(float(rows["perf_tsend"][0]) > 0, rows)
        check("perf_cq_read" in rows and "perf_mr_reg" not in rows, rows)
    check(lines_with(run(case, "perf", FI_PERF_CNTR="zork"), "<warn>", "FI_PERF_CNTR=zork"), "no warning")


def profile_prints_a_table(case):
    lines = [line.split("<trace>", 1)[1].split() for line in run(case, "profile") if "<trace>" in line]
    check(["prov:", "tcp"] in lines, "no table")
    start = lines.index(["XFER_API", "Size", "Count", "Amount", "%", "Count", "%", "Amount"])
    table = lines[start:]
    for row in (["fi_trecv", "-", "17", "-", "100.00", "-"], ["send", "Any", "17", "5K", "100.00", "100.00"],
                ["fi_tsend", "0_64", "11", "88", "64.71", "1.73"], ["512_1K", "5", "4.9K", "29.41", "98.12"],
                ["fi_tinject", "0_64", "1", "8", "5.88", "0.16"], ["fi_write", "64_512", "1", "100", "100.00", "100.00"],
                ["fi_mr_reg", "system", "1", "100", "100.00", "100.00"]):
        check(row in table, f"no {row} in {table}")


def read_rows(sampler, file, *options):
    done = subprocess.run([sampler, *options, file], capture_output=True, text=True, timeout=60 * PATIENCE, check=True)
    rows = list(csv.reader(done.stdout.splitlines()))
    equal({len(row) for row in rows}, {756})
    return [{name: int(value) for name, value in zip(rows[0], row) if value != "0"} for row in rows[1:]]


def monitor_writes_a_file(case):
    samplers = [case.library / "fi_mon_sampler", os.environ.get("MON_SAMPLER")]
    if not samplers[0].exists():
        return "there is no fi_mon_sampler beside the library"
    for sampler in filter(None, samplers):
        run(case, "monitor", FI_OFI_HOOK_MONITOR_LINGER="1", SLURM_JOB_ID="77")
        base = case.folder / "monitor"
        folder = base / str(os.getuid()) / os.uname().nodename
        equal(base.stat().st_mode & 0o7777, 0o1777)
        equal([path.stat().st_mode & 0o7777 for path in (folder.parent, folder)], [0o1700] * 2)
        files = sorted(folder.iterdir())
        # There is one for each fabric of the process.
        check(all(re.fullmatch(rf"{os.getpid()}_\d+_{number}_77_tcp", file.name) for number, file in enumerate(files, 1)), files)
        equal([(file.stat().st_size, file.stat().st_mode & 0o777) for file in files], [(6056, 0o600)] * 2)
        equal(read_rows(sampler, files[0]), [{
            "mon_trecv_0_64_c": 17, "mon_tsend_0_64_c": 11, "mon_tsend_0_64_s": 88, "mon_tsend_512_1K_c": 5,
            "mon_tsend_512_1K_s": 5000, "mon_tinject_0_64_c": 1, "mon_tinject_0_64_s": 8, "mon_write_64_512_c": 1,
            "mon_write_64_512_s": 100, "mon_mr_reg_0_64_c": 1, "mon_mr_reg_0_64_s": 100, "mon_cq_tagged_tx_0_64_c": 17,
            "mon_cq_tagged_rx_0_64_c": 11, "mon_cq_tagged_rx_0_64_s": 88, "mon_cq_tagged_rx_512_1K_c": 5,
            "mon_cq_tagged_rx_512_1K_s": 5000}])
        equal(read_rows(sampler, files[1]), [{}])
        # A file that was read to its end is removed.
        equal(list(folder.iterdir()), [])
    run(case, "monitor")
    equal(list(folder.iterdir()), [])
    run(case, "monitor", FI_OFI_HOOK_MONITOR_LINGER="1", FI_OFI_HOOK_MONITOR_FILE_MODE="0666")
    equal([file.stat().st_mode & 0o777 for file in folder.iterdir()], [0o666] * 2)
    return None


def monitor_uses_no_folder_of_others(case):
    """Neither through a symbolic link, nor below a folder whose owner can replace it."""
    elsewhere = case.folder / "elsewhere"
    elsewhere.mkdir()

    def refuses(base, why):
        lines = run(case, "monitor", FI_OFI_HOOK_MONITOR_BASEPATH=str(base), FI_OFI_HOOK_MONITOR_LINGER="1")
        check(lines_with(lines, "<warn>", "monitor: ", why), lines[-5:])
        equal(list(elsewhere.iterdir()), [])
    (case.folder / "link").symlink_to(elsewhere)
    refuses(case.folder / "link", "symbolic link")
    base = case.folder / "base"
    base.mkdir()
    (base / str(os.getuid())).symlink_to(elsewhere)
    refuses(base, "symbolic link")
    if os.getuid() != 0:
        return "only root can make a folder of another user"
    other = case.folder / "other"
    other.mkdir()
    os.chown(other, 12345, 12345)
    refuses(other, "belongs to another user")
    return None


def monitor_answers_while_it_runs(case):
    """A flag that is set is answered within FI_OFI_HOOK_MONITOR_TICK_MAX calls, and counting begins anew."""
    if not (case.library / "fi_mon_sampler").exists():
        return "there is no fi_mon_sampler beside the library"
    folder = case.folder / "monitor" / str(os.getuid()) / os.uname().nodename
    run(case, "monitor", FI_OFI_HOOK_MONITOR_LINGER="1")
    files = sorted(folder.iterdir())
    # If the program of a file has not answered, there is nothing to read.
    content = bytearray(files[0].read_bytes())
    content[6048] = 1
    files[1].write_bytes(content)
    equal(read_rows_or_none(case, files[1]), None)
    compile_c(case.folder / "watched", HERE / "watched.c", [f"-L{case.library}", "-lfabric"], case.library)
    env = dict(os.environ, LD_LIBRARY_PATH=str(case.library), FI_HOOK="monitor", FI_TCP_IFACE="lo",
               FI_OFI_HOOK_MONITOR_BASEPATH=str(case.folder / "other"), FI_OFI_HOOK_MONITOR_TICK_MAX="10")
    for linger in ("0", "1"):
        env["FI_OFI_HOOK_MONITOR_LINGER"] = linger
        done = subprocess.run([case.folder / "watched"], env=env, capture_output=True, text=True, timeout=60 * PATIENCE)
        equal((done.returncode, done.stdout), (0, "done\n"))
    return None


def read_rows_or_none(case, file):
    done = subprocess.run([case.library / "fi_mon_sampler", file], capture_output=True, text=True, timeout=60 * PATIENCE, check=True)
    return done.stdout or None


def sampler_arguments(case):
    sampler = case.library / "fi_mon_sampler"
    if not sampler.exists():
        return "there is no fi_mon_sampler beside the library"

    def code(*arguments):
        return subprocess.run([sampler, *arguments], capture_output=True, text=True, timeout=60 * PATIENCE).returncode

    equal([code(), code("-h"), code("/nowhere"), code(case.folder), code("-f", "xml", case.folder)], [0, 1, 254, 254, 254])
    (case.folder / "in").mkdir()
    (case.folder / "in/short").write_text("no counts")
    (case.folder / "in/1_2_1_0_tcp").write_bytes(bytes(6056))
    equal(code("-o", case.folder, case.folder / "in"), 0)
    equal(len((case.folder / "1_2_1_0_tcp.csv").read_text().splitlines()), 2)
    check(not (case.folder / "short.csv").exists(), "a file of others was read")
    return None


def debug_says_what_returns(case):
    lines = run(case, "debug")
    sends = lines_with(lines, "fi_tsend (fid: 0x", "returned: 0 (Success)")
    equal(len(sends), 16)
    check(lines_with(lines, "tx_outs: 1") and lines_with(lines, "tx_outs: 0"), "sends that are outstanding")
    equal(lines_with(lines, "closed, tx_outs"), [])
    # Only the first of many is reported.
    equal(len(lines_with(lines, "fi_cq_read", "returned: -11")), 1)
    equal(len(lines_with(lines, "cq_entry:", "len: 1000 tag: 0x7")), 5)
    check(lines_with(lines, "FI_NOTIFY", ": 1"), "the event")


def all_at_once_over_each_provider(case):
    hooks = "perf;profile;trace;debug;monitor;noop"
    for provider in ("tcp", "shm", "sm2"):
        lines = run(case, hooks, provider)
        equal(len(lines_with(lines, "hook ofi_hook", "installed")), 12)


def fi_info_shows_hooks(case):
    if not (case.library / "fi_info").exists():
        return "there is no fi_info beside the library"
    env = dict(os.environ, LD_LIBRARY_PATH=str(case.library))
    done = subprocess.run([case.library / "fi_info", "-l"], env=env, capture_output=True, text=True, timeout=60 * PATIENCE)
    for name in ("perf", "trace", "profile", "monitor", "debug", "noop", "hmem"):
        check(f"ofi_hook_{name}:\n    version: {PROVIDER}.0\n" in done.stdout, done.stdout)
    return None


if __name__ == "__main__":
    run_tests(tests_of(dict(globals())), pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:])
