#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# rust.sh FOLDER BUILD: builds the crates of bindings/rust in BUILD, runs their tests, documentation tests and examples on
# the libfabric.so.1 of FOLDER, the tests also on the installed libfabric, and packs the crates as for crates.io.
set -euo pipefail
. "$(dirname "$0")/../scripts/steps.sh"
library=$(realpath "${1:?usage: rust.sh FOLDER BUILD}")
build=$(realpath -m "${2:?usage: rust.sh FOLDER BUILD}")
cd "$ROOT/bindings/rust"
unset LD_LIBRARY_PATH
export CARGO_TARGET_DIR=$build

say "format, clippy, documentation"
cargo fmt --all --check
cargo fetch -q --locked || skip "the crates of bindings/rust cannot be fetched"
cargo clippy -q --offline --locked --workspace --all-targets -- -D warnings
RUSTDOCFLAGS="-D warnings" cargo doc -q --offline --locked --workspace --no-deps

say "tests, on this library"
export LD_LIBRARY_PATH=$library
limited 300 "cargo test" cargo test -q --offline --locked --workspace

say "examples, on this library"
cargo build -q --offline --locked --examples
for provider in tcp shm; do
    limited 60 "pingpong $provider" "$build/debug/examples/pingpong" "$provider"
    limited 60 "rma $provider" "$build/debug/examples/rma" "$provider"
done
limited 60 epoll_server "$build/debug/examples/epoll_server"
limited 60 tokio "$build/debug/examples/tokio"

# Any libfabric: the unit tests have no assumptions that only this library fulfils.
unset LD_LIBRARY_PATH
other=$(ldconfig -p | sed -n 's/.*libfabric\.so\.1 .*=> //p' | head -n 1)
if [ -n "$other" ] && [ "$(realpath "$other")" != "$(realpath "$library/libfabric.so.1")" ]; then
    say "unit tests, on $(realpath "$other")"
    # libfabric 1.17 crashes if an endpoint of shm is enabled whose vector has the address of a closed one.
    limited 300 "cargo test" cargo test -q --offline --locked -p ironfabric --lib -- --skip lifecycle::shm
else
    echo "NOT RUN: the tests on another libfabric, because none is installed"
fi

say "packages for crates.io"
if [ "$FETCH" = 0 ]; then
    echo "NOT RUN: cargo publish --dry-run needs the index of crates.io"
    exit "$SKIPPED"
fi
limited 300 "cargo publish" cargo publish -q --locked --workspace --dry-run --allow-dirty
