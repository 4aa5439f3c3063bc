// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Names of providers in the variable FI_PROVIDER, fabric(7), and in `prov_name` of hints, fi_fabric(3).
//!
//! A name is that of a core provider, or of a layering one and its core, joined by `;`. Letter case does not matter,
//! spaces do.

/// FI_PROVIDER: a list `a,b` of names, or `^a,b` for all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    negated: bool,
    names: Vec<String>,
}

impl Allowed {
    /// Parses the text of the variable; `None` if it is not set, which allows all.
    pub fn parse(text: Option<&str>) -> Allowed {
        let (negated, list) = match text.map(|text| (text.strip_prefix('^'), text)) {
            None => return Allowed::all(),
            Some((Some(rest), _)) => (true, rest),
            Some((None, text)) => (false, text),
        };
        let names = list.split(',').filter(|name| !name.is_empty());
        Allowed {
            negated,
            names: names.map(str::to_owned).collect(),
        }
    }

    fn all() -> Allowed {
        Allowed {
            negated: true,
            names: Vec::new(),
        }
    }

    /// Whether a result may be returned that this core provider takes part in.
    pub fn part(&self, name: &str) -> bool {
        let first = |listed: &String| {
            let first = listed.split(SEPARATOR).next();
            first.is_some_and(|first| first.eq_ignore_ascii_case(name))
        };
        match self.negated {
            true => !self.excludes(name),
            false => self.names.iter().any(first),
        }
    }

    /// Returns whether a result with this complete name may be given. A listed name covers everything layered upon it;
    /// the name of a layering provider in a negated list excludes that layer over every core provider.
    pub fn result(&self, name: &str) -> bool {
        let listed = self.names.iter().any(|listed| is_or_begins(name, listed));
        self.negated != listed && !name.split(SEPARATOR).any(|part| self.excludes(part))
    }

    /// Whether the list asks for this provider by its name.
    pub fn names(&self, name: &str) -> bool {
        !self.negated && contains(&self.names, name)
    }

    /// Returns whether a negated list has this provider by itself, so that no result may contain it.
    pub fn excludes(&self, name: &str) -> bool {
        self.negated && contains(&self.names, name)
    }
}

/// Returns a warning about a list that is probably a mistake: unknown names, or none of the existing providers left.
pub fn complaint(text: &str, there: &[&str]) -> Option<String> {
    let allowed = Allowed::parse(Some(text));
    let is_known = |name: &str| {
        let known = [there, ELSEWHERE].into_iter().flatten();
        name.starts_with(HOOKS)
            || known
                .into_iter()
                .any(|known| known.eq_ignore_ascii_case(name))
    };
    let parts = allowed.names.iter().flat_map(|name| name.split(SEPARATOR));
    let unknown: Vec<String> = parts
        .filter(|name| !is_known(name))
        .map(|name| format!("{name:?}"))
        .collect();
    let there_are = there.join(", ");
    if !unknown.is_empty() {
        let unknown = unknown.join(", ");
        return Some(format!(
            "FI_PROVIDER={text:?}: no provider is called {unknown}; there are {there_are}"
        ));
    }
    let (layers, cores): (Vec<&str>, Vec<&str>) = there.iter().partition(|name| is_utility(name));
    let layered = |layer: &&str| {
        let mut names = cores.iter().map(|core| format!("{core}{SEPARATOR}{layer}"));
        names.any(|name| allowed.result(&name))
    };
    let leaves_none = !cores.iter().any(|name| allowed.result(name)) && !layers.iter().any(layered);
    leaves_none.then(|| format!("FI_PROVIDER={text:?} leaves none of {there_are}"))
}

/// Providers of other libfabrics: naming them is not a mistake.
const ELSEWHERE: &[&str] = &[
    "bgq",
    "coll",
    "cxi",
    "efa",
    "efa-direct",
    "gni",
    "lnx",
    "lpp",
    "mlx",
    "netdir",
    "ofi_coll",
    "ofi_mrail",
    "ofi_rxd",
    "ofi_rxm",
    "off_coll",
    "opx",
    "psm",
    "psm2",
    "psm3",
    "rstream",
    "rxd",
    "rxm",
    "sockets",
    "ucx",
    "usnic",
    "verbs",
    "xnet",
];
const HOOKS: &str = "ofi_hook_";

/// Whether `name` equals `listed`, or is `listed` with something layered upon it.
fn is_or_begins(name: &str, listed: &str) -> bool {
    match name.split_at_checked(listed.len()) {
        Some((start, rest)) => {
            start.eq_ignore_ascii_case(listed) && (rest.is_empty() || rest.starts_with(SEPARATOR))
        }
        None => false,
    }
}

/// `prov_name` of hints: names to be layered, then excluded names with `^`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Empty: any name.
    names: Vec<String>,
    excluded: Vec<String>,
}

impl Wanted {
    pub fn parse(text: Option<&str>) -> Wanted {
        let Some(text) = text else {
            return Wanted::default();
        };
        let mut names: Vec<&str> = text.split(SEPARATOR).collect();
        let mut excluded = Vec::new();
        while let Some(name) = names.last().and_then(|name| name.strip_prefix('^')) {
            excluded.push(name.to_owned());
            names.pop();
        }
        Wanted {
            names: names.into_iter().map(str::to_owned).collect(),
            excluded,
        }
    }

    /// Whether this core provider may answer by itself. Of several names the last counts. However, the name of a
    /// utility provider requests that layer at any position (fi_fabric(3), prov_name), and a core provider alone is no
    /// layer.
    pub fn core(&self, name: &str) -> bool {
        if self.names.iter().any(|name| is_utility(name)) {
            return false;
        }
        let wanted = self
            .names
            .last()
            .is_none_or(|last| last.eq_ignore_ascii_case(name));
        wanted && !contains(&self.excluded, name)
    }

    /// Whether this name is among the requested ones.
    pub fn names(&self, name: &str) -> bool {
        contains(&self.names, name)
    }

    /// Whether any name is requested.
    pub fn is_any(&self) -> bool {
        self.names.is_empty()
    }

    /// Whether this utility provider may answer. `is_uppermost` returns whether nothing may be layered upon a core
    /// provider unless both are named.
    pub fn utility(&self, layer: &str, is_uppermost: impl Fn(&str) -> bool) -> bool {
        let own = |name: &String| name.eq_ignore_ascii_case(layer);
        let wanted = match &self.names[..] {
            [] => true,
            [one] if !is_utility(one) => !is_uppermost(one),
            [first, second] if is_utility(first) && !is_utility(second) => own(first),
            names => names.last().is_some_and(own),
        };
        wanted && !contains(&self.excluded, layer)
    }

    /// Whether this layering provider may be used over `core`. The hints may have either name alone, or both in any
    /// order.
    pub fn layered(&self, layer: &str, core: &str) -> bool {
        let wanted = match self.names.len() {
            0 => true,
            1 => contains(&self.names, layer) || contains(&self.names, core),
            2 => contains(&self.names, layer) && contains(&self.names, core),
            _ => false,
        };
        wanted && !contains(&self.excluded, layer) && !contains(&self.excluded, core)
    }
}

/// Whether the name has the prefix of utility providers (fi_provider(7)).
fn is_utility(name: &str) -> bool {
    let prefix = name.get(..UTILITY.len());
    prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case(UTILITY))
}

fn contains(names: &[String], wanted: &str) -> bool {
    names.iter().any(|name| name.eq_ignore_ascii_case(wanted))
}

const SEPARATOR: char = ';';
const UTILITY: &str = "ofi_";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_lists_what_may_be_used() {
        let cases: &[(Option<&str>, &[&str], &[&str])] = &[
            (None, &["tcp", "tcp;ofi_rxm", "udp"], &[]),
            (Some("tcp"), &["tcp", "tcp;ofi_rxm"], &["udp", "tcpx"]),
            (Some("TCP"), &["tcp", "tcp;ofi_rxm"], &["udp"]),
            (Some("tcp;ofi_rxm"), &["tcp;ofi_rxm"], &["tcp", "udp"]),
            (Some("ofi_rxm"), &[], &["tcp", "tcp;ofi_rxm"]),
            (Some("ofi_rxm;tcp"), &[], &["tcp", "tcp;ofi_rxm"]),
            (Some("tcp,udp"), &["tcp", "udp;ofi_rxd", "udp"], &["shm"]),
            (Some("udp;ofi_rxd,tcp"), &["udp;ofi_rxd", "tcp"], &["udp"]),
            (Some("^tcp"), &["udp", "shm"], &["tcp", "tcp;ofi_rxm"]),
            (Some("^tcp;ofi_rxm"), &["tcp", "udp"], &["tcp;ofi_rxm"]),
            (Some("^tcp,udp"), &["shm"], &["tcp", "udp;ofi_rxd", "udp"]),
            (
                Some("^Ofi_Rxm"),
                &["tcp", "udp;ofi_rxd"],
                &["tcp;ofi_rxm", "sockets;ofi_rxm", "verbs;ofi_rxm;ofi_uu"],
            ),
            (
                Some("^ofi_rxm,ofi_rxd"),
                &["tcp", "udp"],
                &["tcp;ofi_rxm", "udp;ofi_rxd"],
            ),
            (
                Some("^tcp;ofi_rxm,ofi_rxd"),
                &["sockets;ofi_rxm"],
                &["tcp;ofi_rxm", "udp;ofi_rxd"],
            ),
            (Some("^ofi_rxm;tcp"), &["tcp;ofi_rxm"], &[]),
            (Some(""), &[], &["tcp", "udp"]),
            (Some(" tcp"), &[], &["tcp"]),
            (Some("tcp;"), &[], &["tcp"]),
        ];
        for (text, yes, no) in cases {
            let allowed = Allowed::parse(*text);
            assert!(yes.iter().all(|name| allowed.result(name)), "{text:?}");
            assert!(!no.iter().any(|name| allowed.result(name)), "{text:?}");
        }
    }

    #[test]
    fn a_list_that_cannot_be_meant_is_told() {
        let said = |text| complaint(text, &["shm", "tcp", "sm2"]);
        let layered = |text| complaint(text, &["ofi_rxm", "tcp"]);
        assert_eq!(layered("tcp;ofi_rxm"), None);
        for none in ["ofi_rxm", "ofi_rxm;tcp", "verbs;ofi_rxm"] {
            assert!(layered(none).unwrap().contains("leaves none"), "{none}");
        }
        for fine in [
            "tcp",
            "TCP",
            "tcp;ofi_rxm,shm",
            "verbs,tcp",
            "^efa,psm3",
            "^verbs;ofi_rxm",
            "^",
            "ofi_hook_perf,shm",
        ] {
            assert_eq!(said(fine), None, "{fine}");
        }
        for wrong in ["tpc", "shm,tpc", "^tpc", "tpc;ofi_rxm", " tcp", "tcp;rxn"] {
            let said = said(wrong).unwrap();
            assert!(said.contains("no provider is called"), "{said}");
            assert!(said.ends_with("there are shm, tcp, sm2"), "{said}");
        }
        for none in ["", "verbs", "tcp;ofi_rxm", "ofi_rxm;tcp", "^shm,tcp,sm2"] {
            let said = said(none).unwrap();
            assert!(said.contains("leaves none"), "{said}");
        }
    }

    #[test]
    fn hints_name_the_provider() {
        for text in [
            "tcp",
            "TCP",
            "tcp;^ofi_rxm",
            "Tcp;^Ofi_Rxm",
            "^ofi_rxm",
            "^ofi_rxm;^ofi_rxd",
            ";tcp",
            "zork;tcp",
            "^tcp;tcp",
            "tcp;^zork",
        ] {
            assert!(Wanted::parse(Some(text)).core("tcp"), "{text}");
        }
        for text in [
            "",
            "tcp;",
            "tcp,udp",
            " tcp",
            "tcp ",
            "tc",
            "tcpx",
            "udp",
            "ofi_rxm",
            "tcp;ofi_rxm",
            "ofi_rxm;tcp",
            "Ofi_Rxm;tcp",
            "ofi_rxm;zork;tcp",
            "ofi_rxm;tcp;^udp",
            "tcp;^tcp",
            "^tcp",
            "^TCP",
            "zork",
            ";",
        ] {
            assert!(!Wanted::parse(Some(text)).core("tcp"), "{text}");
        }
        assert!(Wanted::parse(None).core("tcp"));
    }

    #[test]
    fn a_layering_provider_needs_both_names() {
        for text in ["tcp", "ofi_rxm", "tcp;ofi_rxm", "ofi_rxm;tcp", "^udp"] {
            assert!(
                Wanted::parse(Some(text)).layered("ofi_rxm", "tcp"),
                "{text}"
            );
        }
        for text in [
            "udp",
            "^tcp",
            "tcp;^ofi_rxm",
            "^ofi_rxm",
            "tcp;ofi_rxd",
            "udp;ofi_rxm",
            "tcp;",
        ] {
            assert!(
                !Wanted::parse(Some(text)).layered("ofi_rxm", "tcp"),
                "{text}"
            );
        }
    }

    #[test]
    fn utility_providers_are_asked_for_what_they_may_lie_upon() {
        let asked = |text| Wanted::parse(text).utility("ofi_uu", |name| name == "shm");
        for text in [
            "tcp",
            "ofi_uu",
            "tcp;ofi_uu",
            "ofi_uu;tcp",
            "OFI_UU",
            "zork",
            "a;b;ofi_uu",
            "^tcp",
        ] {
            assert!(asked(Some(text)), "{text}");
        }
        for text in [
            "shm",
            "ofi_rxm",
            "tcp;ofi_rxm",
            "ofi_rxm;tcp",
            "tcp;^ofi_uu",
            "a;tcp",
        ] {
            assert!(!asked(Some(text)), "{text}");
        }
        assert!(asked(None));
    }

    #[test]
    fn the_variable_leaves_parts_of_names() {
        let part = |text, name| Allowed::parse(text).part(name);
        assert!(
            part(None, "efa") && part(Some("^tcp"), "efa") && part(Some("tcp,EFA;ofi_rxd"), "efa")
        );
        assert!(!part(Some("tcp"), "efa") && !part(Some("^efa"), "efa") && !part(Some(""), "efa"));
        assert!(part(Some("^tcp;ofi_rxm"), "tcp"));
    }
}
