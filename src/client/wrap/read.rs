// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Reads the memory behind the arguments of a call, for hooks: operations, completions, attributes.

use core::ffi::{c_int, c_void};
use core::mem::size_of;

use super::call::{Call, Name, Raw, Slot};
use abi::*;
use base::info::{Layout, Plain, grown};
use base::text::{self, Text};
use object::AddrForm;

/// A transfer as its caller requested it. Members describe the first of several pieces, except `len`, the sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfer {
    pub buf: usize,
    /// Bytes, or elements of an atomic operation.
    pub len: usize,
    pub addr: u64,
    pub data: u64,
    pub flags: u64,
    pub tag: u64,
    pub ignore: u64,
    /// Address in the peer's memory.
    pub remote: u64,
    pub key: u64,
    pub context: usize,
}

/// An entry of a completion queue. Members that its format lacks are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completion {
    pub context: usize,
    pub flags: u64,
    pub len: usize,
    pub buf: usize,
    pub data: u64,
    pub tag: u64,
}

/// An error entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    pub completion: Completion,
    pub olen: usize,
    pub err: c_int,
    pub prov_errno: c_int,
}

impl Call<'_> {
    fn number(&self, which: Name) -> u64 {
        self.argument(which).unwrap_or_default()
    }

    fn pointer<T>(&self, which: Name) -> *mut T {
        <*mut T>::of_number(self.number(which))
    }

    /// Returns the handle that the call has stored at the address in this argument.
    pub fn opened(&self, which: Name) -> Option<u64> {
        use Name::{
            av, av_set, cntr, cq, ctx, dom, ep, eq, mc, mr, pep, pollset, rx_ep, sep, stx, waitset,
        };
        match which {
            av | av_set | cntr | cq | ctx | dom | ep | eq | mc | mr | pep | pollset | rx_ep
            | sep | stx | waitset => {
                // SAFETY: an output argument, which the call has filled.
                unsafe { self.pointer::<u64>(which).as_ref() }.copied()
            }
            _ => None,
        }
    }

    /// Returns the context of an operation.
    pub fn context(&self) -> usize {
        let msg: *const c_void = self.pointer(Name::msg);
        if msg.is_null() {
            return self.number(Name::context) as usize;
        }
        // SAFETY: the struct that the man page of the call requires.
        unsafe {
            match self.slot.table() {
                "msg" => (*msg.cast::<fi_msg>()).context.addr(),
                "tagged" => (*msg.cast::<fi_msg_tagged>()).context.addr(),
                "rma" => (*msg.cast::<fi_msg_rma>()).context.addr(),
                "atomic" => (*msg.cast::<fi_msg_atomic>()).context.addr(),
                _ => 0,
            }
        }
    }

    /// Returns the transfer of an operation of `msg`, `tagged`, `rma` or `atomic`. Only for an operation that the
    /// provider has accepted, because its vectors are not checked here.
    pub fn transfer(&self) -> Transfer {
        if self.argument(Name::msg).is_some() {
            // SAFETY: the struct that the man page of the call requires, with as many elements as its counts.
            let mut transfer = unsafe { self.message() };
            transfer.flags = self.number(Name::flags);
            return transfer;
        }
        let (buf, len) = match self.argument(Name::iov) {
            // SAFETY: a vector of that many elements. Vectors of atomic operations have the same layout.
            Some(_) => unsafe { sum(self.pointer(Name::iov), self.number(Name::count) as usize) },
            None => {
                let len = self.argument(Name::len);
                let len = len.or(self.argument(Name::count)).unwrap_or_default();
                (self.number(Name::buf) as usize, len as usize)
            }
        };
        let addr = self.argument(Name::dest_addr);
        Transfer {
            buf,
            len,
            addr: addr.unwrap_or_else(|| self.number(Name::src_addr)),
            data: self.number(Name::data),
            flags: 0,
            tag: self.number(Name::tag),
            ignore: self.number(Name::ignore),
            remote: self.number(Name::addr),
            key: self.number(Name::key),
            context: self.number(Name::context) as usize,
        }
    }

    /// # Safety
    /// The argument `msg` is as the man page of the call requires.
    unsafe fn message(&self) -> Transfer {
        // Members that all message structs have. A vector of elements has the layout of a vector of bytes.
        macro_rules! common {
            ($type:ident) => {{
                // SAFETY: promised by the caller.
                let Some(msg) = (unsafe { self.pointer::<$type>(Name::msg).as_ref() }) else {
                    return Transfer::default();
                };
                // SAFETY: as above.
                let (buf, len) = unsafe { sum(msg.msg_iov.cast(), msg.iov_count) };
                let transfer = Transfer {
                    buf,
                    len,
                    addr: msg.addr,
                    data: msg.data,
                    context: msg.context.addr(),
                    ..Transfer::default()
                };
                (msg, transfer)
            }};
        }
        let remote = |transfer, at: Option<(u64, u64)>| {
            let (remote, key) = at.unwrap_or_default();
            Transfer {
                remote,
                key,
                ..transfer
            }
        };
        match self.slot.table() {
            "msg" => common!(fi_msg).1,
            "tagged" => {
                let (msg, transfer) = common!(fi_msg_tagged);
                Transfer {
                    tag: msg.tag,
                    ignore: msg.ignore,
                    ..transfer
                }
            }
            "rma" => {
                let (msg, transfer) = common!(fi_msg_rma);
                // SAFETY: as above.
                let piece = unsafe { first(msg.rma_iov, msg.rma_iov_count) };
                remote(transfer, piece.map(|piece| (piece.addr, piece.key)))
            }
            "atomic" => {
                let (msg, transfer) = common!(fi_msg_atomic);
                // SAFETY: as above.
                let piece = unsafe { first(msg.rma_iov, msg.rma_iov_count) };
                remote(transfer, piece.map(|piece| (piece.addr, piece.key)))
            }
            _ => Transfer::default(),
        }
    }

    /// Returns the entries that a call has read from a completion queue.
    pub fn completions(&self) -> Vec<Completion> {
        let size = match fi_cq_format(self.format) {
            FI_CQ_FORMAT_MSG => size_of::<fi_cq_msg_entry>(),
            FI_CQ_FORMAT_DATA => size_of::<fi_cq_data_entry>(),
            FI_CQ_FORMAT_TAGGED => size_of::<fi_cq_tagged_entry>(),
            _ => size_of::<fi_cq_entry>(),
        };
        let entries: *const u8 = self.pointer(Name::buf);
        if entries.is_null() {
            return Vec::new();
        }
        let count = usize::try_from(self.result).unwrap_or(0);
        let read = |place: usize| {
            let mut words = [0_u64; 6];
            // SAFETY: fi_cq(3): as many entries of that format as the call returns; each is a row of 64-bit words.
            unsafe {
                let entry = entries.add(place * size);
                entry.copy_to_nonoverlapping(words.as_mut_ptr().cast(), size);
            }
            let [context, flags, len, buf, data, tag] = words;
            Completion {
                context: context as usize,
                flags,
                len: len as usize,
                buf: buf as usize,
                data,
                tag,
            }
        };
        (0..count).map(read).collect()
    }

    /// Returns the format of the entries.
    pub fn cq_format(&self) -> fi_cq_format {
        fi_cq_format(self.format)
    }

    /// Returns the entry that fi_cq_readerr has read.
    pub fn failure(&self) -> Option<Failure> {
        // SAFETY: the caller's entry, which has these members in all versions.
        let entry = unsafe { self.pointer::<fi_cq_err_entry>(Name::buf).as_ref() }?;
        Some(Failure {
            completion: Completion {
                context: entry.op_context.addr(),
                flags: entry.flags,
                len: entry.len,
                buf: entry.buf.addr(),
                data: entry.data,
                tag: entry.tag,
            },
            olen: entry.olen,
            err: entry.err,
            prov_errno: entry.prov_errno,
        })
    }

    /// Returns the kind of the event that a call has read or written.
    pub fn event(&self) -> Option<u32> {
        const WRITE: Slot = Slot::of("eq", "write");
        match self.slot {
            WRITE => self.argument(Name::event).map(|event| event as u32),
            // SAFETY: fi_eq(3): the output argument for the kind of the event.
            _ => unsafe { self.pointer::<u32>(Name::event).as_ref() }.copied(),
        }
    }

    /// Returns the attributes that an object is opened with, as fi_tostr prints them.
    pub fn attributes(&self) -> Vec<String> {
        let attr: *const c_void = self.pointer(Name::attr);
        let size = Layout::mr_attr(self.app_api);
        // SAFETY: the attribute struct that the call requires.
        let text = unsafe {
            match self.slot.name().as_str() {
                "cq_open" => shown(FI_TYPE_CQ_ATTR, attr),
                "cntr_open" => shown(FI_TYPE_CNTR_ATTR, attr),
                "av_open" => shown(FI_TYPE_AV_ATTR, attr),
                "mr_regattr" => part(FI_TYPE_MR_ATTR, attr.cast::<fi_mr_attr>(), size),
                _ => return self.entry(),
            }
        };
        Vec::from_iter(text)
    }

    /// Returns the parts of the fi_getinfo entry that an endpoint is opened with.
    fn entry(&self) -> Vec<String> {
        let layout = Layout::of_api(self.app_api);
        // SAFETY: the caller's entry; its parts are NULL or structs of its headers.
        let parts = unsafe {
            let Some(info) = grown(self.pointer::<fi_info>(Name::info), layout.info) else {
                return Vec::new();
            };
            [
                part(FI_TYPE_EP_ATTR, info.ep_attr, layout.ep),
                part(FI_TYPE_TX_ATTR, info.tx_attr, layout.tx),
                part(FI_TYPE_RX_ATTR, info.rx_attr, layout.rx),
                part(FI_TYPE_DOMAIN_ATTR, info.domain_attr, layout.domain),
            ]
        };
        parts.into_iter().flatten().collect()
    }

    /// Returns the address format of an endpoint that is opened.
    pub fn addr_format(&self) -> Option<u32> {
        // SAFETY: the caller's entry.
        let info = unsafe { self.pointer::<fi_info>(Name::info).as_ref() }?;
        Some(info.addr_format)
    }

    /// Returns address and length of a region that is registered, and its kind of memory (0 if the call has none).
    pub fn region(&self) -> (usize, usize, u32) {
        // SAFETY: the caller's struct, with as many elements as its count; `iface` is read only if its version has it.
        // fi_mr(3): the flag selects the member of the union.
        unsafe {
            match self.slot.name().as_str() {
                "mr_regv" => {
                    let (buf, len) =
                        sum(self.pointer(Name::iov), self.number(Name::count) as usize);
                    (buf, len, 0)
                }
                "mr_regattr" => {
                    // Not a reference, because the struct of an old caller is shorter.
                    let attr = self.pointer::<fi_mr_attr>(Name::attr);
                    if attr.is_null() {
                        return (0, 0, 0);
                    }
                    let (buf, len) = match self.number(Name::flags) & FI_MR_DMABUF {
                        0 => sum((*attr).anonymous.mr_iov, (*attr).iov_count),
                        _ => (*attr).anonymous.dmabuf.as_ref().map_or((0, 0), |dmabuf| {
                            let base = dmabuf.base_addr.addr();
                            (base.wrapping_add(dmabuf.offset as usize), dmabuf.len)
                        }),
                    };
                    let has_iface = self.has_iface();
                    (buf, len, if has_iface { (*attr).iface.0 } else { 0 })
                }
                _ => (
                    self.number(Name::buf) as usize,
                    self.number(Name::len) as usize,
                    0,
                ),
            }
        }
    }

    /// Returns the address that a call of fi_cm(3) passes or has received, as text.
    pub fn address(&self, format: u32) -> String {
        let address: *const c_void = self.pointer(Name::addr);
        let form = match format {
            FI_ADDR_STR => Some(AddrForm::Text),
            FI_ADDR_IB_UD => Some(AddrForm::Bytes(32)),
            FI_SOCKADDR | FI_SOCKADDR_IP | FI_SOCKADDR_IN | FI_SOCKADDR_IN6 => {
                Some(AddrForm::Socket)
            }
            _ => None,
        };
        // SAFETY: fi_cm(3): an address of the endpoint's format.
        let bytes = form.and_then(|form| unsafe { form.read(address) }.ok());
        match bytes {
            Some(bytes) => {
                String::from_utf8_lossy(&text::address::straddr(format, bytes, address.addr()))
                    .into_owned()
            }
            None => format!("{address:p}"),
        }
    }
}

/// # Safety
/// `data` is NULL or points to a value of the type `kind`.
unsafe fn shown(kind: fi_type, data: *const c_void) -> Option<String> {
    if data.is_null() {
        return None;
    }
    let mut text = Text::for_buffer(TEXT);
    // SAFETY: promised by the caller.
    unsafe { text::write(&mut text, kind, data) };
    Some(String::from_utf8_lossy(text.as_bytes()).into_owned())
}

/// Returns the text of a struct of which the caller has `size` bytes. The missing members are read as zero.
///
/// # Safety
/// `data` is NULL or such a struct, of the type `kind`.
unsafe fn part<T: Plain>(kind: fi_type, data: *const T, size: usize) -> Option<String> {
    // SAFETY: promised by the caller.
    unsafe {
        let whole = grown(data, size)?;
        shown(kind, (&raw const whole).cast())
    }
}

/// Longest text in bytes; longer texts are cut.
const TEXT: usize = 8192;

/// Returns the address of the first piece and the total length.
///
/// # Safety
/// `iov` has `count` elements.
unsafe fn sum(iov: *const iovec, count: usize) -> (usize, usize) {
    if iov.is_null() {
        return (0, 0);
    }
    // SAFETY: promised by the caller.
    let pieces = (0..count).map(|i| unsafe { *iov.add(i) });
    let len = pieces
        .clone()
        .fold(0_usize, |sum, piece| sum.saturating_add(piece.iov_len));
    let first = pieces.map(|piece| piece.iov_base.addr()).next();
    (first.unwrap_or(0), len)
}

/// # Safety
/// `pieces` has `count` elements.
unsafe fn first<'a, T>(pieces: *const T, count: usize) -> Option<&'a T> {
    match count {
        0 => None,
        // SAFETY: promised by the caller.
        _ => unsafe { pieces.as_ref() },
    }
}

#[cfg(test)]
mod tests;
