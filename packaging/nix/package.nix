# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# The library, its programs, headers and manual, from the checkout that contains this file.
{ lib, stdenv, rustPlatform, cargo, rustc, lld, pandoc, util-linux }:

let
  root = ../..;
  manifest = builtins.fromTOML (builtins.readFile (root + "/Cargo.toml"));
in
stdenv.mkDerivation {
  pname = "ironfabric";
  inherit (manifest.package.metadata.ironfabric) version;

  src = lib.cleanSourceWith {
    src = root;
    filter = path: type: baseNameOf path != "target" && lib.cleanSourceFilter path type;
  };

  # All crates are from crates.io, so Cargo.lock has their checksums.
  cargoDeps = rustPlatform.importCargoLock { lockFile = root + "/Cargo.lock"; };

  strictDeps = true;
  nativeBuildInputs = [
    rustPlatform.cargoSetupHook
    cargo
    rustc
    # The linker gets a second version script, which only lld accepts.
    lld
    pandoc
    # flock(1)
    util-linux
  ];

  postPatch = ''
    patchShebangs scripts
  '';

  # Both targets run cargo in the same folder.
  enableParallelBuilding = false;
  buildFlags = [
    "all"
    "plugin"
  ];
  # `install` would ask cargo for a second build.
  installTargets = [ "install-built" ];
  makeFlags = [
    "PREFIX=${placeholder "out"}"
    "SYSCONFDIR=/etc"
  ];

  doInstallCheck = true;
  installCheckPhase = ''
    runHook preInstallCheck
    $out/bin/fi_info --version | grep "libfabric api: "
    $out/bin/fi_info -p tcp | grep "provider: tcp"
    runHook postInstallCheck
  '';

  meta = {
    description = "A libfabric.so.1 written in Rust";
    license = with lib.licenses; [
      bsd2
      gpl2Only
    ];
    mainProgram = "fi_info";
    platforms = [
      "x86_64-linux"
      "aarch64-linux"
    ];
  };
}
