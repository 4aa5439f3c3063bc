// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Time that a host and its port have to accept a connection (FI_*_CONN_TIMEOUT).
//!
//! The clock stands still while the peer's kernel has accepted an attempt: a peer that computes, sleeps or is stopped
//! answers when it can. Only the time of attempts that nothing answers, and of the pauses between attempts, counts.

use core::time::Duration;
use std::time::Instant;

/// The clock of one peer. It takes memory only while it runs.
#[derive(Debug, Default)]
pub struct ConnectClock(Option<Box<Running>>);

#[derive(Debug)]
struct Running {
    /// End of the attempts.
    deadline: Instant,
    /// Point in time at which the clock was stopped, while it stands still.
    stopped: Option<Instant>,
    /// Point in time at which an accepted attempt ended without a connection.
    dropped: Option<Instant>,
    /// The application did not poll while the time ran out, and got `LATE_ATTEMPT` for that.
    was_extended: bool,
    /// End of the pause before the next attempt.
    pause: Option<Instant>,
}

/// Time in which a listener that dropped an accepted attempt has to be back.
const REOPEN: Duration = Duration::from_millis(500);
/// A deadline is handled within this time if the application polls.
const PUNCTUAL: Duration = Duration::from_millis(50);
/// Time for one more attempt after the application has not polled for long.
const LATE_ATTEMPT: Duration = Duration::from_secs(1);

impl ConnectClock {
    /// Starts the clock unless it runs.
    pub fn start(&mut self, now: Instant, limit: Duration) {
        self.0.get_or_insert_with(|| {
            Box::new(Running {
                deadline: now + limit,
                stopped: None,
                dropped: None,
                was_extended: false,
                pause: None,
            })
        });
    }

    pub fn is_started(&self) -> bool {
        self.0.is_some()
    }

    /// End of the attempts, unless the clock stands still.
    pub fn deadline(&self) -> Option<Instant> {
        let running = self.0.as_ref()?;
        running.stopped.is_none().then_some(running.deadline)
    }

    /// Ends the clock, because the connection is up or no longer needed.
    pub fn reset(&mut self) {
        self.0 = None;
    }

    /// Stops the clock, because the peer's kernel has accepted the attempt.
    pub fn stop(&mut self, now: Instant) {
        if let Some(running) = &mut self.0 {
            running.stopped.get_or_insert(now);
            running.dropped = None;
        }
    }

    /// Resumes the clock after a failed attempt. If the peer's kernel had accepted it, the time in between does not
    /// count.
    pub fn resume(&mut self, now: Instant) {
        if let Some(running) = &mut self.0
            && let Some(stopped) = running.stopped.take()
        {
            running.dropped = Some(now);
            running.deadline += now - stopped;
        }
    }

    /// Restarts the time, because the peer's listener exists but its queue is full.
    pub fn restart(&mut self, now: Instant, limit: Duration) {
        self.reset();
        self.start(now, limit);
    }

    /// Whether the attempts must end. The time is extended once if the application has not polled while it ran out,
    /// because then no attempt was made in that time.
    pub fn is_over(&mut self, now: Instant) -> bool {
        let Some(running) = self.0.as_mut().filter(|it| it.stopped.is_none()) else {
            return false;
        };
        if now >= running.deadline + PUNCTUAL && !running.was_extended {
            running.was_extended = true;
            running.deadline = now + LATE_ATTEMPT;
        }
        now >= running.deadline
    }

    /// Begins the pause between two attempts.
    pub fn pause(&mut self, until: Instant) {
        if let Some(running) = &mut self.0 {
            running.pause = Some(until);
        }
    }

    /// Whether the next attempt has to wait. Timers of earlier attempts may go off in a pause.
    pub fn is_pausing(&self, now: Instant) -> bool {
        let pause = self.0.as_ref().and_then(|running| running.pause);
        pause.is_some_and(|until| now < until)
    }

    /// Whether the listener is gone for good. Called when it refuses an attempt: it had accepted an earlier one and
    /// closed it.
    pub fn is_gone(&self, now: Instant) -> bool {
        let dropped = self.0.as_ref().and_then(|running| running.dropped);
        dropped.is_some_and(|dropped| now >= dropped + REOPEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(15);

    fn seconds(number: u64) -> Duration {
        Duration::from_secs(number)
    }

    #[test]
    fn attempts_end_at_the_deadline() {
        let start = Instant::now();
        let mut clock = ConnectClock::default();
        assert!(!clock.is_over(start) && !clock.is_started());
        clock.start(start, LIMIT);
        // A later attempt has the same deadline.
        clock.start(start + seconds(3), LIMIT);
        assert_eq!(clock.deadline(), Some(start + LIMIT));
        assert!(!clock.is_over(start + seconds(14)));
        assert!(clock.is_over(start + LIMIT));
    }

    #[test]
    fn a_pause_ends_with_its_time_or_with_the_clock() {
        let start = Instant::now();
        let mut clock = ConnectClock::default();
        clock.pause(start + seconds(2));
        assert!(!clock.is_pausing(start));
        clock.start(start, LIMIT);
        clock.pause(start + seconds(2));
        assert!(clock.is_pausing(start + seconds(1)));
        assert!(!clock.is_pausing(start + seconds(2)));
        clock.reset();
        assert!(!clock.is_pausing(start + seconds(1)));
    }

    #[test]
    fn time_after_the_kernel_has_accepted_does_not_count() {
        let start = Instant::now();
        let mut clock = ConnectClock::default();
        clock.start(start, LIMIT);
        clock.stop(start + seconds(5));
        assert!(!clock.is_over(start + seconds(1000)));
        clock.resume(start + seconds(1005));
        assert!(!clock.is_over(start + seconds(1014)));
        assert!(clock.is_over(start + seconds(1015)));
    }

    #[test]
    fn an_application_that_did_not_poll_gets_one_more_attempt() {
        let start = Instant::now();
        let mut clock = ConnectClock::default();
        clock.start(start, LIMIT);
        assert!(!clock.is_over(start + seconds(60)));
        assert!(clock.is_over(start + seconds(61)));
        assert!(clock.is_over(start + seconds(600)));
    }

    #[test]
    fn a_listener_that_dropped_an_attempt_is_gone_if_it_stays_away() {
        let start = Instant::now();
        let mut clock = ConnectClock::default();
        clock.start(start, LIMIT);
        // Refused attempts mean nothing: the peer may be about to open its endpoint.
        clock.resume(start + seconds(1));
        assert!(!clock.is_gone(start + seconds(9)));
        clock.stop(start + seconds(2));
        clock.resume(start + seconds(4));
        assert!(!clock.is_gone(start + seconds(4)));
        assert!(clock.is_gone(start + seconds(4) + REOPEN));
        clock.stop(start + seconds(5));
        assert!(!clock.is_gone(start + seconds(9)));
    }

    #[test]
    fn a_full_queue_restarts_the_time() {
        let start = Instant::now();
        let mut clock = ConnectClock::default();
        clock.start(start, LIMIT);
        clock.restart(start + seconds(14), LIMIT);
        assert!(!clock.is_over(start + seconds(28)));
        assert!(clock.is_over(start + seconds(29)));
    }
}
