#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# launcher.sh [OPTION...] ADDRESS COMMAND...: replaces ssh for Hydra: the command runs on the host of that address.
while [ "${1#-}" != "$1" ]; do shift; done
host=h$((${1##*.} - 1))
shift
exec ip netns exec "$host" sh -c "$*"
