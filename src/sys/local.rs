// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Stream sockets between processes of one host: unix(7), with descriptors and the credentials of the other side.
//!
//! What a hostile peer can do: send any bytes, and any descriptors, of which at most four arrive; more than that end
//! the connection. It can fill a backlog, so that `connect` says `WouldBlock`. Anybody in the network namespace may
//! take an abstract name that is free and connect to one that is not: ask for `credentials`.
//!
//! Trusted with: received control messages. nix gives none of the descriptors that came where there were too many: they
//! would stay open.

use core::mem;
use core::time::Duration;
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::socket::{ControlMessage, MsgFlags, getsockopt, sendmsg, sockopt};
use socket2::{Domain, SockAddr, Socket as Raw, Type};

use super::socket::{BACKLOG, Moved, Socket, is_gone, is_later, moved};
use super::user::is_ours;

/// Where a process is found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LocalName {
    /// Known to the kernel alone, within a network namespace; it goes with the socket.
    Abstract(Vec<u8>),
    /// A file, which stays until it is removed.
    Path(PathBuf),
}

impl LocalName {
    fn address(&self) -> io::Result<SockAddr> {
        match self {
            LocalName::Abstract(name) if name.is_empty() => Err(ErrorKind::InvalidInput.into()),
            LocalName::Abstract(name) => {
                let mut bytes = vec![0];
                bytes.extend_from_slice(name);
                SockAddr::unix(OsStr::from_bytes(&bytes))
            }
            // Without a path the kernel would choose a name; with a leading zero it would be abstract.
            LocalName::Path(path) => match path.as_os_str().as_bytes().first() {
                None | Some(0) => Err(ErrorKind::InvalidInput.into()),
                Some(_) => SockAddr::unix(path),
            },
        }
    }
}

/// Who made the other end, as the kernel saw it then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// As this process would name it; 0 where it cannot, for one in another PID namespace.
    pub pid: i32,
    /// Its effective one.
    pub uid: u32,
}

/// Descriptors that one message may carry.
pub const MAX_FDS: usize = 4;

/// A socket that others find by this name; `AddrInUse` if there is one. A file that one has left is replaced.
pub fn listen(name: &LocalName) -> io::Result<Socket> {
    let socket = unconnected()?;
    let address = name.address()?;
    let _turn = match name {
        LocalName::Path(path) => {
            check_folder(path)?;
            Some(take_turn(path)?)
        }
        LocalName::Abstract(_) => None,
    };
    match (socket.0.bind(&address), name) {
        (Err(error), LocalName::Path(path)) if error.kind() == ErrorKind::AddrInUse => {
            remove_stale(path)?;
            socket.0.bind(&address)?;
        }
        (bound, _) => bound?,
    }
    socket.listen(BACKLOG)?;
    Ok(socket)
}

/// `PermissionDenied` where users other than this one and root decide what is in the folder: they could remove a
/// socket, put another in its place, or lead to another folder.
fn check_folder(path: &Path) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    // A link that another user has made leads where that user likes.
    let (link, meta) = (fs::symlink_metadata(folder)?, fs::metadata(folder)?);
    for owner in [link.uid(), meta.uid()] {
        if !is_ours(owner) && owner != ROOT {
            return refuse(format!("{folder:?} belongs to user {owner}"));
        }
    }
    // Where all may write (/tmp), that bit keeps them from what others have made.
    let is_open = meta.mode() & 0o022 != 0 && meta.mode() & libc::S_ISVTX == 0;
    match is_open {
        true => refuse(format!("other users can write to {folder:?}")),
        false => Ok(()),
    }
}

/// `PermissionDenied` unless this user has made the socket: a link, or a file, may be anybody's.
fn check_socket(path: &Path) -> io::Result<()> {
    let meta = fs::symlink_metadata(path)?;
    match meta.file_type().is_socket() && is_ours(meta.uid()) {
        true => Ok(()),
        false => refuse(format!("{path:?} is no socket of this user")),
    }
}

fn refuse<T>(why: String) -> io::Result<T> {
    Err(io::Error::new(ErrorKind::PermissionDenied, why))
}

const ROOT: u32 = 0;

/// Whoever listens under a name does so alone: a socket that is bound and does not listen yet looks like one that was
/// left. The lock is a file of its own beside the socket, which no other user can open, and goes with it.
struct Turn {
    file: Flock<File>,
    path: PathBuf,
}

impl Drop for Turn {
    fn drop(&mut self) {
        // Still locked: whoever opens it meanwhile finds out, and begins again.
        if is_at(&self.path, &self.file) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// `AddrInUse` if somebody has the turn all the time.
fn take_turn(path: &Path) -> io::Result<Turn> {
    let mut path = path.as_os_str().to_owned();
    path.push(".lock");
    let path = PathBuf::from(path);
    for _ in 0..TURN_TRIES {
        let mut how = OpenOptions::new();
        how.write(true).create(true).truncate(false).mode(0o600);
        // Opening a FIFO that another program has put there would wait for its reader.
        let file = how.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        let file = file.open(&path)?;
        if !file.metadata()?.is_file() {
            return refuse(format!("{path:?} is no regular file"));
        }
        if !is_ours(file.metadata()?.uid()) {
            return refuse(format!("{path:?} belongs to another user"));
        }
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(file) if is_at(&path, &file) => return Ok(Turn { file, path }),
            // The process that had it before has just removed it.
            Ok(_) => {}
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    Err(ErrorKind::AddrInUse.into())
}

/// Whether the path still names this file.
fn is_at(path: &Path, file: &File) -> bool {
    let (Ok(there), Ok(here)) = (fs::symlink_metadata(path), file.metadata()) else {
        return false;
    };
    (there.dev(), there.ino()) == (here.dev(), here.ino())
}

const TURN_TRIES: usize = 100;

/// Removes the file of a socket that nobody listens at any more; `AddrInUse` if somebody does, or if it is another
/// file.
fn remove_stale(path: &Path) -> io::Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    let refused = || {
        connect(&LocalName::Path(path.to_owned()))
            .err()
            .map(|e| e.kind())
    };
    match metadata.file_type().is_socket() && refused() == Some(ErrorKind::ConnectionRefused) {
        true => fs::remove_file(path),
        false => Err(ErrorKind::AddrInUse.into()),
    }
}

/// What a listener leaves behind in a folder, before it is closed.
pub fn remove(name: &LocalName) {
    if let LocalName::Path(path) = name {
        // It is no harm if somebody else has removed it before.
        let _ = fs::remove_file(path);
    }
}

/// Connected at once, or not at all: `ConnectionRefused` or `NotFound` if nobody listens, `WouldBlock` if too many
/// wait, `PermissionDenied` where the folder or the file is not for this user to trust.
pub fn connect(name: &LocalName) -> io::Result<Socket> {
    if let LocalName::Path(path) = name {
        check_folder(path)?;
        check_socket(path)?;
    }
    let socket = unconnected()?;
    socket.0.connect(&name.address()?)?;
    Ok(socket)
}

/// A connection that waits, if any.
pub fn accept(listener: &Socket) -> io::Result<Option<Socket>> {
    match listener.0.accept() {
        Ok((raw, _)) => {
            raw.set_nonblocking(true)?;
            Ok(Some(Socket(raw)))
        }
        Err(e) if is_later(&e) || is_gone(&e) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Writes bytes; the descriptors go with the first of them, or not at all.
pub fn send_with(socket: &Socket, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<Moved> {
    if fds.is_empty() {
        return socket.write(bytes);
    }
    if bytes.is_empty() || fds.len() > MAX_FDS {
        return Err(ErrorKind::InvalidInput.into());
    }
    let raw: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
    let n = sendmsg::<()>(
        socket.as_raw_fd(),
        &[IoSlice::new(bytes)],
        &[ControlMessage::ScmRights(&raw)],
        flags,
        None,
    );
    match n {
        Ok(n) => Ok(Moved::Bytes(n)),
        Err(Errno::EAGAIN | Errno::EINTR) => Ok(Moved::Later),
        Err(error) => Err(error.into()),
    }
}

/// Reads bytes, and appends the descriptors that came with them. If there were more than `MAX_FDS` (`InvalidData`), or
/// this process cannot have more (EMFILE), all are closed and the connection is of no use for them any more.
pub fn receive_with(socket: &Socket, room: &mut [u8], fds: &mut Vec<OwnedFd>) -> io::Result<Moved> {
    let mut control = Control::new();
    let mut piece = libc::iovec {
        iov_base: room.as_mut_ptr().cast(),
        iov_len: room.len(),
    };
    let mut message = control.message(&mut piece);
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: `room` and `control` are ours for the call.
    let n = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, flags) };
    if n < 0 {
        return moved(n, room.len());
    }
    // The kernel gives no more than there is room for, and says so.
    // SAFETY: the kernel has just filled `message`, and nobody else knows its descriptors.
    let came = unsafe { received(&message) };
    if message.msg_flags & libc::MSG_CTRUNC != 0 {
        // There was room for as many as are allowed: a process that got fewer can have no more.
        return Err(match came.len() < MAX_FDS {
            true => io::Error::from_raw_os_error(libc::EMFILE),
            false => io::Error::new(ErrorKind::InvalidData, "more descriptors than allowed"),
        });
    }
    fds.extend(came);
    moved(n, room.len())
}

/// Whether the process, or the system, can have no more descriptors.
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Who connected, or who listened.
pub fn credentials(socket: &Socket) -> io::Result<Credentials> {
    let peer = getsockopt(&socket.0, sockopt::PeerCredentials)?;
    Ok(Credentials {
        pid: peer.pid(),
        uid: peer.uid(),
    })
}

fn unconnected() -> io::Result<Socket> {
    let kind = Type::STREAM.nonblocking().cloexec();
    Ok(Socket(Raw::new(Domain::UNIX, kind, None)?))
}

/// Room for the descriptors of one message, aligned as its header.
#[repr(C)]
union Control {
    header: libc::cmsghdr,
    bytes: [u8; CONTROL_LEN],
}

// SAFETY: a sum.
const CONTROL_LEN: usize =
    unsafe { libc::CMSG_SPACE((MAX_FDS * size_of::<RawFd>()) as u32) as usize };

impl Control {
    fn new() -> Control {
        Control {
            bytes: [0; CONTROL_LEN],
        }
    }

    /// A message of one piece of data, with this as its control part: raw pointers to both.
    fn message(&mut self, piece: &mut libc::iovec) -> libc::msghdr {
        // SAFETY: all zero is a valid msghdr.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = piece;
        message.msg_iovlen = 1;
        message.msg_control = (&raw mut *self).cast();
        message.msg_controllen = size_of::<Control>() as _;
        message
    }
}

/// # Safety
/// `message` is what recvmsg(2) has filled; its descriptors are taken once.
unsafe fn received(message: &libc::msghdr) -> Vec<OwnedFd> {
    let mut fds = Vec::new();
    // SAFETY: headers and data lie within what the kernel has filled; each descriptor is new and nobody else's.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            let rights = ((*header).cmsg_level, (*header).cmsg_type);
            if rights == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                let len = (*header).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                let data = libc::CMSG_DATA(header).cast::<RawFd>();
                for i in 0..len / size_of::<RawFd>() {
                    fds.push(OwnedFd::from_raw_fd(data.add(i).read_unaligned()));
                }
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    fds
}

#[cfg(test)]
mod tests;
