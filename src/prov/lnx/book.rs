// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The addresses of a domain: what each of them is in the address vectors of the rails, and the other way round.

use std::collections::HashMap;

use slab::Slab;

use super::address::Addr;
use abi::fi_addr_t;

/// An address that some vector of the domain has.
pub struct Known {
    pub addr: Addr,
    /// Its addresses on each rail. There are none on rails that do not lead there.
    pub places: Vec<Vec<fi_addr_t>>,
    /// The parts of its name that these are.
    pub ways: Vec<Way>,
    /// Its endpoint did not know a note: it is another one that has got the same address.
    pub is_stale: bool,
    /// The index of the address in a vector, as it was found last: the vector, the number of removals then, the index.
    pub found: Option<(usize, u64, u64)>,
}

/// How a rail leads to a part of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    pub rail: usize,
    pub part: usize,
    pub place: fi_addr_t,
    /// The part is in the rail's subnet.
    pub is_near: bool,
}

impl Known {
    /// Whether notes may be sent to it.
    pub fn takes_notes(&self) -> bool {
        self.addr.name().origin.is_some() && !self.is_stale
    }
}

#[derive(Default)]
pub struct Book {
    known: Slab<Known>,
    by_addr: HashMap<Addr, usize>,
    /// For each rail, by the address there, the number in `known` plus 1. Vectors number from 0 on.
    senders: Vec<Vec<u32>>,
}

/// Addresses of a rail from this one on are not looked up: no vector of libfabric has them.
const MOST: u64 = 1 << 28;

impl Book {
    pub fn new(rails: usize) -> Book {
        Book {
            senders: vec![Vec::new(); rails],
            ..Book::default()
        }
    }

    pub fn number(&self, addr: &Addr) -> Option<usize> {
        self.by_addr.get(addr).copied()
    }

    pub fn get(&self, number: usize) -> Option<&Known> {
        self.known.get(number)
    }

    pub fn insert(&mut self, addr: Addr, rails: usize, ways: Vec<Way>) {
        let mut places = vec![Vec::new(); rails];
        for way in &ways {
            places[way.rail].push(way.place);
        }
        let number = self.known.vacant_key();
        for (rail, places) in places.iter().enumerate() {
            for &place in places.iter().filter(|&&place| place < MOST) {
                let senders = &mut self.senders[rail];
                if senders.len() <= place as usize {
                    senders.resize(place as usize + 1, 0);
                }
                senders[place as usize] = number as u32 + 1;
            }
        }
        self.by_addr.insert(addr.clone(), number);
        self.known.insert(Known {
            addr,
            places,
            ways,
            is_stale: false,
            found: None,
        });
    }

    /// The address whose endpoint has this address on a rail.
    #[inline]
    pub fn sender(&mut self, rail: usize, place: fi_addr_t) -> Option<&mut Known> {
        let number = *self.senders[rail].get(usize::try_from(place).ok()?)?;
        self.known.get_mut(number.checked_sub(1)? as usize)
    }

    /// The same for reading.
    pub fn at(&self, rail: usize, place: fi_addr_t) -> Option<&Known> {
        let number = *self.senders[rail].get(usize::try_from(place).ok()?)?;
        self.known.get(number.checked_sub(1)? as usize)
    }

    /// Removes an address. Returns its addresses on the rails.
    pub fn remove(&mut self, addr: &Addr) -> Option<Known> {
        let number = self.by_addr.remove(addr)?;
        let known = self.known.try_remove(number)?;
        for (rail, places) in known.places.iter().enumerate() {
            for &place in places {
                if let Some(sender) = self.senders[rail].get_mut(place as usize)
                    && *sender == number as u32 + 1
                {
                    *sender = 0;
                }
            }
        }
        Some(known)
    }
}

#[cfg(test)]
mod tests {
    use super::super::address::Part;
    use super::*;

    fn addr(bytes: &[u8]) -> Addr {
        let part = Part {
            fabric: b"f".to_vec(),
            bytes: bytes.to_vec(),
            provider: None,
        };
        Addr::new("host", vec![part], None, 0)
    }

    #[test]
    fn senders_are_found_by_their_place_on_a_rail() {
        let mut book = Book::new(2);
        let way = |rail, place| Way {
            rail,
            part: 0,
            place,
            is_near: false,
        };
        book.insert(addr(b"a"), 2, vec![way(1, 5), way(1, 0)]);
        book.insert(addr(b"b"), 2, vec![way(0, 0), way(1, u64::MAX)]);
        let mut name = |rail, place| book.sender(rail, place).map(|known| known.addr.clone());
        assert_eq!(name(1, 5), Some(addr(b"a")));
        assert_eq!(name(1, 0), Some(addr(b"a")));
        assert_eq!(name(0, 0), Some(addr(b"b")));
        for (rail, place) in [(0, 5), (1, 1), (1, u64::MAX), (0, 1 << 40)] {
            assert_eq!(name(rail, place), None);
        }
        assert_eq!(book.remove(&addr(b"a")).unwrap().places[1], [5, 0]);
        assert!(book.remove(&addr(b"a")).is_none() && book.sender(1, 5).is_none());
        assert_eq!(book.number(&addr(b"b")), Some(1));
    }
}
