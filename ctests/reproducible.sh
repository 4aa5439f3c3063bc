#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# reproducible.sh FOLDER [--quick] [--wheel]: clones this commit into two folders of FOLDER, builds each as a separate
# user would, and compares the results byte for byte: library, programs, plug-in, static library, packages. No path of
# either folder may be in them. --wheel: also the wheel for an old glibc, whose compiler is from PyPI. --quick: without
# optimization, in a fifth of the time, which detects paths and times, but not effects of an optimizer.
#
# Both builds use the same compiler, and the crates of this user's CARGO_HOME, unpacked by each build into its own.
set -euo pipefail
. "$(dirname "$0")/../scripts/steps.sh"
mkdir -p "${1:?usage: reproducible.sh FOLDER [--quick] [--wheel]}"
folder=$(cd "$1" && pwd)
wheel='' profile=()
for option in "${@:2}"; do
    case $option in
    --wheel) wheel=1 ;;
    --quick) profile=(CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16) ;;
    *) fail "there is no option $option" ;;
    esac
done
git -C "$ROOT" rev-parse -q --verify HEAD >/dev/null || skip "this source has no repository that could be cloned"
[ -z "$(git -C "$ROOT" status --porcelain -uno)" ] || echo "NOT CHECKED: what is not committed"
crates=${CARGO_HOME:-$HOME/.cargo}/registry
[ -d "$crates/cache" ] || fail "$crates has no crates yet: build once"
rm -rf "$folder/one" "$folder/another"

# The other folder is deeper, has a separate build folder, another language, time zone, umask and number of jobs, and is
# built later.
build() { # PLACE USER UMASK VARIABLE=VALUE...
    local place=$1 user=$2 mask=$3
    shift 3
    local home=$place/$user source=$place/source
    mkdir -p "$home/.cargo/registry"
    cp -r "$crates/index" "$crates/cache" "$home/.cargo/registry"
    git clone -q --no-hardlinks "$ROOT" "$source"
    git -C "$source" checkout -q --detach "$(git -C "$ROOT" rev-parse HEAD)"
    say "As $user in $place"
    local rustup=${RUSTUP_HOME:-$HOME/.rustup}
    local clean=(env -i "PATH=$PATH" "HOME=$home" "USER=$user" "LOGNAME=$user" "CARGO_HOME=$home/.cargo" "RUSTUP_HOME=$rustup"
        CARGO_NET_OFFLINE=true ${RUSTUP_TOOLCHAIN:+"RUSTUP_TOOLCHAIN=$RUSTUP_TOOLCHAIN"}
        ${profile[@]+"${profile[@]}"} "$@")
    local targets=(all plugin static)
    ! command -v dh >/dev/null || targets+=(deb)
    ! command -v rpmbuild >/dev/null || targets+=(rpm)
    (umask "$mask" && cd "$source" && for target in "${targets[@]}"; do
        "${clean[@]}" make --no-print-directory "$target" || exit 1
    done) >"$place/log" 2>&1 || { tail -n 40 "$place/log"; fail "the build in $place"; }
    [ -z "$wheel" ] || (umask "$mask" && cd "$source" && "${clean[@]}" PIP_CACHE_DIR="$HOME/.cache/pip" make wheel) \
        >>"$place/log" 2>&1 || { tail -n 40 "$place/log"; fail "the wheel in $place"; }
}
mkdir -p "$folder/another/deep/down"
build "$folder/one" ann 022 LC_ALL=C TZ=UTC
build "$folder/another/deep/down" zebedee 027 LC_ALL=C.UTF-8 TZ=Asia/Tokyo CARGO_BUILD_JOBS=1 \
    "CARGO_TARGET_DIR=$folder/another/built"

one=$folder/one/source/target another="$folder/another/built"
files=(release/libfabric.so static/libfabric.a plugin/libexec/libironfabric-fi.so
    release/fi_info release/fi_mon_sampler release/fi_pingpong release/fi_strerror)
differ=0
compare() { # FILE OF BOTH
    [ -f "$one/$1" ] || fail "there is no $one/$1"
    if cmp "$one/$1" "$another/$1"; then
        echo "same: $1, $(stat -c %s "$one/$1") bytes"
    else
        differ=1
    fi
}
for file in "${files[@]}"; do
    compare "$file"
    # Paths must also be missing from the data that a debugger reads.
    said=$(strings -a "$one/$file" | grep -F -e "$folder" -e "$HOME/" -m 3 || true)
    [ -z "$said" ] || { echo "$file says: $said"; differ=1; }
done
for what in deb:'deb/*.deb' rpm:'rpm/RPMS/*/*.rpm' wheel:'wheel/dist/*.whl'; do
    found=0
    for file in "$one"/${what#*:}; do
        [ ! -f "$file" ] || { compare "${file#"$one"/}" && found=1; }
    done
    [ $found = 1 ] || echo "NOT COMPARED: ${what%%:*}, which was not made"
done
[ $differ = 0 ] || fail "two builds of one commit differ, or name a folder"
echo "two builds of $(git -C "$ROOT" rev-parse --short=12 HEAD) are the same"
