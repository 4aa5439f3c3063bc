// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Address vectors: fi_av(3).

use core::ffi::{c_char, c_int, c_void};
use core::ptr::{null, null_mut};
use std::sync::Arc;

use super::domain::Domain;
use super::handle::Handle;
use super::{status, string};
use abi::*;
use base::{Error, Result};
use object::slots;

pub type Av = Handle<fid_av>;

/// `struct fi_av_attr`, of a vector of this process.
#[derive(Clone, Copy, Default)]
pub struct AvAttr {
    pub av_type: fi_av_type,
    pub rx_ctx_bits: c_int,
    /// Number of expected addresses; 0: unknown.
    pub count: usize,
}

impl Av {
    pub fn open(domain: &Arc<Domain>, attr: &AvAttr) -> Result<Arc<Av>> {
        let mut raw = fi_av_attr {
            r#type: attr.av_type,
            rx_ctx_bits: attr.rx_ctx_bits,
            count: attr.count,
            ep_per_node: 0,
            name: null(),
            map_addr: null_mut(),
            flags: 0,
        };
        let mut av = null_mut();
        // SAFETY: the domain is open and kept; the attributes are read and written during the call; `av` is written on
        // success.
        unsafe {
            let parent = domain.as_ptr();
            let code = slots::domain::av_open(parent, &raw mut raw, &raw mut av, null_mut());
            Handle::opened(code, av, (), vec![domain.clone()])
        }
    }

    /// Inserts `address`, which is in the format of the domain.
    pub fn insert(&self, address: &[u8]) -> Result<fi_addr_t> {
        let address = padded(address);
        let mut handle = FI_ADDR_NOTAVAIL;
        // SAFETY: the vector is open; one address is there, and room for one handle. Without FI_EVENT both are used
        // during the call only.
        let inserted = unsafe {
            let (av, address) = (self.as_ptr(), address.as_ptr());
            slots::av::insert(av, address.cast(), 1, &raw mut handle, 0, null_mut())
        };
        match inserted {
            1 => Ok(handle),
            0 => Err(Error::ADDRNOTAVAIL),
            code => Err(Error::new(code.saturating_abs())),
        }
    }

    pub fn remove(&self, addresses: &mut [fi_addr_t]) -> Result {
        // SAFETY: the vector is open; the array has this many addresses.
        status(unsafe {
            slots::av::remove(self.as_ptr(), addresses.as_mut_ptr(), addresses.len(), 0)
        })
    }

    pub fn lookup(&self, address: fi_addr_t) -> Result<Vec<u8>> {
        // SAFETY: the vector is open; `sized` passes the size of its buffer.
        sized(|at, len| unsafe { slots::av::lookup(self.as_ptr(), address, at, len) })
    }

    /// Returns an address of the domain's format as text.
    pub fn straddr(&self, address: &[u8]) -> Option<String> {
        let address = padded(address);
        let mut text = [0 as c_char; MAX_TEXT];
        let mut len = text.len();
        // SAFETY: the vector is open, the address is there, and so is the room; the text ends within it.
        unsafe {
            let (address, at) = (address.as_ptr().cast(), text.as_mut_ptr());
            string(slots::av::straddr(self.as_ptr(), address, at, &raw mut len))
        }
    }
}

/// Returns `address` followed by zeros: a provider that expects another format still reads memory of this process only.
pub(super) fn padded(address: &[u8]) -> Vec<u8> {
    let mut padded = Vec::with_capacity(address.len() + LONGEST);
    padded.extend_from_slice(address);
    padded.resize(address.len() + LONGEST, 0);
    padded
}

/// Returns the bytes that `fill` writes. Calls it a second time if the first buffer is too short. `fill` gets the
/// buffer and its length, and returns 0, or -FI_ETOOSMALL with the length that is needed.
pub(super) fn sized(fill: impl Fn(*mut c_void, *mut usize) -> c_int) -> Result<Vec<u8>> {
    let mut bytes = vec![0u8; LONGEST];
    for _ in 0..2 {
        let mut len = bytes.len();
        let answer = status(fill(bytes.as_mut_ptr().cast(), &raw mut len));
        let fits = len <= bytes.len();
        bytes.resize(len, 0);
        match answer {
            Ok(()) if fits => return Ok(bytes),
            Ok(()) | Err(Error::TOOSMALL) => {}
            Err(error) => return Err(error),
        }
    }
    Err(Error::TOOSMALL)
}

/// No address format of fi_endpoint(3) except strings has more bytes, and strings end at a zero.
const LONGEST: usize = 256;

/// Room for the text of an address.
const MAX_TEXT: usize = 512;
