#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# drift.sh: the headers in include/, which the build has just written, are the committed ones.
set -euo pipefail
. "$(dirname "$0")/../scripts/steps.sh"
cd "$ROOT"
git rev-parse --is-inside-work-tree >/dev/null 2>&1 || skip "this is no git checkout"
git diff --exit-code -- include || fail "src/abi and include/ differ: commit the headers that the build wrote"
new=$(git ls-files --others --exclude-standard -- include)
[ -z "$new" ] || fail "headers that nobody committed: $new"
