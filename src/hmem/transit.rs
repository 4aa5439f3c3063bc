// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Bytes of a long message between device memory and the network. The device copies one part while the kernel sends or
//! receives the other: `Ahead` reads from a device before its bytes are needed, `Landing` writes to it behind those who
//! fill its slots.
//!
//! Trusted with: a slot is neither used nor given back while a device copies to or from it.

use core::ops::Range;
use std::collections::VecDeque;

use crate::address;
use crate::driver::{self, Driver, Ticket};
use crate::faults::{self, Fault};
use crate::slots::{self, LEN, Slot};

/// Parts of a message that are under way at a time, while there are enough slots.
const DEPTH: usize = 3;

fn depth() -> usize {
    match slots::are_scarce() {
        true => 1,
        false => DEPTH,
    }
}

/// A part of a message, and the slot that has its bytes or gets them.
struct Part {
    driver: &'static dyn Driver,
    slot: Slot,
    /// Where it is in device memory.
    at: usize,
    len: usize,
    /// The copy; `None`: it has ended.
    ticket: Option<Ticket>,
}

impl Part {
    /// Starts to copy from device memory.
    fn read(at: usize, len: usize) -> Result<Part, Fault> {
        let driver = driver::owner(at).ok_or(Fault { code: 0 })?;
        let slot = Slot::take(driver, at);
        // SAFETY: the slot is kept until the copy has ended (`Part::drop`).
        let ticket = unsafe { driver::begin(driver, at, at, slot.address(), len)? };
        Ok(Part {
            driver,
            slot,
            at,
            len,
            ticket: Some(ticket),
        })
    }

    /// Waits for the end of the copy.
    fn wait(&mut self) -> Result<(), Fault> {
        match self.ticket.take() {
            Some(ticket) => self.driver.wait(ticket),
            None => Ok(()),
        }
    }

    fn range(&self) -> Range<usize> {
        self.at..self.at + self.len
    }

    /// Gives the slot back after the copy has ended.
    fn end(mut self) -> Result<(), Fault> {
        self.wait()
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        // The slot is given back behind this.
        let _ = self.wait();
    }
}

/// Reads a message from device memory, some parts ahead.
#[derive(Default)]
pub struct Ahead(VecDeque<Part>);

impl Ahead {
    /// Returns bytes of device memory from this marked address on, some of the next `len`. They are read once: the
    /// memory must not change until the last of them was returned.
    pub fn bytes(&mut self, at: *const u8, len: usize) -> Result<&[u8], Fault> {
        let at = address::plain(at);
        let end = at + len;
        while let Some(first) = self.0.pop_front() {
            if first.range().contains(&at) {
                self.0.push_front(first);
                break;
            }
        }
        while self.0.len() < depth() {
            let next = self.0.back().map_or(at, |last| last.range().end);
            if next >= end {
                break;
            }
            match Part::read(next, LEN.min(end - next)) {
                Ok(part) => self.0.push_back(part),
                Err(fault) if self.0.is_empty() => return Err(fault),
                Err(_) => break,
            }
        }
        if let Some(Err(fault)) = self.0.front_mut().map(Part::wait) {
            self.clear();
            return Err(fault);
        }
        let first = self.0.front().ok_or(Fault { code: 0 })?;
        let from = at - first.at;
        Ok(&first.slot.bytes()[from..first.len.min(from + len)])
    }

    /// Forgets what was read.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// Writes a message to device memory behind those who receive it.
#[derive(Default)]
pub struct Landing {
    filling: Option<Filling>,
    under_way: VecDeque<Part>,
}

struct Filling {
    driver: &'static dyn Driver,
    slot: Slot,
    at: usize,
    len: usize,
}

impl Landing {
    /// Returns room for bytes to this marked address in device memory. `filled` says how many there are.
    pub fn room(&mut self, to: *const u8) -> Result<&mut [u8], Fault> {
        let to = address::plain(to);
        if self
            .filling
            .as_ref()
            .is_some_and(|one| one.at + one.len != to)
        {
            self.send_off();
        }
        if self.filling.is_none() {
            while self.under_way.len() >= depth() {
                self.end_first();
            }
            let driver = driver::owner(to).ok_or(Fault { code: 0 })?;
            self.filling = Some(Filling {
                driver,
                slot: Slot::take(driver, to),
                at: to,
                len: 0,
            });
        }
        let Some(filling) = &mut self.filling else {
            return Err(Fault { code: 0 });
        };
        Ok(&mut filling.slot.bytes_mut()[filling.len..])
    }

    /// Has `n` bytes of the room written.
    pub fn filled(&mut self, n: usize) {
        if let Some(filling) = &mut self.filling {
            filling.len += n;
            if filling.len == LEN {
                self.send_off();
            }
        }
    }

    /// Starts to copy what is in the slot.
    fn send_off(&mut self) {
        let Some(filling) = self.filling.take() else {
            return;
        };
        let Filling {
            driver,
            slot,
            at,
            len,
        } = filling;
        if len == 0 {
            return;
        }
        // SAFETY: the slot is kept until the copy has ended (`Part`).
        match unsafe { driver::begin(driver, at, slot.address(), at, len) } {
            Ok(ticket) => self.under_way.push_back(Part {
                driver,
                slot,
                at,
                len,
                ticket: Some(ticket),
            }),
            Err(fault) => faults::note(at, len, fault),
        }
    }

    fn end_first(&mut self) {
        if let Some(part) = self.under_way.pop_front() {
            let (at, len) = (part.at, part.len);
            if let Err(fault) = part.end() {
                faults::note(at, len, fault);
            }
        }
    }

    /// Waits until all bytes are in the device's memory. Failures are noted: `faults`.
    pub fn finish(&mut self) {
        self.send_off();
        while !self.under_way.is_empty() {
            self.end_first();
        }
    }
}

impl Drop for Landing {
    fn drop(&mut self) {
        self.finish();
    }
}
