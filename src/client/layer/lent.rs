// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Application memory that operations below read or write.

use core::ptr::{null_mut, with_exposed_provenance_mut};
use std::sync::Arc;

use super::registrar::Registrar;
use crate::{Mr, Span};
use abi::{FI_REMOTE_WRITE, fi_rma_iov};
use base::Error;
use base::iovec::{IOV_LIMIT, IoVec, Span as Place};

/// The memory of one application operation, registered below if that is required or peers have to access it. Operations
/// below share it by an `Arc`.
pub struct Lent {
    // Declared before the memory, so that regions are closed first.
    regions: [Option<Arc<Mr>>; IOV_LIMIT],
    remote: [fi_rma_iov; IOV_LIMIT],
    iov: IoVec,
}

// SAFETY: `IoVec` and the handles are Send and Sync; the rest is numbers.
unsafe impl Send for Lent {}
// SAFETY: the same.
unsafe impl Sync for Lent {}

/// A region below over memory that the application has registered in one piece.
pub struct KnownRegion {
    pub below: Arc<Mr>,
    pub place: Place,
    /// FI_SEND and other rights of the registration.
    pub access: u64,
}

impl KnownRegion {
    /// Whether an operation may use the region for this memory. Memory that peers write has a region of its own,
    /// because the accesses to the application's region are counted separately.
    fn permits(&self, place: Place, access: u64) -> bool {
        let skip = place.start.checked_sub(self.place.start);
        let left = skip.and_then(|skip| self.place.len.checked_sub(skip));
        left.is_some_and(|left| place.len <= left)
            && self.access & access == access
            && access & FI_REMOTE_WRITE == 0
    }
}

impl Lent {
    /// Lends the rest of `iov`. `access`: rights of local operations; with rights for peers the memory is registered in
    /// any case. Pieces that `known`, a region of the application, covers are not registered again.
    pub fn new(
        registrar: &Registrar,
        iov: IoVec,
        access: u64,
        known: Option<&KnownRegion>,
    ) -> core::result::Result<Arc<Lent>, (IoVec, Error)> {
        let mut lent = Lent {
            regions: [const { None }; IOV_LIMIT],
            remote: [NOTHING; IOV_LIMIT],
            iov,
        };
        if registrar.wants_local() || access & PEERS != 0 {
            match register(&lent.iov, registrar, access, known) {
                Ok((regions, remote)) => (lent.regions, lent.remote) = (regions, remote),
                Err(error) => return Err((lent.iov, error)),
            }
        }
        Ok(Arc::new(lent))
    }

    /// Holds memory that no operation below may use, because it was not registered.
    pub fn unregistered(iov: IoVec) -> Arc<Lent> {
        Arc::new(Lent {
            regions: [const { None }; IOV_LIMIT],
            remote: [NOTHING; IOV_LIMIT],
            iov,
        })
    }

    /// Registers the same memory for peers in another domain below.
    pub fn expose(self: &Arc<Lent>, registrar: &Registrar, access: u64) -> Result<Exposed, Error> {
        let (regions, remote) = register(&self.iov, registrar, access, None)?;
        Ok(Exposed {
            _regions: regions,
            remote,
            _lent: self.clone(),
        })
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> usize {
        self.iov.remaining()
    }

    /// Returns the segments for peers, if they were given rights: one for each piece that has bytes.
    pub fn remote(&self) -> impl Iterator<Item = fi_rma_iov> + '_ {
        self.remote.iter().filter(|iov| iov.len > 0).copied()
    }

    /// Returns the memory if no operation below has it any more.
    pub fn take_back(self: Arc<Lent>) -> Option<IoVec> {
        let Lent { regions, iov, .. } = Arc::try_unwrap(self).ok()?;
        drop(regions);
        Some(iov)
    }

    /// Returns the application's memory, for copies.
    pub fn iov(&self) -> &IoVec {
        &self.iov
    }

    /// Appends the `len` bytes from offset `at` to `out`; returns the number of pieces, or `None` if `out` is too
    /// short.
    pub(super) fn spans(&self, at: usize, len: usize, out: &mut [Span]) -> Option<usize> {
        let (mut skip, mut left, mut count) = (at, len, 0);
        for (place, region) in self.iov.spans().zip(&self.regions) {
            let from = skip.min(place.len);
            let here = (place.len - from).min(left);
            skip -= from;
            left -= here;
            if here == 0 {
                continue;
            }
            *out.get_mut(count)? = Span {
                base: with_exposed_provenance_mut(place.start + from),
                len: here,
                desc: region.as_ref().map_or(null_mut(), |region| region.desc()),
            };
            count += 1;
        }
        (left == 0).then_some(count)
    }
}

type Regions = [Option<Arc<Mr>>; IOV_LIMIT];

/// Registers memory of the application. The caller closes the regions before it drops `iov`.
fn register(
    iov: &IoVec,
    registrar: &Registrar,
    access: u64,
    known: Option<&KnownRegion>,
) -> Result<(Regions, [fi_rma_iov; IOV_LIMIT]), Error> {
    let mut regions = [const { None }; IOV_LIMIT];
    let mut remote = [NOTHING; IOV_LIMIT];
    for (i, place) in iov.spans().enumerate().filter(|(_, p)| p.len > 0) {
        let (region, base) = match known.filter(|known| known.permits(place, access)) {
            Some(known) => (known.below.clone(), known.place.start),
            // SAFETY: the memory stays valid until the operation of the application completes, and `iov`, which is
            // dropped before that, outlives the region.
            None => (
                unsafe { registrar.register_place(place, access) }?,
                place.start,
            ),
        };
        remote[i] = fi_rma_iov {
            addr: registrar.remote_address(place.start, base),
            len: place.len,
            key: region.key(),
        };
        regions[i] = Some(region);
    }
    Ok((regions, remote))
}

const NOTHING: fi_rma_iov = fi_rma_iov {
    addr: 0,
    len: 0,
    key: 0,
};

/// Memory that peers may access in one more domain.
pub struct Exposed {
    // Declared before the memory, so that regions are closed first.
    _regions: Regions,
    remote: [fi_rma_iov; IOV_LIMIT],
    _lent: Arc<Lent>,
}

impl Exposed {
    /// Returns the segments for peers: one for each piece that has bytes.
    pub fn remote(&self) -> impl Iterator<Item = fi_rma_iov> + '_ {
        self.remote.iter().filter(|iov| iov.len > 0).copied()
    }
}

#[cfg(any(test, feature = "testing"))]
impl Lent {
    /// Lends unregistered memory, for tests without a provider below. Peers name its pieces by their addresses and
    /// these keys.
    pub fn alone(iov: IoVec, mut keys: impl Iterator<Item = u64>) -> Arc<Lent> {
        let place = |span: base::iovec::Span| fi_rma_iov {
            addr: span.start as u64,
            len: span.len,
            key: keys.next().unwrap_or_default(),
        };
        let mut places = iov.spans().map(place);
        let nothing = fi_rma_iov {
            addr: 0,
            len: 0,
            key: 0,
        };
        let remote = core::array::from_fn(|_| places.next().unwrap_or(nothing));
        drop(places);
        let regions = [const { None }; IOV_LIMIT];
        Arc::new(Lent {
            regions,
            remote,
            iov,
        })
    }

    /// Writes bytes at an offset, as a provider below does.
    pub fn write(&self, mut at: usize, mut bytes: &[u8]) {
        for span in self.iov.spans() {
            let skipped = at.min(span.len);
            at -= skipped;
            let (here, rest) = bytes.split_at((span.len - skipped).min(bytes.len()));
            bytes = rest;
            let to: *mut u8 = with_exposed_provenance_mut(span.start + skipped);
            // SAFETY: within the piece, which is lent to operations that write there.
            unsafe { core::ptr::copy_nonoverlapping(here.as_ptr(), to, here.len()) };
        }
        assert!(bytes.is_empty(), "there is no room");
    }
}

const PEERS: u64 = abi::FI_REMOTE_READ | abi::FI_REMOTE_WRITE;
