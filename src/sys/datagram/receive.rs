// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Receives datagrams, several of them by one system call. The kernel may have joined datagrams of one sender
//! (UDP_GRO); this module returns the length of each, so that the caller can cut them again.

use core::mem;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;

use super::{DatagramSocket, later};
use crate::addr;
use crate::io_list::ScatterList;

/// Datagrams that were received into one buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    pub from: SocketAddr,
    /// Number of bytes as they were sent, which may exceed the room.
    pub len: usize,
    /// Length of each datagram except the last, if the kernel has joined several.
    pub size: usize,
}

impl Arrival {
    /// Returns true if it is one datagram.
    pub fn is_single(&self) -> bool {
        self.size == self.len
    }
}

/// Limit on the buffers that one system call fills.
pub const ROW: usize = 16;

/// The sender's address and the control data of a message.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Beside {
    name: [u8; size_of::<libc::sockaddr_in6>()],
    control: Control,
}

#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control {
    head: libc::cmsghdr,
    size: libc::c_int,
}

impl DatagramSocket {
    /// Allows the kernel to join datagrams, if it can. This cannot be undone, because some may be joined already. Each
    /// receiving call costs more from then on.
    pub fn join(&mut self) {
        // Some kernels do not have this option.
        self.joins = self.set(libc::SOL_UDP, libc::UDP_GRO, 1).is_ok();
    }

    /// Returns true if a buffer may get several datagrams. Each buffer must then have room for `MAX_DATAGRAM` bytes.
    #[inline]
    pub fn joins(&self) -> bool {
        self.joins
    }

    /// Fills the pieces of `list` in order with one datagram, or with several joined ones, if any have arrived.
    #[inline]
    pub fn receive_one(&self, list: &ScatterList<'_>) -> io::Result<Option<Arrival>> {
        // The usual case, for which this function and the kernel have less to prepare.
        match list.pieces() {
            [piece] if !self.joins => self.receive_plain(piece),
            _ => self.receive_message(list),
        }
    }

    /// Receives into `piece`, which belongs to a list of the caller.
    #[inline]
    fn receive_plain(&self, piece: &libc::iovec) -> io::Result<Option<Arrival>> {
        let mut name = [0; size_of::<libc::sockaddr_in6>()];
        let mut len = name.len() as libc::socklen_t;
        // SAFETY: the maker of the list answers for the piece and lent it for writing; `name` is a local variable.
        let n = unsafe {
            libc::syscall(
                libc::SYS_recvfrom,
                self.raw.as_raw_fd(),
                piece.iov_base,
                piece.iov_len,
                FLAGS,
                name.as_mut_ptr(),
                &raw mut len,
            )
        };
        let Ok(len) = usize::try_from(n) else {
            return later().map(|()| None);
        };
        let from = addr::from_bytes(&name).ok_or(io::ErrorKind::AddrNotAvailable)?;
        let size = len;
        Ok(Some(Arrival { from, len, size }))
    }

    fn receive_message(&self, list: &ScatterList<'_>) -> io::Result<Option<Arrival>> {
        let mut beside = Beside::EMPTY;
        let mut message = message(list, &mut beside);
        // SAFETY: the maker of the list answers for each piece and lent it for writing; `beside` is a local variable.
        let n = unsafe {
            libc::syscall(
                libc::SYS_recvmsg,
                self.raw.as_raw_fd(),
                &raw mut message,
                FLAGS,
            )
        };
        match usize::try_from(n) {
            Ok(len) => beside.arrival(len, message.msg_controllen as _).map(Some),
            Err(_) => later().map(|()| None),
        }
    }

    /// As `receive_one` for each of `lists`, while datagrams are left, and for at most `ROW`. Fills `out` in the same
    /// order and returns the number of filled lists.
    pub fn receive(&self, lists: &[ScatterList<'_>], out: &mut [Arrival]) -> io::Result<usize> {
        let ([list], [out, ..]) = (lists, &mut *out) else {
            return self.receive_row(lists, out);
        };
        let arrival = self.receive_one(list)?;
        *out = arrival.unwrap_or(*out);
        Ok(arrival.iter().count())
    }

    fn receive_row(&self, lists: &[ScatterList<'_>], out: &mut [Arrival]) -> io::Result<usize> {
        let lists = &lists[..lists.len().min(ROW).min(out.len())];
        let mut beside = [Beside::EMPTY; ROW];
        // SAFETY: all zero is a valid mmsghdr.
        let mut messages: [libc::mmsghdr; ROW] = unsafe { mem::zeroed() };
        for ((header, list), beside) in messages.iter_mut().zip(lists).zip(&mut beside) {
            header.msg_hdr = message(list, beside);
        }
        // SAFETY: as in `receive_one`, for each message.
        let n = unsafe {
            libc::syscall(
                libc::SYS_recvmmsg,
                self.raw.as_raw_fd(),
                messages.as_mut_ptr(),
                lists.len(),
                FLAGS,
                core::ptr::null::<libc::timespec>(),
            )
        };
        let Ok(n) = usize::try_from(n) else {
            return match io::Error::last_os_error().raw_os_error() {
                Some(libc::ENOSYS) => self.receive_first(lists, out),
                _ => later().map(|()| 0),
            };
        };
        for ((header, beside), out) in messages[..n].iter().zip(&beside).zip(out) {
            *out = beside.arrival(header.msg_len as usize, header.msg_hdr.msg_controllen as _)?;
        }
        Ok(n)
    }

    /// As `receive_row`, for systems without a call that receives several datagrams.
    #[cold]
    fn receive_first(&self, lists: &[ScatterList<'_>], out: &mut [Arrival]) -> io::Result<usize> {
        let (Some(list), Some(out)) = (lists.first(), out.first_mut()) else {
            return Ok(0);
        };
        let arrival = self.receive_one(list)?;
        *out = arrival.unwrap_or(*out);
        Ok(arrival.iter().count())
    }
}

const FLAGS: libc::c_int = libc::MSG_DONTWAIT | libc::MSG_TRUNC;

/// Makes a message that is received into the pieces of `list`, and `beside`.
fn message(list: &ScatterList<'_>, beside: &mut Beside) -> libc::msghdr {
    let pieces = list.pieces();
    // SAFETY: all zero is a valid msghdr.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_name = beside.name.as_mut_ptr().cast();
    message.msg_namelen = beside.name.len() as libc::socklen_t;
    message.msg_iov = pieces.as_ptr().cast_mut();
    // The integer types of both fields differ between C libraries.
    message.msg_iovlen = pieces.len() as _;
    message.msg_control = (&raw mut beside.control).cast();
    message.msg_controllen = size_of::<Control>() as _;
    message
}

impl Beside {
    const EMPTY: Beside = Beside {
        name: [0; size_of::<libc::sockaddr_in6>()],
        control: Control {
            // SAFETY: numbers.
            head: unsafe { mem::zeroed() },
            size: 0,
        },
    };

    /// `control` is the number of bytes that the kernel has written to the control data.
    fn arrival(&self, len: usize, control: usize) -> io::Result<Arrival> {
        let from = addr::from_bytes(&self.name).ok_or(io::ErrorKind::AddrNotAvailable)?;
        let Control { head, size } = self.control;
        let is_joined =
            control > 0 && (head.cmsg_level, head.cmsg_type) == (libc::SOL_UDP, libc::UDP_GRO);
        let size = match usize::try_from(size) {
            Ok(size) if is_joined && size > 0 => size.min(len),
            _ => len,
        };
        Ok(Arrival { from, len, size })
    }
}

// The layout of CMSG_DATA and CMSG_SPACE in cmsg(3).
const _: () = assert!(mem::offset_of!(Control, size) == 16 && size_of::<Control>() == 24);
