#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# programs.sh FOLDER BUILD: programs of each header set on the libfabric.so.1 in FOLDER, and those of the older sets on
# their own upstream. The sets are those of src/abi/releases.tsv and that of Debian's package libfabric-dev. The
# programs are the C examples, which then request the API version of their headers, and one that declares the functions
# itself. UPSTREAM_2_6 is a folder with upstream's libfabric 2.6 (UPSTREAM_2_7 and so on for other sets); without it
# nothing runs there, and a line reports that. BUILD keeps Debian's packages, unpacked.
set -euo pipefail
. "$(dirname "$0")/../../scripts/steps.sh"
library=$(realpath "${1:?usage: programs.sh FOLDER BUILD}")
build=$(realpath -m "${2:?usage: programs.sh FOLDER BUILD}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
unset LD_LIBRARY_PATH
export FI_TCP_IFACE=lo
need cc:gcc

build_set() { # SET INCLUDE LINK-FOLDER
    mkdir "$folder/$1"
    local source version
    for source in "$ROOT"/examples/c/*.[ch]; do
        sed 's/FI_VERSION(2, 0)/FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION)/' "$source" >"$folder/$1/$(basename "$source")"
    done
    # The headers of an alpha name the version of the default release.
    version=$(echo 'FI_MAJOR_VERSION << 16 | FI_MINOR_VERSION' | "${CC:-cc}" -E -P -I "$2" -include rdma/fabric.h - | tail -n 1)
    cat >"$folder/$1/undeclared.c" <<C
#include <stdio.h>
#include <stddef.h>
struct fi_info;
int fi_getinfo(unsigned, const char *, const char *, unsigned long, const struct fi_info *, struct fi_info **);
struct fi_info *fi_dupinfo(const struct fi_info *);
void fi_freeinfo(struct fi_info *);
int main(void)
{
	struct fi_info *info = NULL, *copy;

	if (fi_getinfo($version, NULL, NULL, 0, NULL, &info))
		return 1;
	copy = fi_dupinfo(info);
	fi_freeinfo(info);
	fi_freeinfo(copy);
	return !copy || printf("undeclared: done\n") < 0;
}
C
    for source in "$folder/$1"/*.c; do
        "${CC:-cc}" -std=gnu11 -O1 -Wall -Wextra -I "$2" -o "${source%.c}" "$source" -L "$3" -lfabric ||
            fail "$(basename "$source") does not build with the $1 set"
    done
}

run_set() { # SET LIBRARY WHAT PROVIDER...
    local set=$1 on=$2 what=$3 program provider name runs=0
    shift 3
    [ -e "$on/libfabric.so.1" ] || fail "there is no libfabric.so.1 in $on"
    for program in "$folder/$set"/*.c; do
        name=$(basename "$program" .c)
        for provider; do
            local arguments=(-p "$provider")
            [ "$name" != undeclared ] || arguments=()
            # Servers need connected endpoints, which shm lacks.
            [ "$name $provider" != "server shm" ] || continue
            # No connection event arrives there within its 20 s.
            [ "$name $what" != "server Debian's 1.17" ] || continue
            LD_LIBRARY_PATH=$on limited 60 "$name" "${program%.c}" ${arguments[@]+"${arguments[@]}"} >"$folder/log" 2>&1 ||
                { cat "$folder/log"; fail "$name, built with the $set set, on $what over $provider"; }
            grep -q "^$name: " "$folder/log" || fail "$name, built with the $set set, on $what over $provider: no result"
            runs=$((runs + 1))
        done
    done
    echo "$set set on $what: $runs runs"
}

# Debian's headers and library, unpacked; nothing is installed.
debian() {
    [ -d "$build/debian" ] && return
    [ "$FETCH" != 0 ] && command -v apt-get >/dev/null && command -v dpkg >/dev/null || return 1
    (cd "$folder" && limited 120 "apt-get download" apt-get -q download libfabric-dev libfabric1) >"$folder/log" 2>&1 || return 1
    mkdir -p "$build"
    for package in "$folder"/*.deb; do
        dpkg -x "$package" "$folder/debian"
    done
    mv "$folder/debian" "$build/debian"
}

if debian; then
    folder_of_debian=$(dirname "$(find "$build/debian/usr/lib" -name libfabric.so.1)")
    version=$(sed -n 's/^Version: *\([0-9]*\.[0-9]*\).*/\1/p' "$folder_of_debian/pkgconfig/libfabric.pc")
    # Its library depends on others that only an installed package has.
    build_set "$version" "$build/debian/usr/include" "$folder_of_debian"
    run_set "$version" "$library" "this library" tcp shm
    if LD_LIBRARY_PATH=$folder_of_debian ldd "$folder/$version/undeclared" | grep -q 'not found'; then
        echo "NOT RUN programs of Debian's $version on Debian's library: libfabric1 is not installed"
    else
        run_set "$version" "$folder_of_debian" "Debian's $version" tcp
    fi
else
    echo "NOT RUN programs of Debian's libfabric-dev: the package cannot be had"
fi

for set in $(sets); do
    include=$library/include-$set link=$library/link-$set upstream=UPSTREAM_${set//./_}
    # Programs of the default set are linked with the library itself.
    [ "$set" != "$(default_set)" ] || { include=$ROOT/include link=$library; }
    build_set "$set" "$include" "$link"
    run_set "$set" "$library" "this library" tcp shm
    if [ -n "${!upstream:-}" ]; then
        run_set "$set" "${!upstream}" "upstream $set" tcp
    elif [ "$(releases 6 "$set")" = kept ]; then
        echo "NOT RUN programs of the $set set on upstream $set: $upstream names no folder with it"
    fi
done
