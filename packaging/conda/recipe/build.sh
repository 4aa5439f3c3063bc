#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# Called by rattler-build in the sources, with PREFIX as the environment to install into.
set -euo pipefail
export CARGO_HOME=$PWD/.cargo-home
# Another libfabric may lie in the environment's own lib.
make install PREFIX="$PREFIX/opt/ironfabric"
