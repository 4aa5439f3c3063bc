#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# aarch64.sh FOLDER: builds the library for aarch64 in FOLDER with Debian's cross compiler, and runs under qemu-user: unit tests,
# exported symbols, the layout of the headers, variable arguments, the C programs, and conformance on tcp and shm.
#
# Limits of qemu-user:
# - process_vm_readv(2) is missing: a region is not read while its owner makes no call, and messages are copied through
#   the ring.
# - It cannot show memory orders of a weak machine, because it runs on this processor, which is a strong one. See
#   check-loom.
# - MADV_WIPEONFORK of madvise(2) returns success without an effect. clone(2) cannot share only the descriptors, which
#   unit tests need to make children.
# - sendmsg(2) and similar calls without a buffer send no empty datagram. A truncated datagram has no sender.
# - Tests that count microseconds fail, and simulations of hours take minutes; the latter do not depend on the machine.
set -euo pipefail
. "$(dirname "$0")/../../scripts/steps.sh"
mkdir -p "${1:?usage: aarch64.sh FOLDER}"
folder=$(realpath "$1")
triple=aarch64-unknown-linux-gnu
need qemu-aarch64:qemu-user aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu aarch64-linux-gnu-g++:g++-aarch64-linux-gnu
sysroot=$(rustc --print sysroot)
if ! [ -d "$sysroot/lib/rustlib/$triple" ]; then
    { [ "$FETCH" != 0 ] && command -v rustup >/dev/null && rustup target add "$triple"; } ||
        skip "this Rust has no std for $triple (rustup target add $triple)"
fi
unshare -Ur -m sh -c 'mount -t binfmt_misc none /proc/sys/fs/binfmt_misc' 2>/dev/null ||
    skip "a user namespace here has no binfmt_misc (Linux 6.7): programs of aarch64 could not start others"

# The linker is Rust's own; rustc tells the C compiler its path only for the host machine.
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_DIR=$folder CC=aarch64-linux-gnu-gcc CXX=aarch64-linux-gnu-g++
host=$(rustc -vV | sed -n 's/^host: //p')
export RUSTFLAGS="${RUSTFLAGS-} -Clink-arg=-B$sysroot/lib/rustlib/$host/bin/gcc-ld"
say "Library and unit tests for $triple"
cd "$ROOT"
CC= CXX= scripts/remapped.sh cargo build --release --locked --target "$triple" --lib
CC= CXX= cargo test --no-run --locked --workspace --exclude tools --target "$triple" --lib --message-format=json >"$folder/tests.json"
mapfile -t units < <(sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' "$folder/tests.json")
library=$folder/$triple/release
ln -sf libfabric.so "$library/libfabric.so.1"
make -C ctests/conformance --no-print-directory CC="$CC" BUILD="$folder/conformance" FABRIC_CFLAGS="-I$ROOT/include" \
    FABRIC_LIBS="-L$library -lfabric"
ctests/symbols.sh "$library/libfabric.so"
file=$(readelf -h "$library/libfabric.so")
[[ $file == *AArch64* ]] || fail "the library is not for aarch64"

say "Under qemu-aarch64"
export QEMU_LD_PREFIX=/usr/aarch64-linux-gnu LD_LIBRARY_PATH=$library CONFORMANCE_SLOWER=5
exec unshare -Ur -m -n "$ROOT/ctests/cross/inside.sh" "$folder" "${units[@]}"
