#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# install.sh: what `make install` leaves behind is complete, and enough to build and run a program.
set -euo pipefail
# What the caller's shell prefers must not decide which library is found.
unset LD_LIBRARY_PATH LD_PRELOAD
. "$(dirname "$0")/../scripts/steps.sh"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
prefix=$folder/prefix
make -C "$ROOT" --no-print-directory install PREFIX="$prefix" >"$folder/log" 2>&1 || { cat "$folder/log"; fail "make install"; }

for file in libexec/ironfabric/libironfabric-fi.so lib/libfabric.so.1.32.0 lib/pkgconfig/libfabric.pc bin/fi_info bin/fi_mon_sampler bin/fi_pingpong bin/fi_strerror; do
    [ -f "$prefix/$file" ] || fail "there is no $file"
done
[ "$(readlink "$prefix/lib/libfabric.so")" = libfabric.so.1 ] || fail "lib/libfabric.so is no link to libfabric.so.1"
[ "$(readlink "$prefix/lib/libfabric.so.1")" = libfabric.so.1.32.0 ] || fail "lib/libfabric.so.1 is no link to its file"
diff -r "$ROOT/include" "$prefix/include" || fail "the installed headers differ"
if command -v pandoc >/dev/null; then
    for page in "$ROOT"/docs/man/*.[137].md; do
        name=$(basename "$page" .md)
        [ -f "$prefix/share/man/man${name##*.}/$name" ] || fail "the manual page $name is not installed"
    done
else
    echo "NOT CHECKED: manual pages, since there is no pandoc"
fi
[ -f "$prefix/include-2.7/rdma/fi_xpu.h" ] || fail "the headers of the next ABI are not there"

cat >"$folder/program.c" <<'C'
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <string.h>
int main(void)
{
    struct fi_info *hints = fi_allocinfo(), *info = NULL;
    if (!hints || fi_version() != FI_VERSION(2, 6))
        return 1;
    hints->fabric_attr->prov_name = strdup("tcp");
    int ret = fi_getinfo(FI_VERSION(2, 6), NULL, NULL, 0, hints, &info);
    printf("fi_getinfo: %s, provider %s\n", fi_strerror(-ret), ret ? "-" : info->fabric_attr->prov_name);
    fi_freeinfo(info);
    fi_freeinfo(hints);
    return ret != 0;
}
C
cat >"$folder/next.c" <<'C'
#include <rdma/fi_xpu.h>
int main(void) { struct fi_info *info = fi_allocinfo(); int ret = info->ep_attr->xpu_ctx != 0; fi_freeinfo(info); return ret; }
C
command -v pkg-config >/dev/null || install_packages pkg-config || skip "there is no pkg-config"
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
[ "$(pkg-config --modversion libfabric)" = 2.6.0 ] || fail "pkg-config says version $(pkg-config --modversion libfabric)"
read -ra flags < <(pkg-config --cflags --libs libfabric)
"${CC:-cc}" -Wall -Wextra -Werror -o "$folder/program" "$folder/program.c" "${flags[@]}" || fail "the program does not build"
LD_LIBRARY_PATH=$prefix/lib "$folder/program" || fail "the program does not run"

read -ra flags < <(pkg-config --cflags --libs libfabric-2.7)
"${CC:-cc}" -Wall -Wextra -Werror -o "$folder/next" "$folder/next.c" "${flags[@]}" || fail "a program of the next ABI does not build"
LD_LIBRARY_PATH=$prefix/lib "$folder/next" || fail "a program of the next ABI does not run"

# The installed programs find the library beside them without a variable.
for tool in fi_info fi_pingpong fi_strerror; do
    # Not through a pipe: grep -q ends at the first match, and a writer that is still writing would count as failed.
    taken=$(env -u LD_LIBRARY_PATH ldd "$prefix/bin/$tool")
    [[ $taken == *"$prefix/bin/../lib/libfabric.so.1"* ]] || fail "$tool takes another library: $taken"
done
"$prefix/bin/fi_info" --version || fail "fi_info does not run"

# The switch for the day of the release.
make -C "$ROOT" --no-print-directory install PREFIX="$folder/next-prefix" HEADERS=2.7 >"$folder/log" 2>&1 || { cat "$folder/log"; fail "make install HEADERS=2.7"; }
diff -r "$folder/next-prefix/include" "$prefix/include-2.7" || fail "HEADERS=2.7 installs other headers"
make -C "$ROOT" --no-print-directory install PREFIX="$folder/no-prefix" HEADERS=2.5 >"$folder/log" 2>&1 && fail "make install HEADERS=2.5 is taken"

# DESTDIR is where a package is put together; it appears in no file.
make -C "$ROOT" --no-print-directory install DESTDIR="$folder/stage" PREFIX=/usr LIBDIR=/usr/lib/x86_64-linux-gnu >"$folder/log" 2>&1 ||
    { cat "$folder/log"; fail "make install DESTDIR="; }
grep -rq "$folder" "$folder/stage/usr/lib/x86_64-linux-gnu/pkgconfig" && fail "libfabric.pc names the staging folder"
grep -qx 'libdir=${prefix}/lib/x86_64-linux-gnu' "$folder/stage/usr/lib/x86_64-linux-gnu/pkgconfig/libfabric.pc" ||
    fail "libfabric.pc has another libdir"
echo "installed, built against, run"
