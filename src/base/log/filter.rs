// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Selects the wanted lines: FI_LOG_LEVEL, FI_LOG_PROV and FI_LOG_SUBSYS of fabric(7).
#![forbid(unsafe_code)]

use core::ffi::{CStr, c_int};

use super::{CORE, LEVELS, SUBSYSTEMS};

/// Levels, subsystems and providers that are wanted.
pub(super) struct Filter {
    /// The highest level wanted; below zero: none.
    level: c_int,
    subsystems: Names,
    providers: Names,
}

impl Filter {
    /// Makes the filter from the texts of the three variables; `None` for one that is not set.
    pub(super) fn new(
        level: Option<&str>,
        providers: Option<&str>,
        subsystems: Option<&str>,
    ) -> Filter {
        Filter {
            level: level.map_or(OFF, level_of),
            subsystems: subsystems.map_or(Names::ALL, Names::parse),
            providers: providers.map_or(Names::ALL, Names::parse),
        }
    }

    pub(super) fn level(&self) -> c_int {
        self.level
    }

    /// Returns true if lines of this level and subsystem are wanted. Numbers outside the enumerations never are.
    pub(super) fn includes(&self, level: c_int, subsys: c_int) -> bool {
        level >= 0
            && level <= self.level
            && super::subsys_name(subsys).is_some_and(|name| self.subsystems.include(name))
    }

    /// Returns true if lines of this provider are excluded. The library itself is no provider and never excluded.
    pub(super) fn excludes_provider(&self, name: &CStr) -> bool {
        name != CORE.name() && !name.to_str().is_ok_and(|name| self.providers.include(name))
    }
}

/// A list `a,b` of names, or `^a,b` for all others.
struct Names {
    negated: bool,
    names: Vec<String>,
}

impl Names {
    const ALL: Names = Names {
        negated: true,
        names: Vec::new(),
    };

    /// Parses a list. Letter case does not matter, blanks do.
    fn parse(text: &str) -> Names {
        let (negated, list) = match text.strip_prefix('^') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        Names {
            negated,
            names: list.split(',').map(str::to_owned).collect(),
        }
    }

    fn include(&self, name: &str) -> bool {
        let listed = self
            .names
            .iter()
            .any(|listed| listed.eq_ignore_ascii_case(name));
        self.negated != listed
    }
}

/// Returns the level for a word. An unknown word means the lowest level, because the user wants a log of some kind.
fn level_of(word: &str) -> c_int {
    known_level(word).unwrap_or(0)
}

/// Other programs have a level `error`; here errors belong to the lowest level.
fn known_level(word: &str) -> Option<c_int> {
    if word.eq_ignore_ascii_case("error") {
        return Some(0);
    }
    if word.eq_ignore_ascii_case("none") {
        return Some(-1);
    }
    let mut levels = LEVELS.iter();
    let place = levels.position(|level| level.eq_ignore_ascii_case(word))?;
    c_int::try_from(place).ok()
}

/// Returns complaints about unknown words in FI_LOG_LEVEL and FI_LOG_SUBSYS.
pub(super) fn unknown_words(level: Option<&str>, subsystems: Option<&str>) -> Vec<String> {
    let mut said = Vec::new();
    if let Some(word) = level.filter(|word| known_level(word).is_none()) {
        let known = LEVELS.join(", ");
        said.push(format!(
            "FI_LOG_LEVEL={word:?} is no level and means warn; there are {known}"
        ));
    }
    let names = subsystems.map(Names::parse).unwrap_or(Names::ALL).names;
    let known = |name: &String| SUBSYSTEMS.iter().any(|s| s.eq_ignore_ascii_case(name));
    // A lone `^` excludes nothing.
    for name in names.iter().filter(|name| !name.is_empty() && !known(name)) {
        let known = SUBSYSTEMS.join(", ");
        said.push(format!(
            "FI_LOG_SUBSYS: {name:?} is no subsystem; there are {known}"
        ));
    }
    said
}

const OFF: c_int = -1;

#[cfg(test)]
mod tests {
    use super::super::{Level, Subsys, subsys_name};
    use super::*;

    fn subsystems(text: Option<&str>) -> String {
        let filter = Filter::new(Some("warn"), None, text);
        (0..10)
            .filter(|subsys| filter.includes(Level::Warn as c_int, *subsys))
            .map(|subsys| format!("{} ", subsys_name(subsys).unwrap()))
            .collect()
    }

    fn is_excluded(list: Option<&str>, name: &CStr) -> bool {
        Filter::new(Some("info"), list, None).excludes_provider(name)
    }

    #[test]
    fn without_a_level_nothing_is_wanted() {
        let filter = Filter::new(None, None, None);
        assert!(!filter.includes(Level::Warn as c_int, Subsys::Core as c_int));
    }

    #[test]
    fn a_level_includes_the_lower_ones() {
        for (word, highest) in [
            ("warn", 0),
            ("Trace", 1),
            ("INFO", 2),
            ("debug", 3),
            ("error", 0),
            ("bogus", 0),
            ("", 0),
            ("2", 0),
            ("info ", 0),
        ] {
            let filter = Filter::new(Some(word), None, None);
            for level in -1..6 {
                let wanted = (0..=highest).contains(&level);
                assert_eq!(
                    filter.includes(level, Subsys::Cq as c_int),
                    wanted,
                    "{word} {level}"
                );
            }
        }
    }

    #[test]
    fn words_that_mean_nothing_are_named() {
        for (level, subsystems) in [
            (None, None),
            (Some("WARN"), Some("cq,EP_DATA")),
            (Some("error"), Some("^av")),
            (Some("Error"), Some("^")),
        ] {
            assert!(unknown_words(level, subsystems).is_empty(), "{level:?}");
        }
        let said = unknown_words(Some("verbose"), Some("^cq,ep"));
        assert_eq!(said.len(), 2);
        assert!(said[0].starts_with("FI_LOG_LEVEL=\"verbose\" is no level"));
        assert!(said[1].starts_with("FI_LOG_SUBSYS: \"ep\" is no subsystem"));
    }

    #[test]
    fn unknown_numbers_are_not_wanted() {
        let filter = Filter::new(Some("debug"), None, None);
        for number in [-1, 10, 99, c_int::MIN, c_int::MAX] {
            assert!(!filter.includes(Level::Warn as c_int, number), "{number}");
        }
        assert!(!filter.includes(c_int::MAX, 0));
        assert!(!filter.includes(c_int::MIN, 0));
    }

    #[test]
    fn a_list_of_subsystems_names_those_wanted_or_not() {
        assert_eq!(
            subsystems(None),
            "core fabric domain ep_ctrl ep_data av cq eq mr cntr "
        );
        assert_eq!(subsystems(Some("^")), subsystems(None));
        assert_eq!(subsystems(Some("cq,EP_DATA")), "ep_data cq ");
        assert_eq!(
            subsystems(Some("^cq,ep_ctrl,ep_data,av")),
            "core fabric domain eq mr cntr "
        );
        assert_eq!(subsystems(Some("cq, core")), "cq ");
        for none in ["", "ep", "bogus", ",", " cq"] {
            assert_eq!(subsystems(Some(none)), "", "{none:?}");
        }
    }

    #[test]
    fn a_list_of_providers_names_those_wanted_or_not() {
        assert!(!is_excluded(None, c"tcp"));
        assert!(!is_excluded(Some("tcp"), c"tcp"));
        assert!(!is_excluded(Some("shm,TCP"), c"tcp"));
        assert!(!is_excluded(Some("^shm"), c"tcp"));
        assert!(is_excluded(Some("shm"), c"tcp"));
        assert!(is_excluded(Some("^tcp"), c"tcp"));
        assert!(is_excluded(Some("tcp;ofi_rxm"), c"tcp"));
        assert!(is_excluded(Some(""), c"tcp"));
        assert!(is_excluded(Some("rxm"), c"ofi_rxm"));
        assert!(is_excluded(Some("tcp"), c"\xff"));
    }

    #[test]
    fn the_library_itself_is_never_excluded() {
        for list in ["tcp", "^core", "", "^tcp"] {
            assert!(!is_excluded(Some(list), c"core"));
        }
    }
}
