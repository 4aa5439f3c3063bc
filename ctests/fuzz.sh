#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# fuzz.sh FOLDER [SECONDS [TARGET...]]: builds fuzz/ with libFuzzer and AddressSanitizer in FOLDER and runs each target
# for SECONDS (60). The targets begin with the frames of tests/vectors, and continue from the end of the last run in
# FOLDER. An input that crashes a target stays in FOLDER, and its name is printed.
set -euo pipefail
. "$(dirname "$0")/../scripts/steps.sh"
mkdir -p "${1:?usage: fuzz.sh FOLDER [SECONDS [TARGET...]]}"
folder=$(realpath "$1")
seconds=${2:-60}
shift $(($# < 2 ? $# : 2))
targets=("$@")
((${#targets[@]})) || targets=(frames connect addresses variables peer rxm_peer rxd_peer)
host=$(rustc -vV | sed -n 's/^host: //p')

# As for asan.sh: the switch is the nightly compiler's. The other flags count edges and show comparisons to libFuzzer.
export RUSTC_BOOTSTRAP=1
echo 'fn main() {}' >"$folder/probe.rs"
rustc -Zsanitizer=address --target "$host" -o "$folder/probe" "$folder/probe.rs" 2>"$folder/probe.err" && "$folder/probe" ||
    skip "$(rustc --version) has no AddressSanitizer for $host: $(head -n 1 "$folder/probe.err")"
RUSTFLAGS="${RUSTFLAGS-} -Zsanitizer=address --cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
    -Cllvm-args=-sanitizer-coverage-trace-compares" \
    cargo build --locked --release --manifest-path "$ROOT/fuzz/Cargo.toml" --target "$host" --target-dir "$folder"

for target in "${targets[@]}"; do
    mkdir -p "$folder/seeds/$target" "$folder/corpus/$target"
done
# seed TARGET NAME HEX: writes a seed of a target that is to run.
seed() { [ ! -d "$folder/seeds/$1" ] || sed 's/../\\x&/g' <<<"$3" | tr -d '\n' | xargs -0r printf >"$folder/seeds/$1/$2"; }
# A length in two bytes, as the targets with live endpoints of layered providers read it.
length() { printf '%02x%02x' $(($1 % 256)) $(($1 / 256)); }
# Decoders take frames unchanged. Live endpoints take them after the bytes that control the peer's behaviour.
for file in "$ROOT"/tests/vectors/*/*.hex; do
    name=$(basename "$file" .hex) kind=$(basename "$(dirname "$file")") hex=$(tr -d ' \n' <"$file")
    case $kind in
    tcp)
        for target in frames connect; do seed $target "$name" "$hex"; done
        seed peer "$name" "01$hex"
        ;;
    rxd)
        seed rxd "$name" "$hex"
        for how in 10 12 14; do seed rxd_peer "$name-$how" "${how}0c$(length $((${#hex} / 2)))$hex"; done
        ;;
    rxm)
        # A packet follows 16 bytes of tcp, whose second byte marks them as a message.
        packet=03$(length $((${#hex} / 2 - 16)))${hex:32}
        seed rxm "$name" "${hex:32}"
        [ "${hex:2:2}" = 00 ] || packet=08$(length $((${#hex} / 2)))$hex
        for how in 00 02 04; do seed rxm_peer "$name-$how" "$how$packet"; done
        # Many of them, followed by a packet that breaks a rule and the end of the connection.
        for how in 01 03 05; do seed rxm_peer "$name-$how" "${how}3${packet:1}"; done
        ;;
    esac
done
if [ -d "$folder/seeds/addresses" ]; then
    printf 'fi_sockaddr_in://127.0.0.1:7471' >"$folder/seeds/addresses/in"
    printf 'fi_sockaddr_in6://[::1]:7471' >"$folder/seeds/addresses/in6"
    printf '\x02\x00\x1d\x2f\x7f\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00' >"$folder/seeds/addresses/bytes"
fi
if [ -d "$folder/seeds/variables" ]; then
    printf '^tcp,verbs' >"$folder/seeds/variables/list"
    printf '60000\n64\n256\n1k\n-1\neth0' >"$folder/seeds/variables/tcp"
fi

for target in "${targets[@]}"; do
    say "$target, $seconds s"
    log=$folder/$target.log
    ASAN_OPTIONS=detect_leaks=0 limited $((seconds * 3 + 60)) "$target" \
        "$folder/$host/release/$target" -max_total_time="$seconds" -max_len=4096 -timeout=20 -rss_limit_mb=4096 \
        -artifact_prefix="$folder/$target-" -print_final_stats=1 "$folder/corpus/$target" "$folder/seeds/$target" >"$log" 2>&1 ||
        fail "$target: $(grep -E 'panicked|ERROR|SUMMARY|Test unit written' "$log" | head -n 5 | tr '\n' ' '); whole in $log"
    sed -n 's/^stat::number_of_executed_units: */  inputs: /p' "$log"
done
done_line() { sed -n 's/^stat::number_of_executed_units: *//p' "$folder/$1.log"; }
echo "${#targets[@]} targets, $seconds s each: $(for t in "${targets[@]}"; do echo "$t $(done_line "$t")"; done | paste -sd,) inputs, nothing found"
