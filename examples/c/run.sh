#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# run.sh LIBRARY-FOLDER BUILD-FOLDER: compiles the C examples as a user would, and runs each on every provider that has
# its kind of endpoint, over loopback. What is called wrongly, or asks for what is not there, has to fail.
set -euo pipefail
. "$(dirname "$0")/../../scripts/steps.sh"

library=$(cd "$1" && pwd) build=$2
mkdir -p "$build"
cc=${CC:-cc}
command -v "$cc" >/dev/null || skip "no C compiler"
export LD_LIBRARY_PATH=$library FI_TCP_IFACE=lo FI_SOCKETS_IFACE=lo

rdm=(msg_pingpong tagged rma atomics epoll many_peers)
for source in "$ROOT"/examples/c/*.c; do
    name=$(basename "$source" .c)
    "$cc" -std=gnu11 -O1 -Wall -Wextra -Werror -I"$ROOT/include" -o "$build/$name" "$source" -L"$library" -lfabric
    [[ " ${rdm[*]} server " == *" $name "* ]] || fail "$name is not run by this script"
    "$build/$name" --help | grep -q "^usage: " || fail "$name --help"
    "$build/$name" --bad-option >/dev/null 2>&1 && fail "$name took an option that is none"
    "$build/$name" -p no_such_provider >/dev/null 2>&1 && fail "$name ran on a provider that is none"
done

runs=0
run() { # NAME ARGUMENT...
    limited 60 "$*" "$build/$@" >"$build/$1.out" 2>&1 || { cat "$build/$1.out"; fail "$*"; }
    grep -q "^$1: " "$build/$1.out" || fail "$*: no result"
    runs=$((runs + 1))
}
for name in "${rdm[@]}"; do
    for provider in tcp shm 'tcp;ofi_rxm' sockets 'udp;ofi_rxd'; do
        run "$name" -p "$provider"
    done
    # Between hosts, or users: not over shared memory.
    FI_TCP_SHARED_MEMORY=0 run "$name" -p tcp
done
for provider in tcp sockets; do
    run server -p "$provider"
done
run many_peers -n 24
echo "the C examples: $runs runs"
