#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# devices.sh FOLDER BUILD: tests datagram endpoints of `verbs` with the libfabric.so.1 of FOLDER on the RDMA devices of
# this host, each device of InfiniBand or RoCE with an active port. The program is compiled into BUILD if it is not
# there.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
library=$(realpath "$1")
build=$2

set -- /sys/class/infiniband/*
if [ ! -e "$1" ]; then
	echo "NOT RUN: this host has no RDMA devices; datagrams of verbs were not tested on any"
	exit 77
fi
export LD_LIBRARY_PATH=$library
if [ ! -x "$build/dgram" ]; then
	mkdir -p "$build"
	cc -std=gnu11 -O1 -g -I"$here/../../include" -o "$build/dgram" "$here/dgram.c" -L"$library" -lfabric || exit 1
fi
passed=0
failed=0
for device; do
	domain=$(basename "$device")-dgram
	for test in $("$build/dgram"); do
		if output=$("$build/dgram" "$test" "$domain" 2>/dev/null); then
			passed=$((passed + 1))
		else
			failed=$((failed + 1))
			echo "FAIL $test on $domain: $output"
		fi
	done
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
