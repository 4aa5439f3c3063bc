#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# link_stub.sh LIBRARY NODE FOLDER: makes FOLDER/libfabric.so, a library to link with, not to run with. It has the functions
# that LIBRARY exports at version nodes up to NODE, each at its newest one of these. A program that is linked with it
# requires no newer node, so it also runs on the libfabric release whose newest node is NODE. Programs that declare the
# functions themselves (bindgen, cffi, Fortran) need this; the headers name their node.
set -euo pipefail
. "$(dirname "$0")/steps.sh"
library=${1:?usage: link_stub.sh LIBRARY NODE FOLDER}
node=${2:?usage: link_stub.sh LIBRARY NODE FOLDER}
folder=${3:?usage: link_stub.sh LIBRARY NODE FOLDER}
mkdir -p "$folder"
# Several checks may build at the same time, so the file is made elsewhere and moved to its place.
aside=$(mktemp -d "$folder/XXXXXX")
trap 'rm -rf "$aside"' EXIT

# FUNCTION NUMBER, where NUMBER is the second number of the node.
functions=$(nm -D --defined-only --with-symbol-versions "$library" |
    sed -n 's/^[0-9a-f]* T \(fi_[a-z0-9_]*\)@@*FABRIC_1\.\([0-9]*\)$/\1 \2/p' |
    awk -v last="${node##*.}" '$2 <= last && $2 >= newest[$1] { newest[$1] = $2 } END { for (f in newest) print f, newest[f] }' |
    LC_ALL=C sort)
[ -n "$functions" ] || fail "$library exports no function at $node or before"

before=
for number in $(seq 0 "${node##*.}"); do
    names=$(awk -v number="$number" '$2 == number { print $1 ";" }' <<<"$functions" | xargs)
    local_names=
    [ "$number" -ne 0 ] || local_names=" local: *;"
    echo "FABRIC_1.$number {${names:+ global: $names}$local_names }$before;"
    before=" FABRIC_1.$number"
done >"$aside/libfabric.map"
awk '{ print "void " $1 "(void) { }" }' <<<"$functions" >"$aside/libfabric.c"
"${CC:-cc}" -shared -fPIC -fno-builtin -nostdlib -o "$aside/libfabric.so" "$aside/libfabric.c" \
    -Wl,-soname,libfabric.so.1,--version-script="$aside/libfabric.map"
mv "$aside/libfabric.so" "$folder/libfabric.so"
