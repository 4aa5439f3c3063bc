#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# remapped.sh COMMAND...: runs a cargo build as releases are built. RUSTFLAGS stay in effect; flags of a cargo config do
# not. The results contain no folder name of this machine, so that the same commit and compiler give the same bytes
# everywhere.
#
# The source is then /ironfabric, the build folder /target, the folder of the crates /cargo, that of std /rustc/HASH. In
# gdb: `set substitute-path /ironfabric FOLDER`.
set -euo pipefail
. "$(dirname "$0")/steps.sh"
rustc=${RUSTC:-rustc}
std=$("$rustc" --print sysroot)/lib/rustlib/src/rust
hash=$("$rustc" -vV | sed -n 's/^commit-hash: //p')
crates=${CARGO_HOME:-$HOME/.cargo}

# Cargo splits this at a byte that no path contains; RUSTFLAGS would be split at spaces.
read -r -a words <<<"${RUSTFLAGS-}"
flags=${CARGO_ENCODED_RUSTFLAGS-$(IFS=$'\037' && echo "${words[*]-}")}
# The last matching one is used.
for folder in "$crates=/cargo" "$std=/rustc/$hash" "$ROOT=/ironfabric" "$(target_dir)=/target"; do
    flags+=${flags:+$'\037'}--remap-path-prefix=$folder
done
# Inlines less than rustc does by default (225), except functions with #[inline], as those of the data path have. The
# library is an eighth smaller, and most calls execute as many instructions as before: docs/release.md, "Sizes".
flags+=$'\037'-Cllvm-args=-inline-threshold=60
export CARGO_ENCODED_RUSTFLAGS=$flags
exec "$@"
