// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! One number of fi_errno(3) as a type. Only `object` and `exports` turn it into C's negative number.
#![forbid(unsafe_code)]

use core::ffi::c_int;
use core::fmt;
use core::num::NonZeroI32;
use std::io::ErrorKind;

use crate::text::error_words;

/// A non-zero FI_ error number.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Error(NonZeroI32);

pub type Result<T = ()> = core::result::Result<T, Error>;

macro_rules! errors {
    ($($name:ident = $code:ident,)*) => {
        /// The numbers of fi_errno(3) that a layer returns, or that a provider may return.
        #[allow(dead_code)]
        impl Error {
            $(pub const $name: Error = Error::new(abi::$code);)*
        }
    };
}

errors! {
    PERM = FI_EPERM,
    NOENT = FI_ENOENT,
    INTR = FI_EINTR,
    IO = FI_EIO,
    TOOBIG = FI_E2BIG,
    BADF = FI_EBADF,
    AGAIN = FI_EAGAIN,
    NOMEM = FI_ENOMEM,
    ACCES = FI_EACCES,
    FAULT = FI_EFAULT,
    BUSY = FI_EBUSY,
    NODEV = FI_ENODEV,
    INVAL = FI_EINVAL,
    MFILE = FI_EMFILE,
    NOSPC = FI_ENOSPC,
    NOSYS = FI_ENOSYS,
    NOMSG = FI_ENOMSG,
    NODATA = FI_ENODATA,
    MSGSIZE = FI_EMSGSIZE,
    NOPROTOOPT = FI_ENOPROTOOPT,
    OPNOTSUPP = FI_EOPNOTSUPP,
    ADDRINUSE = FI_EADDRINUSE,
    ADDRNOTAVAIL = FI_EADDRNOTAVAIL,
    CONNABORTED = FI_ECONNABORTED,
    CONNRESET = FI_ECONNRESET,
    ISCONN = FI_EISCONN,
    NOTCONN = FI_ENOTCONN,
    SHUTDOWN = FI_ESHUTDOWN,
    TIMEDOUT = FI_ETIMEDOUT,
    CONNREFUSED = FI_ECONNREFUSED,
    HOSTUNREACH = FI_EHOSTUNREACH,
    ALREADY = FI_EALREADY,
    CANCELED = FI_ECANCELED,
    KEYREJECTED = FI_EKEYREJECTED,
    OTHER = FI_EOTHER,
    TOOSMALL = FI_ETOOSMALL,
    OPBADSTATE = FI_EOPBADSTATE,
    AVAIL = FI_EAVAIL,
    BADFLAGS = FI_EBADFLAGS,
    NOEQ = FI_ENOEQ,
    DOMAIN = FI_EDOMAIN,
    NOCQ = FI_ENOCQ,
    CRC = FI_ECRC,
    TRUNC = FI_ETRUNC,
    NOKEY = FI_ENOKEY,
    NOAV = FI_ENOAV,
    OVERRUN = FI_EOVERRUN,
    NORX = FI_ENORX,
    FIREWALLADDR = FI_EFIREWALLADDR,
}

impl Error {
    /// `code` must not be zero; zero becomes `OTHER`.
    pub const fn new(code: c_int) -> Error {
        match NonZeroI32::new(code) {
            Some(code) => Error(code),
            None => Error(NonZeroI32::new(abi::FI_EOTHER).unwrap()),
        }
    }

    /// Returns the positive FI_ number.
    pub const fn code(self) -> c_int {
        self.0.get()
    }

    /// Returns the negative number, as C functions return it.
    pub const fn negative(self) -> c_int {
        -self.0.get()
    }
}

/// FI_ numbers below 256 are the system's errno values.
impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Error {
        let ours = || match error.kind() {
            ErrorKind::PermissionDenied => abi::FI_EACCES,
            ErrorKind::NotFound => abi::FI_ENOENT,
            ErrorKind::AddrInUse => abi::FI_EADDRINUSE,
            _ => abi::FI_EIO,
        };
        Error::new(error.raw_os_error().unwrap_or_else(ours))
    }
}

/// The text of fi_strerror(3).
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&error_words(self.code()))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({})", self.code())
    }
}
