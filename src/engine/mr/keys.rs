// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Keys that the provider chooses (FI_MR_PROV_KEY). A peer needs only the key to access a region, so a key must not be
//! predictable, even from all other keys. The key of a closed region must not be reused.

use sha2::{Digest, Sha256};

use base::Result;
use base::rights::NO_KEY;
use sys::random::unpredictable;

/// Generates keys from one secret, which the kernel provides when the first key is needed: each hash of the secret and
/// a counter yields four keys.
#[derive(Default)]
pub struct Keys {
    secret: Option<[u8; 32]>,
    hashes: u64,
    ready: Vec<u64>,
}

impl Keys {
    /// Returns a random number that is valid as a key. A repetition is as unlikely as a correct guess.
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

/// 0 is excluded, because programs use it for a key that they do not have yet.
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
        // The expected count is 1000; the limits are more than ten times as far from it as random deviations.
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
