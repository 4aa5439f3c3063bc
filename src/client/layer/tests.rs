// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Ownership of an operation's memory, over a mock provider. Its descriptors are 0xde5c.

use std::sync::Arc;

use super::*;
use crate::tests::foreign::{calls, domain, fabric, info, posting_answers};
use crate::{Completion, Cq, CqAttr, Domain, Done, Ep, Info};
use abi::*;
use base::Error;
use base::iovec::lent::TestMemory;

/// An endpoint over an entry, and the queue of its completions.
struct Below {
    info: Info<'static>,
    domain: Arc<Domain>,
    ep: Arc<Ep>,
    cq: Arc<Cq>,
}

fn below(change: impl FnOnce(&mut fi_info, &mut fi_domain_attr)) -> Below {
    let info = info(change);
    let domain = domain(&fabric());
    let attr = CqAttr {
        format: FI_CQ_FORMAT_MSG,
        ..CqAttr::default()
    };
    let cq = Cq::open(&domain, &attr).unwrap();
    let ep = Ep::open(&domain, info).unwrap();
    calls();
    #[rustfmt::skip]
    let below = Below { info, domain, ep, cq };
    below
}

impl Below {
    fn registrar(&self) -> Registrar {
        Registrar::new(&self.domain, self.info)
    }

    fn pool(&self, limit: usize) -> Pool {
        Pool::new(self.registrar(), 100, FI_SEND, limit)
    }

    fn done(&self) -> Done {
        let mut done = [Completion::default()];
        assert_eq!(self.cq.read(&mut done), Ok(1));
        let [done] = done;
        done.context
    }
}

fn wants_local(_: &mut fi_info, attr: &mut fi_domain_attr) {
    attr.mr_mode = FI_MR_LOCAL;
}

#[test]
fn memory_comes_back_with_its_completion() {
    for mode in [0, FI_CONTEXT, FI_CONTEXT2] {
        let below = below(|info, attr| {
            info.mode = mode;
            wants_local(info, attr);
        });
        let mut pool = below.pool(8);
        let mut all = Operations::new(below.info);
        for n in 0..3 {
            let mut slot = pool.take().unwrap();
            slot.bytes_mut()[0] = n;
            assert!(
                all.send(&below.ep, Loan::Slot(slot, 7), 5, None, 0, n)
                    .is_ok()
            );
        }
        assert_eq!(calls()[1..], ["send 7 de5c 5"; 3]);
        for n in 0..3 {
            let Some((what, Loan::Slot(slot, 7))) = all.end(below.done()) else {
                panic!("no slot");
            };
            assert_eq!((what, slot.bytes()[0]), (n, n));
            pool.put(slot);
        }
        assert_eq!(all.len(), 0);
    }
}

#[test]
fn a_block_shows_the_messages_that_lie_in_it() {
    let below = below(wants_local);
    let block = Block::new(&below.registrar(), 4096).unwrap();
    assert_eq!(calls(), [format!("reg 4096 {FI_RECV:x}")]);
    let mut all = Operations::new(below.info);
    let posted = all.recv_many(&below.ep, block, FI_ADDR_UNSPEC, "what");
    assert!(posted.is_ok());
    assert_eq!(calls(), [format!("recvmsg 4096 de5c {FI_MULTI_RECV:x}")]);
    let done = below.done();
    let block = all.block_of(&done).unwrap().clone();
    let read_at = |number: u64, buf: usize, len| {
        let of_it = Completion {
            buf,
            len,
            block: number,
            ..Completion::default()
        };
        block.message(&of_it).map(<[u8]>::len)
    };
    let now = crate::cq::next_block();
    let message = |buf, len| read_at(now, buf, len);
    let base = block.span().base.addr();
    assert_eq!(message(base, 4096), Some(4096));
    assert_eq!(message(base + 4090, 6), Some(6));
    // Read before the block was posted.
    assert_eq!(read_at(0, base, 4096), None);
    for (buf, len) in [
        (base - 1, 1),
        (base, 4097),
        (base + 4090, 7),
        (base + 4097, 0),
        (base + 1, usize::MAX),
        (0, 0),
    ] {
        assert_eq!(message(buf, len), None, "{len} bytes");
    }
    let Some(("what", Loan::Block(same))) = all.end(done) else {
        panic!("no block");
    };
    assert!(Arc::ptr_eq(&block, &same));
}

#[test]
fn what_is_not_posted_comes_back_at_once() {
    let below = below(|_, _| ());
    let mut all = Operations::new(below.info);
    let slot = below.pool(1).take().unwrap();
    posting_answers(-FI_EAGAIN);
    let failed = all
        .send(&below.ep, Loan::Slot(slot, 100), 0, None, 0, "what")
        .err();
    posting_answers(0);
    let Failed { error, loan, what } = failed.unwrap();
    assert_eq!((error, what, all.len()), (Error::AGAIN, "what", 0));
    let Loan::Slot(slot, _) = loan else {
        panic!("no slot");
    };
    // More bytes than the slot has are refused before the provider gets them.
    calls();
    let failed = all.send(&below.ep, Loan::Slot(slot, 101), 0, None, 0, "more");
    assert_eq!(failed.err().map(|failed| failed.error), Some(Error::INVAL));
    assert_eq!(calls(), [""; 0]);
}

#[test]
fn completions_of_others_are_not_these() {
    for mode in [0, FI_CONTEXT] {
        let below = below(|info, _| info.mode = mode);
        let mut pool = below.pool(2);
        let [mut all, mut others] = [(); 2].map(|()| Operations::new(below.info));
        for table in [&mut all, &mut others] {
            let loan = Loan::Slot(pool.take().unwrap(), 1);
            assert!(table.send(&below.ep, loan, 0, None, 0, ()).is_ok());
        }
        let (first, second) = (below.done(), below.done());
        assert!(others.end(first).is_none() && all.end(second).is_none());
        assert_eq!((all.len(), others.len()), (1, 1));
        for table in [&mut all, &mut others] {
            assert_eq!(table.closed([(Closed::of(&below.ep), None)]).len(), 1);
        }
    }
}

#[test]
fn what_is_under_way_at_the_end_is_not_freed() {
    let below = below(|_, _| ());
    let memory = TestMemory::new(vec![1; 10]);
    let lent = Lent::new(&below.registrar(), memory.iov(0, 10), FI_SEND, None)
        .ok()
        .unwrap();
    let mut all = Operations::new(below.info);
    let loan = Loan::Lent(lent.clone(), 0..10);
    assert!(all.send(&below.ep, loan, 0, None, 0, ()).is_ok());
    drop(all);
    assert_eq!(Arc::strong_count(&lent), 2);
}

#[test]
fn what_was_under_way_at_a_closed_endpoint_comes_back() {
    let below = below(|_, _| ());
    let other = Ep::open(&below.domain, below.info).unwrap();
    let mut pool = below.pool(2);
    let mut all = Operations::new(below.info);
    for (ep, what) in [(&below.ep, "stays"), (&other, "ends")] {
        let loan = Loan::Slot(pool.take().unwrap(), 1);
        assert!(all.send(ep, loan, 0, None, 0, what).is_ok());
    }
    let closed = close(other).ok().unwrap();
    let ended: Vec<_> = all
        .closed([(closed, Some(&*below.cq))])
        .into_iter()
        .map(|(what, _)| what)
        .collect();
    assert_eq!((ended, all.len()), (vec!["ends"], 1));
    assert!(
        all.end(below.done())
            .is_some_and(|(what, _)| what == "stays")
    );
}

#[test]
fn completions_of_a_closed_endpoint_are_nobodys() {
    for mode in [0, FI_CONTEXT] {
        let below = below(|info, _| info.mode = mode);
        let other = Ep::open(&below.domain, below.info).unwrap();
        let mut pool = below.pool(4);
        let mut all = Operations::new(below.info);
        let mut send = |all: &mut Operations<_>, ep: &Arc<Ep>, what| {
            let loan = Loan::Slot(pool.take().unwrap(), 1);
            assert!(all.send(ep, loan, 0, None, 0, what).is_ok());
        };
        send(&mut all, &other, "before");
        let closed = close(other).ok().unwrap();
        assert_eq!(all.closed([(closed, Some(&*below.cq))]).len(), 1);
        send(&mut all, &below.ep, "after");
        assert_eq!((all.len(), all.iter().count()), (1, 1));
        // The completion of the closed endpoint is read first.
        let (first, second) = (below.done(), below.done());
        assert!(all.get(&first).is_none() && all.end(first).is_none());
        assert_eq!(all.get(&second), Some(&"after"));
        assert!(all.end(second).is_some());
        // Then the entry of that operation is free again.
        assert_eq!(all.places(), 1);
        all.read_empty(&below.cq);
        assert_eq!((all.places(), all.len()), (0, 0));
    }
}

#[test]
fn endpoints_that_are_closed_together_cost_one_pass() {
    let below = below(|_, _| ());
    let others = [(); 3].map(|()| Ep::open(&below.domain, below.info).unwrap());
    let mut pool = below.pool(4);
    let mut all = Operations::new(below.info);
    for (ep, what) in others.iter().chain([&below.ep]).zip(0..) {
        let loan = Loan::Slot(pool.take().unwrap(), 1);
        assert!(all.send(ep, loan, 0, None, 0, what).is_ok());
    }
    let [first, second, third] = others.map(|ep| close(ep).ok().unwrap());
    // The completions of the second endpoint are not read any more.
    let cq = Some(&*below.cq);
    let ended = all.closed([(first, cq), (second, None), (third, cq)]);
    let ended: Vec<_> = ended.into_iter().map(|(what, _)| what).collect();
    assert_eq!((ended, all.len(), all.places()), (vec![0, 1, 2], 1, 3));
}

#[test]
fn a_table_has_no_more_operations_than_the_queue_has_room_for() {
    let below = below(|_, _| ());
    let mut pool = below.pool(3);
    let mut all = Operations::new(below.info);
    all.limit(2);
    let mut send = |all: &mut Operations<_>| {
        let loan = Loan::Slot(pool.take().unwrap(), 1);
        all.send(&below.ep, loan, 0, None, 0, ())
            .map_err(|failed| failed.error)
    };
    assert_eq!((send(&mut all), send(&mut all)), (Ok(()), Ok(())));
    calls();
    assert_eq!(send(&mut all), Err(Error::AGAIN));
    assert_eq!(calls(), [""; 0]);
    assert!(all.end(below.done()).is_some());
}

#[test]
fn a_pool_registers_in_chunks_and_has_a_limit() {
    let below = below(wants_local);
    let mut pool = below.pool(2);
    let (first, second) = (pool.take().unwrap(), pool.take().unwrap());
    assert_eq!(pool.take().err(), Some(Error::AGAIN));
    assert_ne!(first.bytes().as_ptr(), second.bytes().as_ptr());
    pool.put(first);
    assert!(pool.take().is_ok());
    assert_eq!(calls(), [format!("reg 256 {FI_SEND:x}")]);
}

#[test]
fn slots_have_room_for_what_belongs_to_the_provider() {
    let below = below(|info, _| {
        info.mode = FI_MSG_PREFIX;
        // SAFETY: attributes are numbers and pointers, for which zeros are values.
        let ep: &mut fi_ep_attr = unsafe { Box::leak(Box::new(core::mem::zeroed())) };
        ep.msg_prefix_size = 24;
        info.ep_attr = ep;
    });
    let mut all = Operations::new(below.info);
    let slot = below.pool(1).take().unwrap();
    assert_eq!(slot.bytes().len(), 100);
    assert!(
        all.send(&below.ep, Loan::Slot(slot, 7), 1, None, 0, ())
            .is_ok()
    );
    assert_eq!(calls(), ["send 31 0 1"]);
    assert!(all.end(below.done()).is_some());
}

#[test]
fn one_side_may_have_no_room_for_the_provider() {
    let below = below(|info, _| {
        info.mode = FI_MSG_PREFIX;
        // SAFETY: attributes are numbers and pointers, for which zeros are values.
        let ep: &mut fi_ep_attr = unsafe { Box::leak(Box::new(core::mem::zeroed())) };
        // SAFETY: as above.
        let rx: &mut fi_rx_attr = unsafe { Box::leak(Box::new(core::mem::zeroed())) };
        (ep.msg_prefix_size, rx.mode) = (24, FI_MSG_PREFIX);
        (info.ep_attr, info.rx_attr) = (ep, rx);
    });
    let [sends, receives] = [FI_SEND, FI_RECV].map(|access| below.info.msg_prefix(access));
    assert_eq!((sends, receives), (0, 24));
    let mut all = Operations::new(below.info);
    let slot = below.pool(1).take().unwrap();
    let loan = Loan::Slot(slot, 7);
    assert!(all.send(&below.ep, loan, 1, None, 0, ()).is_ok());
    assert_eq!(calls(), ["send 7 0 1"]);
    assert!(all.end(below.done()).is_some());
}

#[test]
fn a_part_of_the_application_s_memory_is_what_is_sent() {
    for local in [false, true] {
        let below = below(|_, attr| attr.mr_mode = if local { FI_MR_LOCAL } else { 0 });
        let memory = TestMemory::new(vec![1; 100]);
        let mut iov = memory.iov(0, 10);
        assert!(iov.push(memory.iov(20, 30).into_one().unwrap()));
        assert!(iov.push(memory.iov(60, 40).into_one().unwrap()));
        iov.advance(4);
        let lent = Lent::new(&below.registrar(), iov, FI_SEND, None)
            .ok()
            .unwrap();
        assert_eq!(lent.len(), 76);
        let mut all = Operations::new(below.info);
        let slot = below.pool(1).take().unwrap();
        let desc = if local { "de5c" } else { "0" };
        calls();
        let loan = Loan::Both(slot, 64, lent.clone(), 5..40);
        assert!(all.send(&below.ep, loan, 0, None, 0, ()).is_ok());
        let pieces = [64, 1, 30, 4].map(|len| format!("piece {len} {desc}"));
        assert_eq!(calls(), pieces);
        assert!(all.end(below.done()).is_some());
        // Beyond its end there is nothing to send.
        let loan = Loan::Lent(lent.clone(), 70..77);
        let failed = all.send(&below.ep, loan, 0, None, 0, ());
        assert_eq!(failed.err().map(|failed| failed.error), Some(Error::INVAL));
        assert_eq!(lent.take_back().map(|iov| iov.remaining()), Some(76));
    }
}

#[test]
fn memory_of_a_region_of_the_application_is_not_registered_again() {
    let below = below(wants_local);
    let memory = TestMemory::new(vec![1; 100]);
    let of_all = |access| {
        let region = [memory.registered()];
        let registered = below
            .registrar()
            .register_application(&region, access, None, 0);
        KnownRegion {
            below: registered.unwrap(),
            place: memory.iov(0, 100).spans().next().unwrap(),
            access,
        }
    };
    let lend = |iov, access, known: &KnownRegion| {
        calls();
        let lent = Lent::new(&below.registrar(), iov, access, Some(known));
        (calls(), lent.ok().unwrap())
    };
    let known = of_all(FI_SEND | FI_READ | FI_REMOTE_READ | FI_REMOTE_WRITE);
    for access in [FI_SEND, FI_READ, FI_REMOTE_READ] {
        let (registrations, lent) = lend(memory.iov(10, 90), access, &known);
        assert_eq!(registrations, [""; 0]);
        let place = lent.remote().next().unwrap();
        assert_eq!(
            (place.addr, place.len, place.key),
            (10, 90, known.below.key())
        );
        calls();
        drop(lent);
        assert_eq!(calls(), [""; 0], "the region is the application's");
    }
    // Writes of peers are counted for the application's region, and rights must suffice.
    let of_sends = of_all(FI_SEND);
    for (access, known) in [(FI_REMOTE_WRITE, &known), (FI_RECV, &of_sends)] {
        let (registrations, _lent) = lend(memory.iov(0, 100), access, known);
        assert_eq!(registrations.len(), 1, "{registrations:?}");
    }
    let part = KnownRegion {
        place: memory.iov(20, 10).spans().next().unwrap(),
        ..of_all(FI_SEND)
    };
    for (start, len) in [(19, 2), (29, 2), (30, 1), (0, 100)] {
        let (registrations, _lent) = lend(memory.iov(start, len), FI_SEND, &part);
        assert_eq!(registrations.len(), 1, "{start}..{}", start + len);
    }
}

#[test]
fn memory_is_taken_back_when_nobody_below_has_it() {
    let below = below(wants_local);
    let memory = TestMemory::new(vec![1; 8]);
    let lent = Lent::new(&below.registrar(), memory.iov(0, 8), FI_SEND, None)
        .ok()
        .unwrap();
    assert!(lent.clone().take_back().is_none());
    calls();
    assert!(lent.take_back().is_some());
    assert_eq!(calls(), ["close mr"]);
}

#[test]
fn peers_find_memory_where_the_provider_counts_from() {
    for (mr_mode, is_virtual) in [(0, false), (FI_MR_VIRT_ADDR, true), (FI_MR_BASIC, true)] {
        let below = below(|_, attr| attr.mr_mode = mr_mode);
        let memory = TestMemory::new(vec![1; 100]);
        let mut iov = memory.iov(0, 10);
        assert!(iov.push(memory.iov(20, 0).into_one().unwrap()));
        assert!(iov.push(memory.iov(60, 40).into_one().unwrap()));
        let places: Vec<_> = iov.spans().map(|place| place.start as u64).collect();
        let lent = Lent::new(&below.registrar(), iov, FI_REMOTE_READ, None)
            .ok()
            .unwrap();
        let remote: Vec<_> = lent.remote().map(|iov| (iov.addr, iov.len)).collect();
        let at = |i: usize| if is_virtual { places[i] } else { 0 };
        assert_eq!(remote, [(at(0), 10), (at(2), 40)]);
        let keys: Vec<_> = lent.remote().map(|iov| iov.key).collect();
        assert_ne!(keys[0], keys[1]);
    }
}

#[test]
fn where_regions_belong_to_endpoints_they_are_bound_and_enabled() {
    let below = below(|_, attr| attr.mr_mode = FI_MR_LOCAL | FI_MR_ENDPOINT);
    let mut pool = Pool::new(below.registrar(), 64, FI_SEND, 1);
    let mut all = Operations::new(below.info);
    let other = Ep::open(&below.domain, below.info).unwrap();
    let slot = pool.take().unwrap();
    assert_eq!(calls(), [""; 0], "nobody uses it yet");
    let mut send = |ep: &Arc<Ep>, slot| {
        assert!(all.send(ep, Loan::Slot(slot, 64), 0, None, 0, ()).is_ok());
        let Some(((), Loan::Slot(slot, _))) = all.end(below.done()) else {
            panic!("no slot");
        };
        slot
    };
    let (enable, reg) = (
        format!("control {FI_ENABLE}"),
        format!("reg 64 {FI_SEND:x}"),
    );
    let first = [&reg[..], "bind 0", &enable, "send 64 de5c 0"];
    let slot = send(&below.ep, slot);
    assert_eq!(calls(), first);
    let slot = send(&below.ep, slot);
    assert_eq!(calls(), ["send 64 de5c 0"], "it has a region there");
    let slot = send(&other, slot);
    assert_eq!(calls(), first);
    pool.put(slot);
    pool.forget(&below.ep);
    assert_eq!(calls(), ["close mr"]);
    assert!(close(below.ep.clone()).is_err(), "two handles");
    let Below { ep, .. } = below;
    calls();
    assert!(close(ep).is_ok(), "no region keeps it open");
    drop(pool);
    assert_eq!(calls(), ["close ep", "close mr"]);
}
