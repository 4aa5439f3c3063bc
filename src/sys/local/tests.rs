// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Two ends in one process, and a peer that sends invalid messages.

use core::sync::atomic::{AtomicU32, Ordering};
use std::fs::File;
use std::io::{IoSlice, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};

use super::*;

fn unique() -> LocalName {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    LocalName::Abstract(format!("ironfabric-test-{}-{n}", std::process::id()).into())
}

fn pair() -> (Socket, Socket) {
    let name = unique();
    let listener = listen(&name).unwrap();
    let client = connect(&name).unwrap();
    (client, accept(&listener).unwrap().unwrap())
}

/// Returns the two ends of a pipe.
fn pipe() -> (File, File) {
    let (reader, writer) = std::io::pipe().unwrap();
    (
        File::from(OwnedFd::from(reader)),
        File::from(OwnedFd::from(writer)),
    )
}

/// Returns true if all writers of a pipe are closed.
fn has_ended(mut reader: File) -> bool {
    nix::fcntl::fcntl(
        &reader,
        nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK),
    )
    .unwrap();
    matches!(reader.read(&mut [0; 1]), Ok(0))
}

fn flags(fd: impl AsFd) -> (bool, bool) {
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: no pointers.
    let (fd_flags, status) = unsafe {
        (
            libc::fcntl(fd, libc::F_GETFD),
            libc::fcntl(fd, libc::F_GETFL),
        )
    };
    (
        fd_flags & libc::FD_CLOEXEC != 0,
        status & libc::O_NONBLOCK != 0,
    )
}

#[test]
fn bytes_go_both_ways_until_the_end() {
    let (a, b) = pair();
    let (mut room, mut fds) = ([0; 8], Vec::new());
    assert_eq!(receive_with(&b, &mut room, &mut fds).unwrap(), Moved::Later);
    assert_eq!(send_with(&a, b"hello", &[]).unwrap(), Moved::Bytes(5));
    assert_eq!(
        receive_with(&b, &mut room, &mut fds).unwrap(),
        Moved::Bytes(5)
    );
    assert_eq!(&room[..5], b"hello");
    assert_eq!(b.write(b"x").unwrap(), Moved::Bytes(1));
    assert_eq!(a.read(&mut room).unwrap(), Moved::Bytes(1));
    drop(b);
    assert_eq!(receive_with(&a, &mut room, &mut fds).unwrap(), Moved::End);
    assert!(send_with(&a, b"x", &[]).is_err());
    assert!(fds.is_empty());
}

#[test]
fn descriptors_arrive_with_the_first_byte() {
    let (a, b) = pair();
    let (reader, writer) = pipe();
    assert_eq!(send_with(&a, b"before", &[]).unwrap(), Moved::Bytes(6));
    let sent = [
        reader.as_fd(),
        writer.as_fd(),
        reader.as_fd(),
        reader.as_fd(),
    ];
    assert_eq!(send_with(&a, b"with", &sent).unwrap(), Moved::Bytes(4));
    drop((reader, writer));
    let (mut room, mut fds) = ([0; 16], Vec::new());
    let mut bytes = Vec::new();
    while fds.is_empty() {
        let Moved::Bytes(n) = receive_with(&b, &mut room, &mut fds).unwrap() else {
            panic!("no descriptors came");
        };
        bytes.extend_from_slice(&room[..n]);
    }
    assert_eq!((bytes.as_slice(), fds.len()), (&b"beforewith"[..], 4));
    assert!(fds.iter().all(|fd| flags(fd).0));
    let mut fds = fds.into_iter();
    let (mut reader, mut writer) = (
        File::from(fds.next().unwrap()),
        File::from(fds.next().unwrap()),
    );
    writer.write_all(b"!").unwrap();
    let mut byte = [0];
    reader.read_exact(&mut byte).unwrap();
    assert_eq!(byte, *b"!");
}

#[test]
fn what_cannot_be_sent_is_refused() {
    let (a, _b) = pair();
    let (reader, _writer) = pipe();
    let kind = |r: io::Result<Moved>| r.unwrap_err().kind();
    let five = [reader.as_fd(); MAX_FDS + 1];
    assert_eq!(kind(send_with(&a, b"x", &five)), ErrorKind::InvalidInput);
    assert_eq!(
        kind(send_with(&a, b"", &five[..1])),
        ErrorKind::InvalidInput
    );
}

#[test]
fn too_many_descriptors_are_an_error_and_all_are_closed() {
    for count in [MAX_FDS + 1, 20, 253] {
        let (a, b) = pair();
        let (reader, writer) = pipe();
        let fds = vec![writer.as_raw_fd(); count];
        let rights = [ControlMessage::ScmRights(&fds)];
        let bytes = [IoSlice::new(b"x")];
        sendmsg::<()>(a.0.as_raw_fd(), &bytes, &rights, MsgFlags::empty(), None).unwrap();
        drop(writer);
        let (mut room, mut came) = ([0; 8], Vec::new());
        let error = receive_with(&b, &mut room, &mut came).unwrap_err();
        assert_eq!((error.kind(), came.len()), (ErrorKind::InvalidData, 0));
        assert!(has_ended(reader), "{count}: a descriptor is still open");
    }
}

#[test]
fn a_plain_read_leaves_no_descriptor_open() {
    let (a, b) = pair();
    let (reader, writer) = pipe();
    send_with(&a, b"x", &[writer.as_fd()]).unwrap();
    drop(writer);
    // `read` has no room for descriptors, so the kernel closes them.
    assert_eq!(b.read(&mut [0; 8]).unwrap(), Moved::Bytes(1));
    assert!(has_ended(reader));
}

#[test]
fn a_full_socket_takes_no_descriptors() {
    let (a, b) = pair();
    while matches!(a.write(&[0; 4096]).unwrap(), Moved::Bytes(_)) {}
    let (reader, writer) = pipe();
    assert_eq!(
        send_with(&a, b"x", &[writer.as_fd()]).unwrap(),
        Moved::Later
    );
    drop(writer);
    assert!(has_ended(reader));
    drop(b);
}

#[test]
fn a_name_is_taken_once_and_free_with_the_socket() {
    let name = unique();
    let kind = |r: io::Result<Socket>| r.err().map(|e| e.kind());
    assert_eq!(kind(connect(&name)), Some(ErrorKind::ConnectionRefused));
    let listener = listen(&name).unwrap();
    assert!(accept(&listener).unwrap().is_none());
    assert_eq!(kind(listen(&name)), Some(ErrorKind::AddrInUse));
    drop(listener);
    listen(&name).unwrap();
}

#[test]
fn paths_are_names_too() {
    let file = std::env::temp_dir().join(format!("ironfabric-local-{}", std::process::id()));
    let name = LocalName::Path(file.clone());
    let kind = |r: io::Result<Socket>| r.err().map(|e| e.kind());
    assert_eq!(kind(connect(&name)), Some(ErrorKind::NotFound));
    let listener = listen(&name).unwrap();
    let client = connect(&name).unwrap();
    let server = accept(&listener).unwrap().unwrap();
    assert_eq!(client.write(b"x").unwrap(), Moved::Bytes(1));
    assert_eq!(server.read(&mut [0; 2]).unwrap(), Moved::Bytes(1));
    assert_eq!(kind(listen(&name)), Some(ErrorKind::AddrInUse));
    drop(listener);
    // The file that a killed process left is replaced.
    assert_eq!(kind(connect(&name)), Some(ErrorKind::ConnectionRefused));
    drop(listen(&name).unwrap());
    remove(&name);
    assert_eq!(kind(connect(&name)), Some(ErrorKind::NotFound));
    // A file of another kind is not removed.
    std::fs::write(&file, b"mine").unwrap();
    assert_eq!(kind(listen(&name)), Some(ErrorKind::AddrInUse));
    assert_eq!(std::fs::read(&file).unwrap(), b"mine");
    std::fs::remove_file(&file).unwrap();
}

/// A folder for one test, which is removed with this value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str, mode: u32) -> Folder {
        let path = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        Folder(path)
    }

    fn name(&self, file: &str) -> LocalName {
        LocalName::Path(self.0.join(file))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn kind<T>(result: io::Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

#[test]
fn a_folder_that_others_write_to_is_refused() {
    for (mode, is_refused) in [
        (0o700, false),
        (0o755, false),
        (0o1777, false),
        (0o770, true),
        (0o702, true),
        (0o777, true),
    ] {
        let folder = Folder::new("ironfabric-mode", mode);
        let wanted = is_refused.then_some(ErrorKind::PermissionDenied);
        let listener = listen(&folder.name("socket"));
        assert_eq!(
            listener.as_ref().err().map(|e| e.kind()),
            wanted,
            "{mode:o}"
        );
        let connected = connect(&folder.name("socket"));
        assert_eq!(connected.err().map(|e| e.kind()), wanted, "{mode:o}");
        // The lock file was removed.
        let files = fs::read_dir(&folder.0).unwrap().count();
        assert_eq!(files, usize::from(!is_refused));
    }
}

#[test]
fn a_fifo_in_place_of_the_lock_is_an_error() {
    let folder = Folder::new("fifo", 0o700);
    let LocalName::Path(lock) = folder.name("socket.lock") else {
        panic!("no path");
    };
    nix::unistd::mkfifo(&lock, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(listen(&folder.name("socket")).is_err());
    // If the FIFO has a reader, it can be opened.
    let mut how = OpenOptions::new();
    let reader = how.read(true).custom_flags(libc::O_NONBLOCK);
    let _reader = reader.open(&lock).unwrap();
    let refused = kind(listen(&folder.name("socket")));
    assert_eq!(refused, Some(ErrorKind::PermissionDenied));
}

#[test]
fn a_folder_of_another_user_is_refused() {
    let folder = Folder::new("ironfabric-owner", 0o755);
    let link = std::env::temp_dir().join(format!("ironfabric-owner-link-{}", std::process::id()));
    std::os::unix::fs::symlink(&folder.0, &link).unwrap();
    let by_link = LocalName::Path(link.join("socket"));
    drop(listen(&by_link).unwrap());
    remove(&by_link);
    // Only root can change the owner of a file.
    if nix::unistd::geteuid().is_root() {
        std::os::unix::fs::lchown(&link, Some(12345), None).unwrap();
        assert_eq!(kind(listen(&by_link)), Some(ErrorKind::PermissionDenied));
        std::os::unix::fs::lchown(&folder.0, Some(12345), None).unwrap();
        let socket = folder.name("socket");
        assert_eq!(kind(listen(&socket)), Some(ErrorKind::PermissionDenied));
    }
    fs::remove_file(&link).unwrap();
}

#[test]
fn neither_links_nor_sockets_of_others_are_connected_to() {
    let folder = Folder::new("ironfabric-link", 0o755);
    let (socket, link) = (folder.name("socket"), folder.name("link"));
    let _listener = listen(&socket).unwrap();
    std::os::unix::fs::symlink(folder.0.join("socket"), folder.0.join("link")).unwrap();
    assert_eq!(kind(connect(&link)), Some(ErrorKind::PermissionDenied));
    connect(&socket).unwrap();
    if nix::unistd::geteuid().is_root() {
        std::os::unix::fs::lchown(folder.0.join("socket"), Some(12345), None).unwrap();
        assert_eq!(kind(connect(&socket)), Some(ErrorKind::PermissionDenied));
    }
}

/// Any process that can read a folder can lock it, so such a lock must have no effect.
#[test]
fn a_lock_on_the_folder_keeps_nobody_away() {
    let folder = Folder::new("ironfabric-lock", 0o755);
    let held = Flock::lock(
        File::open(&folder.0).unwrap(),
        FlockArg::LockExclusiveNonblock,
    );
    listen(&folder.name("socket")).unwrap();
    drop(held);
}

#[test]
fn names_that_cannot_be_are_errors() {
    for name in [
        LocalName::Abstract(vec![]),
        LocalName::Abstract(vec![b'x'; 200]),
        LocalName::Path("".into()),
        LocalName::Path("\0abstract".into()),
        LocalName::Path("x".repeat(200).into()),
    ] {
        assert!(listen(&name).is_err(), "{name:?}");
        assert!(connect(&name).is_err(), "{name:?}");
    }
}

#[test]
fn a_full_backlog_is_an_error_of_its_own() {
    let name = unique();
    let listener = listen(&name).unwrap();
    // The backlog is smaller than the usual limit on descriptors.
    listener.0.listen(2).unwrap();
    let mut waiting = Vec::new();
    let refused = loop {
        match connect(&name) {
            Ok(socket) => waiting.push(socket),
            Err(error) => break error,
        }
    };
    assert_eq!(refused.kind(), ErrorKind::WouldBlock);
    assert!(accept(&listener).unwrap().is_some());
    connect(&name).unwrap();
}

#[test]
fn the_other_side_is_known() {
    let (a, b) = pair();
    let me = Credentials {
        pid: std::process::id() as i32,
        uid: nix::unistd::geteuid().as_raw(),
    };
    assert_eq!(credentials(&a).unwrap(), me);
    assert_eq!(credentials(&b).unwrap(), me);
    for socket in [&a, &b] {
        assert_eq!(flags(socket), (true, true));
    }
}
