#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# checks.sh NAME...: runs `make check-NAME` for each, all of them even if one fails, and sums up.
set -uo pipefail
. "$(dirname "$0")/steps.sh"

passed=() skipped=() failed=()
for name in "$@"; do
    say "$name"
    start=$SECONDS log=$(mktemp)
    make -C "$ROOT" --no-print-directory "check-$name" 2>&1 </dev/null | tee "$log"
    code=${PIPESTATUS[0]}
    # make turns every failure into its own exit code 2; it names the recipe's.
    if [ "$code" -eq 0 ]; then
        passed+=("$name")
    elif grep -q "^make.*: \*\*\* .*check-$name\] Error $SKIPPED$" "$log"; then
        skipped+=("$name")
    else
        failed+=("$name")
    fi
    rm -f "$log"
    echo "-- $name: $((SECONDS - start)) s"
done

say "${#passed[@]} passed: ${passed[*]}"
[ ${#skipped[@]} -eq 0 ] || echo "SKIPPED, in part or whole; the reasons stand above: ${skipped[*]}"
[ ${#failed[@]} -eq 0 ] || fail "${failed[*]}"
