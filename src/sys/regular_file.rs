// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Files that are read whole. Opening a FIFO waits for a writer, and devices have no end, so both are refused.
#![forbid(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens a regular file for reading, without waiting.
pub fn open(path: &Path) -> io::Result<File> {
    let mut how = OpenOptions::new();
    let file = how.read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(ErrorKind::InvalidInput, NOT_REGULAR)),
    }
}

/// Returns the bytes of a regular file.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns true if something other than a regular file has this path. The loader would wait for the writer of a FIFO.
pub fn is_other(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| !found.is_file())
}

pub const NOT_REGULAR: &str = "it is no regular file";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_read() {
        let folder =
            std::env::temp_dir().join(format!("ironfabric-regular-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let (file, fifo) = (folder.join("file"), folder.join("fifo"));
        std::fs::write(&file, "x").unwrap();
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let read = [&file, &fifo, &folder].map(|path| read(path).map_err(|error| error.kind()));
        let other = [&file, &fifo, &folder].map(|path| is_other(path));
        std::fs::remove_dir_all(&folder).unwrap();
        let refused = || Err(ErrorKind::InvalidInput);
        assert_eq!(read, [Ok(b"x".to_vec()), refused(), refused()]);
        assert_eq!(other, [false, true, true]);
    }
}
