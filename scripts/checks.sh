#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# checks.sh NAME...: installs the packages that the checks need and this user may install, runs `make check-NAME` for
# each in turn, stops at the first failure, and prints a summary. The last line is the result; skipped parts are named
# before it.
#
# A check that could not run here, at least in part, exits with 77 and prints the reason. Each check has a log in
# target/checks. KEEP_GOING=1 continues after a failure, PATIENCE=3 triples the time limits, INSTALL=0 installs and
# fetches nothing.
set -uo pipefail
. "$(dirname "$0")/steps.sh"

# Seconds, most of them for a first build on two slow cores.
limit_of() {
    case $1 in
    format | documents | layout | inline) echo 120 ;;
    clippy | unit | drift | symbols | asan | threads | memory) echo 900 ;;
    mixed | hosts) echo 300 ;;
    wheel) echo 1800 ;;
    programs | reproducible | aarch64) echo 3600 ;;
    bindings | python | release-programs) echo 1200 ;;
    sbom | deb | rpm | musl) echo 1800 ;;
    mpi-long) echo 7200 ;;
    *) echo 600 ;;
    esac
}

# The tool whose presence is tested, and the Debian package that contains it.
needs=(cc:gcc c++:g++ git:git python3:python3 clang:clang clang++:clang pkg-config:pkg-config valgrind:valgrind
    fi_info:libfabric-bin fi_pingpong:libfabric-bin ip:iproute2 nft:nftables pandoc:pandoc mandoc:mandoc)

prepare() {
    local packages=() need
    for need in "${needs[@]}"; do
        command -v "${need%%:*}" >/dev/null || packages+=("${need#*:}")
    done
    # Debian packages venv separately from Python; elsewhere it is always there.
    python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3-venv)
    if [ "$FETCH" = 0 ]; then
        say "INSTALL=0: nothing is installed, and nothing comes over the network"
    else
        say "What is missing is fetched: crates, packages from PyPI, and if this user may install them, Debian packages and" \
            "parts of Rust. INSTALL=0 keeps the checks from it"
    fi
    if [ "$FETCH" != 0 ] && command -v rustup >/dev/null; then
        cargo fmt --version >/dev/null 2>&1 || rustup component add rustfmt
        cargo clippy --version >/dev/null 2>&1 || rustup component add clippy
        # For check-threads, which is skipped without it.
        [ -d "$(rustc --print sysroot)/lib/rustlib/src/rust/library" ] || rustup component add rust-src ||
            echo "NOT INSTALLED: the sources of Rust's std" >&2
    fi
    # Tests resolve localhost. A bare root file system has no hosts file; a CI's machine may be given one.
    if ! getent hosts localhost >/dev/null; then
        if [ "${CI:-}" = true ] && [ "$(id -u)" -eq 0 ] && [ ! -e /etc/hosts ]; then
            printf '127.0.0.1 localhost\n::1 localhost\n' >/etc/hosts
        else
            echo "localhost does not resolve here: tests that use the name will fail" >&2
        fi
    fi
    [ ${#packages[@]} -gt 0 ] || return 0
    mapfile -t packages < <(printf '%s\n' "${packages[@]}" | sort -u)
    if ! may_install; then
        echo "NOT INSTALLED, by this user or by INSTALL=0: ${packages[*]}; what needs them is skipped below" >&2
        return 0
    fi
    # Installs one by one if the joint installation fails, so that an unknown name does not prevent the others.
    install_packages "${packages[@]}" && return 0
    for need in "${packages[@]}"; do
        install_packages "$need" || echo "NOT INSTALLED, apt-get failed: $need" >&2
    done
}

# Prints a line now and then, so that neither a person nor a CI mistakes a long step for a hang.
heartbeat() { # NAME LOG
    local start=$SECONDS
    # The sleep outlives its shell by a moment and must not hold the terminal or pipe open.
    while sleep 30 >/dev/null 2>&1; do
        printf '   %s: %s s, at: %s\n' "$1" "$((SECONDS - start))" "$(tail -n 1 "$2" | cut -c1-100)"
    done
}

run() { # NAME: 0, 77 or another code
    local log=$logs/$1.log code=0 beat
    : >"$log"
    heartbeat "$1" "$log" &
    beat=$!
    limited "$(limit_of "$1")" "$1" make -C "$ROOT" --no-print-directory "check-$1" >"$log" 2>&1 || code=$?
    kill "$beat" 2>/dev/null
    wait "$beat" 2>/dev/null
    # make turns every failure into its own exit code 2 and names the recipe's.
    if [ "$code" -ne 0 ] && grep -q "^make.*: \*\*\* .*check-$1\] Error $SKIPPED$" "$log"; then
        code=$SKIPPED
    fi
    return "$code"
}

prepare
logs=$(target_dir)/checks && mkdir -p "$logs" || fail "cargo does not tell where it builds: is Rust here?"
passed=() skipped=() failed=() untried=()
begin=$SECONDS
# Builds what later checks need while the first ones run, because most of such a build uses one processor. A failure
# here happens again in the check that needs the build, which then reports it. The job leads a group, which ends with
# this script.
ahead=
if [[ " $* " == *" asan "* && " $* " == *" conformance "* ]]; then
    setsid nice make -k -C "$ROOT" --no-print-directory build-ahead </dev/null >"$logs/ahead.log" 2>&1 &
    ahead=$!
fi
trap '[ -z "$ahead" ] || kill -- "-$ahead" 2>/dev/null || true' EXIT
for name in "$@"; do
    if [ ${#failed[@]} -gt 0 ] && [ "${KEEP_GOING:-0}" != 1 ]; then
        untried+=("$name")
        continue
    fi
    start=$SECONDS code=0
    # Two builds in one folder would block each other.
    if [[ -n "$ahead" && ("$name" = asan || "$name" = threads) ]]; then
        wait "$ahead" || true
        ahead=
    fi
    run "$name" || code=$?
    took=$((SECONDS - start))
    case $code in
    0)
        passed+=("$name")
        printf 'ok       %4s s  %-12s %s\n' $took "$name" "$(grep -v '^$' "$logs/$name.log" | tail -n 1 | cut -c1-90)"
        ;;
    "$SKIPPED")
        skipped+=("$name")
        printf 'SKIPPED  %4s s  %s\n' $took "$name"
        ;;
    *)
        failed+=("$name")
        printf 'FAILED   %4s s  %s; the end of %s:\n' $took "$name" "$logs/$name.log"
        tail -n 60 "$logs/$name.log" | sed 's/^/    /'
        ;;
    esac
done

echo
for name in ${skipped[@]+"${skipped[@]}"}; do
    echo "SKIPPED, in whole or in part: $name: $(grep -h -E '^(SKIPPED|NOT )' "$logs/$name.log" | tail -n 3 | xargs -d '\n')"
done
for name in ${passed[@]+"${passed[@]}"}; do
    # A check may pass although it has left out a part; it reports this in a line of this kind.
    grep -h '^NOT [A-Z]* ' "$logs/$name.log" | sed "s/^/$name: /"
done
[ ${#untried[@]} -eq 0 ] || echo "NOT TRIED after the failure, counted as skipped: ${untried[*]}"
[ ${#failed[@]} -eq 0 ] || echo "FAILED: ${failed[*]}"
echo "$((SECONDS - begin)) s; logs in $logs"
echo "${#passed[@]} passed, ${#failed[@]} failed, $((${#skipped[@]} + ${#untried[@]})) skipped" | tee "$logs/summary"
[ ${#failed[@]} -eq 0 ]
