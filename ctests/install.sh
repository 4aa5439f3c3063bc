#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# install.sh: the result of `make install` is complete, and sufficient to build and run a program.
set -euo pipefail
# Settings of the caller's shell must not decide which library is found.
unset LD_LIBRARY_PATH LD_PRELOAD
. "$(dirname "$0")/../scripts/steps.sh"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
prefix=$folder/prefix
quietly() { # MAKE'S ARGUMENTS
    make -C "$ROOT" --no-print-directory "$@" >"$folder/log" 2>&1 || { cat "$folder/log"; fail "make $*"; }
}
quietly install PREFIX="$prefix"
release=$(releases 1 default)
interface=$(default_set)
file_name=libfabric.so.$(releases 4 default)

for file in libexec/ironfabric/libironfabric-fi.so lib/$file_name lib/pkgconfig/libfabric.pc bin/fi_info bin/fi_mon_sampler bin/fi_pingpong bin/fi_strerror bin/fi_top; do
    [ -f "$prefix/$file" ] || fail "there is no $file"
done
[ "$(readlink "$prefix/lib/libfabric.so")" = libfabric.so.1 ] || fail "lib/libfabric.so is no link to libfabric.so.1"
[ "$(readlink "$prefix/lib/libfabric.so.1")" = "$file_name" ] || fail "lib/libfabric.so.1 is no link to its file"
diff -r "$ROOT/include" "$prefix/include" || fail "the installed headers differ"
if command -v pandoc >/dev/null; then
    for page in "$ROOT"/docs/man/*.[137].md; do
        name=$(basename "$page" .md)
        [ -f "$prefix/share/man/man${name##*.}/$name" ] || fail "the manual page $name is not installed"
    done
else
    echo "NOT CHECKED: manual pages, since there is no pandoc"
fi

# The completion for bash offers the options that each program has, and words for some of them.
for program in fi_info fi_pingpong fi_top fi_strerror fi_mon_sampler; do
    [ -f "$prefix/share/bash-completion/completions/$program" ] && [ -f "$prefix/share/fish/vendor_completions.d/$program.fish" ] ||
        fail "there is no completion of $program"
done
[ -f "$prefix/share/zsh/site-functions/_ironfabric" ] || fail "there is no completion for zsh"
offered() { # PROGRAM WORD BEFORE
    (
        PATH=$prefix/bin:$PATH
        . "$prefix/share/bash-completion/completions/$1"
        COMPREPLY=()
        _ironfabric "$@"
        printf '%s ' "${COMPREPLY[@]}"
    )
}
[ "$(offered fi_info --wh fi_info)" = "--why " ] || fail "completion of options: $(offered fi_info --wh fi_info)"
[[ " $(offered fi_info "" -p)" = *" tcp "* ]] || fail "completion of providers: $(offered fi_info "" -p)"
[ "$(offered fi_top w --sort)" = "wait " ] || fail "completion of values: $(offered fi_top w --sort)"

cat >"$folder/program.c" <<'C'
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <string.h>
int main(void)
{
    struct fi_info *hints = fi_allocinfo(), *info = NULL;
    if (!hints || fi_version() != FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION))
        return 1;
    hints->fabric_attr->prov_name = strdup("tcp");
    int ret = fi_getinfo(fi_version(), NULL, NULL, 0, hints, &info);
    printf("fi_getinfo: %s, provider %s\n", fi_strerror(-ret), ret ? "-" : info->fabric_attr->prov_name);
    fi_freeinfo(info);
    fi_freeinfo(hints);
    return ret != 0;
}
C
cat >"$folder/other.c" <<'C'
#include <stdio.h>
#include <rdma/fabric.h>
int main(void) { fi_freeinfo(fi_allocinfo()); printf("%d.%d\n", FI_MAJOR_VERSION, FI_MINOR_VERSION); return 0; }
C
command -v pkg-config >/dev/null || install_packages pkg-config || skip "there is no pkg-config"
export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
[ "$(pkg-config --modversion libfabric)" = "$release" ] || fail "pkg-config says version $(pkg-config --modversion libfabric)"
read -ra flags < <(pkg-config --cflags --libs libfabric)
"${CC:-cc}" -Wall -Wextra -Werror -o "$folder/program" "$folder/program.c" "${flags[@]}" || fail "the program does not build"
LD_LIBRARY_PATH=$prefix/lib "$folder/program" || fail "the program does not run"

# Each other set of headers has its folder and its file for pkg-config; programs linked with it require no newer node.
for set in $(sets | grep -vx "$interface"); do
    [ "$(pkg-config --modversion "libfabric-$set")" = "$(releases 1 "$set")" ] || fail "libfabric-$set.pc names another release"
    read -ra flags < <(pkg-config --cflags --libs "libfabric-$set")
    "${CC:-cc}" -Wall -Wextra -Werror -o "$folder/other" "$folder/other.c" "${flags[@]}" || fail "a program of $set does not build"
    said=$(LD_LIBRARY_PATH=$prefix/lib "$folder/other") || fail "a program of $set does not run"
    [ "$said" = "$(version_of "$set")" ] || fail "the headers of $set are those of $said"
    asked=$(readelf -W --dyn-syms "$folder/other" | grep -o 'fi_dupinfo@[A-Z0-9_.]*')
    [ "$asked" = "fi_dupinfo@$(releases 3 "$set")" ] || fail "a program of $set asks for $asked"
done

# The installed programs find the library beside them without a variable.
for tool in fi_info fi_pingpong fi_strerror; do
    # No pipe is used: grep -q ends at the first match, and a writer that is still writing would count as failed.
    taken=$(env -u LD_LIBRARY_PATH ldd "$prefix/bin/$tool")
    [[ $taken == *"$prefix/bin/../lib/libfabric.so.1"* ]] || fail "$tool takes another library: $taken"
done
"$prefix/bin/fi_info" --version || fail "fi_info does not run"

# Also tests the switch for hosts whose programs have to run on an older release.
other=$(sets | grep -vx "$interface" | head -n 1)
quietly install PREFIX="$folder/other-prefix" HEADERS="$other"
diff -r "$folder/other-prefix/include" "$prefix/include-$other" || fail "HEADERS=$other installs other headers"
diff -r "$folder/other-prefix/include-$interface" "$prefix/include" || fail "HEADERS=$other leaves the default headers out"
alpha=$(releases 2 alpha)
if [ -n "$alpha" ]; then
    quietly install-built PREFIX="$folder/alpha-prefix" HEADERS="$alpha"
    diff -r "$folder/alpha-prefix/include" "$prefix/include-$alpha" || fail "HEADERS=$alpha installs other headers"
    [ -e "$folder/alpha-prefix/lib/libfabric-$alpha/libfabric.so" ] || fail "there is no library to link with for $alpha"
fi
make -C "$ROOT" --no-print-directory install PREFIX="$folder/no-prefix" HEADERS=2.5 >"$folder/log" 2>&1 && fail "make install HEADERS=2.5 is taken"

# DESTDIR is the folder in which a package is assembled; it appears in no file.
libdir=/usr/lib/x86_64-linux-gnu
staged=(DESTDIR="$folder/stage" PREFIX=/usr LIBDIR=$libdir)
quietly install "${staged[@]}"
grep -rq "$folder" "$folder/stage$libdir/pkgconfig" && fail "libfabric.pc names the staging folder"
grep -qx 'libdir=${prefix}/lib/x86_64-linux-gnu' "$folder/stage$libdir/pkgconfig/libfabric.pc" ||
    fail "libfabric.pc has another libdir"

# Uninstalling leaves the files of others, and no folder that only this package uses.
touch "$folder/stage/usr/include/rdma/others.h"
quietly uninstall "${staged[@]}"
left=$(cd "$folder/stage" && find . ! -type d)
[ "$left" = ./usr/include/rdma/others.h ] || fail "after make uninstall there is: $left"
touch "$folder/other-prefix/lib/others.so"
quietly uninstall PREFIX="$folder/other-prefix" HEADERS="$other"
left=$(cd "$folder/other-prefix" && find . ! -type d; find . -name '*rdma*' -o -name '*ironfabric*' -o -name 'include-*' -o -name 'libfabric-*')
[ "$left" = ./lib/others.so ] || fail "after make uninstall there is: $left"

quietly install-strip PREFIX="$folder/stripped"
sections=$(readelf -SW "$folder/stripped/lib/$file_name")
[[ $sections != *.debug_line* && $sections != *.symtab* ]] || fail "install-strip leaves symbols"
LD_LIBRARY_PATH=$folder/stripped/lib "$folder/program" || fail "the program does not run on the stripped library"

# INSTALL=0 is a variable of the checks; here it must not prevent copying, and nothing may be fetched.
quietly install-built INSTALL=0 PREFIX="$folder/zero"
[ -f "$folder/zero/lib/$file_name" ] || fail "make install INSTALL=0 installs nothing"
seen=$(make -C "$ROOT" --no-print-directory INSTALL=0 --eval='seen: ; @echo $$FETCH $$CARGO_NET_OFFLINE $$PIP_NO_INDEX' seen)
[ "$seen" = "0 true 1" ] || fail "INSTALL=0 does not keep scripts, cargo and pip from the network: $seen"
(FETCH=0 && may_install) && fail "INSTALL=0 does not keep scripts from apt"
code=0
INSTALL=0 "$ROOT/scripts/python_env.sh" "$folder/python" >"$folder/log" 2>&1 || code=$?
[ "$code" = "$SKIPPED" ] || { cat "$folder/log"; fail "INSTALL=0 does not keep python_env.sh from PyPI: exit code $code"; }

# Each line of the help names an existing target.
for target in $(make -C "$ROOT" --no-print-directory help | sed -n 's/^make \([a-z][a-z-]*\).*/\1/p'); do
    make -C "$ROOT" -n "$target" K=x >"$folder/log" 2>&1 || { cat "$folder/log"; fail "make help names $target"; }
done

# The folder of libfabric.conf is compiled in.
mkdir "$folder/etc" && echo FI_PROVIDER=udp >"$folder/etc/libfabric.conf"
quietly debug SYSCONFDIR="$folder/etc"
LD_LIBRARY_PATH=$(target_dir)/debug "$folder/program" >"$folder/log" 2>&1 && fail "SYSCONFDIR/libfabric.conf has no effect"
grep -q 'provider -' "$folder/log" || { cat "$folder/log"; fail "the program does not end as it should"; }
quietly debug
LD_LIBRARY_PATH=$(target_dir)/debug "$folder/program" >/dev/null || fail "the folder of libfabric.conf stays"
echo "installed, built against, run, uninstalled"
