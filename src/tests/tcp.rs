// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The library's own tcp over the calls of `client`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use abi::*;
use client::*;
use object::slots;

fn queue(domain: &Arc<Domain>, format: fi_cq_format) -> Arc<Cq> {
    let attr = CqAttr {
        format,
        wait_obj: FI_WAIT_FD,
        ..CqAttr::default()
    };
    Cq::open(domain, &attr).unwrap()
}

/// Opens a domain of this library's tcp on loopback, and returns the entry for its endpoints.
fn ours(list: &InfoList) -> (Arc<Domain>, Info<'_>) {
    let is_meant =
        |info: &Info<'_>| info.provider().as_deref() == Some("tcp") && info.ep_type() == FI_EP_RDM;
    let info = list.iter().find(is_meant).unwrap();
    let fabric = Fabric::open(info).unwrap();
    // SAFETY: all calls of a test come from its thread.
    (unsafe { Domain::open(&fabric, info) }.unwrap(), info)
}

fn loopback() -> InfoList {
    const API: u32 = FI_MAJOR_VERSION << 16 | FI_MINOR_VERSION;
    getinfo(API, Some(c"127.0.0.1"), None, FI_SOURCE, None).unwrap()
}

#[test]
fn a_handle_that_was_closed_is_bound_to_nothing() {
    let list = loopback();
    let (domain, info) = ours(&list);
    let ep = Ep::open(&domain, info).unwrap();
    let cq = queue(&domain, FI_CQ_FORMAT_MSG);
    let stale = cq.as_ptr().cast();
    assert!(cq.close().is_ok());
    // SAFETY: the endpoint is open. The queue is not, and the endpoint has to detect that.
    let bound = unsafe { slots::base::bind(ep.as_ptr().cast(), stale, FI_RECV) };
    assert_eq!(bound, -FI_EINVAL);
}

/// Sends a message over this library's tcp between two endpoints of one domain.
#[test]
fn a_message_goes_from_one_endpoint_to_another() {
    let list = loopback();
    let (domain, info) = ours(&list);
    let av = Av::open(&domain, &AvAttr::default()).unwrap();
    let open = || {
        let ep = Ep::open(&domain, info).unwrap();
        let cq = queue(&domain, FI_CQ_FORMAT_TAGGED);
        ep.bind(&cq, FI_TRANSMIT | FI_RECV).unwrap();
        ep.bind(&av, 0).unwrap();
        ep.enable().unwrap();
        (ep, cq)
    };
    let (from, to) = (open(), open());
    let dest = av.insert(&to.0.name().unwrap()).unwrap();
    let buffer = |access| Buffer::new(&domain, info, 64, access, access).unwrap();
    assert!(
        to.0.trecv_buffer(buffer(FI_RECV), FI_ADDR_UNSPEC, 5, 0)
            .is_ok()
    );
    let mut message = buffer(FI_SEND);
    message.bytes_mut()[..5].copy_from_slice(b"hello");
    assert!(from.0.tsend_buffer(message, 5, dest, 5).is_ok());
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut done = [Completion::default()];
    while to.1.read(&mut done).is_err() {
        assert!(Instant::now() < deadline, "no message came");
        // The completion is ignored; reading drives progress.
        let _ = from.1.read(&mut [Completion::default()]);
    }
    let [done] = done;
    assert_eq!((done.size(), done.tag), (5, 5));
    let received = to.0.reclaim(done.context).unwrap();
    assert_eq!(&received.bytes()[..5], b"hello");
    assert!(to.1.fd().is_ok());
}
