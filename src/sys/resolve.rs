// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Resolves names to addresses (getaddrinfo(3)), and finds the local address for a destination.
//!
//! Trusted with: the list that getaddrinfo returns.

use core::ffi::{CStr, c_int};
use core::ptr::{null, null_mut};
use core::slice;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use super::addr;

/// A request to the resolver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question<'a> {
    pub node: Option<&'a CStr>,
    pub service: Option<&'a CStr>,
    pub family: Family,
    /// For a local address: if there is no node, any address instead of loopback.
    pub passive: bool,
    pub datagram: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Any,
    V4,
    V6,
}

impl Family {
    pub fn includes(self, addr: &SocketAddr) -> bool {
        match self {
            Family::Any => true,
            Family::V4 => addr.is_ipv4(),
            Family::V6 => addr.is_ipv6(),
        }
    }
}

/// Returns the first address that the resolver finds, or its error text.
pub fn resolve(question: &Question) -> Result<SocketAddr, String> {
    // SAFETY: all bytes zero are a valid `addrinfo`: integers and null pointers.
    let mut wanted: libc::addrinfo = unsafe { core::mem::zeroed() };
    wanted.ai_flags = if question.passive {
        libc::AI_PASSIVE
    } else {
        0
    };
    wanted.ai_family = match question.family {
        Family::Any => libc::AF_UNSPEC,
        Family::V4 => libc::AF_INET,
        Family::V6 => libc::AF_INET6,
    };
    wanted.ai_socktype = if question.datagram {
        libc::SOCK_DGRAM
    } else {
        libc::SOCK_STREAM
    };
    let mut list = null_mut();
    // SAFETY: the strings are null or terminated; `wanted` and `list` live during the call.
    let status = unsafe {
        libc::getaddrinfo(
            question.node.map_or(null(), CStr::as_ptr),
            question.service.map_or(null(), CStr::as_ptr),
            &wanted,
            &mut list,
        )
    };
    if status != 0 {
        return Err(explain(status));
    }
    // SAFETY: getaddrinfo succeeded, so the list is valid, and it is freed once, below.
    let found = unsafe { first(list) };
    // SAFETY: as above; `found` is a copy.
    unsafe { libc::freeaddrinfo(list) };
    found.ok_or_else(|| "no address of IPv4 or IPv6".to_owned())
}

/// Returns the local address for packets to `dest`, with port 0; `None` if there is no route.
pub fn source_for(dest: &SocketAddr) -> Option<SocketAddr> {
    let socket = UdpSocket::bind(any(dest)).ok()?;
    // Connecting a UDP socket sends nothing. Routing ignores the port, but 0 is not a valid one.
    let mut dest = *dest;
    if dest.port() == 0 {
        dest.set_port(DISCARD);
    }
    socket.connect(dest).ok()?;
    let mut local = socket.local_addr().ok()?;
    local.set_port(0);
    Some(local)
}

/// Returns the unspecified address of the same family.
fn any(dest: &SocketAddr) -> SocketAddr {
    match dest {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

/// # Safety
/// `list` is null or a result of getaddrinfo that was not freed yet.
unsafe fn first(mut list: *const libc::addrinfo) -> Option<SocketAddr> {
    while !list.is_null() {
        // SAFETY: an entry of the list, whose address is readable for the length beside it.
        let (found, next) = unsafe {
            let entry = &*list;
            let bytes = slice::from_raw_parts(entry.ai_addr.cast(), entry.ai_addrlen as usize);
            (addr::from_bytes(bytes), entry.ai_next)
        };
        if found.is_some() {
            return found;
        }
        list = next;
    }
    None
}

fn explain(status: c_int) -> String {
    // SAFETY: gai_strerror returns a static string for every number.
    let text = unsafe { CStr::from_ptr(libc::gai_strerror(status)) };
    text.to_string_lossy().into_owned()
}

/// The port of the discard service.
const DISCARD: u16 = 9;

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(node: Option<&CStr>, service: Option<&CStr>) -> Question<'static> {
        // Leaked, because questions borrow their texts; only tests do this.
        let leak = |text: &CStr| -> &'static CStr { Box::leak(text.to_owned().into_boxed_c_str()) };
        Question {
            node: node.map(leak),
            service: service.map(leak),
            family: Family::V4,
            passive: false,
            datagram: false,
        }
    }

    #[test]
    fn numbers_resolve_without_asking_anybody() {
        let found = resolve(&ask(Some(c"127.0.0.1"), Some(c"7471")));
        assert_eq!(found, Ok("127.0.0.1:7471".parse().unwrap()));
    }

    #[test]
    fn a_service_alone_is_loopback_or_any() {
        let mut question = ask(None, Some(c"7471"));
        assert_eq!(resolve(&question), Ok("127.0.0.1:7471".parse().unwrap()));
        question.passive = true;
        assert_eq!(resolve(&question), Ok("0.0.0.0:7471".parse().unwrap()));
        question.family = Family::V6;
        assert_eq!(resolve(&question), Ok("[::]:7471".parse().unwrap()));
    }

    #[test]
    fn the_resolver_says_why_not() {
        assert!(
            !resolve(&ask(Some(c"127.0.0.1"), Some(c"no-such-service")))
                .unwrap_err()
                .is_empty()
        );
        assert!(!resolve(&ask(Some(c""), None)).unwrap_err().is_empty());
        assert!(!resolve(&ask(None, None)).unwrap_err().is_empty());
        let long = std::ffi::CString::new([b'a'; 5000]).unwrap();
        assert!(!resolve(&ask(Some(&long), None)).unwrap_err().is_empty());
    }

    #[test]
    fn loopback_is_reached_from_loopback() {
        let dest = "127.0.0.2:0".parse().unwrap();
        assert_eq!(source_for(&dest), Some("127.0.0.1:0".parse().unwrap()));
        // A link-local address without an interface has no route.
        assert_eq!(source_for(&"[fe80::1]:7".parse().unwrap()), None);
    }
}
