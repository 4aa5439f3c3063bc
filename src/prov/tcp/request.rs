// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Connection requests between their event and fi_accept or fi_reject: fi_cm(3).
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::net::SocketAddr;
use std::sync::Arc;

use crate::abi::{FI_CLASS_CONNREQ, fid};
use crate::base::{Error, Result};
use crate::engine::address::ip::Addr;
use crate::engine::auth::Key;
use crate::engine::stream::proto::{CmHeader, CmKind, encode_cm};
use crate::ffi::{Kind, object};
use crate::prov::tcp::auth::{Context, Prover};
use crate::prov::tcp::bound::any_address;
use crate::prov::tcp::exchange::{write_exchange, write_whole};
use crate::prov::tcp::undecided::Undecided;
use crate::sys::addr;
use crate::sys::random::unpredictable;
use crate::sys::socket::Socket;

/// A connection request that waits for fi_accept or fi_reject: the `handle` of its info.
pub struct Accepted {
    entry: Entry,
    /// An endpoint was made of the request.
    is_claimed: AtomicBool,
    socket: Socket,
    from: SocketAddr,
    swapped: bool,
    extended: bool,
    keyed: bool,
    /// The request, all bytes of it.
    exchange: Vec<u8>,
}

impl Kind for Accepted {
    type Head = fid;
}

/// The place of a request among those of its passive endpoint. It is given up when the request is decided.
struct Entry {
    serial: u64,
    requests: Arc<Undecided>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.requests.remove(self.serial);
    }
}

/// The request that an endpoint was made of, until the endpoint accepts it or is closed. fi_reject may take it before.
pub struct Claim {
    handle: usize,
    serial: u64,
    local: Addr,
}

impl Claim {
    /// FI_EINVAL if the handle is no request, or one that another endpoint was made of.
    pub fn new(handle: usize) -> Result<Claim> {
        Claim::of_one(handle, |_| true)
    }

    /// As `new`, and FI_EINVAL if the handle is another request's by now.
    pub fn of(handle: usize, serial: u64) -> Result<Claim> {
        Claim::of_one(handle, |request| request.entry.serial == serial)
    }

    fn of_one(handle: usize, is_meant: impl FnOnce(&Accepted) -> bool) -> Result<Claim> {
        let claim = |request: &Accepted| {
            // Relaxed: nothing else is read or written because of the flag.
            let is_free = is_meant(request) && !request.is_claimed.swap(true, Ordering::Relaxed);
            is_free.then(|| Claim {
                handle,
                serial: request.entry.serial,
                local: request.local(),
            })
        };
        object::with(handle, claim).flatten().ok_or(Error::INVAL)
    }

    /// The address at which the request came in.
    pub fn local(&self) -> Addr {
        self.local
    }

    /// Takes the request out of its handle, which is gone then. FI_EINVAL if the request was rejected; its number may
    /// be another request's by now.
    pub fn take(&self) -> Result<Accepted> {
        let is_ours = object::with(self.handle, |it: &Accepted| it.entry.serial == self.serial);
        match is_ours {
            Some(true) => Accepted::take(self.handle),
            _ => Err(Error::INVAL),
        }
    }

    /// Refuses the request. False if it was decided before.
    pub fn refuse(&self) -> bool {
        // A peer that has gone needs no answer.
        self.take().map(|request| request.reject(&[])).is_ok()
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // An endpoint that is closed without fi_accept ends the connection.
        drop(self.take());
    }
}

impl Accepted {
    /// Takes the request out of its handle, which is gone then.
    pub fn take(handle: usize) -> Result<Accepted> {
        object::take::<Accepted>(handle)
    }

    /// Makes a handle of a request. `exchange`: the request, all bytes of it, with this header.
    pub fn open(
        requests: &Arc<Undecided>,
        socket: Socket,
        from: SocketAddr,
        header: &CmHeader,
        exchange: Vec<u8>,
    ) -> usize {
        static LAST: AtomicU64 = AtomicU64::new(0);
        // Relaxed: only its being different counts.
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
        let handle = object::open(request, FI_CLASS_CONNREQ, none, |fid| fid) as usize;
        requests.insert(serial, handle);
        handle
    }

    /// Whether the handle is still this request's, and no endpoint was made of it.
    pub fn is_unclaimed(handle: usize, serial: u64) -> bool {
        let is_unclaimed = |request: &Accepted| {
            // Relaxed: as in `Claim`.
            request.entry.serial == serial && !request.is_claimed.load(Ordering::Relaxed)
        };
        object::with(handle, is_unclaimed).unwrap_or(false)
    }

    /// Ends a request whose event was not read. Its connection is closed without an answer: `ofi_rxm` tells by that
    /// a listener that has gone from one that refuses.
    pub fn end(handle: usize) {
        drop(Accepted::take(handle));
    }

    /// Refuses the request with these bytes. False if the peer has gone.
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

    /// It comes from an endpoint with an authorization key.
    pub fn is_keyed(&self) -> bool {
        self.keyed && self.extended
    }

    /// For the want of an authorization key, or for having one.
    pub fn refuse_key(&self) {
        let reject = encode_cm(CmKind::Reject, &[], false, true);
        write_whole(&self.socket, &reject);
        self.socket.shutdown();
    }

    /// What takes the proof of its key, over a connection accepted with this response.
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
