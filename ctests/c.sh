#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# c.sh [--valgrind] FOLDER [NAME...]: builds the C programs of this folder against include/ and the libfabric.so in
# FOLDER and runs them, by default all of them. Exit code 0 passes; NAME.expected, if it exists, is the expected output.
# CFLAGS may hold further options of the compiler.
set -euo pipefail
. "$(dirname "$0")/../scripts/steps.sh"

under=()
if [ "${1-}" = --valgrind ]; then
    command -v valgrind >/dev/null || install_packages valgrind || skip "there is no valgrind"
    under=(valgrind --quiet --error-exitcode=99 --leak-check=full --show-leak-kinds=definite,possible --errors-for-leak-kinds=definite,possible --track-fds=no)
    shift
fi
library=$(realpath "${1:?usage: c.sh [--valgrind] FOLDER [NAME...]}")
shift
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

names=("$@")
if [ $# -eq 0 ]; then
    for source in "$ROOT"/ctests/*.c; do
        name=$(basename "$source" .c)
        case $name in
        headers) continue ;;                        # only compiled, by headers.sh
        idle) [ ${#under[@]} -eq 0 ] || continue ;; # under valgrind no process is idle
        # The oldest and the newest stand for these under valgrind, which is slow.
        old_api_1_[459] | old_api_1_14 | old_api_1_20) [ ${#under[@]} -eq 0 ] || continue ;;
        esac
        names+=("$name")
    done
fi

# Expands an expected output, in which words stand for the numbers of the default release: @INTERFACE@; @RELEASE@, the
# major provider version; @PROVIDER@, the same in hexadecimal; @LATER@, the one after it.
released() { # FILE
    local provider
    provider=$(releases 5 default)
    sed -e "s/@INTERFACE@/$(default_set)/g" -e "s/@RELEASE@/$provider/g" -e "s/@PROVIDER@/$(printf %x "$provider")/g" \
        -e "s/@LATER@/$(printf %x $((provider + 1)))/g" "$1"
}

# Only loopback is used, so that the result is the same on every machine.
export LD_LIBRARY_PATH=$library FI_TCP_IFACE=lo FI_UDP_IFACE=lo
run() { # NAME
    local name=$1 start=$SECONDS code=0 expected=$ROOT/ctests/$1.expected
    # shellcheck disable=SC2086 # options, one a word
    if ! "${CC:-cc}" -std=gnu17 -g ${CFLAGS-} -Wall -Wextra -Wno-missing-field-initializers -Wno-deprecated-declarations \
        -I "$ROOT/include" -o "$folder/$name" "$ROOT/ctests/$name.c" -L "$library" -Wl,-rpath,"$library" -lfabric -lpthread -ldl; then
        echo "$name (does not build)" >>"$folder/failed"
        return
    fi
    limited 120 "$name" ${under[@]+"${under[@]}"} "$folder/$name" >"$folder/$name.out" 2>"$folder/$name.err" || code=$?
    if [ "$code" -ne 0 ]; then
        tail -n 20 "$folder/$name.out" "$folder/$name.err"
        echo "$name (exit code $code)" >>"$folder/failed"
    elif [ -e "$expected" ] && ! diff -u <(released "$expected") "$folder/$name.out" >"$folder/$name.diff"; then
        head -n 60 "$folder/$name.diff"
        echo "$name (other output)" >>"$folder/failed"
    else
        echo "ok $name, $((SECONDS - start)) s"
    fi
}

# `idle` measures processor time, so it runs alone; of the others one runs on each processor.
processors=$(nproc 2>/dev/null || echo 1)
for name in "${names[@]}"; do
    [ "$name" != idle ] || run "$name"
done
for name in "${names[@]}"; do
    [ "$name" != idle ] || continue
    while [ "$(jobs -rp | wc -l)" -ge "$processors" ]; do wait -n || true; done
    run "$name" &
done
wait
[ ! -e "$folder/failed" ] || fail "$(paste -sd ';' "$folder/failed")"
