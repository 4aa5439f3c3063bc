// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Reads and writes consecutive numbers of a packet. Reading beyond the end is an error; the buffer for writing is
//! always long enough.

use super::{Decoded, Malformed};

pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    fn take<const N: usize>(&mut self) -> Decoded<[u8; N]> {
        let (first, rest) = self
            .0
            .split_first_chunk()
            .ok_or(Malformed("it is cut short"))?;
        self.0 = rest;
        Ok(*first)
    }

    pub fn u8(&mut self) -> Decoded<u8> {
        self.take().map(|[byte]| byte)
    }

    pub fn u16(&mut self) -> Decoded<u16> {
        self.take().map(u16::from_ne_bytes)
    }

    pub fn u32(&mut self) -> Decoded<u32> {
        self.take().map(u32::from_ne_bytes)
    }

    pub fn u64(&mut self) -> Decoded<u64> {
        self.take().map(u64::from_ne_bytes)
    }

    pub fn rest(self) -> &'a [u8] {
        self.0
    }

    /// Returns `value` if no bytes are left.
    pub fn end<T>(&self, value: T) -> Decoded<T> {
        match self.0 {
            [] => Ok(value),
            _ => Err(Malformed("it is too long")),
        }
    }
}

pub struct Writer<'a> {
    out: &'a mut [u8],
    len: usize,
}

impl<'a> Writer<'a> {
    pub fn new(out: &'a mut [u8]) -> Writer<'a> {
        Writer { out, len: 0 }
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.out[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    pub fn u8(&mut self, value: u8) {
        self.bytes(&[value]);
    }

    pub fn u16(&mut self, value: u16) {
        self.bytes(&value.to_ne_bytes());
    }

    pub fn u32(&mut self, value: u32) {
        self.bytes(&value.to_ne_bytes());
    }

    pub fn u64(&mut self, value: u64) {
        self.bytes(&value.to_ne_bytes());
    }

    pub fn len(&self) -> usize {
        self.len
    }
}
