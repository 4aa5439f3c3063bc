// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Names of endpoints: strings in the format FI_ADDR_STR, fi_shm(7), and the socket on which the endpoint of a name
//! listens.

use core::fmt;
use core::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use super::kind::Kind;
use base::info::local::{MAX_NAME, SCHEME_END, bare, text_of};
use base::{Error, Result};
use engine::transport::{Address, AddressFormat};
use object::AddrForm;

/// A name of less than 256 bytes. The part before `://` shows how the name was formed and does not distinguish names.
#[derive(Clone, Debug)]
pub struct Name {
    text: Text,
}

/// Large address vectors contain many names: a short one needs no heap allocation.
#[derive(Clone, Debug)]
enum Text {
    /// Number of bytes, and the bytes.
    Short(u8, [u8; SHORT]),
    Long(Arc<str>),
}

/// Enough for `fi_shm://PID:UID:INDEX` with large numbers.
const SHORT: usize = 30;

const _: () = assert!(size_of::<Name>() <= 32);

impl Text {
    fn as_str(&self) -> &str {
        match self {
            Text::Short(len, bytes) => {
                let bytes = bytes.get(..usize::from(*len)).unwrap_or_default();
                str::from_utf8(bytes).unwrap_or_default()
            }
            Text::Long(text) => text,
        }
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Text {
        let mut bytes = [0; SHORT];
        match bytes.get_mut(..text.len()) {
            Some(place) => {
                place.copy_from_slice(text.as_bytes());
                Text::Short(text.len() as u8, bytes)
            }
            None => Text::Long(text.into()),
        }
    }
}

impl Name {
    /// Returns `None` if the name is too long.
    pub fn new(text: &str) -> Option<Name> {
        let fits = text.len() < MAX_NAME && !text.contains('\0');
        fits.then(|| Name { text: text.into() })
    }

    /// Returns the name for an endpoint that is opened without one: `fi_shm://PID`.
    pub fn of_process(kind: Kind, pid: u32) -> Name {
        let text = format!("{}{SCHEME_END}{pid}", kind.scheme());
        Name {
            text: text.as_str().into(),
        }
    }

    /// Returns the name of an endpoint for which this name was requested. `fi_shm://PID` is extended to
    /// `fi_shm://PID:UID:INDEX`, with a number that is unique in this process. Such a full name, or any other one,
    /// stays as it is. `INVAL`: the longer name does not fit.
    ///
    /// Zeros in front of the number give the names of all processes of a user the same length: MPICH gathers names with
    /// the length of its own, and its ranks would end or hang if one is process 9999 and the next 10000.
    pub fn of_endpoint(&self, kind: Kind, uid: u32, index: usize) -> Result<Name> {
        match self.as_str().split_once(SCHEME_END) {
            Some((scheme, rest)) if scheme == kind.scheme() && !is_of_endpoint(rest, uid) => {
                let width = NUMBERS.saturating_sub(rest.len());
                self.with(&format!(":{uid}:{index:0width$}"))
            }
            _ => Ok(self.clone()),
        }
    }

    /// Returns the name to try if this one is in use. `INVAL`: the longer name does not fit.
    pub fn another(&self, random: u32) -> Result<Name> {
        self.with(&format!(":{random}"))
    }

    fn with(&self, more: &str) -> Result<Name> {
        Name::new(&format!("{self}{more}")).ok_or(Error::INVAL)
    }

    pub fn as_str(&self) -> &str {
        self.text.as_str()
    }

    /// Returns the part that distinguishes names.
    pub fn bare(&self) -> &str {
        bare(self.as_str())
    }

    /// Returns the bytes for fi_av_lookup.
    pub fn looked_up(&self, kind: Kind) -> Vec<u8> {
        match kind {
            Kind::Shm => terminated(self.bare()),
            Kind::Sm2 => terminated(self.as_str()),
        }
    }

    /// Returns the abstract socket address of the endpoint: the whole content of `sun_path`. It contains the user and
    /// the provider.
    pub fn socket(&self, kind: Kind, uid: u32) -> Vec<u8> {
        let owner = format!("\0ironfabric/{}/{uid}", name_of(kind));
        let mut path = format!("{owner}/{}", self.bare());
        if path.len() > MAX_SOCKET {
            // No name begins like this, because of the slash.
            path = format!("{owner}#{}", self.digest());
        }
        path.into_bytes()
    }

    /// Returns the socket of the endpoint as a file in this folder.
    pub fn socket_in(&self, folder: &Path, kind: Kind, uid: u32) -> PathBuf {
        let file = format!("ironfabric-{}-{uid}-{}", name_of(kind), self.digest());
        folder.join(file)
    }

    /// Returns letters and digits computed from the name.
    fn digest(&self) -> String {
        let hash = Sha256::digest(self.bare().as_bytes());
        hash.iter()
            .take(16)
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

/// Digits of a process number and an endpoint number together: for the largest process number and 1000 endpoints.
const NUMBERS: usize = "4194304".len() + 3;

/// Whether the name is already the full name of an endpoint of this user.
fn is_of_endpoint(bare: &str, uid: u32) -> bool {
    let mut parts = bare.rsplitn(3, ':');
    let index = parts
        .next()
        .is_some_and(|index| index.parse::<usize>().is_ok());
    let user = parts.next().is_some_and(|user| user.parse() == Ok(uid));
    index && user && parts.next().is_some()
}

/// Size of `sun_path`: unix(7).
const MAX_SOCKET: usize = 108;

fn name_of(kind: Kind) -> &'static str {
    kind.name().to_str().unwrap_or_default()
}

fn terminated(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(0);
    bytes
}

impl PartialEq for Name {
    fn eq(&self, other: &Name) -> bool {
        self.bare() == other.bare()
    }
}

impl Eq for Name {}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.bare().hash(state);
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Address for Name {
    fn from_bytes(bytes: &[u8]) -> Option<Name> {
        Name::new(text_of(bytes)?)
    }

    fn to_bytes(&self) -> Vec<u8> {
        terminated(self.as_str())
    }
}

/// FI_ADDR_STR.
#[derive(Clone, Copy, Debug, Default)]
pub struct Format;

impl AddressFormat for Format {
    type Addr = Name;

    fn form(&self) -> AddrForm {
        AddrForm::Text
    }

    fn text(&self, bytes: &[u8]) -> String {
        text_of(bytes).unwrap_or_default().to_owned()
    }

    /// A node without a service must be a complete address.
    fn parse(&self, text: &str) -> Option<Name> {
        let whole = text.contains(SCHEME_END);
        whole.then(|| Name::new(text)).flatten()
    }

    /// Combines node and service of fi_getinfo.
    fn resolve(&self, node: &str, service: &str) -> Result<Name> {
        let text = match node.contains(SCHEME_END) {
            true => node.to_owned(),
            false => format!("fi_ns{SCHEME_END}{node}:{service}"),
        };
        Name::new(&text).ok_or(Error::INVAL)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    #[test]
    fn names_are_told_apart_by_what_follows_the_scheme() {
        let same = ["fi_shm://a", "fi_sm2://a", "a", "://a"].map(name);
        assert_eq!(HashSet::<Name>::from_iter(same).len(), 1);
        let other = ["a", "b", "fi_shm://", "fi_ns://a:b", "A"].map(name);
        assert_eq!(HashSet::<Name>::from_iter(other).len(), 5);
        assert_eq!(name("x://y://z").bare(), "y://z");
    }

    #[test]
    fn names_of_every_length_keep_their_text() {
        for len in 0..MAX_NAME {
            let text: String = ('a'..='z').cycle().take(len).collect();
            assert_eq!(name(&text).as_str(), text);
            assert_eq!(name(&text).clone(), name(&text));
            assert_ne!(name(&text), name(&format!("{}é", &text[..len / 2])));
        }
    }

    #[test]
    fn bytes_are_a_string_with_its_end() {
        let bytes = b"fi_shm://1:0:0\0rest";
        let read = Name::from_bytes(bytes).unwrap();
        assert_eq!(read.as_str(), "fi_shm://1:0:0");
        assert_eq!(read.to_bytes(), b"fi_shm://1:0:0\0");
        assert_eq!(Format.text(bytes), "fi_shm://1:0:0");
        assert_eq!(read.looked_up(Kind::Shm), b"1:0:0\0");
        assert_eq!(read.looked_up(Kind::Sm2), b"fi_shm://1:0:0\0");
        for wrong in [&b""[..], b"abc", b"\xff\0"] {
            assert!(Name::from_bytes(wrong).is_none(), "{wrong:?}");
        }
        assert!(Name::from_bytes(&[&[b'x'; 255][..], b"\0"].concat()).is_some());
        assert!(Name::from_bytes(&[&[b'x'; 256][..], b"\0"].concat()).is_none());
        assert!(Name::new("a\0b").is_none());
    }

    #[test]
    fn an_endpoint_makes_a_name_its_own_where_that_is_wanted() {
        let of = |text, kind| {
            let name = name(text).of_endpoint(kind, 1000, 7);
            name.unwrap().to_string()
        };
        assert_eq!(of("fi_shm://5", Kind::Shm), "fi_shm://5:1000:000000007");
        assert_eq!(of("fi_sm2://5", Kind::Sm2), "fi_sm2://5:1000:000000007");
        assert_eq!(of("fi_sm2://5", Kind::Shm), "fi_sm2://5");
        assert_eq!(of("fi_ns://a:b", Kind::Shm), "fi_ns://a:b");
        assert_eq!(of("bare", Kind::Shm), "bare");
        assert_eq!(of("fi_shm://5:1000:3", Kind::Shm), "fi_shm://5:1000:3");
        assert_eq!(
            of("fi_shm://5:1001:3", Kind::Shm),
            "fi_shm://5:1001:3:1000:07"
        );
        assert_eq!(
            of("fi_shm://1000:3", Kind::Shm),
            "fi_shm://1000:3:1000:0007"
        );
        let process = Name::of_process(Kind::Sm2, 12);
        assert_eq!(process.as_str(), "fi_sm2://12");
        assert_eq!(name("x").another(3).unwrap().as_str(), "x:3");
        let long = name(&"x".repeat(254));
        assert_eq!(long.another(1).err(), Some(Error::INVAL));
    }

    #[test]
    fn names_of_processes_are_equally_long() {
        let of = |pid, index| {
            let process = Name::of_process(Kind::Shm, pid);
            process.of_endpoint(Kind::Shm, 1000, index).unwrap()
        };
        let len = of(1, 0).as_str().len();
        assert!(len <= SHORT, "{len}");
        for pid in [1, 9, 10, 9999, 10_000, 32_767, 99_999, 100_000, 4_194_304] {
            for index in [0, 9, 10, 999] {
                let name = of(pid, index);
                assert_eq!(name.as_str().len(), len, "{name}");
                assert_eq!(name.of_endpoint(Kind::Shm, 1000, 5).unwrap(), name);
            }
        }
    }

    #[test]
    fn every_name_has_a_socket_of_its_own() {
        let short = name("fi_shm://5:1000:7").socket(Kind::Shm, 1000);
        assert_eq!(short, b"\0ironfabric/shm/1000/5:1000:7");
        let fits = MAX_SOCKET - "\0ironfabric/shm/1000/".len();
        let mut sockets = HashSet::from([short]);
        for len in [fits, fits + 1, fits + 2, 255] {
            for text in ["x".repeat(len), "y".repeat(len)] {
                let socket = name(&text).socket(Kind::Shm, 1000);
                assert!(socket.len() <= MAX_SOCKET);
                assert!(sockets.insert(socket));
            }
        }
        let again = name("fi_sm2://5:1000:7");
        assert!(!sockets.insert(again.socket(Kind::Shm, 1000)));
        assert!(sockets.insert(again.socket(Kind::Sm2, 1000)));
        assert!(sockets.insert(again.socket(Kind::Shm, 100)));
    }

    #[test]
    fn a_folder_takes_any_name() {
        let of = |text| name(text).socket_in(Path::new("/run"), Kind::Shm, 0);
        let path = of("fi_ns://../../etc:x");
        assert_eq!(path.parent(), Some(Path::new("/run")));
        assert_ne!(path, of("fi_ns://../../etc:y"));
        assert_eq!(path, of("../../etc:x"));
    }

    #[test]
    fn node_and_service_are_a_name() {
        let of = |node, service| Format.resolve(node, service).map(|name| name.to_string());
        assert_eq!(of("node", "1").unwrap(), "fi_ns://node:1");
        assert_eq!(of("fi_shm://x", "1").unwrap(), "fi_shm://x");
        assert_eq!(of(&"n".repeat(300), "1"), Err(Error::INVAL));
        assert_eq!(Format.parse("fi_shm://x"), Some(name("x")));
        assert_eq!(Format.parse("x"), None);
    }
}
