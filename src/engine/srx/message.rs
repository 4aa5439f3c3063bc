// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Messages: their attributes, and the location of their bytes until a receive takes them.

use super::receive::RecvOp;
use object::ops::transfer::{Rx, What};

/// The attributes of a message.
#[derive(Clone, Copy, Debug)]
pub struct Envelope {
    pub what: What,
    /// The sender in matching: a fi_addr, or a number of the transport for a peer in no address vector.
    pub source: u64,
    /// The transport's number of the connection.
    pub token: u64,
    /// The endpoint at which the message arrived.
    pub ep: usize,
    pub tag: u64,
    pub len: u64,
    pub data: Option<u64>,
    /// A value of the transport, with which it answers the sender.
    pub note: u64,
}

/// The attributes of a message that its completion contains.
#[derive(Clone, Copy)]
pub struct MessageInfo {
    pub what: What,
    pub len: u64,
    pub tag: u64,
    pub data: Option<u64>,
}

impl MessageInfo {
    /// The attributes for matching. `token` is the transport's number of the connection.
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

/// An unexpected message.
pub struct Unexpected {
    pub envelope: Envelope,
    pub bytes: Bytes,
    /// The address of a sender in no address vector, if completions report it.
    pub(super) origin: Option<Box<[u8]>>,
    /// Bytes that the message uses of the budget.
    pub(super) charge: usize,
    /// The receive that took the message before all its bytes had arrived.
    pub(super) taker: Option<Box<RecvOp>>,
    pub(super) discarded: bool,
}

/// Location of the bytes of an unexpected message.
pub enum Bytes {
    Here(Vec<u8>),
    /// The bytes that have arrived so far: see `coming`.
    Coming(Vec<u8>),
    /// The bytes are still with the transport: on the connection, or at the sender.
    There,
    /// The bytes are lost with the sender. Only a claimed message is kept then, until its receive is posted.
    Lost,
}

impl Envelope {
    /// The attributes that a completion contains.
    #[inline]
    pub fn info(&self) -> MessageInfo {
        MessageInfo {
            what: self.what,
            len: self.len,
            tag: self.tag,
            data: self.data,
        }
    }

    /// The envelope of a discarded claim in completions.
    pub(super) fn nothing(rx: &Rx, source: u64, ep: usize) -> Envelope {
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
