// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The collectives of one endpoint: its groups, the running collectives, and frames that arrived early. They are
//! independent of the application's receives.
//!
//! `P` identifies a peer. `K` is the caller's token, which is returned with the result.

use core::hash::Hash;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ops::Range;

use crate::atomic::Combine;
use crate::coll::closed::Closed;
use crate::coll::plan::Shape;
use crate::coll::running::Running;
use abi::{FI_BARRIER, fi_collective_op};
use base::{Error, Result};

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The number of the group, which is the same for all members.
    pub group: u64,
    /// Counts the collectives of the group; 0 is the join.
    pub seq: u32,
    pub part: Part,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Data of a collective of this kind.
    Data { what: u8, round: u32 },
    /// The sender will send no more for this collective, because the collective has failed there.
    End(Error),
}

/// The decision on the payload of an incoming frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Receive it. `kept`: it counts as saved until then.
    Take { kept: bool },
    /// Discard it.
    Drop,
    /// Wait: there is no room for it yet.
    Wait,
    /// Refuse it: the peer must not send such a frame.
    Refuse(&'static str),
}

/// A buffer, and the ranges of it that make up the result.
pub type Outcome = (Vec<u8>, Vec<Range<usize>>);

pub enum Action<P, K> {
    /// Send a frame; `bytes` has `headroom` bytes and then the payload.
    Send {
        to: P,
        frame: Frame,
        bytes: Vec<u8>,
    },
    /// Report the loss of this peer, because a frame is expected from it.
    Watch(P),
    /// The connection to this peer has ended: nothing that is on the way arrives there, or will arrive here.
    Lost(P),
    Ended(K, Result<Outcome>),
}

struct Group<P, K> {
    members: Vec<P>,
    ranks: HashMap<P, usize>,
    rank: usize,
    /// Members whose connection has ended.
    gone: HashMap<usize, Error>,
    next: u32,
    running: BTreeMap<u32, Running<K>>,
    /// The join has succeeded.
    joined: bool,
}

/// A frame for a collective that has not begun here.
struct Early<P> {
    from: P,
    part: Part,
    bytes: Vec<u8>,
}

pub struct Lane<P, K> {
    groups: HashMap<u64, Group<P, K>>,
    /// Groups that were closed: frames that still arrive for them are dropped.
    closed: Closed,
    /// How often each list of members was joined, by the hash of the list. An entry of 16 bytes stays after the groups
    /// of its list are closed, because the other members count on, too.
    joins: HashMap<u64, u64>,
    early: Kept<P>,
    /// Number of saved bytes in early frames, with the overhead of each frame.
    saved: usize,
    limit: usize,
    headroom: usize,
    pub actions: VecDeque<Action<P, K>>,
}

/// The overhead of a saved frame.
const FRAME_COST: usize = 64;

impl<P: Clone + Eq + Hash, K> Lane<P, K> {
    /// Saves up to `limit` bytes of early frames. Leaves `headroom` bytes in front of each payload.
    pub fn new(limit: usize, headroom: usize) -> Lane<P, K> {
        Lane {
            groups: HashMap::new(),
            closed: Closed::default(),
            joins: HashMap::new(),
            early: HashMap::new(),
            saved: 0,
            limit,
            headroom,
            actions: VecDeque::new(),
        }
    }

    /// Returns how often the list of members with this hash was joined before, and counts one more join.
    pub fn count_join(&mut self, list: u64) -> u64 {
        let count = self.joins.entry(list).or_default();
        *count += 1;
        *count - 1
    }

    /// Opens a group of these members; this endpoint is the one at `rank`.
    pub fn open(&mut self, group: u64, members: Vec<P>, rank: usize) -> Result {
        if self.groups.contains_key(&group) {
            return Err(Error::ALREADY);
        }
        let ranks = members.iter().cloned().zip(0..).collect();
        let state = Group {
            members,
            ranks,
            rank,
            gone: HashMap::new(),
            next: 0,
            running: BTreeMap::new(),
            joined: false,
        };
        self.groups.insert(group, state);
        Ok(())
    }

    /// Starts the first collective of a group, which ends when all members have begun it. With `alone` it ends at once,
    /// because the application has made sure that all members take part.
    pub fn join(&mut self, group: u64, alone: bool, token: K) -> Result {
        if alone {
            let state = self.groups.get_mut(&group).ok_or(Error::INVAL)?;
            state.next += 1;
            state.joined = true;
            let done = Action::Ended(token, Ok((Vec::new(), Vec::new())));
            self.actions.push_back(done);
            return Ok(());
        }
        self.start(group, FI_BARRIER, (0, 0, 0), None, |_| {}, token)
    }

    /// Whether the peer is a member of an open group.
    pub fn has_member(&self, peer: &P) -> bool {
        self.groups
            .values()
            .any(|group| group.ranks.contains_key(peer))
    }

    /// The peers whose frames are awaited, each once.
    pub fn awaited(&self) -> HashSet<P> {
        let of_group = |group: &Group<P, K>| {
            let sources = group.running.values().flat_map(Running::sources);
            let sources: Vec<P> = sources.map(|rank| group.members[rank].clone()).collect();
            sources
        };
        self.groups.values().flat_map(of_group).collect()
    }

    /// Returns the members of an open group, and the own rank.
    pub fn members(&self, group: u64) -> Option<(&[P], usize)> {
        let state = self.groups.get(&group)?;
        Some((&state.members, state.rank))
    }

    /// Gives another number to a group in which no collective has begun. FI_EINVAL if it is closed, FI_EALREADY if the
    /// other number is that of another group.
    pub fn rename(&mut self, from: u64, to: u64) -> Result {
        if from == to {
            return Ok(());
        }
        if self.groups.contains_key(&to) {
            return Err(Error::ALREADY);
        }
        let state = self.groups.remove(&from).ok_or(Error::INVAL)?;
        self.groups.insert(to, state);
        Ok(())
    }

    /// Returns the members, and the own rank; FI_EOPBADSTATE before the join has succeeded.
    pub fn membership(&self, group: u64) -> Result<(&[P], usize)> {
        let state = self.groups.get(&group).ok_or(Error::INVAL)?;
        match state.joined {
            true => Ok((&state.members, state.rank)),
            false => Err(Error::OPBADSTATE),
        }
    }

    /// Returns the rank of a peer in a group, or `None` if it is no member.
    pub fn rank_of(&self, group: u64, peer: &P) -> Option<usize> {
        self.groups.get(&group)?.ranks.get(peer).copied()
    }

    /// Starts a collective; the tuple has the root's rank, the bytes of a slice and the bytes of an element.
    pub fn start(
        &mut self,
        group: u64,
        what: fi_collective_op,
        (root, slice, element): (usize, usize, usize),
        combine: Option<Combine>,
        input: impl FnOnce(&mut Vec<u8>),
        token: K,
    ) -> Result {
        let state = self.groups.get_mut(&group).ok_or(Error::INVAL)?;
        let shape = Shape {
            what,
            members: state.members.len(),
            rank: state.rank,
            root,
            slice,
            element,
        };
        let running = Running::new(&shape, combine, input, token)?;
        let seq = state.next;
        state.next = seq.wrapping_add(1);
        state.running.insert(seq, running);
        for early in self.early.remove(&(group, seq)).unwrap_or_default() {
            self.saved -= early.bytes.len() + FRAME_COST;
            self.deliver(group, seq, &early.from, early.part, early.bytes);
        }
        let Some((state, running)) = self.find(group, seq) else {
            return Ok(());
        };
        let sources = running.sources();
        match sources.iter().find_map(|from| state.gone.get(from)) {
            Some(&error) => self.fail(group, seq, error),
            None => {
                let watched = sources.iter().map(|&from| state.members[from].clone());
                let watched: Vec<_> = watched.map(Action::Watch).collect();
                self.actions.extend(watched);
                self.advance(group, seq);
            }
        }
        Ok(())
    }

    fn find(&mut self, group: u64, seq: u32) -> Option<(&Group<P, K>, &Running<K>)> {
        let state = self.groups.get(&group)?;
        Some((state, state.running.get(&seq)?))
    }

    /// Decides on a frame whose header has arrived.
    pub fn place(&mut self, from: &P, frame: &Frame, len: u64) -> Place {
        let (group, seq) = (frame.group, frame.seq);
        let Some(state) = self.groups.get(&group) else {
            return match self.closed.contains(group) {
                true => Place::Drop,
                false => self.keep(len),
            };
        };
        let Some(&rank) = state.ranks.get(from) else {
            return Place::Refuse("a frame for a group that the peer is no member of");
        };
        let Some(running) = state.running.get(&seq) else {
            return match seq < state.next {
                true => Place::Drop,
                false => self.keep(len),
            };
        };
        match frame.part {
            Part::End(_) => Place::Take { kept: false },
            Part::Data { what, round } => match running.expects(rank, round) {
                Some(wanted) if wanted as u64 == len && u32::from(what) == running.what.0 => {
                    Place::Take { kept: false }
                }
                _ => {
                    self.fail(group, seq, Error::INVAL);
                    Place::Drop
                }
            },
        }
    }

    fn keep(&mut self, len: u64) -> Place {
        let room = self.limit.checked_sub(self.saved + FRAME_COST);
        match (usize::try_from(len), room) {
            (Ok(len), Some(room)) if len <= room => {
                self.saved += len + FRAME_COST;
                Place::Take { kept: true }
            }
            _ => Place::Wait,
        }
    }

    /// Handles a complete frame for which `place` returned `Take`.
    pub fn arrived(&mut self, from: &P, frame: &Frame, bytes: Vec<u8>, kept: bool) {
        let (group, seq) = (frame.group, frame.seq);
        let len = bytes.len();
        let early = match self.groups.get(&group) {
            Some(state) => seq >= state.next,
            None => !self.closed.contains(group),
        };
        if early && kept {
            let early = Early {
                from: from.clone(),
                part: frame.part,
                bytes,
            };
            return self.early.entry((group, seq)).or_default().push(early);
        }
        if kept {
            self.dropped(len);
        }
        // If the group was closed meanwhile, the frame is dropped here.
        self.deliver(group, seq, from, frame.part, bytes);
        self.advance(group, seq);
    }

    /// Subtracts a saved frame of `len` bytes that will not arrive, or is not saved any more.
    pub fn dropped(&mut self, len: usize) {
        self.saved -= len + FRAME_COST;
    }

    /// Delivers a frame of a collective that has begun.
    fn deliver(&mut self, group: u64, seq: u32, from: &P, part: Part, bytes: Vec<u8>) {
        let Some(state) = self.groups.get_mut(&group) else {
            return;
        };
        let (Some(&rank), Some(running)) = (state.ranks.get(from), state.running.get_mut(&seq))
        else {
            return;
        };
        match part {
            Part::Data { what, round } => {
                if u32::from(what) != running.what.0 || !running.arrive(rank, round, bytes) {
                    self.fail(group, seq, Error::INVAL);
                }
            }
            Part::End(error) if running.needs(rank) => self.fail(group, seq, error),
            Part::End(_) => {}
        }
    }

    fn advance(&mut self, group: u64, seq: u32) {
        let Lane {
            groups,
            actions,
            headroom,
            ..
        } = self;
        let Some(state) = groups.get_mut(&group) else {
            return;
        };
        let Group {
            members,
            gone,
            running,
            ..
        } = state;
        let Some(one) = running.get_mut(&seq) else {
            return;
        };
        let what = one.what.0 as u8;
        let over = one.advance(&mut |to, round, payload| {
            if gone.contains_key(&to) {
                return;
            }
            let mut bytes = Vec::with_capacity(*headroom + payload.len());
            bytes.resize(*headroom, 0);
            bytes.extend_from_slice(payload);
            actions.push_back(Action::Send {
                to: members[to].clone(),
                frame: Frame {
                    group,
                    seq,
                    part: Part::Data { what, round },
                },
                bytes,
            });
        });
        if over && let Some(one) = running.remove(&seq) {
            state.joined |= seq == 0;
            let (token, data, pieces) = one.finish();
            actions.push_back(Action::Ended(token, Ok((data, pieces))));
        }
    }

    /// Ends a collective that cannot be completed here, and notifies the members that wait for data of this one.
    fn fail(&mut self, group: u64, seq: u32, error: Error) {
        let Some(state) = self.groups.get_mut(&group) else {
            return;
        };
        let Some(running) = state.running.remove(&seq) else {
            return;
        };
        for to in running.dependents() {
            if state.gone.contains_key(&to) {
                continue;
            }
            self.actions.push_back(Action::Send {
                to: state.members[to].clone(),
                frame: Frame {
                    group,
                    seq,
                    part: Part::End(error),
                },
                bytes: vec![0; self.headroom],
            });
        }
        let ended = Action::Ended(running.token, Err(error));
        self.actions.push_back(ended);
    }

    /// Handles the end of the connection to a peer. Frames that the peer sent before still count in the groups that are
    /// open.
    pub fn lost(&mut self, peer: &P, error: Error) {
        let mut failed = Vec::new();
        for (&group, state) in &mut self.groups {
            let Some(&rank) = state.ranks.get(peer) else {
                continue;
            };
            state.gone.entry(rank).or_insert(error);
            let running = state.running.iter();
            failed.extend(
                running
                    .filter(|(_, one)| one.needs(rank))
                    .map(|(&seq, _)| (group, seq)),
            );
        }
        failed.sort_unstable();
        for (group, seq) in failed {
            self.fail(group, seq, error);
        }
        self.actions.push_back(Action::Lost(peer.clone()));
        let groups = &self.groups;
        forget(&mut self.early, &mut self.saved, |group, early| {
            !groups.contains_key(&group) && early.from == *peer
        });
    }

    /// Leaves a group, and cancels the collectives that run in it.
    pub fn leave(&mut self, group: u64) {
        let running = self.groups.get(&group).map(|state| state.running.keys());
        let running: Vec<u32> = running.into_iter().flatten().copied().collect();
        for seq in running {
            self.fail(group, seq, Error::CANCELED);
        }
        self.groups.remove(&group);
        self.closed.add(group);
        forget(&mut self.early, &mut self.saved, |of, _| of == group);
    }

    #[cfg(test)]
    pub fn saved(&self) -> usize {
        self.saved
    }

    /// The numbers of closed groups and of lists for which there is room.
    #[cfg(test)]
    pub fn remembered(&self) -> (usize, usize) {
        (self.closed.capacity(), self.joins.capacity())
    }
}

/// Early frames, by group and collective.
type Kept<P> = HashMap<(u64, u32), Vec<Early<P>>>;

fn forget<P>(kept: &mut Kept<P>, saved: &mut usize, which: impl Fn(u64, &Early<P>) -> bool) {
    kept.retain(|&(group, _), frames| {
        frames.retain(|early| {
            let gone = which(group, early);
            if gone {
                *saved -= early.bytes.len() + FRAME_COST;
            }
            !gone
        });
        !frames.is_empty()
    });
}
