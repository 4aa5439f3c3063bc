// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Messages: fi_msg(3), fi_tagged(3).
//!
//! Spans and contexts carry the promise of their creators, so posting them is safe. After FI_EAGAIN, retry after some
//! progress.

use core::ffi::c_void;
use core::ptr::null_mut;

use super::ep::Ep;
use super::memory::{Buffer, Context, Span, given};
use super::posted;
use abi::*;
use base::{Error, Result, Source};
use object::slots;

/// `struct fi_msg` and `struct fi_msg_tagged`.
pub struct Message<'a> {
    pub spans: &'a mut [Span],
    /// The peer; for a receive, the accepted source.
    pub addr: fi_addr_t,
    pub context: Context,
    pub data: u64,
    /// Tag and ignored bits of tagged messages.
    pub tag: u64,
    pub ignore: u64,
}

/// Several spans in their C form.
pub(super) struct Pieces {
    pub iov: [iovec; MAX_SPANS],
    pub desc: [*mut c_void; MAX_SPANS],
    pub count: usize,
}

impl Pieces {
    pub fn of(spans: &[Span]) -> Result<Pieces> {
        if spans.len() > MAX_SPANS {
            return Err(Error::INVAL);
        }
        let none = iovec {
            iov_base: null_mut(),
            iov_len: 0,
        };
        let mut pieces = Pieces {
            iov: [none; MAX_SPANS],
            desc: [null_mut(); MAX_SPANS],
            count: spans.len(),
        };
        for (i, span) in spans.iter().enumerate() {
            pieces.iov[i] = iovec {
                iov_base: span.base,
                iov_len: span.len,
            };
            pieces.desc[i] = span.desc;
        }
        Ok(pieces)
    }
}

/// Larger than any provider's limit.
const MAX_SPANS: usize = 16;

/// The calls of both tables, which differ in the tag and the ignored bits.
macro_rules! messages {
    ($table:ident $msg:ident $($tag:ident $ignore:ident)?:
        $recv:ident $send:ident $send_data:ident $inject:ident $inject_data:ident $recv_msg:ident $send_msg:ident
        $recv_buffer:ident $send_buffer:ident $inject_buffer:ident $inject_source:ident) => {
        impl Ep {
            pub fn $recv(
                &self,
                spans: &mut [Span],
                src: fi_addr_t,
                $($tag: u64, $ignore: u64,)?
                context: Context,
            ) -> Result {
                let (ep, context) = (self.as_ptr(), context.0);
                // SAFETY: the endpoint is open; the creators of spans and context promised what the operation needs.
                let result = posted(unsafe {
                    match &*spans {
                        &[Span { base, len, desc }] => {
                            slots::$table::recv(ep, base, len, desc, src, $($tag, $ignore,)? context)
                        }
                        spans => {
                            let mut p = Pieces::of(spans)?;
                            let (iov, desc) = (p.iov.as_ptr(), p.desc.as_mut_ptr());
                            slots::$table::recvv(ep, iov, desc, p.count, src, $($tag, $ignore,)? context)
                        }
                    }
                });
                given(spans, result)
            }

            pub fn $send(
                &self,
                spans: &mut [Span],
                dest: fi_addr_t,
                $($tag: u64,)?
                context: Context,
            ) -> Result {
                let (ep, context) = (self.as_ptr(), context.0);
                // SAFETY: the endpoint is open; the creators of spans and context promised what the operation needs.
                let result = posted(unsafe {
                    match &*spans {
                        &[Span { base, len, desc }] => {
                            slots::$table::send(ep, base, len, desc, dest, $($tag,)? context)
                        }
                        spans => {
                            let mut p = Pieces::of(spans)?;
                            let (iov, desc) = (p.iov.as_ptr(), p.desc.as_mut_ptr());
                            slots::$table::sendv(ep, iov, desc, p.count, dest, $($tag,)? context)
                        }
                    }
                });
                given(spans, result)
            }

            /// Sends with data for the peer's completion.
            pub fn $send_data(
                &self,
                span: &mut Span,
                data: u64,
                dest: fi_addr_t,
                $($tag: u64,)?
                context: Context,
            ) -> Result {
                let Span { base, len, desc } = *span;
                // SAFETY: the endpoint is open; the creators of span and context promised what the operation needs.
                let result = posted(unsafe {
                    let ep = self.as_ptr();
                    slots::$table::senddata(ep, base, len, desc, data, dest, $($tag,)? context.0)
                });
                given(core::slice::from_mut(span), result)
            }

            /// Sends without a completion. The bytes are read during the call.
            pub fn $inject(&self, bytes: &[u8], dest: fi_addr_t $(, $tag: u64)?) -> Result {
                let (at, len) = (bytes.as_ptr().cast(), bytes.len());
                // SAFETY: the endpoint is open.
                posted(unsafe { slots::$table::inject(self.as_ptr(), at, len, dest $(, $tag)?) })
            }

            pub fn $inject_data(&self, bytes: &[u8], data: u64, dest: fi_addr_t $(, $tag: u64)?) -> Result {
                let (at, len) = (bytes.as_ptr().cast(), bytes.len());
                // SAFETY: the endpoint is open.
                posted(unsafe { slots::$table::injectdata(self.as_ptr(), at, len, data, dest $(, $tag)?) })
            }

            /// Does the same as the call without a completion, with memory that the application sends.
            #[inline]
            pub fn $inject_source(&self, source: &Source, dest: fi_addr_t $(, $tag: u64)?) -> Result {
                let span = source.span();
                let at = core::ptr::with_exposed_provenance(span.start);
                // SAFETY: the endpoint is open; the memory may be read, and is not used after the call.
                posted(unsafe { slots::$table::inject(self.as_ptr(), at, span.len, dest $(, $tag)?) })
            }

            /// Receives with flags.
            pub fn $recv_msg(&self, message: Message<'_>, flags: u64) -> Result {
                // SAFETY: the endpoint is open; the creators of spans and context promised what the operation needs;
                // the struct is read during the call.
                message.with(|msg: &$msg| posted(unsafe {
                    slots::$table::recvmsg(self.as_ptr(), msg, flags)
                }))
            }

            /// Sends with flags.
            pub fn $send_msg(&self, message: Message<'_>, flags: u64) -> Result {
                // SAFETY: as for the receive.
                message.with(|msg: &$msg| posted(unsafe {
                    slots::$table::sendmsg(self.as_ptr(), msg, flags)
                }))
            }

            /// Receives into a buffer, which the endpoint holds until `reclaim`.
            pub fn $recv_buffer(
                &self,
                buffer: Buffer,
                src: fi_addr_t,
                $($tag: u64, $ignore: u64,)?
            ) -> core::result::Result<(), (Buffer, Error)> {
                match buffer.span(buffer.bytes().len()) {
                    Ok(span) => self.more().launch(buffer, |context| {
                        self.$recv(&mut [span], src, $($tag, $ignore,)? context)
                    }),
                    Err(error) => Err((buffer, error)),
                }
            }

            /// Sends the first `len` bytes of a buffer, which the endpoint holds until `reclaim`.
            pub fn $send_buffer(
                &self,
                buffer: Buffer,
                len: usize,
                dest: fi_addr_t,
                $($tag: u64,)?
            ) -> core::result::Result<(), (Buffer, Error)> {
                match buffer.span(len) {
                    Ok(span) => self.more().launch(buffer, |context| {
                        self.$send(&mut [span], dest, $($tag,)? context)
                    }),
                    Err(error) => Err((buffer, error)),
                }
            }

            /// Does the same as the call without a completion, with the provider's bytes before the message.
            pub fn $inject_buffer(
                &self,
                buffer: &Buffer,
                len: usize,
                dest: fi_addr_t,
                $($tag: u64,)?
            ) -> Result {
                self.$inject(buffer.head(len)?, dest $(, $tag)?)
            }
        }
    };
}

messages!(msg fi_msg: recv send send_data inject inject_data recv_msg send_msg recv_buffer send_buffer
    inject_buffer inject_source);
messages!(tagged fi_msg_tagged tag ignore:
    trecv tsend tsend_data tinject tinject_data trecv_msg tsend_msg trecv_buffer tsend_buffer
    tinject_buffer tinject_source);

/// A struct that describes a message.
trait Describes {
    fn new(message: &Message<'_>, pieces: &mut Pieces) -> Self;
}

impl Describes for fi_msg {
    fn new(message: &Message<'_>, pieces: &mut Pieces) -> fi_msg {
        fi_msg {
            msg_iov: pieces.iov.as_ptr(),
            desc: pieces.desc.as_mut_ptr(),
            iov_count: pieces.count,
            addr: message.addr,
            context: message.context.0,
            data: message.data,
        }
    }
}

impl Describes for fi_msg_tagged {
    fn new(message: &Message<'_>, pieces: &mut Pieces) -> fi_msg_tagged {
        fi_msg_tagged {
            msg_iov: pieces.iov.as_ptr(),
            desc: pieces.desc.as_mut_ptr(),
            iov_count: pieces.count,
            addr: message.addr,
            tag: message.tag,
            ignore: message.ignore,
            context: message.context.0,
            data: message.data,
        }
    }
}

impl Message<'_> {
    fn with<T: Describes>(self, post: impl FnOnce(&T) -> Result) -> Result {
        let mut pieces = Pieces::of(self.spans)?;
        let result = post(&T::new(&self, &mut pieces));
        given(self.spans, result)
    }
}
