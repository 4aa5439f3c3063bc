// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Objects of the library, closed when nothing needs them any more, and calls through the tables they carry.

use core::ptr::NonNull;

use super::failure::{Failure, Result};
use crate::abi::*;

/// A C object that begins with its `fid`.
///
/// # Safety
/// The struct is `repr(C)` and its first member is a `fid`.
pub unsafe trait Object {
    /// The object in words.
    const NAME: &'static str;
}

macro_rules! objects {
    ($($name:ident $words:literal)+) => { $(
        // SAFETY: declared so in `abi`, which the layout tests compare with C.
        unsafe impl Object for $name {
            const NAME: &'static str = $words;
        }
    )+ };
}

objects! {
    fid_fabric "fabric"
    fid_domain "domain"
    fid_eq "event queue"
    fid_cq "completion queue"
    fid_av "address vector"
    fid_mr "memory region"
    fid_ep "endpoint"
    fid_pep "passive endpoint"
}

/// An open object. What it depends on must be kept open by whoever holds it.
pub struct Handle<T: Object>(NonNull<T>);

impl<T: Object> Handle<T> {
    /// What an opening call named `call` returned and wrote.
    ///
    /// # Safety
    /// If `code` is zero, `object` was opened by that call, and nobody else closes it.
    pub unsafe fn opened(call: &str, code: i32, object: *mut T) -> Result<Handle<T>> {
        match NonNull::new(object) {
            Some(object) if code == 0 => Ok(Handle(object)),
            None if code == 0 => Err(Failure::new(call, FI_EOTHER)),
            _ => Err(Failure::new(call, code)),
        }
    }

    pub fn as_ptr(&self) -> *mut T {
        self.0.as_ptr()
    }

    pub fn fid(&self) -> *mut fid {
        self.as_ptr().cast()
    }

    fn base(&self) -> &fi_ops {
        // SAFETY: an open object has the table that all objects have, as long as it is open.
        unsafe { &*(*self.fid()).ops }
    }

    /// fi_ep_bind(3) and its like.
    pub fn bind<O: Object>(&self, other: &Handle<O>, flags: u64) -> Result {
        let bind = entry("bind", self.base().bind)?;
        // SAFETY: both objects are open.
        let code = unsafe { bind(self.fid(), other.fid(), flags) };
        check(&format!("binding {} to {}", T::NAME, O::NAME), code)
    }

    /// fi_control(3) without an argument.
    pub fn control(&self, command: u32, words: &str) -> Result {
        let control = entry("control", self.base().control)?;
        // SAFETY: the object is open; the commands that the programs use take no argument.
        let code = unsafe { control(self.fid(), command as i32, core::ptr::null_mut()) };
        check(words, code)
    }
}

impl<T: Object> Drop for Handle<T> {
    fn drop(&mut self) {
        let Some(close) = self.base().close else {
            return;
        };
        // SAFETY: closed once; whoever holds objects that depend on this one drops them first.
        let code = unsafe { close(self.fid()) };
        if code != 0 {
            eprintln!(
                "[error] {}",
                Failure::new(format!("closing {}", T::NAME), code)
            );
        }
    }
}

/// An entry of a table, which old libraries may lack.
pub fn entry<F>(call: &str, entry: Option<F>) -> Result<F> {
    entry.ok_or_else(|| Failure::new(call, FI_ENOSYS))
}

pub fn check(call: &str, code: i32) -> Result {
    match code {
        0 => Ok(()),
        code => Err(Failure::new(call, code)),
    }
}
