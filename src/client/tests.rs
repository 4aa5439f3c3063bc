// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Handles over a mock provider, and over this library's provider tcp.

pub mod foreign;

use core::mem::offset_of;
use core::ptr::{null_mut, without_provenance_mut};
use std::os::fd::AsRawFd;
use std::sync::Arc;

use super::*;
use foreign::{Read, calls, closing_fails, domain, fabric, info, next_read, posting_answers};

fn queue(domain: &Arc<Domain>, format: fi_cq_format) -> Arc<Cq> {
    let attr = CqAttr {
        format,
        wait_obj: FI_WAIT_FD,
        ..CqAttr::default()
    };
    Cq::open(domain, &attr).unwrap()
}

fn endpoint() -> Arc<Ep> {
    Ep::open(&domain(&fabric()), info(|_, _| ())).unwrap()
}

fn numbered(context: usize) -> Context {
    // SAFETY: the provider of these tests does not dereference it.
    unsafe { Context::new(without_provenance_mut(context)) }
}

#[test]
fn children_keep_their_parents_open() {
    let fabric = fabric();
    let domain = domain(&fabric);
    let cq = queue(&domain, FI_CQ_FORMAT_MSG);
    let ep = Ep::open(&domain, info(|_, _| ())).unwrap();
    ep.bind(&cq, FI_SEND).unwrap();
    calls();
    drop((fabric, domain, cq));
    assert_eq!(calls(), [""; 0]);
    drop(ep);
    assert_eq!(
        calls(),
        ["close ep", "close cq", "close domain", "close fabric"]
    );
}

#[test]
fn closing_says_how_it_went() {
    let fabric = fabric();
    let domain = domain(&fabric);
    let (fabric, error) = fabric.close().err().unwrap();
    assert_eq!(error, Error::BUSY, "the domain holds it");
    closing_fails(FI_CLASS_DOMAIN, -FI_EBUSY);
    let (domain, error) = domain.close().err().unwrap();
    assert_eq!(error, Error::BUSY, "the provider says so");
    closing_fails(FI_CLASS_DOMAIN, 0);
    assert!(domain.close().is_ok() && fabric.close().is_ok());
    assert_eq!(calls(), ["close domain", "close fabric"]);
}

#[test]
fn what_an_object_that_cannot_be_closed_uses_stays() {
    let domain = domain(&fabric());
    let info = info(|_, attr| attr.mr_mode = FI_MR_LOCAL);
    let buffer = Buffer::new(&domain, info, 8, FI_SEND, 0).unwrap();
    let ep = Ep::open(&domain, info).unwrap();
    assert!(ep.send_buffer(buffer, 8, 0).is_ok());
    calls();
    drop(domain);
    closing_fails(FI_CLASS_EP, -FI_EBUSY);
    drop(ep);
    assert_eq!(calls(), [""; 0], "neither its buffer nor its domain");
}

#[test]
fn short_tables_and_null_slots_have_no_call() {
    foreign::domain_table(fi_ops_domain {
        size: offset_of!(fi_ops_domain, cntr_open),
        ..foreign::DOMAIN
    });
    let domain = domain(&fabric());
    assert!(
        Ep::open(&domain, info(|_, _| ())).is_ok(),
        "within the size"
    );
    let cntr = Cntr::open(&domain, &CntrAttr::default());
    assert_eq!(cntr.err(), Some(Error::NOSYS), "beyond the size");
    let av = Av::open(&domain, &AvAttr::default());
    assert_eq!(av.err(), Some(Error::NOSYS), "a NULL slot");
    let ep = endpoint();
    assert_eq!(ep.inject(b"x", 0), Err(Error::NOSYS), "a NULL slot");
    assert_eq!(ep.tinject(b"x", 0, 0), Err(Error::NOSYS), "no table");
    let cq = queue(&domain, FI_CQ_FORMAT_MSG);
    assert_eq!(cq.signal(), Err(Error::NOSYS));
}

#[test]
fn a_counter_without_its_calls_does_not_answer_zero() {
    let cntr = Cntr::open(&domain(&fabric()), &CntrAttr::default()).unwrap();
    assert_eq!(cntr.read(), Ok(42));
    assert_eq!(cntr.readerr(), Err(Error::NOSYS));
    assert_eq!(cntr.add(1), Err(Error::NOSYS));
}

#[test]
fn completions_of_all_formats_become_owned() {
    let formats = [
        (FI_CQ_FORMAT_CONTEXT, 1),
        (FI_CQ_FORMAT_MSG, 3),
        (FI_CQ_FORMAT_DATA, 5),
        (FI_CQ_FORMAT_TAGGED, 6),
    ];
    let domain = domain(&fabric());
    for (format, words) in formats {
        let cq = queue(&domain, format);
        let entries: Vec<u64> = (1..=2 * words).collect();
        next_read(Read::Words(entries, 2));
        let mut done = [const { None }; 3].map(|_: Option<()>| Completion::default());
        assert_eq!(cq.read(&mut done), Ok(2), "{format:?}");
        let got = |c: &Completion| {
            let numbers = [c.context.number(), c.flags as usize, c.len, c.buf];
            [numbers.as_slice(), &[c.data as usize, c.tag as usize]].concat()
        };
        for (i, done) in done[..2].iter().enumerate() {
            let want = (0..6).map(|n| match n < words {
                true => (i as u64 * words + n + 1) as usize,
                false => 0,
            });
            assert_eq!(got(done), want.collect::<Vec<_>>(), "{format:?}");
            assert_eq!(done.src, FI_ADDR_NOTAVAIL);
        }
    }
    let unknown = CqAttr::default();
    assert_eq!(Cq::open(&domain, &unknown).err(), Some(Error::INVAL));
}

#[test]
fn errors_of_a_queue_are_read_with_their_detail() {
    let cq = queue(&domain(&fabric()), FI_CQ_FORMAT_MSG);
    let mut done = [Completion::default()];
    assert_eq!(cq.read(&mut done), Err(Error::AGAIN));
    next_read(Read::Code(-FI_EAVAIL));
    assert_eq!(cq.read(&mut done), Err(Error::AVAIL));
    let error = cq.readerr().unwrap();
    assert_eq!((error.context.number(), error.olen), (5, 9));
    assert_eq!(
        (error.error, &error.err_data[..]),
        (Error::TRUNC, &b"why"[..])
    );
    assert_eq!(cq.fd().map(|fd| fd.as_raw_fd()), Ok(77));
}

#[test]
fn a_buffer_is_the_endpoints_until_its_completion_is_traded_in() {
    let domain = domain(&fabric());
    let info = info(|info, attr| {
        attr.mr_mode = FI_MR_LOCAL;
        info.mode = FI_MSG_PREFIX;
    });
    let cq = queue(&domain, FI_CQ_FORMAT_MSG);
    let ep = Ep::open(&domain, info).unwrap();
    let mut buffer = Buffer::new(&domain, info, 16, FI_SEND, 3).unwrap();
    buffer.bytes_mut()[..2].copy_from_slice(b"hi");
    posting_answers(-FI_EAGAIN);
    let (buffer, error) = ep.send_buffer(buffer, 2, 7).err().unwrap();
    assert_eq!(error, Error::AGAIN);
    let (buffer, error) = ep.send_buffer(buffer, 17, 7).err().unwrap();
    assert_eq!(error, Error::INVAL, "longer than the buffer");
    posting_answers(0);
    assert!(ep.send_buffer(buffer, 2, 7).is_ok());
    let posts = ["reg 16 800", "send 2 de5c 7", "send 2 de5c 7"];
    assert_eq!(calls(), posts);
    let mut done = [Completion::default()];
    assert_eq!(cq.read(&mut done), Ok(1));
    let [done] = done;
    let buffer = ep.reclaim(done.context).unwrap();
    assert_eq!(&buffer.bytes()[..2], b"hi");
    assert!(ep.send_buffer(buffer, 2, 7).is_ok());
    calls();
    drop(ep);
    assert_eq!(
        calls(),
        ["close ep", "close mr"],
        "what was under way goes after it"
    );
}

#[test]
fn several_endpoints_share_a_queue_and_know_their_buffers() {
    let domain = domain(&fabric());
    let info = info(|_, _| ());
    let (cq, ep) = (queue(&domain, FI_CQ_FORMAT_MSG), endpoint());
    let buffer = Buffer::new(&domain, info, 16, FI_SEND, 0).unwrap();
    let number = buffer.number();
    assert!(ep.send_buffer(buffer, 2, 7).is_ok());
    let mut done = [Completion::default()];
    assert_eq!(cq.read(&mut done), Ok(1));
    let [done] = done;
    assert_eq!(done.context.number(), number);
    assert_eq!(ep.reclaim(done.context).unwrap().number(), number);
}

#[test]
fn threads_are_promised_by_the_entry_alone_if_it_is_thread_safe() {
    let fabric = fabric();
    let open = |threading, progress| {
        let info =
            info(|_, attr| (attr.threading, attr.anonymous.progress) = (threading, progress));
        Domain::open_thread_safe(&fabric, info).err()
    };
    assert_eq!(open(FI_THREAD_SAFE, FI_PROGRESS_MANUAL), None);
    let refused = Some(Error::INVAL);
    assert_eq!(open(FI_THREAD_DOMAIN, FI_PROGRESS_MANUAL), refused);
    assert_eq!(open(FI_THREAD_SAFE, FI_PROGRESS_CONTROL_UNIFIED), refused);
}

#[test]
fn peers_get_no_rights_to_buffers() {
    let domain = domain(&fabric());
    let remote = Buffer::new(&domain, info(|_, _| ()), 8, FI_REMOTE_WRITE, 0);
    assert_eq!(remote.err(), Some(Error::INVAL));
}

#[test]
fn a_region_keeps_its_memory() {
    let domain = domain(&fabric());
    let memory = Memory::new(100);
    let mr = Mr::register(&domain, &memory, FI_REMOTE_READ, 9).unwrap();
    assert_eq!((mr.key(), mr.desc().addr()), (9, 0xde5c));
    memory.write(98, b"abc");
    let mut read = [0; 3];
    memory.read(97, &mut read);
    assert_eq!(&read, b"\0ab", "no further than the memory");
    let left = Arc::downgrade(&memory);
    drop(memory);
    assert!(left.upgrade().is_some());
    drop(mr);
    assert!(left.upgrade().is_none());
}

#[test]
fn several_spans_go_with_their_descriptors() {
    let ep = endpoint();
    // SAFETY: the provider of these tests does not access the memory.
    let span = |len, desc| unsafe { Span::new(null_mut(), len, without_provenance_mut(desc)) };
    let mut two = [span(3, 1), span(4, 2)];
    assert_eq!(ep.send(&mut two, 0, numbered(0)), Ok(()));
    assert_eq!(calls(), ["piece 3 1", "piece 4 2"]);
    assert_eq!(two.each_ref().map(Span::len), [0, 0]);
    let mut many = [const { Span::empty() }; 17];
    many[0] = span(1, 0);
    assert_eq!(ep.send(&mut many, 0, numbered(0)), Err(Error::INVAL));
    assert_eq!(many[0].len(), 1);
    assert_eq!(calls(), [""; 0]);
}

#[test]
fn events_become_owned() {
    let eq = Eq::open(&fabric(), &EqAttr::default()).unwrap();
    assert_eq!(eq.read().err(), Some(Error::AGAIN));
    let data = [u64::from_ne_bytes(*b"12345678"); 500];
    let entry = [&[11, 0][..], &data].concat();
    next_read(Read::Event(FI_CONNECTED, entry));
    let Ok(Event::Connected { ep: 11, data }) = eq.read() else {
        panic!("no connection");
    };
    assert_eq!(
        data,
        b"12345678".repeat(500),
        "though it was longer than most"
    );
    next_read(Read::Event(FI_CONNREQ, vec![12, 0]));
    let Ok(Event::Request { pep: 12, info, .. }) = eq.read() else {
        panic!("no request");
    };
    assert!(info.first().is_none());
    next_read(Read::Event(FI_MR_COMPLETE, vec![1, 2, 3]));
    let done = eq.read();
    assert!(matches!(
        done,
        Ok(Event::Completed {
            object: 1,
            context: 2,
            data: 3,
            ..
        })
    ));
    next_read(Read::Event(FI_CONNECTED, vec![1]));
    let short = eq.read();
    assert!(
        matches!(
            short,
            Ok(Event::Other {
                kind: FI_CONNECTED,
                ..
            })
        ),
        "half an entry"
    );
}

#[test]
fn names_and_options_have_any_length() {
    let ep = endpoint();
    assert_eq!(ep.name(), Ok(vec![b'n'; foreign::NAME]));
    assert_eq!(ep.getopt::<usize>(0), Ok(640));
    assert_eq!(ep.getopt::<c_int>(0), Err(Error::TOOSMALL));
    calls();
    assert_eq!(ep.connect(b"abc", b""), Err(Error::CONNREFUSED));
    assert_eq!(ep.connect(&[1; 200], b"four"), Err(Error::CONNREFUSED));
    assert_eq!(calls(), ["connect 125 true 0", "connect 0 false 4"]);
}
