// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Checks whether a process may read the memory of another process of the same user and host (CMA):
//! process_vm_readv(2).
//!
//! Two children of this program try it, as two ranks of a job would; neither is the parent of the other, because the
//! kernel may allow a parent what it forbids to other processes.

use std::env;
use std::fs;
use std::io::{self, BufRead, BufReader, IoSliceMut, Read};
use std::process::{Child, Command, Stdio};

use nix::errno::Errno;
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

use super::Finding;
use calls::output;

pub fn findings() -> Vec<Finding> {
    let scope = fs::read_to_string(YAMA).ok();
    let scope = scope.map(|text| text.trim().to_owned());
    vec![finding(attempt(), scope.as_deref())]
}

fn finding(outcome: Result<(), String>, scope: Option<&str>) -> Finding {
    let Err(why) = outcome else {
        return Finding::fine(
            ABOUT,
            "processes of this user may read each other's memory (CMA)",
        );
    };
    let text = format!(
        "processes of this user may not read each other's memory (CMA): {why}; large messages go through a ring, which \
         takes longer"
    );
    let remedy = match scope {
        Some(scope) if scope != "0" => {
            format!("{YAMA} is {scope}: sysctl -w kernel.yama.ptrace_scope=0, or give the job CAP_SYS_PTRACE")
        }
        _ => "give a container CAP_SYS_PTRACE (docker run --cap-add=SYS_PTRACE), or a seccomp profile that has the \
              call"
        .to_owned(),
    };
    Finding::note(ABOUT, text, remedy)
}

/// Starts two children: one prints the address of its secret, the other reads the secret there.
fn attempt() -> Result<(), String> {
    let mut read = start(WAITS).map_err(|error| error.to_string())?;
    let outcome = tried(&mut read);
    end(&mut read);
    outcome
}

fn tried(read: &mut Child) -> Result<(), String> {
    let place = answer(read)?;
    let mut reads = start(&place).map_err(|error| error.to_string())?;
    let answered = answer(&mut reads);
    end(&mut reads);
    match answered?.as_str() {
        DONE => Ok(()),
        why => Err(why.to_owned()),
    }
}

fn start(part: &str) -> io::Result<Child> {
    Command::new(env::current_exe()?)
        .env(PART, part)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
}

/// Reads the line that a child writes.
fn answer(child: &mut Child) -> Result<String, String> {
    let mut line = String::new();
    if let Some(out) = child.stdout.as_mut() {
        let read = BufReader::new(out).read_line(&mut line);
        read.map_err(|error| error.to_string())?;
    }
    match line.trim_end() {
        "" => Err("the one that tried it has gone".to_owned()),
        line => Ok(line.to_owned()),
    }
}

fn end(child: &mut Child) {
    // The child may have ended by itself.
    let _ = child.kill();
    let _ = child.wait();
}

/// Returns the task of this process, if it is a child of `attempt`.
pub fn is_read() -> Option<String> {
    env::var(PART).ok()
}

/// Runs the task of a child: offer memory until the parent has ended, or read the other child's memory.
pub fn be_read(part: &str) {
    if part == WAITS {
        let secret = SECRET.to_vec();
        let place = format!("{} {}", std::process::id(), secret.as_ptr() as usize);
        output::print(|out| writeln!(out, "{place}"));
        // Ends with the parent, however the parent ends.
        let _ = io::stdin().read(&mut [0]);
        assert_eq!(secret, SECRET);
        return;
    }
    let answer = match read(part) {
        Ok(()) => DONE.to_owned(),
        Err(why) => why,
    };
    output::print(|out| writeln!(out, "{answer}"));
}

fn read(place: &str) -> Result<(), String> {
    let (pid, address) = place.split_once(' ').ok_or("no place")?;
    let pid = pid.parse().map_err(|_| "no process")?;
    let base = address.parse().map_err(|_| "no address")?;
    let mut found = [0; SECRET.len()];
    let remote = [RemoteIoVec {
        base,
        len: found.len(),
    }];
    let count = process_vm_readv(
        Pid::from_raw(pid),
        &mut [IoSliceMut::new(&mut found)],
        &remote,
    );
    match count {
        Ok(count) if found[..count] == *SECRET => Ok(()),
        Ok(_) => Err("other bytes were read".to_owned()),
        Err(Errno::EPERM) => Err("the kernel forbids it (EPERM)".to_owned()),
        Err(Errno::ENOSYS) => Err("the kernel does not have the call (ENOSYS)".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

const ABOUT: &str = "copies";
const YAMA: &str = "/proc/sys/kernel/yama/ptrace_scope";
const SECRET: &[u8] = b"read by process_vm_readv(2)";

/// Variable that is set for the children of `attempt`: the place of the other child's secret, or `WAITS`.
const PART: &str = "FI_INFO_COPY";
const WAITS: &str = "waits";
const DONE: &str = "done";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Kind;

    #[test]
    fn what_is_forbidden_is_no_fault_and_has_a_remedy() {
        assert_eq!(finding(Ok(()), Some("1")).kind, Kind::Fine);
        let found = finding(Err("EPERM".into()), Some("1"));
        assert_eq!(found.kind, Kind::Note);
        assert!(format!("{found:?}").contains("ptrace_scope is 1: sysctl"));
        let found = finding(Err("EPERM".into()), Some("0"));
        assert!(format!("{found:?}").contains("CAP_SYS_PTRACE"));
    }

    #[test]
    fn a_process_may_read_itself() {
        let secret = SECRET.to_vec();
        let place = |address: usize| format!("{} {address}", std::process::id());
        assert_eq!(read(&place(secret.as_ptr() as usize)), Ok(()));
        assert!(read(&place(8)).is_err());
        assert!(read("").is_err());
    }
}
