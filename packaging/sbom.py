# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""sbom.py ROOT: prints the components of the library and its programs as CycloneDX 1.5 in JSON.

The crates are those that cargo links for x86-64 Linux: without crates for build scripts, tests and other systems. Needs
cyclonedx-python-lib. SOURCE_DATE_EPOCH is the time in the document.
"""
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import uuid

from cyclonedx.model import ExternalReference, ExternalReferenceType, HashAlgorithm, HashType, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL

LIBRARY, PROGRAMS = "ironfabric-library", "tools"


def checksums(root):
    """The SHA-256 that Cargo.lock records, by name and version."""
    text = (root / "Cargo.lock").read_text()
    found = re.findall(r'name = "(.+)"\nversion = "(.+)"\nsource = .*\nchecksum = "(.+)"', text)
    return {(name, version): sha for name, version, sha in found}


def linked(metadata):
    """The crates that the library and its programs are linked from, each with the identifiers of what it depends on."""
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    macros = {p["id"] for p in metadata["packages"] if any("proc-macro" in target["kind"] for target in p["targets"])}
    todo = [package["id"] for package in metadata["packages"] if package["name"] in (LIBRARY, PROGRAMS)]
    found = {}
    while todo:
        crate = todo.pop()
        if crate not in found:
            needs = [dep["pkg"] for dep in nodes[crate]["deps"] if any(k["kind"] is None for k in dep["dep_kinds"])]
            found[crate] = [need for need in needs if need not in macros]
            todo += found[crate]
    return found


def component(package, hashes):
    """A crate as a component of CycloneDX."""
    name, version = package["name"], package["version"]
    registry = package["source"] is not None
    sha = hashes.get((name, version)) if registry else None
    links = [(ExternalReferenceType.VCS, package["repository"]), (ExternalReferenceType.WEBSITE, package["homepage"])]
    return Component(
        type=ComponentType.LIBRARY,
        name=name,
        version=version,
        bom_ref=f"registry+{name}@{version}" if registry else f"path+{name}@{version}",
        description=(package["description"] or "").strip() or None,
        # Old crates separate alternatives by a slash.
        licenses=[LicenseExpression(package["license"].replace("/", " OR "))] if package["license"] else [],
        purl=PackageURL("cargo", None, name, version) if registry else None,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=sha)] if sha else [],
        external_references=[ExternalReference(type=kind, url=XsUri(url)) for kind, url in links if url],
    )


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    metadata = json.loads(subprocess.run(
        ["cargo", "metadata", "--format-version=1", "--locked", "--filter-platform=x86_64-unknown-linux-gnu"],
        cwd=root, check=True, stdout=subprocess.PIPE).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    crates, hashes = linked(metadata), checksums(root)
    parts = {crate: component(packages[crate], hashes) for crate in crates}
    (library,) = [crate for crate in crates if packages[crate]["name"] == LIBRARY]
    # Scanners look for holes by name and version, and libfabric's are not those of this library.
    whole = parts[library]
    whole.name, whole.version = "ironfabric", packages[library]["metadata"]["ironfabric"]["version"]
    whole.description = f"libfabric.so.1 in Rust, with the ABI of libfabric {packages[library]['version']}"
    # The same tree gives the same document.
    made = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    lock = (root / "Cargo.lock").read_text()
    bom = Bom(serial_number=uuid.uuid5(uuid.NAMESPACE_OID, f"ironfabric {whole.version} {made} {lock}"))
    bom.metadata.timestamp, bom.metadata.component = made, whole
    bom.components = [part for part in parts.values() if part is not whole]
    for crate, needs in crates.items():
        bom.register_dependency(parts[crate], [parts[need] for need in needs])
    print(make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_5).output_as_string(indent=2))


if __name__ == "__main__":
    main()
