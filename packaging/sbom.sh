#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# sbom.sh [--check] FOLDER: writes the components of the library as CycloneDX JSON into FOLDER. --check: every crate
# that NOTICES names is listed, with its version, licence and checksum.
set -euo pipefail
. "$(dirname "$0")/../scripts/steps.sh"
check=
[ "${1:-}" != --check ] || { check=1; shift; }
folder=${1:?usage: sbom.sh [--check] FOLDER}
mkdir -p "$folder"

python=python3
"$python" -c 'import cyclonedx' 2>/dev/null || python=$folder/tool/bin/python
if ! "$python" -c 'import cyclonedx' 2>/dev/null; then
    [ "$FETCH" != 0 ] || skip "INSTALL=0, and Python has no cyclonedx-python-lib"
    say "pip install cyclonedx-python-lib, into $folder/tool"
    limited 120 "python3 -m venv" python3 -m venv "$folder/tool" || skip "python3 -m venv does not work here"
    limited 300 "pip install" "$python" -m pip install --quiet --disable-pip-version-check \
        cyclonedx-python-lib==11.12.0 || skip "there is no cyclonedx-python-lib, and PyPI is not within reach"
fi
export SOURCE_DATE_EPOCH=$(git -C "$ROOT" log -1 --format=%ct)
"$python" "$ROOT/packaging/sbom.py" "$ROOT" >"$folder/ironfabric.cdx.json"
[ -z "$check" ] || python3 - "$folder/ironfabric.cdx.json" "$ROOT/NOTICES" <<'PY'
import json
import sys
bom = json.load(open(sys.argv[1]))
assert bom["bomFormat"] == "CycloneDX", bom.get("bomFormat")
assert bom["metadata"]["component"]["name"] == "ironfabric", bom["metadata"]["component"]
# The crates of this project lie in its folder.
parts = {f"{part['name']} {part['version']}": part for part in bom["components"] if not part["bom-ref"].startswith("path+")}
wanted = {line[2:].split(":")[0] for line in open(sys.argv[2]) if line.startswith("* ")}
faults = [f"the SBOM has no {name}" for name in sorted(wanted - set(parts))]
faults += [f"the SBOM has {name}, which is not linked" for name in sorted(set(parts) - wanted)]
for key in ("licenses", "hashes", "purl"):
    faults += [f"{name} has no {key}" for name, part in parts.items() if not part.get(key)]
sys.exit("\n".join(faults) or print(f"the SBOM has {len(parts)} crates"))
PY
echo "$folder/ironfabric.cdx.json"
