// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! ICMP errors of routers and hosts about datagrams that were sent, from the error queue of a socket (IP_RECVERR of
//! ip(7)). An error that a call returns concerns such a datagram, not the call itself.

use core::mem;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;

use super::DatagramSocket;
use crate::addr;

/// A datagram that was not delivered.
#[derive(Debug)]
pub struct Complaint {
    pub to: SocketAddr,
    pub error: io::Error,
}

impl DatagramSocket {
    /// Takes the next ICMP error, if there is one.
    pub fn complaint(&self) -> Option<Complaint> {
        // The kernel writes the error here, and the address of the host that reported it.
        #[repr(C, align(8))]
        struct Control {
            head: libc::cmsghdr,
            error: libc::sock_extended_err,
            from: [u8; 64],
        }
        let mut name = [0u8; size_of::<libc::sockaddr_in6>()];
        // SAFETY: both consist of numbers, for which zero is valid.
        let (mut control, mut message): (Control, libc::msghdr) = unsafe { mem::zeroed() };
        message.msg_name = name.as_mut_ptr().cast();
        message.msg_namelen = name.len() as libc::socklen_t;
        message.msg_control = (&raw mut control).cast();
        message.msg_controllen = size_of::<Control>() as _;
        // One byte of room for the datagram: with none, qemu-user returns 0 without calling the kernel.
        let mut start = 0u8;
        let mut piece = libc::iovec {
            iov_base: (&raw mut start).cast(),
            iov_len: 1,
        };
        message.msg_iov = &raw mut piece;
        message.msg_iovlen = 1;
        // SAFETY: `name`, `control` and `start` live during the call and have the lengths given in the message.
        let n = unsafe {
            libc::syscall(
                libc::SYS_recvmsg,
                self.raw.as_raw_fd(),
                &raw mut message,
                libc::MSG_DONTWAIT | libc::MSG_ERRQUEUE,
            )
        };
        let kind = (control.head.cmsg_level, control.head.cmsg_type);
        let is_one = kind == (libc::IPPROTO_IP, libc::IP_RECVERR)
            || kind == (libc::IPPROTO_IPV6, libc::IPV6_RECVERR);
        let error = match is_one {
            true => control.error.ee_errno as i32,
            false => libc::EIO,
        };
        // An error without an address is from the local kernel, about a datagram that never left the host.
        let unknown = SocketAddr::from(([0, 0, 0, 0], 0));
        let complaint = Complaint {
            to: addr::from_bytes(&name).map_or(unknown, addr::canonical),
            error: io::Error::from_raw_os_error(error),
        };
        if n < 0 {
            return None;
        }
        self.record_unreachable(&complaint);
        Some(complaint)
    }

    /// Takes a destination that was reported as unreachable since the last call: no socket is bound there, or its host
    /// cannot be reached.
    pub fn take_unreachable(&self) -> Option<SocketAddr> {
        self.unreachable.borrow_mut().pop()
    }

    fn record_unreachable(&self, complaint: &Complaint) {
        let is_unreachable = matches!(
            complaint.error.kind(),
            io::ErrorKind::ConnectionRefused
                | io::ErrorKind::HostUnreachable
                | io::ErrorKind::NetworkUnreachable
        );
        let mut all = self.unreachable.borrow_mut();
        if is_unreachable && all.len() < UNREACHABLE && !all.contains(&complaint.to) {
            all.push(complaint.to);
        }
    }
}

/// Limit on the destinations that are kept for `take_unreachable`.
const UNREACHABLE: usize = 64;
