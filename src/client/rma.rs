// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Access to memory of peers: fi_rma(3).

use super::ep::Ep;
use super::memory::{Buffer, Context, Span, given};
use super::msg::Pieces;
use super::posted;
use abi::*;
use base::{Error, Result};
use object::slots;

/// `struct fi_msg_rma`.
pub struct RmaMessage<'a> {
    pub spans: &'a mut [Span],
    pub addr: fi_addr_t,
    /// Memory of the peer.
    pub remote: &'a [fi_rma_iov],
    pub context: Context,
    pub data: u64,
}

impl Ep {
    /// Reads from the peer's memory at `addr` into `spans`.
    pub fn read_from(
        &self,
        spans: &mut [Span],
        src: fi_addr_t,
        addr: u64,
        key: u64,
        context: Context,
    ) -> Result {
        let (ep, context) = (self.as_ptr(), context.0);
        // SAFETY: the endpoint is open; the creators of spans and context promised what the operation needs.
        let result = posted(unsafe {
            match &*spans {
                &[Span { base, len, desc }] => {
                    slots::rma::read(ep, base, len, desc, src, addr, key, context)
                }
                spans => {
                    let mut p = Pieces::of(spans)?;
                    let (iov, desc) = (p.iov.as_ptr(), p.desc.as_mut_ptr());
                    slots::rma::readv(ep, iov, desc, p.count, src, addr, key, context)
                }
            }
        });
        given(spans, result)
    }

    /// Writes `spans` to the peer's memory at `addr`.
    pub fn write_to(
        &self,
        spans: &mut [Span],
        dest: fi_addr_t,
        addr: u64,
        key: u64,
        context: Context,
    ) -> Result {
        let (ep, context) = (self.as_ptr(), context.0);
        // SAFETY: the endpoint is open; the creators of spans and context promised what the operation needs.
        let result = posted(unsafe {
            match &*spans {
                &[Span { base, len, desc }] => {
                    slots::rma::write(ep, base, len, desc, dest, addr, key, context)
                }
                spans => {
                    let mut p = Pieces::of(spans)?;
                    let (iov, desc) = (p.iov.as_ptr(), p.desc.as_mut_ptr());
                    slots::rma::writev(ep, iov, desc, p.count, dest, addr, key, context)
                }
            }
        });
        given(spans, result)
    }

    /// Writes with data for a completion at the peer.
    pub fn write_data(
        &self,
        span: &mut Span,
        data: u64,
        dest: fi_addr_t,
        addr: u64,
        key: u64,
        context: Context,
    ) -> Result {
        let Span { base, len, desc } = *span;
        // SAFETY: the endpoint is open; the creators of span and context promised what the operation needs.
        let result = posted(unsafe {
            let ep = self.as_ptr();
            slots::rma::writedata(ep, base, len, desc, data, dest, addr, key, context.0)
        });
        given(core::slice::from_mut(span), result)
    }

    /// Reads from the peer's memory into the first `len` bytes of a buffer, which the endpoint holds until `reclaim`.
    pub fn read_buffer(
        &self,
        buffer: Buffer,
        len: usize,
        src: fi_addr_t,
        (addr, key): (u64, u64),
    ) -> core::result::Result<(), (Buffer, Error)> {
        match buffer.span(len) {
            Ok(span) => self.more().launch(buffer, |context| {
                self.read_from(&mut [span], src, addr, key, context)
            }),
            Err(error) => Err((buffer, error)),
        }
    }

    /// Writes the first `len` bytes of a buffer, which the endpoint holds until `reclaim`, with data if given.
    pub fn write_buffer(
        &self,
        buffer: Buffer,
        len: usize,
        data: Option<u64>,
        dest: fi_addr_t,
        (addr, key): (u64, u64),
    ) -> core::result::Result<(), (Buffer, Error)> {
        match buffer.span(len) {
            Ok(mut span) => self.more().launch(buffer, |context| match data {
                Some(data) => self.write_data(&mut span, data, dest, addr, key, context),
                None => self.write_to(&mut [span], dest, addr, key, context),
            }),
            Err(error) => Err((buffer, error)),
        }
    }

    /// Writes without a completion. The bytes are read during the call.
    pub fn inject_write(&self, bytes: &[u8], dest: fi_addr_t, addr: u64, key: u64) -> Result {
        let (at, len) = (bytes.as_ptr().cast(), bytes.len());
        // SAFETY: the endpoint is open.
        posted(unsafe { slots::rma::inject(self.as_ptr(), at, len, dest, addr, key) })
    }

    pub fn inject_write_data(
        &self,
        bytes: &[u8],
        data: u64,
        dest: fi_addr_t,
        addr: u64,
        key: u64,
    ) -> Result {
        let (at, len) = (bytes.as_ptr().cast(), bytes.len());
        // SAFETY: the endpoint is open.
        posted(unsafe { slots::rma::injectdata(self.as_ptr(), at, len, data, dest, addr, key) })
    }

    /// Reads with flags.
    pub fn read_msg(&self, message: RmaMessage<'_>, flags: u64) -> Result {
        // SAFETY: the endpoint is open; the creators of spans and context promised what the operation needs; the struct
        // is read during the call.
        message.with(|msg| posted(unsafe { slots::rma::readmsg(self.as_ptr(), msg, flags) }))
    }

    /// Writes with flags.
    pub fn write_msg(&self, message: RmaMessage<'_>, flags: u64) -> Result {
        // SAFETY: as in `read_msg`.
        message.with(|msg| posted(unsafe { slots::rma::writemsg(self.as_ptr(), msg, flags) }))
    }
}

impl RmaMessage<'_> {
    fn with(self, post: impl FnOnce(&fi_msg_rma) -> Result) -> Result {
        let mut pieces = Pieces::of(self.spans)?;
        let result = post(&fi_msg_rma {
            msg_iov: pieces.iov.as_ptr(),
            desc: pieces.desc.as_mut_ptr(),
            iov_count: pieces.count,
            addr: self.addr,
            rma_iov: self.remote.as_ptr(),
            rma_iov_count: self.remote.len(),
            context: self.context.0,
            data: self.data,
        });
        given(self.spans, result)
    }
}
