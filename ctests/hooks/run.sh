#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# run.sh [--long] FOLDER BUILD CONFORMANCE: the suite CONFORMANCE on the libfabric.so.1 of FOLDER over the plug-in
# "carry", which is built in BUILD, over ofi_rxm and ofi_rxd upon it when it has all possible requirements, and with all
# hooks at once around our providers. With --long also without requirements, around carry, and with each hook alone.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
long=
[ "$1" = --long ] && long=yes && shift
library=$(realpath "$1")
build=$2
conformance=$(realpath "$3")
mkdir -p "$build"

"${CC:-cc}" -std=gnu17 -Wall -Wextra -Werror -O1 -g -fPIC -shared -pthread -fvisibility=hidden -I"$here/../../include" \
    -o "$build/libcarry-fi.so" "$here"/../plugins/carry/*.c -L"$library" -lfabric

# Log lines are formatted and go to the log of each test.
export LD_LIBRARY_PATH=$library FI_LOG_LEVEL=trace
files=$(mktemp -d)
trap 'rm -rf "$files"' EXIT
export FI_OFI_HOOK_MONITOR_BASEPATH=$files

# Without /dev/shm the files of the hook monitor are as slow as a disk.
[ ! -w /dev/shm ] || { rm -rf "$files" && files=$(mktemp -d -p /dev/shm) && export FI_OFI_HOOK_MONITOR_BASEPATH=$files; }

total_passed=0
total_failed=0
# HOOKS ARGUMENT...: the suite under these hooks.
under() {
    local hooks=$1 last
    shift
    if [ -n "$hooks" ]; then export FI_HOOK=$hooks; else unset FI_HOOK; fi
    CONFORMANCE_SLOWER=3 "$conformance" -j 3 "$@" >"$build/log" 2>&1 || true
    last=$(tail -n 1 "$build/log")
    grep '^FAIL' "$build/log" || true
    echo "${hooks:-no hook}, $*: $last"
    [[ $last =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed ]] || { cat "$build/log"; exit 1; }
    # A suite without any test to run has not passed.
    [ "${BASH_REMATCH[1]}" -gt 100 ] || { echo "too few tests ran"; total_failed=$((total_failed + 1)); }
    total_passed=$((total_passed + BASH_REMATCH[1]))
    total_failed=$((total_failed + BASH_REMATCH[2]))
}

# ARGUMENT...: a hook offers as much as the provider without it. Otherwise rules would be skipped instead of failing,
# because an object is refused.
same_offer() {
    local with without
    without=$(env -u FI_HOOK "$conformance" -j 2 "$@" 2>/dev/null | grep -c '^skip') || true
    with=$(FI_HOOK=noop "$conformance" -j 2 "$@" 2>/dev/null | grep -c '^skip') || true
    echo "skipped with a hook: $with, without: $without, $*"
    [ "$with" = "$without" ] || total_failed=$((total_failed + 1))
}

hooks=(noop perf trace profile monitor debug hmem)
all="perf;trace;profile;monitor;debug;noop;noop"
expected=$here/../plugins/carry/expected.txt
carry=(-p carry -x "$expected")
# The pages of objects are the same for a plug-in with requirements and without; those that move data are not.
moves=(-k fi_msg: -k fi_tagged: -k fi_rma: -k fi_atomic: -k fi_cq: -k fi_mr: -k fi_endpoint:)
[ -z "$long" ] || moves=()
FI_PROVIDER_PATH=$build under "" "${carry[@]}"
cat "$expected" "${expected%.txt}_all.txt" >"$build/expected_all.txt"
for layer in ofi_rxm ofi_rxd; do
    [ -z "$long" ] || FI_PROVIDER_PATH=$build under "" -p "carry;$layer" -x "$expected"
    CARRY_DEMANDS=all FI_PROVIDER_PATH=$build under "" -p "carry;$layer" "${moves[@]}" -x "$build/expected_all.txt"
done
# Regions that belong to endpoints leave no descriptors.
CARRY_DEMANDS=local FI_PROVIDER_PATH=$build under "" -p "carry;ofi_rxm" -k fi_mr: -k fi_rma: -x "$build/expected_all.txt"
[ -z "$long" ] || FI_PROVIDER_PATH=$build under "$all" "${carry[@]}"
# MSG endpoints and shm are the same engine, so all their pages are for --long.
short=(-k fi_cm: -k fi_eq: -k fi_pep: -k fi_msg: -k fi_rma: -k fi_cq:)
under "$all" -p tcp -e rdm -x "$here/expected.txt"
[ -n "$long" ] || under "$all" -p tcp -e msg "${short[@]}" -x "$here/expected.txt"
same_offer -p tcp -k fi_mr: -k fi_trigger: -k fi_collective: -k fi_av_set: -k fi_peer: -k fi_profile:
if [ -n "$long" ]; then
    for hook in "${hooks[@]}"; do
        FI_PROVIDER_PATH=$build under "$hook" "${carry[@]}"
        under "$hook" -x "$here/expected.txt"
    done
    under "$all" -x "$here/expected.txt"
fi
echo "$total_passed passed, $total_failed failed"
[ "$total_failed" = 0 ]
