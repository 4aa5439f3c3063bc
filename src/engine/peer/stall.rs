// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Peers for which operations wait too long: when the log reports them, and since when operations have been waiting
//! (FI_*_STALL_REPORT, FI_*_OP_TIMEOUT).
//!
//! An operation that begins to wait records a stamp of 16 bits instead of the time. There are two sources of stamps:
//! `Ticks` for transports with a timer, which counts only while an operation waits; and `Clock` for transports that are
//! polled, which reads the time on every 256th poll and needs no timer on the path of an operation.

mod clock;
mod ticks;

use core::fmt;
use core::mem;
use core::time::Duration;

pub use self::clock::{Clock, attend_with};
pub use self::ticks::Ticks;
use base::log::{Source, Subsys, log_failure, log_warn};
use base::params::Given;
use sync::stats::{Count, EpStats};

/// The state of a peer between two checks.
#[derive(Default)]
pub struct Stall {
    /// Progress at the last check: a number that changes while bytes of a long transfer move in either direction.
    moved: u64,
    was_checked: bool,
    is_reported: bool,
}

impl Stall {
    /// Records a check of the peer. `is_late`: an operation has waited for the peer longer than the limit. Returns true
    /// if the peer has to be reported: it is late, nothing has moved since the last check, and it was not reported for
    /// the same stall.
    pub fn check(&mut self, is_late: bool, moved: u64) -> bool {
        let was_checked = mem::replace(&mut self.was_checked, true);
        let rests = mem::replace(&mut self.moved, moved) == moved && was_checked;
        let stalls = is_late && rests;
        let was_reported = mem::replace(&mut self.is_reported, stalls);
        stalls && !was_reported
    }

    /// Whether the peer is reported as stalled.
    pub fn is_reported(&self) -> bool {
        self.is_reported
    }
}

/// The line about a stalled peer.
pub struct Report<'a> {
    pub peer: &'a dyn fmt::Display,
    /// Number of operations that wait for the peer.
    pub count: usize,
    /// The operation that has waited longest: its kind, its length, its age, and the event that it waits for if the
    /// line names that.
    pub what: &'a dyn fmt::Display,
    pub len: u64,
    pub age: Duration,
    pub stage: Option<&'static str>,
}

impl Report<'_> {
    /// Counts the stall and writes the line, also without a log if the user has set the time for it.
    pub fn log(&self, source: &'static Source, stats: &EpStats) {
        stats.count(Count::Stalls);
        match Given(source).milliseconds("stall_report") {
            Some(_) => log_failure!(source, Subsys::EpData, "{self}"),
            None => log_warn!(source, Subsys::EpData, "{self}"),
        }
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: operations that wait for it: {}; the oldest, a {} of {} bytes, for more than {} s",
            self.peer,
            self.count,
            self.what,
            self.len,
            self.age.as_secs_f32()
        )?;
        match self.stage {
            Some(stage) => write!(f, ": {stage}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns for each check whether it reports the peer.
    fn reported(checks: &[(bool, u64)]) -> Vec<bool> {
        let mut stall = Stall::default();
        let check = |&(is_late, moved): &(bool, u64)| stall.check(is_late, moved);
        checks.iter().map(check).collect()
    }

    #[test]
    fn a_stall_is_reported_once() {
        let checks = [(false, 5), (true, 5), (true, 5), (false, 5), (true, 5)];
        assert_eq!(reported(&checks), [false, true, false, false, true]);
    }

    #[test]
    fn a_peer_whose_bytes_move_does_not_stall() {
        assert_eq!(reported(&[(true, 1), (true, 2), (true, 3)]), [false; 3]);
        // The report is repeated after a pause in which bytes moved.
        let checks = [(true, 1), (true, 1), (true, 2), (true, 2)];
        assert_eq!(reported(&checks), [false, true, false, true]);
    }

    #[test]
    fn the_first_check_reports_nothing() {
        assert_eq!(reported(&[(true, 0), (true, 0)]), [false, true]);
    }

    #[test]
    fn the_line_names_the_stage_only_if_there_is_one() {
        let mut report = Report {
            peer: &"there",
            count: 2,
            what: &"send",
            len: 9,
            age: Duration::from_millis(1500),
            stage: None,
        };
        let line = "there: operations that wait for it: 2; the oldest, a send of 9 bytes, for more than 1.5 s";
        assert_eq!(report.to_string(), line);
        report.stage = Some("it sleeps");
        assert_eq!(report.to_string(), format!("{line}: it sleeps"));
        let stats = EpStats::hidden();
        static SOURCE: Source = Source::new(c"stall");
        report.log(&SOURCE, &stats);
        let counted = stats.counts().find(|(_, count)| *count > 0);
        assert_eq!(counted, Some(("stalls", 1)));
    }
}
