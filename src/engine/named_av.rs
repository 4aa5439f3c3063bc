// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Address vectors that processes share by name: fi_av(3), `name`, `map_addr`, FI_READ.
//!
//! A file has the addresses in the order of their insertion: the place of an address is its fi_addr_t, in every process,
//! and no place is used twice. Each process has a table of its own, as for any vector, and reads what is new where the
//! table does not know a place or an address, and before it changes something.
#![forbid(unsafe_code)]

use core::fmt::Write;

use sha2::{Digest, Sha256};

use crate::base::{Error, Result};
use crate::engine::av::AvTable;
use crate::engine::transport::{Address, CoreOf, Transport};
use crate::sys::shared_file::SharedFile;

pub struct NamedAv {
    file: SharedFile,
    read_only: bool,
    /// What of the file is in the table.
    seen: Head,
    /// The application finds here the fi_addr_t of each address, by place: `map_addr`.
    addresses: Box<[u64]>,
}

/// What is at the beginning of the file.
#[derive(Clone, Copy, Default, PartialEq)]
struct Head {
    /// Addresses that follow, removed ones too.
    count: u64,
    /// How many of them are removed.
    removed: u64,
}

struct Entry {
    bytes: Vec<u8>,
    /// How often it was inserted, by all processes; 0: removed.
    inserted: u32,
}

impl NamedAv {
    /// Vectors of the same name and scope are the same, for all processes of this user on this host. `count`: for so many
    /// addresses, at least, `map_addr` has room.
    ///
    /// `NOENT`: to be read only, and nobody has it open.
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

/// Names may be long and have any characters.
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

/// `map_addr` has room for so many addresses at least, and at most.
const MIN_PLACES: usize = 1024;
const MAX_PLACES: usize = 1 << 24;

const MAGIC: &[u8; 8] = b"ironav 1";
const HEAD: usize = 24;
/// Bytes of an address and its two numbers.
const ENTRY: u64 = 128;

/// Where an address is in the file.
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

/// What other processes have done.
struct News<A> {
    inserted: Vec<u64>,
    removed: Vec<(u64, A)>,
}

/// What is to be done in one go, and the file is locked for.
pub enum Change<A> {
    Insert(A),
    Remove(u64),
}

impl<A: Address> AvTable<A> {
    /// Brings the table to what the file says.
    fn read_news(&mut self) -> Result<News<A>> {
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
                // By what is there, not by what was seen: an entry that could not be read is tried again in its place.
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

    /// With the file locked, and the table at what it says.
    fn insert_named(&mut self, addr: A) -> Result<(u64, bool)> {
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

    /// With the file locked, and the table at what it says. The address, if that was the last of its insertions.
    fn remove_named(&mut self, at: u64) -> Result<Option<A>> {
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

/// Learns what other processes have inserted and removed. Without effect on a vector that is not shared.
pub fn renew<T: Transport>(transport: &mut T, core: &mut CoreOf<T>, av: usize) -> Result {
    let news = core.avs[av].read_news()?;
    for at in news.inserted {
        transport.av_inserted(core, av, at);
    }
    for (at, addr) in news.removed {
        transport.av_removed(core, av, at, &addr);
    }
    Ok(())
}

/// Changes what all processes see. The results are by change: the place and whether the address is new there, or the address
/// that is gone.
///
/// `ACCES`: the vector was opened to be read.
pub fn change<T: Transport>(
    transport: &mut T,
    core: &mut CoreOf<T>,
    av: usize,
    changes: impl Iterator<Item = Result<Change<T::Addr>>>,
) -> Result<Vec<Result<u64>>> {
    let named = |core: &CoreOf<T>, act: fn(&NamedAv) -> Result| {
        core.avs[av].named.as_ref().map_or(Err(Error::INVAL), act)
    };
    named(core, |named| match named.read_only {
        true => Err(Error::ACCES),
        false => Ok(named.file.lock()?),
    })?;
    let results = renew(transport, core, av).map(|()| {
        let mut apply = |change| match change {
            Change::Insert(addr) => {
                let (at, new) = core.avs[av].insert_named(addr)?;
                if new {
                    transport.av_inserted(core, av, at);
                }
                Ok(at)
            }
            Change::Remove(at) => {
                if let Some(addr) = core.avs[av].remove_named(at)? {
                    transport.av_removed(core, av, at, &addr);
                }
                Ok(at)
            }
        };
        changes.map(|change| change.and_then(&mut apply)).collect()
    });
    named(core, |named| {
        named.file.unlock();
        Ok(())
    })?;
    results
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An address that is its own bytes.
    #[derive(Clone, PartialEq, Eq, Hash, Debug)]
    struct Name(Vec<u8>);

    impl Address for Name {
        fn len_at(_addr: *const core::ffi::c_void) -> usize {
            1
        }
        fn from_bytes(bytes: &[u8]) -> Option<Self> {
            Some(Name(bytes.to_vec()))
        }
        fn to_bytes(&self) -> Vec<u8> {
            self.0.clone()
        }
        fn text(_bytes: &[u8]) -> String {
            String::new()
        }
        fn from_text(_text: &str) -> Option<Self> {
            None
        }
        fn resolve(_node: &str, _service: &str) -> Result<Self> {
            Err(Error::INVAL)
        }
    }

    /// The file is shorter than its beginning says, then mended.
    #[test]
    fn an_entry_that_cannot_be_read_keeps_its_place() {
        let scope = [b"test".as_slice(), &std::process::id().to_ne_bytes()];
        let open = || {
            let mut table = AvTable::new();
            table.named = Some(NamedAv::open(&scope, "broken", false, 0).unwrap());
            table
        };
        let (mut writer, mut reader) = (open(), open());
        let name = |n: u8| Name(vec![n]);
        for n in 0..2 {
            assert_eq!(writer.insert_named(name(n)), Ok((n.into(), true)));
        }
        assert_eq!(writer.remove_named(1), Ok(Some(name(1))));
        let file = writer.named.as_ref().unwrap();
        let head = Head {
            count: 3,
            removed: 1,
        };
        file.set_head(head).unwrap();
        assert!(reader.read_news().is_err());
        assert!(reader.read_news().is_err());
        let entry = Entry {
            bytes: vec![2],
            inserted: 1,
        };
        file.set_entry(2, &entry).unwrap();
        reader.read_news().unwrap();
        let found = [0, 1, 2].map(|at| reader.get(at).cloned());
        assert_eq!(found, [Some(name(0)), None, Some(name(2))]);
        assert_eq!(reader.end(), 3);
    }

    #[test]
    fn what_is_written_is_read() {
        let head = Head {
            count: 7,
            removed: 3,
        };
        assert!(Head::from_bytes(&head.to_bytes()) == Some(head));
        let entry = Entry {
            bytes: vec![1; 120],
            inserted: 9,
        };
        let read = Entry::from_bytes(&entry.to_bytes().unwrap()).unwrap();
        assert_eq!((read.bytes, read.inserted), (entry.bytes, 9));
        let long = Entry {
            bytes: vec![1; 121],
            inserted: 1,
        };
        assert_eq!(long.to_bytes().err(), Some(Error::INVAL));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let head = Head {
            count: 7,
            removed: 3,
        }
        .to_bytes();
        let with = |at: usize, value: u64| {
            let mut bytes = head;
            bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
            Head::from_bytes(&bytes).is_none()
        };
        assert!(with(0, 0));
        assert!(with(8, u64::MAX));
        assert!(with(8, 2));
        assert!(with(16, 8));
        let mut entry = [0; ENTRY as usize];
        entry[4..8].copy_from_slice(&121u32.to_ne_bytes());
        assert!(Entry::from_bytes(&entry).is_none());
        entry[4..8].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert!(Entry::from_bytes(&entry).is_none());
    }
}
