# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
from pathlib import Path

from spack_repo.builtin.build_systems.makefile import MakefilePackage

from spack.package import *

# This repository of packages is a folder of the project itself: the sources are around this file.
CHECKOUT = Path(__file__).resolve().parents[6]


class Ironfabric(MakefilePackage):
    """A libfabric.so.1 written in Rust: a drop-in replacement of libfabric 2.7 for programs that
    are built against it, with the providers tcp, shm, udp, sockets, ofi_rxm and ofi_rxd."""

    homepage = "https://ofiwg.github.io/libfabric/"
    git = f"file://{CHECKOUT}"

    license("BSD-2-Clause OR GPL-2.0-only")

    version("main", branch="main")
    # The tag of the checkout.
    version("0.9.0", tag="v0.9.0", preferred=True)

    variant("plugin", default=True, description="Providers for another libfabric")

    depends_on("c", type="build")
    depends_on("gmake", type="build")
    depends_on("rust@1.90:", type="build")
    # The linker gets a second version script, which only lld accepts.
    depends_on("llvm+lld", type="build")

    # A program that was built with libfabric can be given this library: concretizer:splice. A
    # package cannot be a provider of libfabric, which is no virtual package.
    can_splice("libfabric@:2.7", when="@0.9.0")
    can_splice("libfabric@:2.7", when="@main")

    conflicts("platform=darwin", msg="ironfabric needs Linux")
    conflicts("platform=windows", msg="ironfabric needs Linux")
    requires(
        "target=x86_64:",
        "target=aarch64:",
        policy="one_of",
        msg="ironfabric needs x86-64 or aarch64",
    )

    def setup_build_environment(self, env: EnvironmentModifications) -> None:
        # No settings of the user, and no files left in the home folder.
        env.set("CARGO_HOME", join_path(self.stage.path, "cargo-home"))
        env.unset("CARGO_TARGET_DIR")

    @property
    def build_targets(self):
        return ["all", "plugin"]

    @property
    def install_targets(self):
        return [f"PREFIX={self.prefix}", "install"]

    @run_after("install")
    def without_plugin(self):
        if self.spec.satisfies("~plugin"):
            remove_linked_tree(join_path(self.prefix.libexec, "ironfabric"))

    @property
    def libs(self):
        return find_libraries("libfabric", root=self.prefix, shared=True, recursive=True)

    def setup_dependent_run_environment(
        self, env: EnvironmentModifications, dependent_spec: Spec
    ) -> None:
        env.prepend_path("LD_LIBRARY_PATH", self.prefix.lib)

    def test_version(self):
        """fi_info starts, and takes the library of this package"""
        fi_info = which(self.prefix.bin.fi_info, required=True)
        out = fi_info("--version", output=str.split, error=str.split)
        assert "libfabric api: 2." in out

    def test_tcp(self):
        """tcp is offered"""
        fi_info = which(self.prefix.bin.fi_info, required=True)
        out = fi_info("-p", "tcp", output=str.split, error=str.split)
        assert "provider: tcp" in out
