// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A connection request between its event and fi_endpoint or fi_reject: the `handle` of its info (fi_cm(3)). The texts
//! of refused requests.

use std::ffi::CStr;

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

/// The text of a negative error number of an event: the reason that the connection manager of InfiniBand gives for a
/// refused request.
pub fn refusal_text(number: i32) -> Option<&'static CStr> {
    let text = match number.checked_neg()? {
        ..=0 => return None,
        1 => c"refused: the peer has no queue pair",
        3 => c"refused: the peer has no resources",
        4 => c"refused: timed out",
        8 => c"refused: nobody listens at this address",
        10 => c"refused: the peer has a connection of an earlier process",
        12 => c"refused: no such device at this address",
        28 => c"refused by the peer's application",
        _ => c"refused by the peer's connection manager",
    };
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_reasons_have_texts() {
        assert_eq!(refusal_text(113), None);
        assert_eq!(refusal_text(0), None);
        assert_eq!(refusal_text(i32::MIN), None);
        assert!(refusal_text(-28).is_some_and(|text| text != refusal_text(-8).unwrap()));
        assert!(refusal_text(-1000).is_some());
    }
}
