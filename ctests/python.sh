#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# python.sh FOLDER BUILD: the Python API of packaging/wheel: its declarations, types, tests and examples on the
# libfabric.so.1 of FOLDER. The tests also run on the installed libfabric and on that of UPSTREAM_2_6, if there is one.
# mypy and numpy come from PyPI, into BUILD.
set -euo pipefail
. "$(dirname "$0")/../scripts/steps.sh"
library=$(realpath "${1:?usage: python.sh FOLDER BUILD}")
build=$(realpath -m "${2:?usage: python.sh FOLDER BUILD}")
upstream=${UPSTREAM_2_6:+$(realpath "$UPSTREAM_2_6")}
cd "$ROOT"
unset LD_LIBRARY_PATH PYTHONPATH IRONFABRIC_OTHER
export PYTHONDONTWRITEBYTECODE=1 FI_LOG_LEVEL=${FI_LOG_LEVEL:-none}
tests=ctests/python
skipped=0

say "declarations"
scripts/python_abi.py --check

# Without PyPI the types are not checked, and the test of numpy's buffers is left out.
python=python3 venv=$build/venv
if ! cmp -s "$tests/requirements.txt" "$venv/made-from"; then
    rm -rf "$venv"
    if [ "$FETCH" = 0 ]; then
        echo "NOT RUN: mypy and the test with numpy, which are of PyPI, and INSTALL=0 forbids to fetch them"
        skipped=1
    else
        say "Python environment in $venv (once; some 30 MB from PyPI)"
        mkdir -p "$build"
        limited 120 "python3 -m venv" python3 -m venv "$venv" || fail "python3 -m venv does not work here"
        pip=("$venv/bin/pip" install -q --disable-pip-version-check -r "$tests/requirements.txt")
        if limited 900 "pip install" "${pip[@]}"; then
            cp "$tests/requirements.txt" "$venv/made-from"
        else
            echo "NOT RUN: mypy and the test with numpy, because PyPI cannot be reached"
            rm -rf "$venv"
            skipped=1
        fi
    fi
fi
if [ -x "$venv/bin/mypy" ]; then
    python=$venv/bin/python
    say "types"
    export MYPYPATH=packaging/wheel/src:$tests
    mypy=("$venv/bin/mypy" --strict --cache-dir "$build/mypy")
    "${mypy[@]}" -p ironfabric.fabric
    "${mypy[@]}" $tests/*.py examples/python/{hello,pingpong,rma,server}.py
fi

say "tests, on this library"
export IRONFABRIC_LIBRARY=$library
limited 300 "the tests" "$python" -X dev -W error $tests/run.py
# The oldest Python that the wheel supports.
if python3.8 -c '' 2>/dev/null; then
    limited 300 "the tests with Python 3.8" python3.8 $tests/run.py
fi

say "examples, on this library"
export PYTHONPATH=packaging/wheel/src
limited 60 hello "$python" examples/python/hello.py
for provider in tcp shm; do
    limited 60 "pingpong $provider" "$python" examples/python/pingpong.py $provider 1000
    limited 60 "rma $provider" "$python" examples/python/rma.py $provider
done
limited 60 server "$python" examples/python/server.py
unset PYTHONPATH

# Known faults of other libraries are left out: IS_OURS in the tests. Debian's libfabric 1.17 crashes over shm, sockets
# and with shared receive contexts.
export IRONFABRIC_OTHER=1
# Some providers of other libraries write a file into the working folder when they crash.
mkdir -p "$build"
cd "$build"
tests=$ROOT/$tests
installed=$(ldconfig -p 2>/dev/null | sed -n 's/.*libfabric\.so\.1 .*=> //p' | head -n 1)
if [ -n "$installed" ] && [ "$(realpath "$installed")" != "$(realpath "$library/libfabric.so.1")" ]; then
    say "tests over ofi_rxm and tcp, on $(realpath "$installed")"
    IRONFABRIC_LIBRARY=$(dirname "$installed") limited 300 "the tests" "$python" $tests/run.py \
        _tcp_ofi_rxm Connections_tcp Hints Package
else
    echo "NOT RUN: the tests on another libfabric, because none is installed"
fi
if [ -n "$upstream" ]; then
    say "tests, on $upstream"
    IRONFABRIC_LIBRARY=$upstream limited 600 "the tests" "$python" $tests/run.py
else
    echo "NOT RUN: the tests on upstream's libfabric 2.6, because UPSTREAM_2_6 is not set"
fi
[ $skipped = 0 ] || exit "$SKIPPED"
