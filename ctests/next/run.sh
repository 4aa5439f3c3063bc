#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# run.sh FOLDER BUILD: programs of the next ABI, on the libfabric.so in FOLDER with the headers in FOLDER/include-2.7:
# their layout, C and C++ of every age, a program that is linked at FABRIC_1.10, and the conformance suite. BUILD: where the
# suite is built.
set -euo pipefail
. "$(dirname "$0")/../../scripts/steps.sh"
library=$(realpath "${1:?usage: run.sh FOLDER BUILD}")
build=$(realpath -m "${2:?usage: run.sh FOLDER BUILD}")
here=$ROOT/ctests/next
next=$library/include-2.7
[ -e "$next/rdma/fi_xpu.h" ] || fail "there are no headers in $next"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

say "layout of the headers"
"$ROOT/ctests/layout.sh" "$next" "$here/layout.txt"
say "the headers as C and C++"
"$ROOT/ctests/headers.sh" "$next"

say "the inline functions as symbols"
INCLUDE=$next "$ROOT/ctests/inline.py" "$library/libfabric.so"

# Where there is no library of that ABI to link with: one that has its names, at its nodes.
cat >"$folder/stub.map" <<'MAP'
FABRIC_1.0 { global: fi_*; local: *; };
FABRIC_1.1 { global: fi_fabric; } FABRIC_1.0;
FABRIC_1.10 { global: fi_getinfo; fi_dupinfo; fi_freeinfo; } FABRIC_1.1;
MAP
for name in fi_getinfo fi_dupinfo fi_freeinfo fi_fabric fi_version fi_strerror fi_tostr; do
    echo "int $name(void) { return -1; }"
done >"$folder/stub.c"
mkdir "$folder/stub"
"${CC:-cc}" -shared -fPIC -fno-builtin -o "$folder/stub/libfabric.so" "$folder/stub.c" \
    -Wl,-soname,libfabric.so.1,--version-script="$folder/stub.map"

compile() { # NAME SOURCE INCLUDE LIBRARIES
    "${CC:-cc}" -std=gnu17 -g -Wall -Wextra -Wno-missing-field-initializers -I "$3" -o "$folder/$1" "$2" -L "$4" -lfabric
}
asks_for() { # NAME NODE
    local found
    found=$(readelf -W --dyn-syms "$folder/$1" | grep -o 'fi_getinfo@[A-Z0-9_.]*')
    [ "$found" = "fi_getinfo@$2" ] || fail "$1 asks for $found, not for $2"
}
export LD_LIBRARY_PATH=$library FI_TCP_IFACE=lo
run() {
    say "$1"
    limited 120 "$1" "$folder/$1" || fail "$1"
}
compile next "$here/callers.c" "$next" "$folder/stub"
asks_for next FABRIC_1.10
run next
# Built with the headers of 2.6 a program asks for their node, though the library has a newer one: it runs on 2.6, too.
compile released "$here/callers.c" "$ROOT/include" "$library"
asks_for released FABRIC_1.9
run released
# Without a header, as bindings of other languages declare it: such a program runs on 2.6, too.
echo 'int fi_getinfo(); int main(void) { return fi_getinfo(2 << 16 | 6, 0, 0, 0UL, 0, 0) == 0; }' >"$folder/bare.c"
"${CC:-cc}" -w -o "$folder/bare" "$folder/bare.c" -L "$library" -lfabric
asks_for bare FABRIC_1.9
run bare
compile nodes "$ROOT/ctests/compat_nodes.c" "$next" "$library"
run nodes

say "conformance, built with the next headers"
make -C "$ROOT/ctests/conformance" --no-print-directory BUILD="$build" FABRIC_CFLAGS="-I$next" \
    FABRIC_LIBS="-L$library -lfabric" >"$folder/log" 2>&1 || { tail -n 20 "$folder/log"; fail "the suite does not build"; }
"$build/conformance" -j 2 -k fi_getinfo: -k fi_domain: -k fi_endpoint: -k fi_cq: -k fi_cntr: -k fi_av: -k fi_msg: -k fi_mr: \
    >"$folder/log" || { grep -v '^ok\|^skip' "$folder/log"; fail "conformance with the next headers"; }
tail -n 1 "$folder/log"
