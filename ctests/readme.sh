#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# readme.sh RELEASE PLUGIN CACHE [README]: runs the command lines of README.md as a reader pastes them, on the build in
# RELEASE and PLUGIN. CACHE keeps Debian's packages.
#
# The lines run in an overlay of this machine's root file system without cargo and libfabric: once as it is, and once
# with Debian's libfabric-dev, whose headers are in the compiler's default folders. Each line must end with exit code 0.
# A program that a line runs or builds must have the expected library and headers. Lines that build or install packages
# are not run, but printed; those of make must name an existing target.
set -euo pipefail
. "$(dirname "$0")/../scripts/steps.sh"
usage="usage: readme.sh RELEASE PLUGIN CACHE [README]"
release=$(realpath "${1:?$usage}") plugin=$(realpath "${2:?$usage}") cache=$(realpath -m "${3:?$usage}")
readme=$(realpath "${4:-$ROOT/README.md}")

# Lines that are not run: a pattern, and the reason or the check that runs them. All other lines are run.
not_run=(
    'make( check)?$|builds the library'
    'make demo$|make check-demo'
    'make deb |make check-deb'
    'apt install libfabric1 |make check-deb'
    'make rpm$|make check-rpm'
    'make wheel |make check-wheel'
    'ironfabric run |make check-wheel'
)

if [ -z "${IN_NAMESPACE:-}" ]; then
    for file in "$release"/{libfabric.so.1,fi_info} "$plugin"/libexec/libironfabric-fi.so; do
        [ -e "$file" ] || fail "there is no $file"
    done
    need cc:gcc make pkg-config unshare:util-linux
    namespaces=(unshare --mount --pid --fork --kill-child)
    [ "$(id -u)" -eq 0 ] || namespaces+=(--map-root-user)
    "${namespaces[@]}" true 2>/dev/null || skip "no namespaces may be made here"
    # Debian's packages are unpacked below and not installed.
    if ! ls "$cache"/libfabric-dev_*.deb "$cache"/libfabric1_*.deb >/dev/null 2>&1 && [ "$FETCH" != 0 ] &&
        command -v apt-get >/dev/null && command -v dpkg >/dev/null; then
        mkdir -p "$cache"
        (cd "$cache" && limited 120 "apt-get download" apt-get -q download libfabric-dev libfabric1 >/dev/null 2>&1) ||
            rm -f "$cache"/*.deb
    fi
    scratch=$(mktemp -d)
    trap 'rm -rf --one-file-system "$scratch"' EXIT
    # All processes and mounts end with the namespaces.
    IN_NAMESPACE=$scratch "${namespaces[@]}" "$0" "$release" "$plugin" "$cache" "$readme" || exit
    ls "$cache"/libfabric-dev_*.deb >/dev/null 2>&1 || skip "NOT RUN with libfabric-dev: Debian's package cannot be had"
    exit
fi

PATH=$PATH:/usr/sbin:/sbin
scratch=$IN_NAMESPACE
mount -t tmpfs tmpfs "$scratch"

# The commands of indented blocks and of ``` blocks, one a line.
awk '/^```/ { fenced = !fenced; next } fenced || /^    [^ ]/ { sub(/^    /, ""); print }' "$readme" >"$scratch/lines"
[ "$(wc -l <"$scratch/lines")" -ge 10 ] || fail "README.md has hardly any commands"
# Calls of fi_info within the text.
grep -o '`fi_info [^`]*`' "$readme" | tr -d '`' | sort -u >"$scratch/inline"

# A copy of the root file system without cargo and libfabric, with the tree in /ironfabric.
make_root() { # FOLDER
    local root=$1/root
    mkdir -p "$1"/{changed,work,changed-tree,work-tree} "$root"
    mount -t overlay overlay -o "lowerdir=/,upperdir=$1/changed,workdir=$1/work" "$root" 2>/dev/null ||
        skip "there are no overlays of the root file system here"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs tmpfs "$root/tmp"
    # pandoc is missing because check-install tests the rendered manual.
    rm -rf "$root"/usr/{,local/}bin/{cargo,rustc,pandoc,fi_*,ironfabric} "$root/opt/ironfabric" \
        "$root"/usr/{,local/}include/rdma/{fabric.h,fi_*.h} \
        "$root"/usr/{,local/}{lib,lib64,lib/*}/{libfabric*.so*,libfabric.a,pkgconfig/libfabric*.pc}
    mkdir -p "$root/ironfabric"
    mount -t overlay overlay -o "lowerdir=$ROOT,upperdir=$1/changed-tree,workdir=$1/work-tree" "$root/ironfabric"
    mkdir -p "$root"/ironfabric/target/{release,plugin}
    mount --bind "$release" "$root/ironfabric/target/release"
    mount --bind "$plugin" "$root/ironfabric/target/plugin"
}

inside() { # ROOT COMMAND...
    local root=$1
    shift
    chroot "$root" env -i HOME=/tmp LC_ALL=C PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        FI_LOG_FAILURES=0 "$@"
}

# Prints the version of the headers, that of the library, and the library's file.
cat >"$scratch/program.c" <<'C'
#include <rdma/fabric.h>
#include <stdio.h>
#include <string.h>
int main(void)
{
    char line[4096];
    struct fi_info *hints = fi_allocinfo(), *info = NULL;
    if (!hints || !(hints->fabric_attr->prov_name = strdup("tcp")))
        return 1;
    if (fi_getinfo(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), NULL, NULL, 0, hints, &info))
        return 2;
    printf("headers %d.%d library %d.%d provider %s\n", FI_MAJOR_VERSION, FI_MINOR_VERSION, FI_MAJOR(fi_version()),
           FI_MINOR(fi_version()), info->fabric_attr->prov_name);
    fi_freeinfo(info);
    fi_freeinfo(hints);
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps))
        if (strstr(line, "r-xp") && strstr(line, "libfabric"))
            printf("file %s", strchr(line, '/'));
    return !maps;
}
C

# Builds the program without a path to a library, with a RUNPATH and with an RPATH, each into a folder of that name. The
# program is linked with Debian's library, or with this one if Debian's is absent.
build_programs() { # ROOT WITH
    local flags=(-Iinclude -Ltarget/release) name folder there
    [ "$2" = without ] || flags=()
    for name in plain runpath rpath; do
        mkdir -p "$1/programs/$name"
        # The folder of Debian's library.
        folder=$(find "$1"/usr/lib/*/ -maxdepth 1 -name libfabric.so.1 -printf '%h' -quit)
        folder=${folder#"$1"}
        case $name in
        plain) there=() ;;
        runpath) there=(-Wl,--enable-new-dtags "-Wl,-rpath,${folder:-/elsewhere}") ;;
        rpath) there=(-Wl,--disable-new-dtags "-Wl,-rpath,${folder:-/elsewhere}") ;;
        esac
        inside "$1" env -C /ironfabric cc -o "/programs/$name/program" /programs/program.c "${flags[@]}" -lfabric \
            -Wl,--unresolved-symbols=ignore-in-shared-libs "${there[@]}" >"$scratch/log" 2>&1 ||
            { cat "$scratch/log"; fail "the program does not build"; }
    done
}

# The line without its comment.
command_of() { sed 's/ *#.*//' <<<"$1"; }

reason() { # LINE: what runs it in place of this check; false if this check does
    local row
    for row in "${not_run[@]}"; do
        [[ ! $(command_of "$1") =~ ^${row%|*} ]] || { echo "${row##*|}"; return; }
    done
    return 1
}

# Writes the script that runs the lines in one shell, as a reader does. Between them are `begin` and `end`.
write_script() { # WITH
    local line why shown variants variant
    cat <<SH
default=$(default_set)
with=$1
SH
    cat <<'SH'
wrong() { exec >&3 2>&1; cat /tmp/said; echo "FAILED: README.md ($with libfabric-dev): $1: $line"; exit 1; }
begin() { line=$1; exec >/tmp/said 2>&1; }
has_target() { begin "$2"; make -n "$1"; [ $? = 0 ] || wrong "make has no target $1"; exec >&3 2>&1; }
end() { [ "$1" = 0 ] || wrong "exit code $1"; exec >&3 2>&1; echo "   ran: $line"; }
runs_on() { grep -q "^file $1/libfabric.so" /tmp/said || wrong "the program does not have the library of $1"; }
made_with() {
    grep -q "^headers $default library $default " /tmp/said || wrong "the headers or the library are not of $default"
}
exec 3>&1
cd /ironfabric
SH
    while IFS= read -r line; do
        if why=$(reason "$line"); then
            echo "not run: $(command_of "$line") ($why)" >&2
            [[ ! $line =~ ^make\ ([a-z]+) ]] || printf 'has_target %q %q\n' "${BASH_REMATCH[1]}" "$line"
            continue
        fi
        variants=(plain)
        case $line in
        LD_LIBRARY_PATH=*) variants+=(runpath) ;;
        LD_PRELOAD=*) variants+=(rpath) ;;
        esac
        [[ $line = *" program"* ]] || variants=(plain)
        for variant in "${variants[@]}"; do
            shown=$(command_of "$line")
            [ "$variant" = plain ] || shown+=" ($variant)"
            printf 'PATH=/programs/%s:${PATH#/programs/*:}\nbegin %q\n%s\nend $?\n' "$variant" "$shown" "$line"
            case " $line" in
            *\ LD_*\ program*) echo 'runs_on /ironfabric/target/release' ;;
            *\ cc\ *)
                printf '%s\n' 'begin "$line, then ./a.out"' ./a.out 'end $?' 'runs_on /opt/ironfabric/lib' made_with
                ;;
            esac
        done
    done <"$scratch/lines"
    echo 'PATH=/opt/ironfabric/bin:$PATH'
    while IFS= read -r line; do
        printf 'begin %q\n%s\nend $?\n' "$line" "$line"
    done <"$scratch/inline"
    echo 'touch /tmp/complete'
}

for with in without with; do
    if [ $with = with ] && ! ls "$cache"/libfabric-dev_*.deb >/dev/null 2>&1; then
        break
    fi
    say "$with libfabric-dev"
    root=$scratch/$with/root
    make_root "$scratch/$with"
    [ $with = without ] || for package in "$cache"/*.deb; do dpkg -x "$package" "$root"; done
    mkdir -p "$root/programs"
    cp "$scratch/program.c" "$root/programs/program.c"
    found=with
    inside "$root" sh -c 'echo "#include <rdma/fabric.h>" | cc -E - >/dev/null 2>&1' || found=without
    [ $found = $with ] || fail "the compiler's folders are $found a libfabric, and should be $with one"
    build_programs "$root" $with
    cp "$scratch/program.c" "$root/ironfabric/program.c"
    write_script $with >"$root/programs/lines.sh" 2>"$scratch/not-run"
    limited 100 "the lines of README.md" chroot "$root" env -i HOME=/tmp LC_ALL=C FI_LOG_FAILURES=0 \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin bash --norc /programs/lines.sh || exit 1
    [ -e "$root/tmp/complete" ] || fail "a line of README.md ends the shell"
done
sed 's/^/   /' "$scratch/not-run"
for row in "${not_run[@]}"; do
    while IFS= read -r line; do
        [[ ! $(command_of "$line") =~ ^${row%|*} ]] || continue 2
    done <"$scratch/lines"
    fail "README.md has no line like this, which ctests/readme.sh does not run: ${row%|*}"
done
echo "README.md: its lines work as pasted"
