#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# asan.sh [--build] FOLDER: builds the library and the C programs with AddressSanitizer in FOLDER, then runs the
# programs of c.sh and the conformance suite. A wrong access, a leak or a double free is a failure, in C and in Rust, in
# any process; so is undefined behaviour in the C programs and the headers' inline functions. --build: only builds.
#
# The library is a debug build, so Rust's assertions and overflow checks are enabled, too. The sanitizer's runtime comes
# from the program, which gets it from the C compiler.
set -euo pipefail
. "$(dirname "$0")/../scripts/steps.sh"
only_build=
[ "${1-}" != --build ] || { only_build=1 && shift; }
mkdir -p "${1:?usage: asan.sh FOLDER}"
folder=$(realpath "$1")
# Alignment is not checked, because programs end a buffer before a page without access.
flags=(-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-sanitize=alignment -fno-omit-frame-pointer)
host=$(rustc -vV | sed -n 's/^host: //p')
library=$folder/$host/debug

# Rust has the switch only in its nightly compiler; this variable opens it in the stable one.
export RUSTC_BOOTSTRAP=1 ASAN_OPTIONS=detect_leaks=0
echo 'fn main() {}' >"$folder/probe.rs"
rustc -Zsanitizer=address --target "$host" -o "$folder/probe" "$folder/probe.rs" 2>"$folder/probe.err" && "$folder/probe" ||
    skip "$(rustc --version) has no AddressSanitizer for $host: $(head -n 1 "$folder/probe.err")"
echo 'int main(void) { return 0; }' >"$folder/probe.c"
"${CC:-cc}" "${flags[@]}" -o "$folder/probe" "$folder/probe.c" 2>"$folder/probe.err" && "$folder/probe" ||
    skip "${CC:-cc} has no AddressSanitizer: $(tail -n 1 "$folder/probe.err")"

# --target keeps the switch from build.rs and what it needs.
RUSTFLAGS="${RUSTFLAGS-} -Zsanitizer=address" \
    cargo build --locked --manifest-path "$ROOT/Cargo.toml" --target "$host" --target-dir "$folder"
ln -sf libfabric.so "$library/libfabric.so.1"
make -C "$ROOT/ctests/conformance" --no-print-directory BUILD="$folder/conformance" CFLAGS="-O1 -g ${flags[*]}" \
    FABRIC_CFLAGS="-I$ROOT/include" FABRIC_LIBS="-L$library -lfabric"
"${CC:-cc}" -std=gnu17 -g "${flags[@]}" -I "$ROOT/include" -o "$folder/planted" "$ROOT/ctests/sanitizers/planted.c" \
    -L "$library" -lfabric -lpthread
[ -z "$only_build" ] || exit 0
export LD_LIBRARY_PATH=$library

# The address sanitizer reports to files, so that faults also count in processes whose exit code is ignored or has
# another meaning.
reports=$folder/reports
options=exitcode=99:handle_abort=1:detect_stack_use_after_return=1:strict_string_checks=1:check_initialization_order=1
watch() { # FOLDER LEAKS
    rm -rf "$1" && mkdir "$1"
    export ASAN_OPTIONS=$options:detect_leaks=$2:log_path=$1/asan UBSAN_OPTIONS=print_stacktrace=1
}

# Checks first that two planted faults are found, because a check that cannot find faults is useless.
planted() { # FAULT
    watch "$folder/planted.reports" 1
    "$folder/planted" "$1" || true
    cat "$folder/planted.reports/"* 2>/dev/null || true
}
# In a library without the sanitizer its own memcpy would read, not the sanitizer's.
found=$(planted freed)
[[ $found =~ heap-use-after-free[^#]*'#0 '[^#]*(' __asan_memcpy '|' src/base/info/') ]] ||
    fail "a freed struct that the library reads was not found in the library: $found"
leaks=1 found=$(planted leak)
case $found in
*"detected memory leaks"*"src/exports/info.rs"*) ;;
*"LeakSanitizer has encountered a fatal error"*) leaks=0 ;;
*) fail "an fi_info that nobody freed was not found: $found" ;;
esac

watch "$reports" $leaks
code=0
CFLAGS=${flags[*]} "$ROOT/ctests/c.sh" "$library" || code=1
conformance() {
    CONFORMANCE_SLOWER=3 "$folder/conformance/conformance" -j 3 -t 120 "$@" || code=1
}
# Over sockets all pages run for RDM endpoints. MSG endpoints use the same engine except for connecting, so only the pages
# of that, of messages and of bad input; over memory, the same engine again, those that move bytes through rings. sm2 is shm
# under another name.
FI_TCP_SHARED_MEMORY=0 conformance -p core
FI_TCP_SHARED_MEMORY=0 conformance -p tcp -e rdm
FI_TCP_SHARED_MEMORY=0 conformance -p tcp -e msg -k fi_cm: -k fi_eq: -k fi_msg: -k fi_tcp: -k badinput -k wire_tcp:
conformance -p shm -k fi_shm: -k fi_msg: -k fi_tagged: -k fi_rma: -k fi_atomic: -k fi_cm: -k fi_mr: -k fi_cntr:
conformance -p tcp -e rdm -k fi_msg: -k fi_cq:
# verbs, over the stand-in for rdma-core, which frees little of what it allocates.
if why=$("$ROOT/ctests/verbs/stand_in.sh" "$folder/stand-in"); then
    echo leak:libibverbs.so.1 >"$folder/leaks.txt"
    export LD_LIBRARY_PATH=$library:$folder/stand-in LSAN_OPTIONS=suppressions=$folder/leaks.txt:print_suppressions=0
    export LD_PRELOAD="$("${CC:-cc}" -print-file-name=libasan.so):$folder/stand-in/libibverbs.so.1"
    conformance -p verbs -e msg -x "$ROOT/ctests/verbs/expected.txt"
    unset LD_PRELOAD
else
    echo "NOT CHECKED: verbs: $why"
fi
for report in "$reports"/*; do
    [ -e "$report" ] || continue
    code=1
    cat "$report"
done
[ $leaks = 1 ] || echo "NOT CHECKED for leaks: LeakSanitizer may not trace processes here (ptrace)"
[ $code = 0 ] || fail "see the reports above and in $reports"
