/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/*
 * Error numbers, fi_errno(3). Functions return them negated; the fi_*err_entry structs carry them
 * positive.
 *
 * Written by build.rs from src/abi/fi_errno.rs and src/abi/fi_errno.h.in; change those.
 */

#ifndef FI_ERRNO_H
#define FI_ERRNO_H

#include <errno.h>

#ifdef __cplusplus
extern "C" {
#endif

/** No error. */
#define FI_SUCCESS 0

/** Not permitted. */
#define FI_EPERM 1

/** No such entry: the operation to cancel is gone, or the setting was not declared. */
#define FI_ENOENT 2

/** A signal interrupted the call. */
#define FI_EINTR 4

/** Input or output failed. */
#define FI_EIO 5

/** The argument is too long. */
#define FI_E2BIG 7

/** A bad file descriptor. */
#define FI_EBADF 9

/** Nothing to read, or no room to post: read completions and try again. */
#define FI_EAGAIN 11

/** No memory. */
#define FI_ENOMEM 12

/** Refused: the access rights of a region or key do not allow it. */
#define FI_EACCES 13

/** A bad address. */
#define FI_EFAULT 14

/** In use: objects made from this one are still open. */
#define FI_EBUSY 16

/** No such device. */
#define FI_ENODEV 19

/** An invalid argument. */
#define FI_EINVAL 22

/** Too many open files. */
#define FI_EMFILE 24

/** No room left. */
#define FI_ENOSPC 28

/** The object does not have this operation. */
#define FI_ENOSYS 38

/** The same as FI_EAGAIN. */
#define FI_EWOULDBLOCK 11

/** No message of this kind: an FI_PEEK that found nothing. */
#define FI_ENOMSG 42

/** Nothing matches: no provider for these hints, no value for this setting. */
#define FI_ENODATA 61

/** The peer broke the protocol. */
#define FI_EPROTO 71

/** A value does not fit. */
#define FI_EOVERFLOW 75

/** The message is longer than allowed. */
#define FI_EMSGSIZE 90

/** The option is unknown here. */
#define FI_ENOPROTOOPT 92

/** Not offered in this combination. */
#define FI_EOPNOTSUPP 95

/** The address is in use. */
#define FI_EADDRINUSE 98

/** The address does not belong to this machine, or no endpoint has it. */
#define FI_EADDRNOTAVAIL 99

/** The network is down. */
#define FI_ENETDOWN 100

/** No route to the network. */
#define FI_ENETUNREACH 101

/** The connection was aborted before it was established. */
#define FI_ECONNABORTED 103

/** The peer ended the connection. */
#define FI_ECONNRESET 104

/** No buffer space. */
#define FI_ENOBUFS 105

/** Connected already. */
#define FI_EISCONN 106

/** Not connected. */
#define FI_ENOTCONN 107

/** Shut down. */
#define FI_ESHUTDOWN 108

/** No answer in time. */
#define FI_ETIMEDOUT 110

/** No endpoint listens at the address, or the peer rejected the connection. */
#define FI_ECONNREFUSED 111

/** The host is down. */
#define FI_EHOSTDOWN 112

/** No route to the host. */
#define FI_EHOSTUNREACH 113

/** The operation is already in progress. */
#define FI_EALREADY 114

/** The operation has started and is in progress. */
#define FI_EINPROGRESS 115

/** The peer failed to do its part. */
#define FI_EREMOTEIO 121

/** The operation was canceled. */
#define FI_ECANCELED 125

/** The key is not accepted: no such region there, or its rights forbid it. */
#define FI_EKEYREJECTED 129

/** Error numbers from here on are specific to libfabric; lower ones are those of errno(3). */
#define FI_ERRNO_OFFSET 256

/** Another error, see the log. */
#define FI_EOTHER 256

/** The caller's buffer is too small; its length argument now holds the length that is needed. */
#define FI_ETOOSMALL 257

/** The state of the object does not allow the operation. */
#define FI_EOPBADSTATE 258

/** An error entry is at the head of the queue: read it with the readerr call. */
#define FI_EAVAIL 259

/** The call does not take one of the flags. */
#define FI_EBADFLAGS 260

/** No event queue is bound. */
#define FI_ENOEQ 261

/** The objects belong to different domains. */
#define FI_EDOMAIN 262

/** No completion queue is bound. */
#define FI_ENOCQ 263

/** A checksum was wrong. */
#define FI_ECRC 264

/** The message was longer than the buffer; the part that fits was placed. */
#define FI_ETRUNC 265

/** The key is in use or not available. */
#define FI_ENOKEY 266

/** No address vector is bound. */
#define FI_ENOAV 267

/** The queue lost entries because it was full. */
#define FI_EOVERRUN 268

/** The receiver is not ready: no buffer was posted. */
#define FI_ENORX 269

/** No more regions can be registered. */
#define FI_ENOMR 270

/** The peer is behind a firewall, so only the peer can connect. */
#define FI_EFIREWALLADDR 271

/** One more than the last. */
#define FI_ERRNO_MAX 272

/* Returns the message for an error number of either sign; never NULL, static storage. fi_errno(3) */
const char *fi_strerror(int errnum);

#ifdef __cplusplus
}
#endif

#endif /* FI_ERRNO_H */
