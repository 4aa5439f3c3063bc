// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Accepted sockets whose peers have not identified themselves: how many there may be, which one is closed for another,
//! and which descriptors are reserved for peers that the application knows.
//!
//! At most a quarter of the descriptors may be used by these sockets. The last ones are reserved for peers in an
//! address vector (`descriptors::Free`); requests of other peers are refused there. A peer whose socket is closed tries
//! again, as after any failed attempt.
//!
//! Many peers that connect and send nothing must not slow down the application: sockets are listed by age, so the one
//! to close is found without a search, and a poll accepts at most `ACCEPTS` connections of a listener.

use core::ops::{Index, IndexMut};

use slab::Slab;

use crate::descriptors::{Free, free_descriptors};
use sys::limits::descriptors;
use sys::socket::Socket;

/// Connections of one listener that a poll accepts. The others wait in the listener's queue for the next poll; 8 take
/// about 0.2 ms.
pub const ACCEPTS: usize = 8;

/// A socket whose peer has not identified itself, with the state of its handshake.
pub trait HasSocket {
    fn socket(&self) -> &Socket;
}

/// Sockets by number, and in the order of their age.
pub struct HalfOpen<T> {
    all: Slab<Entry<T>>,
    oldest: usize,
    newest: usize,
}

struct Entry<T> {
    value: T,
    older: usize,
    newer: usize,
}

const NONE: usize = usize::MAX;
/// Sockets that are checked in a search for one to close.
const LOOKS: usize = 4;

impl<T> Default for HalfOpen<T> {
    fn default() -> HalfOpen<T> {
        HalfOpen {
            all: Slab::new(),
            oldest: NONE,
            newest: NONE,
        }
    }
}

impl<T> HalfOpen<T> {
    pub fn insert(&mut self, value: T) -> usize {
        let id = self.all.insert(Entry {
            value,
            older: NONE,
            newer: NONE,
        });
        self.append(id);
        id
    }

    pub fn remove(&mut self, id: usize) -> T {
        self.unlink(id);
        self.all.remove(id).value
    }

    pub fn contains(&self, id: usize) -> bool {
        self.all.contains(id)
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn get(&self, id: usize) -> Option<&T> {
        self.all.get(id).map(|entry| &entry.value)
    }

    pub fn get_mut(&mut self, id: usize) -> Option<&mut T> {
        self.all.get_mut(id).map(|entry| &mut entry.value)
    }

    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.all.iter().map(|(id, entry)| (id, &entry.value))
    }

    pub fn oldest(&self) -> Option<(usize, &T)> {
        Some((self.oldest, self.get(self.oldest)?))
    }

    fn append(&mut self, id: usize) {
        self.all[id].older = self.newest;
        match self.newest {
            NONE => self.oldest = id,
            newest => self.all[newest].newer = id,
        }
        self.newest = id;
    }

    fn unlink(&mut self, id: usize) {
        let entry = &mut self.all[id];
        let older = core::mem::replace(&mut entry.older, NONE);
        let newer = core::mem::replace(&mut entry.newer, NONE);
        match older {
            NONE => self.oldest = newer,
            older => self.all[older].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.all[newer].older = older,
        }
    }
}

impl<T: HasSocket> HalfOpen<T> {
    /// Whether there are so many sockets, or so few free descriptors, that one of them has to be closed for the newest.
    pub fn is_crowded(&self) -> bool {
        self.len() > most(descriptors()) || free_descriptors() == Free::Few
    }

    /// The socket to close for another one: the oldest whose peer has sent nothing. A socket with bytes that were not
    /// read yet is about to be handled, so it counts as new. `spared` is not closed.
    pub fn oldest_silent(&mut self, spared: Option<usize>) -> Option<usize> {
        for _ in 0..LOOKS.min(self.len()) {
            let (id, value) = self.oldest()?;
            if Some(id) != spared && value.socket().unread() == 0 {
                return Some(id);
            }
            self.unlink(id);
            self.append(id);
        }
        None
    }
}

impl<T> Index<usize> for HalfOpen<T> {
    type Output = T;

    fn index(&self, id: usize) -> &T {
        &self.all[id].value
    }
}

impl<T> IndexMut<usize> for HalfOpen<T> {
    fn index_mut(&mut self, id: usize) -> &mut T {
        &mut self.all[id].value
    }
}

fn most(limit: usize) -> usize {
    (limit / 4).clamp(16, 4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl HasSocket for Socket {
        fn socket(&self) -> &Socket {
            self
        }
    }

    fn by_age<T>(sockets: &HalfOpen<T>) -> Vec<usize> {
        let next = |&id: &usize| Some(sockets.all[id].newer).filter(|&id| id != NONE);
        let first = sockets.oldest().map(|(id, _)| id);
        core::iter::successors(first, next).collect()
    }

    #[test]
    fn sockets_are_kept_by_age() {
        let mut sockets = HalfOpen::default();
        let ids = [0, 1, 2, 3].map(|number| sockets.insert(number));
        assert_eq!(by_age(&sockets), ids);
        assert_eq!(sockets.remove(ids[1]), 1);
        assert_eq!(sockets.remove(ids[3]), 3);
        assert_eq!(by_age(&sockets), [ids[0], ids[2]]);
        // A number that is reused belongs to the newest socket.
        let again = sockets.insert(4);
        assert_eq!(by_age(&sockets), [ids[0], ids[2], again]);
        for id in [ids[0], again, ids[2]] {
            sockets.remove(id);
        }
        assert_eq!((sockets.len(), by_age(&sockets)), (0, vec![]));
        assert!(sockets.oldest().is_none());
    }

    #[test]
    fn the_oldest_silent_socket_is_found_without_a_search() {
        let mut sockets = HalfOpen::default();
        let mut peers = Vec::new();
        for _ in 0..9 {
            let (own, peer) = Socket::pair().unwrap();
            sockets.insert(own);
            peers.push(peer);
        }
        assert_eq!(sockets.oldest_silent(None), Some(0));
        for peer in &peers[..6] {
            peer.write(b"x").unwrap();
        }
        // Few sockets are checked; the next search continues after them.
        assert_eq!(sockets.oldest_silent(None), None);
        assert_eq!(sockets.oldest_silent(None), Some(6));
        assert_eq!(sockets.oldest_silent(Some(6)), Some(7));
    }

    #[test]
    fn limits_follow_the_descriptors_of_the_process() {
        for (limit, half_open) in [(0, 16), (20, 16), (1024, 256), (1 << 20, 4096)] {
            assert_eq!(most(limit), half_open, "{limit}");
        }
        assert_eq!(most(usize::MAX), 4096);
        assert!(!HalfOpen::<Socket>::default().is_crowded());
    }
}
