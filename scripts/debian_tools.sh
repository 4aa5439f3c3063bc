#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# Debian's own fi_info and fi_pingpong (1.17, compiled against symbol nodes of that time) on a libfabric.so.1 of ours,
# selected by LD_LIBRARY_PATH. If a libfabric of the current series is available (the one inside the MPICH wheel in
# target/python), the same fi_info runs on it, too, and must print the same, and fi_pingpong runs with one side on each.
#
# usage: debian_tools.sh FOLDER [UPSTREAM_FOLDER]     both hold a libfabric.so.1
set -euo pipefail
. "$(dirname "$0")/steps.sh"

ours=$(realpath "${1:?usage: debian_tools.sh FOLDER [UPSTREAM_FOLDER]}")
upstream=${2:-$(target_dir)/python/lib/mpich}
[ -e "$upstream/libfabric.so.1" ] || upstream=
# The providers whose entries are compared; a new provider is added here.
providers=(tcp)
scratch=$(mktemp -d)
children=()
trap 'kill "${children[@]}" 2>/dev/null || true; rm -rf "$scratch"' EXIT

[ -e "$ours/libfabric.so.1" ] || fail "there is no libfabric.so.1 in $ours"

fi_info=/usr/bin/fi_info fi_pingpong=/usr/bin/fi_pingpong
if [ ! -x $fi_info ] || [ ! -x $fi_pingpong ]; then
    command -v apt-get >/dev/null || skip "Debian's fi_info and fi_pingpong are not here, and this is not a Debian"
    say "Installing libfabric-bin"
    install_packages libfabric-bin || skip "libfabric-bin is not installed and cannot be installed here: run apt-get install libfabric-bin"
fi
if command -v dpkg >/dev/null && ! dpkg -S $fi_info >/dev/null 2>&1; then
    skip "$fi_info does not come from a Debian package"
fi

on() { # on FOLDER COMMAND...: the command with that library
    local folder=$1
    shift
    LD_LIBRARY_PATH=$folder "$@"
}

say "Loading: $fi_info, $fi_pingpong"
for tool in $fi_info $fi_pingpong; do
    on "$ours" ldd -r "$tool" >"$scratch/ldd" 2>&1 || true
    grep -q "libfabric.so.1 => $ours/libfabric.so.1" "$scratch/ldd" || fail "$tool does not load ours: $(cat "$scratch/ldd")"
    if grep -E 'undefined symbol|no version information|not found' "$scratch/ldd"; then
        fail "$tool does not bind to ours without complaint"
    fi
done
on "$ours" $fi_info --version
said=$(on "$ours" $fi_info --version)
grep -qF "libfabric: $(default_set)." <<<"$said" || fail "the library does not say that it is $(default_set)"

say "Swapped in by LD_PRELOAD, and from where make install puts it"
said=$(LD_PRELOAD=$ours/libfabric.so.1 $fi_info --version)
grep -qF "libfabric: $(default_set)." <<<"$said" || fail "LD_PRELOAD: $said"
LD_PRELOAD=$ours/libfabric.so.1 $fi_info -p tcp >"$scratch/preloaded" || fail "LD_PRELOAD: fi_info -p tcp"
on "$ours" $fi_info -p tcp | cmp - "$scratch/preloaded" || fail "LD_PRELOAD and LD_LIBRARY_PATH show different entries"
make -C "$ROOT" --no-print-directory install PREFIX="$scratch/prefix" >"$scratch/log" 2>&1 || { cat "$scratch/log"; fail "make install"; }
said=$(on "$scratch/prefix/lib" $fi_info --version)
grep -qF "libfabric: $(default_set)." <<<"$said" || fail "make install: $said"
on "$scratch/prefix/lib" $fi_info -p tcp | cmp - "$scratch/preloaded" || fail "the installed library shows other entries"

say "fi_info: every option"
export FI_LOG_LEVEL=warn
# Each line: the expected exit code, then the options. 61 is FI_ENODATA.
cat >"$scratch/options" <<'OPTIONS'
0
1 -h
0 -l
0 -l -v
0 -e
0 -e -v
0 -g tcp
0 -p tcp
0 -v -p tcp
0 -v -p tcp -t FI_EP_RDM
0 -v -p tcp -t FI_EP_MSG
61 -p tcp -t FI_EP_DGRAM
0 -v -p tcp -a FI_SOCKADDR_IN
0 -v -p tcp -a FI_SOCKADDR_IN6
61 -p tcp -a FI_SOCKADDR_IB
0 -v -p tcp -c FI_MSG
0 -v -p tcp -c FI_TAGGED|FI_RMA
0 -v -p tcp -c FI_MSG|FI_RMA|FI_REMOTE_READ|FI_REMOTE_WRITE
0 -v -p tcp -c FI_TAGGED|FI_DIRECTED_RECV|FI_SOURCE|FI_MULTI_RECV
61 -p tcp -c FI_MULTICAST
0 -v -p tcp -m FI_CONTEXT
0 -v -p tcp -m FI_CONTEXT|FI_RX_CQ_DATA|FI_ASYNC_IOV
0 -v -p tcp -n 127.0.0.1
0 -v -p tcp -n 127.0.0.1 -P 5000
0 -v -p tcp -n localhost -P 5000
0 -v -p tcp -s 127.0.0.1
0 -v -p tcp -s ::1
0 -v -p tcp -s 127.0.0.1 -P 5000
61 -p tcp -n no-such-host.invalid
0 -v -p tcp -d lo
61 -p tcp -d no-such-domain
0 -v -p tcp -f 127.0.0.1/32
61 -p tcp -f 203.0.113.0/24
61 -p no-such-provider
0 -v -i tcp -p tcp
0 -v -p tcp -t FI_EP_RDM -c FI_RMA -d lo -a FI_SOCKADDR_IN
OPTIONS

# A bare machine may have no /etc/hosts.
if ! getent hosts localhost >/dev/null; then
    sed -i 's/-n localhost/-n 127.0.0.1/' "$scratch/options"
    printf 'NOT TRIED fi_info -n with a name: localhost does not resolve here\n' >&2
fi
# Ours is larger (docs/differences.md).
export FI_TCP_MAX_INJECT=128
compared=0
while read -r code options; do
    # The options hold no spaces of their own and no shell pattern can match anything here.
    set -f
    # shellcheck disable=SC2086
    set -- $options
    set +f
    got=0
    on "$ours" limited 30 "fi_info $options" $fi_info "$@" >"$scratch/ours" 2>"$scratch/ours.err" || got=$?
    # The exit code of fi_info is the library's result, of which the shell sees the low eight bits.
    if [ "$got" -ne "$code" ] && [ "$got" -ne $((256 - code)) ]; then
        cat "$scratch/ours.err" >&2
        fail "fi_info $options: exit code $got, wanted $code"
    fi
    if [ "$code" -eq 0 ] && [ ! -s "$scratch/ours" ] && [ ! -s "$scratch/ours.err" ]; then
        fail "fi_info $options printed nothing"
    fi
    case " $options " in *" -p tcp "* | *" -g tcp "* | *" -e "*) ;; *) continue ;; esac
    if [ -z "$upstream" ] || [ "$code" -ne 0 ]; then continue; fi
    on "$upstream" limited 30 "upstream's fi_info $options" $fi_info "$@" >"$scratch/upstream" 2>/dev/null || fail "upstream: fi_info $options"
    for side in ours upstream; do
        python3 "$ROOT/scripts/fi_info_entries.py" "${providers[@]}" <"$scratch/$side" >"$scratch/$side.entries"
    done
    [ -s "$scratch/upstream.entries" ] || fail "nothing to compare for fi_info $options"
    # Variables: ours may have additional ones, but must have each of upstream's with its type.
    case " $options " in *" -g "* | *" -e "*)
        missing=$(LC_ALL=C comm -23 "$scratch/upstream.entries" "$scratch/ours.entries")
        [ -z "$missing" ] || fail "fi_info $options: not there or of another type: $missing"
        compared=$((compared + 1))
        continue ;;
    esac
    diff -u --label upstream --label ours "$scratch/upstream.entries" "$scratch/ours.entries" ||
        fail "fi_info $options differs from upstream (above)"
    compared=$((compared + 1))
done <"$scratch/options"
echo "$(wc -l <"$scratch/options") option sets ran, $compared of them compared with upstream"
[ -n "$upstream" ] || printf 'NOT COMPARED with upstream: its libfabric.so.1 is not in target/python\n' >&2

say "FI_PROVIDER"
for value in tcp TCP '^tcp' no-such-provider; do
    FI_PROVIDER=$value on "$ours" limited 30 fi_info $fi_info >"$scratch/filtered" 2>&1 && found=1 || found=0
    case $value in
    tcp | TCP) [ $found -eq 1 ] && ! grep '^provider: ' "$scratch/filtered" | grep -v -q '^provider: tcp' ||
        fail "FI_PROVIDER=$value: $(cat "$scratch/filtered")" ;;
    *) ! grep -q '^provider: tcp' "$scratch/filtered" || fail "FI_PROVIDER=$value still shows tcp" ;;
    esac
    echo "FI_PROVIDER=$value"
done

# pingpong SERVER_LIBRARY CLIENT_LIBRARY ADDRESS OPTIONS...: sizes on both sides, contents compared (-c)
pingpong() {
    local server_library=$1 client_library=$2 address=$3 port server code=0
    shift 3
    port=$(free_port)
    local limit=$((60 * PATIENCE))
    LD_LIBRARY_PATH=$server_library timeout -k 5 $limit $fi_pingpong -c -I 50 -B "$port" "$@" \
        </dev/null >"$scratch/server" 2>&1 &
    server=$!
    children+=("$server")
    listening "$server" "$port" || fail "fi_pingpong $*: the server does not listen: $(cat "$scratch/server")"
    LD_LIBRARY_PATH=$client_library timeout -k 5 $limit $fi_pingpong -c -I 50 -P "$port" "$@" "$address" \
        </dev/null >"$scratch/client" 2>&1 || code=$?
    [ $code -eq 0 ] || kill $server 2>/dev/null || true
    wait $server || code=$?
    local sizes
    sizes=$(grep -c -E '^[0-9]+[kmg]? +50 ' "$scratch/client" || true)
    if [ $code -ne 0 ] || [ "$sizes" -lt 1 ]; then
        printf 'server:\n%s\nclient:\n%s\n' "$(tail -20 "$scratch/server")" "$(tail -20 "$scratch/client")" >&2
        fail "fi_pingpong $* $address: exit code $code, $sizes sizes"
    fi
    printf 'fi_pingpong %-42s %s sizes\n' "$* $address" "$sizes"
}

say "fi_pingpong on ours"
pingpong "$ours" "$ours" 127.0.0.1 -p tcp -e rdm
pingpong "$ours" "$ours" 127.0.0.1 -p tcp -e rdm -m tagged
pingpong "$ours" "$ours" 127.0.0.1 -p tcp -e msg
pingpong "$ours" "$ours" 127.0.0.1 -p tcp -e rdm -d lo -S 1024
pingpong "$ours" "$ours" 127.0.0.1 -p tcp -e msg -S 64 -v
if [ -e /proc/net/if_inet6 ] && grep -q ' lo$' /proc/net/if_inet6; then
    pingpong "$ours" "$ours" ::1 -p tcp -e rdm -6
    pingpong "$ours" "$ours" ::1 -p tcp -e msg -6
fi
export FI_PROVIDER=tcp
pingpong "$ours" "$ours" 127.0.0.1 -e rdm
pingpong "$ours" "$ours" 127.0.0.1 -e msg
unset FI_PROVIDER

if [ -n "$upstream" ]; then
    say "fi_pingpong, one side on upstream's library"
    for type in rdm msg; do
        pingpong "$upstream" "$ours" 127.0.0.1 -p tcp -e $type
        pingpong "$ours" "$upstream" 127.0.0.1 -p tcp -e $type
    done
    pingpong "$upstream" "$ours" 127.0.0.1 -p tcp -e rdm -m tagged
    pingpong "$ours" "$upstream" 127.0.0.1 -p tcp -e rdm -m tagged
fi
