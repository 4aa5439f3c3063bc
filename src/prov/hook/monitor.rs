// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The hook `monitor`: writes calls and bytes by size to a file, for readers such as fi_mon_sampler(1): fi_hook(7).
//!
//! The counts are in this process's memory. From time to time the hook checks a flag in the file. If a reader has set
//! it, the hook writes the counts, clears the flag, and starts to count again from zero. It uses system calls and no
//! mapping, so that changes to the file by others cause an error and no signal.

use core::sync::atomic::{AtomicU64, Ordering};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Mutex, PoisonError};

use nix::sys::statfs::{TMPFS_MAGIC, statfs};

use super::counts::Counts;
use abi::FI_CLASS_FABRIC;
use base::log::{Source, Subsys, log_info, log_warn};
use base::params::{Given, Kind};
use base::{Error, Result};
use client::wrap::{Call, Watch};
use sync::monitor::{COUNTS, FINISHED, SIZE, WANTED};
use sys::folder::Folder;
use sys::user;

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
    /// Calls since the last check.
    ticks: AtomicU64,
    tick_max: u64,
    linger: bool,
    /// The thread that holds the lock may write.
    file: Mutex<File>,
    folder: Folder,
    name: String,
    path: PathBuf,
}

impl Monitor {
    pub fn new(hooked: &'static Source) -> Result<Monitor> {
        let given = Given(&SOURCE);
        let mode = |name, default| given.int(name).map_or(default, |mode| mode as u32 & 0o7777);
        let (file_mode, dir_mode) = (mode("file_mode", 0o600), mode("dir_mode", 0o1700));
        let base = given.text("basepath").filter(|text| !text.is_empty());
        let made = folder(base.as_deref(), dir_mode).and_then(|folder| {
            let (file, name) = create(&folder, hooked, file_mode)?;
            Ok((folder, file, name))
        });
        let (folder, file, name) = made.map_err(|error| {
            let base = base.as_deref().unwrap_or(BASE);
            log_warn!(hooked, Subsys::Core, "monitor: {base}: {error}");
            Error::NODEV
        })?;
        let path = folder.path().join(&name);
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
            folder,
            name,
            path,
        })
    }

    /// Writes the counts if a reader has requested them, and starts again from zero.
    fn look(&self) -> io::Result<()> {
        // Another thread is already checking.
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

    /// Returns the counts in the format of the file and sets them to zero.
    fn take(&self) -> Vec<u8> {
        let records = self.counts.records.iter();
        let words = records.flat_map(|record| record.counts.iter().chain(&record.sums));
        // Relaxed: see `Counts`.
        words
            .flat_map(|word| word.swap(0, Ordering::Relaxed).to_ne_bytes())
            .collect()
    }

    /// Writes the last counts, including those that no reader has read.
    fn finish(&self) -> io::Result<()> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.linger {
            return self.folder.remove(&self.name);
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
        // Relaxed: the counter is independent of other memory.
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

/// Opens the folder of this user on this host, and creates it if necessary. The folders of all users are in one folder
/// with the mode of /tmp.
fn folder(base: Option<&str>, mode: u32) -> io::Result<Folder> {
    let uid = user::effective_uid();
    let of_user = base_folder(base, uid)?.subfolder(&uid.to_string(), mode)?;
    // Another user may have created it before.
    if of_user.owner()? != uid {
        return Err(belongs_to_other(of_user.path()));
    }
    let host = fs::read_to_string("/proc/sys/kernel/hostname")?;
    of_user.subfolder(host.trim(), mode)
}

/// Opens the folder of all users. Its owner can replace its content, so it must belong to root or to this user. If
/// another user has created the default folder, this user gets a separate one.
fn base_folder(base: Option<&str>, uid: u32) -> io::Result<Folder> {
    let is_safe = |folder: &Folder| folder.owner().map(|owner| owner == uid || owner == ROOT);
    let folder = Folder::at(Path::new(base.unwrap_or(BASE)), BASE_MODE)?;
    if is_safe(&folder)? {
        return Ok(folder);
    }
    if base.is_some() {
        return Err(belongs_to_other(folder.path()));
    }
    let folder = Folder::at(Path::new(&format!("{BASE}-{uid}")), BASE_MODE)?;
    match is_safe(&folder)? {
        true => Ok(folder),
        false => Err(belongs_to_other(folder.path())),
    }
}

fn belongs_to_other(folder: &Path) -> io::Error {
    io::Error::other(format!("{} belongs to another user", folder.display()))
}

const BASE: &str = "/dev/shm/ofi";
const BASE_MODE: u32 = 0o1777;
const ROOT: u32 = 0;

/// Creates a file with a unique name: parent, process, a number, the job, the provider.
fn create(folder: &Folder, hooked: &Source, mode: u32) -> io::Result<(File, String)> {
    static FABRICS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
    let mut names = FABRICS.lock().unwrap_or_else(PoisonError::into_inner);
    names.retain(|path| path.exists());
    let job = std::env::var("SLURM_JOB_ID").ok();
    let job = job.and_then(|job| job.parse::<u64>().ok()).unwrap_or(0);
    let provider = hooked.name().to_string_lossy();
    let mut number = 1;
    let (name, path) = loop {
        let name = format!(
            "{}_{}_{number}_{job}_{provider}",
            parent_id(),
            process::id()
        );
        let path = folder.path().join(&name);
        if !names.contains(&path) {
            break (name, path);
        }
        number += 1;
    };
    let file = folder.create(&name, mode)?;
    file.write_all_at(&[0; SIZE], 0)?;
    names.push(path);
    Ok((file, name))
}
