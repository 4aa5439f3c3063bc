// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Writes dumps: their triggers and their files (FI_DUMP_ON_SIGNAL, FI_DUMP_FILE; `fi_top --dump`).
//!
//! A thread of the library writes them, because a job that hangs may sleep, spin in a completion queue, or not call the
//! library at all. With FI_DUMP_ON_SIGNAL that thread exists from the first domain on. Otherwise it is started when
//! `fi_top` has requested a dump and the application polls, and ends after the dump, so programs without such a request
//! have no thread for this.
//!
//! The thread takes each domain's lock as other threads of the library do, but waits only for a limited time; a domain
//! whose lock is held longer is listed as busy.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use core::time::Duration;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Once;
use std::time::SystemTime;

use super::{json, text};
use crate::domain::registered;
use crate::stats;
use base::identity;
use base::log::{CORE, Subsys, log_info, log_warn};
use base::settings::Settings;
use sys::event::{EventFd, sleep_on};
use sys::user::is_elevated;
use sys::{ask_signal, thread};

/// Time limit for the lock of a domain.
const BUSY: Duration = Duration::from_secs(1);

/// With FI_DUMP_ON_SIGNAL: makes the signal request dumps from now on. Called for each domain that is opened.
pub fn start() {
    static ONCE: Once = Once::new();
    if let Some(wanted) = &Settings::get().dump_on_signal {
        ONCE.call_once(|| match watch(wanted) {
            Ok(()) => log_info!(&CORE, Subsys::Core, "signal {wanted} asks for a dump"),
            Err(error) => log_warn!(
                &CORE,
                Subsys::Core,
                "FI_DUMP_ON_SIGNAL={wanted} has no effect: {error}"
            ),
        });
    }
    // The block of counters may be a new one, so the signal is published again.
    let signal = Settings::get()
        .dump_on_signal
        .as_deref()
        .and_then(ask_signal::named);
    if let (Some(signal), Some(block)) = (
        signal.filter(|_| SERVED.load(Ordering::Relaxed)),
        stats::block(),
    ) {
        block.set_signal(signal as i32);
    }
}

/// Set when a thread waits for the signal.
static SERVED: AtomicBool = AtomicBool::new(false);

fn watch(wanted: &str) -> io::Result<()> {
    let Some(signal) = ask_signal::named(wanted) else {
        return Err(io::Error::other(
            "there is no such signal, or it cannot be taken",
        ));
    };
    // The handler must stay at its address.
    if !ask_signal::keep_loaded() {
        return Err(io::Error::other("the library could be unloaded"));
    }
    let event = ask_signal::watch(signal).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => io::Error::other("the program takes this signal itself"),
        _ => error,
    })?;
    thread::spawn("fi-dump", move || serve(event))?;
    SERVED.store(true, Ordering::Relaxed);
    Ok(())
}

fn serve(event: &EventFd) {
    loop {
        // Signals are blocked in this thread; any other error would recur.
        if sleep_on(&[event.as_fd()], None).is_err() {
            return;
        }
        event.clear();
        write();
    }
}

/// Requests a dump from a thread that has a domain locked. A new thread writes it.
#[cold]
pub fn request_dump_here() {
    static WRITING: AtomicBool = AtomicBool::new(false);
    // Each domain of the process gets the request, and one dump is sufficient.
    if !WRITING.swap(true, Ordering::Acquire) {
        let started = thread::spawn("fi-dump", || {
            write();
            WRITING.store(false, Ordering::Release);
        });
        if started.is_err() {
            WRITING.store(false, Ordering::Release);
        }
    }
}

/// Writes a dump of all domains of the process.
fn write() {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed) + 1;
    let pid = std::process::id();
    let domains = registered::report(BUSY);
    let seconds = SystemTime::UNIX_EPOCH
        .elapsed()
        .map_or(0, |time| time.as_secs());
    let program = std::env::args_os().next().unwrap_or_default();
    let title = format!(
        "what process {pid} ({}) waits for, dump {number}, {seconds} s after 1970, {}",
        program.display(),
        identity::text()
    );
    let text = text::write(&title, &domains);
    let name = match place() {
        None => {
            text.lines()
                .for_each(|line| log_warn!(&CORE, Subsys::Core, "dump: {line}"));
            String::new()
        }
        Some(place) => {
            let name = format!("{}.{pid}.{number}", place.display());
            let json = json::write(&title, pid, &domains);
            let written = create(&name, "json", &json).and_then(|()| create(&name, "txt", &text));
            match written {
                Ok(()) => {
                    log_warn!(
                        &CORE,
                        Subsys::Core,
                        "a dump is in {name}.txt and {name}.json"
                    );
                    name
                }
                Err(error) => {
                    log_warn!(&CORE, Subsys::Core, "no dump in {name}: {error}");
                    // fi_top prints it in place of the file. The error comes first because a long name is cut off.
                    format!("{error}: {name}")
                }
            }
        }
    };
    if let Some(block) = stats::block() {
        block.dumped(&name);
    }
}

/// Returns the path of the dump; `None` means the log.
fn place() -> Option<PathBuf> {
    match Settings::get().dump_file.as_deref() {
        Some("log") => None,
        Some(place) if !place.is_empty() && !is_elevated() => {
            Some(std::path::absolute(place).unwrap_or(place.into()))
        }
        // A program with more rights than its user must not trust the environment.
        _ if is_elevated() => Some("/tmp/ironfabric-dump".into()),
        _ => Some(std::env::temp_dir().join("ironfabric-dump")),
    }
}

/// Writes a new file. An existing file of this name, which another user may have made in a shared folder, is not
/// touched.
fn create(name: &str, suffix: &str, content: &str) -> io::Result<()> {
    let mut how = OpenOptions::new();
    how.write(true).create_new(true).mode(0o600);
    how.open(format!("{name}.{suffix}"))?
        .write_all(content.as_bytes())
}
