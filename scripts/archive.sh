#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# archive.sh FROM TO: makes of cargo's static library one whose only global symbols are those of libfabric, so that
# it can be linked into programs that contain Rust's std themselves. Needs GNU binutils.
set -euo pipefail
. "$(dirname "$0")/steps.sh"
from=$(realpath "${1:?usage: archive.sh FROM TO}") to=$(realpath -m "${2:?usage: archive.sh FROM TO}")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
nm --defined-only --extern-only "$from" 2>/dev/null | awk 'NF == 3 && $3 ~ /^fi_/ { print $3 }' | sort -u >names
grep -q '^fi_getinfo' names || fail "$from has no fi_getinfo"
ld -r $(sed 's/@.*//; s/^/-u /' names | sort -u) -o whole.o "$from"
# Each copy of std has this symbol in a section that the linker takes once.
echo DW.ref.rust_eh_personality >>names
# The compiler's own form of the code only confuses tools.
objcopy --remove-section .llvmbc --remove-section .llvmcmd --keep-global-symbols=names whole.o fabric.o
# D: the same input gives the same bytes.
ar crsD libfabric.a fabric.o
mkdir -p "$(dirname "$to")"
mv libfabric.a "$to"
