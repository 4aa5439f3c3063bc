#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# rust_static.sh FOLDER BUILD: the tests and an example of the Rust API with the libfabric.a of FOLDER inside; built in
# BUILD.
set -euo pipefail
. "$(dirname "$0")/../scripts/steps.sh"
export IRONFABRIC_STATIC=$(realpath "${1:?usage: rust_static.sh FOLDER BUILD}")
export CARGO_TARGET_DIR=$(realpath -m "${2:?usage: rust_static.sh FOLDER BUILD}")
[ -e "$IRONFABRIC_STATIC/libfabric.a" ] || fail "there is no libfabric.a in $IRONFABRIC_STATIC"
cd "$ROOT/bindings/rust"
unset LD_LIBRARY_PATH
cargo fetch -q --locked || skip "the crates of bindings/rust cannot be fetched"
options=(-q --offline --locked -p ironfabric --features static)
limited 300 "cargo test" cargo test "${options[@]}" --lib
cargo build "${options[@]}" --example rma
program=$CARGO_TARGET_DIR/debug/examples/rma
! readelf -d "$program" | grep libfabric || fail "the example needs a shared libfabric"
LD_DEBUG=files LD_DEBUG_OUTPUT=$CARGO_TARGET_DIR/rma.files limited 60 "rma, static" "$program" tcp
! grep libfabric "$CARGO_TARGET_DIR"/rma.files.* || fail "the example opens a shared libfabric"
rm -f "$CARGO_TARGET_DIR"/rma.files.*
echo "the Rust API with the library inside"
