// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Finds the counters of processes among their open files, in /proc.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

use crate::block::{self, Process, Words};
use crate::options::{Mode, Options};
use sync::stats::layout::{NAME, SIZE, head};

/// A process that has counters.
#[derive(Clone, Debug)]
pub struct Found {
    /// The PID in this program's namespace.
    pub pid: u32,
    /// The rank in its MPI job, from the variables that its starter sets.
    pub rank: Option<String>,
    pub command: String,
    pub process: Process,
}

/// Keeps the opened memory of each process, so that a process is searched once.
pub struct Watcher {
    pid: Option<u32>,
    all: bool,
    /// By PID and start time.
    known: HashMap<(u32, u64), Known>,
    looks: u32,
}

struct Known {
    /// `None` for a process without counters.
    memory: Option<Memory>,
    rank: Option<String>,
    /// A process without counters is searched again in this look or a later one.
    again: u32,
}

struct Memory {
    file: File,
    writable: bool,
    /// The descriptor in /proc through which the memory was found, and the inode of the memory.
    path: PathBuf,
    inode: (u64, u64),
}

/// Variables with the rank of a process, of PMIx, PMI, Open MPI, MVAPICH, PALS, Flux and Slurm.
const RANKS: [&str; 7] = [
    "PMIX_RANK",
    "PMI_RANK",
    "OMPI_COMM_WORLD_RANK",
    "MV2_COMM_WORLD_RANK",
    "PALS_RANKID",
    "FLUX_TASK_RANK",
    "SLURM_PROCID",
];

/// Reads the rank from the environment with which the process was started: proc_pid_environ(5).
fn rank_of(pid: u32) -> Option<String> {
    let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
    rank_in(&String::from_utf8_lossy(&environment))
}

fn rank_in(environment: &str) -> Option<String> {
    let value = |name: &&str| {
        let mut all = environment.split('\0');
        all.find_map(|pair| pair.strip_prefix(*name)?.strip_prefix('='))
    };
    let rank = RANKS.iter().find_map(value)?;
    let is_number = !rank.is_empty() && rank.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| rank.to_owned())
}

/// Number of looks between two searches of a process without counters.
const RARELY: u32 = 10;

impl Watcher {
    pub fn new(options: &Options) -> Watcher {
        let pid = match options.mode {
            Mode::Dump(pid) => Some(pid),
            _ => options.pid,
        };
        Watcher {
            pid,
            all: options.all || pid.is_some(),
            known: HashMap::new(),
            looks: 0,
        }
    }

    /// Returns all processes that can be read now.
    pub fn look(&mut self) -> Vec<Found> {
        self.looks = self.looks.wrapping_add(1);
        let mut alive = HashMap::new();
        let mut found = Vec::new();
        for pid in self.pids() {
            let Some(stat) = Stat::of(pid) else {
                continue;
            };
            let key = (pid, stat.started);
            let mut known = self.known.remove(&key).unwrap_or(Known {
                memory: None,
                rank: None,
                again: self.looks,
            });
            let mut process = known.read(self.looks);
            if process.is_none() && known.is_due(self.looks) {
                known = Known {
                    memory: search(pid, stat.started),
                    rank: rank_of(pid),
                    again: self.looks.wrapping_add(RARELY),
                };
                process = known.read(self.looks);
            }
            found.extend(process.map(|process| Found {
                pid,
                rank: known.rank.clone(),
                command: stat.command,
                process,
            }));
            alive.insert(key, known);
        }
        self.known = alive;
        found
    }

    /// Requests current gauges from all processes. Those that poll answer.
    pub fn ask(&self) {
        self.write(head::ASKED_GAUGES);
    }

    /// Requests a dump from all processes.
    pub fn ask_dump(&self) {
        self.write(head::ASKED_DUMP);
    }

    fn write(&self, word: usize) {
        let memories = self
            .known
            .values()
            .filter_map(|known| known.memory.as_ref());
        for memory in memories.filter(|memory| memory.writable) {
            let (mut bytes, at) = ([0; 8], 8 * word as u64);
            if memory.file.read_exact_at(&mut bytes, at).is_ok() {
                let next = u64::from_ne_bytes(bytes).wrapping_add(1).max(1);
                // Fails if the process has just ended.
                let _ = memory.file.write_all_at(&next.to_ne_bytes(), at);
            }
        }
    }

    fn pids(&self) -> Vec<u32> {
        if let Some(pid) = self.pid {
            return vec![pid];
        }
        let own = nix::unistd::geteuid().as_raw();
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            let uid = entry.metadata().ok()?.uid();
            (self.all || uid == own).then_some(pid)
        });
        let mut pids: Vec<u32> = pids.collect();
        pids.sort_unstable();
        pids
    }
}

impl Known {
    /// Reads the counters. If they cannot be read any more, the process is to be searched again in this look.
    fn read(&mut self, look: u32) -> Option<Process> {
        let memory = self.memory.take()?;
        match read(&memory) {
            Ok(process) if memory.is_held() => {
                self.memory = Some(memory);
                Some(process)
            }
            _ => {
                self.again = look;
                None
            }
        }
    }

    /// Returns true if the process is to be searched again in this look. The numbers of looks wrap around.
    fn is_due(&self, look: u32) -> bool {
        self.memory.is_none() && look.wrapping_sub(self.again).cast_signed() >= 0
    }
}

impl Memory {
    /// Returns true if the process still has the memory open. A process that calls execve(2) loses its memory, but
    /// keeps its PID and start time.
    fn is_held(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|meta| (meta.dev(), meta.ino()) == self.inode)
    }
}

/// Values of a process from proc_pid_stat(5).
struct Stat {
    command: String,
    started: u64,
}

impl Stat {
    fn of(pid: u32) -> Option<Stat> {
        Stat::parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(stat: &[u8]) -> Option<Stat> {
        let stat = String::from_utf8_lossy(stat);
        // The name of the command may contain any characters.
        let (before, fields) = stat.rsplit_once(')')?;
        let (_, command) = before.split_once('(')?;
        let printed = |c: char| {
            if c.is_ascii_graphic() || c == ' ' {
                c
            } else {
                '?'
            }
        };
        Some(Stat {
            command: command.chars().map(printed).collect(),
            started: fields.split_whitespace().nth(19)?.parse().ok()?,
        })
    }
}

/// Finds the memory that this process has made itself. Memory that it inherited from its parent does not count.
fn search(pid: u32, started: u64) -> Option<Memory> {
    let wanted = PathBuf::from(format!("/memfd:{NAME} (deleted)"));
    let files = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
    let named =
        files.filter(|file| fs::read_link(file.path()).is_ok_and(|target| target == wanted));
    let mut opened = named.filter_map(|file| open(&file.path()).ok());
    opened.find(|memory| {
        let process = read(memory);
        process.is_ok_and(|process| process.started == started && is_called(pid, process.pid))
    })
}

/// Returns true if the process has the PID `own` in its own namespace.
fn is_called(pid: u32, own: u64) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    match numbers.and_then(|numbers| numbers.split_whitespace().last()) {
        Some(last) => last.parse() == Ok(own),
        None => u64::from(pid) == own,
    }
}

/// Opens without blocking, because the descriptor may have become another file meanwhile.
fn open(path: &Path) -> io::Result<Memory> {
    let how = |writes: bool| {
        let mut how = OpenOptions::new();
        how.read(true)
            .write(writes)
            .custom_flags(OFlag::O_NONBLOCK.bits());
        how.open(path)
    };
    let (file, writable) = match how(true) {
        Ok(file) => (file, true),
        Err(_) => (how(false)?, false),
    };
    let meta = file.metadata()?;
    match meta.is_file() && meta.len() == SIZE as u64 {
        true => Ok(Memory {
            file,
            writable,
            path: path.to_owned(),
            inode: (meta.dev(), meta.ino()),
        }),
        false => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn read(memory: &Memory) -> io::Result<Process> {
    let copy = || -> io::Result<Words> {
        let mut bytes = vec![0; SIZE];
        memory.file.read_exact_at(&mut bytes, 0)?;
        block::words(&bytes).map_err(|fault| io::Error::other(fault.to_string()))
    };
    Ok(block::read(&[copy()?, copy()?, copy()?]))
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::io::Write;

    use nix::sys::memfd::{MFdFlags, memfd_create};

    use super::*;
    use sync::stats::layout::{MAGIC, VERSION};

    /// Makes a block of this process as the library does, with a number to recognize it by.
    fn block(number: u64) -> File {
        let own = std::process::id();
        let mut words = vec![0; SIZE / 8];
        words[head::MAGIC] = MAGIC;
        words[head::VERSION] = VERSION;
        words[head::PID] = u64::from(own);
        words[head::STARTED] = Stat::of(own).unwrap().started;
        words[head::UNCOUNTED] = number;
        let name = CString::new(NAME).unwrap();
        let mut file = File::from(memfd_create(name.as_c_str(), MFdFlags::MFD_CLOEXEC).unwrap());
        let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
        file.write_all(&bytes).unwrap();
        file
    }

    #[test]
    fn a_block_that_replaces_another_one_is_found() {
        let mut watcher = Watcher {
            pid: Some(std::process::id()),
            all: true,
            known: HashMap::new(),
            looks: u32::MAX - 1,
        };
        let mut look = || {
            let found = watcher.look();
            found.first().map(|found| found.process.uncounted)
        };
        let first = block(1);
        for _ in 0..2 * RARELY {
            assert_eq!(look(), Some(1));
        }
        // The file stays open in the watcher, as after execve(2).
        let second = block(2);
        drop(first);
        for _ in 0..2 * RARELY {
            assert_eq!(look(), Some(2));
        }
        second.set_len(0).unwrap();
        assert_eq!(look(), None);
        let _third = block(3);
        let later = (0..=RARELY).find_map(|_| look());
        assert_eq!(later, Some(3));
    }

    #[test]
    fn the_name_of_a_program_may_have_anything_in_it() {
        let fields = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 777 20";
        let stat = Stat::parse(format!("12 (a) b (\x1b[2J) {fields}\n").as_bytes()).unwrap();
        assert_eq!((stat.command.as_str(), stat.started), ("a) b (?[2J", 777));
        assert!(Stat::parse(b"12 (a").is_none() && Stat::parse(b"").is_none());
    }

    #[test]
    fn this_process_is_called_as_it_calls_itself() {
        let own = std::process::id();
        assert!(is_called(own, u64::from(own)));
        assert!(!is_called(own, u64::from(own) + 1));
    }

    #[test]
    fn files_that_are_no_counters_are_not_opened() {
        assert!(open(Path::new("/dev/null")).is_err());
        assert!(open(Path::new("/proc/self/stat")).is_err());
        assert!(open(Path::new("/nowhere")).is_err());
    }
}
