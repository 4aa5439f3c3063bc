// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_cq_signal: who is to be unblocked by it. The wake-up itself is `wait`'s.
#![forbid(unsafe_code)]

/// fi_cq_signal: ends the wait of every thread that waits; with none, that of the next.
#[derive(Default)]
pub struct Signal {
    /// Counts the signals that met somebody.
    round: u64,
    waiting: usize,
    /// Of those, how many have still to notice the last signal.
    owed: usize,
    /// A signal that met nobody.
    kept: bool,
}

/// Taken by a thread that waits, and given back.
#[derive(Clone, Copy)]
pub struct Waiting(u64);

impl Signal {
    pub fn give(&mut self) {
        match self.waiting {
            0 => self.kept = true,
            all => {
                self.round += 1;
                self.owed = all;
            }
        }
    }

    /// Takes a signal that met nobody.
    pub fn take(&mut self) -> bool {
        std::mem::take(&mut self.kept)
    }

    pub fn enter(&mut self) -> Waiting {
        self.waiting += 1;
        Waiting(self.round)
    }

    pub fn came(&self, waiting: Waiting) -> bool {
        waiting.0 != self.round
    }

    pub fn leave(&mut self, waiting: Waiting) {
        self.waiting -= 1;
        self.owed -= usize::from(self.came(waiting));
    }

    /// Whether somebody has still to wake up: nobody may go to sleep and put the wake-up out meanwhile.
    pub fn is_owed(&self) -> bool {
        self.owed > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_meets_nobody_is_for_the_next() {
        let mut signal = Signal::default();
        assert!(!signal.take());
        signal.give();
        signal.give();
        assert!(!signal.is_owed());
        assert!(signal.take());
        assert!(!signal.take());
    }

    #[test]
    fn a_signal_is_for_all_who_wait_and_nobody_else() {
        let mut signal = Signal::default();
        let early = [signal.enter(), signal.enter()];
        signal.give();
        let late = signal.enter();
        assert!(early.iter().all(|&waiting| signal.came(waiting)));
        assert!(!signal.came(late) && !signal.take());
        signal.leave(early[0]);
        signal.leave(late);
        assert!(signal.is_owed());
        signal.leave(early[1]);
        assert!(!signal.is_owed());
    }

    #[test]
    fn a_second_signal_is_owed_to_each_once() {
        let mut signal = Signal::default();
        let early = signal.enter();
        signal.give();
        let late = signal.enter();
        signal.give();
        signal.leave(early);
        assert!(signal.is_owed() && signal.came(late));
        signal.leave(late);
        assert!(!signal.is_owed());
    }
}
