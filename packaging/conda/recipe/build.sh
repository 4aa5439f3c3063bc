#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# rattler-build calls this in the sources, with PREFIX as the environment into which to install.
set -euo pipefail
export CARGO_HOME=$PWD/.cargo-home
# The environment's own lib may contain another libfabric.
make install PREFIX="$PREFIX/opt/ironfabric"
