// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Converts a caller's `fi_info` from C to Rust. Trusted with the caller's pointers; only the bytes of each struct
//! that the caller's headers have are read.

use core::mem::MaybeUninit;
use core::slice;

use super::member::check_length;
use super::{DomainAttr, EpAttr, FabricAttr, Hints, Info, Layout, RxAttr, TxAttr};
use crate::{Caps, Error, Mode, Result};

/// A C struct of numbers and pointers.
///
/// # Safety
/// All bytes zero must be a valid value.
pub unsafe trait Plain: Copy {}

// SAFETY: integers, integer newtypes and raw pointers only, for each of these.
unsafe impl Plain for abi::fi_info {}
// SAFETY: as above.
unsafe impl Plain for abi::fi_tx_attr {}
// SAFETY: as above.
unsafe impl Plain for abi::fi_rx_attr {}
// SAFETY: as above.
unsafe impl Plain for abi::fi_ep_attr {}
// SAFETY: as above.
unsafe impl Plain for abi::fi_domain_attr {}
// SAFETY: as above.
unsafe impl Plain for abi::fi_fabric_attr {}
// SAFETY: as above.
unsafe impl Plain for abi::fi_cq_attr {}
// SAFETY: as above.
unsafe impl Plain for abi::fi_cntr_attr {}
// SAFETY: as above, and a union of pointers.
unsafe impl Plain for abi::fi_mr_attr {}

/// Returns a struct of which the caller has the first `size` bytes; the rest is zero. `None` for null.
///
/// # Safety
/// `ptr` is null or readable for `size` bytes.
pub unsafe fn grown<T: Plain>(ptr: *const T, size: usize) -> Option<T> {
    if ptr.is_null() {
        return None;
    }
    let mut value = MaybeUninit::<T>::zeroed();
    let known = size.min(size_of::<T>());
    // SAFETY: the caller promises the source; `known` fits the destination; the byte copy needs no alignment.
    unsafe {
        let to = value.as_mut_ptr().cast::<u8>();
        to.copy_from_nonoverlapping(ptr.cast::<u8>(), known);
    }
    // SAFETY: zero bytes are valid (`Plain`), and what was copied over them is the caller's value of the same type.
    Some(unsafe { value.assume_init() })
}

/// Reads an attribute of which the caller has the first `size` bytes; `None` for null.
///
/// # Safety
/// As [`grown`].
unsafe fn part<T: Plain, U>(
    ptr: *const T,
    size: usize,
    read: impl FnOnce(&T) -> Result<U>,
) -> Result<Option<U>> {
    // SAFETY: passed on from the caller.
    unsafe { grown(ptr, size) }.as_ref().map(read).transpose()
}

impl Hints {
    /// Reads hints written by a program with headers of `layout`.
    ///
    /// # Safety
    /// fi_getinfo(3): `ptr` is an `fi_info` from fi_allocinfo or fi_dupinfo whose pointers are null or valid for the
    /// lengths beside them; strings are terminated.
    pub unsafe fn read(ptr: *const abi::fi_info, layout: Layout) -> Result<Hints> {
        // SAFETY: the caller promises an `fi_info` of this layout.
        let info = unsafe { grown(ptr, layout.info) }.ok_or(Error::INVAL)?;
        // SAFETY: the attribute pointers are null or of the same headers as the struct that holds them; the addresses
        // have the lengths beside them.
        unsafe {
            Ok(Hints {
                caps: Caps::from_bits_retain(info.caps),
                mode: Mode::from_bits_retain(info.mode),
                addr_format: info.addr_format,
                src_addr: bytes(info.src_addr.cast(), info.src_addrlen)?,
                dest_addr: bytes(info.dest_addr.cast(), info.dest_addrlen)?,
                handle: info.handle.addr(),
                tx: part(info.tx_attr, layout.tx, |attr| TxAttr::of_raw(attr))?,
                rx: part(info.rx_attr, layout.rx, |attr| RxAttr::of_raw(attr))?,
                ep: part(info.ep_attr, layout.ep, |attr| EpAttr::of_raw(attr))?,
                domain: part(info.domain_attr, layout.domain, |attr| {
                    DomainAttr::of_raw(attr)
                })?,
                fabric: part(info.fabric_attr, layout.fabric, |attr| {
                    FabricAttr::of_raw(attr)
                })?,
            })
        }
    }
}

impl Info {
    /// Reads the entry that a program passes to fi_domain(3), fi_endpoint(3) and similar calls; a missing part is zero.
    ///
    /// # Safety
    /// As [`Hints::read`].
    pub unsafe fn read(ptr: *const abi::fi_info, layout: Layout) -> Result<Info> {
        // SAFETY: passed on from the caller.
        unsafe { Hints::read(ptr, layout) }.map(Info::from)
    }
}

impl TxAttr {
    /// # Safety
    /// `ptr` is null or a `fi_tx_attr` of headers of `layout`.
    pub unsafe fn read(ptr: *const abi::fi_tx_attr, layout: Layout) -> Option<TxAttr> {
        // SAFETY: passed on from the caller; the struct points to nothing.
        unsafe { TxAttr::of_raw(&grown(ptr, layout.tx)?) }.ok()
    }
}

impl RxAttr {
    /// # Safety
    /// `ptr` is null or a `fi_rx_attr` of headers of `layout`.
    pub unsafe fn read(ptr: *const abi::fi_rx_attr, layout: Layout) -> Option<RxAttr> {
        // SAFETY: passed on from the caller; the struct points to nothing.
        unsafe { RxAttr::of_raw(&grown(ptr, layout.rx)?) }.ok()
    }
}

impl FabricAttr {
    /// # Safety
    /// `ptr` is null or a `fi_fabric_attr` whose strings are null or terminated.
    pub unsafe fn read(ptr: *const abi::fi_fabric_attr) -> Option<FabricAttr> {
        // SAFETY: passed on from the caller.
        unsafe { FabricAttr::of_raw(&grown(ptr, Layout::CURRENT.fabric)?) }.ok()
    }
}

/// # Safety
/// `ptr` is null or readable for `len` bytes.
unsafe fn bytes(ptr: *const u8, len: usize) -> Result<Option<Vec<u8>>> {
    if ptr.is_null() {
        return Ok(None);
    }
    check_length(len)?;
    // SAFETY: passed on from the caller.
    Ok(Some(unsafe { slice::from_raw_parts(ptr, len) }.to_vec()))
}
