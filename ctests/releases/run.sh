#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# run.sh [--long] FOLDER BUILD: programs of every release in src/abi/releases.tsv, on the libfabric.so in FOLDER: the
# layout of the headers, C and C++ of every age, programs that are linked at the node of the release, and for an alpha a
# part of the conformance suite, which is built in BUILD. With --long also for releases before the default one.
set -euo pipefail
. "$(dirname "$0")/../../scripts/steps.sh"
long=
[ "${1:-}" != --long ] || { long=1; shift; }
library=$(realpath "${1:?usage: run.sh FOLDER BUILD}")
build=$(realpath -m "${2:?usage: run.sh FOLDER BUILD}")
here=$ROOT/ctests/releases
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export LD_LIBRARY_PATH=$library FI_TCP_IFACE=lo

compile() { # NAME SOURCE INCLUDE LIBRARIES
    "${CC:-cc}" -std=gnu17 -g -Wall -Wextra -Wno-missing-field-initializers -Wno-deprecated-declarations \
        -I "$3" -o "$folder/$1" "$2" -L "$4" -lfabric
}
asks_for() { # NAME NODE
    local found
    found=$(readelf -W --dyn-syms "$folder/$1" | grep -o 'fi_getinfo@[A-Z0-9_.]*')
    [ "$found" = "fi_getinfo@$2" ] || fail "$1 asks for $found, not for $2"
}
run() {
    say "$1"
    limited 120 "$1" "$folder/$1" || fail "$1"
}

# Declares the functions itself, as programs in other languages do.
cat >"$folder/undeclared.c" <<'C'
struct fi_info;
int fi_getinfo(unsigned, const char *, const char *, unsigned long, const struct fi_info *, struct fi_info **);
void fi_freeinfo(struct fi_info *);

int main(void)
{
	struct fi_info *info = 0;

	if (fi_getinfo(2 << 16, 0, 0, 0, 0, &info))
		return 1;
	fi_freeinfo(info);
	return 0;
}
C

# A provider of 2.6, for programs of every set.
oldest=$(sets | head -n 1)
oldest_include=$library/include-$oldest
[ "$oldest" != "$(default_set)" ] || oldest_include=$ROOT/include
mkdir "$folder/short"
"${CC:-cc}" -std=gnu17 -g -O1 -Wall -Wextra -Werror -fPIC -shared -I "$oldest_include" -o "$folder/short/libshort-fi.so" \
    "$here/short_plugin.c" -L "$library" -lfabric
export SHORT_PLUGIN=$folder/short
# A provider of the newest set that serves a device.
newest=$(sets | tail -n 1)
newest_include=$library/include-$newest
[ "$newest" != "$(default_set)" ] || newest_include=$ROOT/include
mkdir "$folder/device"
"${CC:-cc}" -std=gnu17 -g -O1 -Wall -Wextra -Werror -fPIC -shared -I "$newest_include" -o "$folder/device/libdevice-fi.so" \
    "$here/device_plugin.c" -L "$library" -lfabric
export DEVICE_PLUGIN=$folder/device

for set in $(sets); do
    node=$(releases 3 "$set")
    include=$library/include-$set
    [ "$set" != "$(default_set)" ] || include=$ROOT/include
    [ -e "$include/rdma/fabric.h" ] || fail "there are no headers in $include"

    say "$set: layout of the headers"
    "$ROOT/ctests/layout.sh" "$set" "$include"
    say "$set: the headers as C and C++"
    "$ROOT/ctests/headers.sh" "$include"
    say "$set: the inline functions as symbols"
    INCLUDE=$include "$ROOT/ctests/inline.py" "$library/libfabric.so"

    # Linked with this library, and with one whose newest node is that of the release.
    "$ROOT/scripts/link_stub.sh" "$library/libfabric.so" "$node" "$folder/stub-$set"
    compile "callers-$set" "$here/callers.c" "$include" "$library"
    asks_for "callers-$set" "$node"
    compile "linked-$set" "$here/callers.c" "$include" "$folder/stub-$set"
    asks_for "linked-$set" "$node"
    compile "undeclared-$set" "$folder/undeclared.c" "$include" "$folder/stub-$set"
    asks_for "undeclared-$set" "$node"
    run "callers-$set"
    run "undeclared-$set"
    if [ "$set" = "$(default_set)" ]; then
        # The library itself gives such a program the node of the default release, even if it has a newer one.
        compile bare "$folder/undeclared.c" "$include" "$library"
        asks_for bare "$node"
    fi
    compile "nodes-$set" "$ROOT/ctests/compat_nodes.c" "$include" "$library"
    run "nodes-$set"
    compile "objects-$set" "$ROOT/ctests/compat_objects.c" "$include" "$library"
    run "objects-$set"

    compile "short-$set" "$here/short.c" "$include" "$library"
    run "short-$set"
    # Older sets have no devices.
    if [ -e "$include/rdma/fi_xpu.h" ]; then
        compile "device-$set" "$here/device.c" "$include" "$library"
        run "device-$set"
    fi

    # The headers of a kept set are a part of the default ones: its suite is for --long.
    case $(releases 6 "$set") in default) continue ;; kept) [ -n "$long" ] || continue ;; esac
    say "$set: conformance"
    make -j 2 -C "$ROOT/ctests/conformance" --no-print-directory BUILD="$build-$set" FABRIC_CFLAGS="-I$include" \
        FABRIC_LIBS="-L$library -lfabric" >"$folder/log" 2>&1 || { tail -n 20 "$folder/log"; fail "the suite does not build"; }
    # For an alpha only its additions and changes are tested; the rest is that of the release before.
    rules=(fi_peer: :entries fi_xpu:)
    if [ "$(releases 6 "$set")" = alpha ]; then
        rules+=(fi_wr: :wr_ flush)
    else
        rules+=(fi_getinfo: fi_domain: fi_endpoint: fi_cq: fi_cntr: fi_av: fi_msg: fi_mr:)
    fi
    # Under a hook, too: its objects stand between the program and those of the provider.
    for hook in "" noop; do
        FI_HOOK=$hook "$build-$set/conformance" -j 2 "${rules[@]/#/-k}" >"$folder/log" ||
            { grep -v '^ok\|^skip' "$folder/log"; fail "conformance with the headers of $set, hook \"$hook\""; }
        tail -n 1 "$folder/log"
    done
done
