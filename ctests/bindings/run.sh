#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# run.sh FOLDER PLUGIN BUILD: the official Rust bindings of libfabric (crates.io: ofi-libfabric-sys) with each header
# set of src/abi/releases.tsv, on the library in FOLDER. For each set the library is installed into a fresh prefix with
# this set as the default one, the crate is built with that prefix's pkg-config file, and its own tests run. The crate
# declares the functions itself, so its tests must request the nodes of the set. If UPSTREAM_2_6 is a folder with
# libfabric.so.1 of upstream's release 2.6, the tests of the 2.6 set run there, too; UPSTREAM_<interface> does so for
# other sets.
set -euo pipefail
. "$(dirname "$0")/../../scripts/steps.sh"
library=$(realpath "${1:?usage: run.sh FOLDER PLUGIN BUILD}")
plugin=$(realpath "${2:?usage: run.sh FOLDER PLUGIN BUILD}")
build=$(realpath -m "${3:?usage: run.sh FOLDER PLUGIN BUILD}")
version=0.2.0
# Number of tests in this version of the crate.
count=174
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset LD_LIBRARY_PATH

need pkg-config cc:gcc clang

# The source of the crate, from the registry, with the versions of its own Cargo.lock.
fetch() {
    mkdir -p "$folder/probe/src"
    printf '[package]\nname = "probe"\nedition = "2021"\n[workspace]\n[dependencies]\nofi-libfabric-sys = "=%s"\n' "$version" \
        >"$folder/probe/Cargo.toml"
    : >"$folder/probe/src/lib.rs"
    local manifest
    manifest=$(cargo metadata --format-version 1 --manifest-path "$folder/probe/Cargo.toml" 2>"$folder/log" |
        python3 -c 'import json, sys
print(*(one["manifest_path"] for one in json.load(sys.stdin)["packages"] if one["name"] == "ofi-libfabric-sys"))') ||
        skip "the crate ofi-libfabric-sys $version cannot be fetched: $(tail -n 1 "$folder/log")"
    cp -r "$(dirname "$manifest")" "$folder/crate"
    cargo fetch -q --locked --manifest-path "$folder/crate/Cargo.toml" 2>"$folder/log" ||
        skip "the crates that ofi-libfabric-sys needs cannot be fetched: $(tail -n 1 "$folder/log")"
}

# The program with the crate's tests, and its output on the library in a folder.
tests_on() { # WHAT PROGRAM LIBRARY
    LD_LIBRARY_PATH=$3 limited 120 "$1" "$2" >"$folder/log" 2>&1 || { tail -n 30 "$folder/log"; fail "$1: the tests fail"; }
    grep -q "^test result: ok. $count passed; 0 failed; 0 ignored" "$folder/log" ||
        fail "$1: $(grep '^test result' "$folder/log"), not $count tests passed"
    echo "$1: $count tests passed"
}

with_set() { # SET
    local set=$1 prefix=$folder/$1 program asked variable
    make -C "$ROOT" --no-print-directory install-built BUILT="$library" PLUGIN="$plugin" PREFIX="$prefix" HEADERS="$set" CARGO= \
        >"$folder/log" 2>&1 || { tail -n 20 "$folder/log"; fail "make install HEADERS=$set"; }
    PKG_CONFIG_PATH=$prefix/lib/pkgconfig CARGO_TARGET_DIR=$build limited 900 "cargo test, $set" \
        cargo test --offline --locked --no-run --lib --manifest-path "$folder/crate/Cargo.toml" --message-format json \
        >"$folder/messages" 2>"$folder/log" || { tail -n 40 "$folder/log"; fail "the crate does not build with the $set set"; }
    program=$(sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' "$folder/messages" | tail -n 1)
    grep -q "$prefix/include" "$(dirname "$program")"/../build/ofi-libfabric-sys-*/output || fail "the crate did not take $prefix"
    asked=$(readelf -W --dyn-syms "$program" | grep -o 'fi_getinfo@[A-Z0-9_.]*')
    [ "$asked" = "fi_getinfo@$(releases 3 "$set")" ] || fail "the crate with the $set set asks for $asked"
    tests_on "$set set, this library" "$program" "$prefix/lib"
    variable=UPSTREAM_${set//./_}
    if [ -n "${!variable:-}" ]; then
        tests_on "$set set, upstream $set" "$program" "${!variable}"
    elif [ "$(releases 6 "$set")" = kept ]; then
        echo "NOT RUN the tests with the $set set on upstream $set: $variable does not name a folder with it"
    fi
}

fetch
for set in $(sets); do
    say "ofi-libfabric-sys $version, $set"
    with_set "$set"
done
