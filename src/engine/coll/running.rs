// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! One collective under way at one member.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::ops::Range;

use crate::abi::fi_collective_op;
use crate::base::{Error, Result};
use crate::engine::atomic::Combine;
use crate::engine::coll::plan::{How, Plan, Shape, Step};

pub struct Running<K> {
    pub what: fi_collective_op,
    pub token: K,
    plan: Plan,
    combine: Option<Combine>,
    data: Vec<u8>,
    /// The step that comes next.
    at: usize,
    /// Frames that have not come: sender, round, and their length.
    expected: HashMap<(usize, u32), usize>,
    /// Those that came before their turn.
    arrived: HashMap<(usize, u32), Vec<u8>>,
}

/// What a running collective wants to be sent: receiver, round, bytes.
pub type Sending<'a> = &'a mut dyn FnMut(usize, u32, &[u8]);

impl<K> Running<K> {
    /// FI_ENOMEM if there is no memory for its buffer.
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

    /// The length of a frame that has not come, if one is to come.
    pub fn expects(&self, from: usize, round: u32) -> Option<usize> {
        self.expected.get(&(from, round)).copied()
    }

    /// Whether anything is still to come from this member.
    pub fn needs(&self, from: usize) -> bool {
        self.expected.keys().any(|&(sender, _)| sender == from)
    }

    /// The members of whom something is still to come, each once.
    pub fn sources(&self) -> Vec<usize> {
        let mut sources: Vec<usize> = self.expected.keys().map(|&(from, _)| from).collect();
        sources.sort_unstable();
        sources.dedup();
        sources
    }

    /// The members that wait for something of us, each once.
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

    /// A frame has come; false if it is not one that this collective has here: the members do not agree.
    pub fn arrive(&mut self, from: usize, round: u32, bytes: Vec<u8>) -> bool {
        if self.expects(from, round) != Some(bytes.len()) {
            return false;
        }
        self.expected.remove(&(from, round));
        self.arrived.insert((from, round), bytes);
        true
    }

    /// Takes all steps that can be taken; true if they were the last.
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

    /// The result: bytes, and where its pieces lie in them.
    pub fn finish(self) -> (K, Vec<u8>, Vec<Range<usize>>) {
        (self.token, self.data, self.plan.output)
    }
}
