// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Place of the entry of a provider within one host: converts node, service and addresses of fi_getinfo(3) to names,
//! strings in the format FI_ADDR_STR (fi_shm(7)).
#![forbid(unsafe_code)]

use std::ffi::CStr;

use super::reason::{Refusal, Value};
use super::{Hints, Info, Query};
use abi::*;

/// Attributes in which the providers within a host differ.
#[derive(Clone, Copy)]
pub struct Site {
    /// Name of its only domain and of its fabric.
    pub name: &'static CStr,
    /// The part before `://` in names of endpoints.
    pub scheme: &'static str,
    pub pid: u32,
}

/// The address format of such a provider.
pub const ADDR_FORMATS: &[u32] = &[FI_ADDR_STR];

/// Most bytes of a name, with its terminating zero.
pub const MAX_NAME: usize = 256;

/// Separator between the scheme and the rest of a name.
pub const SCHEME_END: &str = "://";

/// The only place at which an endpoint can be opened.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    name: &'static CStr,
    src: Option<Vec<u8>>,
    dest: Option<Vec<u8>>,
}

impl super::Place for Place {
    fn domain(&self) -> &CStr {
        self.name
    }

    fn fabric(&self) -> &CStr {
        self.name
    }

    fn apply(&self, info: &mut Info) {
        info.addr_format = FI_ADDR_STR;
        info.src_addr.clone_from(&self.src);
        info.dest_addr.clone_from(&self.dest);
        info.domain.name = Some(self.name.into());
        info.fabric.name = Some(self.name.into());
    }
}

/// Returns the place for the addresses of the query.
pub fn places(query: &Query, site: &Site) -> Result<Vec<Place>, Refusal> {
    let nothing = Hints::default();
    let hints = query.hints.unwrap_or(&nothing);
    let hinted_src = hinted("src_addr", hints.src_addr.as_deref())?;
    let hinted_dest = hinted("dest_addr", hints.dest_addr.as_deref())?;
    let named = named(query, site)?;
    let this_process = || Some(terminated(format!("{}://{}", site.scheme, site.pid)));
    let (src, dest) = if query.flags & FI_SOURCE == 0 {
        (
            hinted_src.or_else(this_process),
            named.or(hinted_dest).or_else(this_process),
        )
    } else if named.is_some() {
        (named, hinted_dest)
    } else {
        return Err(Refusal::new(
            "flags",
            Value::from("FI_SOURCE without node and service"),
            Value::from("FI_SOURCE with one of them"),
        ));
    };
    Ok(vec![Place {
        name: site.name,
        src,
        dest,
    }])
}

/// Returns the text of an address in this format; `None` if it has no terminating zero, or is too long.
pub fn text_of(bytes: &[u8]) -> Option<&str> {
    let text = CStr::from_bytes_until_nul(bytes).ok()?;
    let fits = text.to_bytes_with_nul().len() <= MAX_NAME;
    text.to_str().ok().filter(|_| fits)
}

/// Returns the part after the scheme, or the whole text if it has none. This part identifies an endpoint.
pub fn bare(text: &str) -> &str {
    match text.split_once(SCHEME_END) {
        Some((_, bare)) => bare,
        None => text,
    }
}

fn terminated(text: String) -> Vec<u8> {
    let mut bytes = text.into_bytes();
    bytes.push(0);
    bytes
}

/// Returns the name for node and service. A node with a scheme is already a name.
fn named(query: &Query, site: &Site) -> Result<Option<Vec<u8>>, Refusal> {
    let text = |part: Option<&CStr>| part.map(|part| part.to_string_lossy().into_owned());
    let name = match (text(query.node), text(query.service)) {
        (None, None) => return Ok(None),
        (Some(node), _) if node.contains(SCHEME_END) => node,
        (Some(node), Some(service)) => format!("fi_ns://{node}:{service}"),
        (Some(node), None) => format!("{}://{node}", site.scheme),
        (None, Some(service)) => format!("fi_ns://{service}"),
    };
    let is_text = |part: Option<&CStr>| part.is_none_or(|part| part.to_str().is_ok());
    if is_text(query.node) && is_text(query.service) && name.len() < MAX_NAME {
        return Ok(Some(terminated(name)));
    }
    let field = match query.node {
        Some(_) => "node",
        None => "service",
    };
    Err(Refusal::new(field, Value::Text(name), offered()))
}

/// Returns an address of the hints. Refuses one that no endpoint can have.
fn hinted(field: &'static str, bytes: Option<&[u8]>) -> Result<Option<Vec<u8>>, Refusal> {
    let Some(bytes) = bytes else {
        return Ok(None);
    };
    match text_of(bytes) {
        Some(text) => Ok(Some(terminated(text.to_owned()))),
        None => Err(Refusal::new(
            field,
            Value::Text(String::from_utf8_lossy(bytes).into_owned()),
            offered(),
        )),
    }
}

fn offered() -> Value {
    Value::Text(format!(
        "text of less than {MAX_NAME} bytes, and a zero behind it"
    ))
}
