#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""check.py [--install FOLDER]: the conda recipe is one that rattler-build takes; py-rattler-build of PyPI has to be there.

--install puts together and tests the package of what `make install PREFIX=FOLDER` has left, without conda's channels:
the recipe's requirements and its build are left out, all else is as it is.
"""

import argparse
import re
import shutil
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
RECIPE = HERE / "recipe"
PLATFORMS = ("linux-64", "linux-aarch64")
SKIPPED = 77


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--install", type=Path)
    args = parser.parse_args()
    try:
        import rattler_build
    except ImportError:
        print("NOT RUN: no rattler_build (pip install py-rattler-build)")
        sys.exit(SKIPPED)
    recipe = rattler_build.Stage0Recipe.from_file(RECIPE / "recipe.yaml")
    config = rattler_build.VariantConfig.from_file(RECIPE / "variants.yaml")
    variants = []
    for platform in PLATFORMS:
        target = rattler_build.PlatformConfig(target_platform=platform)
        rendered = recipe.render(config, rattler_build.RenderConfig(target))
        if len(rendered) != 1:
            sys.exit(f"{platform}: {len(rendered)} variants in place of one")
        variants += rendered
        compilers = rendered[0].recipe.requirements.to_dict()["build"]
        if not {f"gcc_{platform}", f"rust_{platform} >=1.90"} <= set(compilers):
            sys.exit(f"{platform}: the compilers are {compilers}")
    versions = {variant.recipe.package.version for variant in variants}
    cargo = (HERE.parent.parent / "Cargo.toml").read_text(encoding="utf-8")
    wanted = re.search(r'\[package\.metadata\.ironfabric\]\s*version = "(.*?)"', cargo).group(1)
    if versions != {wanted}:
        sys.exit(f"the recipe's version is {versions}, that of Cargo.toml {wanted}")
    print(f"one variant for each of {', '.join(PLATFORMS)}: {variants[0].recipe.package.name} {wanted}")
    if args.install:
        assemble(rattler_build, args.install.resolve())


def assemble(rattler_build, install):
    """The package, from files that are there."""
    with tempfile.TemporaryDirectory(prefix="conda-") as folder:
        copy, sources = Path(folder, "recipe"), Path(folder, "sources")
        shutil.copytree(RECIPE, copy)
        (sources / "LICENSES").mkdir(parents=True)
        for name in ("LICENSE", "NOTICES", "LICENSES/BSD-2-Clause.txt"):
            ours = HERE.parent.parent / name
            text = ours.read_text(encoding="utf-8") if ours.exists() else "a stand-in: the tree has none\n"
            (sources / name).write_text(text, encoding="utf-8")
        text = (copy / "recipe.yaml").read_text(encoding="utf-8")
        text = re.sub(r"(?s)\nrequirements:.*?\n(?=tests:)", "\n", text)
        text = re.sub(r"git: \.\./\.\./\.\.\n  tag: .*", f"path: {sources}", text)
        (copy / "recipe.yaml").write_text(text, encoding="utf-8")
        (copy / "build.sh").write_text(
            f'set -e\nmkdir -p "$PREFIX/opt"\ncp -a {install} "$PREFIX/opt/ironfabric"\n', encoding="utf-8"
        )
        results = rattler_build.Stage0Recipe.from_file(copy / "recipe.yaml").run_build(
            output_dir=Path(folder, "output"), channels=[]
        )
        for result in results:
            print(f"built {result.name} {result.version}: {[Path(path).name for path in result.packages]}")


if __name__ == "__main__":
    main()
