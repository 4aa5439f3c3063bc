// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Reductions whose result all members get: fi_allreduce and fi_reduce_scatter of fi_collective(3).

use std::ops::Range;

use super::{AHEAD, How, Plan, Shape, WHOLE, doubling};

impl Shape {
    /// Members beyond a power of two first give their data to a neighbour, and get the result from it in the end.
    pub(super) fn allreduce(&self) -> Plan {
        let mut plan = Plan::with_room(self.slice);
        self.reduce_to_all(&mut plan, self.slice);
        plan.output.push(0..self.slice);
        plan
    }

    fn reduce_to_all(&self, plan: &mut Plan, len: usize) {
        let all = 0..len;
        let power = 1 << self.members.ilog2();
        let extra = self.members - power;
        let paired = self.rank < 2 * extra;
        if paired && self.rank.is_multiple_of(2) {
            plan.send(self.rank + 1, FOLD, all.clone());
            return plan.recv(self.rank + 1, UNFOLD, all, How::Replace);
        }
        if paired {
            plan.recv(self.rank - 1, FOLD, all.clone(), How::CombineUnder);
        }
        let number = match paired {
            true => self.rank / 2,
            false => self.rank - extra,
        };
        let member = |number: usize| match number < extra {
            true => 2 * number + 1,
            false => number + extra,
        };
        if len <= WHOLE || len / self.element < power {
            self.exchange_whole(plan, number, power, len, member);
        } else {
            self.exchange_parts(plan, number, power, len, member);
        }
        if paired {
            plan.send(self.rank - 1, UNFOLD, all);
        }
    }

    /// Recursive doubling.
    fn exchange_whole(
        &self,
        plan: &mut Plan,
        number: usize,
        power: usize,
        len: usize,
        member: impl Fn(usize) -> usize,
    ) {
        for (round, distance) in doubling(power) {
            let partner = member(number ^ distance);
            plan.send(partner, FIRST + round, 0..len);
            plan.recv(partner, FIRST + round, 0..len, self.order(partner));
        }
    }

    /// Rabenseifner's algorithm: each round gives half of the remaining part to a partner; then the reduced parts are
    /// gathered.
    fn exchange_parts(
        &self,
        plan: &mut Plan,
        number: usize,
        power: usize,
        len: usize,
        member: impl Fn(usize) -> usize,
    ) {
        let elements = len / self.element;
        // Widened, because the product may overflow.
        let border =
            |part: usize| (elements as u128 * part as u128 / power as u128) as usize * self.element;
        let span = |parts: Range<usize>| border(parts.start)..border(parts.end);
        let mut parts = 0..power;
        let rounds: Vec<_> = doubling(power).collect();
        for &(round, distance) in rounds.iter().rev() {
            let partner = member(number ^ distance);
            let middle = parts.start + distance;
            let (low, high) = (parts.start..middle, middle..parts.end);
            let (keep, give) = match number & distance {
                0 => (low, high),
                _ => (high, low),
            };
            plan.send(partner, FIRST + round, span(give));
            plan.recv(
                partner,
                FIRST + round,
                span(keep.clone()),
                self.order(partner),
            );
            parts = keep;
        }
        for &(round, distance) in &rounds {
            let partner = member(number ^ distance);
            let theirs = match number & distance {
                0 => parts.end..parts.end + distance,
                _ => parts.start - distance..parts.start,
            };
            plan.send(partner, BACK + round, span(parts.clone()));
            plan.recv(partner, BACK + round, span(theirs.clone()), How::Replace);
            parts = parts.start.min(theirs.start)..parts.end.max(theirs.end);
        }
    }

    fn order(&self, partner: usize) -> How {
        match partner < self.rank {
            true => How::CombineUnder,
            false => How::Combine,
        }
    }

    /// A small amount of data is reduced by all members. Otherwise each slice goes directly to its member, which
    /// reduces it.
    pub(super) fn reduce_scatter(&self) -> Plan {
        let (members, slice) = (self.members, self.slice);
        let at = |slot: usize| slot * slice..(slot + 1) * slice;
        let mut plan = Plan::with_room(members * slice);
        if members * slice <= WHOLE {
            self.reduce_to_all(&mut plan, members * slice);
        } else {
            for distance in 1..members + AHEAD {
                if distance < members {
                    let to = self.after(distance);
                    plan.send(to, 0, at(to));
                }
                if distance > AHEAD {
                    let from = self.before(distance - AHEAD);
                    plan.recv(from, 0, at(self.rank), How::Combine);
                }
            }
        }
        plan.output.push(at(self.rank));
        plan
    }
}

/// First round numbers of the phases of a reduction: before the exchange, in it, on the way back, after it.
const FOLD: u32 = 0;
const FIRST: u32 = 1;
const BACK: u32 = 65;
const UNFOLD: u32 = 129;
