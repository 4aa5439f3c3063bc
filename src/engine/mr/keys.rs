// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The keys that the provider chooses (FI_MR_PROV_KEY). A key is all that a peer needs to reach a region, so nobody shall guess
//! one, also who knows all others; and the key of a closed region shall not be that of a new one.
#![forbid(unsafe_code)]

use sha2::{Digest, Sha256};

use crate::base::Result;
use crate::base::rights::NO_KEY;
use crate::sys::random::unpredictable;

/// Keys from one secret, which is asked of the kernel when the first is chosen: a hash of the secret and a number that counts
/// up gives four.
#[derive(Default)]
pub struct Keys {
    secret: Option<[u8; 32]>,
    hashes: u64,
    ready: Vec<u64>,
}

impl Keys {
    /// Any of the numbers that a key can be: that it comes twice is as likely as that it is guessed.
    pub fn next(&mut self) -> Result<u64> {
        loop {
            match self.ready.pop() {
                Some(key) if can_be_key(key) => return Ok(key),
                Some(_) => {}
                None => self.refill()?,
            }
        }
    }

    fn refill(&mut self) -> Result {
        let secret = match &mut self.secret {
            Some(secret) => secret,
            secret => secret.insert(unpredictable()?),
        };
        self.hashes += 1;
        let mut hash = Sha256::new();
        hash.update(*secret);
        hash.update(self.hashes.to_ne_bytes());
        let hash = hash.finalize();
        let (numbers, _) = hash.as_chunks();
        self.ready
            .extend(numbers.iter().copied().map(u64::from_ne_bytes));
        Ok(())
    }
}

/// Programs write 0 for a key that they do not have yet.
fn can_be_key(key: u64) -> bool {
    key != 0 && key != NO_KEY
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn keys_are_any_numbers_and_never_the_same() {
        let (mut keys, mut others) = (Keys::default(), Keys::default());
        let mut seen = HashSet::new();
        let mut bits = [0; 64];
        for _ in 0..1000 {
            for key in [keys.next().unwrap(), others.next().unwrap()] {
                assert!(can_be_key(key) && seen.insert(key));
                for (bit, count) in bits.iter_mut().enumerate() {
                    *count += key >> bit & 1;
                }
            }
        }
        // Half of 2000, and more than ten times as far from it as chance goes.
        assert!(
            bits.iter().all(|count| (700..1300).contains(count)),
            "{bits:?}"
        );
    }

    #[test]
    fn one_secret_gives_one_sequence() {
        let of = |secret| {
            let mut keys = Keys {
                secret: Some([secret; 32]),
                ..Keys::default()
            };
            [(); 9].map(|()| keys.next().unwrap())
        };
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }
}
