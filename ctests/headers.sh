#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# headers.sh [INCLUDE]: the public headers compile without a warning, each alone and all together, and headers.c with
# them, as C and C++ of all standards, with gcc and clang. Deprecated names cause a warning, and only when they are
# used.
set -euo pipefail
. "$(dirname "$0")/../scripts/steps.sh"
include=${1:-$ROOT/include}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

headers=$(cd "$include" && echo rdma/*.h rdma/providers/*.h)
wanted=16
[ ! -e "$include/rdma/fi_xpu.h" ] || wanted=18
[ ! -e "$include/rdma/fi_wr.h" ] || wanted=19
[ "$(wc -w <<<"$headers")" -eq $wanted ] || fail "there are not $wanted headers in $include: $headers"
for header in $headers; do
    # Includes the header twice to test its guard.
    printf '#include <%s>\n#include <%s>\nint main(void) { return 0; }\n' "$header" "$header" >"$folder/${header//\//_}.c"
    echo "#include <$header>"
done >"$folder/all.h"
cp "$ROOT/ctests/headers.c" "$folder/"
for file in "$folder"/*.c; do cp "$file" "${file}c"; done # .cc

warnings=(-Wall -Wextra -Wshadow -Wundef -Wcast-qual)
count=0
compile() { # COMPILER STANDARD SUFFIX
    command -v "$1" >/dev/null || { absent+=" $1"; return 0; }
    local shadow=()
    # In C++ a function hides the constructor of the struct of its name; C has the two apart.
    [ "$3" = c ] || shadow=(-Wno-shadow)
    for file in "$folder"/*."$3"; do
        "$1" -std="$2" "${warnings[@]}" ${shadow[@]+"${shadow[@]}"} -Werror -I "$include" -I "$folder" -fsyntax-only "$file" ||
            fail "$1 -std=$2: $(basename "$file")"
        count=$((count + 1))
    done
}
absent=
for standard in c99 c11 gnu17; do compile gcc $standard c; compile clang $standard c; done
for standard in c++11 c++17 c++20; do compile g++ $standard cc; compile clang++ $standard cc; done

deprecated="fi_av_bind fi_poll fi_poll_add fi_poll_del fi_poll_open fi_rx_size_left fi_tx_size_left fi_wait fi_wait_open"
warned=$(gcc -std=gnu17 -Wall -I "$include" -I "$folder" -DUSE_DEPRECATED -fsyntax-only "$folder/headers.c" 2>&1 |
    grep -o "[‘']fi_[a-z_]*[’'] is deprecated" | grep -o 'fi_[a-z_]*' | LC_ALL=C sort -u | xargs)
[ "$warned" = "$deprecated" ] || fail "gcc warns about '$warned', deprecated is '$deprecated'"

[ -z "$absent" ] || skip "$count compilations are clean, but there is no compiler$(printf '%s\n' $absent | sort -u | xargs -n1 printf ' %s')"
echo "$count compilations, no warning"
