#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# build.sh TARGET_FOLDER: builds the library, its programs and the plug-in for glibc 2.28 and this machine, and the wheel
# of them into TARGET_FOLDER/dist.
#
# cargo-zigbuild and zig are from PyPI: zig has the symbols of each glibc, and links to those of the requested one.
# IRONFABRIC_BUILT=FOLDER takes the library, the programs and the headers of other releases from there, and
# IRONFABRIC_PLUGIN=FILE the plug-in; the wheel is then tagged for the glibc that they need.
set -euo pipefail
. "$(dirname "$0")/../../scripts/steps.sh"
folder=${1:?usage: build.sh TARGET_FOLDER}
here=$ROOT/packaging/wheel
GLIBC=2.28
MACHINE=$(uname -m)
TRIPLE=$MACHINE-unknown-linux-gnu
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)

tools=$folder/tools
if ! [ -f "$tools/made-from" ] || ! cmp -s "$here/requirements.txt" "$tools/made-from"; then
    [ "${INSTALL:-1}" != 0 ] || skip "the tools of the build are of PyPI, and INSTALL=0 forbids to fetch them"
    say "Tools of the build in $tools (once; some 100 MB from PyPI)"
    rm -rf "$tools"
    limited 120 "python3 -m venv" python3 -m venv "$tools" || fail "python3 -m venv does not work here"
    limited 900 "pip install" "$tools/bin/pip" install -q --disable-pip-version-check -r "$here/requirements.txt" ||
        skip "PyPI cannot be reached, and the wheel is built by tools of it"
    cp "$here/requirements.txt" "$tools/made-from"
fi
export PATH=$tools/bin:$PATH

if [ -n "${IRONFABRIC_BUILT:-}" ]; then
    built=$IRONFABRIC_BUILT plugin=${IRONFABRIC_PLUGIN:-}
else
    command -v cargo >/dev/null || fail "the library is built by cargo, which is not here"
    cargo_folder=$folder/cargo built=$folder/cargo/$TRIPLE/release plugin=$folder/libironfabric-fi.so
    export CARGO_TARGET_DIR=$cargo_folder
    remapped=$ROOT/scripts/remapped.sh
    zigbuild=("$remapped" cargo zigbuild --release --locked --target "$TRIPLE.$GLIBC")
    say "Library and programs for glibc $GLIBC"
    (cd "$ROOT" && "${zigbuild[@]}" --lib)
    ln -sf libfabric.so "$built/libfabric.so.1"
    (cd "$ROOT" && "${zigbuild[@]}" -p tools)
    for set in $(sets | grep -vx "$(default_set)"); do
        "$ROOT/scripts/link_stub.sh" "$built/libfabric.so" "$(releases 3 "$set")" "$built/link-$set"
    done
    say "Plug-in for glibc $GLIBC"
    (cd "$ROOT" && "$remapped" cargo-zigbuild rustc --release --locked --target "$TRIPLE.$GLIBC" --lib --features plugin \
        --crate-type staticlib)
    python3 -m ziglang cc -target "$MACHINE-linux-gnu.$GLIBC" -shared -o "$plugin" -Wl,-soname,libironfabric-fi.so \
        -Wl,--gc-sections -Wl,-u,fi_prov_ini -Wl,--version-script="$ROOT/src/abi/plugin.map" -Wl,-z,defs \
        "$built/libfabric.a" -lpthread -ldl -lm -lunwind -lc
fi

say "Stage"
stage=$folder/stage
rm -rf "$stage"
install -d "$stage/lib/pkgconfig" "$stage/bin" "$stage/plugin"
install -m 755 "$built/libfabric.so" "$stage/lib/libfabric.so.1"
for tool in fi_info fi_mon_sampler fi_pingpong fi_strerror fi_top; do
    install -m 755 "$built/$tool" "$stage/bin"
done
[ -z "$plugin" ] || install -m 755 "$plugin" "$stage/plugin/libironfabric-fi.so"
# A wheel has no links, and a second copy of the library would be as large: `-l:` takes the file by its name.
headers() { # FROM TO
    install -d "$stage/$2/rdma/providers"
    install -m 644 "$1"/rdma/*.h "$stage/$2/rdma"
    install -m 644 "$1"/rdma/providers/*.h "$stage/$2/rdma/providers"
}
pkg_config() { # NAME HEADERS SET [FOLDER LINK]
    # shellcheck disable=SC2016 # These are for pkg-config.
    sed -e 's|@PREFIX@|${pcfiledir}/../..|' -e "s|@LIBDIR@|\${prefix}/${4:-lib}|" -e "s|@INCLUDEDIR@|\${prefix}/$2|" \
        -e "s|@NAME@|$1|" -e "s|@VERSION@|$(releases 1 "$3")|" -e "s|-lfabric|${5:--l:libfabric.so.1}|" \
        "$ROOT/pkgconfig/libfabric.pc.in" >"$stage/lib/pkgconfig/$1.pc"
}
headers "$ROOT/include" include
pkg_config libfabric include "$(default_set)"
# The headers of the other releases, and for each set a library to link with.
for set in $(sets | grep -vx "$(default_set)"); do
    if [ ! -d "$built/include-$set" ]; then
        echo "NOT INCLUDED: headers of $set, $built/include-$set is not there" >&2
        continue
    fi
    headers "$built/include-$set" "include-$set"
    if [ -d "$built/link-$set" ]; then
        install -D -m 755 "$built/link-$set/libfabric.so" "$stage/lib/link-$set/libfabric.so"
        pkg_config "libfabric-$set" "include-$set" "$set" "lib/link-$set" -lfabric
    else
        pkg_config "libfabric-$set" "include-$set" "$set"
    fi
done
# Users of a wheel need no symbols; the loader's symbols stay.
find "$stage" \( -name '*.so' -o -name '*.so.1' -o -path '*/bin/*' \) -type f -exec strip --strip-unneeded {} +
# The oldest glibc with which all of them work.
needed=$(find "$stage" -type f \( -name '*.so*' -o -path '*/bin/*' \) -exec objdump -T {} + |
    grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -Vu | tail -n 1)
newest=$(printf '%s\n' "$needed" "$GLIBC" | sort -V | tail -n 1)
if [ "$newest" != "$GLIBC" ] && [ -z "${IRONFABRIC_BUILT:-}" ]; then
    fail "the files need GLIBC_$needed, more than $GLIBC"
fi
platform=manylinux_${newest/./_}_$MACHINE

say "Wheel for $platform (the files need GLIBC_$needed)"
# Builds in a copy of the project, so that licences are where the backend looks for them and nothing is written into the
# tree.
rm -rf "$folder/dist" "$folder/source"
mkdir -p "$folder/source/packaging"
cp -r "$here" "$folder/source/packaging/wheel"
cp "$ROOT/Cargo.toml" "$folder/source"
(cd "$ROOT" && find . -maxdepth 2 -type f \( -path './LICENSE*' -o -path './COPYING*' -o -path './NOTICE*' \) \
    -exec cp --parents -t "$folder/source/packaging/wheel" {} +)
if ! ls "$folder"/source/packaging/wheel/LICENSE* >/dev/null 2>&1; then
    echo "NOT INCLUDED: licences, the tree has no LICENSE file" >&2
fi
# Times in an archive are those of the commit.
! epoch=$(git -C "$ROOT" log -1 --format=%ct 2>/dev/null) || export SOURCE_DATE_EPOCH=$epoch
(cd "$folder/source/packaging/wheel" && IRONFABRIC_STAGE=$stage IRONFABRIC_PLATFORM=$platform "$tools/bin/python" \
    -m hatchling build -t wheel -d "$folder/dist")
wheel=$(echo "$folder"/dist/ironfabric-*.whl)
# The result of auditwheel: the tag, and libraries that some systems lack.
"$tools/bin/auditwheel" show "$wheel" | tee "$folder/auditwheel.log"
said=$(tr '\n' ' ' <"$folder/auditwheel.log")
[[ $said == *"consistent with the following platform tag: \"manylinux_"* ]] ||
    fail "auditwheel gives it no tag of manylinux"
echo "$wheel: $(du -k "$wheel" | cut -f1) KiB"
