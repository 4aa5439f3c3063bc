// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A file that processes of one user find by its name, for as long as one of them has it open.
//!
//! It lies in memory (/dev/shm) if that exists, otherwise among the temporary files. It is accessed by system calls
//! instead of a mapping, so that whatever another process does to it causes an error and no signal.
#![forbid(unsafe_code)]

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::{FcntlArg, fcntl};

use super::limits::check_file_size;
use super::retry::retry;
use super::user::{is_elevated, is_ours};

pub struct SharedFile {
    /// Has a shared lock: a process that gets the exclusive lock has shown that no other process has the file open. The
    /// kernel releases the locks of killed processes.
    file: File,
    path: PathBuf,
}

impl SharedFile {
    /// Opens the file; `name` has no slashes. The content of a file that no process has open is void: if `start` is
    /// given, the file is made anew with that content, otherwise it is removed and the result is `NotFound`.
    pub fn open(name: &str, start: Option<&[u8]>) -> io::Result<SharedFile> {
        let path = folder().join(name);
        loop {
            let mut how = OpenOptions::new();
            how.read(true).write(true).create(start.is_some());
            how.mode(0o600).custom_flags(libc::O_NOFOLLOW);
            let file = how.open(&path)?;
            check_owner(&file)?;
            match file.try_lock() {
                Ok(()) => match start {
                    Some(start) => {
                        check_file_size(start.len() as u64)?;
                        file.set_len(0)?;
                        file.write_all_at(start, 0)?;
                        file.unlock()?;
                    }
                    None => {
                        remove(&file, &path);
                        return Err(ErrorKind::NotFound.into());
                    }
                },
                Err(TryLockError::WouldBlock) => {}
                Err(TryLockError::Error(error)) => return Err(error),
            }
            retry(|| file.lock_shared())?;
            // The last process that had the file open may have removed it meanwhile.
            if names(&path, &file) {
                return Ok(SharedFile { file, path });
            }
        }
    }

    pub fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(bytes, offset)
    }

    pub fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        check_file_size(offset.saturating_add(bytes.len() as u64))?;
        self.file.write_all_at(bytes, offset)
    }

    /// Keeps other openers from taking this lock until `unlock` or the end of the process.
    pub fn lock(&self) -> io::Result<()> {
        // An open-file-description lock, separate from the one that shows whether a process has the file open.
        retry(|| {
            let wait = FcntlArg::F_OFD_SETLKW(&lock(libc::F_WRLCK));
            Ok(fcntl(self.file.as_fd(), wait).map(drop)?)
        })
    }

    pub fn unlock(&self) {
        // Fails if the lock is not held.
        let _ = fcntl(
            self.file.as_fd(),
            FcntlArg::F_OFD_SETLK(&lock(libc::F_UNLCK)),
        );
    }
}

impl Drop for SharedFile {
    fn drop(&mut self) {
        if self.file.unlock().is_ok() && self.file.try_lock().is_ok() {
            remove(&self.file, &self.path);
        }
    }
}

/// Returns a request for a lock on the whole file.
fn lock(kind: libc::c_int) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    }
}

fn folder() -> PathBuf {
    let memory = Path::new("/dev/shm");
    match memory.is_dir() {
        true => memory.into(),
        // The path comes from the environment, which a program with more rights than its user must not trust.
        false if is_elevated() => "/tmp".into(),
        false => std::env::temp_dir(),
    }
}

/// Checks that this user owns the file. In a folder that all users can write to, another user may have made a file of
/// this name.
fn check_owner(file: &File) -> io::Result<()> {
    let meta = file.metadata()?;
    let ours = is_ours(meta.uid());
    match ours && meta.is_file() && meta.mode() & 0o077 == 0 {
        true => Ok(()),
        false => Err(ErrorKind::PermissionDenied.into()),
    }
}

fn names(path: &Path, file: &File) -> bool {
    let (Ok(there), Ok(here)) = (fs::symlink_metadata(path), file.metadata()) else {
        return false;
    };
    (there.dev(), there.ino()) == (here.dev(), here.ino())
}

/// Removes the file. The caller holds the exclusive lock.
fn remove(file: &File, path: &Path) {
    if names(path, file) {
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::retry::interrupt;

    fn unique(what: &str) -> String {
        format!("ironfabric-test-{what}-{}", std::process::id())
    }

    fn content(file: &SharedFile) -> [u8; 4] {
        let mut bytes = [0; 4];
        file.read_at(&mut bytes, 0).unwrap();
        bytes
    }

    #[test]
    fn it_is_there_while_somebody_has_it_open() {
        let name = unique("life");
        let absent = |name: &str| SharedFile::open(name, None).err().map(|e| e.kind());
        assert_eq!(absent(&name), Some(ErrorKind::NotFound));
        let first = SharedFile::open(&name, Some(b"abcd")).unwrap();
        first.write_at(b"B", 1).unwrap();
        let second = SharedFile::open(&name, Some(b"abcd")).unwrap();
        let third = SharedFile::open(&name, None).unwrap();
        drop((first, second));
        assert_eq!(content(&third), *b"aBcd");
        drop(third);
        assert_eq!(absent(&name), Some(ErrorKind::NotFound));
        assert!(!folder().join(&name).exists());
    }

    /// A killed process leaves a file that no process has open.
    #[test]
    fn what_is_left_over_is_made_anew_or_removed() {
        let name = unique("left");
        let path = folder().join(&name);
        let leave = || {
            let mut how = OpenOptions::new();
            how.write(true).create(true).truncate(true).mode(0o600);
            how.open(&path)
                .unwrap()
                .write_all_at(b"old content", 0)
                .unwrap();
        };
        leave();
        assert!(SharedFile::open(&name, None).is_err());
        assert!(!path.exists());
        leave();
        let file = SharedFile::open(&name, Some(b"news")).unwrap();
        assert_eq!(content(&file), *b"news");
        assert_eq!(fs::metadata(&path).unwrap().len(), 4);
    }

    #[test]
    fn neither_links_nor_files_that_others_may_write_are_opened() {
        let (target, name) = (unique("target"), unique("link"));
        let (target_path, path) = (folder().join(&target), folder().join(&name));
        let mut how = OpenOptions::new();
        how.write(true).create(true).truncate(true);
        how.open(&target_path)
            .unwrap()
            .write_all_at(b"secret", 0)
            .unwrap();
        let open = fs::Permissions::from_mode(0o666);
        fs::set_permissions(&target_path, open).unwrap();
        std::os::unix::fs::symlink(&target_path, &path).unwrap();
        assert!(SharedFile::open(&name, Some(b"mine")).is_err());
        let refused = SharedFile::open(&target, Some(b"mine")).err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::PermissionDenied);
        assert_eq!(fs::read(&target_path).unwrap(), b"secret");
        fs::remove_file(&path).unwrap();
        fs::remove_file(&target_path).unwrap();
    }

    /// Another process has the exclusive lock for a moment, because it has just made or is about to remove the file.
    #[test]
    fn signals_do_not_end_the_wait_for_either_lock() {
        let name = unique("signal");
        let mut how = OpenOptions::new();
        how.write(true).create(true).truncate(true).mode(0o600);
        let other = how.open(folder().join(&name)).unwrap();
        other.lock().unwrap();
        let opened = interrupt(|| SharedFile::open(&name, None), || other.unlock().unwrap());
        let first = opened.unwrap();
        let second = SharedFile::open(&name, None).unwrap();
        first.lock().unwrap();
        interrupt(|| second.lock(), || first.unlock()).unwrap();
    }

    #[test]
    fn one_at_a_time() {
        let name = unique("lock");
        let file = SharedFile::open(&name, Some(&[0; 4])).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let own = SharedFile::open(&name, None).unwrap();
                    for _ in 0..200 {
                        own.lock().unwrap();
                        let n = u32::from_ne_bytes(content(&own));
                        own.write_at(&(n + 1).to_ne_bytes(), 0).unwrap();
                        own.unlock();
                    }
                });
            }
        });
        assert_eq!(u32::from_ne_bytes(content(&file)), 800);
    }
}
