// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Calls of peers, made as a peer makes them: through the table of the exported context.

use core::ptr::null_mut;

use super::*;
use base::OpFlags;

/// An owner with room for one message at a time.
#[derive(Default)]
struct Fake {
    entries: Entries,
    /// Posted receives.
    rooms: Vec<&'static mut [u8]>,
    /// What the peer did.
    said: Vec<String>,
    /// A desk that a call enters once more, through the context of a peer.
    again: Option<*mut fid_peer_srx>,
}

impl Owner for Fake {
    fn entries(&mut self) -> &mut Entries {
        &mut self.entries
    }

    fn arrived(&mut self, message: &Arriving, entry: EntryId) -> Answer {
        self.said
            .push(format!("arrived {} {}", message.srx, message.tag));
        if message.len > 100 {
            return Answer::Refused(Error::NOMEM);
        }
        match self.rooms.pop() {
            None => Answer::Unexpected,
            Some(room) => {
                let at = iovec {
                    iov_base: room.as_mut_ptr().cast(),
                    iov_len: room.len(),
                };
                // SAFETY: the memory is leaked.
                let iov = unsafe { IoVec::new(&raw const at, 1) }.unwrap();
                self.entries.fill(entry, iov, OpFlags::COMPLETION, 77);
                Answer::Matched
            }
        }
    }

    fn took(&mut self, _: usize, message: &Whole, _: &mut dyn FnMut(&IoVec)) -> bool {
        if let Some(srx) = self.again.take() {
            // SAFETY: a context of this owner, which is open.
            let (code, _) = unsafe { arrive(srx, 1, 5) };
            self.said.push(format!("inner {code}"));
        }
        self.said.push(format!("took {}", message.tag));
        true
    }

    fn lost(&mut self, srx: usize, from: fi_addr_t, loss: Loss) {
        self.said.push(format!("lost {srx} {from} {}", loss.error));
    }

    fn awaits(&mut self, _: usize, from: fi_addr_t) -> bool {
        from == 3
    }

    fn queued(&mut self, entry: EntryId, data: Option<u64>) {
        self.said.push(format!("queued {} {data:?}", entry.0));
    }

    fn freed(&mut self, entry: EntryId) {
        self.said.push(format!("freed {}", entry.0));
    }

    fn completed(&mut self, queue: usize, done: Completion) {
        let (context, len) = (done.context.number(), done.size());
        self.said.push(format!("completed {queue} {context} {len}"));
    }

    fn failed(&mut self, queue: usize, error: CqError) {
        self.said.push(format!("failed {queue} {}", error.error));
    }

    fn senders_changed(
        &mut self,
        _srx: usize,
        sender: &mut dyn FnMut(&mut Entries, EntryId) -> fi_addr_t,
    ) {
        let named = [0, 9].map(|id| sender(&mut self.entries, EntryId(id)));
        self.said.push(format!("named {named:?}"));
    }
}

fn exported(desk: &Desk) -> Arc<ExportedSrx> {
    Arc::new(ExportedSrx {
        fid: exported_fid(FI_CLASS_PEER_SRX),
        tables: [null_mut(); 7],
        owner_ops: (&raw const SRX_OPS).cast(),
        peer_ops: UnsafeCell::new(null()),
        post: desk.0.clone(),
        number: 4,
    })
}

fn raw(exported: &Arc<ExportedSrx>) -> *mut fid_peer_srx {
    Arc::as_ptr(exported).cast_mut().cast()
}

/// # Safety
/// A context of an owner.
unsafe fn arrive(srx: *mut fid_peer_srx, tag: u64, len: usize) -> (c_int, *mut fi_peer_rx_entry) {
    let mut attr = fi_peer_match_attr {
        addr: 1,
        msg_size: len,
        tag,
    };
    let mut entry = null_mut();
    // SAFETY: the caller's promise; the owner's table is complete.
    let code = unsafe { SRX_OPS.ops.get_tag.unwrap()(srx, &raw mut attr, &raw mut entry) };
    (code, entry)
}

#[test]
fn a_receive_goes_to_the_peer_and_comes_back() {
    let (mut desk, mut owner) = (Desk::new(), Fake::default());
    let exported = exported(&desk);
    owner.rooms.push(Box::leak(Box::new([0; 8])));
    desk.enter(&mut owner, || {
        // SAFETY: as a peer calls; the entry is there until it is freed.
        unsafe {
            let (code, entry) = arrive(raw(&exported), 6, 5);
            let filled = &*entry;
            assert_eq!((code, filled.count, filled.context.addr()), (0, 1, 77));
            assert_eq!((filled.msg_size, filled.tag, filled.addr), (5, 6, 1));
            assert_eq!((*filled.iov).iov_len, 8);
            assert_eq!(filled.flags, FI_TAGGED | FI_RECV | FI_COMPLETION);
            (*filled.iov).iov_base.cast::<u8>().write_bytes(9, 5);
            SRX_OPS.ops.free_entry.unwrap()(entry);
        }
    });
    assert_eq!(owner.said, ["arrived 4 6", "freed 0"]);
    assert!(owner.entries.is_empty());
}

#[test]
fn a_message_without_a_receive_is_queued() {
    let (mut desk, mut owner) = (Desk::new(), Fake::default());
    let exported = exported(&desk);
    unsafe extern "C" fn sender(_: *mut fi_peer_rx_entry) -> fi_addr_t {
        12
    }
    desk.enter(&mut owner, || {
        // SAFETY: as a peer calls.
        unsafe {
            let ops = &SRX_OPS.ops;
            let (code, entry) = arrive(raw(&exported), 6, 5);
            assert_eq!((code, (*entry).count), (-FI_ENOENT, 0));
            (*entry).cq_data = 0xda;
            (*entry).flags |= FI_REMOTE_CQ_DATA;
            assert_eq!(ops.queue_tag.unwrap()(entry), 0);
            ops.foreach_unspec_addr.unwrap()(raw(&exported), Some(sender));
            let (code, refused) = arrive(raw(&exported), 6, 101);
            assert_eq!((code, refused.is_null()), (-FI_ENOMEM, true));
        }
    });
    let named = format!("named {:?}", [12, FI_ADDR_UNSPEC]);
    let said = ["arrived 4 6", "queued 0 Some(218)", &named, "arrived 4 6"];
    assert_eq!(owner.said, said);
    assert_eq!(owner.entries.len(), 1);
    // The entry is given back, so that its memory may go.
    let taken = owner.entries.unqueue(EntryId(0), raw(&exported)).unwrap();
    assert_eq!(taken.1, What::Tagged);
    assert!(owner.entries.unqueue(EntryId(0), raw(&exported)).is_none());
    owner.entries.remove(EntryId(0));
}

#[test]
fn a_call_within_a_call_finds_nobody() {
    let (mut desk, mut owner) = (Desk::new(), Fake::default());
    let exported = exported(&desk);
    owner.again = Some(raw(&exported));
    let message = Whole {
        what: What::Tagged,
        from: 1,
        len: 0,
        tag: 8,
        data: None,
    };
    desk.enter(&mut owner, || {
        // SAFETY: as a peer of this library calls.
        assert!(unsafe { deliver(raw(&exported), &message, &mut |_| ()) });
    });
    assert_eq!(
        owner.said,
        [format!("inner {}", -FI_EAGAIN).as_str(), "took 8"]
    );
    // SAFETY: the same; nobody is inside.
    assert!(!unsafe { deliver(raw(&exported), &message, &mut |_| ()) });
}

#[test]
fn what_comes_from_outside_is_kept_aside() {
    let (mut desk, mut owner) = (Desk::new(), Fake::default());
    let queue = ExportedCq {
        peer: fid_peer_cq {
            fid: exported_fid(FI_CLASS_PEER_CQ),
            owner_ops: null_mut(),
        },
        post: desk.0.clone(),
        number: 2,
        opened: AtomicPtr::new(null_mut()),
    };
    let exported = exported(&desk);
    let report = |queue: &ExportedCq| {
        let cq = core::ptr::from_ref(queue).cast_mut().cast();
        let context = core::ptr::without_provenance_mut(5);
        // SAFETY: as a peer calls.
        unsafe { write(cq, context, FI_RECV, 3, null_mut(), 0, 0, 0) }
    };
    desk.enter(&mut owner, || {
        assert_eq!(report(&queue), 0);
        // Another thread is not inside.
        std::thread::scope(|scope| {
            let (queue, exported) = (&queue, &exported);
            scope.spawn(move || {
                assert_eq!(report(queue), 0);
                // SAFETY: as a peer calls.
                unsafe {
                    assert_eq!(arrive(raw(exported), 1, 1).0, -FI_EAGAIN);
                    let loss = Loss {
                        error: Error::CONNRESET,
                        is_silent: false,
                    };
                    lost(raw(exported), 3, loss);
                    assert!(!awaits(raw(exported), 3));
                }
            });
        });
        // SAFETY: the same, from inside.
        assert!(unsafe { awaits(raw(&exported), 3) && !awaits(raw(&exported), 4) });
    });
    assert_eq!(owner.said, ["completed 2 5 3"]);
    assert!(desk.has_aside());
    let aside = desk.take_aside();
    let kinds = aside.iter().map(|report| match report {
        Report::Done(queue, done) => format!("done {queue} {}", done.context.number()),
        Report::Failed(..) => "failed".to_owned(),
        Report::Lost(srx, from, _) => format!("lost {srx} {from}"),
    });
    assert_eq!(kinds.collect::<Vec<_>>(), ["done 2 5", "lost 4 3"]);
    assert!(!desk.has_aside() && desk.take_aside().is_empty());
}
