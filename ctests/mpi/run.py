# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Run the MPI programs of this folder on a libfabric.so.1 and print what passed.

usage: run.py --python-env FOLDER [--library FOLDER] [--ranks N ...] [PROGRAM[:CHECK] ...]
Without --library the MPICH wheel's own libfabric is used, to see what upstream makes of the same programs.
"""

import argparse
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "scripts" / "demo"))
from launch import Failed, Library, main_with_message, run  # noqa: E402  (found by the line above)

PROGRAMS = ("point_to_point", "datatypes", "collectives", "communicators", "one_sided", "threads")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python-env", required=True)
    parser.add_argument("--library")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--limit", type=float, default=120)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM[:CHECK]")
    args = parser.parse_args()
    library = Library("ironfabric" if args.library else "the wheel's own", args.library, args.python_env)
    failures = []
    passed = 0
    for wanted in args.programs or PROGRAMS:
        name, _, check = wanted.partition(":")
        for ranks in args.ranks:
            print(f"\n{name}, {ranks} ranks on {library.file}", flush=True)
            start = time.monotonic()
            try:
                lines = run(library, ranks, HERE / f"{name}.py", [check] if check else [], limit=args.limit,
                            show=lambda line: line.startswith(("  ok ", "  -- ")))
                passed += sum(line.startswith("  ok ") for line in lines)
            except Failed as failure:
                failures.append(f"{name}, {ranks} ranks")
                print(f"FAILED: {failure}", flush=True)
            print(f"  {time.monotonic() - start:.1f} s", flush=True)
    print(f"\n{passed} checks passed, {len(failures)} programs failed")
    if failures:
        raise Failed("; ".join(failures))


if __name__ == "__main__":
    main_with_message(main)
