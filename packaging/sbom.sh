#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# sbom.sh [--check] FOLDER: writes the components of the library as CycloneDX JSON into FOLDER. --check: every crate
# that NOTICES names is listed, with its version, licence and checksum.
set -euo pipefail
. "$(dirname "$0")/../scripts/steps.sh"
check=
[ "${1:-}" != --check ] || { check=1; shift; }
folder=${1:?usage: sbom.sh [--check] FOLDER}
version=0.5.9

command -v cargo-cyclonedx >/dev/null || PATH=$folder/bin:$PATH
if ! command -v cargo-cyclonedx >/dev/null; then
    [ "$FETCH" != 0 ] || skip "INSTALL=0, and there is no cargo-cyclonedx"
    say "cargo install cargo-cyclonedx@$version, into $folder (some minutes, once)"
    limited 1500 "cargo install" cargo install --quiet --locked --root "$folder" --target-dir "$folder/build" \
        "cargo-cyclonedx@$version" || skip "there is no cargo-cyclonedx, and it cannot be installed"
    rm -rf "$folder/build"
fi
# The tool writes beside Cargo.toml; the tree stays clean.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r "$ROOT"/{Cargo.toml,Cargo.lock,build.rs,src} "$copy"
mkdir -p "$folder"
export SOURCE_DATE_EPOCH=$(git -C "$ROOT" log -1 --format=%ct)
(cd "$copy" && cargo cyclonedx --quiet --format json --spec-version 1.5 \
    --target x86_64-unknown-linux-gnu --no-build-deps --override-filename sbom)
# There is a file for each crate of the workspace; those of the library and of the programs name all others.
own=$(sed -n '/metadata.ironfabric/,/^version/s/^version = "\(.*\)"/\1/p' "$ROOT/Cargo.toml")
abi=$(sed -n '/^version = /{s/.*"\(.*\)"/\1/p;q}' "$ROOT/Cargo.toml")
python3 - "$copy"/sbom.json "$copy"/src/tools/sbom.json "$own" "$abi" >"$folder/ironfabric.cdx.json" <<'PY'
import json
import sys
bom, programs = (json.load(open(name)) for name in sys.argv[1:3])
# Scanners look for holes by name and version, and libfabric's are not those of this library.
whole = bom["metadata"]["component"]
whole["name"], whole["version"] = "ironfabric", sys.argv[3]
whole["description"] = f"libfabric.so.1 in Rust, with the ABI of libfabric {sys.argv[4]}"
for key in ("purl", "cpe"):
    whole.pop(key, None)
for key, name in (("components", "bom-ref"), ("dependencies", "ref")):
    known = {part[name] for part in bom[key]}
    bom[key] += [part for part in programs[key] if part[name] not in known]
json.dump(bom, sys.stdout, indent=2)
PY
[ -z "$check" ] || python3 - "$folder/ironfabric.cdx.json" "$ROOT/NOTICES" <<'PY'
import json
import sys
bom = json.load(open(sys.argv[1]))
assert bom["bomFormat"] == "CycloneDX", bom.get("bomFormat")
assert bom["metadata"]["component"]["name"] == "ironfabric", bom["metadata"]["component"]
# The crates of this project lie in its folder.
parts = {f"{part['name']} {part['version']}": part for part in bom["components"] if "path+file" not in part["bom-ref"]}
wanted = {line[2:].split(":")[0] for line in open(sys.argv[2]) if line.startswith("* ")}
faults = [f"the SBOM has no {name}" for name in sorted(wanted - set(parts))]
faults += [f"the SBOM has {name}, which is not linked" for name in sorted(set(parts) - wanted)]
for key in ("licenses", "hashes", "purl"):
    faults += [f"{name} has no {key}" for name, part in parts.items() if not part.get(key)]
sys.exit("\n".join(faults) or print(f"the SBOM has {len(parts)} crates"))
PY
echo "$folder/ironfabric.cdx.json"
