// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Addresses: text in the format FI_ADDR_STR, `fi_loopback://PID:NUMBER` unless the application chooses another one.

use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering};

use base::info::local::{MAX_NAME, SCHEME_END, text_of};
use base::{Error, Result};
use engine::transport::{Address, AddressFormat};
use object::AddrForm;

/// The part before `://`.
pub const SCHEME: &str = "fi_loopback";

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Name(String);

impl Name {
    fn new(text: &str) -> Option<Name> {
        (text.len() < MAX_NAME).then(|| Name(text.to_owned()))
    }

    /// Returns the address of a new endpoint: `wanted`, or a new one if that only names this process.
    pub fn of_endpoint(wanted: Option<Name>) -> Name {
        static LAST: AtomicUsize = AtomicUsize::new(0);
        let process = format!("{SCHEME}{SCHEME_END}{}", std::process::id());
        // Relaxed: the numbers only have to be distinct.
        let number = || LAST.fetch_add(1, Ordering::Relaxed);
        match wanted {
            Some(name) if name.0 != process => name,
            _ => Name(format!("{process}:{}", number())),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Address for Name {
    fn from_bytes(bytes: &[u8]) -> Option<Name> {
        Name::new(text_of(bytes)?)
    }

    fn to_bytes(&self) -> Vec<u8> {
        [self.0.as_bytes(), b"\0"].concat()
    }
}

/// FI_ADDR_STR.
pub struct Format;

impl AddressFormat for Format {
    type Addr = Name;

    fn form(&self) -> AddrForm {
        AddrForm::Text
    }

    fn text(&self, bytes: &[u8]) -> String {
        text_of(bytes).unwrap_or_default().to_owned()
    }

    fn parse(&self, text: &str) -> Option<Name> {
        text.contains(SCHEME_END).then(|| Name::new(text))?
    }

    fn resolve(&self, node: &str, service: &str) -> Result<Name> {
        let pair = || Name::new(&format!("fi_ns{SCHEME_END}{node}:{service}"));
        self.parse(node).or_else(pair).ok_or(Error::INVAL)
    }
}
