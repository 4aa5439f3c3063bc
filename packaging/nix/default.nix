# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# nix-build packaging/nix
{ pkgs ? import <nixpkgs> { } }: pkgs.callPackage ./package.nix { }
