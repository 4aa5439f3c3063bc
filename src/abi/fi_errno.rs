// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `<rdma/fi_errno.h>`: Error numbers of fi_errno(3).
//!
//! Declarations only; build.rs writes them into the public header.

use core::ffi::c_int;

/// No error.
pub const FI_SUCCESS: c_int = 0;
/// Not permitted.
pub const FI_EPERM: c_int = 1;
/// No such entry: the operation to cancel is gone, or the setting was not declared.
pub const FI_ENOENT: c_int = 2;
/// A signal interrupted the call.
pub const FI_EINTR: c_int = 4;
/// Input or output failed.
pub const FI_EIO: c_int = 5;
/// The argument is too long.
pub const FI_E2BIG: c_int = 7;
/// A bad file descriptor.
pub const FI_EBADF: c_int = 9;
/// Nothing to read, or no room to post: read completions and try again.
pub const FI_EAGAIN: c_int = 11;
/// No memory.
pub const FI_ENOMEM: c_int = 12;
/// Refused: the access rights of a region or key do not allow it.
pub const FI_EACCES: c_int = 13;
/// A bad address.
pub const FI_EFAULT: c_int = 14;
/// In use: objects made from this one are still open.
pub const FI_EBUSY: c_int = 16;
/// No such device.
pub const FI_ENODEV: c_int = 19;
/// An invalid argument.
pub const FI_EINVAL: c_int = 22;
/// Too many open files.
pub const FI_EMFILE: c_int = 24;
/// No room left.
pub const FI_ENOSPC: c_int = 28;
/// The object does not have this operation.
pub const FI_ENOSYS: c_int = 38;
/// The same as FI_EAGAIN.
pub const FI_EWOULDBLOCK: c_int = 11;
/// No message of this kind: an FI_PEEK that found nothing.
pub const FI_ENOMSG: c_int = 42;
/// Nothing matches: no provider for these hints, no value for this setting.
pub const FI_ENODATA: c_int = 61;
/// The peer broke the protocol.
pub const FI_EPROTO: c_int = 71;
/// A value does not fit.
pub const FI_EOVERFLOW: c_int = 75;
/// The message is longer than allowed.
pub const FI_EMSGSIZE: c_int = 90;
/// The option is unknown here.
pub const FI_ENOPROTOOPT: c_int = 92;
/// Not offered in this combination.
pub const FI_EOPNOTSUPP: c_int = 95;
/// The address is in use.
pub const FI_EADDRINUSE: c_int = 98;
/// The address does not belong to this machine, or no endpoint has it.
pub const FI_EADDRNOTAVAIL: c_int = 99;
/// The network is down.
pub const FI_ENETDOWN: c_int = 100;
/// No route to the network.
pub const FI_ENETUNREACH: c_int = 101;
/// The connection was aborted before it was established.
pub const FI_ECONNABORTED: c_int = 103;
/// The peer ended the connection.
pub const FI_ECONNRESET: c_int = 104;
/// No buffer space.
pub const FI_ENOBUFS: c_int = 105;
/// Connected already.
pub const FI_EISCONN: c_int = 106;
/// Not connected.
pub const FI_ENOTCONN: c_int = 107;
/// Shut down.
pub const FI_ESHUTDOWN: c_int = 108;
/// No answer in time.
pub const FI_ETIMEDOUT: c_int = 110;
/// No endpoint listens at the address, or the peer rejected the connection.
pub const FI_ECONNREFUSED: c_int = 111;
/// The host is down.
pub const FI_EHOSTDOWN: c_int = 112;
/// No route to the host.
pub const FI_EHOSTUNREACH: c_int = 113;
/// The operation is already in progress.
pub const FI_EALREADY: c_int = 114;
/// The operation has started and is in progress.
pub const FI_EINPROGRESS: c_int = 115;
/// The peer failed to do its part.
pub const FI_EREMOTEIO: c_int = 121;
/// The operation was canceled.
pub const FI_ECANCELED: c_int = 125;
/// The key is not accepted: no such region there, or its rights forbid it.
pub const FI_EKEYREJECTED: c_int = 129;
/// Error numbers from here on are specific to libfabric; lower ones are those of errno(3).
pub const FI_ERRNO_OFFSET: c_int = 256;
/// Another error, see the log.
pub const FI_EOTHER: c_int = 256;
/// The caller's buffer is too small; its length argument now holds the length that is needed.
pub const FI_ETOOSMALL: c_int = 257;
/// The state of the object does not allow the operation.
pub const FI_EOPBADSTATE: c_int = 258;
/// An error entry is at the head of the queue: read it with the readerr call.
pub const FI_EAVAIL: c_int = 259;
/// The call does not take one of the flags.
pub const FI_EBADFLAGS: c_int = 260;
/// No event queue is bound.
pub const FI_ENOEQ: c_int = 261;
/// The objects belong to different domains.
pub const FI_EDOMAIN: c_int = 262;
/// No completion queue is bound.
pub const FI_ENOCQ: c_int = 263;
/// A checksum was wrong.
pub const FI_ECRC: c_int = 264;
/// The message was longer than the buffer; the part that fits was placed.
pub const FI_ETRUNC: c_int = 265;
/// The key is in use or not available.
pub const FI_ENOKEY: c_int = 266;
/// No address vector is bound.
pub const FI_ENOAV: c_int = 267;
/// The queue lost entries because it was full.
pub const FI_EOVERRUN: c_int = 268;
/// The receiver is not ready: no buffer was posted.
pub const FI_ENORX: c_int = 269;
/// No more regions can be registered.
pub const FI_ENOMR: c_int = 270;
/// The peer is behind a firewall, so only the peer can connect.
pub const FI_EFIREWALLADDR: c_int = 271;
/// One more than the last.
pub const FI_ERRNO_MAX: c_int = 272;
