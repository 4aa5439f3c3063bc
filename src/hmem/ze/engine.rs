// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The engine of a device that copies: FI_HMEM_ZE_COPY_ENGINE.

use std::sync::OnceLock;

use super::calls::Group;

/// An engine of a device: a group, and a position in the group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Engine {
    pub group: u32,
    pub index: u32,
}

static WANTED: OnceLock<Option<Engine>> = OnceLock::new();

/// Sets the engine that copies, if a device has it: "group" or "group.index". Only the first call has an effect.
pub fn prefer(text: Option<&str>) {
    WANTED.get_or_init(|| text.and_then(parse));
}

fn parse(text: &str) -> Option<Engine> {
    let (group, index) = text.split_once('.').unwrap_or((text, "0"));
    Some(Engine {
        group: group.trim().parse().ok()?,
        index: index.trim().parse().ok()?,
    })
}

/// ze_command_queue_group_property_flag_t.
const COMPUTE: u32 = 1;
const COPY: u32 = 2;

/// Chooses an engine among a device's groups.
pub fn choose(groups: &[Group]) -> Engine {
    choose_among(groups, WANTED.get().copied().flatten())
}

/// Without a wanted engine that is there: the first group that only copies, or else the first that can copy.
fn choose_among(groups: &[Group], wanted: Option<Engine>) -> Engine {
    let engines = |group: u32| groups.get(group as usize).map_or(0, |group| group.engines);
    if let Some(wanted) = wanted.filter(|wanted| wanted.index < engines(wanted.group)) {
        return wanted;
    }
    let of = |mask: u32, flags: u32| {
        groups
            .iter()
            .position(|group| group.engines > 0 && group.flags & mask == flags)
    };
    let group = of(COMPUTE | COPY, COPY).or_else(|| of(COPY, COPY));
    Engine {
        group: group.unwrap_or(0) as u32,
        index: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(flags: u32, engines: u32) -> Group {
        let mut group = Group::new();
        (group.flags, group.engines) = (flags, engines);
        group
    }

    #[test]
    fn an_engine_is_a_group_or_a_group_and_an_index() {
        let engine = |group, index| Some(Engine { group, index });
        assert_eq!(parse("2"), engine(2, 0));
        assert_eq!(parse("2.3"), engine(2, 3));
        for text in ["", "a", "1.", ".1", "1.2.3", "-1"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_group_that_only_copies_comes_first() {
        let groups = [group(COMPUTE | COPY, 1), group(COPY, 0), group(COPY, 2)];
        let choose = |count, wanted| choose_among(&groups[..count], wanted);
        let engine = |group, index| Engine { group, index };
        assert_eq!(choose(3, None), engine(2, 0));
        assert_eq!(choose(1, None), engine(0, 0));
        assert_eq!(choose(0, None), engine(0, 0));
        assert_eq!(choose(3, Some(engine(2, 1))), engine(2, 1));
        assert_eq!(choose(3, Some(engine(0, 0))), engine(0, 0));
        assert_eq!(choose(3, Some(engine(2, 2))), engine(2, 0));
        assert_eq!(choose(3, Some(engine(3, 0))), engine(2, 0));
    }
}
