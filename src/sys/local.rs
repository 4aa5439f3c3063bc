// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Stream sockets between processes of one host: unix(7), with descriptors and the credentials of the other side.
//!
//! What a hostile peer can do: send any bytes, and any descriptors, of which at most four are accepted; more end the
//! connection. It can fill a backlog, so that `connect` returns `WouldBlock`. Any process in the network namespace may
//! take a free abstract name and connect to a used one, so callers check `credentials`.
//!
//! Trusted with: received control messages. nix returns no descriptors at all if too many arrived, so they would stay
//! open.

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

/// The address of a listening process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LocalName {
    /// A name in the kernel, within a network namespace; it disappears with the socket.
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
            // With an empty path the kernel would choose a name; a leading zero would make the name abstract.
            LocalName::Path(path) => match path.as_os_str().as_bytes().first() {
                None | Some(0) => Err(ErrorKind::InvalidInput.into()),
                Some(_) => SockAddr::unix(path),
            },
        }
    }
}

/// Identifies the process that made the other end, as the kernel recorded it at that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The PID in this process's namespace; 0 for a process that is not visible there.
    pub pid: i32,
    /// The effective user ID.
    pub uid: u32,
}

/// Limit on the descriptors in one message.
pub const MAX_FDS: usize = 4;

/// Listens under this name. Returns `AddrInUse` if another process does. A file that an ended process left is replaced.
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

/// Returns `PermissionDenied` if users other than this one and root control the folder: they could remove a socket,
/// replace it, or make the path lead to another folder.
fn check_folder(path: &Path) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    // The owner of a link decides where it leads, so the owner is checked, too.
    let (link, meta) = (fs::symlink_metadata(folder)?, fs::metadata(folder)?);
    for owner in [link.uid(), meta.uid()] {
        if !is_ours(owner) && owner != ROOT {
            return refuse(format!("{folder:?} belongs to user {owner}"));
        }
    }
    // In a folder that all users can write to (/tmp), the sticky bit protects files from other users.
    let is_open = meta.mode() & 0o022 != 0 && meta.mode() & libc::S_ISVTX == 0;
    match is_open {
        true => refuse(format!("other users can write to {folder:?}")),
        false => Ok(()),
    }
}

/// Returns `PermissionDenied` unless this user has made the socket: another user may have made a link or file there.
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

/// Exclusive right to listen under a name. It is needed because a socket that is bound and does not listen yet looks
/// like a leftover one. The lock is a file beside the socket, which no other user can open; it is removed with this
/// value.
struct Turn {
    file: Flock<File>,
    path: PathBuf,
}

impl Drop for Turn {
    fn drop(&mut self) {
        // Removed while locked: a process that opens the file meanwhile detects that in `take_turn` and begins again.
        if is_at(&self.path, &self.file) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Returns `AddrInUse` if another process holds the lock all the time.
fn take_turn(path: &Path) -> io::Result<Turn> {
    let mut path = path.as_os_str().to_owned();
    path.push(".lock");
    let path = PathBuf::from(path);
    for _ in 0..TURN_TRIES {
        let mut how = OpenOptions::new();
        how.write(true).create(true).truncate(false).mode(0o600);
        // Without O_NONBLOCK, opening a FIFO that another program put there would wait for its reader.
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
            // The previous holder has just removed the file.
            Ok(_) => {}
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    Err(ErrorKind::AddrInUse.into())
}

/// Returns true if the path still names this file.
fn is_at(path: &Path, file: &File) -> bool {
    let (Ok(there), Ok(here)) = (fs::symlink_metadata(path), file.metadata()) else {
        return false;
    };
    (there.dev(), there.ino()) == (here.dev(), here.ino())
}

const TURN_TRIES: usize = 100;

/// Removes the file of a socket without a listener. Returns `AddrInUse` if there is a listener or if it is another kind
/// of file.
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

/// Removes the file of a listener from its folder. Called before the listener is closed.
pub fn remove(name: &LocalName) {
    if let LocalName::Path(path) = name {
        // Another process may have removed the file already.
        let _ = fs::remove_file(path);
    }
}

/// Connects without waiting: `ConnectionRefused` or `NotFound` if there is no listener, `WouldBlock` if its backlog is
/// full, `PermissionDenied` if this user must not trust the folder or the file.
pub fn connect(name: &LocalName) -> io::Result<Socket> {
    if let LocalName::Path(path) = name {
        check_folder(path)?;
        check_socket(path)?;
    }
    let socket = unconnected()?;
    socket.0.connect(&name.address()?)?;
    Ok(socket)
}

/// Takes a pending connection, if there is one.
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

/// Writes bytes. The descriptors are sent with the first byte, or not at all.
pub fn send_with(socket: &Socket, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<Moved> {
    if fds.is_empty() {
        return socket.write(bytes);
    }
    if bytes.is_empty() || fds.len() > MAX_FDS {
        return Err(ErrorKind::InvalidInput.into());
    }
    // SCM_RIGHTS is an array of numbers. The borrows last until the call is over.
    let raw: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
    let n = sendmsg::<()>(
        socket.0.as_raw_fd(),
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
/// this process cannot have more (EMFILE), all are closed and the connection can no longer be used for descriptors.
pub fn receive_with(socket: &Socket, room: &mut [u8], fds: &mut Vec<OwnedFd>) -> io::Result<Moved> {
    let mut control = Control::new();
    let mut piece = libc::iovec {
        iov_base: room.as_mut_ptr().cast(),
        iov_len: room.len(),
    };
    let mut message = control.message(&mut piece);
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: `room` and `control` live during the call.
    let n = unsafe { libc::recvmsg(socket.0.as_raw_fd(), &mut message, flags) };
    if n < 0 {
        return moved(n, room.len());
    }
    // If there are too many, the kernel delivers as many as fit and sets MSG_CTRUNC.
    // SAFETY: the kernel has just filled `message`, and its descriptors have no other owner.
    let came = unsafe { received(&message) };
    if message.msg_flags & libc::MSG_CTRUNC != 0 {
        // There was room for `MAX_FDS`, so a process that got fewer cannot have more descriptors.
        return Err(match came.len() < MAX_FDS {
            true => io::Error::from_raw_os_error(libc::EMFILE),
            false => io::Error::new(ErrorKind::InvalidData, "more descriptors than allowed"),
        });
    }
    fds.extend(came);
    moved(n, room.len())
}

/// Returns true if the process, or the system, can have no more descriptors.
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

/// Returns the credentials of the process that connected or listened.
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

// SAFETY: only computes a sum.
const CONTROL_LEN: usize =
    unsafe { libc::CMSG_SPACE((MAX_FDS * size_of::<RawFd>()) as u32) as usize };

impl Control {
    fn new() -> Control {
        Control {
            bytes: [0; CONTROL_LEN],
        }
    }

    /// Makes a message of one piece of data with this control part; it has raw pointers to both.
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
/// recvmsg(2) has filled `message`; its descriptors are taken once.
unsafe fn received(message: &libc::msghdr) -> Vec<OwnedFd> {
    let mut fds = Vec::new();
    // SAFETY: headers and data lie within what the kernel has filled; each descriptor is new and has no other owner.
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
