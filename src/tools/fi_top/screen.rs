// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The screen: an update every second, and keys. It uses a few control sequences that every terminal supports.

use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};

use crate::find::Watcher;
use crate::options::{Options, Sort};
use crate::table::{self, Before, Layout, Row};

/// Switches to the alternate screen without a cursor, and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
const HOME: &str = "\x1b[H";
const END_OF_LINE: &str = "\x1b[K\r\n";
const REST: &str = "\x1b[J";
const INVERSE: &str = "\x1b[7m";
const PLAIN: &str = "\x1b[0m";

/// While this exists, the terminal delivers keys one by one.
struct Terminal(Termios);

impl Terminal {
    fn enter() -> io::Result<Terminal> {
        let before = tcgetattr(io::stdin())?;
        let mut keys = before.clone();
        keys.local_flags -= LocalFlags::ICANON | LocalFlags::ECHO;
        tcsetattr(io::stdin(), SetArg::TCSANOW, &keys)?;
        let terminal = Terminal(before);
        write!(io::stdout(), "{ENTER}")?;
        Ok(terminal)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Errors are ignored, because the terminal may be gone.
        let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, &self.0);
        let _ = write!(io::stdout(), "{LEAVE}").and_then(|()| io::stdout().flush());
    }
}

pub fn run(options: &Options) -> io::Result<ExitCode> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        return Err(io::Error::other(
            "there is no terminal: --once, --json and --prometheus need none",
        ));
    }
    let _terminal = Terminal::enter()?;
    let (mut watcher, mut before) = (Watcher::new(options), Before::default());
    let (mut view, mut last) = (View::new(options), Instant::now());
    loop {
        // The answers of processes appear in the next update.
        watcher.ask();
        let found = watcher.look();
        let now = Instant::now();
        let rows = before.rates(&found, now - last, view.sort);
        last = now;
        let picture = picture(&rows, found.len(), &view, size());
        let mut out = io::stdout().lock();
        out.write_all(picture.as_bytes())?;
        out.flush()?;
        drop(out);
        if !wait_for_keys(options.delay, &mut view)? {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// Handles keys until the next update is due. Returns false if the user ends the program.
fn wait_for_keys(delay: Duration, view: &mut View) -> io::Result<bool> {
    let end = Instant::now() + delay;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        // Rounded up, so that the loop does not spin during the last millisecond.
        let left = left.as_micros().div_ceil(1000).min(i32::MAX as u128) as i32;
        let stdin = io::stdin();
        let mut fds = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
        match poll(
            &mut fds,
            PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX),
        ) {
            Ok(0) => return Ok(true),
            // The size of the window has changed.
            Err(nix::errno::Errno::EINTR) => return Ok(true),
            other => other?,
        };
        let mut keys = [0; 16];
        let n = io::stdin().read(&mut keys)?;
        if n == 0 {
            return Ok(false);
        }
        let mut again = false;
        for key in &keys[..n] {
            match key {
                b'q' | b'Q' => return Ok(false),
                b'p' => view.sort = Sort::Pid,
                b'm' => view.sort = Sort::Messages,
                b'b' => view.sort = Sort::Bytes,
                b'w' => view.sort = Sort::Wait,
                b'h' => view.explains = !view.explains,
                b' ' => {}
                _ => continue,
            }
            again = true;
        }
        if again {
            return Ok(true);
        }
    }
}

/// Returns rows and columns, as stty(1) reads them from the terminal at standard input.
fn size() -> (usize, usize) {
    let said = Command::new("stty")
        .arg("size")
        .stdin(Stdio::inherit())
        .stderr(Stdio::null())
        .output();
    let said = said
        .map(|said| String::from_utf8_lossy(&said.stdout).into_owned())
        .unwrap_or_default();
    let mut numbers = said
        .split_whitespace()
        .map(|number| number.parse().ok().filter(|&number| number > 0));
    let mut next = || numbers.next().flatten();
    (next().unwrap_or(24), next().unwrap_or(80))
}

fn picture(
    rows: &[Row],
    processes: usize,
    view: &View,
    (lines, columns): (usize, usize),
) -> String {
    let cut = |line: &str| line.chars().take(columns).collect::<String>();
    let status = format!(
        "fi_top on {}: {processes} processes, {} endpoints, by {:?}; keys: q p m b w h",
        view.host,
        rows.len(),
        view.sort
    );
    let layout = Layout::fitting(if view.wide { usize::MAX } else { columns }, rows);
    let (heading, body): (String, Vec<String>) = match view.explains {
        true => {
            let legend = table::legend();
            (
                "COLUMN".to_owned(),
                legend.lines().map(str::to_owned).collect(),
            )
        }
        false => (
            layout.heading(true),
            rows.iter().map(|row| layout.line(row)).collect(),
        ),
    };
    let heading = format!("{heading:<columns$}");
    let mut text = format!(
        "{HOME}{}{END_OF_LINE}{INVERSE}{}{PLAIN}",
        cut(&status),
        cut(&heading)
    );
    // The last line has no line end, because that would scroll the screen.
    for line in body.iter().take(lines.saturating_sub(2)) {
        text += END_OF_LINE;
        text += &cut(line);
    }
    text + "\x1b[K" + REST
}

/// The state of the screen.
struct View {
    host: String,
    sort: Sort,
    wide: bool,
    /// Show the meaning of the columns instead of the rows.
    explains: bool,
}

impl View {
    fn new(options: &Options) -> View {
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        View {
            host: host.trim().to_owned(),
            sort: options.sort,
            wide: options.wide,
            explains: false,
        }
    }
}

/// Returns the width of a table on standard output: that of the terminal, or no limit.
pub fn width(options: &Options) -> usize {
    match options.wide || !io::stdout().is_terminal() {
        true => usize::MAX,
        false => size().1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_fits_the_window() {
        let rows: Vec<Row> = (0..50).map(|_| Row::sample()).collect();
        let mut view = View {
            host: "h".repeat(100),
            sort: Sort::Bytes,
            wide: true,
            explains: false,
        };
        for (lines, columns) in [(24, 80), (3, 10), (1, 1)] {
            view.explains = !view.explains;
            let picture = picture(&rows, 1, &view, (lines, columns));
            assert!(
                picture.matches("\r\n").count() < lines.max(2),
                "{lines} {columns}"
            );
            let plain = picture.replace(INVERSE, "").replace(PLAIN, "");
            for line in plain.split(END_OF_LINE) {
                let line = line.trim_start_matches(HOME).trim_end_matches(REST);
                assert!(line.trim_end_matches("\x1b[K").chars().count() <= columns);
            }
        }
    }
}
