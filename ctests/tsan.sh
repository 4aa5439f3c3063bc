#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# tsan.sh [--build] FOLDER: builds the library and the conformance suite with ThreadSanitizer in FOLDER and runs the suite.
# Two accesses to the same memory that nothing orders fail it, in C and in Rust, in whichever process. --build: only builds.
#
# Rust's std is built too: the sanitizer must see what locks and threads do in it. The runtime in the program is Rust's, for
# the C compiler's may be older than what the library calls.
#
# It does not see what two endpoints of one process do to each other by shm: each side has the memory that they share mapped
# at addresses of its own, and the sanitizer compares addresses. Nor does it see other processes. Whether the words of a ring
# order what they should is check-loom's to try. What threads of one side do to each other, in the domain and in its half of
# a ring, is seen.
set -euo pipefail
. "$(dirname "$0")/../scripts/steps.sh"
only_build=
[ "${1-}" != --build ] || { only_build=1 && shift; }
mkdir -p "${1:?usage: tsan.sh FOLDER}"
folder=$(realpath "$1")
host=$(rustc -vV | sed -n 's/^host: //p')
library=$folder/$host/debug
rust=$(rustc --print sysroot)/lib/rustlib
runtime=$rust/$host/lib/librustc-stable_rt.tsan.a
[ -e "$runtime" ] || runtime=$rust/$host/lib/librustc-nightly_rt.tsan.a
[ -e "$runtime" ] || skip "$(rustc --version) has no ThreadSanitizer for $host"
[ -d "$rust/src/rust/library" ] || skip "the sources of Rust's std are not here (rustup component add rust-src)"

# Rust has the switches only in its nightly compiler; this variable opens them in the stable one.
RUSTC_BOOTSTRAP=1 RUSTFLAGS="${RUSTFLAGS-} -Zsanitizer=thread --cfg tsan" cargo build --locked --manifest-path "$ROOT/Cargo.toml" \
    -Zbuild-std=std,panic_abort --target "$host" --target-dir "$folder"
ln -sf libfabric.so "$library/libfabric.so.1"
# The last -f counts: the objects have the sanitizer, the link adds no runtime.
link="-L$library -lfabric -Wl,--whole-archive $runtime -Wl,--no-whole-archive -lpthread -ldl -lm -lrt"
make -C "$ROOT/ctests/conformance" --no-print-directory BUILD="$folder/conformance" CFLAGS="-O1 -g -fsanitize=thread" \
    FABRIC_CFLAGS="-I$ROOT/include" LDFLAGS=-fno-sanitize=thread FABRIC_LIBS="$link"
"${CC:-cc}" -std=gnu17 -g -fsanitize=thread -I "$ROOT/include" -c -o "$folder/planted.o" "$ROOT/ctests/sanitizers/planted.c"
# shellcheck disable=SC2086 # options, one a word
"${CC:-cc}" -o "$folder/planted" "$folder/planted.o" $link
[ -z "$only_build" ] || exit 0
export LD_LIBRARY_PATH=$library

# Reports go to files: a process whose end nobody looks at, or whose exit code has another meaning, counts too.
watch() { # FOLDER
    rm -rf "$1" && mkdir "$1"
    export TSAN_OPTIONS=exitcode=99:log_path=$1/tsan
}

# A check that cannot find anything is worth nothing: first a race that must be found.
watch "$folder/planted.reports"
"$folder/planted" race || true
found=$(cat "$folder/planted.reports/"* 2>/dev/null || true)
case $found in
*"data race"*libfabric.so*) ;;
*"unexpected memory mapping"* | *"FATAL: ThreadSanitizer"*) skip "ThreadSanitizer cannot run here: $found" ;;
*) fail "a struct that is read and changed by two threads was not found: $found" ;;
esac

watch "$folder/reports"
code=0
conformance() {
    CONFORMANCE_SLOWER=3 "$folder/conformance/conformance" -j 3 -t 120 "$@" || code=1
}
# Over sockets what moves bytes, waits, connects and names peers; bad input and raw peers need no second thread, nor do atomics and
# collectives, whose work is done where messages are matched. MSG endpoints are the same engine but for connecting: of them the
# pages of that and of plain messages. Over shared memory, the same engine again, what puts bytes through rings, sleeps, wakes and
# counts; of tcp over shared memory what sleeps and wakes. sm2 is shm but for its name.
rings=(-k fi_shm: -k fi_msg: -k fi_rma: -k fi_cq: -k fi_cntr: -k fi_poll: -k fi_trigger:)
sockets=("${rings[@]}" -k fi_tagged: -k fi_cm: -k fi_eq: -k fi_tcp:)
connections=(-k fi_cm: -k fi_eq: -k fi_msg: -k fi_tcp:)
[ "${2-}" != long ] || rings=() sockets=() connections=()
conformance -p core
FI_TCP_SHARED_MEMORY=0 conformance -p tcp -e rdm "${sockets[@]}"
FI_TCP_SHARED_MEMORY=0 conformance -p tcp -e msg "${connections[@]}"
conformance -p shm "${rings[@]}"
conformance -p tcp -e rdm -k fi_cq:
for report in "$folder/reports"/*; do
    [ -e "$report" ] || continue
    code=1
    cat "$report"
done
[ $code = 0 ] || fail "see the reports above and in $folder/reports"
