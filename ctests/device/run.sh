#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# run.sh [--long] LIBRARY FOLDER CONFORMANCE: the conformance tests of data on device memory of a stand-in driver, cuda.c,
# whose memory the processor cannot access. It shows nothing about real drivers and devices. --long: all of them, which
# takes 20 minutes, because each access of a test to that memory is a signal.
set -euo pipefail
cd "$(dirname "$0")"
pages=(-k fi_hmem: -k fi_tagged:)
if [[ $1 == --long ]]; then
	pages=(-k fi_hmem: -k fi_tagged: -k fi_msg: -k fi_rma: -k fi_atomic: -k fi_trigger:)
	shift
fi
library=$1 folder=$2 conformance=$3

if [[ $(uname -m) != x86_64 ]]; then
	echo "NOT TESTED: tests reach device memory on x86-64 only"
	exit 77
fi
mkdir -p "$folder"
"${CC:-cc}" -std=gnu17 -O1 -g -Wall -Wextra -Werror -shared -fPIC -o "$folder/libcuda.so.1" cuda.c
# Programs load it; no test here does.
"${CC:-cc}" -std=gnu17 -O1 -g -Wall -Wextra -Werror -shared -fPIC -o "$folder/libcudart.so" cudart.c -L"$folder" -l:libcuda.so.1
export CONFORMANCE_DEVICE=cuda LD_LIBRARY_PATH=$library:$folder
status=0
for provider in core shm tcp 'tcp;ofi_rxm' 'udp;ofi_rxd'; do
	echo "== $provider"
	"$conformance" -j 2 -t 120 -p "$provider" "${pages[@]}" | grep -v '^ok ' || status=1
done
echo '== messages between processes'
processes=$folder/processes
"${CC:-cc}" -std=gnu17 -O2 -g -Wall -Wextra -Wno-missing-field-initializers -I../../include -o "$processes" ../shm/*.c \
	-L"$library" -lfabric
for provider in shm tcp; do
	for what in plain stale uncached cannot excluded killed; do
		SHM_PROVIDER=$provider SHM_DEVICE=$what "$processes" device || { echo "FAILED $provider $what"; status=1; }
	done
done
for what in sockets excluded; do
	FI_TCP_SHARED_MEMORY=0 SHM_PROVIDER=tcp SHM_DEVICE=$what "$processes" device || { echo "FAILED sockets $what"; status=1; }
done
echo '== tcp without shared memory'
FI_TCP_SHARED_MEMORY=0 "$conformance" -j 2 -t 120 -p tcp -e rdm "${pages[@]}" | grep -v '^ok ' || status=1
exit $status
