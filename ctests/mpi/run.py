# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Run the MPI programs of this folder on a libfabric.so.1 and print what passed.

usage: run.py --python-env FOLDER [--library FOLDER] [--provider NAME] [--ranks N ...] [--variants NAME ... | all]
              [--repeat N] [--long] [-- PROGRAM[:CHECK] ...]
Without --library the MPICH wheel's own libfabric is used, to see what upstream makes of the same programs.
A variant runs them with other settings of the provider or of MPICH, for paths that the defaults do not take.
The program short_lives is run for each of its checks, as jobs of their own that end at once; --long runs those 20 times
with each number of ranks from 2 to 10.
"""

import argparse
import collections
import itertools
import re
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "scripts" / "demo"))
from launch import Failed, Library, main_with_message, run  # noqa: E402  (found by the line above)

PROGRAMS = ("point_to_point", "datatypes", "collectives", "communicators", "one_sided", "threads")

# Each of its checks is a job, because it tests how jobs end.
SHORT_LIVES = "short_lives"
# Such a job takes a second. One that hangs must be found before many of them take an hour.
LIFE_LIMIT = 20

# Paths inside a provider.
PATHS = {
    "tcp": {
        # Tagged messages above 16 KiB use a rendezvous: ready-to-send, clear-to-send, data.
        "rendezvous": {"FI_TCP_MAX_SAVED_SIZE": "16384"},
        # Every frame is a system call of its own, in both directions.
        "unbuffered": {"FI_TCP_STAGING_SBUF_SIZE": "0", "FI_TCP_PREFETCH_RBUF_SIZE": "0"},
        "small_inject": {"FI_TCP_MAX_INJECT": "16"},
        # The ranks of one host communicate as those of several hosts do.
        "sockets": {"FI_TCP_SHARED_MEMORY": "0"},
    },
    "shm": {
        "rendezvous": {"FI_SHM_MAX_SAVED_SIZE": "16384"},
        # Rings are full most of the time.
        "small_ring": {"FI_SHM_RING_SIZE": "4096"},
        "no_cma": {"FI_SHM_DISABLE_CMA": "1"},
    },
}
PATHS["sockets"] = {"wire": {"FI_TCP_SHARED_MEMORY": "0"}}
PATHS["tcp;ofi_rxm"] = {
    "rendezvous": {"FI_OFI_RXM_BUFFER_SIZE": "512", "FI_OFI_RXM_SAR_LIMIT": "1"},
    "rendezvous_write": {"FI_OFI_RXM_USE_RNDV_WRITE": "1", "FI_OFI_RXM_SAR_LIMIT": "1"},
    "segments": {"FI_OFI_RXM_BUFFER_SIZE": "512", "FI_OFI_RXM_SAR_LIMIT": "1000000"},
}
PATHS["udp;ofi_rxd"] = {}
PATHS["verbs;ofi_rxm"] = {}
PATHS["lnx"] = {}
# It has no RMA: MPICH implements one-sided operations by messages, and with 4 ranks crashes there, over tcp without RMA
# too.
PATHS["sm2"] = PATHS["shm"]
# tcp's transport with all its features by default.
PATHS["sockets"] = PATHS["tcp"]


def variants_of(provider):
    """The settings of each. What fi_getinfo shows without hints is what MPICH chooses from: FI_..._OFFER_ALL widens it."""
    offer_all = {"tcp": "FI_TCP_OFFER_ALL"}.get(provider, "FI_SHM_OFFER_ALL")
    return {
        "plain": {},
        **PATHS[provider],
        # An MPICH thread that drives progress all the time, beside the application's thread.
        "progress_thread": {"MPIR_CVAR_ASYNC_PROGRESS": "1"},
        # Several domains, endpoints and CQs in each process.
        "four_vcis": {"MPIR_CVAR_CH4_NUM_VCIS": "4"},
        # Features that MPICH leaves off for tcp, because libfabric's tcp lacks them; they are on for shm.
        "atomics": {offer_all: "1", "MPIR_CVAR_CH4_OFI_ENABLE_ATOMICS": "1"},
        "scalable_endpoints": {offer_all: "1", "MPIR_CVAR_CH4_OFI_ENABLE_SCALABLE_ENDPOINTS": "1",
                               "MPIR_CVAR_CH4_NUM_VCIS": "4"},
        "shared_contexts": {"MPIR_CVAR_CH4_OFI_ENABLE_SHARED_CONTEXTS": "1"},
    }


# Features that MPICH silently gives up if the provider does not support them, and the line of its summary if it does.
IN_FORCE = {
    "atomics": "MPIDI_OFI_ENABLE_ATOMICS: 1",
    "scalable_endpoints": "MPIDI_OFI_ENABLE_SCALABLE_ENDPOINTS: 1",
    "shared_contexts": "MPIDI_OFI_ENABLE_SHARED_CONTEXTS: 1",
}


def jobs_of(wanted):
    """The programs to start for what stands in the command line."""
    if wanted != SHORT_LIVES:
        return [wanted]
    source = (HERE / f"{SHORT_LIVES}.py").read_text()
    return [f"{SHORT_LIVES}:{life}" for life in re.findall(r"^def (\w+)\(_?comm\):", source, re.MULTILINE)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python-env", required=True)
    parser.add_argument("--library")
    parser.add_argument("--ranks", type=int, nargs="+")
    parser.add_argument("--provider", default="tcp", choices=PATHS)
    parser.add_argument("--variants", nargs="+", default=["plain"], metavar="NAME")
    parser.add_argument("--limit", type=float, help=f"seconds for a job (120; {SHORT_LIVES}: {LIFE_LIMIT})")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--long", action="store_true")
    parser.add_argument("programs", nargs="*", metavar="PROGRAM[:CHECK]")
    args = parser.parse_args()
    library = Library("ironfabric" if args.library else "the wheel's own", args.library, args.python_env)
    wanted_programs = args.programs or ([SHORT_LIVES] if args.long else PROGRAMS)
    programs = [job for wanted in wanted_programs for job in jobs_of(wanted)]
    all_ranks = args.ranks or (range(2, 11) if args.long else [2, 4])
    repeats = 20 if args.long else args.repeat
    failures = []
    passed = 0
    known = variants_of(args.provider)
    variants = list(known) if "all" in args.variants else args.variants
    if unknown := set(variants) - set(known):
        parser.error(f"no variants of {args.provider}: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    for variant, wanted, ranks, _ in itertools.product(variants, programs, all_ranks, range(repeats)):
        name, _, check = wanted.partition(":")
        title = f"{wanted}, {ranks} ranks, {args.provider}, {variant}"
        limit = args.limit or (LIFE_LIMIT if name == SHORT_LIVES else 120)
        print(f"\n{title}, on {library.file}", flush=True)
        start = time.monotonic()
        try:
            env = dict(known[variant], FI_PROVIDER=args.provider, MPIR_CVAR_DEBUG_SUMMARY="1")
            lines = run(library, ranks, HERE / f"{name}.py", [check] if check else [], limit=limit, extra_env=env,
                        show=lambda line: line.startswith(("  ok ", "  -- ")))
            for wanted_line in (f"libfabric provider: {args.provider} - ", IN_FORCE.get(variant, "")):
                if not any(line.startswith(wanted_line) for line in lines):
                    raise Failed(f"{variant} is not in force: MPICH does not say {wanted_line!r}")
            passed += sum(line.startswith("  ok ") for line in lines)
        except Failed as failure:
            failures.append(title)
            print(f"FAILED: {failure}", flush=True)
        print(f"  {time.monotonic() - start:.1f} s", flush=True)
    print(f"\n{passed} checks passed, {len(failures)} programs failed")
    if failures:
        counts = collections.Counter(failures).items()
        raise Failed("; ".join(f"{title} ({count} of {repeats})" if repeats > 1 else title for title, count in counts))


if __name__ == "__main__":
    main_with_message(main)
