#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# man.sh FOLDER: the manual pages of docs/man as pages for man(1), in FOLDER/man1, man3 and man7, and a link line for
# each call that leads to its page. Only changed pages are rendered. Exit code 77 if there is no pandoc.
set -euo pipefail
. "$(dirname "$0")/steps.sh"
out=${1:?man.sh FOLDER}
command -v pandoc >/dev/null || skip "there is no pandoc, so no manual pages"
# The version of ironfabric; the package has the interface version.
version=$(sed -n '/^\[package.metadata.ironfabric\]/,/^$/s/^version = "\(.*\)"/\1/p' "$ROOT/Cargo.toml")

# The date of the release: that of the environment, of the last commit, or today.
if [ -n "${SOURCE_DATE_EPOCH:-}" ]; then
    day=$(date -u -d "@$SOURCE_DATE_EPOCH" +%F)
else
    day=$(git -C "$ROOT" log -1 --format=%cs 2>/dev/null | grep . || date -u +%F)
fi

made=0
# mandoc warns of two things in pandoc's output: the filter and, behind headings, awk write them differently. Register HY
# stops man(1) from hyphenating names of constants.
for page in "$ROOT"/docs/man/*.[137].md; do
    name=$(basename "$page" .md)
    section=${name##*.}
    target=$out/man$section/$name
    if [ "$target" -nt "$page" ] && [ "$target" -nt "$ROOT/scripts/man.lua" ] && [ "$target" -nt "$0" ]; then
        continue
    fi
    mkdir -p "$out/man$section"
    pandoc --standalone --from gfm --to man --shift-heading-level-by=-1 --lua-filter "$ROOT/scripts/man.lua" \
        -M "date=$day" -V "footer=ironfabric $version" -V "header=ironfabric" -V hyphenate= -V adjusting=l "$page" |
        awk '!($0 == ".PP" && heading) { print } { heading = /^\.S[HS] / } /^\.TH / { print ".nr HY 0" }' >"$target.new"
    mv "$target.new" "$target"
    made=$((made + 1))
    # `man fi_cq_read` shows the page that documents it.
    [ "$section" = 3 ] || continue
    sed -n '/^## NAME/,/^## SYNOPSIS/{/^##/d;p}' "$page" | tr '\n' ' ' | sed 's/ - .*//' | grep -o 'fi_[a-z0-9_]*' |
        while read -r call; do
            [ "$call.3" = "$name" ] || echo ".so man3/$name" >"$out/man3/$call.3"
        done
done
echo "$made pages rendered into $out"
