#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""run.py FOLDER [--plugin PLUGIN --other OTHER] [NAME...]: loadable providers in the libfabric.so.1 of FOLDER. Each test is
called after the rule of fi_provider(7) that it is about: where plug-ins are looked for, which count, what is asked of them, and
what becomes of bad ones. PLUGIN holds our providers as a plug-in, OTHER another libfabric.so.1 that loads it.

UPSTREAM_PLUGINS may name a folder with the loadable providers of the original library; then they are loaded, too.
"""
import argparse
import os
import pathlib
import shutil
import subprocess

from case import HERE, PATIENCE, PROVIDER, RELEASE, check, compile_c, compile_for_others, equal, run_tests, tests_of

FLAGS = {"no_postprocessing": 1 << 58, "core": 1 << 59, "hidden": 1 << 60, "offload": 1 << 61}


def l6_pieces_are_folders(case):
    case.make("B/libzzz-fi.so", "zzz")
    equal(case.ask(path="D/none:D/B:").started(), ["zzz"])
    equal(case.ask(path="B", cwd=case.folder).started(), ["zzz"])
    equal(case.ask(path="::B", cwd=case.folder).started(), ["zzz"])
    equal(case.ask(path=" B", cwd=case.folder).started(), [])
    equal(case.ask(path="D/B/libzzz-fi.so").started(), [])


def l8_known_names_are_found_by_the_loader(case):
    case.make("lib/libefa-fi.so", "efa")
    case.make("lib/libzork-fi.so", "zork")
    paths = f"{case.library}:{case.folder / 'lib'}"
    equal(case.ask(LD_LIBRARY_PATH=paths).started(), ["efa"])
    equal(case.ask(LD_LIBRARY_PATH=paths, path="D/none").started(), [])


def l8_the_default_folder_lies_beside_the_library(case):
    there = case.folder / "there"
    there.mkdir()
    shutil.copy(case.library / "libfabric.so", there / "libfabric.so.1")
    case.make("there/libfabric/libzzz-fi.so", "zzz")
    for path in (None, "", "@"):
        equal(case.ask(LD_LIBRARY_PATH=str(there), path=path).started(), ["zzz"])
    equal(case.ask(LD_LIBRARY_PATH=str(there), path="D/none").started(), [])


def l11_preferred_files_are_absolute(case):
    case.make("any.so", "zzz")
    equal(case.ask(path="+D/any.so").started(), ["zzz"])
    for path in ("+any.so", "+D/missing.so"):
        answer = case.ask(path=path, cwd=case.folder)
        equal(answer.started(), [])
        check(answer.logged("<warn>", path.split("/")[-1]), f"no warning of {path}")


def l13_l14_names_and_their_order(case):
    case.make("A/libaaa-fi.so", "aaa")
    case.make("A/libbbb-fi.so", "bbb")
    case.make("A/xfi.so", "ccc")
    case.make("A/libno.so", "no")
    (case.folder / "A/junk-fi.so").write_text("no library")
    (case.folder / "A/gone-fi.so").symlink_to("/nowhere")
    answer = case.ask(path="D/A")
    equal(answer.started(), ["ccc", "bbb", "aaa"])
    check(answer.logged("<warn>", "junk-fi.so") and answer.logged("<warn>", "gone-fi.so"), "no warnings")
    equal([name for name, _ in answer.providers], ["verbs", "ofi_rxm", "ofi_rxd", "shm", "udp", "tcp", "sockets", "off_coll", "ccc", "bbb", "aaa", "ofi_mrail", "sm2", "lnx"])


def l15_what_fi_provider_leaves_out(case):
    case.make("A/libefa-fi.so", "efa")
    case.make("A/libaaa-fi.so", "aaa")
    answer = case.ask(path="D/A", FI_PROVIDER="tcp")
    # aaa is an unknown name, so the file must be opened to find its name.
    equal(answer.started(), ["aaa"])
    equal(set(answer.entries), {"tcp", "tcp;ofi_rxm"})
    check(answer.logged("libefa-fi.so", "FI_PROVIDER_OPEN=all"), "no line")
    equal(case.ask(path="D/A", FI_PROVIDER="tcp", FI_PROVIDER_OPEN="all").started(), ["efa", "aaa"])
    equal(case.ask(path="D/A", FI_PROVIDER="aaa").entries, ["aaa"])
    check("efa" in case.ask(path="D/A", FI_PROVIDER="^tcp").entries, "efa is not asked")


def l17_a_file_without_an_entry(case):
    case.make("A/libx-fi.so", "x", NO_ENTRY=True)
    check(case.ask(path="D/A").logged("<warn>", "libx-fi.so", "fi_prov_ini"), "no warning")


def l18_a_file_that_is_reached_twice(case):
    case.make("A/libx-fi.so", "x")
    (case.folder / "A/liby-fi.so").symlink_to("libx-fi.so")
    answer = case.ask(path="D/A:D/A:+D/A/libx-fi.so")
    equal(answer.started(), ["x"])
    equal(answer.of("x"), ["x"])
    equal([line for line in answer.said if "cleanup" in line], ["x: cleanup"])
    check(answer.logged("opened before"), "no line")
    # It is still preferred.
    case.make("B/libold-fi.so", "dup", 1)
    case.make("B/libnew-fi.so", "dup", 9)
    versions = [version for name, version in case.ask(path="D/B:+D/B/libold-fi.so").providers if name == "dup"]
    equal(versions, ["1", "9"])


def l19_to_l22_refused_providers(case):
    for name, options, cleaned, says in (
            ("null", {"RETURNS_NULL": True}, 0, None), ("nameless", {"NULL_NAME": True}, 1, None),
            ("fabricless", {"NO_FABRIC": True}, 1, "cannot open a fabric"),
            ("old", {"api": "FI_VERSION(1, 2)"}, 1, "1.2")):
        case.make("A/libx-fi.so", name, **options)
        answer = case.ask(path="D/A")
        equal(answer.code, 0)
        equal(answer.of(name), [])
        equal(len([line for line in answer.said if "cleanup" in line]), cleaned)
        check(not says or answer.logged("<warn>", says), f"{name}: nothing said")
    case.make("A/libx-fi.so", "future", api="FI_VERSION(9, 9)")
    equal(case.ask(path="D/A").of("future"), ["future"])


def l25_to_l30_which_of_a_name_counts(case):
    case.make("D1/libdup-fi.so", "dup", 1)
    case.make("D2/libdup-fi.so", "dup", 2)
    case.make("D3/libdup-fi.so", "DUP", 2)
    plus1, plus2 = "+D/D1/libdup-fi.so", "+D/D2/libdup-fi.so"
    for path, name, version in (
            ("D/D1:D/D2", "dup", "2"), ("D/D3:D/D2:D/D1", "DUP", "2"), ("@D/D1:D/D2", "dup", "1"),
            (f"D/D2:{plus1}", "dup", "1"), (f"{plus1}:D/D2", "dup", "1"), (f"{plus1}:{plus2}:D/D3", "dup", "1"),
            ("D/D2:@D/D1", "dup", "2")):
        answer = case.ask(path=path)
        first = next(provider for provider in answer.providers if provider[0].lower() == "dup")
        equal((path, *first), (path, name, version))
        equal(answer.of(name), [name])
    # With equal versions our provider is used; the original library takes the plug-in.
    for version, ours in ((PROVIDER - 1 << 16, True), (PROVIDER << 16, True), (PROVIDER << 16 | 10, False)):
        case.make("T/libtcp-fi.so", "tcp", version)
        equal("tcp: asked" in case.ask("-p", "tcp", path="D/T").err, not ours)
        check("tcp: asked" in case.ask("-p", "tcp", path="@D/T").err, "order of discovery")
        check("tcp: asked" in case.ask("-p", "tcp", path="+D/T/libtcp-fi.so").err, "preferred")
    answer = case.ask("-p", "dup", "-f", str(FLAGS["hidden"]), path="D/D1:D/D2")
    equal(answer.of("dup"), ["dup", "dup"])


def l31_cleanup_at_the_end(case):
    case.make("A/liba-fi.so", "aaa")
    case.make("A/libb-fi.so", "bbb")
    equal(case.ask(path="D/A").said[-2:], ["bbb: cleanup", "aaa: cleanup"])


def asking_while_it_is_loaded(case):
    case.make("A/liba-fi.so", "aaa", ASKS=True)
    answer = case.ask(path="D/A")
    equal(answer.of("aaa"), ["aaa"])
    check("aaa: fi_getinfo -16" in answer.said, f"fi_getinfo: {answer.said}")
    check("aaa: fi_open -38" in answer.said and "aaa: fi_getparams 0" in answer.said, f"others: {answer.said}")
    check(answer.logged("<warn>", "fi_prov_ini"), "no line")
    case.make("A/liba-fi.so", "aaa", CONSTRUCTS=True)
    answer = case.ask(path="D/A")
    check("aaa: constructor, fi_getinfo -16" in answer.said, answer.said)
    equal(answer.of("aaa"), ["aaa"])


def an_entry_that_never_returns(case):
    case.make("A/liba-fi.so", "aaa", SLEEPS=True)
    case.make("A/libb-fi.so", "bbb")
    answer = case.ask(path="D/A", FI_PROVIDER_TIMEOUT="300")
    equal(answer.code, 0)
    equal((answer.of("aaa"), answer.of("bbb")), ([], ["bbb"]))
    check(answer.logged("<warn>", "liba-fi.so", "has not come back"), "no line")


def parameters_and_log(case):
    case.make("A/liba-fi.so", "aaa")
    answer = case.ask(path="D/A", FI_AAA_KNOB="7")
    check("aaa: knob 7" in answer.said, answer.said)
    check(answer.logged(":aaa:core:", "a line of aaa"), "the plug-in's line")
    check(answer.logged("registering provider aaa", "liba-fi.so"), "no registration")


def g6_g7_g8_who_is_asked(case):
    case.make("A/libuu-fi.so", "ofi_uu", NAMES="tcp")
    case.make("A/libcore-fi.so", "core1")
    # Our layered providers also call fi_getinfo of the providers below.
    asked = lambda name: sorted({line.split(":")[0] for line in case.ask("-p", name, path="D/A").said if "asked" in line})
    for name in ("tcp;ofi_uu", "ofi_uu", "tcp", "ofi_uu;tcp"):
        equal((name, asked(name)), (name, ["ofi_uu"]))
    equal(asked("core1"), ["core1", "ofi_uu"])
    equal(asked("core1;^ofi_uu"), ["core1"])
    equal(asked("shm"), [])
    equal(asked("core1;ofi_rxd"), ["core1"])
    equal(asked("core1;ofi_mrail"), [])
    equal(case.ask("-p", "tcp;ofi_uu", path="D/A").entries, ["tcp;ofi_uu"])
    equal(case.ask("-p", "ofi_uu", path="D/A", FI_PROVIDER="udp").entries, [])


def g4_core_providers_only(case):
    case.make("A/libuu-fi.so", "ofi_uu")
    case.make("A/libefa-fi.so", "efa")
    case.make("A/libc-fi.so", "ccc")
    flag = str(FLAGS["core"])
    answer = case.ask("-f", flag, path="D/A")
    equal(set(answer.entries), {"udp", "tcp", "ccc", "sm2"})
    equal(case.ask("-f", flag, "-p", "efa", path="D/A").entries, ["efa"])
    check("flags 800000000000000" in answer.err, "the flags are not those of the caller")


def g1_fi_provider_below_a_layer(case):
    flag = str(FLAGS["core"])
    equal(set(case.ask("-f", flag, FI_PROVIDER="tcp;ofi_uu").entries), {"tcp"})
    equal(case.ask(FI_PROVIDER="tcp;ofi_uu").entries, [])
    equal(case.ask("-f", flag, FI_PROVIDER="ofi_uu").entries, [])
    check({"tcp", "udp", "shm"} <= set(case.ask("-f", str(FLAGS["hidden"]), FI_PROVIDER="tcp").entries), "hidden ones")


def g2_offload_providers(case):
    case.make("A/libo-fi.so", "off_load")
    equal(case.ask("-p", "off_load", path="D/A").entries, [])
    equal(case.ask("-p", "off_load", "-f", str(FLAGS["offload"]), path="D/A").entries, ["off_load"])


def g9_versions(case):
    case.make("A/libo-fi.so", "old", api="FI_VERSION(1, 3)")
    equal(case.ask("-v", "1.3", path="D/A").of("old"), ["old"])
    answer = case.ask("-v", "1.4", path="D/A")
    equal(answer.of("old"), [])
    check(answer.logged("old", "version"), "no reason")


def g11_g12_answers_without_entries(case):
    case.make("A/libf-fi.so", "failing", FAILS=True)
    case.make("A/libe-fi.so", "empty", EMPTY=True)
    answer = case.ask(path="D/A")
    equal((answer.of("failing"), answer.of("empty")), ([], []))
    check(answer.logged("failing", "fi_getinfo"), "failure")
    check(answer.logged("<warn>", "empty", "without an entry"), "empty")
    check(case.ask("-p", "failing", path="D/A").logged("<warn>", "failing"), "a named one that fails is a warning")


def g13_g14_entries(case):
    case.make("A/libn-fi.so", "nulls", NULL_ATTRS=True)
    case.make("A/libc-fi.so", "cyclic", CYCLE=True)
    case.make("A/libm-fi.so", "mine", NAMES="mine")
    case.make("A/libl-fi.so", "lnx_uu", NAMES="a:b")
    case.make("A/liblength-fi.so", "length", LENGTH=True)
    answer = case.ask(path="D/A")
    equal(answer.code, 0)
    equal((answer.of("nulls"), answer.of("cyclic"), answer.of("length")), ([], ["cyclic", "cyclic"], []))
    check("mine;mine" in answer.entries and "a:b" in answer.entries, answer.entries)
    check("entry mine;mine 0.1 api 2.6 handle 0x1234" in answer.out, "the entry is not as it was made")


def pitfall_4_collectives_of_another(case):
    """Those of ofi_rxm are off_coll's, whose records it uses: without a loadable one they would end the process."""
    # Newer than ours.
    case.make("A/librxm-fi.so", "ofi_rxm", 1000 << 16, COLLECTIVE=True)
    answer = case.ask("-p", "ofi_rxm", path="D/A")
    equal(len(answer.of("ofi_rxm")), 1)
    check(answer.logged("refused: ofi_rxm: caps", "FI_COLLECTIVE", "off_coll"), "no reason")
    case.make("A/liboff-fi.so", "off_coll")
    equal(len(case.ask("-p", "ofi_rxm", path="D/A").of("ofi_rxm")), 2)
    equal(len(case.ask("-p", "ofi_rxm", path="D/A", FI_PROVIDER="^off_coll").of("ofi_rxm")), 1)
    case.make("A/libother-fi.so", "ofi_other", COLLECTIVE=True)
    equal(len(case.ask("-p", "ofi_other", path="D/A").of("ofi_other")), 2)


def f2_f3_f5_fabrics(case):
    case.make("A/liba-fi.so", "aaa")
    case.make("A/libhook_x-fi.so", "ofi_hook_x", NO_GETINFO=True)
    answer = case.ask("-o", "x;y;AAA", path="D/A", FI_PROVIDER="tcp")
    check("fi_fabric 0 api 2.6" in answer.out, answer.out)
    check("aaa: fabric some of x;y;AAA" in answer.said and "aaa: closed" in answer.said, answer.said)
    check(answer.logged("aaa:fabric", "liba-fi.so"), "the file is not told")
    for name in ("x;", "zork", "ofi_hook_x"):
        check("fi_fabric -19" in case.ask("-o", name, path="D/A").out, name)


def fi_info_shows_files(case):
    if not (case.library / "fi_info").exists():
        return "there is no fi_info beside the library"
    case.make("A/liba-fi.so", "aaa", 7)
    env = dict(os.environ, LD_LIBRARY_PATH=str(case.library), FI_PROVIDER_PATH=str(case.folder / "A"))
    done = subprocess.run([case.library / "fi_info", "-l"], env=env, capture_output=True, text=True, timeout=60 * PATIENCE)
    check(f"aaa:\n    version: 0.7\n    file: {case.folder}/A/liba-fi.so\n" in done.stdout, done.stdout)
    check(f"tcp:\n    version: {PROVIDER}.0\n    file" not in done.stdout and f"tcp:\n    version: {PROVIDER}.0\n" in done.stdout, done.stdout)
    return None


def names_do_not_reach_the_terminal_as_they_are(case):
    if not (case.library / "fi_info").exists():
        return "there is no fi_info beside the library"
    # fi_info requests the interface of its release, which a plug-in must support.
    case.make("A/libx-fi.so", r"x\x1b[2J\ny", api=f"FI_VERSION({RELEASE.interface.replace('.', ', ')})")
    env = dict(os.environ, LD_LIBRARY_PATH=str(case.library), FI_PROVIDER_PATH=str(case.folder / "A"), FI_LOG_LEVEL="info")
    for arguments in ([], ["-v"], ["-l"], ["--table"], ["--json"]):
        done = subprocess.run([case.library / "fi_info", *arguments], env=env, capture_output=True, text=True, timeout=60 * PATIENCE)
        equal(done.returncode, 0)
        check("x" in done.stdout and "[2J" in done.stdout, f"{arguments}: the plug-in is not listed")
        # The plug-in itself writes to standard error, so only lines of the library count.
        lines = [line for line in done.stderr.splitlines() if line.startswith("libfabric:")]
        check("\x1b" not in done.stdout + "".join(lines), f"{arguments}: an escape sequence")
    return None


def a_fifo_in_a_folder(case):
    case.make("A/liba-fi.so", "aaa")
    os.mkfifo(case.folder / "A/libb-fi.so")
    answer = case.ask(path="D/A:+D/A/libb-fi.so")
    equal((answer.code, answer.started()), (0, ["aaa"]))
    check(answer.logged("<warn>", "A/libb-fi.so", "no regular file"), "no line")


def many_files_and_odd_folders(case):
    one = case.make("A/lib0-fi.so", "one")
    for number in range(1, 1000):
        os.link(one, case.folder / f"A/lib{number}-fi.so")
    (case.folder / "closed").mkdir(mode=0)
    answer = case.ask(path=f"D/closed:{'x' * 5000}:/proc/self/mem:D/A")
    equal(answer.code, 0)
    equal(answer.of("one"), ["one"])


def a_file_that_goes_while_others_are_opened(case):
    gone = case.make("A/liba-fi.so", "aaa")
    case.make("A/libz-fi.so", "zzz", REMOVES=str(gone))
    answer = case.ask(path="D/A")
    equal((answer.code, answer.started()), (0, ["zzz"]))
    check(answer.logged("<warn>", "A/liba-fi.so"), "no line")


def programs_with_more_rights(case):
    """Who starts a program that runs as somebody else does not say what code it loads."""
    if os.getuid() != 0:
        return "only root can make a program that runs as somebody else"
    case.make("A/libzzz-fi.so", "zzz")
    compile_c(case.ask_program, HERE / "ask.c", [f"-L{case.library}", "-lfabric", f"-Wl,-rpath,{case.library}"], case.library)
    os.chown(case.ask_program, 65534, 65534)
    case.ask_program.chmod(0o4755)
    # The user of the program must be able to find it and the library.
    case.folder.chmod(0o755)
    answer = case.ask(path="D/A")
    if answer.code == 127:
        return "the library is in a folder that others may not search"
    equal((answer.code, answer.started()), (0, []))
    check(answer.logged("<warn>", "FI_PROVIDER_PATH is ignored"), f"no line: {answer.err}")
    check("tcp" in answer.entries, answer.entries)
    return None


def arrays_with_objects_of_others(case):
    """fi_trywait and fi_poll of ours ask them by their own tables."""
    carry = case.folder / "libcarry-fi.so"
    compile_c(carry, HERE / "carry/provider.c", ["-shared", "-fPIC", "-pthread", "-fvisibility=hidden",
              *[str(file) for file in (HERE / "carry").glob("*.c") if file.name != "provider.c"], f"-L{case.library}", "-lfabric"],
              case.library)
    program = case.folder / "arrays"
    compile_c(program, HERE / "arrays.c", ["-Wno-deprecated-declarations", f"-L{case.library}", "-lfabric"], case.library)
    kept = {key: value for key, value in os.environ.items() if not key.startswith("FI_")}
    kept |= {"LD_LIBRARY_PATH": str(case.library), "FI_PROVIDER_PATH": str(case.folder)}
    for hooks, *how in (({},), ({}, "fd"), ({"FI_HOOK": "noop"}, "fd")):
        done = subprocess.run([program, *how], env=kept | hooks, capture_output=True, text=True, timeout=60 * PATIENCE)
        equal((done.returncode, done.stdout), (0, "done\n"))


def layers_derive_what_is_below(case):
    """Completion data of writes, the network card and limits are those of the provider below."""
    carry = case.folder / "libcarry-fi.so"
    sources = [str(file) for file in (HERE / "carry").glob("*.c") if file.name != "provider.c"]
    compile_c(carry, HERE / "carry/provider.c", ["-shared", "-fPIC", "-pthread", "-fvisibility=hidden", *sources,
              f"-L{case.library}", "-lfabric"], case.library)
    program = case.folder / "derived"
    compile_c(program, HERE / "derived.c", [f"-L{case.library}", "-lfabric"], case.library)
    kept = {key: value for key, value in os.environ.items() if not key.startswith("FI_")}
    kept |= {"LD_LIBRARY_PATH": str(case.library), "FI_PROVIDER_PATH": str(case.folder)}
    for layered, demands, size in (("ofi_rxm", "none", 8), ("ofi_rxm", "data4", 4), ("ofi_rxm", "data4,rx_cq_data,iov1", 4),
                                   ("ofi_rxd", "none", 8)):
        kind = "msg" if layered == "ofi_rxm" else "dgram"
        done = subprocess.run([program, f"carry;{layered}", kind, str(size)], env=kept | {"CARRY_DEMANDS": demands},
                              capture_output=True, text=True, timeout=60 * PATIENCE)
        equal((done.returncode, done.stdout), (0, "done\n"))


def inside_another(case):
    """Ours in the libfabric of somebody else: they count there, and carry messages."""
    if not OPTIONS.plugin or not (pathlib.Path(OPTIONS.other or "") / "libfabric.so.1").exists():
        return "--plugin and --other do not name folders with the plug-in and another library"
    env = {"LD_LIBRARY_PATH": str(pathlib.Path(OPTIONS.other).resolve()), "path": str(OPTIONS.plugin)}
    # The other library may be older than ours.
    answer = case.ask("-v", "2.0", "-p", "tcp", "-o", "tcp", **env)
    check(("tcp", str(1000 << 16)) in answer.providers, answer.providers)
    check("entry tcp 1000.0" in answer.out and "fi_fabric 0" in answer.out, answer.out)
    check(answer.logged("libironfabric-fi.so"), "another file serves")
    check(set(answer.entries) <= {"tcp", "tcp;ofi_rxm"}, answer.entries)
    only = case.ask("-v", "2.0", IRONFABRIC_PROVIDERS="shm,zork", **env)
    check(only.logged("<warn>", "IRONFABRIC_PROVIDERS", "zork"), "no warning")
    check([version for name, version in only.providers if name == "shm"][0] == str(1000 << 16), only.providers)
    check(("tcp", str(1000 << 16)) not in only.providers, only.providers)
    # Messages between two endpoints of tcp, and of shm.
    program = case.folder / "callers"
    compile_for_others(program, HERE.parent / "releases/callers.c", ["-DAPI=FI_VERSION(2, 0)"], case.library)
    kept = {key: value for key, value in os.environ.items() if not key.startswith("FI_")}
    kept |= {"LD_LIBRARY_PATH": env["LD_LIBRARY_PATH"], "FI_PROVIDER_PATH": env["path"], "FI_TCP_IFACE": "lo"}
    done = subprocess.run([program, "messages_of_each"], env=kept, capture_output=True, text=True, timeout=60 * PATIENCE)
    equal((done.returncode, done.stdout), (0, "1 tests, 0 failed\n"))
    return None


def upstream(case):
    folder = os.environ.get("UPSTREAM_PLUGINS")
    if not folder:
        return "UPSTREAM_PLUGINS does not name a folder"
    answer = case.ask(path=folder)
    equal(answer.code, 0)
    check(answer.of("sockets"), "sockets")
    check("tcp;ofi_rxm" in answer.entries and "udp;ofi_rxd" in answer.entries, answer.entries)
    check("tcp" in case.ask("-p", "tcp", "-f", str(FLAGS["core"]), path=folder).entries, "tcp below others")
    return None


TESTS = tests_of(dict(globals()))


OPTIONS = None


def main():
    global OPTIONS
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library")
    parser.add_argument("--plugin", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--other")
    parser.add_argument("names", nargs="*")
    OPTIONS = parser.parse_args()
    run_tests(TESTS, pathlib.Path(OPTIONS.library).resolve(), OPTIONS.names)


if __name__ == "__main__":
    main()
