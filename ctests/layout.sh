#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# layout.sh [SET [INCLUDE]]: every measured size, offset, constant and type of a function of a set of headers holds in the folder INCLUDE, as C
# and as C++ see them; without arguments the default set in include/. ctests/layout has a file for each set, with the facts
# that differ from the sets before it or are new.
set -euo pipefail
. "$(dirname "$0")/../scripts/steps.sh"
set=${1:-$(default_set)}
include=${2:-$ROOT/include}
# Newest first: the first file with a fact decides.
facts=()
for each in $(sets); do
    facts=("$ROOT/ctests/layout/$each.txt" ${facts[@]+"${facts[@]}"})
    [ "$each" != "$set" ] || break
done
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
        fact in seen { next }
        { seen[fact] = 1 }
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
        }
        # Compilation fails if the function has another type.
        $1 == "inline" {
            type = $0
            sub(/^inline [^ ]* /, "", type)
            printf "{ __typeof__(%s) *function = %s; expect(\"%s\", !function, 0); }\n", type, $2, $2
        }' "${facts[@]}"
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
