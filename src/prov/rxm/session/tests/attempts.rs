// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Attempts to connect, without a network.

use core::time::Duration;
use std::time::Instant;

use super::world::SETTINGS;
use crate::rxm::session::connection::{ATTEMPTS, Connection, GivenUp, LEASE, State, Step};
use crate::rxm::session::{Common, Settings};
use crate::rxm::testing::common_of;
use base::Error;
use engine::transport::Listener;

struct Attempts {
    connection: Connection,
    common: Common,
    now: Instant,
}

/// More than one pause, and less than the time of a test connection.
const LIMIT: Duration = Duration::from_secs(3);

impl Attempts {
    fn new() -> Attempts {
        let settings = Settings {
            conn_timeout: LIMIT,
            ..SETTINGS
        };
        Attempts {
            connection: Connection::default(),
            common: common_of(settings, 1),
            now: Instant::now(),
        }
    }

    fn want(&mut self) -> Step {
        self.connection.want(&mut self.common, self.now)
    }

    fn look(&mut self) -> Step {
        self.connection.look(&mut self.common, self.now)
    }

    fn failed(&mut self, error: Error) -> Step {
        self.connection.failed(&mut self.common, self.now, error)
    }

    fn due(&mut self, reacted: Option<bool>) -> Step {
        self.connection.due(&mut self.common, self.now, |_| reacted)
    }
}

#[test]
fn pauses_double_until_the_time_is_over() {
    let mut attempts = Attempts::new();
    let begun = attempts.now;
    let mut pauses = Vec::new();
    assert_eq!(attempts.want(), Step::Connect);
    let given_up = loop {
        assert_eq!(attempts.common.connecting, 1);
        // The program retries its operation meanwhile.
        assert_eq!(attempts.want(), Step::Nothing);
        match attempts.failed(Error::CONNREFUSED) {
            Step::Retry(at) => {
                pauses.push(at - attempts.now);
                assert_eq!(attempts.common.connecting, 0);
                assert_eq!(attempts.want(), Step::Nothing);
                attempts.now = at;
            }
            step => panic!("{step:?}"),
        }
        match attempts.due(None) {
            Step::Connect => {}
            Step::GiveUp(given_up) => break given_up,
            step => panic!("{step:?}"),
        }
    };
    // Each pause has a random part.
    let most = [2, 4, 8, 16, 32, 64, 128, 256, 500].map(Duration::from_millis);
    let most = most
        .into_iter()
        .chain(std::iter::repeat(Duration::from_millis(500)));
    assert!(pauses.len() > 9);
    for (pause, most) in pauses.iter().zip(most) {
        assert!(most / 2 <= *pause && *pause <= most, "{pauses:?}");
        assert!(!pause.as_nanos().is_multiple_of(1_000_000), "{pauses:?}");
    }
    assert!((LIMIT..LIMIT * 2).contains(&(attempts.now - begun)));
    let (error, is_reported, is_silent) = (Error::CONNREFUSED, true, false);
    #[rustfmt::skip]
    assert_eq!(given_up, GivenUp { error, is_reported, is_silent });
    assert_eq!(attempts.connection.state(), State::Over);
    assert_eq!(attempts.common.connecting, 0);
}

#[test]
fn a_test_connection_is_tried_once() {
    for (error, is_silent) in [(Error::CONNREFUSED, false), (Error::TIMEDOUT, true)] {
        let mut attempts = Attempts::new();
        assert_eq!(attempts.look(), Step::Connect);
        let is_reported = false;
        #[rustfmt::skip]
        let given_up = GivenUp { error, is_reported, is_silent };
        assert_eq!(attempts.failed(error), Step::GiveUp(given_up));
    }
}

#[test]
fn an_operation_continues_a_test_connection() {
    let mut attempts = Attempts::new();
    assert_eq!(attempts.look(), Step::Connect);
    assert_eq!(attempts.want(), Step::Nothing);
    assert!(matches!(
        attempts.failed(Error::CONNREFUSED),
        Step::Retry(_)
    ));
    // No test is needed while an operation waits.
    assert_eq!(attempts.look(), Step::Nothing);
}

#[test]
fn an_attempt_goes_on_after_its_time_if_the_peer_may_exist() {
    let late = |is_look: bool, reacted| {
        let mut attempts = Attempts::new();
        let step = match is_look {
            true => attempts.look(),
            false => attempts.want(),
        };
        assert_eq!(step, Step::Connect);
        let deadline = attempts.now + LIMIT;
        assert_eq!(attempts.due(reacted), Step::Wake(deadline));
        attempts.now = deadline;
        let step = attempts.due(reacted);
        if step == Step::Late {
            // Only the end of the attempt below is awaited.
            assert_eq!(attempts.connection.deadline(), None);
        }
        step
    };
    let silent = Step::Fail(Error::TIMEDOUT);
    assert_eq!(late(false, Some(true)), Step::Late);
    assert_eq!(late(false, Some(false)), silent);
    assert_eq!(late(true, Some(true)), Step::Late);
    assert_eq!(late(true, Some(false)), silent);
    // A provider below that cannot tell ends its attempts itself; a test connection does not wait for that.
    assert_eq!(late(false, None), Step::Late);
    assert_eq!(late(true, None), silent);
}

#[test]
fn a_test_connection_needs_more_than_silence() {
    let mut attempts = Attempts::new();
    assert_eq!(attempts.look(), Step::Connect);
    attempts.now += LIMIT;
    let (connection, common) = (&mut attempts.connection, &mut attempts.common);
    let step = connection.due(common, attempts.now, |least| {
        Some(least == Listener::Accepted)
    });
    assert_eq!(step, Step::Late);
}

#[test]
fn an_attempt_that_nothing_awaits_is_forgotten() {
    let mut attempts = Attempts::new();
    assert_eq!(attempts.want(), Step::Connect);
    assert!(matches!(
        attempts.failed(Error::CONNREFUSED),
        Step::Retry(_)
    ));
    attempts.now += LIMIT;
    assert_eq!(attempts.due(None), Step::Nothing);
    assert_eq!(attempts.connection.failures().0, 0);
    assert_eq!(attempts.want(), Step::Connect);
}

#[test]
fn the_end_of_a_connection_depends_on_its_state() {
    let mut attempts = Attempts::new();
    let end = |attempts: &Attempts| attempts.connection.end(Error::CONNRESET);
    assert_eq!(attempts.want(), Step::Connect);
    assert_eq!(end(&attempts), Step::Fail(Error::CONNRESET));
    attempts.connection.up(&mut attempts.common, attempts.now);
    assert_eq!(attempts.common.connecting, 0);
    assert_eq!(end(&attempts), Step::End(Error::CONNRESET));
}

/// An attempt that takes its time makes room for others, and one that waits for its turn may find it unnecessary.
#[test]
fn few_attempts_are_in_progress_at_a_time() {
    let mut attempts = Attempts::new();
    let most = ATTEMPTS.first as usize;
    let mut others: Vec<Connection> = (0..most + 2).map(|_| Connection::default()).collect();
    let now = attempts.now;
    let common = &mut attempts.common;
    let steps: Vec<Step> = others.iter_mut().map(|it| it.want(common, now)).collect();
    assert_eq!(
        steps.iter().filter(|step| **step == Step::Connect).count(),
        most
    );
    assert_eq!(steps[most..], [Step::Queue, Step::Queue]);
    common.pacing.wait(most);
    common.pacing.wait(most + 1);
    // A session is queued once.
    assert_eq!(others[most].want(common, now), Step::Nothing);
    assert!(!common.pacing.is_ready());
    others[0].up(common, now);
    assert_eq!(common.pacing.take_next(), Some(most));
    // The peer was faster.
    others[most].set_state(common, State::Accepted);
    assert_eq!(others[most].take_turn(common, now), Step::Nothing);
    assert_eq!(common.pacing.take_next(), Some(most + 1));
    assert_eq!(others[most + 1].take_turn(common, now), Step::Connect);
    let mut late = Connection::default();
    while common.pacing.begin() {}
    assert_eq!(late.want(common, now), Step::Queue);
    common.pacing.wait(0);
    for other in &mut others[1..most] {
        let _ = other.due(common, now + LEASE, |_| None);
    }
    assert!(common.pacing.is_ready());
}

/// Under a slow listener, the refusal of a crossing attempt comes late, and several times.
#[test]
fn refusals_of_crossing_attempts_do_not_end_the_attempts() {
    let mut attempts = Attempts::new();
    assert_eq!(attempts.want(), Step::Connect);
    attempts.connection.awaited_by_operation();
    for nth in 0..20 {
        // The first refusal comes late, and the others at once.
        attempts.now += if nth == 0 { LIMIT / 2 } else { Duration::ZERO };
        attempts.connection.crossed();
        let Step::Retry(at) = attempts.failed(Error::CONNREFUSED) else {
            panic!("the attempts end");
        };
        attempts.now = at;
        assert_eq!(attempts.due(None), Step::Connect);
    }
    // The kernel refuses afterwards, at once and each time.
    let begun = attempts.now;
    while let Step::Retry(at) = attempts.failed(Error::CONNREFUSED) {
        attempts.now = at;
        if attempts.due(None) != Step::Connect {
            break;
        }
        assert!(attempts.now - begun < LIMIT * 2, "the attempts go on");
    }
    assert_eq!(attempts.connection.state(), State::Over);
}
