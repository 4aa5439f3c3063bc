// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Sends datagrams: one from the application's memory, or a row of buffered ones.

use core::mem;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd};

use socket2::SockAddr;

use super::{DatagramSocket, later};
use crate::io_list::GatherList;
use crate::socket::send_message;

/// Consecutive datagrams for one peer: all have `size` bytes, except the last, which may be shorter. More than one is
/// allowed only if `DatagramSocket::cuts` returns true.
pub struct Run<'a> {
    pub to: SocketAddr,
    pub bytes: &'a [u8],
    pub size: usize,
}

/// Limit on the runs of one system call.
const RUNS: usize = 16;

const FLAGS: libc::c_int = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;

/// Control data of a message: the length of its datagrams.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control {
    head: libc::cmsghdr,
    size: u16,
}

impl DatagramSocket {
    /// Returns true if a run may have several datagrams.
    #[inline]
    pub fn cuts(&self) -> bool {
        self.cuts
    }

    /// Sends the pieces of `list` as one datagram. Returns false if the socket has no room for it now.
    #[inline]
    pub fn send(&self, list: &GatherList<'_>, to: &SocketAddr) -> io::Result<bool> {
        list.check()?;
        match list.pieces() {
            // A single piece costs the kernel less than a message of several pieces.
            [piece] => self.send_plain(piece, to),
            pieces => self.send_message(pieces, to),
        }
    }

    /// As `send`, with bytes of the library.
    pub fn send_bytes(&self, bytes: &[u8], to: &SocketAddr) -> io::Result<bool> {
        let mut list = GatherList::new();
        list.push(bytes);
        self.send(&list, to)
    }

    /// Sends `piece`, which belongs to a list of the caller.
    #[inline]
    fn send_plain(&self, piece: &libc::iovec, to: &SocketAddr) -> io::Result<bool> {
        let to = SockAddr::from(*to);
        // SAFETY: the maker of the list answers for the piece, and `to` is a local variable.
        let sent = unsafe {
            libc::syscall(
                libc::SYS_sendto,
                self.raw.as_raw_fd(),
                piece.iov_base,
                piece.iov_len,
                FLAGS,
                to.as_ptr(),
                to.len(),
            )
        };
        match sent {
            0.. => Ok(true),
            _ => later().map(|()| false),
        }
    }

    /// As `send_plain`, with several pieces.
    fn send_message(&self, pieces: &[libc::iovec], to: &SocketAddr) -> io::Result<bool> {
        let to = SockAddr::from(*to);
        // SAFETY: all zero is a valid msghdr.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_name = to.as_ptr().cast_mut().cast();
        message.msg_namelen = to.len();
        message.msg_iov = pieces.as_ptr().cast_mut();
        message.msg_iovlen = pieces.len() as _;
        // SAFETY: the maker of the list answers for each piece, and `to` is a local variable.
        match unsafe { send_message(self.raw.as_fd(), &message) } {
            0.. => Ok(true),
            _ => later().map(|()| false),
        }
    }

    /// Sends the first of these runs, at most as many as one system call takes, and returns how many the socket had
    /// room for. An error concerns the first run, of which no byte was sent.
    pub fn send_runs<'a>(&self, runs: impl Iterator<Item = Run<'a>>) -> io::Result<usize> {
        // SAFETY: all zero is a valid mmsghdr, iovec and cmsghdr.
        let (mut messages, mut pieces, mut controls): (
            [libc::mmsghdr; RUNS],
            [libc::iovec; RUNS],
            [Control; RUNS],
        ) = unsafe { mem::zeroed() };
        let mut names: [Option<SockAddr>; RUNS] = [const { None }; RUNS];
        let mut count = 0;
        for (i, run) in runs.take(RUNS).enumerate() {
            count += 1;
            let message = &mut messages[i].msg_hdr;
            let name = names[i].insert(SockAddr::from(run.to));
            message.msg_name = name.as_ptr().cast_mut().cast();
            message.msg_namelen = name.len();
            pieces[i] = libc::iovec {
                iov_base: run.bytes.as_ptr().cast_mut().cast(),
                iov_len: run.bytes.len(),
            };
            message.msg_iov = &raw mut pieces[i];
            message.msg_iovlen = 1;
            if run.bytes.len() > run.size {
                controls[i] = Control::cut(run.size);
                message.msg_control = (&raw mut controls[i]).cast();
                message.msg_controllen = size_of::<Control>() as _;
            }
        }
        // SAFETY: each message refers to one of `pieces`, whose bytes are borrowed, one of `names` and one of
        // `controls`; all of them stay in their places during the call.
        let sent = unsafe {
            libc::syscall(
                libc::SYS_sendmmsg,
                self.raw.as_raw_fd(),
                messages.as_mut_ptr(),
                count,
                FLAGS,
            )
        };
        match usize::try_from(sent) {
            Ok(sent) => Ok(sent),
            Err(_) => match io::Error::last_os_error().raw_os_error() {
                Some(libc::ENOSYS) if count > 0 => self.send_first(&messages[0].msg_hdr),
                _ => later().map(|()| 0),
            },
        }
    }

    /// As `send_runs`, for systems without a call that sends several datagrams.
    #[cold]
    fn send_first(&self, message: &libc::msghdr) -> io::Result<usize> {
        // SAFETY: the message points to arrays of the caller, which live during the call.
        match unsafe { send_message(self.raw.as_fd(), message) } {
            0.. => Ok(1),
            _ => later().map(|()| 0),
        }
    }
}

impl Control {
    fn cut(size: usize) -> Control {
        // SAFETY: it consists of numbers, for which zero is valid.
        let mut control: Control = unsafe { mem::zeroed() };
        control.head.cmsg_len = (mem::offset_of!(Control, size) + size_of::<u16>()) as _;
        control.head.cmsg_level = libc::SOL_UDP;
        control.head.cmsg_type = libc::UDP_SEGMENT;
        control.size = size as u16;
        control
    }
}

// The layout of CMSG_DATA and CMSG_SPACE in cmsg(3).
const _: () = assert!(mem::offset_of!(Control, size) == 16 && size_of::<Control>() == 24);
