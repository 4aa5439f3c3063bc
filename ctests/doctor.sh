#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# doctor.sh FOLDER: findings of `fi_info --doctor` of FOLDER, on this host and between two network namespaces with
# firewalls. Needs the right to make namespaces; exit code 77 without.
set -euo pipefail
. "$(dirname "$0")/../scripts/steps.sh"
tools=$(realpath "${1:?usage: doctor.sh FOLDER}")
if [ -z "${DOCTOR_WORLD-}" ]; then
    command -v nft >/dev/null || skip "no nft"
    unshare --net --mount true 2>/dev/null || skip "no namespaces are permitted"
    DOCTOR_WORLD=1 exec unshare --net --mount --pid --fork --kill-child --mount-proc "$0" "$tools"
fi
export LD_LIBRARY_PATH=$tools
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mount --make-rprivate / && mkdir -p /run/netns && mount -t tmpfs none /run/netns
out=$scratch/out
# found CODE PATTERN COMMAND...
found() {
    local code=$1 pattern=$2 got=0
    shift 2
    limited 90 "$*" "$@" >"$out" 2>"$scratch/err" || got=$?
    [ "$got" = "$code" ] || fail "$*: exit code $got, wanted $code: $(cat "$out" "$scratch/err")"
    grep -qE -- "$pattern" "$out" || fail "$*: no $pattern in: $(cat "$out" "$scratch/err")"
}
doctor="$tools/fi_info --doctor"
say "This host"
found 1 '^wrong  interfaces: lo: down' $doctor
ip link set lo up
found 0 '^nothing is wrong' $doctor
found 0 '^note   namespaces: a network namespace of its own' $doctor
found 1 '^wrong  limits: open files: 64 ' prlimit --nofile=64:64 $doctor
found 1 '^wrong  limits: size of a file: 4 MiB' prlimit --fsize=4194304 $doctor
found 1 'FI_TCP_IFAEC is no variable: is FI_TCP_IFACE meant' env FI_TCP_IFAEC=lo $doctor
found 0 '^note   variables: FI_FORK_UNSAFE=1 has no effect' env FI_FORK_UNSAFE=1 $doctor
echo no library >"$scratch/libx-fi.so"
found 1 "^wrong  plug-ins: refused: $scratch/libx-fi.so" env FI_PROVIDER_PATH="$scratch" $doctor
say "A large job"
found 0 '^ok     ranks: a job of 4 ranks, 2 on each host' $doctor --ranks 4:2
found 1 '^wrong  ranks: open files of a rank, over tcp or ofi_rxm: 10031 of 1024 \(hard limit 1024\)' \
    prlimit --nofile=1024:1024 $doctor --ranks 10000
found 0 '^note   ranks: open files of a rank, over tcp or ofi_rxm: 1031 of 1024 ' \
    prlimit --nofile=1024:2048 $doctor --ranks 1000
limited 90 "--ranks 10:11" $doctor --ranks 10:11 2>"$scratch/err" && fail "--ranks 10:11 is taken"
grep -q -- '--ranks takes' "$scratch/err" || fail "--ranks 10:11: $(cat "$scratch/err")"
found 1 'Usage' "$tools/fi_info" --ranks 10
say "Two hosts"
ip netns add a && ip netns add b
ip link add v1 netns a type veth peer name v2 netns b
for end in "a 1" "b 2"; do
    ip -n "${end% *}" link set lo up
    ip -n "${end% *}" addr add "10.99.0.${end#* }/24" dev "v${end#* }"
    ip -n "${end% *}" link set "v${end#* }" up
done
# The kernel takes up to a second to detect a link.
for end in "a v1" "b v2"; do
    until ip -n "${end% *}" link show "${end#* }" | grep 'state UP' >/dev/null; do sleep 0.1; done
done
# between CODE PATTERN RULE: with that rule on the listening side
between() {
    local rule=$3
    ip netns exec a nft "add table inet f; add chain inet f i { type filter hook input priority 0; }; ${rule:+add rule inet f i $rule}"
    : >"$scratch/a.err"
    ip netns exec a $doctor --listen 5000 >"$scratch/a.out" 2>>"$scratch/a.err" &
    local left=300
    until grep -q waiting "$scratch/a.err"; do
        ((left--)) || fail "fi_info --listen: $(cat "$scratch/a.out" "$scratch/a.err")"
        sleep 0.1
    done
    found "$1" "$2" ip netns exec b $doctor 10.99.0.1:5000
    kill $! 2>/dev/null || true
    wait || true
    ip netns exec a nft delete table inet f
}
between 0 'connections to ports .* of 10.99.0.1 come to be' ''
between 1 '^wrong  firewall: connections to ports .* of 10.99.0.1 time out: a firewall drops them' 'iifname v1 tcp dport 32768-60999 ct state new drop'
between 1 'are refused, though somebody listens' 'iifname v1 tcp dport 32768-60999 ct state new reject with tcp reset'
between 0 '^note   firewall: datagrams to UDP ports .* do not arrive' 'iifname v1 udp dport 32768-60999 ct state new drop'
found 1 'is refused: nobody listens there' ip netns exec b $doctor 10.99.0.1:5000
found 1 '^wrong  route: no route to 10.98.0.1' ip netns exec b $doctor 10.98.0.1
echo
echo "fi_info --doctor finds what is wrong"
