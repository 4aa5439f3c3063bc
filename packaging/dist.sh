#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# dist.sh [--all] [--machine-only] TARGET BUILT PLUGIN: collects the files of a release in TARGET/dist: an archive of
# the sources, one of the installed files, the packages, the wheel and the SBOM that other targets have left in TARGET,
# and SHA256SUMS. `make dist` calls it.
#
# --all: fails if a package is missing, instead of naming it. --machine-only: without the files that are the same for
# every machine.
set -euo pipefail
. "$(dirname "$0")/../scripts/steps.sh"
all='' machine_only=''
while [[ ${1:-} == --* ]]; do
    case $1 in
    --all) all=1 ;;
    --machine-only) machine_only=1 ;;
    *) fail "there is no option $1" ;;
    esac
    shift
done
usage="usage: dist.sh [--all] [--machine-only] TARGET BUILT PLUGIN"
target=$(realpath "${1:?$usage}") built=$(realpath "${2:?$usage}") plugin=$(realpath "${3:?$usage}")
own=$(sed -n '/metadata.ironfabric/,/^version/s/^version = "\(.*\)"/\1/p' "$ROOT/Cargo.toml")
abi=$(sed -n '/^version = /{s/.*"\(.*\)"/\1/p;q}' "$ROOT/Cargo.toml")
machine=$(uname -m)
out=$target/dist
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
rm -rf "$out"
mkdir -p "$out"
[ -z "$(git -C "$ROOT" status --porcelain)" ] || echo "NOT INCLUDED in the sources: changes that are not committed"

if [ -z "$machine_only" ]; then
    git -C "$ROOT" archive --format=tar --prefix="ironfabric-$own/" HEAD | gzip -9n >"$out/ironfabric-$own.tar.gz"
fi

# The installed files. Owners and times do not depend on the builder.
make -C "$ROOT" --no-print-directory install-built BUILT="$built" PLUGIN="$plugin" DESTDIR="$scratch/stage" \
    PREFIX=/opt/ironfabric INSTALL_PROGRAM='install -s' >"$scratch/log" 2>&1 ||
    { cat "$scratch/log"; fail "make install-built"; }
grep -h '^NOT ' "$scratch/log" || true
tar -C "$scratch/stage" --sort=name --owner=0 --group=0 --numeric-owner --mode=u+rwX,go+rX,go-w \
    --mtime="@$(git -C "$ROOT" log -1 --format=%ct)" -cf - opt |
    gzip -9n >"$out/ironfabric-$own-$machine-linux-gnu.tar.gz"

# What other targets have made. A file of another version is left over from an earlier build.
collect() { # TARGET OF MAKE, VERSION IN THE NAMES, FILE...
    local what=$1 version=$2 file count=0
    shift 2
    for file; do
        [ -e "$file" ] || continue
        [[ -z $machine_only || $file != *@(_all.deb|.noarch.rpm|.json) ]] || continue
        [[ ${file##*/} == *"$version"* || $file == *.json ]] || fail "$file is not of version $version: run make $what"
        cp "$file" "$out"
        count=$((count + 1))
    done
    [ $count -gt 0 ] || [[ $what = sbom && -n $machine_only ]] || {
        [ -z "$all" ] || fail "there is nothing of make $what"
        echo "NOT INCLUDED: make $what has not run"
    }
}
shopt -s extglob
collect deb "$abi+ironfabric$own" "$target"/deb/*.deb
collect rpm "$abi+ironfabric$own" "$target"/rpm/RPMS/*/*.rpm
collect wheel "$own" "$target"/wheel/dist/*.whl
collect sbom "" "$target"/sbom/*.json

(cd "$out" && sha256sum -- * >SHA256SUMS && cat SHA256SUMS)
