# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# Completion of the programs for fish: the options come from their --help, so that they cannot go stale.
function __ironfabric_options
    set -l program (commandline -opc)[1]
    $program --help 2>&1 | string match -rg '^\s*(--?[A-Za-z0-9][A-Za-z0-9_-]*)(?:, (--[a-z_-]+))?' | string match -- '-*'
end
for program in fi_info fi_pingpong fi_top fi_strerror fi_mon_sampler
    complete -c $program -n 'string match -q -- "-*" (commandline -ct)' -f -a '(__ironfabric_options)'
end
complete -c fi_info -s p -l provider -x -a '(fi_info -l 2>/dev/null | string match -rg "^(\S.*):\$")'
complete -c fi_info -s t -l ep_type -x -a 'msg dgram rdm'
complete -c fi_top -s s -l sort -x -a 'pid messages bytes wait'
