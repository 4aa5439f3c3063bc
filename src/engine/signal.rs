// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_cq_signal: who is to be unblocked by it. The wake-up itself is `wait`'s.
#![forbid(unsafe_code)]

/// fi_cq_signal: ends the wait of every thread that waits; with none, that of the next.
#[derive(Default)]
pub struct Signal {
    /// Counts the signals that met somebody.
    round: u64,
    waiting: usize,
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
            _ => self.round += 1,
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

    pub fn leave(&mut self, _waiting: Waiting) {
        self.waiting -= 1;
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
        early.into_iter().for_each(|waiting| signal.leave(waiting));
        signal.give();
        assert!(signal.came(late));
        signal.leave(late);
        signal.give();
        assert!(signal.take());
    }
}
