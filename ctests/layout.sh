#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# layout.sh [INCLUDE [CHANGES]]: every size, offset and constant of layout.txt holds in the headers, as C and as C++ see
# them. CHANGES: a file with those facts that differ from it, or come on top.
set -euo pipefail
. "$(dirname "$0")/../scripts/steps.sh"
include=${1:-$ROOT/include}
changes=${2:-/dev/null}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

{
    echo '#include <stddef.h>'
    (cd "$include" && for header in rdma/*.h rdma/providers/*.h; do echo "#include <$header>"; done)
    cat <<'C'
#include <stdio.h>
#ifdef __cplusplus
#define _Alignof alignof
#endif
static int facts, differences;
static void expect(const char *what, long long is, long long wanted)
{
    facts++;
    if (is != wanted) {
        differences++;
        printf("%s is %lld, not %lld\n", what, is, wanted);
    }
}
int main(void)
{
C
    awk '
        { fact = $1 " " $2 ($1 == "member" ? " " $3 : "") }
        FILENAME == CHANGES { changed[fact] = 1 }
        FILENAME != CHANGES && fact in changed { next }
        $1 == "size" {
            printf "expect(\"size of %s\", sizeof(struct %s), %s);\n", $2, $2, $3
            printf "expect(\"alignment of %s\", _Alignof(struct %s), %s);\n", $2, $2, $4
        }
        $1 == "member" {
            printf "expect(\"offset of %s.%s\", offsetof(struct %s, %s), %s);\n", $2, $3, $2, $3, $4
            if ($5 > 0)
                printf "expect(\"size of %s.%s\", sizeof(((struct %s *) 0)->%s), %s);\n", $2, $3, $2, $3, $5
        }
        $1 == "value" {
            number = $3 ~ /^-/ ? $3 "LL" : $3 "ULL"
            printf "expect(\"%s\", (long long) (%s), (long long) %s);\n", $2, $2, number
        }' CHANGES="$changes" "$changes" "$ROOT/ctests/layout.txt"
    echo '    printf("%d facts, %d differ\n", facts, differences);'
    echo '    return differences != 0;'
    echo '}'
} >"$folder/layout.c"
cp "$folder/layout.c" "$folder/layout.cc"

"${CC:-cc}" -std=gnu17 -Wall -Wextra -Werror -I "$include" -o "$folder/c" "$folder/layout.c"
"${CXX:-c++}" -std=c++17 -Wall -Wextra -Werror -Wno-invalid-offsetof -I "$include" -o "$folder/cc" "$folder/layout.cc"
for language in c cc; do
    "$folder/$language" || fail "the headers, as $language, do not have the layout that was measured"
done
