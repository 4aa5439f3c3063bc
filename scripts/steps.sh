# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# Common functions of the scripts of this folder: announce a step, give it a time limit, explain a failure, skip
# visibly. Sourced, not run. PATIENCE=3 triples every limit, for slow or busy machines. FETCH=0 or INSTALL=0 prevents
# use of apt and the network.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
: "${PATIENCE:=1}"

[ "${INSTALL:-}" != 0 ] || FETCH=0
export FETCH=${FETCH:-1}
# Cargo and pip then report themselves what is missing.
[ "$FETCH" != 0 ] || export CARGO_NET_OFFLINE=true PIP_NO_INDEX=1

# Exit code of a check that could not run here (the convention of automake's tests).
SKIPPED=77

say() { printf '\n== %s\n' "$*"; }

fail() {
    printf '\nFAILED: %s\n' "$*" >&2
    exit 1
}

skip() {
    printf '\nSKIPPED: %s\n' "$*" >&2
    exit "$SKIPPED"
}

# limited SECONDS WHAT COMMAND...: the command's own exit code, or 124 and a message if its time is over.
limited() {
    local seconds=$(($1 * PATIENCE)) what=$2 code=0
    shift 2
    timeout --kill-after=10 "$seconds" "$@" </dev/null || code=$?
    if [ "$code" -eq 124 ] || [ "$code" -eq 137 ]; then
        printf '%s: stopped after %s s (PATIENCE=%s; raise it on a slow machine)\n' "$what" "$seconds" "$PATIENCE" >&2
    fi
    return "$code"
}

# releases COLUMN [KEY]: that column of the rows of src/abi/releases.tsv whose interface or state is KEY; without KEY of
# all.
releases() {
    awk -F '\t' -v column="$1" -v key="${2:-}" '
        !/^#/ && $1 != "release" && (key == "" || $2 == key || $6 == key) { print $column }' "$ROOT/src/abi/releases.tsv"
}
sets() { releases 2; }
default_set() { releases 2 default; }
# version_of SET: the version that its headers name. For an alpha this is the version of the default release: build.rs.
version_of() { if [ "$(releases 6 "$1")" = alpha ]; then default_set; else echo "$1"; fi; }

# The folder for cargo's results, whatever the environment or a cargo config contain.
target_dir() {
    local ask=(cargo metadata --format-version 1 --no-deps --manifest-path "$ROOT/Cargo.toml")
    { "${ask[@]}" --offline 2>/dev/null || "${ask[@]}"; } | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p' | grep .
}

# A TCP port that is unused now, for a program that cannot choose one itself.
free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])'; }

# listening PID PORT: waits until that process listens there; false if it ends before or takes 20 s.
listening() {
    local end=$((SECONDS + 20 * PATIENCE)) hex
    hex=$(printf '%04X' "$2")
    while [ $SECONDS -lt $end ]; do
        kill -0 "$1" 2>/dev/null || return 1
        grep -q -s ":$hex [0-9A-F:]* 0A " /proc/net/tcp /proc/net/tcp6 && return 0
        sleep 0.05
    done
    return 1
}

# Whether this user may install packages, and there is an apt to do it with.
may_install() {
    [ "$FETCH" != 0 ] && command -v apt-get >/dev/null && { [ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null; }
}

# install_packages NAME...: announced, for root or by a sudo without a password. False if that is not possible.
install_packages() {
    may_install || return 1
    say "apt-get install $*"
    local root=()
    [ "$(id -u)" -eq 0 ] || root=(sudo -n)
    local apt=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=60)
    limited 300 "apt-get install $*" "${apt[@]}" install --no-install-recommends "$@" >/dev/null 2>&1 && return 0
    limited 120 "apt-get update" "${apt[@]}" update >/dev/null 2>&1 || return 1
    limited 300 "apt-get install $*" "${apt[@]}" install --no-install-recommends "$@"
}

# need PROGRAM[:PACKAGE]...: installs the Debian packages of missing programs; skips if that fails.
need() {
    local one packages=()
    for one; do
        command -v "${one%%:*}" >/dev/null || packages+=("${one#*:}")
    done
    [ ${#packages[@]} -eq 0 ] || install_packages "${packages[@]}" || skip "not here and not to be installed: ${packages[*]}"
}
