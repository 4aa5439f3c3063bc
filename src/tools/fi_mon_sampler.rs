// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `fi_mon_sampler`: reads the files of the hook `monitor` while their programs run: fi_mon_sampler(1).
#![forbid(unsafe_code)]

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use nix::fcntl::OFlag;
use sync::monitor::{CLASS_NAMES, CLASSES, COUNTS, FINISHED, RECORDS, SIZE, WANTED};

const USAGE: &str = "Usage: fi_mon_sampler [-w MS] [-f csv] [-o FOLDER] PATH

Reads the counts that the hook `monitor` (FI_HOOK=monitor) keeps of the calls of a program.

  PATH       a file of the hook, or a folder with such files
  -w MS      reads again and again, after this many milliseconds, until a file is gone
  -f csv     the format of the output; there is no other
  -o FOLDER  writes to FOLDER/<name of the file>.csv instead of standard output; needed for a folder
  -h         this text

The first reading only asks the program to write its counts, and is all zeroes.
";

struct Options {
    wait: Option<Duration>,
    out: Option<PathBuf>,
    path: PathBuf,
}

/// The result of parsing the arguments.
enum Told {
    Read(Options),
    Help,
    Nothing,
    Wrong(String),
}

fn main() -> ExitCode {
    let options = match parse(std::env::args_os().skip(1)) {
        Told::Read(options) => options,
        Told::Help => {
            print!("{USAGE}");
            return ExitCode::from(1);
        }
        Told::Nothing => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Told::Wrong(what) => return fail(&what),
    };
    if !options.path.exists() {
        return fail(&format!(
            "{}: no such file or folder",
            options.path.display()
        ));
    }
    if options.path.is_dir() && options.out.is_none() {
        return fail(&format!(
            "{} is a folder, so -o is needed",
            options.path.display()
        ));
    }
    let mut sampler = Sampler {
        options,
        headed: HashSet::new(),
    };
    loop {
        let left = sampler.pass();
        match sampler.options.wait {
            Some(wait) if left => thread::sleep(wait),
            _ => return ExitCode::SUCCESS,
        }
    }
}

fn fail(what: &str) -> ExitCode {
    eprintln!("fi_mon_sampler: {what}");
    ExitCode::from(254)
}

fn parse(mut arguments: impl Iterator<Item = OsString>) -> Told {
    let (mut wait, mut out, mut path) = (None, None, None);
    while let Some(argument) = arguments.next() {
        match argument.to_str() {
            Some("-h") => return Told::Help,
            Some("-w") => {
                let ms = arguments.next().and_then(|ms| ms.to_str()?.parse().ok());
                let Some(ms) = ms else {
                    return Told::Wrong("-w needs a number of milliseconds".to_owned());
                };
                wait = Some(Duration::from_millis(ms));
            }
            Some("-f") => {
                let format = arguments.next().unwrap_or_default();
                if format != "csv" {
                    return Told::Wrong(format!("{}: the only format is csv", format.display()));
                }
            }
            Some("-o") => match arguments.next() {
                Some(folder) => out = Some(PathBuf::from(folder)),
                None => return Told::Wrong("-o needs a folder".to_owned()),
            },
            Some(option) if option.starts_with('-') && option.len() > 1 => {
                return Told::Wrong(format!("{option}: no such option"));
            }
            _ if path.is_none() => path = Some(PathBuf::from(argument)),
            _ => return Told::Wrong("one path at a time".to_owned()),
        }
    }
    match path {
        Some(path) => Told::Read(Options { wait, out, path }),
        None => Told::Nothing,
    }
}

struct Sampler {
    options: Options,
    /// Files whose heading was printed already.
    headed: HashSet<PathBuf>,
}

impl Sampler {
    /// Reads every file once. Returns true if there may be more to read.
    fn pass(&mut self) -> bool {
        if !self.options.path.is_dir() {
            let path = self.options.path.clone();
            return self.complain(&path);
        }
        let entries = fs::read_dir(&self.options.path)
            .into_iter()
            .flatten()
            .flatten();
        let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
        let files: Vec<PathBuf> = files.map(|entry| entry.path()).collect();
        for file in files {
            self.complain(&file);
        }
        // Further files may appear.
        true
    }

    fn complain(&mut self, path: &Path) -> bool {
        self.sample(path).unwrap_or_else(|error| {
            // The file was removed when its program ended.
            if error.kind() != io::ErrorKind::NotFound {
                eprintln!("fi_mon_sampler: {}: {error}", path.display());
            }
            false
        })
    }

    /// Takes one sample, if the program has answered the last request. Returns true if there may be more.
    fn sample(&mut self, path: &Path) -> io::Result<bool> {
        let mut how = OpenOptions::new();
        let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
        let file = how.read(true).write(true).custom_flags(flags.bits());
        let file = file.open(path)?;
        let found = file.metadata()?;
        if !found.is_file() || found.len() != SIZE as u64 {
            return Err(io::Error::other("this is no file of the hook monitor"));
        }
        let mut bytes = vec![0; SIZE];
        file.read_exact_at(&mut bytes, 0)?;
        let flags = bytes[COUNTS];
        if flags & WANTED != 0 {
            return Ok(true);
        }
        self.write(path, &row(&bytes))?;
        if flags & FINISHED != 0 {
            fs::remove_file(path)?;
            return Ok(false);
        }
        file.write_all_at(&[flags | WANTED], COUNTS as u64)?;
        Ok(true)
    }

    fn write(&mut self, path: &Path, row: &str) -> io::Result<()> {
        let Some(folder) = &self.options.out else {
            let mut out = io::stdout().lock();
            if self.headed.insert(path.to_owned()) {
                writeln!(out, "{}", heading())?;
            }
            return writeln!(out, "{row}").and_then(|()| out.flush());
        };
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(".csv");
        let mut out: File = OpenOptions::new()
            .append(true)
            .create(true)
            .custom_flags(OFlag::O_NONBLOCK.bits())
            .open(folder.join(name))?;
        if !out.metadata()?.is_file() {
            return Err(io::Error::other("its table is no regular file"));
        }
        if out.metadata()?.len() == 0 {
            writeln!(out, "{}", heading())?;
        }
        writeln!(out, "{row}")
    }
}

fn heading() -> String {
    let names = RECORDS.iter().flat_map(|record| {
        CLASS_NAMES
            .iter()
            .map(move |class| format!("mon_{record}_{class}_c,mon_{record}_{class}_s"))
    });
    names.collect::<Vec<_>>().join(",")
}

/// Returns count and sum of each class of each record.
fn row(bytes: &[u8]) -> String {
    let words: Vec<u64> = bytes[..COUNTS]
        .chunks_exact(8)
        .map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()))
        .collect();
    let records = words.chunks_exact(2 * CLASSES);
    let numbers = records.flat_map(|record| {
        let (counts, sums) = record.split_at(CLASSES);
        counts
            .iter()
            .zip(sums)
            .flat_map(|(count, sum)| [count, sum])
    });
    numbers.map(u64::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_a_number_for_each_column() {
        let mut bytes = vec![0; SIZE];
        // The second class of the second record: its count and its sum.
        bytes[144 + 8] = 3;
        bytes[144 + 72 + 8] = 200;
        let (names, row) = (heading(), row(&bytes));
        let names: Vec<&str> = names.split(',').collect();
        let numbers: Vec<&str> = row.split(',').collect();
        assert_eq!((names.len(), numbers.len()), (756, 756));
        let place = names
            .iter()
            .position(|name| *name == "mon_recvv_64_512_c")
            .unwrap();
        assert_eq!(numbers[place..place + 2], ["3", "200"]);
        assert_eq!(numbers.iter().filter(|number| **number != "0").count(), 2);
    }
}
