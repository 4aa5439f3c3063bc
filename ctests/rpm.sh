#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# rpm.sh FOLDER: the RPM packages below FOLDER have the expected content, provide the names that other packages require,
# can be installed in an empty root, run there and leave it empty. Whether a distribution's own packages accept them is
# not tested: there is no such distribution here.
set -euo pipefail
unset LD_LIBRARY_PATH LD_PRELOAD
. "$(dirname "$0")/../scripts/steps.sh"
folder=$(realpath "${1:?usage: rpm.sh FOLDER}")
command -v rpm >/dev/null || install_packages rpm || skip "there is no rpm"
mapfile -t packages < <(find "$folder/RPMS" -name '*.rpm' | sort)
[ ${#packages[@]} = 3 ] || fail "there are ${#packages[@]} packages, not the library, -devel and -doc"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
listed=$(rpm -qpl "${packages[@]}")
provided=$(rpm -qp --provides "${packages[@]}")

for file in /usr/lib64/libfabric.so.1 /usr/lib64/libfabric.so /usr/lib64/libfabric.a /usr/lib64/pkgconfig/libfabric.pc \
    /usr/bin/fi_info /usr/bin/fi_pingpong /usr/include/rdma/fabric.h /usr/libexec/ironfabric/libironfabric-fi.so \
    /usr/share/doc/ironfabric/NOTICES /usr/share/doc/ironfabric/LICENSE; do
    grep -qx "$file" <<<"$listed" || fail "no package has $file"
done
# Names that other packages require: the name, the file, and each node to which programs were linked.
version=$(rpm -qp --qf '%{VERSION}\n' "${packages[0]}")
abi=${version%%+*}
for what in "libfabric = $abi" "libfabric-devel = $abi" 'libfabric.so.1()(64bit)' 'pkgconfig(libfabric)' \
    'libfabric.so.1(FABRIC_1.'{0,1,2,3,4,5,6,7,8,9}')(64bit)'; do
    grep -qF "$what" <<<"$provided" || fail "nothing provides $what"
done

if command -v rpmlint >/dev/null || install_packages rpmlint; then
    rpmlint -c "$ROOT/packaging/rpmlint.toml" "${packages[@]}" >"$scratch/lint" 2>&1 ||
        { cat "$scratch/lint"; fail "rpmlint"; }
    tail -n 1 "$scratch/lint"
else
    echo "NOT CHECKED by rpmlint, which is not here"
fi

root=$scratch/root
mkdir "$root"
in_root() { rpm --root "$root" --nodeps "$@"; }
in_root -i --noscripts --ignorearch --force-debian "${packages[@]}" || fail "rpm -i"
LD_LIBRARY_PATH=$root/usr/lib64 "$root/usr/bin/fi_info" --version || fail "fi_info of the package does not run"
LD_LIBRARY_PATH=$root/usr/lib64 ldd "$root/usr/bin/fi_info" | grep -F "libfabric.so.1 => $root/usr/lib64/" >/dev/null ||
    fail "it takes another library"
LD_LIBRARY_PATH=$root/usr/lib64 "$root/usr/bin/fi_info" -p tcp | grep 'provider: tcp' >/dev/null || fail "there is no tcp"
in_root -V ironfabric-libfabric ironfabric-libfabric-devel ironfabric-libfabric-doc || fail "rpm -V: files differ"
in_root -e --noscripts ironfabric-libfabric ironfabric-libfabric-devel ironfabric-libfabric-doc || fail "rpm -e"
left=$(find "$root" ! -type d ! -path "$root/var/lib/rpm/*" ! -path "$root/root/.rpmdb/*")
[ -z "$left" ] || fail "left behind: $left"
echo "RPM packages $version: listed, installed into an empty root, run, removed"
