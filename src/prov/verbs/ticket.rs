// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The number of a work request, which its completion reports, and of an endpoint in connection events. It names the
//! place of an endpoint and its generation, because completions and events may be read after the endpoint was closed
//! and its place is used again.

/// An endpoint of a domain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holder {
    /// The number in `DomainState::eps`, or for receives of a shared context in `DomainState::srxs`.
    pub place: usize,
    pub generation: u16,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Send,
    Receive,
    /// A receive of a shared context.
    Shared,
    /// An empty write behind the send of this number: `domain::drain`.
    Marker,
}

/// A work request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticket {
    pub kind: Kind,
    pub holder: Holder,
    /// Consecutive numbers of the requests of a queue.
    pub number: u32,
}

const PLACE_BITS: u32 = 20;
const GENERATION_BITS: u32 = 12;
const NUMBER_BITS: u32 = 30;

/// Most endpoints of a domain.
pub const PLACES: usize = 1 << PLACE_BITS;
/// The number after this one is 0.
pub const LAST_NUMBER: u32 = (1 << NUMBER_BITS) - 1;
const LAST_GENERATION: u16 = (1 << GENERATION_BITS) - 1;

/// The distance from one number to a later one.
#[inline]
pub fn distance(from: u32, to: u32) -> usize {
    (to.wrapping_sub(from) & LAST_NUMBER) as usize
}

impl Holder {
    #[inline]
    fn word(self) -> u64 {
        self.place as u64 | u64::from(self.generation) << PLACE_BITS
    }

    fn of(word: u64) -> Holder {
        Holder {
            place: word as usize & (PLACES - 1),
            generation: (word >> PLACE_BITS) as u16 & LAST_GENERATION,
        }
    }

    /// The number in connection events. It is not 0.
    pub fn token(self) -> usize {
        self.word() as usize + 1
    }

    pub fn of_token(token: usize) -> Holder {
        Holder::of(token.wrapping_sub(1) as u64)
    }

    pub fn next_generation(generation: u16) -> u16 {
        (generation + 1) & LAST_GENERATION
    }
}

impl Ticket {
    #[inline]
    pub fn word(self) -> u64 {
        let kind = self.kind as u64;
        self.holder.word()
            | u64::from(self.number) << (PLACE_BITS + GENERATION_BITS)
            | kind << (PLACE_BITS + GENERATION_BITS + NUMBER_BITS)
    }

    #[inline]
    pub fn of(word: u64) -> Ticket {
        Ticket {
            kind: match word >> (PLACE_BITS + GENERATION_BITS + NUMBER_BITS) {
                0 => Kind::Send,
                1 => Kind::Receive,
                2 => Kind::Shared,
                _ => Kind::Marker,
            },
            holder: Holder::of(word),
            number: (word >> (PLACE_BITS + GENERATION_BITS)) as u32 & LAST_NUMBER,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_back() {
        for kind in [Kind::Send, Kind::Receive, Kind::Shared, Kind::Marker] {
            for (place, generation, number) in
                [(0, 0, 0), (PLACES - 1, LAST_GENERATION, LAST_NUMBER)]
            {
                let holder = Holder { place, generation };
                let ticket = Ticket {
                    kind,
                    holder,
                    number,
                };
                assert_eq!(Ticket::of(ticket.word()), ticket);
                assert_eq!(Holder::of_token(holder.token()), holder);
            }
        }
        assert_eq!(distance(LAST_NUMBER, 0), 1);
        assert_eq!(Holder::next_generation(LAST_GENERATION), 0);
    }
}
