// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The FI_LNX_ variables.

use super::SOURCE;
use base::params::Kind;

base::params::variables! {
    /// The settings of the provider, read once.
    pub struct Params of SOURCE {
        /// The links that entries are made of: `links`.
        links: Option<String> = text(), "prov_links",
            "providers that lnx links, as in shm+tcp;ofi_rxm:eth0,eth1|shm; without it lnx has no entries (default: none)";
        /// Peers on this host are reached through the network, too.
        disable_shm: bool = flag(false), "disable_shm",
            "use the network for peers on the same host, too (default: no)";
        /// How a rail is selected: a prefix of `PER_PEER` or `PER_MSG`.
        selection: Option<String> = text(), "multi_rail_selection",
            "the rails of messages: PER_PEER, one for each peer; PER_MSG, the same for short messages, which keep their order, and \
             all rails for long ones (default: PER_MSG)";
        /// Messages from this size on go over all rails, with `PER_MSG`; 0: none.
        stripe_size: usize = size(256 << 10), "stripe_size",
            "bytes from which on a message goes over all rails that lead to its receiver, with PER_MSG (default: 262144; 0: none)";
        = elsewhere(Kind::Int), "stall_report",
            "milliseconds after which a receive that waits for a peer is logged; the providers below log sends (default: 0, never)";
        = ignored(Kind::Bool), "dump_stats",
            "accepted and ignored: print counters at the end";
    }
}

/// How the rail of a message is selected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Selection {
    PerPeer,
    PerMessage,
}

impl Params {
    pub fn read() -> Params {
        Params::given()
    }

    /// Bytes from which on a message goes over several rails; 0: none does.
    pub fn striped(&self) -> usize {
        match self.selection() {
            Some(Selection::PerMessage) => self.stripe_size,
            _ => 0,
        }
    }

    /// None if the variable names no policy. A prefix is enough; one of both names means `PER_MSG`, as upstream does.
    pub fn selection(&self) -> Option<Selection> {
        let Some(text) = self.selection.as_deref() else {
            return Some(Selection::PerMessage);
        };
        let begins = |name: &str| {
            let start = name.get(..text.len());
            start.is_some_and(|start| start.eq_ignore_ascii_case(text))
        };
        match (begins("PER_MSG"), begins("PER_PEER")) {
            (true, _) => Some(Selection::PerMessage),
            (false, true) => Some(Selection::PerPeer),
            (false, false) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_names_a_policy() {
        let of = |text: Option<&str>| {
            let params = Params {
                selection: text.map(str::to_owned),
                ..Params::default()
            };
            params.selection()
        };
        assert_eq!(of(None), Some(Selection::PerMessage));
        for text in ["PER_PEER", "per_p", "PER_PE"] {
            assert_eq!(of(Some(text)), Some(Selection::PerPeer), "{text}");
        }
        for text in ["", "P", "PER_", "PER_MSG", "per_m"] {
            assert_eq!(of(Some(text)), Some(Selection::PerMessage), "{text}");
        }
        for text in ["PER_PEERS", "RAIL", "é"] {
            assert_eq!(of(Some(text)), None, "{text}");
        }
    }
}
