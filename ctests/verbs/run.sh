#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# run.sh FOLDER BUILD [CONFORMANCE]: tests the provider `verbs` of the libfabric.so.1 of FOLDER over a stand-in for
# rdma-core, in BUILD; with CONFORMANCE, also runs that suite over it.
#
# VERBS_FAKE names the folder of the stand-in (fake.c); it needs the headers of rdma-core to build. UPSTREAM_VERBS, if
# set, names a folder with upstream's libfabric.so.1 built with verbs: the programs of VERBS_FAKE run on both libraries,
# and traces.py compares them.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
include=$here/../../include
library=$(realpath "$1")
mkdir -p "$2"
build=$(realpath "$2")
conformance=${3:-}

skip() {
	echo "NOT RUN: $1; nothing of verbs was tested"
	exit 77
}
fake=$build/fake
why=$("$here/stand_in.sh" "$fake")
case $? in
0) ;;
77) skip "$why" ;;
*) echo "$why" && exit 1 ;;
esac

set -e
for program in verbs entries survive dgram; do
	cc -std=gnu11 -Wall -Wextra -Werror -Wno-missing-field-initializers -O1 -g -I"$include" -o "$build/$program" \
	    "$here/$program.c" -L"$library" -lfabric
done
set +e

over() { # on the library, over the stand-in
	LD_LIBRARY_PATH=$library:$fake LD_PRELOAD=$fake/libibverbs.so.1 timeout -k 5 60 "$@"
}
passed=0
failed=0
check() { # check NAME RESULT OUTPUT
	if [ "$2" = 0 ]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAIL $1 ($2)"
		[ -s "$3" ] && tail -n 20 "$3"
	fi
}

# Each test, with its calls in a trace.
for test in $(LD_LIBRARY_PATH=$library "$build/verbs"); do
	FAKE_TRACE=1 over "$build/verbs" "$test" >"$build/$test.out" 2>"$build/$test.trace"
	check "$test" $? "$build/$test.out"
done
FAKE_TRACE=1 over "$build/verbs" messages 10.92.0.1 >"$build/roce.out" 2>"$build/roce.trace"
check roce $? "$build/roce.out"

# Datagrams. The stand-in does not stop queue pairs after an error.
for test in $(LD_LIBRARY_PATH=$library "$build/dgram"); do
	case $test in device_*) continue ;; esac
	FAKE_TRACE=1 over "$build/dgram" "$test" >"$build/dgram_$test.out" 2>"$build/dgram_$test.trace"
	check "dgram_$test" $? "$build/dgram_$test.out"
done
grep 'modify_qp' "$build/dgram_messages.trace" | sed 's/.*mask //' | head -n 3 >"$build/states.out"
printf '%s\n' '0x71 state 1 rnr 0 qkey 0x11111111' '0x1 state 2 rnr 0 qkey 0x11111111' \
	'0x10001 state 3 rnr 0 qkey 0x11111111' | diff - "$build/states.out" >"$build/states.diff"
check dgram_states $? "$build/states.diff"
[ "$(grep -c create_ah "$build/dgram_messages.trace")" = 1 ] &&
	grep -q 'create_ah dlid 7 sl 3 global 1 sgid 0 hop 64 port 1$' "$build/dgram_messages.trace"
check dgram_has_one_handle_for_a_port $? "$build/dgram_messages.trace"
sed -n '/-- three/,/-- posted/p' "$build/dgram_messages.trace" | grep -c '+next' | grep -qx 2
check dgram_more_is_one_call $? /dev/null

# What the traces must show.
# shellcheck disable=SC2329
doorbells() { # three requests that FI_MORE joins are one list, whose last two are the ends of shorter ones
	sed -n '/-- the last of three/,/-- posted/p' "$build/more.trace" | grep -c post_send | grep -qx 3 &&
		sed -n '/-- the last of three/,/-- posted/p' "$build/more.trace" | grep -c '+next' | grep -qx 2
}
doorbells
check more_is_one_call $? /dev/null
# verbs and the providers over it ask once in one fi_getinfo.
[ "$(grep -c 'resolve_addr sync 1' "$build/messages.trace")" = 1 ]
check addresses_are_resolved_once $? "$build/messages.trace"
few=$(grep post_send "$build/unsignalled.trace" | grep -c 'flags 0x2')
[ "$few" -gt 0 ] && [ "$few" -lt 1000 ]
check unsignalled_are_few $? /dev/null
grep -A1 -- '-- expected: access' "$build/registration.trace" | grep -v '^--$' | awk '
	/expected/ { want = $NF; next }
	{ if ($NF != want) { print "got " $NF ", not " want; bad = 1 } }
	END { exit bad }' >"$build/rights.out"
check rights $? "$build/rights.out"
grep -q 'dmabuf off 4096 iova 101000 fd 0$' "$build/buffers.trace" &&
	grep -q 'reg_dmabuf len 8192 access 0x4$' "$build/buffers.trace" &&
	[ "$(grep -c reg_mr "$build/buffers.trace")" = "$(grep -c dereg_mr "$build/buffers.trace")" ]
check buffer_of_a_device $? "$build/buffers.trace"
FI_VERBS_USE_DMABUF=0 over "$build/verbs" buffers >"$build/buffers.out" 2>/dev/null
check no_buffers_by_variable $? "$build/buffers.out"
device=$build/device
mkdir -p "$device"
cc -std=gnu17 -O1 -g -shared -fPIC -o "$device/libcuda.so.1" "$here/../device/cuda.c"
with_device() {
	LD_LIBRARY_PATH=$library:$fake:$device LD_PRELOAD=$fake/libibverbs.so.1 FAKE_TRACE=1 timeout -k 5 60 "$build/verbs" device
}
with_device >"$build/device.out" 2>"$build/device.trace"
code=$?
at=$(sed -n 's/^device memory at //p' "$build/device.trace")
[ "$code" = 0 ] && grep -q "dmabuf off $((0x$at % 4096)) iova $at fd [0-9]*\$" "$build/device.trace" &&
	grep -q 'reg_dmabuf len 10000 ' "$build/device.trace"
check memory_of_a_device $? "$build/device.trace"
FI_HMEM_CUDA_USE_DMABUF=0 with_device >"$build/device.out" 2>"$build/device.trace" &&
	! grep -q 'reg_dmabuf len 10000' "$build/device.trace" && grep -q 'reg_mr[a-z_0-9]* len 10000 ' "$build/device.trace"
check memory_of_a_device_by_its_address $? "$build/device.trace"
for variable in FI_HMEM_DISABLE_P2P=1 FI_VERBS_USE_DMABUF=0 FI_HMEM=system; do
	(export "${variable?}" VERBS_DEVICE=no && with_device) >"$build/device.out" 2>"$build/device.trace"
	check "no_device_memory $variable" $? "$build/device.out"
done
grep -q 'create_cq [0-9]* vec 1 chan 1$' "$build/vectors.trace" && ! grep -q 'vec 2' "$build/vectors.trace"
check vector $? "$build/vectors.trace"
FI_VERBS_USE_ODP=1 FAKE_TRACE=1 over "$build/verbs" registration 2>&1 | grep ' reg_mr' >"$build/odp.out"
[ "$(wc -l <"$build/odp.out")" = 6 ] && ! grep -v 'access 0x4[0-9a-f]$' "$build/odp.out"
check on_demand $? "$build/odp.out"
printf '# of this host\n0000:1a:00.0 mlx5_0\n0000:3b:00.0 siw0\n' >"$build/affinity.txt"
affinity() { # affinity DEVICE POLICY
	FI_VERBS_AFFINITY_DEVICE=$1 FI_VERBS_NIC_AFFINITY_POLICY=$2 FI_VERBS_NIC_AFFINITY_CONFIG=$build/affinity.txt \
		over "$build/verbs" first_device 2>/dev/null
}
[ "$(affinity 0000:3B:00.0 manual),$(affinity 0000:1a:00.0 manual),$(affinity 0000:5e:00.0 manual)" = siw0,mlx5_0,mlx5_0 ] &&
	[ "$(affinity 0000:3b:00.0 none),$(affinity 0000:3b:00.0 auto)" = mlx5_0,mlx5_0 ]
check affinity $? /dev/null
FI_VERBS_PREFER_XRC=1 FI_VERBS_CQREAD_BUNCH_SIZE=4 FI_LOG_LEVEL=warn over "$build/verbs" first_device 2>&1 |
	grep -c 'FI_VERBS_PREFER_XRC has no effect' | grep -qx 1
check xrc_is_warned_about_once $? /dev/null
# Number of registrations after each mark. Without userfaultfd(2) nothing is cached.
if FI_LOG_LEVEL=info over "$build/verbs" cached 2>&1 | grep -q 'registrations are not cached'; then
	echo "NOT RUN: cached: userfaultfd(2) is not allowed here"
else
	awk '
		function compare() { if (n != want) { print "at line " line ": " n " registrations, not " want; bad = 1 } }
		/-- expected/ { if (line) compare(); want = $3; line = NR; n = 0; next }
		/ reg_mr/ { n++ }
		END { compare(); exit bad }' "$build/cached.trace" >"$build/cached.out"
	check registrations $? "$build/cached.out"
fi
grep -h '\[fake\] connect' "$build/messages.trace" | grep -q 'rr 255 id 255 fc 1 retry 6 rnr 7 srq 0 qpn 0 pd(6) 0568656c6c6f$'
check connect_parameters $? /dev/null
grep -h '\[fake\] accept' "$build/messages.trace" | grep -q 'rr 255 id 255 fc 1 retry 0 rnr 7 srq 0 qpn 0 pd(6) 05776f726c64$'
check accept_parameters $? /dev/null
grep -h '\[fake\] connect' "$build/infiniband.trace" | grep -q 'pd(42) 0000[0-9a-f]\{68\}0568656c6c6f$'
check header_of_infiniband $? /dev/null
closed=$(grep -c 'destroy_qp' "$build/messages.trace")
[ "$closed" = "$(grep -c 'create_qp.*inline->' "$build/messages.trace")" ]
check queue_pairs_are_destroyed $? /dev/null

# One thing goes wrong: faults.c. Everything ends all the same, mostly with an error.
faulty=$build/faulty
mkdir -p "$faulty"
cc -w -g -O1 -shared -fPIC -Wl,-soname,libfake.so -o "$faulty/libfake.so" "$fake/fake.c" -lpthread
cc -Wall -Wextra -Werror -O1 -g -shared -fPIC -Wl,-soname,libibverbs.so.1 -o "$faulty/libibverbs.so.1" "$here/faults.c" \
    -L"$faulty" -Wl,--no-as-needed -lfake -ldl
ln -sf libibverbs.so.1 "$faulty/libibverbs.so"
echo | cc -shared -fPIC -Wl,-soname,librdmacm.so.1 -x c - -o "$faulty/librdmacm.so.1" -L"$faulty" -Wl,--no-as-needed \
    -libverbs
happened=0
# `told`: an error must be reported; `either`: the library may also do without.
fault() { # fault told|either FAULT [shared]
	local out=$faulty/$2.out
	FAULT=$2 LD_LIBRARY_PATH=$library:$faulty LD_PRELOAD="$faulty/libibverbs.so.1 $faulty/libfake.so" \
	    timeout -k 5 20 "$build/survive" "${3:-alone}" >"$out" 2>"$faulty/err"
	local code=$?
	grep -q '^fault: happened' "$faulty/err" && happened=$((happened + 1))
	if [ "$code" = 0 ] && [ "$1" = told ] && grep -q -e '^no error' "$out"; then
		code="no error was reported"
	fi
	check "fault $2 ${3:-}" "$code" "$out"
}
for name in rdma_get_devices ibv_get_device_list ibv_alloc_pd ibv_reg_mr_iova2 ibv_create_comp_channel ibv_create_cq \
    rdma_migrate_id rdma_resolve_addr rdma_resolve_route rdma_create_qp rdma_connect rdma_accept rdma_disconnect \
    rdma_listen post_recv; do
	fault told "$name:1"
done
for name in ibv_create_srq post_srq_recv; do
	fault told "$name:1" shared
done
for name in ibv_open_device ibv_query_device ibv_query_port ibv_query_gid ibv_query_pkey ibv_create_qp ibv_modify_qp \
    ibv_dealloc_pd ibv_dereg_mr ibv_destroy_cq ibv_destroy_qp ibv_alloc_pd ibv_create_cq rdma_create_event_channel \
    rdma_create_id rdma_bind_addr rdma_resolve_addr rdma_migrate_id rdma_create_qp rdma_disconnect post_send; do
	for nth in 1 2 3 5 8; do
		fault either "$name:$nth"
	done
done
for status in 1 2 4 5 9 10 12 13 21; do
	for nth in 1 2 16 17; do
		fault told "status:$nth:$status"
	done
	fault told "status:1:$status" shared
done
# The events of the two endpoints until they are connected.
for nth in 2 3 5 6; do
	for event in 0 1 2 3 4 5 6 7 8 9 10 11 14; do
		fault either "event:$nth:$event:-110"
	done
done
# The device reports that a queue pair has failed.
for kind in 1 2 3 8; do
	FAULT=notice:2:$kind FI_LOG_LEVEL=warn LD_LIBRARY_PATH=$library:$faulty \
	    LD_PRELOAD="$faulty/libibverbs.so.1 $faulty/libfake.so" timeout -k 5 20 "$build/survive" alone \
	    >"$faulty/notice.out" 2>"$faulty/notice.err" && grep -q 'queue pair has failed' "$faulty/notice.err"
	check "notice $kind" $? "$faulty/notice.out"
done
[ "$happened" -gt 150 ]
check "faults happened: $happened" $? /dev/null

# The entries, and a host without devices or without the libraries.
over "$build/entries" >"$build/entries.out" 2>/dev/null
check entries $? "$build/entries.out"
diff "$here/entries.expected" "$build/entries.out" >"$build/entries.diff"
check entries_expected $? "$build/entries.diff"
FAKE_NONE=1 over "$build/entries" >"$build/none.out" 2>/dev/null
grep -v -e '^==' -e '^none: -61$' "$build/none.out" >"$build/none.left"
[ ! -s "$build/none.left" ] && grep -q '^none: -61$' "$build/none.out"
check no_devices $? "$build/none.left"
mkdir -p "$build/empty"
echo "not a library" >"$build/empty/libibverbs.so.1"
FI_LOG_LEVEL=info LD_LIBRARY_PATH=$library:$build/empty "$build/entries" >"$build/absent.out" 2>"$build/absent.log"
[ "$(grep -c 'no RDMA devices: libibverbs.so.1' "$build/absent.log")" = 1 ]
check one_line_without_the_libraries $? "$build/absent.log"

# The causes that fi_info names.
if [ -x "$library/fi_info" ]; then
	over "$library/fi_info" --doctor >"$build/doctor.out" 2>/dev/null
	grep -A1 '^note   verbs: device mlx5_9 is not offered: no port is active' "$build/doctor.out" | grep -q 'ip link set up'
	check doctor_names_the_port_that_is_down $? "$build/doctor.out"
	FAKE_NONE=1 over "$library/fi_info" --doctor >"$build/doctor.out" 2>/dev/null
	grep -q 'verbs: no RDMA devices: ' "$build/doctor.out"
	check doctor_without_devices $? "$build/doctor.out"
	LD_LIBRARY_PATH=$library:$build/empty "$library/fi_info" --doctor >"$build/doctor.out" 2>/dev/null
	grep -q 'verbs: no RDMA devices: libibverbs.so.1: ' "$build/doctor.out"
	check doctor_without_the_libraries $? "$build/doctor.out"
	over "$library/fi_info" -p verbs -c FI_TAGGED -t FI_EP_MSG --why >"$build/why.out" 2>/dev/null
	grep -q 'device: wanted "mlx5_9", offered "no port is active"' "$build/why.out" &&
		grep -A1 'verbs FI_EP_MSG on mlx5_0' "$build/why.out" | grep -q 'caps: wanted FI_TAGGED'
	check why_names_the_cause $? "$build/why.out"
fi

# The stand-in's programs on upstream and on ours: what they print, and each call to the stand-in. ofi_rxm sends packets of
# its own, so that only the output of its program is compared.
if [ -n "${UPSTREAM_VERBS:-}" ]; then
	upstream=$(realpath "$UPSTREAM_VERBS")
	for source in "$VERBS_FAKE"/{msg,mr,ib,rxm}.c; do
		name=$(basename "$source" .c)
		cc -w -O1 -I"$upstream/../include" -o "$build/theirs_$name" "$source" -L"$upstream" -lfabric -lpthread || continue
		case $name in
		msg) set -- 0 1 2 3 4 5 6 7 8 ;;
		mr) set -- mlx5_0 siw0 ;;
		*) set -- "" ;;
		esac
		for argument; do
			for of in upstream library; do
				# shellcheck disable=SC2086
				FAKE_TRACE=1 LD_LIBRARY_PATH=${!of}:$fake LD_PRELOAD=$fake/libibverbs.so.1 timeout 60 \
				    "$build/theirs_$name" $argument >"$build/$of.out" 2>"$build/$of.calls"
				[ "$name" = rxm ] || cat "$build/$of.calls" "$build/$of.out" >"$build/$of.both"
				[ "$name" != rxm ] || cp "$build/$of.out" "$build/$of.both"
			done
			"$here/traces.py" "$build/upstream.both" "$build/library.both" >"$build/traces.out"
			check "beside upstream: $name $argument" $? "$build/traces.out"
		done
	done
else
	echo "NOT RUN: the calls beside upstream's: UPSTREAM_VERBS does not name the folder of its library"
fi

if [ -n "$conformance" ]; then
	over() { LD_LIBRARY_PATH=$library:$fake LD_PRELOAD=$fake/libibverbs.so.1 "$@"; }
	suite() { # suite PROVIDER TYPE LEAST [OPTION ...]
		local log=$build/conformance_${1//;/_}_$2.log
		over "$conformance" -j 2 -p "$1" -e "$2" -x "$here/expected.txt" "${@:4}" >"$log"
		echo "conformance of $1 $2: $(tail -n 1 "$log")"
		[[ $(tail -n 1 "$log") =~ ^([0-9]+)\ passed,\ 0\ failed ]] && [ "${BASH_REMATCH[1]}" -gt "$3" ]
		check "conformance of $1 $2" $? <(grep ^FAIL "$log")
	}
	suite verbs msg 500
	suite verbs dgram 200
	suite "verbs;ofi_rxm" rdm 1000
	suite "verbs;ofi_rxd" rdm 900
	FI_LNX_PROV_LINKS='verbs;ofi_rxm:mlx5_0' suite lnx rdm 800

	# Memory of a device that the stand-in for an adapter accesses. That the library does not touch it is not tested here.
	over() {
		DEVICE_OPEN=1 CONFORMANCE_DEVICE=cuda LD_LIBRARY_PATH=$library:$fake:$device LD_PRELOAD=$fake/libibverbs.so.1 "$@"
	}
	suite verbs msg 90 -k fi_msg: -k fi_rma: -k fi_atomic:
	suite "verbs;ofi_rxm" rdm 340 -k fi_tagged: -k fi_msg: -k fi_rma: -k fi_atomic:
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
