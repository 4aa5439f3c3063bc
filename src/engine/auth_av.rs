// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The authorization keys of an address vector: fi_av(3), FI_AV_AUTH_KEY. Keys by handle, and the key of each address.
//!
//! An address has exactly one key. With several keys one address would be several peers, but the wire knows only one.

use std::collections::HashMap;
use std::hash::Hash;

use crate::auth::Key;
use base::{Error, Result};

/// First handle. Handles cannot be confused with indexes of addresses.
const FIRST: u64 = 1 << 47;

pub struct KeyTable<A> {
    /// Keys by handle. A handle is not reused.
    keys: HashMap<u64, Key>,
    next: u64,
    /// Handle of the key of each address, by the index of the address.
    of_index: HashMap<u64, u64>,
    /// Handles of the keys with which an endpoint was enabled, by the number of the endpoint.
    held: HashMap<usize, Vec<u64>>,
    /// Key handles of peers that have proved a key but are not in the vector.
    strangers: HashMap<A, u64>,
    /// Identifiers that the application has set for keys, by handle.
    user_ids: HashMap<u64, u64>,
}

impl<A: Eq + Hash> KeyTable<A> {
    pub fn new() -> Self {
        KeyTable {
            keys: HashMap::new(),
            next: FIRST,
            of_index: HashMap::new(),
            held: HashMap::new(),
            strangers: HashMap::new(),
            user_ids: HashMap::new(),
        }
    }

    /// Returns the old handle if the key was inserted before.
    ///
    /// `NOSPC`: an endpoint cannot have more keys.
    pub fn insert(&mut self, key: Key, most: usize) -> Result<u64> {
        if let Some(handle) = self.handle_of(&key) {
            return Ok(handle);
        }
        if self.keys.len() >= most {
            return Err(Error::NOSPC);
        }
        let handle = self.next;
        self.next += 1;
        self.keys.insert(handle, key);
        Ok(handle)
    }

    /// `INVAL`: no such key. `BUSY`: an endpoint or an address uses it.
    pub fn remove(&mut self, handle: u64) -> Result {
        if !self.keys.contains_key(&handle) {
            return Err(Error::INVAL);
        }
        let held = self.held.values().any(|held| held.contains(&handle));
        if held || self.of_index.values().any(|&of| of == handle) {
            return Err(Error::BUSY);
        }
        self.keys.remove(&handle);
        self.strangers.retain(|_, of| *of != handle);
        self.user_ids.remove(&handle);
        Ok(())
    }

    pub fn get(&self, handle: u64) -> Option<&Key> {
        self.keys.get(&handle)
    }

    pub fn handle_of(&self, key: &Key) -> Option<u64> {
        let mut all = self.keys.iter();
        all.find_map(|(&handle, known)| (known == key).then_some(handle))
    }

    pub fn all(&self) -> impl Iterator<Item = &Key> {
        self.keys.values()
    }

    /// Sets the key of the address at this index.
    pub fn assign(&mut self, index: u64, handle: u64) {
        self.of_index.insert(index, handle);
    }

    /// Called when the address at this index is removed.
    pub fn forget(&mut self, index: u64) {
        self.of_index.remove(&index);
    }

    /// The handle of the key that belongs to the address at this index.
    pub fn handle_at(&self, index: u64) -> Option<u64> {
        self.of_index.get(&index).copied()
    }

    /// The key that belongs to the address at this index.
    pub fn of(&self, index: u64) -> Option<&Key> {
        self.get(self.handle_at(index)?)
    }

    /// Gives an endpoint that is enabled all present keys: fi_av(3).
    pub fn hold(&mut self, ep: usize) -> Vec<Key> {
        self.held.insert(ep, self.keys.keys().copied().collect());
        self.all().cloned().collect()
    }

    pub fn release(&mut self, ep: usize) {
        self.held.remove(&ep);
    }

    /// Records that a peer outside the vector has proved a key.
    pub fn record_stranger(&mut self, addr: A, key: &Key) {
        if let Some(handle) = self.handle_of(key) {
            self.strangers.insert(addr, handle);
        }
    }

    /// fi_av_set_user_id with FI_AUTH_KEY.
    pub fn set_user_id(&mut self, handle: u64, id: u64) -> Result {
        match self.keys.contains_key(&handle) {
            true => {
                self.user_ids.insert(handle, id);
                Ok(())
            }
            false => Err(Error::INVAL),
        }
    }

    /// The identifier that the application has set for a key, if any.
    pub fn user_id(&self, handle: u64) -> Option<u64> {
        self.user_ids.get(&handle).copied()
    }

    /// The handle of the key that was proved by a peer outside the vector.
    pub fn of_stranger(&self, addr: &A) -> Option<u64> {
        self.strangers.get(addr).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Key {
        let key = Key::given(text.len(), Some(text.as_bytes()), None, 64);
        key.unwrap().unwrap()
    }

    #[test]
    fn a_key_keeps_its_handle() {
        let mut table = KeyTable::<u8>::new();
        let (a, b) = (table.insert(key("a"), 2), table.insert(key("b"), 2));
        assert_ne!(a, b);
        assert_eq!(table.insert(key("a"), 2), a);
        assert_eq!(table.insert(key("c"), 2), Err(Error::NOSPC));
        assert_eq!(table.get(a.unwrap()), Some(&key("a")));
        assert_eq!(table.get(0), None);
    }

    #[test]
    fn a_key_in_use_stays() {
        let mut table = KeyTable::<u8>::new();
        let a = table.insert(key("a"), 2).unwrap();
        assert_eq!(table.hold(5), [key("a")]);
        table.assign(3, a);
        assert_eq!(table.remove(a), Err(Error::BUSY));
        table.release(5);
        assert_eq!(table.remove(a), Err(Error::BUSY));
        assert_eq!(table.of(3), Some(&key("a")));
        table.forget(3);
        assert_eq!(table.remove(a), Ok(()));
        assert_eq!(table.remove(a), Err(Error::INVAL));
        assert_ne!(table.insert(key("b"), 2), Ok(a));
    }

    #[test]
    fn later_keys_do_not_reach_an_enabled_endpoint() {
        let mut table = KeyTable::<u8>::new();
        table.insert(key("a"), 2).unwrap();
        table.hold(5);
        let b = table.insert(key("b"), 2).unwrap();
        assert_eq!(table.remove(b), Ok(()));
    }
}
