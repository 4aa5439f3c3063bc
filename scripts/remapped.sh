#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# remapped.sh COMMAND...: runs a build of cargo's that names no folder of this machine in what it makes, so that the same
# commit and compiler give the same bytes wherever they are. RUSTFLAGS stay in force; flags of a cargo config do not.
#
# /ironfabric is then the source, /target what is built, /cargo the folder of the crates, /rustc/HASH that of std. In gdb:
# `set substitute-path /ironfabric FOLDER`.
set -euo pipefail
. "$(dirname "$0")/steps.sh"
rustc=${RUSTC:-rustc}
std=$("$rustc" --print sysroot)/lib/rustlib/src/rust
hash=$("$rustc" -vV | sed -n 's/^commit-hash: //p')
crates=${CARGO_HOME:-$HOME/.cargo}

# Cargo splits this at a byte that no path has, where it would split RUSTFLAGS at spaces.
read -r -a words <<<"${RUSTFLAGS-}"
flags=${CARGO_ENCODED_RUSTFLAGS-$(IFS=$'\037' && echo "${words[*]-}")}
# The last one that fits counts.
for folder in "$crates=/cargo" "$std=/rustc/$hash" "$ROOT=/ironfabric" "$(target_dir)=/target"; do
    flags+=${flags:+$'\037'}--remap-path-prefix=$folder
done
export CARGO_ENCODED_RUSTFLAGS=$flags
exec "$@"
