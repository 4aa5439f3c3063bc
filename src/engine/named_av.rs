// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Address vectors that processes share by name: fi_av(3), `name`, `map_addr`, FI_READ.
//!
//! A file contains the addresses in the order of their insertion. The index of an address in the file is its fi_addr_t
//! in every process, and no index is used twice. Each process has a table of its own, as for any vector. It reads new
//! entries of the file when the table lacks an index or an address, and before it changes the vector.

use core::fmt::Write;

use sha2::{Digest, Sha256};

use crate::av::AvTable;
use crate::transport::Address;
use base::{Error, Result};
use sys::shared_file::SharedFile;

pub struct NamedAv {
    file: SharedFile,
    read_only: bool,
    /// The part of the file that the table contains.
    seen: Head,
    /// The fi_addr_t of each address, by index, as the application reads it: `map_addr`.
    addresses: Box<[u64]>,
}

/// The header of the file.
#[derive(Clone, Copy, Default, PartialEq)]
struct Head {
    /// Number of addresses that follow, including removed ones.
    count: u64,
    /// Number of removed addresses.
    removed: u64,
}

struct Entry {
    bytes: Vec<u8>,
    /// Number of insertions by all processes; 0: removed.
    inserted: u32,
}

impl NamedAv {
    /// Keeps other processes from changing the vector until `unlock`. `ACCES`: the vector was opened read-only.
    pub fn lock(&self) -> Result {
        match self.read_only {
            true => Err(Error::ACCES),
            false => Ok(self.file.lock()?),
        }
    }

    pub fn unlock(&self) {
        self.file.unlock();
    }

    /// Opens a vector. Vectors of the same name and scope are the same for all processes of this user on this host.
    /// `map_addr` gets room for at least `count` addresses.
    ///
    /// `NOENT`: read-only, but no process has the vector open.
    pub fn open(scope: &[&[u8]], name: &str, read_only: bool, count: usize) -> Result<NamedAv> {
        let file = file_name(scope, name);
        let start = Head::default().to_bytes();
        let count = u64::try_from(count.clamp(MIN_PLACES, MAX_PLACES)).expect("64 bits");
        Ok(NamedAv {
            file: SharedFile::open(&file, (!read_only).then_some(&start))?,
            read_only,
            seen: Head::default(),
            addresses: (0..count).collect(),
        })
    }

    pub fn map_addr(&self) -> *const u64 {
        self.addresses.as_ptr()
    }

    fn head(&self) -> Result<Head> {
        let mut bytes = [0; HEAD];
        self.file.read_at(&mut bytes, 0)?;
        Head::from_bytes(&bytes).ok_or(Error::IO)
    }

    fn set_head(&self, head: Head) -> Result {
        Ok(self.file.write_at(&head.to_bytes(), 0)?)
    }

    fn entry(&self, at: u64) -> Result<Entry> {
        let mut bytes = [0; ENTRY as usize];
        self.file.read_at(&mut bytes, place(at)?)?;
        Entry::from_bytes(&bytes).ok_or(Error::IO)
    }

    fn set_entry(&self, at: u64, entry: &Entry) -> Result {
        Ok(self.file.write_at(&entry.to_bytes()?, place(at)?)?)
    }
}

/// Hashes the name, because names may be long and contain any characters.
fn file_name(scope: &[&[u8]], name: &str) -> String {
    let mut hash = Sha256::new();
    for part in scope.iter().chain([&name.as_bytes()]) {
        hash.update((part.len() as u64).to_ne_bytes());
        hash.update(part);
    }
    let mut file = String::from("ironfabric-av-");
    for byte in &hash.finalize()[..16] {
        // Writing to a String does not fail.
        let _ = write!(file, "{byte:02x}");
    }
    file
}

/// Limits of the number of addresses in `map_addr`.
const MIN_PLACES: usize = 1024;
const MAX_PLACES: usize = 1 << 24;

const MAGIC: &[u8; 8] = b"ironav 1";
const HEAD: usize = 24;
/// Bytes of an entry: an address and two numbers.
const ENTRY: u64 = 128;

/// Offset of an entry in the file.
fn place(at: u64) -> Result<u64> {
    let offset = at.checked_mul(ENTRY).ok_or(Error::INVAL)?;
    offset.checked_add(HEAD as u64).ok_or(Error::INVAL)
}

impl Head {
    fn to_bytes(self) -> [u8; HEAD] {
        let mut bytes = [0; HEAD];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..16].copy_from_slice(&self.count.to_ne_bytes());
        bytes[16..].copy_from_slice(&self.removed.to_ne_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; HEAD]) -> Option<Head> {
        let (magic, bytes) = bytes.split_first_chunk::<8>()?;
        let (count, bytes) = bytes.split_first_chunk()?;
        let (removed, _) = bytes.split_first_chunk()?;
        let head = Head {
            count: u64::from_ne_bytes(*count),
            removed: u64::from_ne_bytes(*removed),
        };
        (magic == MAGIC && head.removed <= head.count && head.count < u64::from(u32::MAX))
            .then_some(head)
    }
}

impl Entry {
    fn to_bytes(&self) -> Result<[u8; ENTRY as usize]> {
        let mut bytes = [0; ENTRY as usize];
        let len = u32::try_from(self.bytes.len()).map_err(|_| Error::INVAL)?;
        bytes[..4].copy_from_slice(&self.inserted.to_ne_bytes());
        bytes[4..8].copy_from_slice(&len.to_ne_bytes());
        let room = bytes.get_mut(8..8 + self.bytes.len());
        room.ok_or(Error::INVAL)?.copy_from_slice(&self.bytes);
        Ok(bytes)
    }

    fn from_bytes(bytes: &[u8; ENTRY as usize]) -> Option<Entry> {
        let (inserted, bytes) = bytes.split_first_chunk()?;
        let (len, bytes) = bytes.split_first_chunk()?;
        let len = usize::try_from(u32::from_ne_bytes(*len)).ok()?;
        Some(Entry {
            inserted: u32::from_ne_bytes(*inserted),
            bytes: bytes.get(..len)?.to_vec(),
        })
    }
}

/// Changes made by other processes.
pub struct News<A> {
    pub inserted: Vec<u64>,
    pub removed: Vec<(u64, A)>,
}

/// A change to the vector. Several are made while the file is locked once.
pub enum Change<A> {
    Insert(A),
    Remove(u64),
}

impl<A: Address> AvTable<A> {
    /// Updates the table with the contents of the file.
    pub fn read_news(&mut self) -> Result<News<A>> {
        let mut news = News {
            inserted: Vec::new(),
            removed: Vec::new(),
        };
        let Some(named) = &self.named else {
            return Ok(news);
        };
        let (head, seen) = (named.head()?, named.seen);
        if head == seen {
            return Ok(news);
        }
        let first = if head.removed == seen.removed {
            seen.count
        } else {
            0
        };
        for at in first..head.count {
            let entry = self.named.as_ref().map(|named| named.entry(at));
            let entry = entry.ok_or(Error::IO)??;
            let addr = (entry.inserted > 0).then(|| A::from_bytes(&entry.bytes));
            match (addr.flatten(), self.get(at).is_some()) {
                (None, true) => news.removed.extend(self.remove(at)?.map(|addr| (at, addr))),
                // Compares with the table, not with `seen`: an entry that could not be read before is read again at its
                // own index.
                (addr, false) if at >= self.end() => {
                    news.inserted.extend(addr.is_some().then_some(at));
                    self.append(addr);
                }
                _ => {}
            }
        }
        if let Some(named) = &mut self.named {
            named.seen = head;
        }
        Ok(news)
    }

    /// Called with the file locked and the table up to date.
    pub fn insert_named(&mut self, addr: A) -> Result<(u64, bool)> {
        let known = self.find(&addr);
        let named = self.named.as_mut().ok_or(Error::INVAL)?;
        if let Some(at) = known {
            let mut entry = named.entry(at)?;
            entry.inserted = entry.inserted.saturating_add(1);
            named.set_entry(at, &entry)?;
            return Ok((at, false));
        }
        let (at, bytes) = (named.seen.count, addr.to_bytes());
        let mut head = named.seen;
        named.set_entry(at, &Entry { bytes, inserted: 1 })?;
        head.count += 1;
        named.set_head(head)?;
        named.seen = head;
        self.append(Some(addr));
        Ok((at, true))
    }

    /// Called with the file locked and the table up to date. Returns the address if this was its last insertion.
    pub fn remove_named(&mut self, at: u64) -> Result<Option<A>> {
        self.get(at).ok_or(Error::INVAL)?;
        let named = self.named.as_mut().ok_or(Error::INVAL)?;
        let mut entry = named.entry(at)?;
        entry.inserted = entry.inserted.saturating_sub(1);
        named.set_entry(at, &entry)?;
        if entry.inserted > 0 {
            return Ok(None);
        }
        let mut head = named.seen;
        head.removed += 1;
        named.set_head(head)?;
        named.seen = head;
        self.remove(at)
    }
}

#[cfg(test)]
mod tests;
