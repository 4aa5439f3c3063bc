// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What a device reports without being asked: ibv_get_async_event(3).

use core::ptr;
use std::io;
use std::os::fd::{BorrowedFd, RawFd};

use super::abi::*;
use super::api::api;
use super::device::Device;
use super::queue::set_nonblocking;

/// A report of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notice {
    /// The queue pair of this number has failed.
    PairFailed(u32),
    /// A completion queue has overrun or failed, and its queue pairs with it.
    QueueFailed,
    /// The device has failed.
    DeviceFailed,
    PortDown(u32),
    PortUp(u32),
    /// The number in `enum ibv_event_type`.
    Other(u32),
}

impl Device {
    /// The descriptor that is readable when there are reports. Reading them does not block from then on.
    pub fn notices(self) -> io::Result<BorrowedFd<'static>> {
        // SAFETY: the context is open until the process ends, and so is its descriptor.
        let fd = unsafe {
            let fd: RawFd = (*self.raw()).async_fd;
            if fd < 0 {
                return Err(io::Error::from_raw_os_error(libc::EBADF));
            }
            BorrowedFd::borrow_raw(fd)
        };
        set_nonblocking(fd)?;
        Ok(fd)
    }

    /// Takes the next report, after `notices`. All domains of the process share the reports of a device.
    pub fn next_notice(self) -> Option<Notice> {
        let (get, acknowledge) = api().ibv_get_async_event.zip(api().ibv_ack_async_event)?;
        let mut event = ibv_async_event {
            element: ptr::null_mut(),
            event_type: 0,
        };
        // SAFETY: an open device, whose descriptor does not block.
        if unsafe { get(self.raw(), &raw mut event) } != 0 {
            return None;
        }
        let port = event.element.addr() as u32;
        let notice = match event.event_type {
            0 => Notice::QueueFailed,
            1..=3 => {
                let pair = event.element.cast::<ibv_qp>();
                // SAFETY: the pair of the event exists, because destroying it waits for the acknowledgement.
                Notice::PairFailed(unsafe { (*pair).qp_num })
            }
            8 => Notice::DeviceFailed,
            9 => Notice::PortUp(port),
            10 => Notice::PortDown(port),
            other => Notice::Other(other),
        };
        // SAFETY: the event from above, of which everything was copied.
        unsafe { acknowledge(&raw mut event) };
        Some(notice)
    }
}
