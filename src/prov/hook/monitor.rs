// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The hook `monitor`: calls and bytes by size in a file, for whoever reads it meanwhile: fi_hook(7),
//! fi_mon_sampler(1).
//!
//! The counts are in this process's memory. Now and then a flag in the file is looked at; if a reader has set it, the
//! counts are written, the flag is cleared, and counting begins anew. The file is read and written by system calls and
//! not mapped: whatever others do to it is an error here and no signal.

use core::sync::atomic::{AtomicU64, Ordering};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Mutex, PoisonError};

use nix::sys::statfs::{TMPFS_MAGIC, statfs};

use super::counts::Counts;
use super::records::{COUNTS, FINISHED, SIZE, WANTED};
use crate::abi::FI_CLASS_FABRIC;
use crate::base::log::{Source, Subsys, log_info, log_warn};
use crate::base::params::{Given, Kind};
use crate::base::{Error, Result};
use crate::ffi::wrap::{Call, Watch};
use crate::sys::user;

pub static SOURCE: Source = Source::new(c"ofi_hook_monitor");

pub const VARIABLES: [(&str, Kind, &str); 5] = [
    (
        "linger",
        Kind::Bool,
        "whether files stay when their fabric is closed (default: no)",
    ),
    (
        "tick_max",
        Kind::Int,
        "how many calls are counted between two looks whether somebody reads (default: 1024)",
    ),
    (
        "file_mode",
        Kind::Int,
        "permissions of the files; octal with a 0 in front (default: 0600)",
    ),
    (
        "dir_mode",
        Kind::Int,
        "permissions of the folders of a user and of a host; octal with a 0 in front (default: 01700)",
    ),
    (
        "basepath",
        Kind::Path,
        "where the folders of users are (default: /dev/shm/ofi)",
    ),
];

pub struct Monitor {
    hooked: &'static Source,
    counts: Counts,
    /// Calls since the last look.
    ticks: AtomicU64,
    tick_max: u64,
    linger: bool,
    /// Who has it writes.
    file: Mutex<File>,
    path: PathBuf,
}

impl Monitor {
    pub fn new(hooked: &'static Source) -> Result<Monitor> {
        let given = Given(&SOURCE);
        let mode = |name, default| given.int(name).map_or(default, |mode| mode as u32 & 0o7777);
        let (file_mode, dir_mode) = (mode("file_mode", 0o600), mode("dir_mode", 0o1700));
        let base = given.text("basepath").filter(|text| !text.is_empty());
        let base = PathBuf::from(base.unwrap_or_else(|| "/dev/shm/ofi".to_owned()));
        let made = folder(&base, dir_mode).and_then(|folder| create(&folder, hooked, file_mode));
        let (file, path) = made.map_err(|error| {
            log_warn!(hooked, Subsys::Core, "monitor: {}: {error}", base.display());
            Error::NODEV
        })?;
        if statfs(&path).is_ok_and(|system| system.filesystem_type() != TMPFS_MAGIC) {
            log_warn!(
                hooked,
                Subsys::Core,
                "monitor: {} is not on tmpfs, which makes each reading slow",
                path.display()
            );
        }
        log_info!(
            hooked,
            Subsys::Core,
            "monitor: counts are in {}",
            path.display()
        );
        Ok(Monitor {
            hooked,
            counts: Counts::new(),
            ticks: AtomicU64::new(0),
            tick_max: given.count("tick_max").unwrap_or(1024).max(1) as u64,
            linger: given.flag("linger").unwrap_or(false),
            file: Mutex::new(file),
            path,
        })
    }

    /// Writes the counts if somebody wants them, and begins anew.
    fn look(&self) -> io::Result<()> {
        // Another thread looks already.
        let Ok(file) = self.file.try_lock() else {
            return Ok(());
        };
        let flags = flags(&file)?;
        if flags & WANTED != 0 {
            file.write_all_at(&self.take(), 0)?;
            file.write_all_at(&[flags & !WANTED], COUNTS as u64)?;
        }
        Ok(())
    }

    /// The counts as the file has them. They are zero then.
    fn take(&self) -> Vec<u8> {
        let records = self.counts.records.iter();
        let words = records.flat_map(|record| record.counts.iter().chain(&record.sums));
        // Relaxed: see `Counts`.
        words
            .flat_map(|word| word.swap(0, Ordering::Relaxed).to_ne_bytes())
            .collect()
    }

    /// The last counts; those that nobody has read are in them.
    fn finish(&self) -> io::Result<()> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.linger {
            return fs::remove_file(&self.path);
        }
        let mut counts = self.take();
        // A flag that is not set means that the counts in the file have not been read.
        if flags(&file)? & WANTED == 0 {
            let mut before = vec![0; COUNTS];
            file.read_exact_at(&mut before, 0)?;
            let words = counts.chunks_exact_mut(8).zip(before.chunks_exact(8));
            for (word, before) in words {
                let number = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap_or([0; 8]));
                let sum = number(word).wrapping_add(number(before));
                word.copy_from_slice(&sum.to_ne_bytes());
            }
        }
        file.write_all_at(&counts, 0)?;
        file.write_all_at(&[FINISHED], COUNTS as u64)
    }

    fn complain(&self, result: io::Result<()>) {
        if let Err(error) = result {
            log_warn!(
                self.hooked,
                Subsys::Core,
                "monitor: {}: {error}",
                self.path.display()
            );
        }
    }
}

fn flags(file: &File) -> io::Result<u8> {
    let mut flags = [0];
    file.read_exact_at(&mut flags, COUNTS as u64)?;
    Ok(flags[0])
}

impl Watch for Monitor {
    fn after(&self, call: &Call<'_>, _before: u64, result: i64) {
        let counted = self.counts.note(call, result);
        // Relaxed: a number that stands for itself.
        let ticks = self.ticks.fetch_add(counted, Ordering::Relaxed) + counted;
        if ticks >= self.tick_max && counted > 0 {
            self.ticks.store(0, Ordering::Relaxed);
            self.complain(self.look());
        }
    }

    fn closed(&self, _object: usize, class: u32) {
        if class == FI_CLASS_FABRIC {
            self.complain(self.finish());
        }
    }
}

/// The folder of this user on this host, made if it is not there. Each user has one; the one of all is as /tmp is.
fn folder(base: &Path, mode: u32) -> io::Result<PathBuf> {
    make(base, 0o1777)?;
    let uid = user::effective_uid();
    let of_user = base.join(uid.to_string());
    make(&of_user, mode)?;
    // Somebody else may have made it before.
    let owner = fs::symlink_metadata(&of_user)?;
    if owner.uid() != uid || !owner.is_dir() {
        return Err(io::Error::other(format!(
            "{} belongs to another user",
            of_user.display()
        )));
    }
    let host = fs::read_to_string("/proc/sys/kernel/hostname")?;
    let of_host = of_user.join(host.trim());
    make(&of_host, mode)?;
    Ok(of_host)
}

fn make(folder: &Path, mode: u32) -> io::Result<()> {
    match DirBuilder::new().mode(mode).create(folder) {
        // The mask of the process does not count.
        Ok(()) => fs::set_permissions(folder, Permissions::from_mode(mode)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// A new file, with a name that no other fabric has: parent, process, a number, the job, the provider.
fn create(folder: &Path, hooked: &Source, mode: u32) -> io::Result<(File, PathBuf)> {
    static FABRICS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
    let mut names = FABRICS.lock().unwrap_or_else(PoisonError::into_inner);
    names.retain(|path| path.exists());
    let job = std::env::var("SLURM_JOB_ID").ok();
    let job = job.and_then(|job| job.parse::<u64>().ok()).unwrap_or(0);
    let provider = hooked.name().to_string_lossy();
    let mut number = 1;
    let path = loop {
        let name = format!(
            "{}_{}_{number}_{job}_{provider}",
            parent_id(),
            process::id()
        );
        let path = folder.join(name);
        if !names.contains(&path) {
            break path;
        }
        number += 1;
    };
    // What is left of a process that had our number is nobody's.
    let _ = fs::remove_file(&path);
    let mut how = OpenOptions::new();
    let file = how
        .read(true)
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(&path)?;
    file.set_permissions(Permissions::from_mode(mode))?;
    file.write_all_at(&[0; SIZE], 0)?;
    names.push(path.clone());
    Ok((file, path))
}
