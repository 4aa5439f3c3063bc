// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Folders below a place that other users can write to. Everything in a folder is reached through its descriptor, and
//! no symbolic link is followed, so an attacker gains nothing by replacing a folder of the path.
#![forbid(unsafe_code)]

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};

/// An open folder.
#[derive(Debug)]
pub struct Folder {
    file: File,
    /// For error messages.
    path: PathBuf,
}

impl Folder {
    /// Opens the folder, and makes it with this mode if it does not exist.
    pub fn at(path: &Path, mode: u32) -> io::Result<Folder> {
        let made = match DirBuilder::new().mode(mode).create(path) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(error),
        };
        let opened = open(path, OPEN, Mode::empty());
        Folder::opened(opened, path.to_owned(), made.then_some(mode))
    }

    /// Opens a folder in this one, and makes it with this mode if it does not exist. `name` has no slashes.
    pub fn subfolder(&self, name: &str, mode: u32) -> io::Result<Folder> {
        let made = match mkdirat(&self.file, name, bits(mode)) {
            Ok(()) => true,
            Err(Errno::EEXIST) => false,
            Err(error) => return Err(error.into()),
        };
        let opened = openat(&self.file, name, OPEN, Mode::empty());
        Folder::opened(opened, self.path.join(name), made.then_some(mode))
    }

    /// Wraps an opened folder. A new one gets `new_mode` exactly, whatever the umask of the process is.
    fn opened(
        opened: nix::Result<OwnedFd>,
        path: PathBuf,
        new_mode: Option<u32>,
    ) -> io::Result<Folder> {
        let file = match opened {
            Ok(fd) => File::from(fd),
            Err(Errno::ELOOP | Errno::ENOTDIR) => {
                let why = format!("{} is no folder, or a symbolic link", path.display());
                return Err(io::Error::new(io::ErrorKind::NotADirectory, why));
            }
            Err(error) => return Err(error.into()),
        };
        if let Some(mode) = new_mode {
            file.set_permissions(fs::Permissions::from_mode(mode))?;
        }
        Ok(Folder { file, path })
    }

    pub fn owner(&self) -> io::Result<u32> {
        Ok(self.file.metadata()?.uid())
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes a new file and replaces one that an ended process has left behind.
    pub fn create(&self, name: &str, mode: u32) -> io::Result<File> {
        // In most cases no such file exists.
        let _ = self.remove(name);
        let how = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
        let file = File::from(openat(&self.file, name, how, bits(mode))?);
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        Ok(file)
    }

    pub fn remove(&self, name: &str) -> io::Result<()> {
        Ok(unlinkat(&self.file, name, UnlinkatFlags::NoRemoveDir)?)
    }
}

fn bits(mode: u32) -> Mode {
    Mode::from_bits_truncate(mode)
}

const OPEN: OFlag = OFlag::O_RDONLY
    .union(OFlag::O_DIRECTORY)
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC);

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::symlink;

    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("ironfabric-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        path
    }

    #[test]
    fn modes_do_not_depend_on_the_mask() {
        let scratch = scratch("folder-modes");
        let base = Folder::at(&scratch.join("base"), 0o1777).unwrap();
        base.subfolder("own", 0o1700).unwrap();
        let mode = |name: &str| {
            let found = fs::metadata(scratch.join(name)).unwrap();
            found.permissions().mode() & 0o7777
        };
        let modes = (mode("base"), mode("base/own"));
        fs::remove_dir_all(&scratch).unwrap();
        assert_eq!(modes, (0o1777, 0o1700));
    }

    #[test]
    fn symbolic_links_are_refused() {
        let scratch = scratch("folder-links");
        fs::create_dir(scratch.join("elsewhere")).unwrap();
        symlink(scratch.join("elsewhere"), scratch.join("link")).unwrap();
        let base = Folder::at(&scratch, 0o700).unwrap();
        let refused = [
            base.subfolder("link", 0o700).unwrap_err(),
            Folder::at(&scratch.join("link"), 0o700).unwrap_err(),
        ];
        fs::remove_dir_all(&scratch).unwrap();
        for error in refused {
            assert!(error.to_string().contains("symbolic link"), "{error}");
        }
    }

    #[test]
    fn a_folder_that_was_replaced_is_still_the_one_that_was_opened() {
        let scratch = scratch("folder-replaced");
        let folder = Folder::at(&scratch.join("own"), 0o700).unwrap();
        fs::rename(scratch.join("own"), scratch.join("moved")).unwrap();
        symlink(&scratch, scratch.join("own")).unwrap();
        fs::write(scratch.join("precious"), "x").unwrap();
        fs::write(scratch.join("moved/precious"), "old").unwrap();
        let mut file = folder.create("precious", 0o600).unwrap();
        file.write_all(b"new").unwrap();
        let read = |name: &str| fs::read_to_string(scratch.join(name)).unwrap();
        let found = (read("precious"), read("moved/precious"));
        folder.remove("precious").unwrap();
        let left = fs::read_dir(scratch.join("moved")).unwrap().count();
        fs::remove_dir_all(&scratch).unwrap();
        assert_eq!((found.0.as_str(), found.1.as_str(), left), ("x", "new", 0));
    }
}
