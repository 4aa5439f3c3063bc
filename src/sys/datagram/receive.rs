// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Receiving datagrams, several of them by one system call. The kernel may have joined those of one sender to one that
//! is cut again here (UDP_GRO).

use core::mem;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;

use super::{DatagramSocket, later};
use crate::sys::addr;
use crate::sys::io_list::ScatterList;

/// What came in at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    pub from: SocketAddr,
    /// Bytes as they were sent, which may be more than there was room for.
    pub len: usize,
    /// Of each datagram but the last, where there are several.
    pub size: usize,
}

/// Places that one system call fills at most.
pub const ROW: usize = 16;

/// The address of a sender, and what a message says besides its bytes.
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
    /// From now on the kernel may join datagrams, if it can. There is no way back: some may be joined already. A call
    /// that receives costs more then.
    pub fn join(&mut self) {
        // Not all kernels have it.
        self.joins = self.set(libc::SOL_UDP, libc::UDP_GRO, 1).is_ok();
    }

    /// Whether a place may get several datagrams. There has to be room for `MAX_DATAGRAM` bytes in each then.
    #[inline]
    pub fn joins(&self) -> bool {
        self.joins
    }

    /// Fills the pieces of `list` in order with one datagram, or a joined row of them, if there is one.
    #[inline]
    pub fn receive_one(&self, list: &ScatterList<'_>) -> io::Result<Option<Arrival>> {
        // The usual case, for which there is less to prepare, by us and by the kernel.
        match list.pieces() {
            [piece] if !self.joins => self.receive_plain(piece),
            _ => self.receive_message(list),
        }
    }

    /// `piece` is one of a list for reading, which the caller has.
    #[inline]
    fn receive_plain(&self, piece: &libc::iovec) -> io::Result<Option<Arrival>> {
        let mut name = [0; size_of::<libc::sockaddr_in6>()];
        let mut len = name.len() as libc::socklen_t;
        // SAFETY: whoever put the piece into the list answers for it, and lent it for writing; `name` is ours.
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
        // SAFETY: whoever put a piece into the list answers for it, and lent it for writing; `beside` is ours.
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

    /// As `receive_one` for each of `lists`, as far as there are some; no more than `ROW`. What came where is in `out`
    /// then; how many those are.
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
        // SAFETY: as in `receive_one`, of each message.
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

    /// As `receive_row` where the system has no call for a row.
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

/// A message that is filled into the pieces of `list`, and `beside`.
fn message(list: &ScatterList<'_>, beside: &mut Beside) -> libc::msghdr {
    let pieces = list.pieces();
    // SAFETY: all zero is a valid msghdr.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_name = beside.name.as_mut_ptr().cast();
    message.msg_namelen = beside.name.len() as libc::socklen_t;
    message.msg_iov = pieces.as_ptr().cast_mut();
    // The C library's types of both differ.
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

    /// `control`: how many bytes the kernel has written there.
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

// As CMSG_DATA and CMSG_SPACE of cmsg(3) have it.
const _: () = assert!(mem::offset_of!(Control, size) == 16 && size_of::<Control>() == 24);
