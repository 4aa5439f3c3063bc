#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# tsan.sh [--build] FOLDER: builds the library and the conformance suite with ThreadSanitizer in FOLDER and runs the
# suite. Two unordered accesses to the same memory are a failure, in C and in Rust, in any process. --build: only
# builds.
#
# Rust's std is built, too, because the sanitizer must see the operations of its locks and threads. The runtime in the
# program is Rust's, because the C compiler's may be older than the functions that the library calls.
#
# It cannot check two endpoints of one process against each other over shm: each side maps the shared memory at its own
# addresses, and the sanitizer compares addresses. Nor does it see other processes. check-loom tests whether the words
# of a ring order accesses as intended. Accesses by threads of one side, in the domain and in its half of a ring, are
# checked.
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

# Reports go to files, so that faults also count in processes whose exit code is ignored or has another meaning.
watch() { # FOLDER
    rm -rf "$1" && mkdir "$1"
    export TSAN_OPTIONS=exitcode=99:log_path=$1/tsan
}

# Checks first that a planted race is found, because a check that cannot find faults is useless.
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
# Over sockets: the pages that move bytes, wait, connect and name peers. Bad input and raw peers need no second thread,
# nor do atomics and collectives, whose work is done during matching. MSG endpoints use the same engine except for
# connecting: only the pages of that and of plain messages. Over shared memory, the same engine again: the pages that
# move bytes through rings, sleep, wake and count; for tcp over shared memory those that sleep and wake. sm2 is shm
# under another name.
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
