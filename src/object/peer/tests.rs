// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Tests that an entry is freed once, with an owner in this process.

use std::cell::RefCell;

use super::*;

type During = Box<dyn FnOnce(*mut fi_peer_rx_entry) -> c_int>;

thread_local! {
    /// The owner's calls.
    static CALLS: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
    /// Runs while the owner queues an entry, and returns the result of that call.
    static DURING: RefCell<Option<During>> = const { RefCell::new(None) };
}

unsafe extern "C" fn get(
    srx: *mut fid_peer_srx,
    _: *mut fi_peer_match_attr,
    entry: *mut *mut fi_peer_rx_entry,
) -> c_int {
    // SAFETY: all zero is a valid entry, and the caller gives the place.
    unsafe {
        let mut new: fi_peer_rx_entry = core::mem::zeroed();
        new.srx = srx;
        *entry = Box::into_raw(Box::new(new));
    }
    Error::NOENT.negative()
}

unsafe extern "C" fn queue(entry: *mut fi_peer_rx_entry) -> c_int {
    CALLS.with_borrow_mut(|calls| calls.push("queue"));
    let during = DURING.take();
    let code = during.map_or(0, |during| during(entry));
    CALLS.with_borrow_mut(|calls| calls.push("queued"));
    code
}

unsafe extern "C" fn free(entry: *mut fi_peer_rx_entry) {
    CALLS.with_borrow_mut(|calls| calls.push("free"));
    // SAFETY: `get` made it.
    drop(unsafe { Box::from_raw(entry) });
}

unsafe extern "C" fn each(
    _: *mut fid_peer_srx,
    _: Option<unsafe extern "C" fn(*mut fi_peer_rx_entry) -> fi_addr_t>,
) {
}

/// A context of the owner, which is never freed, and an unexpected message there.
fn unexpected() -> (PeerSrx, Entry) {
    // SAFETY: all zero is a valid table, and a valid context without a table of requests.
    let (ops, srx) = unsafe {
        let mut ops: fi_ops_srx_owner = core::mem::zeroed();
        ops.size = size_of::<fi_ops_srx_owner>();
        ops.get_msg = Some(get);
        ops.get_tag = Some(get);
        ops.queue_msg = Some(queue);
        ops.queue_tag = Some(queue);
        ops.free_entry = Some(free);
        ops.foreach_unspec_addr = Some(each);
        let srx: fid_peer_srx = core::mem::zeroed();
        (Box::leak(Box::new(ops)), Box::leak(Box::new(srx)))
    };
    srx.owner_ops = ops;
    let mut context = fi_peer_srx_context {
        size: size_of::<fi_peer_srx_context>(),
        srx,
    };
    // SAFETY: made just now, and never freed.
    let srx = unsafe { PeerSrx::import((&raw mut context).cast()) }.unwrap();
    match srx.get(What::Msg, FI_ADDR_UNSPEC, 1, 0) {
        Got::Unexpected(entry) => (srx, entry),
        _ => panic!("there is no receive"),
    }
}

fn calls() -> Vec<&'static str> {
    CALLS.take()
}

#[test]
fn an_entry_that_is_started_while_it_is_queued_is_freed_afterwards() {
    let (srx, mut entry) = unexpected();
    let queueing = entry.queueing();
    let srx = Arc::new(srx);
    let owner = srx.clone();
    DURING.set(Some(Box::new(move |raw| {
        assert_eq!(entry.take_back(Started(raw)), Ok(()));
        owner.free(entry);
        0
    })));
    assert_eq!(srx.queue(What::Msg, queueing), Ok(()));
    assert_eq!(calls(), ["queue", "queued", "free"]);
}

#[test]
fn an_entry_that_is_queued_is_given_back_with_its_endpoint() {
    let (srx, mut entry) = unexpected();
    let queueing = entry.queueing();
    assert_eq!(srx.queue(What::Msg, queueing), Ok(()));
    srx.free(entry);
    assert_eq!(calls(), ["queue", "queued", "free"]);
}

#[test]
fn an_entry_that_is_started_or_was_not_queued_is_freed_at_once() {
    let (srx, mut entry) = unexpected();
    let (queueing, raw) = (entry.queueing(), entry.raw);
    assert_eq!(srx.queue(What::Msg, queueing), Ok(()));
    assert_eq!(entry.take_back(Started(ptr::null_mut())), Err(Error::INVAL));
    assert_eq!(entry.take_back(Started(raw)), Ok(()));
    srx.free(entry);
    assert_eq!(calls(), ["queue", "queued", "free"]);

    let (srx, mut entry) = unexpected();
    let queueing = entry.queueing();
    DURING.set(Some(Box::new(|_| Error::NOMEM.negative())));
    assert_eq!(srx.queue(What::Msg, queueing), Err(Error::NOMEM));
    srx.free(entry);
    assert_eq!(calls(), ["queue", "queued", "free"]);

    let (srx, entry) = unexpected();
    srx.free(entry);
    assert_eq!(calls(), ["free"]);
}

#[test]
#[should_panic(expected = "another owner")]
fn an_entry_goes_back_where_it_came_from() {
    let ((_, entry), (other, _)) = (unexpected(), unexpected());
    other.free(entry);
}
