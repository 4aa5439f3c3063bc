// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! One collective in progress at one member.

use std::collections::HashMap;
use std::ops::Range;

use crate::atomic::Combine;
use crate::coll::plan::{How, Plan, Shape, Step};
use abi::fi_collective_op;
use base::{Error, Result};

pub struct Running<K> {
    pub what: fi_collective_op,
    pub token: K,
    plan: Plan,
    combine: Option<Combine>,
    data: Vec<u8>,
    /// Index of the next step.
    at: usize,
    /// Lengths of the frames that have not arrived yet, by sender and round.
    expected: HashMap<(usize, u32), usize>,
    /// Frames that arrived before their step.
    arrived: HashMap<(usize, u32), Vec<u8>>,
}

/// Sends a frame of a running collective: receiver, round, bytes.
pub type Sending<'a> = &'a mut dyn FnMut(usize, u32, &[u8]);

impl<K> Running<K> {
    /// Returns FI_ENOMEM if its buffer cannot be allocated.
    pub fn new(
        shape: &Shape,
        combine: Option<Combine>,
        input: impl FnOnce(&mut Vec<u8>),
        token: K,
    ) -> Result<Running<K>> {
        let plan = shape.plan();
        let mut data = Vec::new();
        data.try_reserve_exact(plan.room)
            .map_err(|_| Error::NOMEM)?;
        input(&mut data);
        if plan.rotate > 0 {
            data.rotate_left(plan.rotate);
        }
        data.resize(plan.room, 0);
        let mut expected = HashMap::new();
        for step in &plan.steps {
            if let Step::Recv {
                from, round, range, ..
            } = step
            {
                expected.insert((*from, *round), range.len());
            }
        }
        Ok(Running {
            what: shape.what,
            token,
            plan,
            combine,
            data,
            at: 0,
            expected,
            arrived: HashMap::new(),
        })
    }

    /// Returns the length of a frame that is still expected.
    pub fn expects(&self, from: usize, round: u32) -> Option<usize> {
        self.expected.get(&(from, round)).copied()
    }

    /// Returns true if a frame from this member is still expected.
    pub fn needs(&self, from: usize) -> bool {
        self.expected.keys().any(|&(sender, _)| sender == from)
    }

    /// The members from which frames are still expected, each once.
    pub fn sources(&self) -> Vec<usize> {
        let mut sources: Vec<usize> = self.expected.keys().map(|&(from, _)| from).collect();
        sources.sort_unstable();
        sources.dedup();
        sources
    }

    /// The members that wait for data of this member, each once.
    pub fn dependents(&self) -> Vec<usize> {
        let rest = self.plan.steps[self.at..].iter();
        let mut dependents: Vec<usize> = rest
            .filter_map(|step| match step {
                Step::Send { to, .. } => Some(*to),
                _ => None,
            })
            .collect();
        dependents.sort_unstable();
        dependents.dedup();
        dependents
    }

    /// Adds a frame. Returns false if it is not expected, which means that the members' calls differ.
    pub fn arrive(&mut self, from: usize, round: u32, bytes: Vec<u8>) -> bool {
        if self.expects(from, round) != Some(bytes.len()) {
            return false;
        }
        self.expected.remove(&(from, round));
        self.arrived.insert((from, round), bytes);
        true
    }

    /// Executes all steps that are possible now. Returns true if none is left.
    pub fn advance(&mut self, send: Sending<'_>) -> bool {
        while let Some(step) = self.plan.steps.get(self.at) {
            match step {
                Step::Send { to, round, range } => send(*to, *round, &self.data[range.clone()]),
                Step::Copy { from, to } => self.data.copy_within(from.clone(), *to),
                Step::Recv {
                    from,
                    round,
                    range,
                    how,
                } => {
                    let Some(mut bytes) = self.arrived.remove(&(*from, *round)) else {
                        return false;
                    };
                    let place = &mut self.data[range.clone()];
                    match (how, self.combine) {
                        (How::Combine, Some(combine)) => combine(place, &bytes),
                        (How::CombineUnder, Some(combine)) => {
                            combine(&mut bytes, place);
                            place.copy_from_slice(&bytes);
                        }
                        _ => place.copy_from_slice(&bytes),
                    }
                }
            }
            self.at += 1;
        }
        true
    }

    /// Returns the token, the buffer, and the ranges of the result in it.
    pub fn finish(self) -> (K, Vec<u8>, Vec<Range<usize>>) {
        (self.token, self.data, self.plan.output)
    }
}
