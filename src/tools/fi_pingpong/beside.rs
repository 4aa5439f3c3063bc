// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `--beside`: runs the same test on this host with two libraries, in pairs, with the order reversed from pair to pair.
//! So other load of the machine affects both. The medians of each size are compared.

use std::env;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use serde_json::{Value, json};

use crate::options::Options;
use crate::plot::Series;
use abi::*;
use calls::failure::{Failure, Result};
use calls::output;

/// The results of one library.
struct Side {
    library: Value,
    /// For each size, in order: the size, and the microseconds per transfer of each run.
    times: Vec<(u64, Vec<f64>)>,
}

/// Runs all pairs, prints the comparison and returns the curves for a plot.
pub fn run(options: &Options, folder: &Path) -> Result<Vec<Series>> {
    let folder = folder
        .canonicalize()
        .map_err(|error| Failure::system(format!("--beside {}", folder.display()), &error))?;
    let mut sides: [Option<Side>; 2] = [None, None];
    for pair in 0..PAIRS {
        for turn in 0..2 {
            let which = (pair + turn) % 2;
            let library = (which == 1).then_some(&*folder);
            let name = ["the library here", "the library beside"][which];
            let document = play(options, library).map_err(|failure| failure.at(name))?;
            if let Some(folder) = library {
                mapped_from(&document, folder)?;
            }
            let side = sides[which].get_or_insert_with(|| Side {
                library: document["library"].clone(),
                times: Vec::new(),
            });
            side.add(&document);
        }
    }
    let [Some(here), Some(beside)] = sides else {
        unreachable!("each side has played");
    };
    output::print(|out| match options.json {
        true => write_json(out, &here, &beside),
        false => write_table(out, &here, &beside),
    });
    Ok(vec![here.series(), beside.series()])
}

impl Side {
    fn add(&mut self, document: &Value) {
        for row in document["rows"].as_array().into_iter().flatten() {
            let size = row["size"].as_u64().unwrap_or(0);
            let time = row["usec_per_transfer"].as_f64().unwrap_or(f64::NAN);
            match self.times.iter_mut().find(|(known, _)| *known == size) {
                Some((_, times)) => times.push(time),
                None => self.times.push((size, vec![time])),
            }
        }
    }

    fn words(&self) -> String {
        let text = |name: &str| self.library[name].as_str().map(str::to_owned);
        let version = text("version").unwrap_or_default();
        let identity = text("identity").unwrap_or_else(|| format!("libfabric {version}"));
        format!("{}: {identity}", text("path").unwrap_or_default())
    }

    fn series(&self) -> Series {
        let point = |(size, times): &(u64, Vec<f64>)| {
            let (size, time) = (*size as f64, median(times));
            (size, time, size / time)
        };
        Series {
            label: self.words(),
            points: self.times.iter().map(point).collect(),
        }
    }
}

/// Sizes that both sides have, with their medians.
fn rows<'a>(here: &'a Side, beside: &'a Side) -> impl Iterator<Item = (u64, f64, f64)> + 'a {
    here.times.iter().filter_map(|(size, times)| {
        let (_, others) = beside.times.iter().find(|(other, _)| other == size)?;
        Some((*size, median(times), median(others)))
    })
}

fn write_table(out: &mut dyn Write, here: &Side, beside: &Side) -> std::io::Result<()> {
    writeln!(out, "here:   {}", here.words())?;
    writeln!(out, "beside: {}", beside.words())?;
    writeln!(
        out,
        "medians of {PAIRS} runs in turns, microseconds per transfer"
    )?;
    writeln!(
        out,
        "{:<10}{:>12}{:>12}{:>14}",
        "bytes", "here", "beside", "here/beside"
    )?;
    for (size, mine, theirs) in rows(here, beside) {
        writeln!(
            out,
            "{size:<10}{mine:>12.2}{theirs:>12.2}{:>14.3}",
            mine / theirs
        )?;
    }
    Ok(())
}

fn write_json(out: &mut dyn Write, here: &Side, beside: &Side) -> std::io::Result<()> {
    let row = |(size, mine, theirs): (u64, f64, f64)| {
        let ratio = mine / theirs;
        json!({ "size": size, "here": mine, "beside": theirs, "ratio": ratio })
    };
    let rows: Vec<Value> = rows(here, beside).map(row).collect();
    let document =
        json!({ "here": here.library, "beside": beside.library, "pairs": PAIRS, "rows": rows });
    serde_json::to_writer_pretty(&mut *out, &document)?;
    writeln!(out)
}

fn median(times: &[f64]) -> f64 {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Checks that the library which the program had loaded is really from that folder.
fn mapped_from(document: &Value, folder: &Path) -> Result {
    let path = document["library"]["path"].as_str().unwrap_or_default();
    // The name may be a link to a file elsewhere.
    let named = folder.join("libfabric.so.1").canonicalize();
    match named.is_ok_and(|named| named == Path::new(path)) {
        true => Ok(()),
        false => Err(
            Failure::new(format!("--beside {}", folder.display()), FI_ENOENT).detail(format!(
                "the program loaded {path} in place of libfabric.so.1 from there"
            )),
        ),
    }
}

/// A process that is killed when this value is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs server and client once, with the library of `folder` or the one of this process. Returns the client's document.
fn play(options: &Options, folder: Option<&Path>) -> Result<Value> {
    let failed = |error| Failure::system("starting a process or thread", &error);
    let program = env::current_exe().map_err(failed)?;
    let command = |own: &[&str]| {
        let mut command = Command::new(&program);
        command.args(&options.shared).arg("--json").args(own);
        if let Some(folder) = folder {
            command.env("LD_LIBRARY_PATH", folder);
        }
        command.stdin(Stdio::null()).stderr(Stdio::piped());
        command
    };
    let mut server = command(&["-B", "0"])
        .stdout(Stdio::null())
        .spawn()
        .map(Running)
        .map_err(failed)?;
    let mut words = BufReader::new(server.0.stderr.take().expect("it is a pipe"));
    let mut said = String::new();
    let port = loop {
        let mut line = String::new();
        if words.read_line(&mut line).map_err(failed)? == 0 {
            return Err(Failure::new("server", FI_EOTHER).detail(said.trim()));
        }
        if let Some(port) = line.trim().strip_prefix("control port ") {
            break port.to_owned();
        }
        said += &line;
    };
    // Reads the rest, so that a full pipe never blocks the server.
    let read_rest = move || {
        let mut rest = String::new();
        let _ = words.read_to_string(&mut rest);
        rest
    };
    let listener = thread::Builder::new().spawn(read_rest).map_err(failed)?;
    let host = if options.ipv6 { "::1" } else { "127.0.0.1" };
    let client = command(&["-P", &port, host]).output().map_err(failed)?;
    if !client.status.success() {
        drop(server);
        let server = listener.join().unwrap_or_default();
        let client = String::from_utf8_lossy(&client.stderr).trim().to_owned();
        let both = format!("client: {client}; server: {}", server.trim());
        return Err(Failure::new("client", FI_EOTHER).detail(both));
    }
    serde_json::from_slice(&client.stdout)
        .map_err(|error| Failure::new("client's document", FI_EPROTO).detail(error.to_string()))
}

/// Returns true if both processes of a run get this option; `letter` is its letter or its mark.
pub fn is_shared(letter: char) -> bool {
    "dfspeISmc6own".contains(letter)
}

/// The option in the form for their command lines.
pub fn written(name: &str, value: Option<OsString>) -> Vec<OsString> {
    std::iter::once(OsString::from(name)).chain(value).collect()
}

/// An odd number, so that the median is a measured time.
const PAIRS: usize = 5;
