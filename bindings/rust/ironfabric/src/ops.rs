// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Operations of endpoints: fi_msg(3), fi_tagged(3), fi_rma(3), fi_atomic(3).
//!
//! An operation that takes a buffer checks that the buffer is of the endpoint's domain and that the peer is of its
//! address vector, stores the endpoint's number in the buffer, and calls the provider. The slots were checked when the
//! endpoint was enabled.

use core::ffi::c_void;
use core::fmt;

use ironfabric_sys::*;

use crate::av::Peer;
use crate::buffer::{Buffer, Flight};
use crate::ep::{Endpoint, tables};
use crate::error::{Error, Result, count};
use crate::handle::{Shared, Threads};
use crate::region::RemoteMemory;

/// An operation that was not posted. It gives the buffer back; after [`Error::AGAIN`] the call can be repeated when
/// completions were read.
pub struct Rejected<T: Threads = Shared> {
    /// Why.
    pub error: Error,
    /// The buffer of the operation.
    pub buffer: Buffer<T>,
}

impl<T: Threads> Rejected<T> {
    /// Whether the call may succeed after completions were read.
    #[inline]
    pub fn is_again(&self) -> bool {
        self.error.is_again()
    }
}

impl<T: Threads> fmt::Debug for Rejected<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.error, f)
    }
}

impl<T: Threads> fmt::Display for Rejected<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)
    }
}

impl<T: Threads> std::error::Error for Rejected<T> {}

impl<T: Threads> From<Rejected<T>> for Error {
    /// Frees the buffer.
    fn from(rejected: Rejected<T>) -> Error {
        rejected.error
    }
}

/// Result of an operation that takes a buffer.
pub type Posted<T> = core::result::Result<(), Rejected<T>>;

/// Memory of an operation that the crate does not own.
#[derive(Clone, Copy, Debug)]
pub struct RawMemory {
    /// The first byte.
    pub base: *mut u8,
    /// Number of bytes.
    pub len: usize,
    /// Descriptor of the registration, or NULL: fi_mr(3).
    pub desc: *mut c_void,
}

/// Calls a slot of the endpoint.
macro_rules! call {
    ($ep:expr, $table:ident . $slot:ident ( $($arg:expr),* )) => {{
        let ep = $ep;
        // SAFETY: the endpoint is open. `enable` has checked the slot, and `tables` that it did; a provider that
        // replaces a table later fills its slots, too, because C programs call them without a check.
        unsafe {
            let slot = (*(*ep).$table).$slot.unwrap_unchecked();
            slot(ep, $($arg),*)
        }
    }};
}

mod atomic;
pub use atomic::{AtomicElement, AtomicOp, CompareOp};

impl<T: Threads> Endpoint<T> {
    /// Whether the peer is one that the endpoint can send to.
    #[inline]
    fn reaches(&self, peer: Peer) -> bool {
        peer.vector == self.vector
    }

    /// Posts an operation with a buffer. `post` calls the provider.
    #[inline]
    fn post(
        &self,
        is_allowed: bool,
        side: u64,
        buffer: Buffer<T>,
        post: impl FnOnce(*mut fid_ep, &Flight<T>) -> isize,
    ) -> Posted<T> {
        if !is_allowed || !buffer.belongs_to(&self.domain) {
            return Err(self.refused(buffer));
        }
        let flight = buffer.launch(side);
        match post(self.raw.get(), &flight) {
            0.. => Ok(()),
            code => Err(Rejected {
                error: Error::new(code.saturating_neg() as i32),
                buffer: flight.refused(),
            }),
        }
    }

    #[cold]
    fn refused(&self, buffer: Buffer<T>) -> Rejected<T> {
        let error = match self.tables {
            0 => Error::NOCQ,
            _ => Error::INVAL,
        };
        Rejected { error, buffer }
    }

    #[inline]
    fn transmits(&self, table: u32, peer: Peer) -> bool {
        self.tables & table != 0 && self.reaches(peer)
    }

    #[inline]
    fn receives(&self, table: u32, from: Peer) -> bool {
        self.tables & table != 0 && (from.vector == 0 || self.reaches(from))
    }

    #[inline]
    fn inject_with(
        &self,
        table: u32,
        peer: Peer,
        post: impl FnOnce(*mut fid_ep) -> isize,
    ) -> Result {
        if !self.transmits(table, peer) {
            return Err(if self.tables & table == 0 {
                Error::NOSYS
            } else {
                Error::INVAL
            });
        }
        count(post(self.raw.get())).map(drop)
    }
}

macro_rules! messages {
    ($table:ident $tx:ident $rx:ident $inject_table:ident ($($tag:ident)?) ($($ignore:ident)?) $page:literal:
        $send:ident $send_data:ident $recv:ident $inject:ident $inject_data:ident $send_raw:ident $recv_raw:ident) => {
        impl<T: Threads> Endpoint<T> {
            #[doc = concat!("Sends a message, the bytes of the buffer: ", $page, ".")]
            #[inline]
            pub fn $send(&self, buffer: Buffer<T>, to: Peer $(, $tag: u64)?) -> Posted<T> {
                self.post(self.transmits(tables::$tx, to), self.sides[0], buffer, |ep, flight| {
                    let h = flight.header();
                    call!(ep, $table.send(h.base.cast(), h.len.get(), h.desc, to.addr, $($tag,)? flight.context()))
                })
            }

            #[doc = concat!("Sends a message with a number for the completion of the peer: ", $page, ".")]
            ///
            /// The provider carries [`Info::cq_data_size`](crate::Info::cq_data_size) bytes of the number.
            #[inline]
            pub fn $send_data(&self, buffer: Buffer<T>, data: u64, to: Peer $(, $tag: u64)?) -> Posted<T> {
                self.post(self.transmits(tables::$tx, to), self.sides[0], buffer, |ep, flight| {
                    let h = flight.header();
                    call!(ep, $table.senddata(
                        h.base.cast(), h.len.get(), h.desc, data, to.addr, $($tag,)? flight.context()
                    ))
                })
            }

            #[doc = concat!("Receives a message into the buffer, up to its capacity: ", $page, ".")]
            ///
            /// A source other than [`Peer::ANY`] needs the capability `DIRECTED_RECV`; without it, the provider may
            /// ignore the source.
            #[inline]
            pub fn $recv(&self, buffer: Buffer<T>, from: Peer $(, $tag: u64)? $(, $ignore: u64)?) -> Posted<T> {
                self.post(self.receives(tables::$rx, from), self.sides[1], buffer, |ep, flight| {
                    let h = flight.header();
                    call!(ep, $table.recv(
                        h.base.cast(), h.capacity, h.desc, from.addr, $($tag,)? $($ignore,)? flight.context()
                    ))
                })
            }

            #[doc = concat!("Sends a small message without a completion: ", $page, ".")]
            ///
            /// The bytes, up to [`Info::inject_size`](crate::Info::inject_size), are copied during the call.
            #[inline]
            pub fn $inject(&self, bytes: &[u8], to: Peer $(, $tag: u64)?) -> Result {
                self.inject_with(tables::$inject_table, to, |ep| {
                    call!(ep, $table.inject(bytes.as_ptr().cast(), bytes.len(), to.addr $(, $tag)?))
                })
            }

            #[doc = concat!("Does the same, with a number for the completion of the peer: ", $page, ".")]
            #[inline]
            pub fn $inject_data(&self, bytes: &[u8], data: u64, to: Peer $(, $tag: u64)?) -> Result {
                self.inject_with(tables::$inject_table, to, |ep| {
                    call!(ep, $table.injectdata(bytes.as_ptr().cast(), bytes.len(), data, to.addr $(, $tag)?))
                })
            }

            #[doc = concat!("Sends memory that the crate does not own: ", $page, ".")]
            ///
            /// `operation` is the context. Its own bytes are not used; an empty buffer is enough.
            ///
            /// # Safety
            /// The memory may be read until the completion is read or the endpoint is closed, and nothing changes it.
            /// The descriptor is that of a registration of it that stays open as long, or NULL if the domain does not
            /// require one.
            #[inline]
            pub unsafe fn $send_raw(
                &self,
                memory: RawMemory,
                to: Peer,
                $($tag: u64,)?
                operation: Buffer<T>,
            ) -> Posted<T> {
                self.post(self.transmits(tables::$tx, to), self.sides[0], operation, |ep, flight| {
                    let RawMemory { base, len, desc } = memory;
                    call!(ep, $table.send(base.cast(), len, desc, to.addr, $($tag,)? flight.context()))
                })
            }

            #[doc = concat!("Receives into memory that the crate does not own: ", $page, ".")]
            ///
            /// `operation` is the context. Its own bytes are not used; an empty buffer is enough.
            ///
            /// # Safety
            /// The memory may be written until the completion is read or the endpoint is closed, and nothing else
            /// accesses it. The descriptor is as for sends.
            #[inline]
            pub unsafe fn $recv_raw(
                &self,
                memory: RawMemory,
                from: Peer,
                $($tag: u64,)?
                $($ignore: u64,)?
                operation: Buffer<T>,
            ) -> Posted<T> {
                self.post(self.receives(tables::$rx, from), self.sides[1], operation, |ep, flight| {
                    let RawMemory { base, len, desc } = memory;
                    call!(ep, $table.recv(
                        base.cast(), len, desc, from.addr, $($tag,)? $($ignore,)? flight.context()
                    ))
                })
            }
        }
    };
}

messages!(msg MSG_TX MSG_RX MSG_INJECT () () "fi_msg(3)":
    send send_data recv inject inject_data send_raw recv_raw);
messages!(tagged TAGGED_TX TAGGED_RX TAGGED_INJECT (tag) (ignore) "fi_tagged(3)":
    tsend tsend_data trecv tinject tinject_data tsend_raw trecv_raw);

impl<T: Threads> Endpoint<T> {
    /// Reads memory of a peer into the buffer: fi_rma(3). The length becomes that of the memory.
    ///
    /// # Panics
    /// If the memory is larger than the buffer.
    #[inline]
    pub fn read(&self, mut buffer: Buffer<T>, from: Peer, memory: RemoteMemory) -> Posted<T> {
        buffer.set_len(usize::try_from(memory.len).unwrap_or(usize::MAX));
        self.post(
            self.transmits(tables::RMA, from),
            self.sides[0],
            buffer,
            |ep, flight| {
                let h = flight.header();
                let context = flight.context();
                call!(
                    ep,
                    rma.read(
                        h.base.cast(),
                        h.len.get(),
                        h.desc,
                        from.addr,
                        memory.addr,
                        memory.key,
                        context
                    )
                )
            },
        )
    }

    /// Writes the bytes of the buffer to the beginning of a peer's memory: fi_rma(3). `INVAL`: it is too small.
    #[inline]
    pub fn write(&self, buffer: Buffer<T>, to: Peer, memory: RemoteMemory) -> Posted<T> {
        let fits = buffer.len() as u64 <= memory.len;
        self.post(
            fits && self.transmits(tables::RMA, to),
            self.sides[0],
            buffer,
            |ep, flight| {
                let h = flight.header();
                let context = flight.context();
                call!(
                    ep,
                    rma.write(
                        h.base.cast(),
                        h.len.get(),
                        h.desc,
                        to.addr,
                        memory.addr,
                        memory.key,
                        context
                    )
                )
            },
        )
    }

    /// Does the same, and the peer gets a completion with a number.
    #[inline]
    pub fn write_data(
        &self,
        buffer: Buffer<T>,
        data: u64,
        to: Peer,
        memory: RemoteMemory,
    ) -> Posted<T> {
        let fits = buffer.len() as u64 <= memory.len;
        self.post(
            fits && self.transmits(tables::RMA, to),
            self.sides[0],
            buffer,
            |ep, flight| {
                let h = flight.header();
                let context = flight.context();
                call!(
                    ep,
                    rma.writedata(
                        h.base.cast(),
                        h.len.get(),
                        h.desc,
                        data,
                        to.addr,
                        memory.addr,
                        memory.key,
                        context
                    )
                )
            },
        )
    }

    /// Writes a few bytes without a completion: fi_rma(3). They are copied during the call.
    #[inline]
    pub fn inject_write(&self, bytes: &[u8], to: Peer, memory: RemoteMemory) -> Result {
        if bytes.len() as u64 > memory.len {
            return Err(Error::INVAL);
        }
        self.inject_with(tables::RMA_INJECT, to, |ep| {
            call!(
                ep,
                rma.inject(
                    bytes.as_ptr().cast(),
                    bytes.len(),
                    to.addr,
                    memory.addr,
                    memory.key
                )
            )
        })
    }

    /// Does the same, and the peer gets a completion with a number.
    #[inline]
    pub fn inject_write_data(
        &self,
        bytes: &[u8],
        data: u64,
        to: Peer,
        memory: RemoteMemory,
    ) -> Result {
        if bytes.len() as u64 > memory.len {
            return Err(Error::INVAL);
        }
        self.inject_with(tables::RMA_INJECT, to, |ep| {
            call!(
                ep,
                rma.injectdata(
                    bytes.as_ptr().cast(),
                    bytes.len(),
                    data,
                    to.addr,
                    memory.addr,
                    memory.key
                )
            )
        })
    }
}
