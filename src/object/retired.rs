// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Handles of closed endpoints. Programs may still use them for a moment: `ofi_rxm` of libfabric 2.6 posts a receive to
//! an endpoint that it has closed when it reads the endpoint's last messages. So the memory of the handles that were
//! closed last is kept, with tables whose calls return FI_EBADF.

use std::alloc::{Layout, dealloc};
use std::collections::VecDeque;
use std::sync::Mutex;

use crate::ops::missing::Missing;
use abi::*;

/// Memory of the heap, freed when this is dropped.
pub struct Memory {
    at: *mut u8,
    layout: Layout,
}

// SAFETY: the memory has no other owner.
unsafe impl Send for Memory {}

impl Memory {
    /// # Safety
    /// `at` was allocated with this layout, and nothing else frees it.
    pub unsafe fn new(at: *mut u8, layout: Layout) -> Memory {
        Memory { at, layout }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: promised to `new`.
        unsafe { dealloc(self.at, self.layout) }
    }
}

/// Number of handles that are kept.
const KEPT: usize = 256;

static CLOSED: Mutex<VecDeque<Memory>> = Mutex::new(VecDeque::new());

/// Frees the memory later; at once if another thread does the same, as perhaps at a fork.
pub fn keep(memory: Memory) {
    let Ok(mut closed) = CLOSED.try_lock() else {
        return;
    };
    closed.push_back(memory);
    let oldest = match closed.len() > KEPT {
        true => closed.pop_front(),
        false => None,
    };
    drop(closed);
    drop(oldest);
}

/// The table of a closed object.
macro_rules! closed {
    ($ops:ident) => {{
        static TABLE: $ops = Missing::CLOSED;
        (&raw const TABLE).cast_mut()
    }};
}

/// Calls with the handle return FI_EBADF from now on.
pub fn replace_tables(ep: &mut fid_ep) {
    ep.fid.ops = closed!(fi_ops);
    ep.ops = closed!(fi_ops_ep);
    ep.cm = closed!(fi_ops_cm);
    ep.msg = closed!(fi_ops_msg);
    ep.rma = closed!(fi_ops_rma);
    ep.tagged = closed!(fi_ops_tagged);
    ep.atomic = closed!(fi_ops_atomic);
    ep.collective = closed!(fi_ops_collective);
    ep.wr = closed!(fi_ops_wr);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handle::{self, Kind};
    use core::ptr;

    /// One test at a time, because memory is freed at once if two threads close.
    static ALONE: Mutex<()> = Mutex::new(());

    struct Endpoint;

    impl Kind for Endpoint {
        type Head = fid_ep;
    }

    fn open() -> *mut fid_ep {
        handle::open(Endpoint, FI_CLASS_EP, ptr::null_mut(), |fid| fid_ep {
            fid,
            ops: ptr::null_mut(),
            cm: ptr::null_mut(),
            msg: ptr::null_mut(),
            rma: ptr::null_mut(),
            tagged: ptr::null_mut(),
            atomic: ptr::null_mut(),
            collective: ptr::null_mut(),
            wr: ptr::null_mut(),
        })
    }

    #[test]
    fn calls_with_a_closed_endpoint_are_refused() {
        let _alone = ALONE.lock();
        let ep = open();
        // SAFETY: an open handle, whose memory is kept after the close.
        unsafe {
            handle::close::<Endpoint>(ep.cast()).unwrap();
            let recv = (*(*ep).msg).recv.unwrap();
            let nothing = ptr::null_mut();
            let rc = recv(ep, nothing, 0, nothing, 0, nothing);
            assert_eq!(rc, -FI_EBADF as isize);
            assert_eq!((*(*ep).fid.ops).close.unwrap()(ep.cast()), -FI_EBADF);
        }
    }

    #[test]
    fn memory_of_many_endpoints_is_freed() {
        let _alone = ALONE.lock();
        for _ in 0..2 * KEPT {
            // SAFETY: an open handle.
            unsafe { handle::close::<Endpoint>(open().cast()).unwrap() };
        }
        assert!(CLOSED.lock().unwrap().len() <= KEPT);
    }
}
