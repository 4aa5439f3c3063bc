#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# run.sh [--long] LIBRARY FOLDER CONFORMANCE: the conformance tests of data on device memory of stand-in drivers, cuda.c,
# rocr.c and ze.c, whose memory the processor cannot access. It shows nothing about real drivers and devices. The stand-ins
# for ROCr and Level Zero run only the page fi_hmem, on shm and tcp. --long: all pages with data, which takes 10 minutes for
# CUDA alone, because each access of a test to that memory is a signal.
set -euo pipefail
cd "$(dirname "$0")"
pages=(-k fi_hmem: -k fi_tagged:) short=(-k fi_hmem:) limit=120
if [[ $1 == --long ]]; then
	pages=(-k fi_hmem: -k fi_tagged: -k fi_msg: -k fi_rma: -k fi_atomic: -k fi_trigger: -k fi_collective:)
	short=("${pages[@]}") limit=300
	shift
fi
library=$1 folder=$2 conformance=$3

if [[ $(uname -m) != x86_64 ]]; then
	echo "NOT TESTED: tests reach device memory on x86-64 only"
	exit 77
fi
status=0
# build KIND FILE: the stand-in, by the name of the driver's library.
build() {
	mkdir -p "$folder/$1"
	"${CC:-cc}" -std=gnu17 -O1 -g -Wall -Wextra -Werror -shared -fPIC -o "$folder/$1/$2" "$1.c"
}
# check KIND ARGUMENTS: tests whose buffers are memory of that kind.
check() {
	CONFORMANCE_DEVICE=$1 LD_LIBRARY_PATH=$library:$folder/$1 "$conformance" -j 2 -t "$limit" "${@:2}" | grep -v '^ok ' || status=1
}
# apart PROVIDER WHAT: messages in CUDA's memory between two processes.
apart() {
	LD_LIBRARY_PATH=$library:$folder/cuda SHM_PROVIDER=$1 SHM_DEVICE=$2 "$processes" device ||
		{ echo "FAILED $1 $2"; status=1; }
}

build cuda libcuda.so.1
build rocr libhsa-runtime64.so.1
build ze libze_loader.so.1
# For programs; no test here loads it.
"${CC:-cc}" -std=gnu17 -O1 -g -Wall -Wextra -Werror -shared -fPIC -o "$folder/cuda/libcudart.so" cudart.c -L"$folder/cuda" \
	-l:libcuda.so.1
for provider in core shm tcp 'tcp;ofi_rxm' 'udp;ofi_rxd'; do
	echo "== $provider"
	check cuda -p "$provider" "${pages[@]}"
done
echo '== lnx'
FI_LNX_PROV_LINKS='shm+tcp;ofi_rxm:lo' check cuda -p lnx "${pages[@]}"
echo '== messages between processes'
processes=$folder/processes
"${CC:-cc}" -std=gnu17 -O2 -g -Wall -Wextra -Wno-missing-field-initializers -I../../include -o "$processes" ../shm/*.c \
	-L"$library" -lfabric
for provider in shm tcp; do
	for what in plain stale uncached cannot excluded killed; do
		apart "$provider" "$what"
	done
done
for what in sockets excluded; do
	FI_TCP_SHARED_MEMORY=0 apart tcp "$what"
done
echo '== tcp without shared memory'
FI_TCP_SHARED_MEMORY=0 check cuda -p tcp -e rdm "${pages[@]}"
for kind in rocr ze; do
	for provider in core shm tcp; do
		echo "== $kind: $provider"
		check "$kind" -p "$provider" "${short[@]}"
	done
done
exit $status
