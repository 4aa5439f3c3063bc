// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A connection request between its event and fi_endpoint or fi_reject: the `handle` of its info (fi_cm(3)).

use super::private;
use abi::{FI_CLASS_CONNREQ, fid};
use base::{Error, Result};
use object::Kind;
use object::handle;
use sys::verbs::Id;

/// The identifier of a requested connection. Dropping it rejects the request.
pub struct Request(Option<Id>);

impl Drop for Request {
    fn drop(&mut self) {
        if let Some(id) = self.0.take() {
            refuse(&id);
        }
    }
}

/// Rejects a request that the application has not decided. If the peer is gone, it needs no answer.
pub fn refuse(id: &Id) {
    if let Ok(nothing) = private::encode(&[]) {
        let _ = id.reject(&nothing);
    }
}

impl Kind for Request {
    type Head = fid;
    const IS_CONSUMED: bool = true;
}

impl Request {
    /// Creates a handle for a request.
    pub fn open(id: Id) -> usize {
        handle::open(
            Request(Some(id)),
            FI_CLASS_CONNREQ,
            core::ptr::null_mut(),
            |fid| fid,
        ) as usize
    }

    /// Takes the identifier for an endpoint.
    pub fn into_id(mut self) -> Result<Id> {
        self.0.take().ok_or(Error::INVAL)
    }

    /// Rejects the request with this data.
    pub fn reject(self, data: &[u8]) -> Result {
        let data = private::encode(data)?;
        Ok(self.into_id()?.reject(&data)?)
    }
}

/// Ends a request whose event was not read.
pub fn end(request: usize) {
    drop(handle::take::<Request>(request));
}
