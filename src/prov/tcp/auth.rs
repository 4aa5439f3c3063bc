// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Proof of a common authorization key between two endpoints, without sending the key: a state machine with bytes as
//! input and output. Nonces are arguments; `keyed` handles sockets and deadlines. docs/wire/tcp.md, "Authorization".
//!
//! Each proof is an HMAC-SHA-256 under the key over: the kind of proof (which also distinguishes the roles), the
//! addresses of both ends of the TCP connection with the connecting side first, both connection messages, and the
//! nonces so far. A proof is therefore invalid on another connection, in the other direction, or a second time.
//!
//! HMAC and SHA-256 come from RustCrypto: pure Rust, tested against the standards' vectors, constant time. An endpoint
//! without a key never uses this module.

use std::net::{IpAddr, SocketAddr};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use engine::auth::Key;
use stream::proto::{AuthOp, BASE_HEADER, MAX_AUTH, PROOF, auth_parts, decode_auth, encode_auth};

/// 32 bytes that were never used before.
pub type Nonce = [u8; PROOF];

/// The data of a connection that both sides have before any proof.
pub struct Context(Vec<u8>);

impl Context {
    /// `request` and `response` are the complete connection messages.
    pub fn new(
        connecting: SocketAddr,
        accepting: SocketAddr,
        request: &[u8],
        response: &[u8],
    ) -> Context {
        let mut bytes = Vec::new();
        for addr in [connecting, accepting] {
            put_addr(&mut bytes, addr);
        }
        for message in [request, response] {
            bytes.extend_from_slice(&(message.len() as u32).to_be_bytes());
            bytes.extend_from_slice(message);
        }
        Context(bytes)
    }
}

fn put_addr(out: &mut Vec<u8>, addr: SocketAddr) {
    match addr.ip().to_canonical() {
        IpAddr::V4(ip) => {
            out.push(4);
            out.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            out.push(6);
            out.extend_from_slice(&ip.octets());
        }
    }
    out.extend_from_slice(&addr.port().to_be_bytes());
}

/// One side of the exchange.
pub struct Prover {
    context: Context,
    /// Acceptable keys: one at the side that connected; at the other side any number until the peer has proved one.
    keys: Vec<Key>,
    own: Nonce,
    peer: Nonce,
    expected: AuthOp,
    swap: bool,
    frame: Vec<u8>,
}

/// Result of bytes from the peer.
#[derive(Debug, PartialEq)]
pub enum Outcome {
    /// More bytes are needed.
    Wait,
    /// Send these bytes to the peer; then more bytes are needed.
    Send(Vec<u8>),
    /// The peer has this key. Send these bytes, if any, before anything else.
    Proved(Key, Vec<u8>),
    /// The peer has another key or violates the protocol. Send these bytes as the refusal.
    Refused(&'static str, Vec<u8>),
}

impl Prover {
    /// Creates the prover of the side that connected, and its first message.
    pub fn connecting(key: Key, context: Context, nonce: Nonce, swap: bool) -> (Prover, Vec<u8>) {
        let proof = finish(&mac(&key, &context, HELLO, &[&nonce]));
        let hello = encode_auth(AuthOp::Hello, &[&nonce, &proof], 0, swap);
        (
            Prover::new(vec![key], context, nonce, AuthOp::Answer, swap),
            hello,
        )
    }

    /// Creates the prover of the side that accepted, which waits for the first message.
    pub fn accepting(keys: Vec<Key>, context: Context, nonce: Nonce, swap: bool) -> Prover {
        Prover::new(keys, context, nonce, AuthOp::Hello, swap)
    }

    fn new(keys: Vec<Key>, context: Context, own: Nonce, expected: AuthOp, swap: bool) -> Prover {
        Prover {
            context,
            keys,
            own,
            peer: [0; PROOF],
            expected,
            swap,
            frame: Vec::with_capacity(MAX_AUTH),
        }
    }

    /// Returns how many bytes to read next: never more than belong to the exchange.
    pub fn wants(&self) -> usize {
        match self.frame.len() < BASE_HEADER {
            true => BASE_HEADER - self.frame.len(),
            false => BASE_HEADER + self.expected.payload() - self.frame.len(),
        }
    }

    /// Takes bytes of the peer, at most as many as `wants` returns.
    pub fn take(&mut self, bytes: &[u8]) -> Outcome {
        debug_assert!(bytes.len() <= self.wants());
        self.frame.extend_from_slice(bytes);
        let Some(header) = self.frame.first_chunk::<BASE_HEADER>() else {
            return Outcome::Wait;
        };
        match decode_auth(header, self.swap) {
            // The peer is gone, so no refusal is sent.
            Ok(AuthOp::Refuse) => return Outcome::Refused(OTHER_KEY, Vec::new()),
            Ok(op) if op == self.expected => {}
            _ => return self.refuse("it sends something else than the proof of a key"),
        }
        if self.wants() > 0 {
            return Outcome::Wait;
        }
        let frame = std::mem::take(&mut self.frame);
        let [first, rest] = auth_parts(&frame);
        match self.expected {
            AuthOp::Hello => self.hello(first, rest),
            AuthOp::Answer => self.answer(first, rest),
            _ => self.finish(first),
        }
    }

    fn hello(&mut self, nonce: &[u8], proof: &[u8]) -> Outcome {
        self.peer.copy_from_slice(nonce);
        // All keys are tried, so that the time does not reveal how many there are before the matching one.
        let mut found = None;
        for key in &self.keys {
            let own = mac(key, &self.context, HELLO, &[&self.peer]);
            if own.verify_slice(proof).is_ok() {
                found = Some(key.clone());
            }
        }
        let Some(key) = found else {
            return self.refuse(OTHER_KEY);
        };
        let proof = finish(&mac(&key, &self.context, ANSWER, &[&self.peer, &self.own]));
        self.keys = vec![key];
        self.expected = AuthOp::Finish;
        Outcome::Send(encode_auth(
            AuthOp::Answer,
            &[&self.own, &proof],
            0,
            self.swap,
        ))
    }

    fn answer(&mut self, nonce: &[u8], proof: &[u8]) -> Outcome {
        self.peer.copy_from_slice(nonce);
        let nonces = [&self.own, &self.peer];
        let Some(key) = self.keys.pop() else {
            return self.refuse(OTHER_KEY);
        };
        if mac(&key, &self.context, ANSWER, &nonces)
            .verify_slice(proof)
            .is_err()
        {
            return self.refuse(WRONG_PROOF);
        }
        let proof = finish(&mac(&key, &self.context, FINISH, &nonces));
        Outcome::Proved(key, encode_auth(AuthOp::Finish, &[&proof], 1, self.swap))
    }

    fn finish(&mut self, proof: &[u8]) -> Outcome {
        let nonces = [&self.peer, &self.own];
        match self.keys.pop() {
            Some(key)
                if mac(&key, &self.context, FINISH, &nonces)
                    .verify_slice(proof)
                    .is_ok() =>
            {
                Outcome::Proved(key, Vec::new())
            }
            _ => self.refuse(WRONG_PROOF),
        }
    }

    fn refuse(&self, why: &'static str) -> Outcome {
        Outcome::Refused(why, encode_auth(AuthOp::Refuse, &[], 0, self.swap))
    }
}

pub const OTHER_KEY: &str = "it has another authorization key";
const WRONG_PROOF: &str = "it does not prove its authorization key";

const HELLO: &[u8] = b"libfabric tcp authorization 1 hello";
const ANSWER: &[u8] = b"libfabric tcp authorization 1 answer";
const FINISH: &[u8] = b"libfabric tcp authorization 1 finish";

/// Computes a proof; the nonce of the side that connected comes first. All parts except the context have a fixed length
/// for each kind of proof. The length of the key is included because HMAC treats a key and the same key followed by
/// zero bytes as equal.
fn mac(key: &Key, context: &Context, what: &[u8], nonces: &[&Nonce]) -> Hmac<Sha256> {
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key.bytes())
        .unwrap_or_else(|_| unreachable!("HMAC takes keys of any length"));
    mac.update(&(key.bytes().len() as u32).to_be_bytes());
    mac.update(&[what.len() as u8]);
    mac.update(what);
    nonces.iter().for_each(|nonce| mac.update(*nonce));
    mac.update(&context.0);
    mac
}

fn finish(mac: &Hmac<Sha256>) -> [u8; PROOF] {
    mac.clone().finalize().into_bytes().into()
}

#[cfg(test)]
mod tests;
