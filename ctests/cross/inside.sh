#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# inside.sh FOLDER UNIT_TESTS...: the part of aarch64.sh that runs in separate namespaces, whose kernel starts aarch64
# programs by qemu.
set -euo pipefail
. "$(dirname "$0")/../../scripts/steps.sh"
folder=$1
shift
units=("$@")
ip link set lo up
mount -t binfmt_misc none /proc/sys/fs/binfmt_misc
magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
printf '%s' ":qemu-aarch64:M::$magic:$mask:$(command -v qemu-aarch64):F" >/proc/sys/fs/binfmt_misc/register

differ=0
report() { # WHAT CODE LOG
    echo "$1: $(grep -a -E 'passed|facts|^ok|FAILED' "$3" | tail -n 1)"
    [ "$2" = 0 ] || { grep -a -E '^(FAIL|test .*FAILED|FAILED|[a-z_]+ is )' "$3" | head -n 20; differ=1; }
}
attempt() { # WHAT SECONDS COMMAND...
    local what=$1 seconds=$2 code=0
    shift 2
    limited "$seconds" "$what" "$@" >"$folder/log" 2>&1 || code=$?
    report "$what" $code "$folder/log"
}

attempt layout 120 "$ROOT/ctests/layout.sh"
# `idle` measures processor time. `log` and `params` pass variable arguments; one part of `log` starts a program with
# more rights, which qemu does not grant.
names=()
for source in "$ROOT"/ctests/*.c; do
    name=$(basename "$source" .c)
    case $name in headers | idle | log) ;; *) names+=("$name") ;; esac
done
attempt "C programs" 600 "$ROOT/ctests/c.sh" "$LD_LIBRARY_PATH" "${names[@]}"
code=0
"$ROOT/ctests/c.sh" "$LD_LIBRARY_PATH" log >"$folder/log" 2>&1 || code=$?
[ "$(grep -a '^FAILED [a-z_]*$' "$folder/log")" != "FAILED log_of_privileged" ] || code=0
[ $code = 0 ] && echo "C program log: all but log_of_privileged" || report "C program log" $code "$folder/log"
# aarch64.sh lists what is left out.
echo "shm/rdm fi_shm:target_at_rest" >"$folder/expected"
attempt "conformance, shm" 1800 "$folder/conformance/conformance" -j 2 -t 120 -x "$folder/expected" -p shm
FI_TCP_SHARED_MEMORY=0 attempt "conformance, tcp" 1800 "$folder/conformance/conformance" -j 2 -t 120 -p tcp
left_out=(an_ended_connection_is_no_way_to_registered_memory an_ending_connection_waits_for_the_copy_of_its_peer
    a_long_row_gathers_and_the_next_one_sooner sessions_keep_their_promises mixed::everything_ends
    messages_without_a_receive_take_limited_memory a_child_waits_for_no_thread_of_its_parent
    a_lock_that_is_shared_has_no_owner_any_more a_mark_is_wiped_in_a_child_alone both_ways_tell_a_child
    a_child_that_leaves_the_block_writes_to_its_own_memory an_empty_datagram_is_one a_datagram_is_the_bytes_of_a_message
    a_datagram_for_nobody_is_complained_of a_datagram_that_is_cut_tells_its_length_and_is_over after_a_pause_a_frame_is_written_at_once)
cd "$ROOT"
for unit in "${units[@]}"; do
    attempt "unit tests, $(basename "$unit")" 1800 "$unit" --test-threads=2 "${left_out[@]/#/--skip=}"
done
echo "left out, see ctests/cross/aarch64.sh: ${left_out[*]} fi_shm:target_at_rest"
[ $differ = 0 ] || fail "aarch64 under qemu"
