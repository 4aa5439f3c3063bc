#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# static.sh: a program that is linked with `pkg-config --static` contains the library, and works: linked with the shared
# C library, and without any shared library.
set -euo pipefail
unset LD_LIBRARY_PATH LD_PRELOAD
. "$(dirname "$0")/../scripts/steps.sh"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
prefix=$folder/prefix
for target in install-built install-static; do
    make -C "$ROOT" --no-print-directory "$target" PREFIX="$prefix" "$@" >"$folder/log" 2>&1 ||
        { cat "$folder/log"; fail "make $target"; }
done
command -v pkg-config >/dev/null || install_packages pkg-config || skip "there is no pkg-config"
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
read -ra flags < <(pkg-config --static --cflags --libs libfabric)

linked() { # NAME ARGUMENTS...
    local name=$1
    shift
    "${CC:-cc}" -Wall -Wextra -Werror -o "$folder/$name" "$ROOT/ctests/static.c" "$@" >"$folder/log" 2>&1 ||
        { cat "$folder/log"; fail "$name does not link"; }
    # A warning of glibc itself about names that it looks up with shared libraries.
    grep -v 'getaddrinfo\|dlopen\|in function' "$folder/log" | grep . && fail "$name: the linker complains"
    local needed
    needed=$(readelf -d "$folder/$name")
    [[ $needed != *libfabric* ]] || fail "$name takes the shared library"
    limited 60 "$name" "$folder/$name" || fail "$name does not run"
}
# With -lfabric alone the shared library comes first; a program that needs the other one must request it.
linked shared_libc "${flags[@]/-lfabric/-l:libfabric.a}"
linked all_static -static "${flags[@]}"
! readelf -l "$folder/all_static" | grep INTERP >/dev/null || fail "all_static has a loader"
echo "libfabric.a is $(stat -c %s "$prefix/lib/libfabric.a") bytes; both programs have it inside"
