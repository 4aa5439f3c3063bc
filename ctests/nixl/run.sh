#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# run.sh FOLDER PYTHON BUILD: the libfabric plug-in of NIXL's wheel (PyPI: nixl-cu12) on the library in FOLDER. Two agents, a
# process each, write and read memory over tcp and over sockets, and check the bytes; agents.py prints the rates. PYTHON is an
# interpreter with numpy. The wheel is unpacked into BUILD. The plug-in is linked with CUDA; stubs without a device are made
# here. The plug-in requires node FABRIC_1.10 and API 1.18.
set -euo pipefail
. "$(dirname "$0")/../../scripts/steps.sh"
library=$(realpath "${1:?usage: run.sh FOLDER PYTHON BUILD}")
python=$(realpath -s "${2:?usage: run.sh FOLDER PYTHON BUILD}")
build=$(realpath -m "${3:?usage: run.sh FOLDER PYTHON BUILD}")
wheel=nixl-cu12==1.5.1
here=$ROOT/ctests/nixl
packages=$build/packages
stubs=$build/stubs

[ "$(uname -m)" = x86_64 ] || skip "the wheel $wheel is asked for on x86_64 only"
need cc:gcc
if ! ldconfig -p | grep -q 'libhwloc\.so\.15 '; then
    install_packages libhwloc15 || skip "libhwloc.so.15, which NIXL loads, is not here (Debian: libhwloc15)"
fi
if [ "$(cat "$packages/made-from" 2>/dev/null)" != "$wheel" ]; then
    rm -rf "$packages"
    mkdir -p "$build"
    say "pip install $wheel (70 MB, once)"
    # Dependencies are left out: PyTorch is not needed for host memory.
    limited 600 "pip install" "$python" -m pip install --disable-pip-version-check -q --no-deps --only-binary :all: \
        --target "$packages" "$wheel" || skip "the wheel $wheel cannot be had for $("$python" --version)"
    echo "$wheel" >"$packages/made-from"
fi

# A CUDA driver and runtime without a device, with the functions that the plug-in imports. 100: CUDA_ERROR_NO_DEVICE.
mkdir -p "$stubs"
cat >"$stubs/cuda.c" <<'C'
int cuCtxSetCurrent(void *context) { return 100; }
int cuDeviceGetPCIBusId(char *text, int length, int device) { return 100; }
int cuPointerGetAttributes(unsigned count, int *names, void **data, unsigned long long pointer) { return 100; }
C
cat >"$stubs/cudart.c" <<'C'
const char *cudaGetErrorString(int error) { return "there is no device"; }
int cudaSetDevice(int device) { return 100; }
C
echo 'libcudart.so.12 { global: *; };' >"$stubs/cudart.map"
"${CC:-cc}" -shared -fPIC -o "$stubs/libcuda.so.1" "$stubs/cuda.c" -Wl,-soname,libcuda.so.1
"${CC:-cc}" -shared -fPIC -o "$stubs/libcudart.so.12" "$stubs/cudart.c" \
    -Wl,-soname,libcudart.so.12,--version-script="$stubs/cudart.map"

plugin=$packages/nixl_cu12.libs/nixl/libplugin_LIBFABRIC.so
[ -e "$plugin" ] || fail "the wheel has no libfabric plug-in"
readelf -V "$plugin" | grep -q 'Name: FABRIC_1\.10 ' || fail "the plug-in does not ask for FABRIC_1.10: this check shows nothing"

export LD_LIBRARY_PATH=$library:$stubs PYTHONPATH=$packages FI_TCP_IFACE=lo FI_SOCKETS_IFACE=lo
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for provider in tcp sockets; do
    FI_PROVIDER=$provider limited 120 "NIXL over $provider" "$python" "$here/agents.py" >"$log" 2>&1 ||
        { tail -n 40 "$log"; fail "NIXL over $provider"; }
    used=$(sed -n 's|^\(/[^ ]*\) .*|\1|p' "$log")
    [ "$(realpath "$used")" = "$(realpath "$library/libfabric.so.1")" ] || fail "NIXL took ${used:-no libfabric}"
    echo "NIXL ${wheel#*==} over $provider: $(sed -n 's|^/[^ ]* ||p' "$log")"
done
