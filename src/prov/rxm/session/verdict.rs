// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Decides about a request to connect. Two peers may connect to each other at the same time: the one with the larger
//! address then keeps its attempt. docs/wire/rxm.md.

use core::cmp::Ordering;

use engine::address::ip::Addr;

/// The current state towards the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    Idle,
    /// A local attempt is in progress.
    Asked,
    /// A connection exists, to this process of the peer.
    Up(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Accept; the request replaces the current state.
    Accept,
    /// Accept as the other half of an endpoint's connection to itself.
    AcceptBeside,
    /// Reject because of the current state.
    Reject,
}

impl Verdict {
    /// The verdict in logs.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Accept => "accepted",
            Verdict::AcceptBeside => "accepted as the other half of a connection to itself",
            Verdict::Reject => "rejected",
        }
    }
}

pub fn decide(known: Known, own: &Addr, peer: &Addr, pid: u32) -> Verdict {
    match known {
        Known::Idle => Verdict::Accept,
        Known::Asked => match compare(peer, own) {
            Ordering::Less => Verdict::Reject,
            Ordering::Greater => Verdict::Accept,
            Ordering::Equal => Verdict::AcceptBeside,
        },
        // The same process: the later half of two simultaneous attempts. Otherwise the peer has restarted.
        Known::Up(known) if known == pid => match compare(peer, own) {
            Ordering::Equal => Verdict::AcceptBeside,
            _ => Verdict::Reject,
        },
        Known::Up(_) => Verdict::Accept,
    }
}

/// Compares the bytes of the IP addresses in wire order, then the ports.
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
