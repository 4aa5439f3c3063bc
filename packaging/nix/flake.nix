# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# nix build "git+file://$PWD?dir=packaging/nix&ref=refs/tags/v0.9.0"
{
  description = "A libfabric.so.1 written in Rust";

  # A release of nixpkgs with Rust 1.90 or newer.
  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-25.11";

  outputs =
    { nixpkgs, ... }:
    let
      package = system: nixpkgs.legacyPackages.${system}.callPackage ./package.nix { };
      each = nixpkgs.lib.genAttrs [
        "x86_64-linux"
        "aarch64-linux"
      ];
    in
    {
      packages = each (system: {
        default = package system;
      });
      # Every package of a set then has this library in the place of libfabric.
      overlays.default = final: _: { libfabric = final.callPackage ./package.nix { }; };
    };
}
