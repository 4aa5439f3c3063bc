// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A hash table from (class, source, tag) to first-in first-out queues of small ids.
//!
//! Ids name entries of a slab that lives elsewhere; here is one link per id. Queues of the same key are rings, and the
//! first id of each queue stands in a bucket's chain. So an id leaves from anywhere in its queue at once, an empty
//! queue leaves nothing behind, and nothing is allocated once the table has seen its largest load.

use std::hash::{BuildHasher, RandomState};

/// `class` is below [`CLASSES`]: several tables in one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Key {
    pub class: u8,
    pub source: u64,
    pub tag: u64,
}

pub(super) struct Queues {
    links: Vec<Link>,
    /// First ids of queues, by the high bits of their hash. The length is zero or a power of two.
    buckets: Vec<u32>,
    queues: usize,
    /// Tags come from peers: they shall not be able to choose colliding ones.
    seed: [u64; 2],
}

#[derive(Clone, Copy)]
struct Link {
    source: u64,
    tag: u64,
    /// The low bits are the class.
    hash: u32,
    /// Neighbours in the queue, a ring: before the first stands the last.
    before: u32,
    after: u32,
    /// The next queue in the bucket if this entry is the first of its queue, otherwise `FOLLOWER`.
    chain: u32,
}

const _: () = assert!(size_of::<Link>() == 32);

impl Queues {
    /// Bytes that one member takes, with its part of the buckets.
    pub const COST: usize = size_of::<Link>() + 2 * size_of::<u32>();

    pub fn new() -> Self {
        let random = RandomState::new();
        Queues {
            links: Vec::new(),
            buckets: Vec::new(),
            queues: 0,
            seed: [random.hash_one(0), random.hash_one(1)],
        }
    }

    /// The oldest id of a queue.
    #[inline]
    pub fn first(&self, key: Key) -> Option<u32> {
        if self.queues == 0 {
            return None;
        }
        self.first_hashed(key, self.hash(key))
    }

    /// The ids of a queue, oldest first.
    pub fn queue(&self, key: Key) -> impl Iterator<Item = u32> + '_ {
        let first = self.first(key);
        let after = move |&id: &u32| {
            let next = self.links[id as usize].after;
            (Some(next) != first).then_some(next)
        };
        std::iter::successors(first, after)
    }

    /// Puts `id` at the end of its queue. It must be in none.
    #[inline]
    pub fn push(&mut self, id: u32, key: Key) {
        self.prepare(id);
        let hash = self.hash(key);
        match self.first_hashed(key, hash) {
            Some(first) => self.put_before(first, id, key, hash),
            None => self.open(id, key, hash),
        }
    }

    /// Puts `id` where its age belongs in a queue that is ordered by age. `younger(other)`: is `other` younger than
    /// `id`?
    pub fn insert(&mut self, id: u32, key: Key, younger: impl Fn(u32) -> bool) {
        let Some(first) = self.first(key) else {
            return self.push(id, key);
        };
        let last = self.links[first as usize].before;
        if !younger(last) {
            return self.push(id, key);
        }
        let next = self.queue(key).find(|&other| younger(other));
        let next = next.expect("at least the last one is younger");
        self.prepare(id);
        let hash = self.hash(key);
        self.put_before(next, id, key, hash);
        if next == first {
            let chain = self.links[first as usize].chain;
            self.replace_first(first, id);
            self.links[id as usize].chain = chain;
            self.links[first as usize].chain = FOLLOWER;
        }
    }

    /// Takes `id` out of its queue. It must be in one.
    #[inline]
    pub fn remove(&mut self, id: u32) {
        let Link {
            before,
            after,
            chain,
            ..
        } = self.links[id as usize];
        if after == id {
            self.replace_first(id, chain);
            self.queues -= 1;
            return;
        }
        self.links[before as usize].after = after;
        self.links[after as usize].before = before;
        if chain != FOLLOWER {
            self.replace_first(id, after);
            self.links[after as usize].chain = chain;
        }
    }

    /// Empties all queues; memory is kept.
    pub fn clear(&mut self) {
        self.buckets.fill(NIL);
        self.queues = 0;
    }

    #[inline]
    fn hash(&self, key: Key) -> u32 {
        let class = u64::from(key.class);
        let source = key.source ^ self.seed[0].wrapping_add(class.wrapping_mul(GOLDEN));
        let tag = key.tag ^ self.seed[1];
        let wide = u128::from(source) * u128::from(tag);
        let mixed = (wide >> 64) as u64 ^ wide as u64;
        (mixed >> 32) as u32 & !CLASS_BITS | u32::from(key.class)
    }

    #[inline]
    fn bucket(&self, hash: u32) -> usize {
        let bits = self.buckets.len().trailing_zeros();
        (hash >> (u32::BITS - bits)) as usize
    }

    #[inline]
    fn first_hashed(&self, key: Key, hash: u32) -> Option<u32> {
        let mut id = self.buckets[self.bucket(hash)];
        while id != NIL {
            let link = &self.links[id as usize];
            if link.hash == hash && link.source == key.source && link.tag == key.tag {
                return Some(id);
            }
            id = link.chain;
        }
        None
    }

    /// Makes room for one more id and one more queue.
    #[inline]
    fn prepare(&mut self, id: u32) {
        if id as usize >= self.links.len() {
            self.links.resize(id as usize + 1, UNLINKED);
        }
        if self.queues >= self.buckets.len() && self.buckets.len() < MAX_BUCKETS {
            self.grow();
        }
    }

    #[inline]
    fn open(&mut self, id: u32, key: Key, hash: u32) {
        let bucket = self.bucket(hash);
        self.links[id as usize] = Link {
            source: key.source,
            tag: key.tag,
            hash,
            before: id,
            after: id,
            chain: self.buckets[bucket],
        };
        self.buckets[bucket] = id;
        self.queues += 1;
    }

    /// Inserts an entry before `next`; an entry before the first one is at the end of the ring.
    #[inline]
    fn put_before(&mut self, next: u32, id: u32, key: Key, hash: u32) {
        let before = self.links[next as usize].before;
        self.links[id as usize] = Link {
            source: key.source,
            tag: key.tag,
            hash,
            before,
            after: next,
            chain: FOLLOWER,
        };
        self.links[before as usize].after = id;
        self.links[next as usize].before = id;
    }

    /// Lets the bucket's chain name `new` where it named `old`. What comes behind `new` is the caller's to set.
    #[inline]
    fn replace_first(&mut self, old: u32, new: u32) {
        let bucket = self.bucket(self.links[old as usize].hash);
        let mut at = self.buckets[bucket];
        if at == old {
            self.buckets[bucket] = new;
            return;
        }
        while self.links[at as usize].chain != old {
            at = self.links[at as usize].chain;
        }
        self.links[at as usize].chain = new;
    }

    #[cold]
    fn grow(&mut self) {
        let size = (self.buckets.len() * 2).max(MIN_BUCKETS);
        let old = std::mem::replace(&mut self.buckets, vec![NIL; size]);
        for mut id in old {
            while id != NIL {
                let bucket = self.bucket(self.links[id as usize].hash);
                let link = &mut self.links[id as usize];
                let next = std::mem::replace(&mut link.chain, self.buckets[bucket]);
                self.buckets[bucket] = id;
                id = next;
            }
        }
    }

    #[cfg(test)]
    pub fn buckets(&self) -> usize {
        self.buckets.len()
    }
}

pub(super) const CLASSES: usize = 64;
const CLASS_BITS: u32 = CLASSES as u32 - 1;

const NIL: u32 = u32::MAX;
const FOLLOWER: u32 = u32::MAX - 1;

const UNLINKED: Link = Link {
    source: 0,
    tag: 0,
    hash: 0,
    before: NIL,
    after: NIL,
    chain: NIL,
};

const MIN_BUCKETS: usize = 16;
/// Bits of the hash above the class.
const MAX_BUCKETS: usize = 1 << 26;

/// 2^64 divided by the golden ratio: spreads small numbers over all bits.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
