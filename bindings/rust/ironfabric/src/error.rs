// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Errors of calls: fi_errno(3).

use core::ffi::{CStr, c_int};
use core::fmt;
use core::num::NonZero;

use ironfabric_sys as sys;
use sys::Library;

/// A number of fi_errno(3). `Display` is the text of `fi_strerror`.
///
/// ```
/// use ironfabric::Error;
/// assert_eq!(Error::AGAIN.code(), 11);
/// assert!(!Error::NODATA.to_string().is_empty());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Error(NonZero<i32>);

/// Result of a call that fails with a number of fi_errno(3).
pub type Result<T = (), E = Error> = core::result::Result<T, E>;

macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident $value:ident;)+) => {
        impl Error {
            $($(#[$doc])* pub const $name: Error = Error::new(sys::$value);)+
        }

        fn name(code: c_int) -> Option<&'static str> {
            $(if code == sys::$value { return Some(stringify!($name)); })+
            None
        }
    };
}

errors! {
    /// The call cannot be served now. Read the completion queue, then call again.
    AGAIN FI_EAGAIN;
    /// A queue has an error to read first.
    AVAIL FI_EAVAIL;
    /// The address is in use.
    ADDRINUSE FI_EADDRINUSE;
    /// The address is unknown or in the wrong format.
    ADDRNOTAVAIL FI_EADDRNOTAVAIL;
    /// Closing an object that others depend on.
    BUSY FI_EBUSY;
    /// The operation was cancelled, or its connection ended.
    CANCELED FI_ECANCELED;
    /// The peer refused the connection.
    CONNREFUSED FI_ECONNREFUSED;
    /// The connection ended.
    CONNRESET FI_ECONNRESET;
    /// An argument is wrong, or an object belongs to another domain.
    INVAL FI_EINVAL;
    /// The message is too large.
    MSGSIZE FI_EMSGSIZE;
    /// The endpoint has no address vector.
    NOAV FI_ENOAV;
    /// The endpoint has no completion queue for this operation.
    NOCQ FI_ENOCQ;
    /// `libfabric.so.1` could not be loaded, or nothing matches the hints.
    NODATA FI_ENODATA;
    /// There is no such operation in flight.
    NOENT FI_ENOENT;
    /// No memory.
    NOMEM FI_ENOMEM;
    /// The provider or the endpoint does not have this call.
    NOSYS FI_ENOSYS;
    /// The endpoint is not connected.
    NOTCONN FI_ENOTCONN;
    /// An error without a number of its own.
    OTHER FI_EOTHER;
    /// The time limit has passed.
    TIMEDOUT FI_ETIMEDOUT;
    /// A buffer is too small.
    TOOSMALL FI_ETOOSMALL;
    /// The message is longer than the buffer of the receive.
    TRUNC FI_ETRUNC;
}

impl Error {
    /// Makes an error of a positive number; other numbers become [`Error::OTHER`].
    pub const fn new(code: c_int) -> Error {
        match NonZero::new(code) {
            Some(code) if code.get() > 0 => Error(code),
            _ => Error(NonZero::new(sys::FI_EOTHER).unwrap()),
        }
    }

    /// Returns the positive number.
    pub const fn code(self) -> c_int {
        self.0.get()
    }

    /// Whether the call may succeed after completions were read (`FI_EAGAIN`).
    pub const fn is_again(self) -> bool {
        self.code() == sys::FI_EAGAIN
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Library::get() {
            // SAFETY: fi_errno(3): any number is allowed, and the text is constant.
            Ok(library) => unsafe {
                let text = (library.strerror)(self.code());
                match text.is_null() {
                    true => write!(f, "error {}", self.code()),
                    false => f.write_str(&CStr::from_ptr(text).to_string_lossy()),
                }
            },
            Err(error) => write!(f, "error {} ({error})", self.code()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match name(self.code()) {
            Some(name) => f.write_str(name),
            None => write!(f, "Error({})", self.code()),
        }
    }
}

impl std::error::Error for Error {}

impl From<Error> for std::io::Error {
    /// Numbers up to 255 are those of the operating system.
    fn from(error: Error) -> std::io::Error {
        match error.code() {
            code @ 1..256 => std::io::Error::from_raw_os_error(code),
            _ => std::io::Error::other(error),
        }
    }
}

/// Result of a C call that returns 0 or a negative number.
#[inline]
pub(crate) fn status(code: c_int) -> Result {
    match code {
        0 => Ok(()),
        code => Err(Error::new(code.saturating_abs())),
    }
}

/// Result of a C call that returns a count or a negative number.
#[inline]
pub(crate) fn count(code: isize) -> Result<usize> {
    match code {
        0.. => Ok(code as usize),
        code => Err(Error::new(code.saturating_neg() as c_int)),
    }
}
