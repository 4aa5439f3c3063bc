// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Bytes that must not stay in memory longer than they are needed: authorization keys.
//!
//! The states of HMAC and the key of a freed `fi_info` are wiped, too (`zeroize`).
#![forbid(unsafe_code)]

use core::fmt;
use core::hash::{Hash, Hasher};
use core::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use zeroize::Zeroizing;

type Bytes = Zeroizing<Box<[u8]>>;

/// A secret. Equal secrets share one allocation, which is wiped when the last of them is dropped. Never shown, neither
/// in logs nor by `{:?}`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<Bytes>);

impl From<&[u8]> for Secret {
    fn from(bytes: &[u8]) -> Secret {
        static KNOWN: Mutex<Vec<Weak<Bytes>>> = Mutex::new(Vec::new());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |secret: &Arc<Bytes>| secret[..] == *bytes;
        if let Some(secret) = known.iter().filter_map(Weak::upgrade).find(same) {
            return Secret(secret);
        }
        known.retain(|secret| secret.strong_count() > 0);
        let secret = Arc::new(Zeroizing::new(Box::from(bytes)));
        known.push(Arc::downgrade(&secret));
        Secret(secret)
    }
}

/// Hashes the address, which is the same for the same bytes.
impl Hash for Secret {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.0).hash(state);
    }
}

impl Deref for Secret {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_bytes_are_there_once() {
        let secret = |text: &str| Secret::from(text.as_bytes());
        let (a, b, other) = (secret("once"), secret("once"), secret("twice"));
        assert_eq!(a.as_ptr(), b.as_ptr());
        assert_ne!(a.as_ptr(), other.as_ptr());
        assert!(a == b && a != other && a == a.clone());
        assert_eq!(&*other, b"twice");
        drop((a, b));
        assert_eq!(&*secret("once"), b"once");
    }

    #[test]
    fn it_is_not_shown() {
        let secret = Secret::from(&b"geheim"[..]);
        assert_eq!(format!("{secret:?}"), "Secret");
    }
}
