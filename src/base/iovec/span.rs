// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A range of virtual addresses without a promise that there is memory. Ranges are compared, sent to peers and passed
//! to the kernel, but never dereferenced.
#![forbid(unsafe_code)]

/// Addresses of this process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Span {
    pub start: usize,
    pub len: usize,
}

impl Span {
    pub const fn new(start: usize, len: usize) -> Span {
        Span { start, len }
    }

    /// Returns true if all of `other` lies within. An empty range may also lie at the end.
    pub fn contains(self, other: Span) -> bool {
        let skip = other.start.checked_sub(self.start);
        skip.and_then(|skip| self.len.checked_sub(skip))
            .is_some_and(|room| other.len <= room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_contains_what_ends_with_it() {
        let span = Span::new(100, 10);
        for (start, len) in [(100, 10), (100, 0), (110, 0), (109, 1), (104, 3)] {
            assert!(span.contains(Span::new(start, len)), "{start} {len}");
        }
        let outside = [
            (99, 1),
            (99, 0),
            (100, 11),
            (110, 1),
            (111, 0),
            (105, usize::MAX),
        ];
        for (start, len) in outside {
            assert!(!span.contains(Span::new(start, len)), "{start} {len}");
        }
        let last = Span::new(usize::MAX, 1);
        assert!(last.contains(last) && !span.contains(last));
    }
}
