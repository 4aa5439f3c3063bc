// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `mr_mode`: fi_mr(3), fi_domain(3). Compares the requirements of a provider for memory registration with those that
//! the application accepts.
//!
//! Up to API 1.4 the mode was one of two words, basic and scalable. Since 1.5 it is a set of requirements; the old
//! words are still valid in hints, but not together with other bits.
#![forbid(unsafe_code)]

use super::Hints;
use super::prototype::since;
use crate::flags::flags;
use crate::{Caps, MrMode};

/// Returns the `mr_mode` of the result, or `None` if the two do not agree. `wanted` is `None` without hints for the
/// domain; `required` is a set of new bits.
pub fn agree(
    version: u32,
    wanted: Option<MrMode>,
    required: MrMode,
    hints: &Hints,
) -> Option<MrMode> {
    // The old words do not include device memory.
    let device = required.contains(MrMode::HMEM);
    let needed = required & !unused(hints.caps);
    let basic = || (!device && IMPLIED_BY_BASIC.contains(needed)).then_some(MrMode::BASIC);
    let scalable = || (!device).then_some(MrMode::SCALABLE);
    if version < since::V1_5 {
        return match wanted {
            None => Some(MrMode::BASIC | needed & !MrMode::HMEM),
            Some(MrMode::UNSPEC | MrMode::BASIC) => basic(),
            Some(MrMode::SCALABLE) => scalable(),
            Some(_) => None,
        };
    }
    match wanted {
        None => Some(required),
        Some(MrMode::BASIC) => basic(),
        Some(MrMode::SCALABLE) => scalable(),
        Some(wanted) if wanted.intersects(OLD_WORDS) => None,
        Some(wanted) => wanted.contains(needed).then_some(required & wanted),
    }
}

/// Returns the requirements that do not apply to the requested capabilities.
fn unused(caps: Caps) -> MrMode {
    let mut bits = MrMode::empty();
    if !caps.is_empty() && !is_target(caps) {
        bits |= TARGET_BITS;
    }
    if !caps.contains(Caps::HMEM) {
        bits |= MrMode::HMEM;
    }
    bits
}

/// Whether peers can access this side's memory.
fn is_target(caps: Caps) -> bool {
    let initiator_only = caps.intersects(Caps::READ | Caps::WRITE);
    caps.intersects(Caps::REMOTE_READ | Caps::REMOTE_WRITE)
        || caps.intersects(Caps::RMA | Caps::ATOMIC) && !initiator_only
}

const OLD_WORDS: MrMode = flags!(MrMode: BASIC | SCALABLE);
const TARGET_BITS: MrMode = flags!(MrMode: VIRT_ADDR | PROV_KEY | RMA_EVENT | RAW);
const IMPLIED_BY_BASIC: MrMode = flags!(MrMode: VIRT_ADDR | ALLOCATED | PROV_KEY | LOCAL);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mode;

    const V1_4: u32 = 1 << 16 | 4;
    const V2_6: u32 = 2 << 16 | 6;

    fn asking(caps: Caps, mode: Mode) -> Hints {
        Hints {
            caps,
            mode,
            ..Hints::default()
        }
    }

    /// All bits except the old words.
    const ANY: MrMode = OLD_WORDS.complement();

    /// Calls `agree` with numbers as in C.
    fn agreed(version: u32, wanted: Option<i32>, required: i32, hints: &Hints) -> Option<i32> {
        let bits = |bits| MrMode::from_bits_retain(bits);
        agree(version, wanted.map(bits), bits(required), hints).map(|mode| mode.bits())
    }

    #[test]
    fn before_1_5_there_are_two_words() {
        let hints = asking(Caps::empty(), Mode::empty());
        let agree = |wanted| agreed(V1_4, wanted, 0, &hints);
        assert_eq!(agree(None), Some(1));
        assert_eq!(agree(Some(0)), Some(1));
        assert_eq!(agree(Some(1)), Some(1));
        assert_eq!(agree(Some(2)), Some(2));
        for other in [3, 4, 0x10, 0x11, 0x74, 0xffc, -1] {
            assert_eq!(agree(Some(other)), None, "{other:#x}");
        }
    }

    #[test]
    fn whoever_requires_nothing_gets_nothing() {
        let hints = asking(Caps::empty(), Mode::empty());
        let agree = |wanted| agreed(V2_6, wanted, 0, &hints);
        for bits in [0, 4, 0x10, 0x74, 0xffc, -4] {
            assert_eq!(agree(Some(bits)), Some(0), "{bits:#x}");
        }
        assert_eq!(agree(None), Some(0));
        assert_eq!(agree(Some(1)), Some(1));
        assert_eq!(agree(Some(2)), Some(2));
        for mixed in [3, 0x11, 0x12, -1] {
            assert_eq!(agree(Some(mixed)), None, "{mixed:#x}");
        }
    }

    #[test]
    fn every_required_bit_has_to_be_there() {
        let required = MrMode::VIRT_ADDR | MrMode::LOCAL;
        let rma = asking(Caps::RMA, Mode::empty());
        assert_eq!(agree(V2_6, Some(MrMode::VIRT_ADDR), required, &rma), None);
        assert_eq!(agree(V2_6, Some(ANY), required, &rma), Some(required));
        assert_eq!(agree(V2_6, None, required, &rma), Some(required));
    }

    #[test]
    fn requirements_of_targets_are_for_targets_only() {
        let sender = asking(Caps::RMA | Caps::WRITE, Mode::empty());
        assert_eq!(
            agree(V2_6, Some(MrMode::UNSPEC), MrMode::VIRT_ADDR, &sender),
            Some(MrMode::UNSPEC)
        );
        let both = asking(Caps::RMA, Mode::empty());
        assert_eq!(
            agree(V2_6, Some(MrMode::UNSPEC), MrMode::VIRT_ADDR, &both),
            None
        );
        for caps in [Caps::empty(), Caps::MSG] {
            let messages = asking(caps, Mode::empty());
            assert_eq!(
                agree(V2_6, Some(MrMode::UNSPEC), MrMode::HMEM, &messages),
                Some(MrMode::UNSPEC)
            );
            let ready = agree(V2_6, Some(ANY), MrMode::HMEM, &messages);
            assert_eq!(ready, Some(MrMode::HMEM));
        }
        let device = asking(Caps::MSG | Caps::HMEM, Mode::empty());
        assert_eq!(
            agree(V2_6, Some(MrMode::LOCAL), MrMode::HMEM, &device),
            None
        );
    }

    #[test]
    fn the_old_words_say_nothing_of_device_memory() {
        let hints = asking(Caps::empty(), Mode::empty());
        for version in [V1_4, V2_6] {
            for word in [MrMode::BASIC, MrMode::SCALABLE] {
                assert_eq!(agree(version, Some(word), MrMode::HMEM, &hints), None);
            }
        }
        assert_eq!(
            agree(V1_4, Some(MrMode::UNSPEC), MrMode::HMEM, &hints),
            None
        );
        assert_eq!(agree(V1_4, None, MrMode::HMEM, &hints), Some(MrMode::BASIC));
    }

    #[test]
    fn the_old_bit_for_local_registration_does_not_count() {
        let old = asking(Caps::MSG, Mode::LOCAL_MR);
        assert_eq!(agree(V2_6, Some(MrMode::UNSPEC), MrMode::LOCAL, &old), None);
    }
}
