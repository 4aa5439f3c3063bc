// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Posted operations: the rail that leads to the destination, and the call there.

use super::domain::Linked;
use super::held::{Cx, Flight, Route, State};
use super::info::IOV_LIMIT;
use abi::*;
use base::flags::flags;
use base::{Error, OpFlags, Result};
use client::layer::{AtomicCall, Call, Failed, Lent, Loan};
use engine::atomic::type_size;
use engine::domain_state::TxOp;
use engine::peer::post::{Posts, may_post};
use object::ops::atomic::Atomic;
use object::ops::transfer::{OneTx, RemoteSeg, Tx, What};

/// Flags of messages that the short way does not handle.
const SPECIAL: OpFlags = flags!(OpFlags:
    DELIVERY_COMPLETE | TRANSMIT_COMPLETE | COMMIT_COMPLETE | MATCH_COMPLETE | FENCE | TRIGGER
);

/// Flags that the providers below get.
const PASSED: OpFlags = flags!(OpFlags:
    INJECT | INJECT_COMPLETE | TRANSMIT_COMPLETE | DELIVERY_COMPLETE
);

impl Linked {
    /// Sends a copied message below at once. Returns false if nothing was done and `post` has to handle it.
    #[inline]
    pub fn post_short(&mut self, domain: &mut State, ep: usize, tx: &OneTx) -> bool {
        if tx.piece.len() > self.limits.inject
            || tx.flags.intersects(SPECIAL.union(OpFlags::REMOTE_CQ_DATA))
        {
            return false;
        }
        let Some(endpoint) = self.eps.get(ep) else {
            return false;
        };
        let route = match self.held.route(ep, tx.dest) {
            Some(route) if route.is_up => *route,
            _ => return false,
        };
        // Completions keep the order of their operations.
        if !may_post(domain, ep) || domain.eps[ep].tx_pending > 0 {
            return false;
        }
        let below = &endpoint.rails[route.rail].ep;
        let mut cx = Cx {
            held: &mut self.held,
            domain,
        };
        let sent = self.desk.enter(&mut cx, || match tx.what {
            What::Tagged => below.tinject_source(&tx.piece, route.place, tx.tag),
            _ => below.inject_source(&tx.piece, route.place),
        });
        if sent.is_err() {
            return false;
        }
        domain.sent(ep, &TxOp::of_one(ep, tx));
        true
    }

    /// The way to a destination.
    fn route(&mut self, domain: &State, port: usize, dest: u64) -> Result<Route> {
        let endpoint = self.eps.get_mut(port).ok_or(Error::INVAL)?;
        let at = usize::try_from(dest).map_err(|_| Error::INVAL)?;
        if let Some(route) = self.held.route(port, dest) {
            return Ok(*route);
        }
        let av = domain.eps[port].av.ok_or(Error::NOAV)?;
        let addr = domain.avs[av].get(dest).ok_or(Error::INVAL)?;
        let number = self.held.book.number(addr).ok_or(Error::HOSTUNREACH)?;
        let known = self.held.book.get(number).ok_or(Error::HOSTUNREACH)?;
        let leads = |rail: usize| known.places[rail].first().copied();
        let count = self.rails.len();
        let place = |rail: usize| leads(rail).map(|place| (rail, place));
        let near = (0..count)
            .filter(|&rail| self.rails[rail].is_shm)
            .find_map(place);
        let found = near.or_else(|| {
            let turn = (0..count).map(|step| (endpoint.next + step) % count);
            let found = turn
                .filter(|&rail| !self.rails[rail].is_shm)
                .find_map(place);
            if let Some((rail, _)) = found {
                endpoint.next = rail + 1;
            }
            found
        });
        let (rail, place) = found.ok_or(Error::HOSTUNREACH)?;
        let route = Route {
            rail,
            place,
            is_up: false,
            is_heard: false,
        };
        self.held.set_route(port, at, Some(route));
        Ok(route)
    }

    /// Whether a destination is an endpoint of this library.
    fn is_ours(&self, domain: &State, port: usize, dest: u64) -> bool {
        let addr = domain.eps[port].av.and_then(|av| domain.avs[av].get(dest));
        addr.is_some_and(|addr| addr.name().origin.is_some())
    }

    fn call_below(
        &mut self,
        domain: &mut State,
        port: usize,
        route: Route,
        tx: &mut Tx<'_>,
        op: TxOp,
    ) -> Result {
        let endpoint = self.eps.get(port).ok_or(Error::INVAL)?;
        let below = &endpoint.rails[route.rail].ep;
        let registrar = &self.rails[route.rail].registrar;
        let len = tx.iov.remaining();
        let access = match tx.what {
            What::Read => FI_READ,
            What::Write => FI_WRITE,
            _ => FI_SEND,
        };
        let lent = match Lent::new(registrar, tx.iov.take(), access, None) {
            Ok(lent) => lent,
            Err((iov, error)) => {
                tx.iov = iov;
                return Err(error);
            }
        };
        let flight = Flight::Of { op, dest: tx.dest };
        let begun = self.held.ops.begin(below, Loan::Lent(lent, 0..len), flight);
        let failed = match begun {
            Ok(begun) => {
                let number = begun.number();
                let flags = (tx.flags & PASSED).bits() | FI_COMPLETION;
                let data = tx
                    .flags
                    .contains(OpFlags::REMOTE_CQ_DATA)
                    .then_some(tx.data);
                let remote: Vec<fi_rma_iov> = tx
                    .target
                    .iter()
                    .map(|seg| fi_rma_iov {
                        addr: seg.addr,
                        len: seg.len,
                        key: seg.key,
                    })
                    .collect();
                let remote = remote.as_slice();
                // Without special flags the plain calls do, whose completions are reported anyway.
                let plain = !tx.flags.intersects(PASSED);
                let flags = if plain { 0 } else { flags };
                let call = match tx.what {
                    What::Tagged => Call::Send {
                        tag: Some(tx.tag),
                        data,
                        flags: if data.is_some() {
                            flags | FI_COMPLETION
                        } else {
                            flags
                        },
                    },
                    What::Msg => Call::Send {
                        tag: None,
                        data,
                        flags: if data.is_some() {
                            flags | FI_COMPLETION
                        } else {
                            flags
                        },
                    },
                    What::Read => Call::Read {
                        remote,
                        flags: flags | FI_COMPLETION,
                    },
                    _ => Call::Write {
                        remote,
                        data,
                        flags: flags | FI_COMPLETION,
                    },
                };
                domain.eps[op.ep()].tx_pending += 1;
                let mut cx = Cx {
                    held: &mut self.held,
                    domain,
                };
                let posted = self.desk.enter(&mut cx, || begun.post(route.place, &call));
                match posted {
                    Ok(()) => return Ok(()),
                    Err(error) => {
                        domain.eps[op.ep()].tx_pending -= 1;
                        self.held.ops.withdraw(number, error)
                    }
                }
            }
            Err(failed) => failed,
        };
        let Failed { error, loan, .. } = failed;
        if let Loan::Lent(lent, _) = loan
            && let Some(iov) = lent.take_back()
        {
            tx.iov = iov;
        }
        Err(error)
    }
}

impl Linked {
    fn call_atomic(
        &mut self,
        domain: &mut State,
        port: usize,
        route: Route,
        atomic: &mut Atomic<'_>,
        op: TxOp,
    ) -> Result {
        let size = type_size(atomic.datatype).ok_or(Error::OPNOTSUPP)?;
        let endpoint = self.eps.get(port).ok_or(Error::INVAL)?;
        let below = &endpoint.rails[route.rail].ep;
        let registrar = &self.rails[route.rail].registrar;
        let memory = [
            &mut atomic.operands,
            &mut atomic.compare,
            &mut atomic.result,
        ];
        let lent = memory.map(|iov| Lent::new(registrar, iov.take(), FI_SEND | FI_RECV, None));
        let mut error = None;
        let lent = lent.map(|lent| {
            lent.unwrap_or_else(|(iov, failed)| {
                error = Some(failed);
                Lent::unregistered(iov)
            })
        });
        let remote = |seg: &RemoteSeg| fi_rma_ioc {
            addr: seg.addr,
            count: seg.len / size,
            key: seg.key,
        };
        let remote: Vec<fi_rma_ioc> = atomic.target.iter().map(remote).collect();
        let has_data = atomic.flags.contains(OpFlags::REMOTE_CQ_DATA);
        let data = if has_data { FI_REMOTE_CQ_DATA } else { 0 };
        let call = AtomicCall {
            family: atomic.family,
            datatype: atomic.datatype,
            op: atomic.op,
            size,
            remote: &remote,
            data: atomic.data,
            flags: (atomic.flags & PASSED).bits() | FI_COMPLETION | data,
        };
        let flight = Flight::Of {
            op,
            dest: atomic.dest,
        };
        let loan = Loan::Operands(Box::new(lent));
        let begun = match error {
            Some(error) => Err(Failed {
                error,
                loan,
                what: flight,
            }),
            None => self.held.ops.begin(below, loan, flight),
        };
        let failed = match begun {
            Ok(begun) => {
                let number = begun.number();
                domain.eps[op.ep()].tx_pending += 1;
                let mut cx = Cx {
                    held: &mut self.held,
                    domain,
                };
                match self
                    .desk
                    .enter(&mut cx, || begun.post_atomic(route.place, &call))
                {
                    Ok(()) => return Ok(()),
                    Err(error) => {
                        domain.eps[op.ep()].tx_pending -= 1;
                        self.held.ops.withdraw(number, error)
                    }
                }
            }
            Err(failed) => failed,
        };
        if let Loan::Operands(lent) = failed.loan {
            let memory = [
                &mut atomic.operands,
                &mut atomic.compare,
                &mut atomic.result,
            ];
            for (iov, lent) in memory.into_iter().zip(*lent) {
                *iov = lent.take_back().unwrap_or_default();
            }
        }
        Err(failed.error)
    }
}

impl Posts for Linked {
    const LIMITED: OpFlags = flags!(OpFlags: MATCH_COMPLETE | COMMIT_COMPLETE);
    const HAS_FENCES: bool = false;
    const MOST_SEGMENTS: usize = IOV_LIMIT;

    fn poll_for_room(&mut self, domain: &mut State) -> bool {
        self.poll(domain);
        true
    }

    fn session_for(&mut self, domain: &mut State, port: usize, dest: u64) -> Result<usize> {
        self.route(domain, port, dest)?;
        usize::try_from(dest).map_err(|_| Error::INVAL)
    }

    fn start(
        &mut self,
        domain: &mut State,
        port: usize,
        dest: usize,
        tx: &mut Tx<'_>,
        op: TxOp,
        _context: u8,
    ) -> Result {
        let route = self.route(domain, port, dest as u64)?;
        // Messages of collectives come from a context of the endpoint.
        let is_of_group = op.ep() != port;
        if is_of_group && !self.is_ours(domain, port, dest as u64) {
            return Err(Error::OPNOTSUPP);
        }
        let rails = match is_of_group {
            false => self.stripes_of(route, tx),
            true => None,
        };
        if let Some(rails) = rails {
            let mut offered = self.offer(domain, port, (route, &rails), tx, op);
            if offered == Err(Error::AGAIN) {
                self.poll(domain);
                offered = self.offer(domain, port, (route, &rails), tx, op);
            }
            return offered;
        }
        let mut posted = self.call_below(domain, port, route, tx, op);
        if posted == Err(Error::AGAIN) {
            // The program may only repeat this call.
            self.poll(domain);
            posted = self.call_below(domain, port, route, tx, op);
        }
        posted
    }

    fn start_atomic(
        &mut self,
        domain: &mut State,
        port: usize,
        dest: usize,
        atomic: &mut Atomic<'_>,
        op: TxOp,
    ) -> Result {
        let route = self.route(domain, port, dest as u64)?;
        let mut posted = self.call_atomic(domain, port, route, atomic, op);
        if posted == Err(Error::AGAIN) {
            self.poll(domain);
            posted = self.call_atomic(domain, port, route, atomic, op);
        }
        posted
    }
}
