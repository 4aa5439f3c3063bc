#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# An unmodified MPI on this library, from a clean clone: builds it, fetches MPICH, mpi4py and numpy, checks what four
# ranks say to each other, and times a ping-pong beside the libfabric that MPICH brought along.
#
# usage: demo.sh [--short] [--library FOLDER]
#   --short            fewer sizes and runs, for `make check`
#   --library FOLDER   take the libfabric.so.1 there instead of building one
set -euo pipefail
. "$(dirname "$0")/steps.sh"

short=() library=
while [ $# -gt 0 ]; do
    case $1 in
    --short) short=(--short) ;;
    --library) library=${2:?--library needs a folder}; shift ;;
    *) sed -n '3,8s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
    shift
done

[ "$(uname -s)" = Linux ] || fail "this needs Linux"
command -v python3 >/dev/null || fail "python3 is not here; the MPI programs need Python 3.8 or newer with venv"

if [ -z "$library" ]; then
    for tool in cargo cc make; do
        command -v $tool >/dev/null || fail "$tool is not here; the build needs Rust (https://rustup.rs), a C compiler and make"
    done
    say "Building the library (release; three minutes on two cores the first time)"
    limited 1200 "make" make -C "$ROOT" --no-print-directory || fail "the build; its messages stand above"
    library=$(target_dir)/release
fi
[ -e "$library/libfabric.so.1" ] || fail "there is no libfabric.so.1 in $library"

environment=$(target_dir)/python
"$ROOT/scripts/python_env.sh" "$environment"

PATIENCE=$PATIENCE exec "$environment/bin/python" "$ROOT/scripts/demo/demo.py" \
    --library "$library" --python-env "$environment" ${short[@]+"${short[@]}"}
