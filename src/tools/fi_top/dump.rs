// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Requests a dump of the pending operations of a process, and prints it.

use std::fs::{self, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::find::{Found, Watcher};
use crate::options::Options;
use base::escape;

/// Time for a process to answer: it may have to wait for a lock.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(10);
/// Limit on the bytes of a dump that are printed.
const LONGEST: u64 = 64 << 20;

pub fn run(pid: u32, options: &Options) -> io::Result<ExitCode> {
    let mut watcher = Watcher::new(options);
    let Some(found) = watcher.look().pop() else {
        eprintln!(
            "fi_top: process {pid} has no counters that can be read: it uses no endpoint of this library, has \
             FI_STATS=0, or is another user's"
        );
        return Ok(ExitCode::FAILURE);
    };
    ask(&watcher, &found)?;
    let end = Instant::now() + PATIENCE;
    let name = loop {
        sleep(PAUSE);
        match watcher.look().pop() {
            Some(now) if now.process.dumps != found.process.dumps => break now.process.dump,
            Some(_) if Instant::now() < end => {}
            Some(_) => return Ok(unanswered(&found)),
            None => return Err(io::Error::other(format!("process {pid} has ended"))),
        }
    };
    if name.is_empty() {
        println!("written to the log of process {pid} (FI_DUMP_FILE=log)");
        return Ok(ExitCode::SUCCESS);
    }
    if !name.starts_with('/') {
        let why = escape::line(&name);
        eprintln!("fi_top: process {pid} cannot write its dump (FI_DUMP_FILE): {why}");
        return Ok(ExitCode::FAILURE);
    }
    let name = name + if options.json { ".json" } else { ".txt" };
    let text = read(pid, &name).map_err(|error| {
        let name = escape::line(&name);
        io::Error::new(error.kind(), format!("the dump {name}: {error}"))
    })?;
    // The text is from another process, which may have another user.
    io::stdout().write_all(escape::lines(&text).as_bytes())?;
    if !options.json {
        eprintln!("fi_top: this is {name}");
    }
    Ok(ExitCode::SUCCESS)
}

/// Requests a dump by the signal that the process has installed, or else by a word that it checks when it polls.
fn ask(watcher: &Watcher, found: &Found) -> io::Result<()> {
    let signal = i32::try_from(found.process.signal)
        .ok()
        .filter(|&signal| signal > 0);
    match signal.map(Signal::try_from) {
        Some(Ok(signal)) => Ok(kill(Pid::from_raw(found.pid.cast_signed()), signal)?),
        _ => {
            watcher.ask_dump();
            Ok(())
        }
    }
}

fn unanswered(found: &Found) -> ExitCode {
    eprintln!(
        "fi_top: process {} does not answer: it makes no calls of the library, or sleeps in one. Started with \
         FI_DUMP_ON_SIGNAL=USR2 it would answer.",
        found.pid
    );
    ExitCode::FAILURE
}

/// Reads the file through the process's root directory, which may differ from this one. The process chose the name, so
/// the file is refused unless the owner of the process owns it.
fn read(pid: u32, name: &str) -> io::Result<Vec<u8>> {
    let root = PathBuf::from(format!("/proc/{pid}/root"));
    let path = root.join(Path::new(name).strip_prefix("/").unwrap_or(Path::new(name)));
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(OFlag::O_NOFOLLOW.bits() | OFlag::O_NONBLOCK.bits())
        .open(&path)?;
    let meta = file.metadata()?;
    let owner = fs::metadata(format!("/proc/{pid}"))?.uid();
    if !meta.is_file() || meta.uid() != owner {
        return Err(io::Error::other(format!(
            "{name} is no file of process {pid}"
        )));
    }
    let mut text = Vec::new();
    file.take(LONGEST).read_to_end(&mut text)?;
    Ok(text)
}
