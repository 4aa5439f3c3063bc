// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Writes log lines to their destination: FI_LOG_LOCATION and FI_LOG_LOCATION_MODE of fabric(7).
#![forbid(unsafe_code)]

use core::ffi::{CStr, c_int};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::escape;
use sys::limits::check_file_size;

/// An open destination for log lines.
#[derive(Debug)]
pub(super) enum Sink {
    Stderr,
    Stdout,
    File(File),
}

impl Sink {
    /// Opens a value of FI_LOG_LOCATION: a stream's name, a directory, or a file that does not exist yet.
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
        // An error is ignored, because there is no other place to report it.
        let _ = match self {
            Sink::Stderr => io::stderr().write_all(&text),
            Sink::Stdout => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(&text).and_then(|()| stdout.flush())
            }
            Sink::File(file) => append(file, &text),
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

/// Appends the text, unless that would exceed the limit on file sizes: a log must not end the process.
fn append(mut file: &File, text: &[u8]) -> io::Result<()> {
    check_file_size(file.metadata()?.len() + text.len() as u64)?;
    file.write_all(text)
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
    text.extend_from_slice(&escape::line_of_bytes(provider.to_bytes()));
    text.push(b':');
    text.extend_from_slice(super::subsys_name(subsys).unwrap_or("Unknown").as_bytes());
    text.push(b':');
    text.extend_from_slice(&escape::line_of_bytes(function.to_bytes()));
    text.extend_from_slice(
        format!(
            "():{line}<{}> ",
            super::level_name(level).unwrap_or("Unknown")
        )
        .as_bytes(),
    );
    text.extend_from_slice(escape::lines(message.to_bytes()).as_bytes());
    if text.last() != Some(&b'\n') {
        text.push(b'\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    use super::super::{Level, Subsys};
    use super::*;

    /// A folder for one test, which is removed with this value.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("{name}-{}", process::id()));
            fs::create_dir(&path).unwrap();
            Folder(path)
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.join(name)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn write(sink: &Sink, message: &CStr) {
        let (level, subsys) = (Level::Info as c_int, Subsys::EpCtrl as c_int);
        sink.write(c"tcp", level, subsys, c"connect", 42, message);
    }

    #[test]
    fn a_line_tells_who_where_and_what() {
        let text = format_line(c"tcp", 2, 3, c"connect", 42, c"no route");
        let text = String::from_utf8(text).unwrap();
        let parts: Vec<&str> = text.splitn(4, ':').collect();
        assert_eq!(parts[0], "libfabric");
        assert_eq!(parts[1], process::id().to_string());
        assert!(parts[2].parse::<u64>().unwrap() > 1_700_000_000);
        assert_eq!(parts[3], ":tcp:ep_ctrl:connect():42<info> no route\n");
    }

    #[test]
    fn the_name_of_a_plug_in_does_not_reach_the_terminal_as_it_is() {
        let text = format_line(c"x\x1b[2J\n", 2, 3, c"f\x1b[0m", 42, c"\x1bc");
        let text = String::from_utf8(text).unwrap();
        let end = r":x\x1b[2J\n:ep_ctrl:f\x1b[0m():42<info> \x1bc";
        assert!(text.trim_end_matches('\n').ends_with(end), "{text:?}");
        assert_eq!(text.lines().count(), 1);
    }

    #[test]
    fn a_line_ends_once() {
        let ended = format_line(c"tcp", 0, 0, c"f", 1, c"x\n");
        let open = format_line(c"tcp", 0, 0, c"f", 1, c"x");
        assert_eq!(ended.iter().filter(|byte| **byte == b'\n').count(), 1);
        assert!(ended.ends_with(b"x\n") && open.ends_with(b"x\n"));
    }

    #[test]
    fn a_line_has_nothing_that_a_terminal_obeys() {
        let text = format_line(c"tcp", 0, 0, c"f", 1, c"\x1b]0;mine\x07 and\n\tmore");
        let text = String::from_utf8(text).unwrap();
        assert!(
            text.ends_with("> \\x1b]0;mine\\x07 and\n\tmore\n"),
            "{text:?}"
        );
    }

    #[test]
    fn a_new_file_has_the_mode_asked_for() {
        let folder = Folder::new("ironfabric-log-file");
        let path = folder.path("log");
        let sink = Sink::open(path.to_str().unwrap(), 0o640).unwrap();
        write(&sink, c"one");
        write(&sink, c"two");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        // The umask may clear bits.
        assert_eq!(mode & 0o777 & !0o640, 0, "{mode:o}");
        assert_eq!(mode & 0o600, 0o600, "{mode:o}");
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 2);
        assert!(text.lines().nth(1).unwrap().ends_with("<info> two"));
    }

    #[test]
    fn a_folder_gets_a_file_for_the_process() {
        let folder = Folder::new("ironfabric-log-folder");
        let sink = Sink::open(folder.0.to_str().unwrap(), 0o600).unwrap();
        write(&sink, c"here");
        let text = fs::read_to_string(folder.path(&format!("ofi_{}.log", process::id())));
        assert!(text.unwrap().ends_with("here\n"));
    }

    #[test]
    fn a_file_that_exists_is_left_alone() {
        let folder = Folder::new("ironfabric-log-old");
        let path = folder.path("old");
        fs::write(&path, "precious").unwrap();
        let error = Sink::open(path.to_str().unwrap(), 0o600).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&path).unwrap(), b"precious");
        assert!(Sink::open("/nowhere/at/all", 0o600).is_err());
    }

    #[test]
    fn the_streams_have_names() {
        assert!(matches!(Sink::open("stdout", 0), Ok(Sink::Stdout)));
        assert!(matches!(Sink::open("stderr", 0), Ok(Sink::Stderr)));
        assert!(matches!(Sink::open("", 0), Ok(Sink::Stderr)));
    }
}
