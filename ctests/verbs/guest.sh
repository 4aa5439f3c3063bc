#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# guest.sh FOLDER BUILD [PART]...: tests the provider `verbs` of the libfabric.so.1 of FOLDER on soft RDMA devices, in a
# virtual machine. Parts: pair (two processes, with faults), memory (registrations and their cache), dgram, credits,
# fabtests, plugins, mpi; all if none is named.
#
# RDMA_GUEST names the program that starts the machine and runs a command in it: with the files of this host at the same
# places, and the devices rxe0 at 10.77.0.1 and rxe1 at 10.77.0.2. FABTESTS names the folder of fabtests' programs and
# UPSTREAM_VERBS that of upstream's libfabric.so.1 built with verbs; with both, each test runs in the four pairings of
# the two libraries. UPSTREAM_PLUGIN names upstream's libverbs-fi.so, and PLUGIN the folder of our providers for upstream
# (make plugin): the part plugins runs each in the library of the other. PYTHON_ENV names the environment that
# scripts/python_env.sh makes, for MPICH.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
if [ "${RDMA_ADDR:-}" = "" ]; then # on the host
	library=$(realpath "$1")
	mkdir -p "$2"
	build=$(realpath "$2")
	shift 2
	[ -n "${RDMA_GUEST:-}" ] || {
		echo "NOT RUN: RDMA_GUEST does not name the program that starts a machine with RDMA devices"
		exit 77
	}
	set -e
	for program in pair verbs dgram; do
		cc -std=gnu11 -Wall -Wextra -Werror -Wno-missing-field-initializers -O1 -g -I"$here/../../include" \
		    -o "$build/$program" "$here/$program.c" -L"$library" -lfabric
	done
	# Built with the headers of 2.6, and with the symbols of the library that has fewer.
	linked=${UPSTREAM_VERBS:-$library}
	cc -std=gnu11 -Wall -Wextra -Werror -Wno-missing-field-initializers -O1 -g -I"$library/include-2.6" \
	    -o "$build/slow" "$here/slow.c" -L"$linked" -l:libfabric.so.1 -Wl,--allow-shlib-undefined
	[ $# -gt 0 ] || set -- pair memory dgram credits fabtests plugins mpi
	code=0
	for part; do
		FABTESTS=${FABTESTS:+$(realpath "$FABTESTS")} UPSTREAM_VERBS=${UPSTREAM_VERBS:+$(realpath "$UPSTREAM_VERBS")} \
		PYTHON_ENV=${PYTHON_ENV:+$(realpath "$PYTHON_ENV")} PLUGIN=${PLUGIN:+$(realpath "$PLUGIN")} \
		UPSTREAM_PLUGIN=${UPSTREAM_PLUGIN:+$(realpath "$UPSTREAM_PLUGIN")} \
		    "$RDMA_GUEST" --limit "${GUEST_LIMIT:-1500}" "$here/guest.sh" "$library" "$build" "$part" || code=$?
	done
	exit $code
fi

# In the machine.
library=$1 build=$2 part=$3
passed=0
failed=0
say() { # say NAME RESULT
	if [ "$2" = 0 ]; then
		passed=$((passed + 1))
		echo "passed $1"
	else
		failed=$((failed + 1))
		echo "FAIL $1 ($2)"
	fi
}

pair() {
	local test
	for test in $(LD_LIBRARY_PATH=$library "$build/pair"); do
		UNPLUG="ip link set v0 down" LD_LIBRARY_PATH=$library timeout -k 5 120 "$build/pair" "$test" 10.77.0.1 10.77.0.2
		say "$test" $?
	done
}

pauses() { # how often the adapters have paused, because their peers had no receive for a message
	cat /sys/class/infiniband/rxe*/ports/1/hw_counters/rcvd_rnr_err | awk '{ n += $1 } END { print n }'
}

# Messages to slow receivers: with credits no adapter has to pause.
credits() {
	local server client before code
	# Queues that soft RoCE has no room for, otherwise.
	export FI_UNIVERSE_SIZE=16
	local -A at=([ours]=$library)
	[ -z "${UPSTREAM_VERBS:-}" ] || at[upstream]=$UPSTREAM_VERBS
	for server in "${!at[@]}"; do
		for client in "${!at[@]}"; do
			before=$(pauses)
			LD_LIBRARY_PATH=${at[$server]} timeout -k 5 120 "$build/slow" 10.77.0.1 10.77.0.2 first &
			until rdma resource show cm_id 2>/dev/null | grep -q LISTEN; do
				kill -0 $! 2>/dev/null || break
				sleep 0.2
			done
			LD_LIBRARY_PATH=${at[$client]} timeout -k 5 120 "$build/slow" 10.77.0.2 10.77.0.1
			code=$?
			wait $! || code=$?
			say "slow receivers: $server, $client" $code
			[ "$(pauses)" = "$before" ]
			say "no pauses: $server, $client" $?
		done
	done
}

dgram() {
	"$here/devices.sh" "$library" "$build"
	say "datagrams on each device" $?
}

memory() {
	local monitor
	# A region that serves for memory that was mapped again would send the old bytes.
	for monitor in userfaultfd disabled; do
		FI_MR_CACHE_MONITOR=$monitor LD_LIBRARY_PATH=$library timeout -k 5 120 "$build/verbs" remapped 10.77.0.1
		say "remapped, monitor $monitor" $?
	done
	[ -n "${FABTESTS:-}" ] || return
	LD_LIBRARY_PATH=$library timeout -k 5 120 "$FABTESTS/fi_mr_cache_evict" -p verbs -s 10.77.0.1 >/tmp/evict 2>&1
	grep -q 'all tests passed' /tmp/evict || { cat /tmp/evict; false; }
	say fi_mr_cache_evict $?
}

# Whether the server accepts clients: by a socket, if the programs exchange addresses themselves (-E).
is_listening() {
	case $1 in
	*' -E'*) ss -ltn 2>/dev/null | grep -q :3000 ;;
	*) rdma resource show cm_id 2>/dev/null | grep -q LISTEN ;;
	esac
}

# Runs a command on the library of a folder, which follows the loadable provider of "PROVIDER in FOLDER".
on() { # on LIBRARY COMMAND [ARGUMENT]...
	local library=${1##* in } provider=${1% in *}
	shift
	[ "$provider" = "$library" ] || export FI_PROVIDER_PATH=$provider
	LD_LIBRARY_PATH=$library exec "$@"
}

# Two processes of a test, each on a library.
both() { # both SERVER CLIENT PROGRAM [ARGUMENT]...
	local server=$1 client=$2 code
	shift 2
	(on "$server" timeout -k 5 150 "$FABTESTS/$@" -s 10.77.0.1) >/tmp/server 2>&1 &
	until is_listening "$*"; do
		kill -0 $! 2>/dev/null || break
		sleep 0.2
	done
	(on "$client" timeout -k 5 150 "$FABTESTS/$@" -s 10.77.0.2 10.77.0.1) >/tmp/client 2>&1
	code=$?
	# fabtests returns some positive error numbers of the last progress for success.
	wait $! || code=$?
	[ $code = 0 ] || tail -n 5 /tmp/server /tmp/client
	return $code
}

fabtests() {
	local name of server client test
	[ -n "${FABTESTS:-}" ] || {
		echo "NOT RUN: FABTESTS does not name the folder of fabtests' programs"
		return
	}
	# Queues that soft RoCE has no room for, otherwise.
	export FI_UNIVERSE_SIZE=16
	# Upstream's datagrams find no way from the identifier of the local link. The programs exchange addresses themselves
	# (-E), so no name server is needed. Those for datagrams without ofi_rxd want a prefix in sent buffers, too.
	export FI_VERBS_GID_IDX=1
	local -A at=([ours]=$library)
	[ -z "${UPSTREAM_VERBS:-}" ] || at[upstream]=$UPSTREAM_VERBS
	# With -I 5 our credits for the last message arrive when fi_rdm_tagged_bw has ended; upstream's ofi_rxm crashes if it
	# closes an endpoint with unread packets.
	for test in "fi_msg_pingpong -p verbs -I 5" "fi_rma_bw -e msg -o write -p verbs -I 5" "fi_msg_bw -p verbs -I 5" \
	    "fi_rdm_pingpong -p verbs;ofi_rxm -I 5" "fi_rdm_tagged_bw -p verbs;ofi_rxm -I 6" \
	    "fi_rma_bw -e rdm -o write -p verbs;ofi_rxm -I 5" "fi_rdm_pingpong -p verbs;ofi_rxd -I 5 -E" \
	    "fi_rdm_tagged_bw -p verbs;ofi_rxd -I 5 -S 4096 -E" "fi_rma_bw -e rdm -o write -p verbs;ofi_rxd -I 5 -S 4096 -E"; do
		for server in "${!at[@]}"; do
			for client in "${!at[@]}"; do
				# shellcheck disable=SC2086
				both "${at[$server]}" "${at[$client]}" $test
				say "$test: server $server, client $client" $?
			done
		done
	done
}

plugins() {
	local side test
	[ -n "${FABTESTS:-}" ] && [ -n "${UPSTREAM_VERBS:-}" ] && [ -n "${UPSTREAM_PLUGIN:-}" ] && [ -n "${PLUGIN:-}" ] || {
		echo "NOT RUN: FABTESTS, UPSTREAM_VERBS, UPSTREAM_PLUGIN and PLUGIN do not name what is needed"
		return
	}
	export FI_UNIVERSE_SIZE=16
	for test in "fi_msg_pingpong -p verbs -I 5" "fi_rdm_tagged_bw -p verbs;ofi_rxm -I 5"; do
		for side in "+$UPSTREAM_PLUGIN in $library" "$PLUGIN in $UPSTREAM_VERBS"; do
			# shellcheck disable=SC2086
			both "$side" "$library" $test
			say "$test: server $side" $?
			# shellcheck disable=SC2086
			both "$library" "$side" $test
			say "$test: client $side" $?
		done
	done
}

mpi() {
	[ -n "${PYTHON_ENV:-}" ] || {
		echo "NOT RUN: PYTHON_ENV does not name an environment with MPICH"
		return
	}
	"$PYTHON_ENV/bin/python" "$here/../mpi/run.py" --python-env "$PYTHON_ENV" --library "$library" --ranks 4 \
	    --provider "verbs;ofi_rxm" --limit 900 point_to_point
	say "MPICH, point to point, 4 ranks" $?
}

"$part"
echo "$part: $passed passed, $failed failed"
[ "$failed" = 0 ]
