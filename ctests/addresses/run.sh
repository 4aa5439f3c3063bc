#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# run.sh LIBRARY-FOLDER BUILD-FOLDER [ARGUMENT...]: random address vectors on every RDM provider of the libfabric.so in
# LIBRARY-FOLDER. Arguments go to the program: `--seeds 1000`, `--first SEED --seeds 1 --verbose shm`; see main.c.
set -euo pipefail
. "$(dirname "$0")/../../scripts/steps.sh"

library=$(cd "${1:?usage: run.sh LIBRARY-FOLDER BUILD-FOLDER [ARGUMENT...]}" && pwd)
build=${2:?usage: run.sh LIBRARY-FOLDER BUILD-FOLDER [ARGUMENT...]}
shift 2
command -v "${CC:-cc}" >/dev/null || skip "no C compiler"
mkdir -p "$build"
# shellcheck disable=SC2086 # options, one a word
"${CC:-cc}" -std=gnu17 -O1 -g ${CFLAGS-} -Wall -Wextra -Wno-missing-field-initializers \
    -Wno-deprecated-declarations -I "$ROOT/include" -o "$build/model" "$ROOT"/ctests/addresses/*.c -L "$library" -lfabric
# Only loopback is used, so that the result is the same on every machine.
LD_LIBRARY_PATH=$library FI_TCP_IFACE=lo FI_UDP_IFACE=lo exec "$build/model" "$@"
