#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# run.sh FOLDER: the packages in FOLDER replace Debian's on a machine that has them, and are replaced by Debian's again.
# The machine is a fresh root, which debootstrap makes once; Debian's mirror must be reachable. Four minutes; two of
# them for the first root, which stays beside FOLDER.
#
# The library of each program is read from /proc/self/maps of an MPI program that was built against Debian's MPI, and of
# fi_pingpong.
set -euo pipefail
. "$(dirname "$0")/../../scripts/steps.sh"
packages=$(realpath "${1:?usage: run.sh FOLDER}")

if [ -z "${IN_NAMESPACE:-}" ]; then
    ls "$packages"/ironfabric-libfabric1_*.deb >/dev/null || fail "there are no packages in $packages"
    [ "$(id -u)" -eq 0 ] || skip "only root can make a root file system"
    command -v apt-get >/dev/null || skip "this is not a Debian"
    command -v lintian >/dev/null || install_packages lintian || skip "there is no lintian"
    say "lintian"
    lintian --fail-on error --allow-root --suppress-tags no-manual-page "$packages"/*.changes || fail "lintian finds errors"
    [ "$FETCH" != 0 ] || skip "INSTALL=0: Debian's packages come from its mirror"
    command -v debootstrap >/dev/null || install_packages debootstrap || skip "there is no debootstrap"
    unshare --mount --pid --net --fork true 2>/dev/null || skip "no namespaces may be made here"
    # All processes and mounts end with the namespaces.
    IN_NAMESPACE=1 exec unshare --mount --pid --fork --kill-child "$0" "$packages"
fi

base=$(dirname "$packages")/debian-root.tar
root=$(mktemp -d -p "$(dirname "$packages")" deb-root.XXXXXX)
trap 'umount "$root"/{proc,sys,tmp,dev/shm} 2>/dev/null || true; rm -rf --one-file-system "$root"' EXIT
codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
mirror=$(apt-get indextargets --format '$(SITE) $(CODENAME)' | awk -v name="$codename" '$2 == name { print $1; exit }')
log=$(dirname "$packages")/deb-root.log
: >"$log"

if [ ! -e "$base" ]; then
    say "A root of Debian $codename with Open MPI and libfabric, from $mirror (once)"
    limited 600 debootstrap debootstrap --variant=minbase "$codename" "$root" "$mirror" >>"$log" 2>&1 ||
        { tail -n 5 "$log"; skip "debootstrap does not get through to $mirror"; }
    fresh=1
else
    tar -C "$root" -xf "$base"
    fresh=
fi
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/tmp"
mount -t sysfs -o ro sysfs "$root/sys"
mkdir -p "$root/dev/shm" && mount -t tmpfs tmpfs "$root/dev/shm"
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
inside() { chroot "$root" env -u LD_LIBRARY_PATH -u LD_PRELOAD PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"; }
apt() { # WHAT APT-GET'S ARGUMENTS
    local what=$1
    shift
    echo "   apt-get $*"
    limited 300 "$what" chroot "$root" apt-get -q -y -o APT::Install-Recommends=0 "$@" >>"$log" 2>&1 ||
        { tail -n 30 "$log"; fail "$what"; }
}
if [ -n "$fresh" ]; then
    apt "Debian's Open MPI" install openmpi-bin libfabric1 libfabric-bin
    (cd "$root/opt" && inside sh -c 'cd /opt && apt-get -q download libopenmpi-dev' >>"$log" 2>&1) || fail "libopenmpi-dev"
    tar -C "$root" --one-file-system -cf "$base.new" . && mv "$base.new" "$base"
fi
dpkg-deb -x "$root"/opt/libopenmpi-dev_*.deb "$root/opt/mpi"
"${CC:-cc}" -Wall -Werror -o "$root/opt/ring" "$(dirname "$0")/ring.c" \
    -I"$root/opt/mpi/usr/lib/$(uname -m)-linux-gnu/openmpi/include" "$root"/usr/lib/*/libmpi.so.40 -Wl,--unresolved-symbols=ignore-in-shared-libs || fail "the MPI program does not build"

# Programs there have a network of their own, without other programs.
alone() {
    unshare --net sh -c 'ip link set lo up && ip link add one type veth peer name other && ip link set other up &&
        ip addr add 10.77.0.1/24 dev one && ip link set one up && exec "$@"' sh chroot "$root" "$@"
}

ring() { # PART OF THE LIBRARY'S PATH
    local said
    said=$(alone timeout 60 env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 FI_PROVIDER=tcp mpirun -n 2 \
        --oversubscribe --mca plm isolated --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include tcp /opt/ring 2>&1) ||
        { echo "$said"; fail "the MPI program does not run"; }
    [[ $said == *"value 2000"* ]] || { echo "$said"; fail "the MPI program has a wrong value"; }
    [ "$(grep -c "has .*/$1" <<<"$said")" = 2 ] || { echo "$said"; fail "the MPI program is not on $1"; }
    echo "   Debian's Open MPI, 2 ranks on mtl ofi: on $1"
}

pingpong() { # PART OF THE LIBRARY'S PATH
    alone timeout 60 sh -c '
        fi_pingpong -p tcp -e rdm -S 1024 -I 10000 >/tmp/server 2>&1 &
        { for try in $(seq 100); do fi_pingpong -p tcp -e rdm -S 1024 -I 10000 127.0.0.1 && break; sleep 0.1; done; } \
            >/tmp/client 2>&1 &
        for try in $(seq 200); do
            grep -h "r-xp.*/libfabric.so" /proc/[0-9]*/maps && break
            sleep 0.02
        done >/tmp/seen 2>/dev/null
        wait' || { cat "$root/tmp/client"; fail "fi_pingpong does not run"; }
    grep -q '^1k ' "$root/tmp/client" || { cat "$root"/tmp/{client,server}; fail "fi_pingpong does not run"; }
    grep -q "/$1" "$root/tmp/seen" || { cat "$root/tmp/seen"; fail "fi_pingpong is not on $1"; }
    echo "   fi_pingpong of $(inside dpkg -S /usr/bin/fi_pingpong | cut -d: -f1): on $1"
}

installed() {
    inside dpkg-query -W -f '${Package} ${Version} ${db:Status-Abbrev}\n' '*fabric*' 'libopenmpi*' 2>/dev/null |
        grep ' ii' | sort
}

theirs=$(basename "$(inside realpath /usr/lib/"$(uname -m)"-linux-gnu/libfabric.so.1)")
ours=libfabric.so.$(releases 4 default)
cp "$packages"/*.deb "$root/tmp/"

say "As Debian has it"
[ "$theirs" != "$ours" ] || fail "the fresh root has $ours"
ring "$theirs"
pingpong "$theirs"
installed >"$root/opt/before"

say "The library alone"
apt "the library" install "$(cd "$root" && ls -1 tmp/ironfabric-libfabric1_*.deb | sed 's|^|/|')"
ring $ours
pingpong $ours

say "All packages"
apt "all packages" install $(cd "$root" && ls -1 tmp/*.deb | sed 's|^|/|')
ring $ours
pingpong $ours
inside fi_info --version
[ "$(inside dpkg -S /usr/bin/fi_info)" = "ironfabric-libfabric-bin: /usr/bin/fi_info" ] || fail "fi_info is Debian's still"
inside dpkg -V ironfabric-libfabric1 ironfabric-libfabric-dev ironfabric-libfabric-bin || fail "installed files differ"
inside apt-get -q check >>"$log" || fail "apt finds broken dependencies"
inside dpkg-query -W openmpi-bin >/dev/null || fail "Open MPI is gone"

say "Back to Debian's"
apt "back" install libfabric1 libfabric-bin
ring "$theirs"
pingpong "$theirs"
apt "purge" purge 'ironfabric-*'
installed |
    diff "$root/opt/before" - || fail "the packages are not those from before"
left=$(cd "$root" && find usr etc -xdev -name '*ironfabric*' -o -name "$ours")
[ -z "$left" ] || fail "left behind: $left"
inside dpkg -V libfabric1 libfabric-bin || fail "Debian's files differ"
echo "Debian's Open MPI and fi_pingpong ran on Debian's library, on ours, and on Debian's again"
