#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""run.py [NAME ...]: the tests of the Python API on the library of IRONFABRIC_LIBRARY.

A NAME is a part of a test's name, such as test_rdm.Messages_tcp. IRONFABRIC_OTHER=1: the library is another libfabric,
whose known faults are left out. A test that hangs ends the program with a trace of all threads.
"""

import faulthandler
import os
import sys
import unittest
from collections import Counter
from pathlib import Path
from typing import Any, Iterator

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent.parent / "packaging/wheel/src"))
# For processes that tests start.
os.environ["PYTHONPATH"] = sys.path[0]


class Result(unittest.TestResult):
    """Prints what fails when it fails."""

    def startTest(self, test: unittest.TestCase) -> None:
        from world import LIMIT

        super().startTest(test)
        faulthandler.dump_traceback_later(LIMIT * 6, exit=True)

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        super().addError(test, err)
        print(f"FAILED: {test.id()}\n{self.errors[-1][1]}", flush=True)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        super().addFailure(test, err)
        print(f"FAILED: {test.id()}\n{self.failures[-1][1]}", flush=True)

    def stopTest(self, test: unittest.TestCase) -> None:
        faulthandler.cancel_dump_traceback_later()
        super().stopTest(test)


def tests(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    for one in suite:
        if isinstance(one, unittest.TestSuite):
            yield from tests(one)
        else:
            yield one


def main() -> None:
    faulthandler.enable()
    found = list(tests(unittest.defaultTestLoader.discover(str(HERE), "test_*.py")))
    names = sys.argv[1:]
    chosen = [test for test in found if not names or any(name in test.id() for name in names)]
    result = Result()
    for test in chosen:
        test.run(result)
    from ironfabric import fabric

    reasons = Counter(reason for _, reason in result.skipped)
    for reason, count in sorted(reasons.items()):
        print(f"left out, {count}: {reason}")
    bad = len({test.id() for test, _ in [*result.failures, *result.errors]})
    good = result.testsRun - bad - len(result.skipped)
    version = "{}.{}".format(*fabric.version())
    print(f"Python {sys.version.split()[0]}, libfabric {version}: {good} passed, {bad} failed")
    sys.exit(1 if bad or not good else 0)


if __name__ == "__main__":
    main()
