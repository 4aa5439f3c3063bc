// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Frames of collectives: from the state machine in `engine::coll` to connections and back. docs/wire/tcp.md,
//! "Extensions".

use crate::conn::Conn;
use crate::connector::Connector;
use crate::session::State;
use crate::session::groups::{HEADROOM, Token, header_of};
use crate::transport::{DomainOf, Stream};
use abi::*;
use base::log::{Subsys, log_warn};
use base::{Error, Result};
use engine::coll::{self, Action, MAX_BYTES, MAX_MEMBERS, Shape};
use engine::domain_state::DomainState;
use engine::id_set::IdSet;
use engine::transport::{Address, Groups, Membership};
use object::ops::collective::Collective;

/// Marks the address of a group; no index of an address vector has this bit.
const GROUP: u64 = 1 << 61;

/// Returns the hash of a list of members: FNV-1a over their addresses.
fn hash_of<N: Connector>(members: &[N::Addr]) -> u64 {
    let members = members.iter();
    members.fold(START, |hash, member| hashed(hash, &N::identity(member)))
}

/// Returns the number that all members have for a group: it continues the hash of their list with how often they formed
/// a group before.
fn number_of(list: u64, before: u64) -> u64 {
    hashed(list, &before.to_be_bytes())
}

/// The FNV-1a hash of no bytes.
const START: u64 = 0xcbf2_9ce4_8422_2325;

/// Continues a hash.
fn hashed(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

impl<N: Connector> Groups for Stream<N> {
    const COLLECTIVES: bool = true;

    fn open_group(
        &mut self,
        domain: &mut DomainOf<N>,
        ep: usize,
        membership: &Membership<'_>,
    ) -> Result<u64> {
        let av = domain.eps[ep].av.ok_or(Error::NOAV)?;
        let addr = |&index: &u64| domain.avs[av].get(index).cloned().ok_or(Error::INVAL);
        let members: Vec<N::Addr> = membership.members.iter().map(addr).collect::<Result<_>>()?;
        if members.len() > MAX_MEMBERS {
            return Err(Error::MSGSIZE);
        }
        let rank = N::own_rank(&self.traffic.peers.ep(ep)?.local, &members)?;
        if let Some(parent) = membership.parent {
            let parent = self.traffic.common.groups.number(ep, parent)?;
            let lane = self.traffic.common.groups.lane(ep)?;
            lane.membership(parent)?;
            let is_theirs = |member| lane.rank_of(parent, member).is_some();
            if !members.iter().all(is_theirs) {
                return Err(Error::INVAL);
            }
        }
        let lane = self.traffic.common.lane_of(ep);
        let list = hash_of::<N>(&members);
        let number = number_of(list, lane.count_join(list));
        lane.open(number, members, rank)?;
        let address = GROUP | self.traffic.common.groups.given;
        self.traffic.common.groups.given += 1;
        self.traffic
            .common
            .groups
            .by_address
            .insert((ep, address), number);
        Ok(address)
    }

    fn join_group(
        &mut self,
        domain: &mut DomainOf<N>,
        ep: usize,
        address: u64,
        (fid, context): (usize, usize),
        alone: bool,
    ) {
        let number = self.traffic.common.groups.number(ep, address);
        let token = Token::Join { fid, context };
        let joined =
            number.and_then(|number| self.traffic.common.lane_of(ep).join(number, alone, token));
        if let Err(error) = joined {
            domain.joined(ep, fid, context, Err(error));
        }
        self.collectives_moved(domain, ep);
    }

    fn leave_group(&mut self, domain: &mut DomainOf<N>, ep: usize, address: u64) {
        if self.is_inherited() {
            return;
        }
        if let Ok(number) = self.traffic.common.groups.number(ep, address) {
            self.traffic.common.groups.by_address.remove(&(ep, address));
            self.traffic.common.lane_of(ep).leave(number);
            self.collectives_moved(domain, ep);
        }
    }

    fn shape(
        &self,
        domain: &DomainOf<N>,
        ep: usize,
        what: fi_collective_op,
        address: u64,
        root: u64,
    ) -> Result<Shape> {
        let number = self.traffic.common.groups.number(ep, address)?;
        let lane = self.traffic.common.groups.lane(ep)?;
        let (members, rank) = lane.membership(number)?;
        let root = match what {
            FI_BROADCAST | FI_REDUCE | FI_SCATTER | FI_GATHER => {
                let av = domain.eps[ep].av.ok_or(Error::NOAV)?;
                let root = domain.avs[av].get(root).ok_or(Error::INVAL)?;
                lane.rank_of(number, root).ok_or(Error::INVAL)?
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

    fn collect(&mut self, domain: &mut DomainOf<N>, ep: usize, mut call: Collective) -> Result {
        let (element, combine) = coll::check(call.what, call.datatype, call.op)?;
        let shape = self.shape(domain, ep, call.what, call.group, call.root)?;
        let total = call.slice.checked_mul(shape.members);
        if total.is_none_or(|total| total > MAX_BYTES) {
            return Err(Error::MSGSIZE);
        }
        let number = self.traffic.common.groups.number(ep, call.group)?;
        let token = Token::Call {
            context: call.context,
            output: call.output.take(),
        };
        let input = |bytes: &mut Vec<u8>| call.input.copy_out(bytes);
        domain.eps[ep].tx_pending += 1;
        let started = self.traffic.common.lane_of(ep).start(
            number,
            call.what,
            (shape.root, call.slice, element),
            combine,
            input,
            token,
        );
        if started.is_err() {
            domain.eps[ep].tx_pending -= 1;
        }
        self.collectives_moved(domain, ep);
        // A stalled stream may hold a frame of this collective.
        if !self.traffic.common.stalled.is_empty() {
            self.traffic.retry_stalled(domain);
            self.settle(domain);
        }
        started
    }
}

impl<N: Connector> Stream<N> {
    /// Carries out the actions that the collectives of an endpoint have queued.
    pub(super) fn collectives_moved(&mut self, domain: &mut DomainOf<N>, ep: usize) {
        let mut written = IdSet::default();
        while let Some(lane) = self.traffic.common.groups.lanes.get_mut(&ep)
            && let Some(action) = lane.actions.pop_front()
        {
            match action {
                Action::Ended(token, result) => ended(domain, ep, token, result),
                Action::Watch(peer) => drop(self.member(domain, ep, peer)),
                Action::Send { to, frame, bytes } => {
                    let Some(id) = self.member(domain, ep, to) else {
                        continue;
                    };
                    let header = header_of(&frame, bytes.len() - HEADROOM);
                    match self.traffic.peers[id].session.state {
                        State::Up => {
                            let (session, mut cx) = self.traffic.at(domain, id);
                            session.tx.out.send_bytes(&mut cx, &header, bytes);
                            written.insert(id);
                        }
                        _ => {
                            let frames =
                                self.traffic.peers[id].session.coll.get_or_insert_default();
                            frames.0.push_back((header, bytes));
                        }
                    }
                }
            }
        }
        for id in written.iter() {
            if self.traffic.peers.get(id).is_some_and(is_open) {
                self.with(domain, id, |session, cx| session.tx.out.flush(cx));
            }
        }
    }

    /// Returns the connection to a member and creates it if there is none. Returns `None` if the member is lost.
    fn member(&mut self, domain: &mut DomainOf<N>, ep: usize, peer: N::Addr) -> Option<usize> {
        let known = self.traffic.peers.find_ep(ep)?.conn_to(&peer);
        let id = known.unwrap_or_else(|| {
            self.call_connector(domain, |_, desk| desk.new_peer(ep, peer.clone()))
        });
        if self.traffic.peers[id].session.state == State::Resting {
            self.with(domain, id, |session, cx| session.withdraw_close(cx));
        }
        let conn = &mut self.traffic.peers[id];
        match conn.session.state {
            State::Up if !speaks(conn) => {
                self.mute(domain, id);
                None
            }
            State::Up => Some(id),
            _ => {
                conn.session.coll.get_or_insert_default();
                if conn.session.state == State::Idle
                    && !conn.clock.is_started()
                    && let Err(error) = self.begin_connect(domain, id)
                {
                    self.member_lost(domain, ep, &peer, error);
                }
                self.traffic.peers.contains(id).then_some(id)
            }
        }
    }

    /// Handles a peer that cannot take part, because it has no extensions or the other byte order.
    #[cold]
    fn mute(&mut self, domain: &mut DomainOf<N>, id: usize) {
        let conn = &mut self.traffic.peers[id];
        let (ep, peer) = (conn.session.peer.ep, conn.session.peer.addr.clone());
        conn.session.coll = None;
        log_warn!(
            self.traffic.common.source,
            Subsys::EpData,
            "{peer}: no collectives: not this library, or the other byte order"
        );
        self.member_lost(domain, ep, &peer, Error::OPNOTSUPP);
    }

    /// Handles a connection to a member that has come up.
    pub(super) fn member_up(&mut self, domain: &mut DomainOf<N>, id: usize) {
        let Some(conn) = self.traffic.peers.get_mut(id) else {
            return;
        };
        let Some(frames) = conn.session.coll.take() else {
            return;
        };
        if !speaks(conn) {
            return self.mute(domain, id);
        }
        self.with(domain, id, |session, cx| {
            for (header, bytes) in frames.0 {
                session.tx.out.send_bytes(cx, &header, bytes);
            }
            session.tx.out.flush(cx);
        });
    }

    /// Handles the loss of a peer.
    pub(super) fn member_lost(
        &mut self,
        domain: &mut DomainOf<N>,
        ep: usize,
        peer: &N::Addr,
        error: Error,
    ) {
        if let Some(lane) = self.traffic.common.groups.lanes.get_mut(&ep) {
            lane.lost(peer, error);
            self.collectives_moved(domain, ep);
        }
    }
}

/// Reports the end of a collective at this member.
fn ended<A: Address>(
    domain: &mut DomainState<A>,
    ep: usize,
    token: Token,
    result: Result<coll::Outcome>,
) {
    match token {
        Token::Join { fid, context } => domain.joined(ep, fid, context, result.map(drop)),
        Token::Call {
            context,
            mut output,
        } => {
            let result = result.map(|(bytes, pieces)| {
                for piece in pieces {
                    output.copy_in(&bytes[piece]);
                }
            });
            domain.collected(ep, context, result);
        }
    }
}

fn is_open<N: Connector>(conn: &Conn<N>) -> bool {
    conn.session.state == State::Up && !conn.session.tx.out.is_blocked()
}

/// Whether the peer takes extension frames and has the byte order of this host.
fn speaks<N: Connector>(conn: &Conn<N>) -> bool {
    conn.session.agreed.extended && !conn.session.tx.out.swaps()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/wire/tcp.md, "Collectives".
    #[test]
    fn a_group_is_numbered_by_fnv_1a_of_its_list_and_the_joins_before() {
        let list = hashed(START, b"a");
        assert_eq!(list, 0xaf63_dc4c_8601_ec8c);
        assert_eq!(
            number_of(list, 0x0102),
            hashed(START, b"a\0\0\0\0\0\0\x01\x02")
        );
    }
}
