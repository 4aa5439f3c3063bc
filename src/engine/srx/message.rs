// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Messages: what is known of one, and where its bytes are while no receive takes it.
#![forbid(unsafe_code)]

use super::receive::RecvOp;
use crate::ffi::ops::transfer::{Rx, What};
use crate::hmem::Host;

/// What is known of a message besides its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Envelope {
    pub what: What,
    /// Who sent it, for matching: a fi_addr, or a number of the transport for a peer that no vector has.
    pub source: u64,
    /// The transport's name for the connection.
    pub token: u64,
    /// The endpoint it came in on.
    pub ep: usize,
    pub tag: u64,
    pub len: u64,
    pub data: Option<u64>,
    /// The transport's own: how it answers the sender.
    pub note: u64,
}

/// What a completion says of a message.
pub struct MessageInfo {
    pub what: What,
    pub len: u64,
    pub tag: u64,
    pub data: Option<u64>,
}

impl MessageInfo {
    /// What matching is told of it. `token` is the transport's name for the connection.
    #[inline]
    pub fn envelope(&self, source: u64, ep: usize, token: u64) -> Envelope {
        Envelope {
            what: self.what,
            source,
            token,
            ep,
            tag: self.tag,
            len: self.len,
            data: self.data,
            note: 0,
        }
    }
}

/// A message without a receive.
pub struct Unexpected<M = Host> {
    pub envelope: Envelope,
    pub bytes: Bytes,
    /// The address of a sender that is in no vector, where it is to be reported.
    pub(super) origin: Option<Box<[u8]>>,
    /// What it counts for in the budget.
    pub(super) charge: usize,
    /// The receive that took it while its bytes were still coming.
    pub(super) taker: Option<Box<RecvOp<M>>>,
    pub(super) discarded: bool,
}

/// Where the bytes of an unexpected message are.
pub enum Bytes {
    Here(Vec<u8>),
    /// Here as far as they have arrived: see `coming`.
    Coming(Vec<u8>),
    /// Still with the transport: on the connection, or at the sender.
    There,
    /// Nowhere: the sender is gone. Only a claimed message is kept for that, until its receive comes.
    Lost,
}

impl Envelope {
    /// What a discarded claim reports.
    pub(super) fn nothing<M>(rx: &Rx<M>, source: u64, ep: usize) -> Envelope {
        Envelope {
            what: rx.what,
            source,
            token: u64::MAX,
            ep,
            tag: rx.tag,
            len: 0,
            data: None,
            note: 0,
        }
    }
}
