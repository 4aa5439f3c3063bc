// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Numbers of groups whose members have no addresses that all of them know. The first member chooses the number, and
//! members pass it on along a tree: the parent of a member is the one whose rank lacks the lowest bit.
//!
//! Both ends of an edge count their joins with the same ranks and the same number of members. All members join the
//! groups that they share in the same order, so this count tells which group a number is for.

use core::hash::Hash;
use std::collections::HashMap;

use super::packet::{Number, Ranks, Why};
use crate::coll::Token;
use base::Error;

/// Numbers for joins that are not called yet, at most.
const MOST: usize = 1 << 16;

pub struct Numbering<A> {
    /// Joins so far.
    counts: HashMap<(A, Ranks), u32>,
    /// Joins that wait for the number.
    wanted: HashMap<Edge<A>, Wanted<A>>,
    /// Numbers for joins that are not called yet.
    known: HashMap<Edge<A>, Result<u64, Error>>,
}

/// The edge from a member to its parent or a child, and which of their joins it is.
type Edge<A> = (A, Ranks, u32);

struct Wanted<A> {
    /// The number of the group here until then.
    own: u64,
    alone: bool,
    token: Token,
    children: Vec<Edge<A>>,
}

/// A consequence of a number.
pub enum Move<A> {
    Tell(A, Number),
    /// The group that is `own` here has this number.
    Join {
        own: u64,
        number: Result<u64, Error>,
        alone: bool,
        token: Token,
    },
}

impl<A> Default for Numbering<A> {
    fn default() -> Self {
        Numbering {
            counts: HashMap::new(),
            wanted: HashMap::new(),
            known: HashMap::new(),
        }
    }
}

impl<A: Clone + Eq + Hash> Numbering<A> {
    /// Joins a group. Returns also the member from which the number must come.
    pub fn join(
        &mut self,
        members: &[A],
        rank: usize,
        own: u64,
        alone: bool,
        token: Token,
    ) -> (Vec<Move<A>>, Option<A>) {
        let mut edge = |other: usize, parent: usize, child: usize| {
            let peer = members[other].clone();
            let ranks = Ranks {
                members: members.len() as u32,
                parent: parent as u32,
                child: child as u32,
            };
            let count = self.counts.entry((peer.clone(), ranks)).or_default();
            *count += 1;
            (peer, ranks, *count - 1)
        };
        let children = children_of(rank, members.len());
        let children = children.map(|child| edge(child, rank, child)).collect();
        let wanted = Wanted {
            own,
            alone,
            token,
            children,
        };
        if rank == 0 {
            return (wanted.resolve(Ok(own)), None);
        }
        let parent = rank & (rank - 1);
        let up = edge(parent, parent, rank);
        match self.known.remove(&up) {
            Some(number) => (wanted.resolve(number), None),
            None => {
                let peer = up.0.clone();
                self.wanted.insert(up, wanted);
                (Vec::new(), Some(peer))
            }
        }
    }

    /// Handles a number of a parent.
    pub fn arrived(&mut self, from: &A, number: &Number) -> Result<Vec<Move<A>>, Why> {
        let edge = (from.clone(), number.edge, number.nth);
        if let Some(wanted) = self.wanted.remove(&edge) {
            return Ok(wanted.resolve(number.number));
        }
        if self.known.len() >= MOST {
            return Err("numbers of too many groups");
        }
        self.known.insert(edge, number.number);
        Ok(Vec::new())
    }

    /// The members whose numbers are awaited.
    pub fn parents(&self) -> impl Iterator<Item = A> {
        self.wanted.keys().map(|(parent, ..)| parent.clone())
    }

    /// Handles the loss of a peer.
    pub fn lost(&mut self, peer: &A) -> Vec<Move<A>> {
        self.known.retain(|(from, ..), _| from != peer);
        let of_peer = self.wanted.extract_if(|(parent, ..), _| parent == peer);
        of_peer
            .flat_map(|(_, wanted)| wanted.resolve(Err(Error::CONNRESET)))
            .collect()
    }
}

impl<A> Wanted<A> {
    fn resolve(self, number: Result<u64, Error>) -> Vec<Move<A>> {
        let tell = |(peer, edge, nth)| Move::Tell(peer, Number { edge, nth, number });
        let mut moves: Vec<_> = self.children.into_iter().map(tell).collect();
        moves.push(Move::Join {
            own: self.own,
            number,
            alone: self.alone,
            token: self.token,
        });
        moves
    }
}

/// The children of a member: its rank with one more bit below the lowest.
fn children_of(rank: usize, members: usize) -> impl Iterator<Item = usize> {
    let bits = match rank {
        0 => usize::BITS - 1,
        rank => rank.trailing_zeros(),
    };
    let children = (0..bits).map(move |bit| rank | 1 << bit);
    children.take_while(move |&child| child < members)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(context: usize) -> Token {
        Token::Join { fid: 0, context }
    }

    /// Joins of all members in an order of their own, and the numbers that they get.
    #[test]
    fn every_member_gets_the_number_of_the_first() {
        for members in [1_usize, 2, 3, 7, 8, 33] {
            let mut all: Vec<Numbering<usize>> =
                (0..members).map(|_| Numbering::default()).collect();
            let names: Vec<usize> = (0..members).collect();
            let mut numbers = vec![Vec::new(); members];
            let mut moves: Vec<(usize, Move<usize>)> = Vec::new();
            for group in 0..2_u64 {
                for at in 0..members {
                    let at = (at * 5 + 3) % members;
                    let own = 100 * (group + 1) + at as u64;
                    let (more, _) = all[at].join(&names, at, own, false, token(0));
                    moves.extend(more.into_iter().map(|one| (at, one)));
                }
            }
            while let Some((at, one)) = moves.pop() {
                match one {
                    Move::Tell(to, number) => {
                        let more = all[to].arrived(&at, &number).unwrap();
                        moves.extend(more.into_iter().map(|one| (to, one)));
                    }
                    Move::Join { own, number, .. } => {
                        numbers[at].push((own / 100, number.unwrap()));
                    }
                }
            }
            for of_member in &mut numbers {
                of_member.sort_unstable();
                assert_eq!(*of_member, [(1, 100), (2, 200)]);
            }
        }
    }

    #[test]
    fn the_loss_of_a_parent_ends_the_join_and_those_of_children() {
        let mut numbering = Numbering::default();
        let (moves, parent) = numbering.join(&[10, 11, 12, 13], 2, 5, false, token(1));
        assert!(moves.is_empty());
        assert_eq!(parent, Some(10));
        let moves = numbering.lost(&10);
        let told = |one: &Move<i32>| match one {
            Move::Tell(to, number) => (*to, number.number),
            Move::Join { number, .. } => (0, *number),
        };
        let told: Vec<_> = moves.iter().map(told).collect();
        let lost = Err(Error::CONNRESET);
        assert_eq!(told, [(13, lost), (0, lost)]);
    }
}
