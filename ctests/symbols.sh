#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# symbols.sh LIBRARY: it exports exactly the names and versions of abi.txt, in the nodes of a libfabric.so.1.
set -euo pipefail
. "$(dirname "$0")/../scripts/steps.sh"
library=${1:?usage: symbols.sh LIBRARY}
here=$(dirname "$0")
export LC_ALL=C

exported() { nm -D --defined-only --with-symbol-versions "$1" | awk '$2 != "A" { print $3 }' | sort; }
diff -u "$here/abi.txt" <(exported "$library") ||
    fail "the library exports other names or versions than ctests/abi.txt (- wanted, + there)"

# There is one object, and it is read-only.
others=$(nm -D --defined-only "$library" | awk '$2 != "A" && $2 != "T" && !($2 == "R" && $3 ~ /^ironfabric_version@/)')
[ -z "$others" ] || fail "not functions: $others"

soname=$(readelf -d "$library" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
[ "$soname" = libfabric.so.1 ] || fail "the soname is '$soname'"

# All nodes, also those without a name of their own: the loader refuses a program whose node is missing.
nodes=$(readelf -V "$library" | sed -n '/ersion definition/,/^$/s/.*Name: \(FABRIC_[A-Z0-9_.]*\).*/\1/p' | xargs)
wanted="FABRIC_1.0 FABRIC_1.1 FABRIC_1.2 FABRIC_1.3 FABRIC_1.4 FABRIC_1.5 FABRIC_1.6 FABRIC_1.7 FABRIC_1.8 FABRIC_1.9 FABRIC_1.10 FABRIC_1.11"
[ "$nodes" = "$wanted FABRIC_RS_1.0" ] || fail "the version nodes are $nodes"

missing=$(ldd -r "$library" 2>&1 | grep -E 'undefined|not found|no version' || true)
[ -z "$missing" ] || fail "unresolved: $missing"
echo "$(wc -l <"$here/abi.txt") symbols, $(grep -cv FABRIC_RS "$here/abi.txt") of them libfabric's own"
