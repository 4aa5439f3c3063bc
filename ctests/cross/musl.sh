#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# musl.sh FOLDER: builds the library for musl in FOLDER and runs symbols, C programs and parts of conformance on it.
#
# Debian has musl, but no libgcc_s for it, which Rust's std needs for unwinding; Rust's own unwinder for static programs
# replaces it. These features of the library on glibc are missing: musl's loader does not support old versions of a
# symbol, so that a program that was linked with libfabric 1.0 gets today's fi_getinfo (old_api and the compat_ programs
# are left out); its getaddrinfo refuses ports above 65535, and has other error texts (getinfo, refusals).
set -euo pipefail
. "$(dirname "$0")/../../scripts/steps.sh"
mkdir -p "${1:?usage: musl.sh FOLDER}"
folder=$(realpath "$1")
triple=x86_64-unknown-linux-musl
need musl-gcc:musl-tools
sysroot=$(rustc --print sysroot)
rust=$sysroot/lib/rustlib/$triple/lib
if ! [ -d "$rust" ]; then
    { [ "$FETCH" != 0 ] && command -v rustup >/dev/null && rustup target add "$triple"; } ||
        skip "this Rust has no std for $triple (rustup target add $triple)"
fi
mkdir -p "$folder/lib"
echo "INPUT($rust/self-contained/libunwind.a)" >"$folder/lib/libgcc_s.so"
host=$(rustc -vV | sed -n 's/^host: //p')
say "Library for $triple"
cd "$ROOT"
RUSTFLAGS="${RUSTFLAGS-} -Ctarget-feature=-crt-static -Clink-arg=-L$folder/lib -Clink-arg=-B$sysroot/lib/rustlib/$host/bin/gcc-ld" \
    CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_LINKER=musl-gcc cargo build --locked --target "$triple" --target-dir "$folder" --lib
library=$folder/$triple/debug
ln -sf libfabric.so "$library/libfabric.so.1"
ctests/symbols.sh "$library/libfabric.so"
wanted=$(readelf -d "$library/libfabric.so" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | xargs)
[ "$wanted" = libc.so ] || fail "the library wants $wanted"
# musl has no dlvsym.
echo '#define dlvsym(handle, name, version) dlsym(handle, name)' >"$folder/musl.h"
make -C ctests/conformance --no-print-directory CC=musl-gcc BUILD="$folder/conformance" FABRIC_CFLAGS="-I$ROOT/include" \
    CFLAGS="-O1 -g -include $folder/musl.h" FABRIC_LIBS="-L$library -lfabric"
names=()
for source in ctests/*.c; do
    name=$(basename "$source" .c)
    # headers: compiled only. idle: measures processor time. The others: see above.
    case $name in headers | idle | old_api* | compat_* | getinfo | refusals) ;; *) names+=("$name") ;; esac
done
differ=0
CC=musl-gcc CFLAGS="-include $folder/musl.h" ctests/c.sh "$library" "${names[@]}" || differ=1
export LD_LIBRARY_PATH=$library
for provider in tcp shm udp; do
    "$folder/conformance/conformance" -j 2 -p $provider -k fi_msg: -k fi_tagged: -k fi_cq: -k fi_cm: -k fi_rma: -k fi_shm: \
        >"$folder/log" 2>&1 || { grep -v -E '^(ok|skip)' "$folder/log"; differ=1; }
    echo "$provider: $(tail -n 1 "$folder/log")"
done
[ $differ = 0 ] || fail "the library for musl"
