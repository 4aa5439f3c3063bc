#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# run.sh LIBRARY_FOLDER CONFORMANCE [--long]: the library on a kernel that lacks some system calls; see refuse.c. First
# on one that is as old as README.md allows, then with one call after the other refused in both ways: as a kernel
# without it does, and as a container that forbids it does. --long: all conformance tests on the old kernel.
set -euo pipefail
. "$(dirname "$0")/../../scripts/steps.sh"
library=$(realpath "${1:?usage: run.sh LIBRARY_FOLDER CONFORMANCE [--long]}")
conformance=$(realpath "${2:?usage: run.sh LIBRARY_FOLDER CONFORMANCE [--long]}")
long=${3-}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
refuse=$folder/refuse
"${CC:-cc}" -std=gnu17 -O1 -Wall -Wextra -Werror -o "$refuse" "$(dirname "$0")/refuse.c"
"$refuse" -- true || skip "this kernel, or the container that this runs in, takes no filter of system calls"
export LD_LIBRARY_PATH=$library
pages=(-k fi_msg:send -k fi_cq: -k fi_rma:write -k fi_shm: -k fi_getinfo:)

# Features that an old kernel, or a container without these calls, does not provide: docs/guide/containers.md.
echo "shm/rdm fi_shm:target_at_rest" >"$folder/not-direct"
differ=0
tests() { # WHAT REFUSE'S-OPTIONS... -- CONFORMANCE'S-OPTIONS...
    local what=$1 code=0 log=$folder/log
    shift
    local filter=()
    while [ "$1" != -- ]; do filter+=("$1") && shift; done
    shift
    local expected=/dev/null
    case "${filter[*]} $*" in *old*shm* | *process_vm*shm*) expected=$folder/not-direct ;; esac
    limited 900 "$what" "$refuse" "${filter[@]}" -- "$conformance" -j 2 -x "$expected" "$@" >"$log" 2>&1 || code=$?
    echo "$what: $(tail -n 1 "$log")"
    [ $code = 0 ] || { grep -v -E '^(ok|skip)' "$log" | head -n 20; differ=1; }
}

# Checks that the filter refuses at all: without eventfd2 no queue with a wait object can be opened.
"$refuse" eventfd2 -- "$conformance" -p shm -k fi_cq:open_wait_fd >"$folder/log" 2>&1 &&
    fail "the filter does not act: queues that can be waited on open without eventfd2"

old=("${pages[@]}")
[ -z "$long" ] || old=()
tests "Linux 4.18, tcp" old -- -p tcp ${old[@]+"${old[@]}"}
FI_TCP_SHARED_MEMORY=0 tests "Linux 4.18, tcp over sockets" old -- -p tcp -e rdm ${old[@]+"${old[@]}"}
tests "Linux 4.18, shm" old -- -p shm ${old[@]+"${old[@]}"}
tests "Linux 4.18, udp" old -- -p udp ${old[@]+"${old[@]}"}

calls=(membarrier perf_event_open process_vm_readv process_vm_writev recvmmsg sendmmsg statx)
for call in "${calls[@]}"; do
    for provider in tcp shm; do
        tests "no $call, $provider" "$call" -- -p $provider -e rdm "${pages[@]}"
        tests "no permission for $call, $provider" -p "$call" -- -p $provider -e rdm "${pages[@]}"
    done
done
# The C library starts threads by clone3, and by clone if the kernel lacks it; if clone3 is forbidden there are no
# threads.
tests "no clone3, tcp" clone3 -- -p tcp -e rdm "${pages[@]}"
for provider in tcp shm udp; do
    tests "none of them on Linux 4.18, $provider" old "${calls[@]}" -- -p $provider "${pages[@]}"
done

# shm needs memory that it can share. tcp uses sockets instead, and both log this. The suite itself needs the call.
pingpong() { # PROVIDER: what the client says
    local server
    FI_LOG_LEVEL=warn "$refuse" memfd_create -- "$library/fi_pingpong" -p "$1" -e rdm -I 10 -S 64 -B "$port" >"$folder/server" 2>&1 &
    server=$!
    listening $server "$port" || true
    FI_LOG_LEVEL=warn limited 30 client "$refuse" memfd_create -- "$library/fi_pingpong" -p "$1" -e rdm -I 10 -S 64 -P "$port" \
        127.0.0.1 2>&1 || true
    wait $server || true
}
port=$(free_port)
said=$(pingpong tcp)
[[ $said == *"no memory to share with a peer: Function not implemented"* && $said == *"1.2k"* ]] ||
    { echo "without memfd_create tcp says: $said"; differ=1; }
port=$(free_port)
said=$(pingpong shm; cat "$folder/server")
[[ $said == *"no memory to share with a peer: Function not implemented"* && $said == *"-38 (Function not implemented)"* ]] ||
    { echo "without memfd_create shm says: $said"; differ=1; }
[ $differ = 0 ] || fail "a kernel without some calls is not what docs/guide/containers.md says"
echo "without each of ${#calls[@]} calls, without all of them, on Linux 4.18: as documented"
