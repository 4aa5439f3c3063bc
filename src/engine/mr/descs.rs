// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Descriptors of the regions of a domain whose operations may name device memory: fi_mr_desc(3). They are numbers, so
//! that whatever a program passes can be checked.
#![forbid(unsafe_code)]

use core::num::NonZero;

use base::Span;

/// The regions that have descriptors.
#[derive(Default)]
pub struct Descs {
    slots: Vec<Slot>,
    free: Vec<usize>,
}

#[derive(Default)]
struct Slot {
    /// Tells descriptors of closed regions from that of the present one.
    generation: u32,
    segments: Vec<Segment>,
}

/// A part of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    pub span: Span,
    pub is_device: bool,
}

const INDEX_BITS: u32 = 20;
const GENERATIONS: u32 = 1 << (u32::BITS - INDEX_BITS);

impl Descs {
    /// Returns the descriptor of a region; 0, which is none, if there are too many regions.
    pub fn insert(&mut self, segments: Vec<Segment>) -> u32 {
        let at = self.free.pop().unwrap_or(self.slots.len());
        if at + 1 >= 1 << INDEX_BITS {
            return 0;
        }
        if at == self.slots.len() {
            self.slots.push(Slot::default());
        }
        let slot = &mut self.slots[at];
        slot.segments = segments;
        slot.generation << INDEX_BITS | (at as u32 + 1)
    }

    pub fn remove(&mut self, desc: u32) {
        if let Some(at) = self.place_of(desc) {
            let slot = &mut self.slots[at];
            slot.segments.clear();
            slot.generation = (slot.generation + 1) % GENERATIONS;
            self.free.push(at);
        }
    }

    fn place_of(&self, desc: u32) -> Option<usize> {
        let at = (desc & ((1 << INDEX_BITS) - 1)).checked_sub(1)? as usize;
        let slot = self.slots.get(at)?;
        (slot.generation == desc >> INDEX_BITS && !slot.segments.is_empty()).then_some(at)
    }

    /// Returns the part of the region with this descriptor that has this memory. None if the region is closed, or does
    /// not have it.
    pub fn find(&self, desc: NonZero<u32>, span: Span) -> Option<Segment> {
        let slot = &self.slots[self.place_of(desc.get())?];
        let mut segments = slot.segments.iter();
        segments
            .find(|segment| segment.span.contains(span))
            .copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(start: usize, is_device: bool) -> Segment {
        Segment {
            span: Span::new(start, 100),
            is_device,
        }
    }

    #[test]
    fn a_descriptor_is_that_of_an_open_region() {
        let mut descs = Descs::default();
        let desc = |number| NonZero::new(number).unwrap();
        let one = descs.insert(vec![segment(1000, false), segment(2000, true)]);
        let two = descs.insert(vec![segment(3000, true)]);
        assert_eq!(
            descs.find(desc(one), Span::new(2050, 50)),
            Some(segment(2000, true))
        );
        for (number, start, len) in [
            (one, 2050, 51),
            (one, 3000, 1),
            (two, 1000, 1),
            (99, 3000, 1),
        ] {
            assert_eq!(descs.find(desc(number), Span::new(start, len)), None);
        }
        descs.remove(two);
        descs.remove(two);
        let three = descs.insert(vec![segment(3000, false)]);
        assert_ne!(two, three);
        assert_eq!(descs.find(desc(two), Span::new(3000, 1)), None);
        assert_eq!(
            descs.find(desc(three), Span::new(3000, 1)),
            Some(segment(3000, false))
        );
    }
}
