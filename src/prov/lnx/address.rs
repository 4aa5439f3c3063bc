// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The name of an endpoint: its host, and the name of each of its rails. The layout is that of any libfabric's lnx;
//! this library adds an extension with the identity of the host and of its namespaces: docs/wire/lnx.md.

use core::fmt;
use core::hash::{Hash, Hasher};
use core::net::{SocketAddr, SocketAddrV6};
use std::ffi::CStr;
use std::sync::Arc;

use base::{Error, Result};
use engine::address::{Address, AddressFormat};
use object::AddrForm;
use object::linked::{HEAD, MARK, NAME, PART, PARTS, SHORT};
use sys::addr;

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
    /// A random number of an endpoint of this library, which notes to it have.
    pub nonce: u32,
}

/// The name of a rail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub fabric: Vec<u8>,
    pub bytes: Vec<u8>,
    /// `tag_of` the provider's name, in names of this library.
    pub provider: Option<u8>,
}

impl Part {
    /// Whether only processes of its network namespace reach it.
    pub fn is_loopback(&self) -> bool {
        addr::from_bytes(&self.bytes).is_some_and(|addr| addr.ip().is_loopback())
    }
}

/// A number of the host, of the namespace or the folder in which its processes find each other's shared memory, and of
/// the user to whom that belongs.
/// Endpoints with different numbers share none; equal ones of different places are as likely as any two random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin(u64);

impl Origin {
    /// `boot` is a random number of the host.
    pub fn new(boot: [u8; 16], (device, number): (u64, u64), user: u32) -> Origin {
        let (halves, _) = boot.as_chunks();
        let half = |at: usize| u64::from_ne_bytes(halves[at]);
        let place = device.rotate_left(40) ^ number.rotate_left(13);
        Origin(half(0) ^ half(1).rotate_left(7) ^ place ^ u64::from(user).rotate_left(27))
    }
}

/// A short number for a provider's name, which distinguishes the providers of a link.
pub fn tag_of(provider: &CStr) -> u8 {
    let bytes = provider.to_bytes().iter();
    bytes.fold(1, |tag: u8, byte| {
        tag.wrapping_mul(31).wrapping_add(byte.to_ascii_lowercase())
    })
}

impl Addr {
    pub fn new(host: &str, parts: Vec<Part>, origin: Option<Origin>, nonce: u32) -> Addr {
        let mark = if origin.is_some() { MARK } else { [0; 4] };
        let mut bytes = padded(host.as_bytes(), NAME - 4);
        bytes.extend(mark);
        bytes.extend((parts.len() as u32).to_ne_bytes());
        bytes.extend(mark);
        for part in &parts {
            bytes.extend(padded(&part.fabric, NAME));
            bytes.extend((part.bytes.len() as u64).to_ne_bytes());
            bytes.extend(&part.bytes);
        }
        if let Some(Origin(number)) = origin {
            // Length, number of the place, providers, number of the endpoint.
            bytes.extend((4 + 8 + parts.len() as u32 + 4).to_ne_bytes());
            bytes.extend(number.to_ne_bytes());
            bytes.extend(parts.iter().map(|part| part.provider.unwrap_or_default()));
            bytes.extend(nonce.to_ne_bytes());
        }
        Addr(Arc::new(Name {
            bytes,
            host: until_zero(&padded(host.as_bytes(), NAME - 4)),
            parts,
            origin,
            nonce,
        }))
    }

    pub fn name(&self) -> &Name {
        &self.0
    }

    /// The bytes by which all members of a group identify the endpoint, whatever the form of its name.
    pub fn identity(&self) -> Vec<u8> {
        let mut bytes = self.0.nonce.to_be_bytes().to_vec();
        for part in &self.0.parts {
            bytes.extend(&part.bytes);
        }
        bytes
    }

    /// The name in the form for short buffers, which only this library understands. None if it has no such form.
    ///
    /// `SHORT`, length, numbers of the place and of the endpoint, and for each rail the provider and its address: the
    /// number of bytes and text or other bytes, or 254 and an IPv4 address, or 255 and an IPv6 address.
    pub fn short_form(&self) -> Option<Vec<u8>> {
        let Origin(number) = self.0.origin?;
        let mut bytes = SHORT.to_vec();
        bytes.push(0);
        bytes.extend(number.to_ne_bytes());
        bytes.extend(self.0.nonce.to_ne_bytes());
        for part in &self.0.parts {
            bytes.push(part.provider?);
            match (part.bytes.len(), addr::from_bytes(&part.bytes)) {
                (V4_LEN, Some(SocketAddr::V4(at))) => {
                    bytes.push(IPV4);
                    bytes.extend(at.ip().octets());
                    bytes.extend(at.port().to_be_bytes());
                }
                (V6_LEN, Some(SocketAddr::V6(at))) => {
                    bytes.push(IPV6);
                    bytes.extend(at.ip().octets());
                    bytes.extend(at.port().to_be_bytes());
                    bytes.extend(at.scope_id().to_be_bytes());
                }
                (len, _) => {
                    bytes.push(u8::try_from(len).ok().filter(|&len| len < IPV4)?);
                    bytes.extend(&part.bytes);
                }
            }
        }
        bytes[SHORT.len()] = u8::try_from(bytes.len()).ok()?;
        Some(bytes)
    }

    fn from_short_form(bytes: &[u8]) -> Option<Addr> {
        let len = usize::from(*bytes.get(SHORT.len())?);
        let whole = bytes.get(..len)?;
        let mut rest = whole.get(SHORT.len() + 1..)?;
        let origin = Origin(number(&mut rest)?);
        let nonce = half(&mut rest)?;
        let mut parts = Vec::new();
        while let Some(&[provider, kind]) = take(&mut rest, 2).and_then(<[u8]>::first_chunk) {
            let bytes = match kind {
                IPV4 => {
                    let ip: [u8; 4] = *take(&mut rest, 4)?.first_chunk()?;
                    let port = u16::from_be_bytes(*take(&mut rest, 2)?.first_chunk()?);
                    addr::to_bytes(&(ip, port).into())
                }
                IPV6 => {
                    let ip: [u8; 16] = *take(&mut rest, 16)?.first_chunk()?;
                    let port = u16::from_be_bytes(*take(&mut rest, 2)?.first_chunk()?);
                    let scope = u32::from_be_bytes(*take(&mut rest, 4)?.first_chunk()?);
                    addr::to_bytes(&SocketAddrV6::new(ip.into(), port, 0, scope).into())
                }
                len => take(&mut rest, len.into())?.to_vec(),
            };
            parts.push(Part {
                fabric: Vec::new(),
                bytes,
                provider: Some(provider),
            });
        }
        let name = Name {
            bytes: whole.to_vec(),
            host: Vec::new(),
            parts,
            origin: Some(origin),
            nonce,
        };
        (rest.is_empty() && !name.parts.is_empty()).then(|| Addr(Arc::new(name)))
    }
}

/// Instead of a length in the short form.
const IPV4: u8 = 254;
const IPV6: u8 = 255;
/// Bytes of socket addresses.
const V4_LEN: usize = 16;
const V6_LEN: usize = 28;

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

fn half(bytes: &mut &[u8]) -> Option<u32> {
    take(bytes, 4).and_then(|bytes| Some(u32::from_ne_bytes(*bytes.first_chunk()?)))
}

fn number(bytes: &mut &[u8]) -> Option<u64> {
    take(bytes, 8).and_then(|bytes| Some(u64::from_ne_bytes(*bytes.first_chunk()?)))
}

impl Address for Addr {
    fn from_bytes(bytes: &[u8]) -> Option<Addr> {
        if bytes.starts_with(&SHORT) {
            return Addr::from_short_form(bytes);
        }
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
                provider: None,
            });
        }
        let is_marked = head[NAME + 4..] == MARK && head[NAME - 4..NAME] == MARK;
        let (origin, nonce) = match is_marked {
            true => {
                let (origin, nonce) = extension(&mut rest, &mut parts)?;
                (Some(origin), nonce)
            }
            false => (None, 0),
        };
        let used = bytes.len() - rest.len();
        let host = until_zero(&head[..NAME - if is_marked { 4 } else { 0 }]);
        let name = Name {
            bytes: bytes[..used].to_vec(),
            host,
            parts,
            origin,
            nonce,
        };
        Some(Addr(Arc::new(name)))
    }

    fn to_bytes(&self) -> Vec<u8> {
        self.0.bytes.clone()
    }
}

/// Takes the extension off. Later releases may add more at its end.
fn extension(rest: &mut &[u8], parts: &mut [Part]) -> Option<(Origin, u32)> {
    let len = u32::from_ne_bytes(*rest.first_chunk()?) as usize;
    let mut bytes = take(rest, len)?;
    take(&mut bytes, 4)?;
    let origin = Origin(number(&mut bytes)?);
    for part in parts {
        part.provider = Some(take(&mut bytes, 1)?[0]);
    }
    Some((origin, half(&mut bytes)?))
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
                _ if part.bytes.len() == V4_LEN || part.bytes.len() == V6_LEN => {
                    match addr::from_bytes(&part.bytes) {
                        Some(addr) => write!(f, "{addr}")?,
                        None => f.write_str("?")?,
                    }
                }
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
        let part = |fabric: &[u8], bytes: &[u8], provider: &CStr| Part {
            fabric: fabric.to_vec(),
            bytes: bytes.to_vec(),
            provider: Some(tag_of(provider)),
        };
        let v4 = addr::to_bytes(&"10.0.0.1:8080".parse().unwrap());
        let v6 = addr::to_bytes(&"[fe80::1%7]:9".parse().unwrap());
        vec![
            part(b"shm", b"fi_shm://7:0:fi0\0", c"shm"),
            part(b"10.0.0.0/24", &v4, c"tcp;ofi_rxm"),
            part(b"fe80::/64", &v6, c"tcp;ofi_rxm"),
        ]
    }

    fn origin() -> Option<Origin> {
        Some(Origin::new([5; 16], (3, 4), 1000))
    }

    #[test]
    fn both_forms_of_a_name_identify_the_same_endpoint() {
        let part = |bytes: Vec<u8>| Part {
            fabric: b"f".to_vec(),
            bytes,
            provider: Some(1),
        };
        let parts = vec![
            part(b"shm\0".to_vec()),
            part(addr::to_bytes(&"127.0.0.1:5000".parse().unwrap())),
            part(addr::to_bytes(&"[fe80::1]:5000".parse().unwrap())),
        ];
        let origin = Origin::new([1; 16], (2, 3), 4);
        let whole = Addr::new("host", parts, Some(origin), 77);
        let short = Addr::from_bytes(&whole.short_form().unwrap()).unwrap();
        assert_eq!(whole.identity(), short.identity());
    }

    #[test]
    fn names_are_read_back() {
        let plain = |part| Part {
            provider: None,
            ..part
        };
        let plain = parts().into_iter().map(plain).collect();
        for addr in [
            Addr::new("node7", parts(), origin(), 77),
            Addr::new("node7", plain, None, 0),
            Addr::new(&"n".repeat(99), parts(), origin(), 77),
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
    fn the_short_form_has_what_leads_to_the_endpoint() {
        let addr = Addr::new("node7", parts()[..2].to_vec(), origin(), 77);
        let short = addr.short_form().unwrap();
        // fi_cm(3): programs have buffers of FI_NAME_MAX bytes.
        assert!(short.len() <= 64, "{}", short.len());
        for addr in [addr, Addr::new("node7", parts(), origin(), 77)] {
            let short = addr.short_form().unwrap();
            let read = Addr::from_bytes(&short).unwrap();
            assert_eq!(
                (read.to_bytes(), read.name().origin),
                (short.clone(), origin())
            );
            for (part, other) in read.name().parts.iter().zip(&addr.name().parts) {
                assert_eq!((&part.bytes, part.provider), (&other.bytes, other.provider));
            }
            assert_eq!(read.name().parts.len(), addr.name().parts.len());
            for len in 0..short.len() {
                assert_eq!(Addr::from_bytes(&short[..len]), None, "{len}");
            }
            let longer = [&short[..], &[1; 9]].concat();
            assert_eq!(Addr::from_bytes(&longer), Some(read));
        }
        assert_eq!(Addr::new("node7", parts(), None, 0).short_form(), None);
        let mut long = parts();
        long[0].bytes = vec![b'x'; 254];
        assert_eq!(Addr::new("node7", long, origin(), 77).short_form(), None);
    }

    #[test]
    fn the_layout_is_upstreams() {
        let bytes = Addr::new("node7", parts(), origin(), 77).to_bytes();
        assert_eq!(
            (&bytes[..6], &bytes[64..68]),
            (&b"node7\0"[..], &[3, 0, 0, 0][..])
        );
        assert_eq!(&bytes[72..76], b"shm\0");
        assert_eq!((bytes[136], &bytes[144..153]), (17, &b"fi_shm://"[..]));
        assert_eq!((&bytes[161..165], bytes[225]), (&b"10.0"[..], 16));
    }

    #[test]
    fn wrong_names_are_none() {
        let good = Addr::new("node7", parts(), origin(), 77).to_bytes();
        for (at, byte) in [(64, 0), (64, 200), (68, 0), (140, 1), (143, 0x80)] {
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
        let addr = Addr::new("node7", parts()[..2].to_vec(), None, 0);
        let text = "fi_lnx://node7[shm=fi_shm://7:0:fi0, 10.0.0.0/24=10.0.0.1:8080]";
        assert_eq!(Format.text(&addr.to_bytes()), text);
        assert_eq!(Format.text(&[0; 80]), "");
        assert_eq!(Format.parse(text), None);
    }
}
