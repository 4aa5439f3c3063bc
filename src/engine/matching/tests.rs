// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The matcher against a list that is searched from its front, and the orders in which deep queues are used up.

use super::*;

/// xorshift64*
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 33) % limit
    }

    fn shuffle(&mut self, items: &mut [u64]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

/// A reference implementation of the matcher, as simple as possible.
#[derive(Default)]
struct Model {
    posted: Vec<(u64, u64, u64, u64)>,
    unexpected: Vec<(u64, u64, u64)>,
    hidden: Vec<u64>,
}

impl Model {
    fn find_posted(&self, source: u64, tag: u64) -> Option<u64> {
        let mut posted = self.posted.iter();
        let found = posted
            .find(|&&(s, t, ignore, _)| (s == ANY || s == source) && t & !ignore == tag & !ignore);
        found.map(|receive| receive.3)
    }

    fn find_unexpected(&self, source: u64, tag: u64, ignore: u64) -> Option<u64> {
        let mut messages = self.unexpected.iter();
        let found = messages.find(|&&(s, t, name)| {
            (source == ANY || s == source)
                && t & !ignore == tag & !ignore
                && !self.hidden.contains(&name)
        });
        found.map(|message| message.2)
    }

    fn take_posted(&mut self, name: u64) {
        self.posted.retain(|receive| receive.3 != name);
    }

    fn take_unexpected(&mut self, name: u64) {
        self.unexpected.retain(|message| message.2 != name);
        self.hidden.retain(|&hidden| hidden != name);
    }
}

/// How the sources, tags and masks of one run are chosen.
struct Mix {
    sources: u64,
    tags: u64,
    masks: Vec<u64>,
    /// `growth` of 32 steps post a receive, as many deliver a message, and the rest of the first 26 steps match.
    /// So it determines the depth of the queues. At most 12.
    growth: u64,
}

/// The matcher and its model, driven in step.
struct Pair {
    real: Matcher<u64, u64>,
    model: Model,
    /// Ids of what is stored, by name.
    receives: Vec<(u64, RecvId)>,
    messages: Vec<(u64, MsgId)>,
    names: u64,
}

impl Pair {
    fn new() -> Self {
        Pair {
            real: Matcher::new(),
            model: Model::default(),
            receives: Vec::new(),
            messages: Vec::new(),
            names: 0,
        }
    }

    fn name(&mut self) -> u64 {
        self.names += 1;
        self.names
    }

    fn post(&mut self, source: u64, tag: u64, ignore: u64) {
        let name = self.name();
        let id = self.real.post(source, tag, ignore, name);
        self.model.posted.push((source, tag, ignore, name));
        self.receives.push((name, id));
    }

    fn arrive(&mut self, source: u64, tag: u64) {
        let name = self.name();
        let id = self.real.arrive(source, tag, name);
        self.model.unexpected.push((source, tag, name));
        self.messages.push((name, id));
    }

    fn match_posted(&mut self, source: u64, tag: u64, take: bool) {
        let found = self.real.find_posted(source, tag);
        let name = found.map(|id| *self.real.posted(id));
        assert_eq!(name, self.model.find_posted(source, tag));
        if let (Some(id), Some(name), true) = (found, name, take) {
            self.take_posted(name, id);
        }
    }

    fn take_posted(&mut self, name: u64, id: RecvId) {
        assert_eq!(self.real.take_posted(id), name);
        self.model.take_posted(name);
        self.receives.retain(|receive| receive.0 != name);
    }

    fn match_unexpected(&mut self, source: u64, tag: u64, ignore: u64) -> Option<(u64, MsgId)> {
        let found = self.real.find_unexpected(source, tag, ignore);
        let name = found.map(|id| *self.real.unexpected(id));
        assert_eq!(name, self.model.find_unexpected(source, tag, ignore));
        name.zip(found)
    }

    fn take_unexpected(&mut self, name: u64, id: MsgId) {
        assert_eq!(self.real.take_unexpected(id), name);
        self.model.take_unexpected(name);
        self.messages.retain(|message| message.0 != name);
    }

    fn step(&mut self, random: &mut Random, mix: &Mix) {
        let source = random.below(mix.sources);
        let tag = random.below(mix.tags) << (8 * random.below(2));
        let ignore = mix.masks[random.below(mix.masks.len() as u64) as usize];
        let wanted = if random.below(4) == 0 { ANY } else { source };
        // A message may come from a source whose address is not known.
        let from = if random.below(16) == 0 { ANY } else { source };
        let posts = mix.growth;
        let sends = 2 * mix.growth;
        let matches = mix.growth + 13;
        match random.below(32) {
            n if n < posts => self.post(wanted, tag, ignore),
            n if n < sends => self.arrive(from, tag),
            n if n < matches => self.match_posted(from, tag, n > sends),
            n if n < 26 => {
                if let Some((name, id)) = self.match_unexpected(wanted, tag, ignore) {
                    self.take_unexpected(name, id);
                }
            }
            26 => self.hide(wanted, tag, ignore),
            27 => self.by_key(random),
            28 => self.pick_any(random),
            29 => self.rename(from, random.below(mix.sources)),
            _ => {
                self.match_posted(source, !tag, false);
                self.match_unexpected(wanted, !tag, ignore);
            }
        }
        assert_eq!(self.real.posted_len(), self.model.posted.len());
        assert_eq!(self.real.unexpected_len(), self.model.unexpected.len());
    }

    fn hide(&mut self, source: u64, tag: u64, ignore: u64) {
        if let Some((name, id)) = self.match_unexpected(source, tag, ignore) {
            self.real.hide(id);
            self.model.hidden.push(name);
        }
    }

    fn by_key(&mut self, random: &mut Random) {
        let value = random.below(7);
        let names = self.model.posted.iter().map(|receive| receive.3);
        let expected = names.clone().find(|name| name % 7 == value);
        let found = self.real.find_posted_by(|name| name % 7 == value);
        assert_eq!(found.map(|id| *self.real.posted(id)), expected);
        let keyed = self.real.find_posted_by_key(|name| name % 7, value);
        assert_eq!(keyed, found);
        if let (Some(id), Some(name)) = (found, expected) {
            self.take_posted(name, id);
        }
    }

    /// A receive or a message leaves from the middle, a hidden one too.
    fn pick_any(&mut self, random: &mut Random) {
        if !self.receives.is_empty() {
            let at = random.below(self.receives.len() as u64) as usize;
            let (name, id) = self.receives[at];
            self.take_posted(name, id);
        }
        if !self.messages.is_empty() {
            let at = random.below(self.messages.len() as u64) as usize;
            let (name, id) = self.messages[at];
            self.take_unexpected(name, id);
        }
    }

    fn rename(&mut self, from: u64, to: u64) {
        self.real.rename_source(from, to, |_| ());
        for message in &mut self.model.unexpected {
            if message.0 == from {
                message.0 = to;
            }
        }
    }

    fn drain(&mut self, random: &mut Random) {
        let odd = |name: &u64| name % 2 == 1;
        if random.below(2) == 0 {
            let all = random.below(2) == 0;
            let names = self.model.unexpected.iter().map(|message| message.2);
            let hidden = |name: &u64| self.model.hidden.contains(name);
            let wanted = names.filter(|name| odd(name) && (all || !hidden(name)));
            let expected: Vec<u64> = wanted.collect();
            let taken = match all {
                true => self.real.take_unexpected_if(odd),
                false => self.real.take_waiting_if(odd),
            };
            assert_eq!(taken, expected);
            for name in expected {
                self.model.take_unexpected(name);
                self.messages.retain(|message| message.0 != name);
            }
            return;
        }
        let receives = self.model.posted.drain(..).map(|receive| receive.3);
        assert_eq!(self.real.drain_posted(), receives.collect::<Vec<_>>());
        let messages = self.model.unexpected.drain(..).map(|message| message.2);
        assert_eq!(self.real.drain_unexpected(), messages.collect::<Vec<_>>());
        self.model.hidden.clear();
        self.receives.clear();
        self.messages.clear();
    }
}

fn run(seed: u64, steps: usize, mix: &Mix) {
    let mut random = Random(seed);
    let mut pair = Pair::new();
    for step in 0..steps {
        pair.step(&mut random, mix);
        if step % 3000 == 2999 {
            pair.drain(&mut random);
        }
    }
    pair.drain(&mut Random(seed));
}

/// Every protocol bit of every mask is one that the tags do use.
fn masks(count: u64) -> Vec<u64> {
    (0..count).map(|n| n ^ n << 9).collect()
}

#[test]
fn few_sources_and_tags_agree_with_a_plain_list() {
    for seed in 1..=8 {
        let mix = Mix {
            sources: 3,
            tags: 6,
            masks: vec![0, !0, 3, 0x100],
            growth: 8,
        };
        run(seed, 6000, &mix);
    }
}

#[test]
fn deep_queues_agree_with_a_plain_list() {
    for seed in 1..=4 {
        let mix = Mix {
            sources: 40,
            tags: 200,
            masks: vec![0, 1 << 15, !0],
            growth: 10,
        };
        run(seed, 9000, &mix);
    }
}

#[test]
fn more_shapes_than_classes_and_indexes_agree_with_a_plain_list() {
    for seed in 1..=4 {
        let mix = Mix {
            sources: 5,
            tags: 100,
            masks: masks(150),
            growth: 10,
        };
        run(seed, 9000, &mix);
    }
}

#[test]
fn the_oldest_receive_wins_across_classes() {
    let mut matcher: Matcher<&str, ()> = Matcher::new();
    let any = matcher.post(ANY, 5, 0, "any source");
    let exact = matcher.post(1, 5, 0, "exact");
    let wild = matcher.post(1, 0, !0, "any tag");
    assert_eq!(matcher.find_posted(1, 5), Some(any));
    assert_eq!(matcher.take_posted(any), "any source");
    assert_eq!(matcher.find_posted(1, 5), Some(exact));
    assert_eq!(matcher.find_posted(1, 6), Some(wild));
    assert_eq!(matcher.find_posted(2, 5), None);
    matcher.take_posted(exact);
    assert_eq!(matcher.find_posted(1, 5), Some(wild));
}

#[test]
fn a_found_receive_stays_posted() {
    let mut matcher: Matcher<u32, ()> = Matcher::new();
    let id = matcher.post(ANY, 0, 0, 0);
    for round in 0..3 {
        assert_eq!(matcher.find_posted(9, 0), Some(id));
        assert_eq!(*matcher.posted(id), round);
        *matcher.posted(id) += 1;
    }
    assert_eq!(matcher.posted_len(), 1);
}

#[test]
fn a_message_of_unknown_source_matches_any_source_only() {
    let mut matcher: Matcher<u32, u32> = Matcher::new();
    matcher.post(7, 1, 0, 7);
    assert_eq!(matcher.find_posted(ANY, 1), None);
    let id = matcher.post(ANY, 1, 0, 0);
    assert_eq!(matcher.find_posted(ANY, 1), Some(id));
    let message = matcher.arrive(ANY, 1, 0);
    assert_eq!(matcher.find_unexpected(7, 1, 0), None);
    assert_eq!(matcher.find_unexpected(ANY, 1, 0), Some(message));
}

#[test]
fn a_hidden_message_is_stored_but_not_found() {
    let mut matcher: Matcher<(), u32> = Matcher::new();
    let first = matcher.arrive(1, 1, 10);
    let second = matcher.arrive(1, 1, 11);
    matcher.hide(first);
    matcher.hide(first);
    assert_eq!(matcher.find_unexpected(1, 1, 0), Some(second));
    assert_eq!(matcher.unexpected_len(), 2);
    assert_eq!(*matcher.unexpected(first), 10);
    matcher.hide(second);
    assert_eq!(matcher.find_unexpected(ANY, 0, !0), None);
    assert_eq!(matcher.drain_unexpected(), [10, 11]);
}

#[test]
fn renamed_messages_keep_their_place_between_those_of_the_new_source() {
    for others in [0, 100] {
        let mut matcher: Matcher<(), u64> = Matcher::new();
        for n in 0..others {
            matcher.arrive(1000, 0, 1000 + n);
        }
        for n in 0..40 {
            matcher.arrive(n % 2, 5, n);
        }
        // Makes an index when there are enough messages.
        assert_eq!(matcher.find_unexpected(1, 6, 0), None);
        matcher.rename_source(0, 1, |_| ());
        assert_eq!(matcher.find_unexpected(0, 5, 0), None);
        for n in 0..40 {
            let id = matcher.find_unexpected(1, 5, 0).unwrap();
            assert_eq!(matcher.take_unexpected(id), n);
        }
    }
}

/// Shapes come and go: what matters is how many there are at once.
#[test]
fn a_shape_without_receives_makes_room_for_another() {
    let mut matcher: Matcher<u64, ()> = Matcher::new();
    for mask in 1..500 {
        matcher.post(1, 0, mask, mask);
        matcher.post(ANY, 0, !mask, mask);
        if mask % 2 == 0 {
            assert_eq!(matcher.drain_posted(), [mask, mask]);
        } else {
            let id = matcher.find_posted(1, mask).unwrap();
            matcher.take_posted(id);
            let id = matcher.find_posted(2, 0).unwrap();
            matcher.take_posted(id);
        }
    }
    assert!(matcher.posted.classes() <= 3);
}

#[test]
fn receives_that_name_a_source_are_taken_in_their_order() {
    let mut matcher: Matcher<u64, ()> = Matcher::new();
    for (n, source) in [(0, 7), (1, ANY), (2, 8), (3, 7)] {
        matcher.post(source, n, n, n);
    }
    assert_eq!(matcher.drain_posted_from(7), [0, 3]);
    assert!(matcher.drain_posted_from(7).is_empty());
    assert_eq!(matcher.drain_posted(), [1, 2]);
}

#[test]
fn nothing_is_allocated_before_use() {
    let mut matcher: Matcher<u64, u64> = Matcher::new();
    assert_eq!(matcher.posted.buckets() + matcher.unexpected.buckets(), 0);
    assert_eq!(matcher.find_posted(0, 0), None);
    assert_eq!(matcher.find_unexpected(0, 0, 0), None);
    assert_eq!(matcher.find_posted_by_key(|&recv| recv, 1), None);
    assert!(matcher.drain_posted().is_empty());
    assert!(matcher.drain_unexpected().is_empty());
    assert_eq!(matcher.posted.buckets() + matcher.unexpected.buckets(), 0);
}

/// Each round uses tags that were never there before.
#[test]
fn tables_do_not_grow_with_the_number_of_tags_seen() {
    let mut matcher: Matcher<u64, u64> = Matcher::new();
    let mut sizes = Vec::new();
    let mut tag = 0;
    for _ in 0..200 {
        for _ in 0..100 {
            tag += 1;
            matcher.post(tag % 7, tag, 1 << 63, tag);
            matcher.arrive(tag % 7, !tag, tag);
        }
        for old in (tag - 99..=tag).rev() {
            let id = matcher.find_posted(old % 7, old).unwrap();
            assert_eq!(matcher.take_posted(id), old);
            let id = matcher.find_unexpected(old % 7, !old, 1 << 62).unwrap();
            assert_eq!(matcher.take_unexpected(id), old);
        }
        sizes.push((matcher.posted.buckets(), matcher.unexpected.buckets()));
    }
    assert!(sizes.iter().all(|&size| size == sizes[0]), "{sizes:?}");
    assert!(sizes[0].0 <= 256 && sizes[0].1 <= 256, "{:?}", sizes[0]);
}

/// With a search from the front the deepest of these would take hours.
#[test]
fn deep_queues_are_used_up_in_any_order() {
    const IGNORE: u64 = 0xff << 56;
    const PROTOCOL: u64 = 3 << 56;
    for depth in [1, 10, 1000, 100_000] {
        let mut orders = vec![Vec::from_iter(0..depth); 3];
        orders[1].reverse();
        Random(depth).shuffle(&mut orders[2]);
        let mut matcher: Matcher<u64, u64> = Matcher::new();
        for order in orders {
            for n in 0..depth {
                matcher.post(n % 5, n, IGNORE, n);
                matcher.arrive(n % 5, n | PROTOCOL, n);
            }
            for n in order {
                assert_eq!(matcher.find_posted(n % 5, depth + n), None);
                let id = matcher.find_posted(n % 5, n | PROTOCOL).unwrap();
                assert_eq!(matcher.take_posted(id), n);
                assert_eq!(matcher.find_unexpected(n % 5, depth + n, IGNORE), None);
                let id = matcher.find_unexpected(n % 5, n, IGNORE).unwrap();
                assert_eq!(matcher.take_unexpected(id), n);
            }
        }
    }
}

/// Even names are posted for any source, odd ones for their own.
#[test]
fn deep_queues_of_one_tag_stay_first_in_first_out() {
    let mut matcher: Matcher<u64, u64> = Matcher::new();
    for n in 0..100_000 {
        matcher.post(if n % 2 == 0 { ANY } else { n % 4 }, 1, 0, n);
        matcher.arrive(n % 4, 1, n);
    }
    let mut next = [0, 1, 0, 3];
    for n in 0..50_000 {
        let source = n % 4;
        let oldest = if source % 2 == 0 || next[0] < next[source as usize] {
            &mut next[0]
        } else {
            &mut next[source as usize]
        };
        let id = matcher.find_posted(source, 1).unwrap();
        assert_eq!(matcher.take_posted(id), *oldest);
        *oldest += if *oldest % 2 == 0 { 2 } else { 4 };
        let id = matcher.find_unexpected(ANY, 1, 0).unwrap();
        assert_eq!(matcher.take_unexpected(id), n);
    }
}

#[test]
fn cancelling_by_key_finds_the_last_of_many_at_once() {
    let mut matcher: Matcher<u64, ()> = Matcher::new();
    for n in 0..50_000 {
        matcher.post(ANY, 0, 0, n);
    }
    for n in (0..50_000).rev() {
        let id = matcher.find_posted_by_key(|&context| context, n).unwrap();
        assert_eq!(matcher.take_posted(id), n);
    }
    assert_eq!(matcher.find_posted_by_key(|&context| context, 0), None);
}
