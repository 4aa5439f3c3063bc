#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# tools.sh FOLDER: fi_strerror, fi_info and fi_pingpong of FOLDER on the libfabric.so.1 there: every option, output and
# exit code, against the answers below and, on the same library, against other builds of the programs: Debian's, if
# installed, and those in the folder that UPSTREAM_TOOLS names. Control and data of fi_pingpong stay on loopback.
set -euo pipefail
. "$(dirname "$0")/../scripts/steps.sh"

tools=$(realpath "${1:?usage: tools.sh FOLDER}")
[ -e "$tools/libfabric.so.1" ] || fail "there is no libfabric.so.1 in $tools"
export LD_LIBRARY_PATH=$tools FI_TCP_IFACE=lo FI_UDP_IFACE=lo
unset FI_PROVIDER FI_LOG_LEVEL FI_LOG_PROV FI_LOG_SUBSYS FI_LOG_LOCATION
scratch=$(mktemp -d)
children=()
trap 'kill ${children[@]+"${children[@]}"} 2>/dev/null || true; rm -rf "$scratch"' EXIT

# Other builds of the programs.
others=()
if [ -x /usr/bin/fi_info ] && dpkg -S /usr/bin/fi_info >/dev/null 2>&1; then
    others+=(/usr/bin)
else
    echo "NOT COMPARED with Debian's programs: libfabric-bin is not installed" >&2
fi
if [ -n "${UPSTREAM_TOOLS-}" ]; then
    [ -x "$UPSTREAM_TOOLS/fi_info" ] || fail "UPSTREAM_TOOLS=$UPSTREAM_TOOLS has no fi_info"
    others+=("$UPSTREAM_TOOLS")
else
    echo "NOT COMPARED with upstream's programs: UPSTREAM_TOOLS does not name their folder" >&2
fi

# run NAME PROGRAM ARGUMENTS...: leaves NAME.out, NAME.err and NAME.code
run() {
    local name=$scratch/$1 code=0
    shift
    limited 30 "$*" "$@" >"$name.out" 2>"$name.err" || code=$?
    echo $code >"$name.code"
}

# expect CODE WHAT: of the run called `ours`
expect() {
    local code
    code=$(cat "$scratch/ours.code")
    [ "$code" = "$1" ] || fail "$2: exit code $code, wanted $1: $(head -c 500 "$scratch/ours.out" "$scratch/ours.err")"
}

# Removes parts that may differ: the name by which a program was called, zero bytes that other builds put around values,
# the API version that they request, the process number in names of shm, and the way to peers, which only our programs
# test.
plain() {
    tr -d '\0' <"$1" | sed -e 's|^[^ ]*/\(fi_[a-z]*\): |\1: |' -e '/^ *api_version: /d' -e 's,\(fi_shm\|fi_sm2\)://[0-9][0-9]*$,\1://PID,' \
        -e '/^ *\(src\|dest\)_addrlen: /d' -e '/^# .*: a peer on this host is reached over /d'
}

# same_as_others NAME ARGUMENTS...: runs the other programs, too; their output must equal that of the run called `ours`
compared=0
same_as_others() {
    local name=$1 other stream
    shift
    for other in ${others[@]+"${others[@]}"}; do
        [ -x "$other/$name" ] || continue
        run theirs "$other/$name" "$@"
        for stream in out code err; do
            # Debian's programs are older and print less.
            [ "$stream$other" != err/usr/bin ] || continue
            diff -u --label "$other/$name" --label ours <(plain "$scratch/theirs.$stream") <(plain "$scratch/ours.$stream") ||
                fail "$name $*: $stream differs from $other/$name (above)"
        done
        compared=$((compared + 1))
    done
}

say "fi_strerror"
# Exit code, argument, first line of the output.
while IFS='|' read -r code argument words; do
    run ours "$tools/fi_strerror" "$argument"
    expect "$code" "fi_strerror '$argument'"
    got=$(head -n 1 "$scratch/ours.out")
    [ "$got" = "$words" ] || fail "fi_strerror '$argument': '$got', wanted '$words'"
    # The place of the help differs between the projects.
    [ "$code" -ne 0 ] || same_as_others fi_strerror "$argument"
done <<'ANSWERS'
0|0|Success
0|1|Operation not permitted
0|-1|Operation not permitted
0|110|Connection timed out
0|-110|Connection timed out
0|0x6e|Connection timed out
0|-0X6E|Connection timed out
0|0156|Connection timed out
0| +110|Connection timed out
1||ERROR: unable to parse ''
1|0x|ERROR: unable to parse '0x'
1|08|ERROR: unable to parse '08'
1|5 |ERROR: unable to parse '5 '
1|12abc|ERROR: unable to parse '12abc'
1|--version|ERROR: unable to parse '--version'
1|2147483648|ERROR: '2147483648' is out of range
1|-2147483649|ERROR: '-2147483649' is out of range
1|99999999999999999999|ERROR: unable to parse '99999999999999999999'
ANSWERS
for number in $(seq 1 133) $(seq 257 272) 999 -2147483648 2147483647; do
    run ours "$tools/fi_strerror" "$number"
    expect 0 "fi_strerror $number"
    # Debian's program is of another release: only the texts of numbers that both have could be compared.
    [ -z "${UPSTREAM_TOOLS-}" ] || (others=("$UPSTREAM_TOOLS") && same_as_others fi_strerror "$number")
done
for arguments in "1 -h" "2 1" "2 1 2"; do
    # "-h" succeeds, no argument and two fail; all print the help.
    case $arguments in
    "1 -h") run ours "$tools/fi_strerror" -h && expect 0 "fi_strerror -h" ;;
    "2 1") run ours "$tools/fi_strerror" && expect 1 "fi_strerror without argument" ;;
    *) run ours "$tools/fi_strerror" 1 2 && expect 1 "fi_strerror 1 2" ;;
    esac
    grep -q '^Usage: .*fi_strerror FI_ERROR_CODE$' "$scratch/ours.out" || fail "fi_strerror prints no help"
done

say "fi_info"
# The exit code, then the options.
while read -r code options; do
    set -f
    # shellcheck disable=SC2086
    set -- $options
    set +f
    run ours "$tools/fi_info" "$@"
    expect "$code" "fi_info $options"
    [ "$code" -ne 0 ] || [ -s "$scratch/ours.out" ] || fail "fi_info $options printed nothing"
    same_as_others fi_info "$@"
done <<'OPTIONS'
0
0 -l
0 --list
0 --lis
0 --do lo
0 -l -v
0 -v
0 --verbose
0 -e
0 --env
0 -e -l -v
0 -g tcp
0 --getenv=LOG_LEVEL
0 -p tcp
0 -ptcp
0 --provider tcp
0 --prov=tcp
0 -lvp tcp
0 operand -p tcp operand
0 -p tcp -- -x
0 -v -p tcp -t FI_EP_RDM
0 -v -p tcp -t fi_ep_msg
61 -p tcp -t FI_EP_DGRAM
22 -t rd
0 -v -p tcp -a FI_SOCKADDR_IN
0 -v -p tcp -a FI_SOCKADDR_IN6
61 -p tcp -a FI_SOCKADDR_IB
22 -a ipv4
0 -v -p tcp -c FI_MSG
0 -v -p tcp -c |FI_TAGGED||fi_rma|
0 -v -p tcp -c FI_MSG -c FI_RMA
61 -p tcp -c FI_MULTICAST
22 -c FI_MSG|tag
22 -c FI_MSG,FI_RMA
0 -v -p tcp -m FI_CONTEXT|FI_RX_CQ_DATA
22 -m contex
0 -v -p tcp -n 127.0.0.1
0 -v -p tcp --node 127.0.0.1 --port 5000
0 -v -p tcp -n localhost -P 5000
0 -v -p tcp -s 127.0.0.1
0 -v -p tcp --src_addr=127.0.0.1 -P 5000
0 -v -p tcp -s ::1
61 -p tcp -n no-such-host.invalid
0 -v -p tcp -d lo
61 -p tcp -d no-such-domain
0 -v -p tcp -f 127.0.0.1/32
61 --fabric 203.0.113.0/24
61 -p no-such-provider
61 -p no-such-provider -e
0 -i FI_EP_RDM
0 --info fi_ep_msg -p tcp
OPTIONS
# The way to a peer on this host: by default, and with shared memory, or access to memory of processes, turned off. A
# kernel may forbid access to other processes' memory. reached_over WORDS OPTIONS...
reached_over() {
    local words=$1
    shift
    run ours "$tools/fi_info" -v "$@"
    expect 0 "fi_info -v $*"
    grep -qx -E "# $2 FI_EP_RDM: a peer on this host is reached over $words" "$scratch/ours.out" ||
        fail "fi_info -v $* does not say '$words': $(grep "^# $2 " "$scratch/ours.out")"
}
shared="shared memory, large messages (in one copy|through the ring)"
reached_over "$shared" -p tcp
reached_over "$shared" -p tcp -s 127.0.0.1 -P 5000
reached_over "$shared" -p shm
reached_over "$shared" -p shm -c FI_TAGGED
FI_TCP_SHARED_MEMORY=0 reached_over TCP -p tcp
FI_SHM_DISABLE_CMA=1 reached_over "shared memory, large messages through the ring" -p shm
for options in "-t FI_EP_MSG" "-p shm -c FI_RMA" "-p tcp -c FI_TAGGED|FI_SEND" "-i FI_EP_RDM"; do
    # shellcheck disable=SC2086
    run ours "$tools/fi_info" -v $options
    expect 0 "fi_info -v $options"
    ! grep -q "a peer on this host" "$scratch/ours.out" || fail "fi_info -v $options tries what is not offered or not shown"
done
# An empty output is not a failure if something was found.
for options in "-i no-such-text" "-g no_such_variable"; do
    # shellcheck disable=SC2086
    run ours "$tools/fi_info" $options
    expect 0 "fi_info $options"
    [ ! -s "$scratch/ours.out" ] || fail "fi_info $options shows something"
    # shellcheck disable=SC2086
    same_as_others fi_info $options
done
FI_TCP_TX_SIZE=77 FI_LOG_PROV='a b' run ours "$tools/fi_info" -e
expect 0 "fi_info -e"
for line in 'FI_TCP_TX_SIZE=77' 'FI_LOG_PROV="a b"' '# FI_TCP_IFACE: String' '# FI_TCP_TX_SIZE: size_t'; do
    grep -q -x -F "$line" "$scratch/ours.out" || fail "fi_info -e has no line $line"
done
# As JSON: the same entries, providers and variables, by their members.
run text "$tools/fi_info" -v -p tcp
run ours "$tools/fi_info" --json -p tcp
expect 0 "fi_info --json"
python3 - "$scratch/text.out" "$scratch/ours.out" <<'EOF' || fail "fi_info --json"
import json, sys
text, entries = open(sys.argv[1]).read(), json.load(open(sys.argv[2]))["entries"]
assert len(entries) == text.count("fi_info:"), len(entries)
for entry in entries:
    assert "FI_MSG" in entry["caps"] and entry["fabric_attr"]["prov_name"].split(";")[0] == "tcp", entry
    for part in "tx_attr", "rx_attr", "ep_attr", "domain_attr":
        assert isinstance(entry[part], dict) and len(entry[part]) > 5, entry
    assert isinstance(entry["domain_attr"]["mr_key_size"], int) and entry["dest_addr"] is None, entry
EOF
run ours "$tools/fi_info" --json -l
expect 0 "fi_info --json -l"
python3 -c 'import json, sys; assert "tcp" in [p["name"] for p in json.load(open(sys.argv[1]))["providers"]]' \
    "$scratch/ours.out" || fail "fi_info --json -l"
FI_TCP_TX_SIZE=77 run ours "$tools/fi_info" --json -g TCP_TX
expect 0 "fi_info --json -g"
python3 -c 'import json, sys; [v] = json.load(open(sys.argv[1]))["variables"]; assert v["value"] == "77", v' \
    "$scratch/ours.out" || fail "fi_info --json -g"
run ours "$tools/fi_info" --json --why
expect 1 "fi_info --json --why"
run ours "$tools/fi_info" --version
expect 0 "fi_info --version"
version=$(sed -n '/^version = /{s/.*"\(.*\)"/\1/p;q}' "$ROOT/Cargo.toml")
printf '%s: %s\nlibfabric: %s\nlibfabric api: %s\n' "$tools/fi_info" "$version" "$version" "${version%.*}" |
    diff -u - <(head -n 3 "$scratch/ours.out") || fail "fi_info --version"
# The same text is in the file, in its note and in the first line of the log.
identity=$(sed -n 's/^library: //p' "$scratch/ours.out")
api=${version%.*}
grep -Eqx "ironfabric 0\.[0-9]+\.[0-9]+ \(([0-9a-f]{7,40}|commit unknown|[^)]+)\), libfabric ${api/./\\.} API" <<<"$identity" ||
    fail "fi_info --version: library: $identity"
file=$(sed -n 's/^file: //p' "$scratch/ours.out")
[ "$file" -ef "$tools/libfabric.so.1" ] || fail "fi_info --version: file: $file"
strings "$file" >"$scratch/strings" && grep -qxF "$identity" "$scratch/strings" ||
    fail "the library's strings lack: $identity"
readelf -nW "$file" >"$scratch/notes" && grep -q '^  ironfabric  *0x' "$scratch/notes" || fail "the library has no note"
FI_LOG_LEVEL=info FI_LOG_SUBSYS=core run log "$tools/fi_info" -p tcp
head -n 1 "$scratch/log.err" | grep -qF "$identity, $file" ||
    fail "the first line of the log does not say: $identity, $file"

# Help and wrong options: the options are the same, their descriptions, --why, --json, --table, --doctor, --listen
# --config and --ranks are ours.
names() { grep -o -E -- '(-[a-zA-Z], )?--[a-z_]+' "$1" | grep -v -x -e --why -e --json -e --table -e --config -e --doctor -e --listen -e --ranks; }
for options in -h --help --ver --foo --provider= -x -p --verbose=1; do
    [ "$options" != --provider= ] || options=--provider
    run ours "$tools/fi_info" $options
    expect 1 "fi_info $options"
    [ "$(grep -c -e '^  -' "$scratch/ours.out")" -eq 24 ] || fail "fi_info $options prints no help"
    for other in ${others[@]+"${others[@]}"}; do
        run theirs "$other/fi_info" $options
        diff -u <(names "$scratch/theirs.out") <(names "$scratch/ours.out") || fail "fi_info $options: other options (above)"
        [ "$other" = /usr/bin ] || diff -u <(plain "$scratch/theirs.err") <(plain "$scratch/ours.err") || fail "fi_info $options: other error (above)"
    done
done
! "$tools/fi_info" -l >/dev/full 2>"$scratch/full" || fail "fi_info succeeds though its output is lost"
grep -q 'No space left' "$scratch/full" || fail "fi_info does not say that its output is lost"

say "fi_info --why"
# why CODE PATTERN OPTIONS...: a line of the output is PATTERN
why() {
    local code=$1 pattern=$2
    shift 2
    run ours "$tools/fi_info" --why "$@"
    expect "$code" "fi_info --why $*"
    grep -q -E -- "^$pattern\$" "$scratch/ours.out" || fail "fi_info --why $*: no line $pattern in: $(cat "$scratch/ours.out")"
}
why 61 'nothing is offered: fi_getinfo: -61 \(No data available\)' -p tcp -d no-such-domain
why 61 '    tcp FI_EP_RDM on lo' -p tcp -d no-such-domain
why 61 '        domain_attr.name: wanted "no-such-domain", offered "lo"' -p tcp -d no-such-domain
why 61 '        fabric_attr.prov_name: wanted "tcp;lnx", offered "tcp"' -p 'tcp;lnx'
why 61 '        fabric_attr.prov_name: wanted "tcp;ofi_rxd", offered "tcp"' -p 'tcp;ofi_rxd'
why 61 '        caps: wanted FI_MULTICAST, offered FI_MSG .*' -p tcp -c FI_MULTICAST
why 61 '        fabric_attr.name: wanted "203.0.113.0/24", offered .*' -p tcp -f 203.0.113.0/24
why 0 '    tcp FI_EP_RDM on lo' -p tcp -t FI_EP_RDM
why 0 '        ep_attr.type: wanted FI_EP_RDM, offered FI_EP_MSG' -p tcp -t FI_EP_RDM
why 0 '[0-9]+ entries are offered:' -p tcp -d lo
# Without hints only devices can be missing.
why 0 '(no refusal stands in the library|        device: wanted "RDMA devices", offered).*'
why 0 "the library's log:" -v
# If a library accepts no log object, its log lines are read instead.
cat >"$scratch/open.c" <<'C'
int fi_open(void) { return -38; }
C
"${CC:-cc}" -shared -fPIC -o "$scratch/open.so" "$scratch/open.c" || fail "open.c does not build"
LD_PRELOAD=$scratch/open.so why 61 '        domain_attr.name: wanted "no-such-domain", offered "lo"' -p tcp -d no-such-domain

say "fi_pingpong"
row='^[0-9.]+[kmg]? +[0-9]+[kmg]? +=[0-9]+[kmg]? +[0-9.]+[kmg]? +[0-9.]+s +[0-9.]+ +[0-9.]+ +[0-9.]+$'
title='bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec'

guarded=(timeout -k 5 $((60 * PATIENCE)))
guard=("${guarded[@]}")
# serve PROGRAM OPTIONS...: starts it and sets `server` and `port`
serve() {
    local program=$1 end=$((SECONDS + 20 * PATIENCE))
    shift
    # The output of the last server must not be taken for this one's.
    : >"$scratch/server.err"
    if [ "$program" = "$tools/fi_pingpong" ]; then
        ${guard[@]+"${guard[@]}"} "$program" -B 0 "$@" </dev/null >"$scratch/server.out" 2>"$scratch/server.err" &
        server=$!
        children+=("$server")
        # The server chooses a port and prints it.
        until port=$(sed -n 's/^control port \([0-9]*\)$/\1/p' "$scratch/server.err") && [ -n "$port" ]; do
            kill -0 $server 2>/dev/null || fail "$program $*: $(cat "$scratch/server.err")"
            [ $SECONDS -lt $end ] || fail "$program $*: does not say its port"
            sleep 0.05
        done
        return
    fi
    port=$(free_port)
    "${guard[@]}" "$program" -B "$port" "$@" </dev/null >"$scratch/server.out" 2>"$scratch/server.err" &
    server=$!
    children+=("$server")
    listening "$server" "$port" || fail "$program $* does not listen: $(cat "$scratch/server.err")"
}

# end CODE...: waits for the server and compares its exit code with each
end() {
    local code=0
    wait "$server" || code=$?
    case " $* " in *" $code "*) ;; *) fail "server: exit code $code, wanted $*: $(cat "$scratch/server.err")" ;; esac
}

# play SERVER CLIENT ROWS OPTIONS...: both print the title and that many rows
play() {
    local first=$1 second=$2 rows=$3 side got
    shift 3
    serve "$first" "$@"
    run ours "$second" -P "$port" "$@" "${address-127.0.0.1}"
    expect 0 "fi_pingpong $*"
    end 0
    for side in ours server; do
        [ "$(head -n 1 "$scratch/$side.out")" = "$title" ] || fail "fi_pingpong $*: no title: $(cat "$scratch/$side.out")"
        got=$(sed 1d "$scratch/$side.out" | grep -c -E "$row" || true)
        [ "$got" -eq "$rows" ] || fail "fi_pingpong $*: $got rows, wanted $rows: $(cat "$scratch/$side.out")"
    done
    echo "fi_pingpong $*: $rows sizes"
}

own=$tools/fi_pingpong
for type in rdm msg; do
    play "$own" "$own" 6 -p tcp -d lo -e $type
    play "$own" "$own" 6 -p tcp -d lo -e $type -c -I 20
    play "$own" "$own" 1 -p tcp -d lo -e $type -c -I 3 -S 0
    play "$own" "$own" 1 -p tcp -s 127.0.0.1 -f 127.0.0.1/32 -e $type -S 1000000 -c -v
done
play "$own" "$own" 6 -p tcp -d lo -e rdm -m tagged -c
play "$own" "$own" 3 -p udp -d lo -e dgram -c
play "$own" "$own" 1 -d lo -e rdm -S 64
[ ! -e /proc/net/if_inet6 ] || address=::1 play "$own" "$own" 1 -p tcp -s ::1 -e msg -6 -S 64 -c
# Texts of the log are for users: no option, result, error or struct as Rust's `{:?}` prints it.
for provider in tcp shm sockets "tcp;ofi_rxm" "udp;ofi_rxd"; do
    FI_LOG_LEVEL=debug FI_HOOK=trace play "$own" "$own" 1 -p "$provider" -e rdm -S 64
    cat "$scratch/ours.err" "$scratch/server.err" >"$scratch/log"
    grep -q '<info>' "$scratch/log" || fail "fi_pingpong -p $provider: there is no log"
    ! grep -E '\b(Some|Ok|Err|Error)\(|\bNone\b|\b[A-Z][A-Za-z]+ \{' "$scratch/log" ||
        fail "fi_pingpong -p $provider: these lines of the log have forms of Rust"
done
for other in ${others[@]+"${others[@]}"}; do
    [ -x "$other/fi_pingpong" ] || continue
    for type in rdm msg; do
        play "$other/fi_pingpong" "$own" 6 -p tcp -d lo -e $type -c
        play "$own" "$other/fi_pingpong" 6 -p tcp -d lo -e $type -c
    done
    play "$other/fi_pingpong" "$own" 6 -p tcp -d lo -e rdm -m tagged -c
    play "$own" "$other/fi_pingpong" 6 -p tcp -d lo -e rdm -m tagged -c
    play "$other/fi_pingpong" "$own" 3 -p udp -d lo -e dgram -c
    play "$own" "$other/fi_pingpong" 3 -p udp -d lo -e dgram -c
    compared=$((compared + 8))
done

say "fi_pingpong: operations, windows, percentiles"
# measured OPTIONS...: both sides succeed, and the client's document, whose fields are checked, is in ours.out
measured() {
    serve "$own" "$@" --json
    run ours "$own" -P "$port" "$@" --json 127.0.0.1
    expect 0 "fi_pingpong $*"
    end 0
    python3 - "$scratch/ours.out" "$scratch/server.out" "$tools/libfabric.so.1" "$*" <<'EOF' || fail "fi_pingpong $*: its document"
import json, os, sys
client, server = (json.load(open(name)) for name in sys.argv[1:3])
words = sys.argv[4].split()
def given(name, otherwise):
    return words[words.index(name) + 1] if name in words else otherwise
assert os.path.samefile(client["library"]["path"], sys.argv[3]) and client["library"]["version"], client["library"]
assert (client["side"], server["side"]) == ("client", "server")
assert client["provider"].split(";")[0] == given("-p", None) and client["endpoint"] == given("-e", client["endpoint"])
options = client["options"]
assert options["op"] == given("--op", "msg") and options["window"] == int(given("--window", 1)), options
assert options["warmup"] == int(given("--warmup", 0)) and options == server["options"], options
assert client["rows"] and [r["size"] for r in client["rows"]] == [r["size"] for r in server["rows"]]
one_sided = options["op"] in ("write", "writedata", "read", "atomic", "fetch")
both = 1 if one_sided or options["window"] > 1 else 2
for row in client["rows"]:
    assert row["transfers"] == both * options["iterations"] == both * row["iterations"], row
    spread = [row["usec"][name] for name in ("p50", "p90", "p99", "p99.9", "max")]
    assert 0 < spread[0] and spread == sorted(spread), row
    assert 0 < row["usec_per_transfer"] < 1e6 * row["seconds"] + 1, row
for row in server["rows"]:
    assert (row["usec"] is None) == one_sided, row
EOF
    echo "fi_pingpong $*: measured"
}
# The entries that the providers offer.
for op in msg tagged inject write writedata read atomic fetch; do
    for provider in tcp shm; do
        measured -p $provider --op $op -I 20 --warmup 3
        measured -p $provider --op $op -I 21 --window 8
    done
done
for op in msg inject; do
    measured -p udp -d lo -e dgram --op $op -I 5
done
measured -p udp -d lo -e dgram --window 4
for op in msg inject write writedata read atomic fetch; do
    measured -p tcp -d lo -e msg --op $op -I 20 --window 4
done
# Without -e: rdm if there is no dgram, also with the other programs, which need -e rdm.
play "$own" "$own" 6 -p tcp -d lo
for other in ${others[@]+"${others[@]}"}; do
    serve "$other/fi_pingpong" -p tcp -d lo -e rdm -S 64
    run ours "$own" -P "$port" -p tcp -d lo -S 64 127.0.0.1
    expect 0 "fi_pingpong without -e, with $other"
    end 0
done

serve "$own" -p tcp -d lo -e rdm -S 64 --percentiles
run ours "$own" -P "$port" -p tcp -d lo -e rdm -S 64 --percentiles 127.0.0.1
expect 0 "fi_pingpong --percentiles"
end 0
[ "$(head -n 1 "$scratch/ours.out")" = "$title        p50        p90        p99      p99.9        max" ] ||
    fail "fi_pingpong --percentiles: $(cat "$scratch/ours.out")"

say "fi_pingpong: a plot, and two libraries in turns"
serve "$own" -p tcp -d lo -e rdm
run ours "$own" -P "$port" -p tcp -d lo -e rdm --svg "$scratch/plot.svg" 127.0.0.1
expect 0 "fi_pingpong --svg"
end 0
python3 - "$scratch/plot.svg" <<'EOF' || fail "fi_pingpong --svg"
import sys, xml.etree.ElementTree as tree
root = tree.parse(sys.argv[1]).getroot()
name = "{http://www.w3.org/2000/svg}"
assert len(root.findall(name + "polyline")) == 2 and len(root.findall(name + "circle")) == 12
for circle in root.findall(name + "circle"):
    assert 0 < float(circle.get("cx")) < 900 and 0 < float(circle.get("cy")) < 480, circle.attrib
EOF
run ours "$own" -p tcp -d lo -e rdm -S 64 --json --beside "$tools"
expect 0 "fi_pingpong --beside the same library"
python3 - "$scratch/ours.out" "$tools/libfabric.so.1" <<'EOF' || fail "fi_pingpong --beside: its document"
import json, os, sys
document = json.load(open(sys.argv[1]))
for side in "here", "beside":
    assert os.path.samefile(document[side]["path"], sys.argv[2]) and document[side]["version"], document
[row] = document["rows"]
assert row["size"] == 64 and abs(row["ratio"] - row["here"] / row["beside"]) < 1e-9, row
EOF
mkdir "$scratch/empty"
# The programs run with older libraries, as Debian's 1.17.
for other in /usr/lib/*/libfabric.so.1; do
    [ -e "$other" ] || continue
    run ours "$own" -p tcp -d lo -e msg -S 64 -I 10 --beside "$(dirname "$other")"
    expect 0 "fi_pingpong --beside $other"
done
run ours "$own" -p tcp -d lo -e rdm -S 64 --beside "$scratch/empty"
expect 2 "fi_pingpong --beside a folder without a library"
grep -q 'in place of libfabric.so.1 from there' "$scratch/ours.err" || fail "fi_pingpong --beside: $(cat "$scratch/ours.err")"
for options in "--op rma" "--window 0" "--warmup x" "-m msg --op" "--beside . host" "--beside . -B 0" "--op read -m msg"; do
    # shellcheck disable=SC2086
    run ours "$own" $options
    expect 1 "fi_pingpong $options"
done

say "fi_pingpong: what goes wrong"
# differ WORDS SERVER_OPTIONS -- CLIENT_OPTIONS: both fail, one of them with this text
differ() {
    local words=$1 mine=()
    shift
    while [ "$1" != -- ]; do mine+=("$1") && shift; done
    shift
    serve "$own" "${mine[@]}"
    run ours "$own" -P "$port" "$@" 127.0.0.1
    local code=0
    wait "$server" || code=$?
    [ "$code" -ne 0 ] && [ "$code" -lt 124 ] || fail "fi_pingpong ${mine[*]}: exit code $code"
    code=$(cat "$scratch/ours.code")
    [ "$code" -ne 0 ] && [ "$code" -lt 124 ] || fail "fi_pingpong $*: exit code $code"
    grep -q -e "$words" "$scratch/server.err" "$scratch/ours.err" ||
        fail "fi_pingpong ${mine[*]} and $*: not '$words': $(cat "$scratch/server.err" "$scratch/ours.err")"
}
common=(-p tcp -d lo -e rdm)
differ 'is -I the same' "${common[@]}" -S 64 -I 3 -- "${common[@]}" -S 64 -I 2
differ 'is -I the same' "${common[@]}" -S 64 -I 2 -- "${common[@]}" -S 64 -I 3
differ 'is -S the same' "${common[@]}" -S 64 -- "${common[@]}" -S 128
differ 'is -S the same' "${common[@]}" -S 128 -- "${common[@]}" -S 64
differ 'is -c given' "${common[@]}" -S 64 -- "${common[@]}" -S 64 -c
differ 'No data available' -p no-such-provider -- -p no-such-provider
differ 'No data available' "${common[@]}" -- -p tcp -e rdm -d no-such-domain

# Options that only this program has.
differ '"window=2" here' "${common[@]}" --op msg --window 2 -- "${common[@]}" --op msg --window 3
differ '"op=read" here' "${common[@]}" --op read -- "${common[@]}" --op write
differ 'was started with --op' "${common[@]}" -- "${common[@]}" --op read
differ 'was started with --op' "${common[@]}" --op read -- "${common[@]}"
differ 'tx_attr.inject_size is' "${common[@]}" --op inject -S 100000 -- "${common[@]}" --op inject -S 100000
differ 'no numbers of 8 bytes' "${common[@]}" --op atomic -S 12 -- "${common[@]}" --op atomic -S 12
differ 'has FI_RMA, which --op write needs' -p udp -d lo -e dgram --op write -- -p udp -d lo -e dgram --op write
differ 'has FI_ATOMIC, which --op fetch needs' -p udp -d lo -e dgram --op fetch -- -p udp -d lo -e dgram --op fetch
for other in ${others[@]+"${others[@]}"}; do
    serve "$other/fi_pingpong" -p tcp -d lo -e rdm
    run ours "$own" -P "$port" -p tcp -d lo -e rdm --op read 127.0.0.1
    expect 95 "fi_pingpong --op read with $other"
    grep -q "is upstream's fi_pingpong, .*: --op needs ours" "$scratch/ours.err" || fail "no word of $other: $(cat "$scratch/ours.err")"
    kill "$server" 2>/dev/null || true
    wait "$server" || true
done
# Invalid bytes on the control connection end the server in time, with an error.
for options in "" "--op read"; do
    for bytes in '' '\0\0\0\0' '\377\377\377\377' '\0IFP\377\377\377\377' '\0IFP\0\0\0\002\377\376' 'GET / HTTP/1.0\r\n\r\n'; do
        # shellcheck disable=SC2086
        serve "$own" "${common[@]}" $options
        # shellcheck disable=SC2059
        python3 -c 'import socket, sys, time
peer = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
peer.settimeout(60)
try:
    peer.sendall(sys.stdin.buffer.read())
    peer.shutdown(socket.SHUT_WR)
    while peer.recv(4096): pass
except TimeoutError: raise
except OSError: pass # the server may have ended the connection already' "$port" < <(printf "$bytes") || fail "fi_pingpong $options keeps hold of a peer that says $bytes"
        code=0
        wait "$server" || code=$?
        case $code in 0 | 124 | 134 | 137 | 139) fail "fi_pingpong $options: exit code $code after $bytes" ;; esac
        grep -q '^\[error\]' "$scratch/server.err" || fail "fi_pingpong $options says nothing of $bytes"
    done
done

# A peer dies in the middle of the test.
for type in rdm msg; do
    # Without the time guard, which would be killed instead.
    guard=()
    serve "$own" -p tcp -d lo -e $type -S 64 -I 999999999
    guard=("${guarded[@]}")
    "${guard[@]}" "$own" -P "$port" -v -p tcp -d lo -e $type -S 64 -I 999999999 127.0.0.1 </dev/null \
        >"$scratch/client.out" 2>"$scratch/client.err" &
    client=$!
    children+=("$client")
    deadline=$((SECONDS + 20 * PATIENCE))
    until grep -q -s -x '\[debug\] size 64' "$scratch/client.err"; do
        kill -0 $client 2>/dev/null || fail "fi_pingpong -e $type: $(cat "$scratch/client.err")"
        [ $SECONDS -lt $deadline ] || fail "fi_pingpong -e $type: the game does not begin"
        sleep 0.05
    done
    kill -KILL "$server"
    wait "$server" 2>/dev/null || true
    code=0
    wait $client || code=$?
    # 124 and 137 are exit codes of the time guard.
    case $code in 0 | 124 | 137) fail "fi_pingpong -e $type: exit code $code though the server was killed" ;; esac
    grep -q '^\[error\].*the peer has ended' "$scratch/client.err" ||
        fail "fi_pingpong -e $type says nothing of the killed server: $(tail -n 5 "$scratch/client.err")"
done

run ours "$own" -P 1 127.0.0.1
expect 111 "fi_pingpong without a server"
run ours "$own" -P "$(free_port)" -B "$(free_port)" 127.0.0.1
expect 111 "fi_pingpong without a server, from a port of its own"
for options in -h -x -e "-e stream" "-m rma" "-S 64k" "-I 0" "-B 65536" "one two"; do
    # shellcheck disable=SC2086
    run ours "$own" $options
    expect 1 "fi_pingpong $options"
done

echo
echo "fi_strerror, fi_info and fi_pingpong pass, $compared comparisons with other builds"
