// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Groups and collectives of endpoints: fi_collective(3). `coll` computes, the transport moves the frames.

use crate::coll::groups::{address_at, hash_of, number_of};
use crate::coll::{self, Action, Lane, MAX_BYTES, MAX_MEMBERS, Outcome, Shape, Token};
use crate::domain::State;
use crate::domain_state::DomainState;
use crate::transport::{Address, Transport};
use abi::*;
use base::{Error, Result};
use object::ops::collective::Collective;
use sys::random::unpredictable;

/// The members of a new group.
pub struct Membership<'a> {
    /// Indexes into the endpoint's address vector, in order.
    pub members: &'a [u64],
    /// A group that contains all members.
    pub parent: Option<u64>,
    /// The index of the endpoint itself, if the vector belongs to another provider.
    pub own: Option<u64>,
}

impl<T: Transport> State<T> {
    /// Prepares a group that an endpoint is going to join. Returns the group's address.
    pub(super) fn open_group(&mut self, ep: usize, membership: &Membership<'_>) -> Result<u64> {
        let State { domain, transport } = self;
        let av = domain.eps[ep].av.ok_or(Error::NOAV)?;
        let addr = |&index: &u64| address_at::<T>(domain, av, index).ok_or(Error::INVAL);
        let members: Vec<T::Addr> = membership.members.iter().map(addr).collect::<Result<_>>()?;
        if members.len() > MAX_MEMBERS {
            return Err(Error::MSGSIZE);
        }
        let rank = match membership.own {
            None => transport.own_rank(ep, &members)?,
            Some(own) => {
                let indexes = &mut membership.members.iter();
                indexes
                    .position(|&index| index == own)
                    .ok_or(Error::INVAL)?
            }
        };
        if let Some(parent) = membership.parent {
            let parent = domain.groups.number(ep, parent)?;
            let lane = domain.groups.lane(ep).ok_or(Error::INVAL)?;
            lane.membership(parent)?;
            let is_theirs = |member| lane.rank_of(parent, member).is_some();
            if !members.iter().all(is_theirs) {
                return Err(Error::INVAL);
            }
        }
        let lane = domain.groups.lane_mut(ep).ok_or(Error::INVAL)?;
        let number = match T::NAMELESS {
            false => {
                let list = hash_of(members.iter().map(T::identity));
                number_of(list, lane.count_join(list))
            }
            true => u64::from_ne_bytes(*unpredictable()?.first_chunk().ok_or(Error::IO)?),
        };
        lane.open(number, members, rank)?;
        Ok(domain.groups.name(ep, number))
    }

    /// Joins the group asynchronously; `alone` means without contacting the other members. `token` has the group's
    /// handle and the context.
    pub(super) fn join_group(
        &mut self,
        ep: usize,
        address: u64,
        (fid, context): (usize, usize),
        alone: bool,
    ) {
        let State { domain, transport } = self;
        if T::NAMELESS
            && let Ok(number) = domain.groups.number(ep, address)
        {
            let token = Token::Join { fid, context };
            return transport.begin_join(domain, ep, number, alone, token);
        }
        let joined = lane(domain, ep, address).and_then(|(lane, number)| {
            let token = Token::Join { fid, context };
            lane.join(number, alone, token)
        });
        if let Err(error) = joined {
            domain.joined(ep, fid, context, Err(error));
        }
        transport.groups_moved(domain, ep);
    }

    /// Leaves the group, because its handle is closed.
    pub(super) fn leave_group(&mut self, ep: usize, address: u64) {
        let State { domain, transport } = self;
        if let Ok((lane, number)) = lane(domain, ep, address) {
            lane.leave(number);
            domain.groups.unname(ep, address);
            transport.groups_moved(domain, ep);
        }
    }

    /// Returns the parameters of a collective for this endpoint, except the sizes.
    pub(super) fn shape(
        &self,
        ep: usize,
        what: fi_collective_op,
        address: u64,
        root: u64,
    ) -> Result<Shape> {
        let domain = &self.domain;
        let number = domain.groups.number(ep, address)?;
        let lane = domain.groups.lane(ep).ok_or(Error::INVAL)?;
        let (members, rank) = lane.membership(number)?;
        let root = match what {
            FI_BROADCAST | FI_REDUCE | FI_SCATTER | FI_GATHER => {
                let av = domain.eps[ep].av.ok_or(Error::NOAV)?;
                let root = address_at::<T>(domain, av, root).ok_or(Error::INVAL)?;
                lane.rank_of(number, &root).ok_or(Error::INVAL)?
            }
            _ => 0,
        };
        Ok(Shape {
            what,
            members: members.len(),
            rank,
            root,
            slice: 0,
            element: 0,
        })
    }

    pub(super) fn collect(&mut self, ep: usize, mut call: Collective) -> Result {
        let (element, combine) = coll::check(call.what, call.datatype, call.op)?;
        let shape = self.shape(ep, call.what, call.group, call.root)?;
        let total = call.slice.checked_mul(shape.members);
        if total.is_none_or(|total| total > MAX_BYTES) {
            return Err(Error::MSGSIZE);
        }
        let State { domain, transport } = self;
        let (lane, number) = lane(domain, ep, call.group)?;
        let token = Token::Call {
            context: call.context,
            output: call.output.take(),
        };
        let input = |bytes: &mut Vec<u8>| call.input.copy_out(bytes);
        let sizes = (shape.root, call.slice, element);
        let started = lane.start(number, call.what, sizes, combine, input, token);
        if started.is_ok() {
            domain.eps[ep].tx_pending += 1;
        }
        transport.groups_moved(domain, ep);
        started
    }
}

/// Returns the collectives of an endpoint, and the number of the group at this address.
fn lane<A: Address>(
    domain: &mut DomainState<A>,
    ep: usize,
    address: u64,
) -> Result<(&mut Lane<A, Token>, u64)> {
    let number = domain.groups.number(ep, address)?;
    let lane = domain.groups.lane_mut(ep).ok_or(Error::INVAL)?;
    Ok((lane, number))
}

impl<A: Address> DomainState<A> {
    /// Reports the end of a collective at this member.
    pub fn collective_over(&mut self, ep: usize, token: Token, result: Result<Outcome>) {
        match token {
            Token::Join { fid, context } => self.joined(ep, fid, context, result.map(drop)),
            Token::Call {
                context,
                mut output,
            } => {
                let result = result.map(|(bytes, pieces)| {
                    for piece in pieces {
                        output.copy_in(&bytes[piece]);
                    }
                });
                self.collected(ep, context, result);
            }
        }
    }

    /// The next action of an endpoint's collectives.
    pub fn next_action(&mut self, ep: usize) -> Option<Action<A, Token>> {
        self.groups.lane_mut(ep)?.actions.pop_front()
    }

    /// The connection to a peer has ended, which may be a member of groups.
    pub fn member_lost(&mut self, ep: usize, peer: &A, error: Error) {
        if let Some(lane) = self.groups.lane_mut(ep) {
            lane.lost(peer, error);
        }
    }
}
