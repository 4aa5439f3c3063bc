// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Where log lines go: FI_LOG_LOCATION and FI_LOG_LOCATION_MODE of fabric(7).
#![forbid(unsafe_code)]

use core::ffi::{CStr, c_int};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process;
use std::time::{SystemTime, UNIX_EPOCH};

/// An open place for log lines.
#[derive(Debug)]
pub(super) enum Sink {
    Stderr,
    Stdout,
    File(File),
}

impl Sink {
    /// `location` as FI_LOG_LOCATION says it: a stream's name, a directory, or a file that does not exist yet.
    pub(super) fn open(location: &str, mode: u32) -> io::Result<Sink> {
        match location {
            "" | "stderr" => Ok(Sink::Stderr),
            "stdout" => Ok(Sink::Stdout),
            path if Path::new(path).is_dir() => {
                let name = format!("ofi_{}.log", process::id());
                create(&Path::new(path).join(name), mode)
            }
            path => create(Path::new(path), mode),
        }
    }

    /// Writes one line with one system call, so that lines of several processes do not mix.
    pub(super) fn write(
        &self,
        provider: &CStr,
        level: c_int,
        subsys: c_int,
        function: &CStr,
        line: c_int,
        message: &CStr,
    ) {
        let text = format_line(provider, level, subsys, function, line, message);
        // A log that cannot be written has nobody left to be told.
        let _ = match self {
            Sink::Stderr => io::stderr().write_all(&text),
            Sink::Stdout => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(&text).and_then(|()| stdout.flush())
            }
            Sink::File(file) => { file }.write_all(&text),
        };
    }
}

fn create(path: &Path, mode: u32) -> io::Result<Sink> {
    OpenOptions::new()
        .append(true)
        .create_new(true)
        .mode(mode)
        .open(path)
        .map(Sink::File)
}

/// `libfabric:PID:SECONDS::PROVIDER:SUBSYS:function():LINE<level> message`
fn format_line(
    provider: &CStr,
    level: c_int,
    subsys: c_int,
    function: &CStr,
    line: c_int,
    message: &CStr,
) -> Vec<u8> {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |time| time.as_secs());
    let mut text = format!("libfabric:{}:{seconds}::", process::id()).into_bytes();
    text.extend_from_slice(provider.to_bytes());
    text.push(b':');
    text.extend_from_slice(super::subsys_name(subsys).unwrap_or("Unknown").as_bytes());
    text.push(b':');
    text.extend_from_slice(function.to_bytes());
    text.extend_from_slice(
        format!(
            "():{line}<{}> ",
            super::level_name(level).unwrap_or("Unknown")
        )
        .as_bytes(),
    );
    text.extend_from_slice(message.to_bytes());
    if text.last() != Some(&b'\n') {
        text.push(b'\n');
    }
    text
}
