#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# python_env.sh FOLDER: a Python environment with MPICH, mpi4py and numpy from PyPI, made once and kept until the
# wanted packages, the Python or the folder's place change.
set -euo pipefail
. "$(dirname "$0")/steps.sh"

folder=${1:?usage: python_env.sh FOLDER}
wanted=$ROOT/scripts/demo/requirements.txt
stamp=$folder/made-from

command -v python3 >/dev/null || fail "python3 is not here; the MPI programs need Python 3.8 or newer with venv"
python3 -c 'import sys; sys.exit(sys.version_info < (3, 8))' || fail "$(python3 --version) is too old: 3.8 or newer"

recipe() { echo "$folder"; python3 -c 'import sys; print(sys.version, sys.executable)'; cat "$wanted"; }
if [ -f "$stamp" ] && recipe | cmp -s - "$stamp"; then
    exit 0
fi

[ "$FETCH" != 0 ] || skip "INSTALL=0, and $folder has no Python environment with the packages of $wanted"
say "Python environment in $folder (once; some 30 MB from PyPI)"
rm -rf "$folder"
mkdir -p "$(dirname "$folder")"
if ! limited 120 "python3 -m venv" python3 -m venv "$folder"; then
    rm -rf "$folder"
    fail "python3 -m venv does not work here; on Debian and Ubuntu: apt-get install python3-venv"
fi
if ! limited 900 "pip install" "$folder/bin/python" -m pip install --disable-pip-version-check --retries 3 \
    --only-binary :all: -r "$wanted"; then
    rm -rf "$folder"
    fail "pip could not install $(tr '\n' ' ' <"$wanted")(is PyPI reachable? pip's own message stands above)"
fi
recipe >"$stamp"
