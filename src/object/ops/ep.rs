// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `struct fi_ops_ep`: options, cancel and queue room of endpoints (fi_endpoint(3)).

use core::ffi::{c_int, c_void};

use crate::handle::{self, Kind};
use crate::ops::missing::Missing;
use crate::ops::options::{Opt, OptKind, OptValue, Owner, Settable};
use crate::ops::{answer, object, status};
use crate::user;
use abi::*;
use base::{Error, Result};

pub trait EpCalls: Kind {
    /// Whether this is one of the endpoints that `owner` describes.
    fn is_owner(&self, owner: Owner) -> bool;
    /// Returns the value of an option that the endpoint has.
    fn get_opt(&self, opt: Opt) -> Result<OptValue>;
    /// Sets an option that the endpoint has. The value is of the option's kind.
    fn set_opt(&self, _opt: Opt, _value: OptValue) -> Result {
        Err(Error::NOPROTOOPT)
    }
    fn cancel(&self, _context: usize) -> Result {
        Err(Error::NOSYS)
    }
    /// fi_tx_flush: starts the operations that FI_MORE has deferred.
    fn start_transmits(&self) -> Result {
        Err(Error::NOSYS)
    }
    fn rx_size_left(&self) -> Result<usize> {
        Err(Error::NOSYS)
    }
    fn tx_size_left(&self) -> Result<usize> {
        Err(Error::NOSYS)
    }
}

pub const fn table<T: EpCalls>() -> &'static fi_ops_ep {
    &fi_ops_ep {
        cancel: Some(cancel::<T>),
        getopt: Some(getopt::<T>),
        setopt: Some(setopt::<T>),
        rx_size_left: Some(rx_size_left::<T>),
        tx_size_left: Some(tx_size_left::<T>),
        tx_flush: Some(tx_flush::<T>),
        ..Missing::TABLE
    }
}

unsafe extern "C" fn cancel<T: EpCalls>(fid: fid_t, context: *mut c_void) -> isize {
    // SAFETY: an open endpoint.
    status(object(unsafe { handle::get::<T, _>(fid) }).and_then(|ep| ep.cancel(context as usize)))
}

unsafe extern "C" fn getopt<T: EpCalls>(
    fid: fid_t,
    level: c_int,
    name: c_int,
    optval: *mut c_void,
    optlen: *mut usize,
) -> c_int {
    // SAFETY: an open endpoint.
    let result = object(unsafe { handle::get::<T, _>(fid) }).and_then(|ep| {
        if level != FI_OPT_ENDPOINT {
            return Err(Error::NOPROTOOPT);
        }
        if optval.is_null() || optlen.is_null() {
            return Err(Error::INVAL);
        }
        let value = ep.get_opt(option_of(ep, name)?)?;
        // SAFETY: fi_endpoint(3): `optlen` is the size of the buffer at `optval`.
        unsafe { write_value(value, optval, optlen) }
    });
    status(result)
}

/// # Safety
/// `optlen` must be writable and hold the size of the buffer at `optval`.
unsafe fn write_value(value: OptValue, optval: *mut c_void, optlen: *mut usize) -> Result {
    // SAFETY: promised by the caller.
    unsafe {
        let room = optlen.read();
        let (size, bytes) = match value {
            OptValue::Size(v) => (size_of::<usize>(), (v as u64).to_ne_bytes()),
            OptValue::Bool(v) => (size_of::<bool>(), u64::from(v).to_ne_bytes()),
        };
        optlen.write(size);
        if room < size {
            return Err(Error::TOOSMALL);
        }
        user::Room::new(optval, size)?.fill(&bytes[..size]);
    }
    Ok(())
}

unsafe extern "C" fn setopt<T: EpCalls>(
    fid: fid_t,
    level: c_int,
    name: c_int,
    optval: *const c_void,
    optlen: usize,
) -> c_int {
    // SAFETY: an open endpoint.
    let result = object(unsafe { handle::get::<T, _>(fid) }).and_then(|ep| {
        if level != FI_OPT_ENDPOINT {
            return Err(Error::NOPROTOOPT);
        }
        // SAFETY: fi_endpoint(3): `optval` has `optlen` bytes.
        let bytes = unsafe { user::bytes(optval, optlen) }?;
        let opt = option_of(ep, name)?;
        match opt.settable() {
            Settable::Never => Err(Error::NOPROTOOPT),
            _ => ep.set_opt(opt, read_value(opt.kind(), bytes)?),
        }
    });
    status(result)
}

/// Returns the option with this number if the endpoint has it.
fn option_of<T: EpCalls>(ep: &T, number: c_int) -> Result<Opt> {
    let opt = Opt::of(number)?;
    match ep.is_owner(opt.owner()) {
        true => Ok(opt),
        false => Err(Error::NOPROTOOPT),
    }
}

fn read_value(kind: OptKind, bytes: &[u8]) -> Result<OptValue> {
    match kind {
        OptKind::Size => bytes
            .try_into()
            .map(|b| OptValue::Size(usize::from_ne_bytes(b))),
        OptKind::Bool => bytes.try_into().map(|b: [u8; 1]| OptValue::Bool(b[0] != 0)),
    }
    .map_err(|_| Error::INVAL)
}

unsafe extern "C" fn tx_flush<T: EpCalls>(ep: *mut fid_ep, flags: u64) -> isize {
    // SAFETY: an open endpoint.
    status(
        object(unsafe { handle::get::<T, _>(ep) }).and_then(|ep| match flags {
            0 => ep.start_transmits(),
            _ => Err(Error::INVAL),
        }),
    )
}

unsafe extern "C" fn rx_size_left<T: EpCalls>(ep: *mut fid_ep) -> isize {
    // SAFETY: an open endpoint.
    answer(object(unsafe { handle::get::<T, _>(ep) }).and_then(|ep| ep.rx_size_left()))
}

unsafe extern "C" fn tx_size_left<T: EpCalls>(ep: *mut fid_ep) -> isize {
    // SAFETY: an open endpoint.
    answer(object(unsafe { handle::get::<T, _>(ep) }).and_then(|ep| ep.tx_size_left()))
}
