# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# Completion of the programs for bash: the options come from their --help, so that they cannot go stale.

_ironfabric() {
	local program=$1 word=$2 before=$3 words
	case ${program##*/}:$before in
	fi_info:-p | fi_info:--provider | fi_pingpong:-p)
		words=$("$program" -l 2>/dev/null || fi_info -l 2>/dev/null)
		words=$(sed -n 's/^\([^ ].*\):$/\1/p' <<<"$words")
		;;
	fi_info:-t | fi_info:--ep_type | fi_pingpong:-e) words="msg dgram rdm" ;;
	fi_info:-d | fi_info:--domain | fi_pingpong:-d)
		words=$(fi_info 2>/dev/null | sed -n 's/^ *domain: //p' | sort -u)
		;;
	fi_info:-g | fi_info:--getenv) words=$(fi_info -e 2>/dev/null | sed -n 's/^# \(FI_[A-Z0-9_]*\): .*/\1/p') ;;
	fi_top:-s | fi_top:--sort) words="pid messages bytes wait" ;;
	fi_top:-p | fi_top:--pid | fi_top:--dump) words=$(fi_top -1 2>/dev/null | awk 'NR > 1 { print $1 }' | sort -u) ;;
	*) words=$("$program" --help 2>&1 | grep -oE '(^|[ ,])--?[A-Za-z0-9][A-Za-z0-9_-]*' | tr -d ' ,') ;;
	esac
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}

complete -F _ironfabric fi_info fi_pingpong fi_top fi_strerror fi_mon_sampler
