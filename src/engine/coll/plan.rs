// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The steps of one member of a group for one collective, over one internal buffer: fi_collective(3).
//!
//! Sends never block, so a member can execute its steps one after the other. Round numbers only distinguish the frames
//! from one member to another.

mod reduce;

use std::ops::Range;

use abi::*;

/// One collective, seen by one member.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub what: fi_collective_op,
    pub members: usize,
    pub rank: usize,
    pub root: usize,
    /// Bytes of a slice of `count` elements. Calls that distribute or collect data have one slice for each member.
    pub slice: usize,
    /// Bytes of an element.
    pub element: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    Send {
        to: usize,
        round: u32,
        range: Range<usize>,
    },
    Recv {
        from: usize,
        round: u32,
        range: Range<usize>,
        how: How,
    },
    Copy {
        from: Range<usize>,
        to: usize,
    },
}

/// How received bytes are applied to the buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum How {
    Replace,
    /// `ours = ours op theirs`.
    Combine,
    /// `ours = theirs op ours`: all members put the lower rank first, so that their results are equal.
    CombineUnder,
}

#[derive(Debug, Default)]
pub struct Plan {
    pub steps: Vec<Step>,
    /// Bytes of the buffer, which begins with the caller's data.
    pub room: usize,
    /// Number of bytes by which the caller's data is rotated to the left first.
    pub rotate: usize,
    /// The result, as ranges of the buffer.
    pub output: Vec<Range<usize>>,
}

/// Up to this many bytes, all members exchange the whole vector; above, each member reduces a part of it.
const WHOLE: usize = 16 * 1024;
/// Slices of up to this many bytes are forwarded by other members.
const THROUGH_OTHERS: usize = 256;
/// In an all-to-all exchange: number of frames that a member sends ahead of the frames that it waits for.
const AHEAD: usize = 8;

impl Shape {
    /// Returns the number of slices that the caller passes in and gets out.
    pub fn extent(&self) -> (usize, usize) {
        let is_root = self.rank == self.root;
        let at_root = |slices| if is_root { slices } else { 0 };
        match self.what {
            FI_BROADCAST => (at_root(1), usize::from(!is_root)),
            FI_ALLTOALL => (self.members, self.members),
            FI_ALLREDUCE => (1, 1),
            FI_ALLGATHER => (1, self.members),
            FI_REDUCE_SCATTER => (self.members, 1),
            FI_REDUCE => (1, at_root(1)),
            FI_SCATTER => (at_root(self.members), 1),
            FI_GATHER => (1, at_root(self.members)),
            _ => (0, 0),
        }
    }

    /// Returns the steps. Four times the size of all slices must fit into `isize`.
    pub fn plan(&self) -> Plan {
        match self.what {
            FI_BROADCAST => self.broadcast(),
            FI_ALLTOALL if self.members > 4 && self.slice <= THROUGH_OTHERS => self.bruck(),
            FI_ALLTOALL => self.pairwise(),
            FI_ALLREDUCE => self.allreduce(),
            FI_ALLGATHER => self.allgather(),
            FI_REDUCE_SCATTER => self.reduce_scatter(),
            FI_REDUCE => self.reduce(),
            FI_SCATTER => self.scatter(),
            FI_GATHER => self.gather(),
            _ => self.barrier(),
        }
    }

    /// The member `distance` places further on, around the group.
    fn after(&self, distance: usize) -> usize {
        (self.rank + distance) % self.members
    }

    fn before(&self, distance: usize) -> usize {
        (self.rank + self.members - distance % self.members) % self.members
    }

    /// Dissemination: in each round the distance doubles.
    fn barrier(&self) -> Plan {
        let mut plan = Plan::default();
        for (round, distance) in doubling(self.members) {
            plan.send(self.after(distance), round, 0..0);
            plan.recv(self.before(distance), round, 0..0, How::Replace);
        }
        plan
    }

    /// The place in a tree whose root has place 0. The parent's place is this place without its lowest bit.
    fn place(&self) -> usize {
        (self.rank + self.members - self.root) % self.members
    }

    fn member_at(&self, place: usize) -> usize {
        (place + self.root) % self.members
    }

    /// The lowest bit of the place; for the root, the first power of two that is at least the number of members.
    fn lowest_bit(&self) -> usize {
        match self.place() {
            0 => self.members.next_power_of_two(),
            place => place & place.wrapping_neg(),
        }
    }

    /// The places of the children, the one with the largest subtree first.
    fn children(&self) -> impl DoubleEndedIterator<Item = usize> + use<> {
        let (place, members) = (self.place(), self.members);
        let bits = self.lowest_bit().trailing_zeros();
        let places = (0..bits).rev().map(move |bit| place + (1 << bit));
        places.filter(move |&child| child < members)
    }

    /// The number of members in the subtree at a place below this one.
    fn subtree(&self, place: usize) -> usize {
        let span = match place {
            0 => self.members,
            _ => place & place.wrapping_neg(),
        };
        span.min(self.members - place)
    }

    fn parent(&self) -> Option<usize> {
        match self.place() {
            0 => None,
            place => Some(self.member_at(place & (place - 1))),
        }
    }

    /// Down a binomial tree.
    fn broadcast(&self) -> Plan {
        let mut plan = Plan::with_room(self.slice);
        if let Some(parent) = self.parent() {
            plan.recv(parent, 0, 0..self.slice, How::Replace);
            plan.output.push(0..self.slice);
        }
        for child in self.children() {
            plan.send(self.member_at(child), 0, 0..self.slice);
        }
        plan
    }

    /// Up a binomial tree.
    fn reduce(&self) -> Plan {
        let mut plan = Plan::with_room(self.slice);
        for child in self.children().rev() {
            plan.recv(self.member_at(child), 0, 0..self.slice, How::Combine);
        }
        match self.parent() {
            Some(parent) => plan.send(parent, 0, 0..self.slice),
            None => plan.output.push(0..self.slice),
        }
        plan
    }

    /// The buffer has the slices in order of places, with those of a subtree together.
    fn gather(&self) -> Plan {
        let (place, slice) = (self.place(), self.slice);
        let mut plan = Plan::with_room(self.subtree(place) * slice);
        for child in self.children().rev() {
            let at = (child - place) * slice;
            let range = at..at + self.subtree(child) * slice;
            plan.recv(self.member_at(child), 0, range, How::Replace);
        }
        match self.parent() {
            Some(parent) => plan.send(parent, 0, 0..plan.room),
            // The slices begin with that of the root, so that of member 0 follows those from the root on.
            None => plan.output = turned(self.members - self.root, self.members, slice),
        }
        plan
    }

    fn scatter(&self) -> Plan {
        let (place, slice) = (self.place(), self.slice);
        let mut plan = Plan::with_room(self.subtree(place) * slice);
        match self.parent() {
            Some(parent) => plan.recv(parent, 0, 0..plan.room, How::Replace),
            None => plan.rotate = self.root * slice,
        }
        for child in self.children() {
            let at = (child - place) * slice;
            let range = at..at + self.subtree(child) * slice;
            plan.send(self.member_at(child), 0, range);
        }
        plan.output.push(0..slice);
        plan
    }

    /// Bruck's algorithm: the buffer has the slices of the members from this one on; each round doubles their number.
    fn allgather(&self) -> Plan {
        let (members, slice) = (self.members, self.slice);
        let mut plan = Plan::with_room(members * slice);
        for (round, known) in doubling(members) {
            let more = known.min(members - known);
            plan.send(self.before(known), round, 0..more * slice);
            let range = known * slice..(known + more) * slice;
            plan.recv(self.after(known), round, range, How::Replace);
        }
        plan.output = turned((members - self.rank) % members, members, slice);
        plan
    }

    /// Bruck's algorithm: slice `j` has to move `j` members on; the round of a power of two moves the slices with that
    /// bit.
    fn bruck(&self) -> Plan {
        let (members, slice) = (self.members, self.slice);
        let at = |slot: usize| slot * slice..(slot + 1) * slice;
        let mut plan = Plan::with_room(2 * members * slice);
        plan.rotate = self.rank * slice;
        for (round, distance) in doubling(members) {
            let moved = || (0..members).filter(|slot| slot & distance != 0);
            for (i, slot) in moved().enumerate() {
                plan.copy(at(slot), at(members + i).start);
            }
            let pack = at(members).start..at(members + moved().count()).start;
            plan.send(self.after(distance), round, pack.clone());
            plan.recv(self.before(distance), round, pack, How::Replace);
            for (i, slot) in moved().enumerate() {
                plan.copy(at(members + i), at(slot).start);
            }
        }
        // Slot j now has the slice that the member j places before this one sent.
        plan.output = (0..members)
            .map(|from| at((self.rank + members - from) % members))
            .collect();
        plan
    }

    /// Sends each slice directly to its member.
    fn pairwise(&self) -> Plan {
        let (members, slice) = (self.members, self.slice);
        let at = |slot: usize| slot * slice..(slot + 1) * slice;
        let mut plan = Plan::with_room(2 * members * slice);
        plan.copy(at(self.rank), at(members + self.rank).start);
        for distance in 1..members + AHEAD {
            if distance < members {
                let to = self.after(distance);
                plan.send(to, 0, at(to));
            }
            if distance > AHEAD {
                let from = self.before(distance - AHEAD);
                plan.recv(from, 0, at(members + from), How::Replace);
            }
        }
        plan.output.push(at(members).start..at(2 * members).start);
        plan
    }
}

/// Rounds and powers of two below `limit`.
fn doubling(limit: usize) -> impl Iterator<Item = (u32, usize)> {
    let powers = (0..usize::BITS).map(|round| (round, 1usize << round));
    powers.take_while(move |&(_, power)| power < limit)
}

/// The ranges of `total` slices, starting with the slice `first` and wrapping around.
fn turned(first: usize, total: usize, slice: usize) -> Vec<Range<usize>> {
    vec![first * slice..total * slice, 0..first * slice]
}

impl Plan {
    fn with_room(room: usize) -> Plan {
        Plan {
            room,
            ..Plan::default()
        }
    }

    fn send(&mut self, to: usize, round: u32, range: Range<usize>) {
        self.steps.push(Step::Send { to, round, range });
    }

    fn recv(&mut self, from: usize, round: u32, range: Range<usize>, how: How) {
        self.steps.push(Step::Recv {
            from,
            round,
            range,
            how,
        });
    }

    fn copy(&mut self, from: Range<usize>, to: usize) {
        self.steps.push(Step::Copy { from, to });
    }
}
