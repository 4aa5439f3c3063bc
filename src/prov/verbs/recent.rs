// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Answers of the kernel that are some moments old. In one fi_getinfo this provider and each provider over it ask for
//! the same addresses, and an address to which there is no way takes seconds.

use core::time::Duration;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// How long an answer is used: longer than the rest of fi_getinfo takes, and too short for an application to notice.
const AGE: Duration = Duration::from_millis(200);

pub struct Recent<K, V>(Mutex<Vec<Entry<K, V>>>);

struct Entry<K, V> {
    question: K,
    answer: V,
    since: Instant,
}

impl<K: PartialEq, V: Clone> Recent<K, V> {
    pub const fn new() -> Recent<K, V> {
        Recent(Mutex::new(Vec::new()))
    }

    /// The recent answer, or a new one. Threads that ask at the same time may each find one.
    pub fn get_or(&self, question: K, find: impl FnOnce(&K) -> V) -> V {
        if let Some(answer) = self.known(&question) {
            return answer;
        }
        let answer = find(&question);
        let entry = Entry {
            question,
            answer: answer.clone(),
            since: Instant::now(),
        };
        self.entries().push(entry);
        answer
    }

    fn known(&self, question: &K) -> Option<V> {
        let mut entries = self.entries();
        entries.retain(|entry| entry.since.elapsed() < AGE);
        let entry = entries.iter().find(|entry| entry.question == *question)?;
        Some(entry.answer.clone())
    }

    fn entries(&self) -> std::sync::MutexGuard<'_, Vec<Entry<K, V>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn forget(&self) {
        self.entries().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_used_again_until_it_is_old() {
        let recent = Recent::new();
        assert_eq!(recent.get_or(1, |n| n + 1), 2);
        assert_eq!(recent.get_or(2, |n| n + 1), 3);
        assert_eq!(recent.get_or(1, |_| 0), 2);
        for entry in recent.entries().iter_mut() {
            entry.since -= AGE;
        }
        assert_eq!(recent.get_or(1, |_| 0), 0);
        assert_eq!(recent.entries().len(), 1);
        recent.forget();
        assert_eq!(recent.get_or(1, |_| 5), 5);
    }
}
