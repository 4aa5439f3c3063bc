// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What is written into the file of a vector, and what cannot be in it.

use super::*;

/// An address that is its own bytes.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Name(Vec<u8>);

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl Address for Name {
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Name(bytes.to_vec()))
    }
    fn to_bytes(&self) -> Vec<u8> {
        self.0.clone()
    }
}

/// The file is shorter than its header claims, and is repaired later.
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
