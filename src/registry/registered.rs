// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The list of providers, including loadable ones: its order, and which of several with the same name is used.
//! fi_provider(7).

use super::kind::{KNOWN, Kind};
use prov::Provider;

/// Providers on which no other provider is layered unless both are named.
const UPPERMOST: [&str; 6] = ["sockets", "shm", "efa", "psm3", "ucx", "cxi"];

/// A provider of the list.
pub struct Registered {
    pub provider: Box<dyn Provider>,
    pub kind: Kind,
    /// Whether another provider of the same name is used instead.
    pub hidden: bool,
    own: bool,
    preferred: bool,
}

impl Registered {
    /// Registers a loadable provider.
    pub fn plugin(provider: Box<dyn Provider>, preferred: bool) -> Registered {
        Registered {
            kind: kind_of(&*provider),
            provider,
            hidden: false,
            own: false,
            preferred,
        }
    }

    pub fn own(provider: Box<dyn Provider>) -> Registered {
        Registered {
            kind: kind_of(&*provider),
            provider,
            hidden: false,
            own: true,
            preferred: false,
        }
    }

    pub fn name(&self) -> String {
        let name = self.provider.source().name();
        name.to_string_lossy().into_owned()
    }

    pub fn is_called(&self, name: &str) -> bool {
        self.name().eq_ignore_ascii_case(name)
    }

    pub fn is_uppermost(&self) -> bool {
        self.kind != Kind::Core || UPPERMOST.iter().any(|name| self.is_called(name))
    }

    pub fn is_own(&self) -> bool {
        self.own
    }

    fn rank(&self) -> usize {
        // The entries of a link come behind those of its providers, wherever these are.
        if self.kind == Kind::Link {
            return usize::MAX;
        }
        let known = KNOWN.iter().position(|name| self.is_called(name));
        known.unwrap_or(KNOWN.len() + usize::from(self.own))
    }

    /// Whether this provider replaces `before`, which was registered first. Unlike upstream, this library's provider
    /// wins if the versions are equal.
    fn replaces(&self, before: &Registered, by_discovery: bool) -> bool {
        if before.preferred {
            return false;
        }
        // A loadable provider shares its records with the offload provider of its library.
        if self.kind == Kind::Offload && self.own != before.own {
            return before.own;
        }
        let (version, other) = (self.provider.version(), before.provider.version());
        self.preferred || !by_discovery && (version > other || self.own && version == other)
    }
}

fn kind_of(provider: &dyn Provider) -> Kind {
    match provider.is_hook() {
        true => Kind::Hook,
        false => Kind::of(&provider.source().name().to_string_lossy()),
    }
}

/// Sorts the list: providers that register first come first in `registered`.
pub fn arrange(registered: Vec<Registered>, by_discovery: bool) -> Vec<Registered> {
    // Each name with its providers; the one that is used comes first.
    let mut names: Vec<Vec<Registered>> = Vec::new();
    for mut new in registered {
        let name = new.name();
        match names.iter_mut().find(|same| same[0].is_called(&name)) {
            None => names.push(vec![new]),
            Some(same) if new.replaces(&same[0], by_discovery) => {
                same[0].hidden = true;
                same.insert(0, new);
            }
            Some(same) => {
                new.hidden = true;
                same.push(new);
            }
        }
    }
    names.sort_by_key(|same| same[0].rank());
    names.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use core::ffi::c_void;
    use std::ffi::CStr;

    use super::*;
    use abi::fid_fabric;
    use base::info::{Answer, FabricAttr, Query};
    use base::log::Source;
    use base::{Error, Result};
    use prov::Below;

    struct Fake(&'static Source, u32);

    impl Provider for Fake {
        fn source(&self) -> &'static Source {
            self.0
        }
        fn version(&self) -> u32 {
            self.1
        }
        fn define_params(&self) {}
        fn offers(&self, _: &Query, _: &dyn Below) -> Answer {
            Answer::default()
        }
        fn open_fabric(
            &self,
            _: &FabricAttr,
            _: u32,
            _: u64,
            _: *mut c_void,
            _: &dyn Below,
        ) -> Result<*mut fid_fabric> {
            Err(Error::NOSYS)
        }
    }

    fn of(name: &'static CStr, version: u32) -> Registered {
        let source = Box::leak(Box::new(Source::new(name)));
        Registered::own(Box::new(Fake(source, version)))
    }

    fn plugin(name: &'static CStr, version: u32) -> Registered {
        Registered {
            own: false,
            ..of(name, version)
        }
    }

    fn preferred(name: &'static CStr, version: u32) -> Registered {
        Registered {
            preferred: true,
            ..plugin(name, version)
        }
    }

    /// Returns `name version` of each, hidden ones in brackets.
    fn shown(list: Vec<Registered>, by_discovery: bool) -> Vec<String> {
        let show = |one: &Registered| {
            let text = format!("{} {}", one.name(), one.provider.version());
            match one.hidden {
                true => format!("({text})"),
                false => text,
            }
        };
        arrange(list, by_discovery).iter().map(show).collect()
    }

    #[test]
    fn kinds_are_told_by_names() {
        assert_eq!(Kind::of("OFI_rxm"), Kind::Utility);
        assert_eq!(Kind::of("off_coll"), Kind::Offload);
        assert_eq!(Kind::of("lnx_x"), Kind::Link);
        assert_eq!(Kind::of("of"), Kind::Core);
        assert!(of(c"SHM", 1).is_uppermost() && !of(c"tcp", 1).is_uppermost());
    }

    #[test]
    fn known_names_have_their_places() {
        let list = vec![
            plugin(c"zz1", 1),
            plugin(c"ofi_hook_noop", 1),
            plugin(c"verbs", 1),
            plugin(c"aa2", 1),
            of(c"shm", 1),
            of(c"sm2", 1),
            of(c"tcp", 1),
        ];
        let order = [
            "verbs 1",
            "shm 1",
            "tcp 1",
            "ofi_hook_noop 1",
            "zz1 1",
            "aa2 1",
            "sm2 1",
        ];
        assert_eq!(shown(list, false), order);
    }

    #[test]
    fn l27_the_newer_version_counts_and_l29_the_other_stands_behind_it() {
        let list = || vec![plugin(c"DUP", 1), plugin(c"dup", 3), plugin(c"dup", 2)];
        assert_eq!(shown(list(), false), ["dup 3", "(DUP 1)", "(dup 2)"]);
        assert_eq!(shown(list(), true), ["DUP 1", "(dup 3)", "(dup 2)"]);
    }

    #[test]
    fn l25_l26_a_preferred_one_counts() {
        let list = vec![
            plugin(c"dup", 5),
            preferred(c"dup", 1),
            preferred(c"dup", 9),
        ];
        assert_eq!(shown(list, false), ["dup 1", "(dup 5)", "(dup 9)"]);
    }

    #[test]
    fn l30_of_equal_versions_ours_counts() {
        let with =
            |theirs: Registered, by_discovery| shown(vec![theirs, of(c"tcp", 206)], by_discovery);
        assert_eq!(with(plugin(c"tcp", 206), false), ["tcp 206", "(tcp 206)"]);
        assert_eq!(with(plugin(c"tcp", 205), false), ["tcp 206", "(tcp 205)"]);
        assert_eq!(with(plugin(c"tcp", 207), false), ["tcp 207", "(tcp 206)"]);
        assert_eq!(
            with(preferred(c"tcp", 205), false),
            ["tcp 205", "(tcp 206)"]
        );
        assert_eq!(with(plugin(c"tcp", 205), true), ["tcp 205", "(tcp 206)"]);
        let offload = vec![plugin(c"off_coll", 1), of(c"off_coll", 206)];
        assert_eq!(shown(offload, false), ["off_coll 1", "(off_coll 206)"]);
    }
}
