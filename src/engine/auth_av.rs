// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The authorization keys of an address vector: fi_av(3), FI_AV_AUTH_KEY. Keys by handle, and the key of each address.
//!
//! An address has one key: the same peer under several of them would be several peers, of which the wire knows one.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::hash::Hash;

use crate::base::{Error, Result};
use crate::engine::auth::Key;

/// Handles look like no index of an address.
const FIRST: u64 = 1 << 47;

pub struct KeyTable<A> {
    /// By handle. A handle is not given again.
    keys: HashMap<u64, Key>,
    next: u64,
    /// The handle that goes with an address, by its index.
    of_index: HashMap<u64, u64>,
    /// The handles that an endpoint was enabled with, by its number.
    held: HashMap<usize, Vec<u64>>,
    /// Peers that have proved a key without being in the vector.
    strangers: HashMap<A, u64>,
    /// What the application calls a key, by its handle.
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

    /// A key that is there already keeps its handle.
    ///
    /// `NOSPC`: there are as many as an endpoint can have.
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

    /// `INVAL`: no such key. `BUSY`: an endpoint has it, or an address.
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

    /// An address of this index is for peers with this key.
    pub fn assign(&mut self, index: u64, handle: u64) {
        self.of_index.insert(index, handle);
    }

    /// The address of this index has gone.
    pub fn forget(&mut self, index: u64) {
        self.of_index.remove(&index);
    }

    /// The handle of the key that the address of this index has.
    pub fn handle_at(&self, index: u64) -> Option<u64> {
        self.of_index.get(&index).copied()
    }

    /// The key that the address of this index has.
    pub fn of(&self, index: u64) -> Option<&Key> {
        self.get(self.handle_at(index)?)
    }

    /// An endpoint is enabled with all keys that there are now: fi_av(3).
    pub fn hold(&mut self, ep: usize) -> Vec<Key> {
        self.held.insert(ep, self.keys.keys().copied().collect());
        self.all().cloned().collect()
    }

    pub fn release(&mut self, ep: usize) {
        self.held.remove(&ep);
    }

    /// A peer that is not in the vector has proved a key.
    pub fn note_stranger(&mut self, addr: A, key: &Key) {
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

    /// What the application calls a key, if it does.
    pub fn user_id(&self, handle: u64) -> Option<u64> {
        self.user_ids.get(&handle).copied()
    }

    /// The handle of the key that a peer has proved which is not in the vector.
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
