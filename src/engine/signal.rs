// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! fi_cq_signal: determines which threads a signal unblocks. `wait` does the wake-up itself.

/// fi_cq_signal: ends the wait of all threads that wait. If no thread waits, it ends the next wait.
#[derive(Default)]
pub struct Signal {
    /// Number of signals that found a waiting thread.
    round: u64,
    waiting: usize,
    /// A signal found no waiting thread.
    kept: bool,
}

/// A thread gets this when it starts to wait, and returns it at the end.
#[derive(Clone, Copy)]
pub struct Waiting(u64);

impl Signal {
    pub fn give(&mut self) {
        match self.waiting {
            0 => self.kept = true,
            _ => self.round += 1,
        }
    }

    /// Takes the signal that found no waiting thread, if any.
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
