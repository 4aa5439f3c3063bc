// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Connection requests between their event and fi_accept or fi_reject: fi_cm(3).

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::tcp::auth::{Context, Prover};
use crate::tcp::bound::any_address;
use crate::tcp::delayed::run_after;
use crate::tcp::exchange::{write_exchange, write_whole};
use abi::{FI_CLASS_CONNREQ, fid};
use base::log::{Source, Subsys, log_info};
use base::params::NO_LIMIT;
use base::{Error, Result};
use engine::address::ip::Addr;
use engine::auth::Key;
use object::Kind;
use object::handle;
use stream::proto::{CmHeader, CmKind, encode_cm};
use sys::addr;
use sys::random::unpredictable;
use sys::socket::Socket;

/// A connection request that waits for fi_accept or fi_reject: the `handle` of its info.
pub struct Accepted {
    entry: Entry,
    /// Whether an endpoint was opened for the request.
    is_claimed: AtomicBool,
    socket: Socket,
    from: SocketAddr,
    swapped: bool,
    extended: bool,
    keyed: bool,
    /// The complete request message.
    exchange: Vec<u8>,
}

impl Kind for Accepted {
    type Head = fid;
    const IS_CONSUMED: bool = true;
}

/// The undecided requests of a passive endpoint: their handles, by serial number.
///
/// A request outlives its passive endpoint: fi_accept takes only the new endpoint (fi_cm(3)), so a program may close a
/// listener before it opens an endpoint for the request. libfabric's own tcp allows that, too. If such a request is
/// forgotten, its client would wait forever, because nothing else ends the connection. Therefore the connect timeout
/// starts when the passive endpoint is closed, for requests without an endpoint.
#[derive(Default)]
pub struct Undecided(Mutex<HashMap<u64, usize>>);

impl Undecided {
    fn handles(&self) -> MutexGuard<'_, HashMap<u64, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of requests without an endpoint.
    pub fn unclaimed(&self) -> usize {
        let handles = self.handles().clone();
        let is_unclaimed =
            |(serial, handle): &(u64, usize)| Accepted::is_unclaimed(*handle, *serial);
        handles.into_iter().filter(is_unclaimed).count()
    }

    /// Refuses the requests for which no endpoint was opened within `limit`. Their handles are stale afterwards.
    pub fn refuse_after(self: Arc<Undecided>, limit: Duration, source: &'static Source) {
        if limit >= NO_LIMIT {
            return;
        }
        run_after(limit, move || {
            let count = self.refuse();
            if count > 0 {
                log_info!(
                    source,
                    Subsys::EpCtrl,
                    "connection requests of a closed passive endpoint refused: {count}"
                );
            }
        });
    }

    fn refuse(&self) -> usize {
        // A request that is taken removes itself from the map.
        let handles = self.handles().clone();
        let refuse = |(serial, handle)| Claim::of(handle, serial).is_ok_and(|it| it.refuse());
        handles.into_iter().map(refuse).filter(|&done| done).count()
    }
}

/// The entry of a request in the map of its passive endpoint; removed when the request is decided.
struct Entry {
    serial: u64,
    requests: Arc<Undecided>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.requests.handles().remove(&self.serial);
    }
}

/// The request that an endpoint was opened for, until the endpoint accepts it or is closed. fi_reject may take it
/// first.
pub struct Claim {
    handle: usize,
    serial: u64,
    local: Addr,
}

impl Claim {
    /// Returns FI_EINVAL if the handle is not a request, or one that another endpoint has claimed.
    pub fn new(handle: usize) -> Result<Claim> {
        Claim::of_one(handle, |_| true)
    }

    /// Does the same as `new`, and returns FI_EINVAL if the handle belongs to another request by now.
    pub fn of(handle: usize, serial: u64) -> Result<Claim> {
        Claim::of_one(handle, |request| request.entry.serial == serial)
    }

    fn of_one(handle: usize, is_meant: impl FnOnce(&Accepted) -> bool) -> Result<Claim> {
        let claim = |request: &Accepted| {
            // Relaxed: no other memory depends on the flag.
            let is_free = is_meant(request) && !request.is_claimed.swap(true, Ordering::Relaxed);
            is_free.then(|| Claim {
                handle,
                serial: request.entry.serial,
                local: request.local(),
            })
        };
        handle::with(handle, claim).flatten().ok_or(Error::INVAL)
    }

    /// Returns the address at which the request arrived.
    pub fn local(&self) -> Addr {
        self.local
    }

    /// Takes the request out of its handle, which becomes invalid. Returns FI_EINVAL if the request was rejected; its
    /// number may belong to another request by now.
    pub fn take(&self) -> Result<Accepted> {
        let is_ours = handle::with(self.handle, |it: &Accepted| it.entry.serial == self.serial);
        match is_ours {
            Some(true) => Accepted::take(self.handle),
            _ => Err(Error::INVAL),
        }
    }

    /// Refuses the request. Returns false if it was decided before.
    pub fn refuse(&self) -> bool {
        // A peer that is gone needs no answer.
        self.take().map(|request| request.reject(&[])).is_ok()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Closing an endpoint without fi_accept ends the connection.
        drop(self.take());
    }
}

impl Accepted {
    /// Takes the request out of its handle, which becomes invalid.
    pub fn take(handle: usize) -> Result<Accepted> {
        handle::take::<Accepted>(handle)
    }

    /// Creates a handle for a request. `exchange`: the complete request message with this header.
    pub fn open(
        requests: &Arc<Undecided>,
        socket: Socket,
        from: SocketAddr,
        header: &CmHeader,
        exchange: Vec<u8>,
    ) -> usize {
        static LAST: AtomicU64 = AtomicU64::new(0);
        // Relaxed: only the uniqueness of the numbers matters.
        let serial = LAST.fetch_add(1, Ordering::Relaxed);
        let request = Accepted {
            entry: Entry {
                serial,
                requests: requests.clone(),
            },
            is_claimed: AtomicBool::new(false),
            socket,
            from,
            swapped: header.swapped,
            extended: header.extended,
            keyed: header.keyed,
            exchange,
        };
        let none = core::ptr::null_mut();
        let handle = handle::open(request, FI_CLASS_CONNREQ, none, |fid| fid) as usize;
        requests.handles().insert(serial, handle);
        handle
    }

    /// Whether the handle still belongs to this request and no endpoint was opened for it.
    pub fn is_unclaimed(handle: usize, serial: u64) -> bool {
        let is_unclaimed = |request: &Accepted| {
            // Relaxed: as in `Claim`.
            request.entry.serial == serial && !request.is_claimed.load(Ordering::Relaxed)
        };
        handle::with(handle, is_unclaimed).unwrap_or(false)
    }

    /// Ends a request whose event was not read. The connection is closed without an answer, so that `ofi_rxm` can
    /// distinguish a closed listener from a refusal.
    pub fn end(handle: usize) {
        drop(Accepted::take(handle));
    }

    /// Refuses the request with these bytes. Returns false if the peer is gone.
    pub fn reject(self, param: &[u8]) -> bool {
        let sent = write_exchange(&self.socket, CmKind::Reject, param, false);
        self.socket.shutdown();
        sent
    }

    pub fn from(&self) -> Addr {
        addr::canonical(self.from)
    }

    pub fn local(&self) -> Addr {
        self.socket.local().unwrap_or_else(|_| any_address(false))
    }

    pub fn is_extended(&self) -> bool {
        self.extended
    }

    /// Whether the request comes from an endpoint with an authorization key.
    pub fn is_keyed(&self) -> bool {
        self.keyed && self.extended
    }

    /// Refuses the request because only one side has an authorization key.
    pub fn refuse_key(&self) {
        let reject = encode_cm(CmKind::Reject, &[], false, true);
        write_whole(&self.socket, &reject);
        self.socket.shutdown();
    }

    /// Returns the prover for the peer's key, on a connection accepted with this response.
    pub fn prover(&self, keys: &[Key], response: &[u8]) -> Result<Prover> {
        let local = self.socket.local()?;
        let context = Context::new(self.from, local, &self.exchange, response);
        let nonce = unpredictable()?;
        Ok(Prover::accepting(
            keys.to_vec(),
            context,
            nonce,
            self.swapped,
        ))
    }

    pub fn into_socket(self) -> (Socket, bool) {
        (self.socket, self.swapped)
    }
}
