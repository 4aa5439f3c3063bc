// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What becomes of a request to connect, when two may connect to each other at once: the one with the larger address
//! ends up as the one that has connected. docs/wire/rxm.md.
#![forbid(unsafe_code)]

use core::cmp::Ordering;

use crate::engine::address::ip::Addr;

/// What there is with the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    Idle,
    /// An attempt of ours.
    Asked,
    /// A connection, with this process of the peer.
    Up(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// In place of what there is.
    Accept,
    /// As the other half of a connection to oneself.
    AcceptBeside,
    /// Because of what there is.
    Reject,
}

pub fn decide(known: Known, own: &Addr, peer: &Addr, pid: u32) -> Verdict {
    match known {
        Known::Idle => Verdict::Accept,
        Known::Asked => match compare(peer, own) {
            Ordering::Less => Verdict::Reject,
            Ordering::Greater => Verdict::Accept,
            Ordering::Equal => Verdict::AcceptBeside,
        },
        // The late half of two attempts that met. Else the peer has begun anew.
        Known::Up(known) if known == pid => match compare(peer, own) {
            Ordering::Equal => Verdict::AcceptBeside,
            _ => Verdict::Reject,
        },
        Known::Up(_) => Verdict::Accept,
    }
}

/// By the bytes of the IP address as they go over the wire, then by the port.
fn compare(a: &Addr, b: &Addr) -> Ordering {
    a.ip().cmp(&b.ip()).then(a.port().cmp(&b.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(text: &str) -> Addr {
        text.parse().unwrap()
    }

    #[test]
    fn the_larger_address_connects() {
        let (low, high) = (addr("10.0.0.2:9"), addr("10.0.0.10:1"));
        let both = |a: &Addr, b: &Addr| decide(Known::Asked, a, b, 7);
        assert_eq!(both(&low, &high), Verdict::Accept);
        assert_eq!(both(&high, &low), Verdict::Reject);
        let (low, high) = (addr("10.0.0.2:9"), addr("10.0.0.2:10"));
        assert_eq!(both(&low, &high), Verdict::Accept);
        assert_eq!(both(&high, &low), Verdict::Reject);
        let (low, high) = (addr("[fe80::2]:9"), addr("[fe80::10]:1"));
        assert_eq!(both(&low, &high), Verdict::Accept);
        assert_eq!(both(&high, &low), Verdict::Reject);
    }

    #[test]
    fn an_endpoint_connects_to_itself() {
        let own = addr("10.0.0.2:9");
        assert_eq!(decide(Known::Asked, &own, &own, 7), Verdict::AcceptBeside);
        assert_eq!(decide(Known::Up(7), &own, &own, 7), Verdict::AcceptBeside);
    }

    #[test]
    fn process_numbers_tell_late_halves_from_new_processes() {
        for (own, peer) in [("10.0.0.1:1", "10.0.0.2:2"), ("10.0.0.2:2", "10.0.0.1:1")] {
            let (own, peer) = (addr(own), addr(peer));
            assert_eq!(decide(Known::Up(7), &own, &peer, 7), Verdict::Reject);
            assert_eq!(decide(Known::Up(7), &own, &peer, 8), Verdict::Accept);
            assert_eq!(decide(Known::Idle, &own, &peer, 7), Verdict::Accept);
        }
    }
}
