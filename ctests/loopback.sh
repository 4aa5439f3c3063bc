#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# loopback.sh FOLDER BUILD CONFORMANCE: builds the provider of examples/loopback in BUILD, and runs the suite CONFORMANCE
# over it on the libfabric.so.1 of FOLDER.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
example=$here/../examples/loopback
library=$(realpath "$1")
mkdir -p "$2"
build=$(realpath "$2")
conformance=$(realpath "$3")

lines=$(cat "$example"/src/*.rs | wc -l)
[ "$lines" -le 600 ] || { echo "examples/loopback has $lines lines, and may have 600"; exit 1; }
cargo fmt --check --manifest-path "$example/Cargo.toml"
cargo clippy --locked --offline --manifest-path "$example/Cargo.toml" --target-dir "$build" -- -D warnings
cargo build --locked --offline --manifest-path "$example/Cargo.toml" --target-dir "$build"

export LD_LIBRARY_PATH=$library FI_PROVIDER_PATH=+$build/debug/libloopback.so
"$conformance" -j 2 -p loopback -x "$example/expected.txt" | tee "$build/log"
# A suite without any test to run has not passed.
[[ $(tail -n 1 "$build/log") =~ ^([0-9]+)\ passed,\ 0\ failed ]]
[ "${BASH_REMATCH[1]}" -gt 700 ] || { echo "too few tests ran"; exit 1; }
