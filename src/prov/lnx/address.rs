// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The name of an endpoint: its host, and the name of each of its rails. The layout is that of any libfabric's lnx;
//! this library adds an extension with the identity of the host and of its namespaces: docs/wire/lnx.md.

use core::fmt;
use core::hash::{Hash, Hasher};
use std::sync::Arc;

use base::{Error, Result};
use engine::address::{Address, AddressFormat};
use object::AddrForm;
use object::linked::{EXTENSION, HEAD, MARK, NAME, PART, PARTS};

/// A name that was parsed. Copies share it.
#[derive(Clone)]
pub struct Addr(Arc<Name>);

#[derive(Debug, PartialEq, Eq)]
pub struct Name {
    bytes: Vec<u8>,
    pub host: Vec<u8>,
    pub parts: Vec<Part>,
    /// Of an endpoint of this library.
    pub origin: Option<Origin>,
}

/// The name of a rail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub fabric: Vec<u8>,
    pub bytes: Vec<u8>,
    /// The provider's name, if the extension has it.
    pub provider: Vec<u8>,
}

/// Where an endpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    pub boot: [u8; 16],
    /// The namespace, or the folder, in which processes find each other's shared memory.
    pub place: (u64, u64),
}

impl Addr {
    pub fn new(host: &str, parts: Vec<Part>, origin: Option<Origin>) -> Addr {
        let mut bytes = padded(host.as_bytes(), NAME - 4);
        bytes.extend(if origin.is_some() { MARK } else { [0; 4] });
        bytes.extend((parts.len() as u32).to_ne_bytes());
        bytes.extend(if origin.is_some() { MARK } else { [0; 4] });
        for part in &parts {
            bytes.extend(padded(&part.fabric, NAME));
            bytes.extend((part.bytes.len() as u64).to_ne_bytes());
            bytes.extend(&part.bytes);
        }
        if let Some(origin) = &origin {
            bytes.extend(origin.extension(&parts));
        }
        Addr(Arc::new(Name {
            bytes,
            host: until_zero(&padded(host.as_bytes(), NAME - 4)),
            parts,
            origin,
        }))
    }

    pub fn name(&self) -> &Name {
        &self.0
    }
}

impl Origin {
    /// Length, identity of the host, place, and a name for each part, which begins with its length.
    fn extension(&self, parts: &[Part]) -> Vec<u8> {
        let mut bytes = vec![0; 4];
        bytes.extend(self.boot);
        bytes.extend(self.place.0.to_ne_bytes());
        bytes.extend(self.place.1.to_ne_bytes());
        for part in parts {
            let name = &part.provider[..part.provider.len().min(u8::MAX.into())];
            bytes.push(name.len() as u8);
            bytes.extend(name);
        }
        bytes.truncate(EXTENSION);
        let len = bytes.len() as u32;
        bytes[..4].copy_from_slice(&len.to_ne_bytes());
        bytes
    }
}

fn padded(bytes: &[u8], len: usize) -> Vec<u8> {
    // One zero at least ends it.
    let mut out = bytes[..bytes.len().min(len - 1)].to_vec();
    out.resize(len, 0);
    out
}

fn until_zero(bytes: &[u8]) -> Vec<u8> {
    bytes
        .iter()
        .copied()
        .take_while(|&byte| byte != 0)
        .collect()
}

/// Takes the first bytes off.
fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (first, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(first)
}

fn number(bytes: &mut &[u8]) -> Option<u64> {
    take(bytes, 8).and_then(|bytes| Some(u64::from_ne_bytes(*bytes.first_chunk()?)))
}

impl Address for Addr {
    fn from_bytes(bytes: &[u8]) -> Option<Addr> {
        let mut rest = bytes;
        let head = take(&mut rest, HEAD)?;
        let count = u32::from_ne_bytes(*head[NAME..].first_chunk()?) as usize;
        if count == 0 || count > PARTS {
            return None;
        }
        let mut parts = Vec::new();
        for _ in 0..count {
            let mut part = take(&mut rest, PART)?;
            let fabric = until_zero(take(&mut part, NAME)?);
            let len = usize::try_from(number(&mut part)?).ok()?;
            parts.push(Part {
                fabric,
                bytes: take(&mut rest, len)?.to_vec(),
                provider: Vec::new(),
            });
        }
        let is_marked = head[NAME + 4..] == MARK && head[NAME - 4..NAME] == MARK;
        let origin = match is_marked {
            true => Some(extension(&mut rest, &mut parts)?),
            false => None,
        };
        let used = bytes.len() - rest.len();
        let host = until_zero(&head[..NAME - if is_marked { 4 } else { 0 }]);
        let name = Name {
            bytes: bytes[..used].to_vec(),
            host,
            parts,
            origin,
        };
        Some(Addr(Arc::new(name)))
    }

    fn to_bytes(&self) -> Vec<u8> {
        self.0.bytes.clone()
    }
}

fn extension(rest: &mut &[u8], parts: &mut [Part]) -> Option<Origin> {
    let len = u32::from_ne_bytes(*rest.first_chunk()?) as usize;
    let mut bytes = take(rest, len)?;
    take(&mut bytes, 4)?;
    let boot = *take(&mut bytes, 16)?.first_chunk()?;
    let place = (number(&mut bytes)?, number(&mut bytes)?);
    for part in parts {
        let len = take(&mut bytes, 1)?[0];
        part.provider = take(&mut bytes, len.into())?.to_vec();
    }
    // Later releases may add more.
    Some(Origin { boot, place })
}

impl PartialEq for Addr {
    fn eq(&self, other: &Addr) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.bytes == other.0.bytes
    }
}

impl Eq for Addr {}

impl Hash for Addr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // The names of the rails differ from endpoint to endpoint; the rest is long and mostly equal.
        for part in &self.0.parts {
            part.bytes.hash(state);
        }
    }
}

/// `host[fabric=bytes, fabric=bytes]`, the bytes as text where they are, or in hexadecimal.
impl fmt::Display for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[", String::from_utf8_lossy(&self.0.host))?;
        for (at, part) in self.0.parts.iter().enumerate() {
            let between = if at == 0 { "" } else { ", " };
            write!(f, "{between}{}=", String::from_utf8_lossy(&part.fabric))?;
            match part.bytes.split_last() {
                Some((0, text)) if text.iter().all(u8::is_ascii_graphic) => {
                    f.write_str(&String::from_utf8_lossy(text))?;
                }
                _ => part
                    .bytes
                    .iter()
                    .try_for_each(|byte| write!(f, "{byte:02x}"))?,
            }
        }
        f.write_str("]")
    }
}

impl fmt::Debug for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The format of all domains.
#[derive(Clone, Copy, Debug, Default)]
pub struct Format;

impl AddressFormat for Format {
    type Addr = Addr;

    fn form(&self) -> AddrForm {
        AddrForm::Linked
    }

    fn text(&self, bytes: &[u8]) -> String {
        Addr::from_bytes(bytes).map_or(String::new(), |addr| format!("fi_lnx://{addr}"))
    }

    /// The text has not all that an address has.
    fn parse(&self, _text: &str) -> Option<Addr> {
        None
    }

    fn resolve(&self, _node: &str, _service: &str) -> Result<Addr> {
        Err(Error::NOSYS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts() -> Vec<Part> {
        let part = |fabric: &[u8], bytes: &[u8], provider: &[u8]| Part {
            fabric: fabric.to_vec(),
            bytes: bytes.to_vec(),
            provider: provider.to_vec(),
        };
        vec![
            part(b"shm", b"fi_shm://7:0:fi0\0", b"shm"),
            part(
                b"10.0.0.0/24",
                &[2, 0, 31, 144, 10, 0, 0, 1],
                b"tcp;ofi_rxm",
            ),
        ]
    }

    const ORIGIN: Origin = Origin {
        boot: [5; 16],
        place: (3, 4),
    };

    #[test]
    fn names_are_read_back() {
        let plain = parts()
            .into_iter()
            .map(|part| Part {
                provider: Vec::new(),
                ..part
            })
            .collect();
        for addr in [
            Addr::new("node7", parts(), Some(ORIGIN)),
            Addr::new("node7", plain, None),
            Addr::new(&"n".repeat(99), parts(), Some(ORIGIN)),
        ] {
            let bytes = addr.to_bytes();
            let read = Addr::from_bytes(&bytes).unwrap();
            assert_eq!(read.name(), addr.name());
            assert_eq!(read, addr);
            // What follows belongs to something else.
            let longer = [&bytes[..], &[1; 9]].concat();
            assert_eq!(Addr::from_bytes(&longer), Some(addr));
            for len in 0..bytes.len() {
                assert_eq!(Addr::from_bytes(&bytes[..len]), None, "{len}");
            }
        }
    }

    #[test]
    fn the_layout_is_upstreams() {
        let bytes = Addr::new("node7", parts(), Some(ORIGIN)).to_bytes();
        assert_eq!(
            (&bytes[..6], &bytes[64..68]),
            (&b"node7\0"[..], &[2, 0, 0, 0][..])
        );
        assert_eq!(&bytes[72..76], b"shm\0");
        assert_eq!((bytes[136], &bytes[144..153]), (17, &b"fi_shm://"[..]));
        assert_eq!((&bytes[161..165], bytes[225]), (&b"10.0"[..], 8));
    }

    #[test]
    fn wrong_names_are_none() {
        let good = Addr::new("node7", parts(), Some(ORIGIN)).to_bytes();
        for (at, byte) in [(64, 0), (64, 200), (68, 0), (140, 1), (143, 0x80), (241, 9)] {
            let mut bytes = good.clone();
            bytes[at] = byte;
            // Without one of its marks the extension is not one.
            let is_plain = at == 68;
            let read = Addr::from_bytes(&bytes);
            assert_eq!(read.is_some(), is_plain, "{at}");
            assert!(read.is_none_or(|addr| addr.name().origin.is_none()));
        }
    }

    #[test]
    fn text_is_for_people() {
        let addr = Addr::new("node7", parts(), None);
        let text = "fi_lnx://node7[shm=fi_shm://7:0:fi0, 10.0.0.0/24=02001f900a000001]";
        assert_eq!(Format.text(&addr.to_bytes()), text);
        assert_eq!(Format.text(&[0; 80]), "");
        assert_eq!(Format.parse(text), None);
    }
}
