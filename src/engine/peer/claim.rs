// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Messages of a peer that arrive in several packets: the receive that has claimed such a message, or the place where
//! its bytes are kept until a receive claims it.

use crate::domain_state::{DomainState, Sender};
use crate::srx::{Envelope, RecvOp, Slot};
use crate::transport::Address;
use base::{Error, Result};

/// Destination of the bytes of a message.
pub enum Claim {
    Receive(Box<(RecvOp, Envelope)>),
    /// The message is kept in this receive queue.
    Kept(usize, Slot),
    /// The receive is over, or the message was discarded.
    Dropped,
}

impl Claim {
    /// Returns the claim of a receive. Without one the message is discarded.
    pub fn of(recv: Option<RecvOp>, envelope: Envelope) -> Claim {
        match recv {
            Some(recv) => Claim::Receive(Box::new((recv, envelope))),
            None => Claim::Dropped,
        }
    }

    /// Returns the envelope of a message that a receive has claimed from the start.
    pub fn envelope(&self) -> Option<&Envelope> {
        match self {
            Claim::Receive(claimed) => Some(&claimed.1),
            Claim::Kept(..) | Claim::Dropped => None,
        }
    }

    /// Whether `len` more bytes may be stored, if all unexpected messages of the queue may have `limit`.
    pub fn has_room<A: Address>(
        &self,
        domain: &mut DomainState<A>,
        len: usize,
        limit: usize,
    ) -> bool {
        match *self {
            Claim::Kept(srx, slot) => domain.srxs[srx].may_grow(slot, len, limit),
            Claim::Receive(_) | Claim::Dropped => true,
        }
    }

    /// Stores the next bytes. Those beyond the receive's buffer are dropped; the completion reports the truncation.
    pub fn put<A: Address>(&mut self, domain: &mut DomainState<A>, bytes: &[u8]) -> Result {
        match self {
            Claim::Receive(claimed) => {
                claimed.0.iov.copy_in(bytes);
                Ok(())
            }
            &mut Claim::Kept(srx, slot) => domain.srxs[srx].coming(slot, bytes),
            Claim::Dropped => Ok(()),
        }
    }

    /// Handles the end of the message. Returns true if a receive is complete.
    pub fn finish<A: Address>(self, domain: &mut DomainState<A>, sender: &Sender<'_, A>) -> bool {
        let arrived = match self {
            Claim::Receive(claimed) => Some(*claimed),
            Claim::Kept(srx, slot) => domain.srxs[srx].arrived(slot),
            Claim::Dropped => None,
        };
        let Some((recv, envelope)) = arrived else {
            return false;
        };
        domain.received(envelope.ep, &recv, &envelope, sender);
        true
    }

    /// Ends a message whose remaining bytes will not arrive. Its receive fails; without an error, or if the endpoint is
    /// gone, it ends silently.
    pub fn end<A: Address>(self, domain: &mut DomainState<A>, error: Option<Error>) {
        let ended = match self {
            Claim::Receive(claimed) => Some(*claimed),
            Claim::Kept(srx, slot) => domain.srxs[srx].lost(slot),
            Claim::Dropped => None,
        };
        if let (Some((recv, envelope)), Some(error)) = (ended, error)
            && domain.eps.get(envelope.ep).is_some()
        {
            domain.receive_failed(envelope.ep, &recv, envelope.what, error);
        }
    }

    /// Drops the receive of a context that is closed.
    pub fn leave(&mut self, ep: usize) {
        if self.envelope().is_some_and(|envelope| envelope.ep == ep) {
            *self = Claim::Dropped;
        }
    }
}

impl<A: Address> DomainState<A> {
    /// Forgets the messages of a lost peer that no receive can claim any more. `token` is the peer's number in their
    /// envelopes, which another peer may get.
    pub fn forget_claims(&mut self, ep: usize, token: usize) {
        if self.eps.get(ep).is_some() {
            self.each_srx(ep, |srx| srx.forget(token as u64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain_state::MessageInfo;
    use crate::srx::{Bytes, Claimed};
    use crate::testing;
    use abi::FI_ADDR_NOTAVAIL;
    use base::iovec::lent::TestMemory;
    use base::{Caps, OpFlags};
    use object::ops::transfer::{Context, Rx, What};

    type State = DomainState<String>;

    const SENDER: Sender<'_, String> = Sender {
        fi_addr: 5,
        addr: None,
    };

    struct Rig {
        domain: State,
        cq: usize,
        memory: TestMemory,
    }

    impl Rig {
        fn new() -> Rig {
            let (domain, cq, _) = testing::domain(Caps::MSG, 8);
            let memory = TestMemory::new(vec![0; 8]);
            Rig { domain, cq, memory }
        }

        /// Posts a receive of eight bytes.
        fn post(&mut self) {
            let mut rx = Rx {
                what: What::Msg,
                iov: self.memory.iov(0, 8),
                flags: OpFlags::COMPLETION,
                src: 5,
                context: Context::of_test(77),
                tag: 0,
                ignore: 0,
            };
            let none = |_: &mut State, _: Claimed| panic!("no message waits at its sender");
            let posted = self
                .domain
                .post_receive(0, &mut rx, |_| FI_ADDR_NOTAVAIL, none);
            posted.unwrap();
        }

        /// Begins a message.
        fn begin(&mut self) -> Claim {
            let envelope = envelope();
            let queue = &mut self.domain.srxs[0];
            match queue.accept(&envelope) {
                Some(recv) => Claim::of(Some(recv), envelope),
                None => Claim::Kept(0, queue.keep(envelope, Bytes::Coming(Vec::new()))),
            }
        }

        /// Returns the errors of the receives that have ended, 0 for success.
        fn ended(&mut self) -> Vec<i32> {
            let ring = &mut self.domain.cqs[self.cq].ring;
            let read = ring.read_into(8, &mut |_: &[u64]| {}, None);
            let mut all = vec![0; read];
            all.extend(core::iter::from_fn(|| ring.pop_err()).map(|entry| entry.err));
            all
        }
    }

    const TOKEN: usize = 3;

    /// Returns the envelope of a message of six bytes.
    fn envelope() -> Envelope {
        let message = MessageInfo {
            what: What::Msg,
            len: 6,
            tag: 0,
            data: None,
        };
        message.envelope(5, 0, TOKEN as u64)
    }

    #[test]
    fn a_receive_gets_all_parts_whether_it_comes_before_or_after_them() {
        for posts_at in 0..3 {
            let mut rig = Rig::new();
            if posts_at == 0 {
                rig.post();
            }
            let mut claim = rig.begin();
            assert_eq!(claim.envelope().is_some(), posts_at == 0);
            claim.put(&mut rig.domain, b"abc").unwrap();
            if posts_at == 1 {
                rig.post();
            }
            claim.put(&mut rig.domain, b"def").unwrap();
            assert_eq!(rig.ended(), []);
            assert_eq!(claim.finish(&mut rig.domain, &SENDER), posts_at < 2);
            if posts_at == 2 {
                rig.post();
            }
            assert_eq!(rig.ended(), [0], "{posts_at}");
            assert_eq!(rig.memory.bytes(0, 8), b"abcdef\0\0");
        }
    }

    #[test]
    fn only_kept_bytes_have_a_limit() {
        let mut rig = Rig::new();
        let kept = rig.begin();
        assert!(
            !kept.has_room(&mut rig.domain, 6, 0) && kept.has_room(&mut rig.domain, 6, 1 << 16)
        );
        kept.end(&mut rig.domain, None);
        rig.post();
        assert!(rig.begin().has_room(&mut rig.domain, 6, 0));
        assert!(Claim::Dropped.has_room(&mut rig.domain, 6, 0));
    }

    #[test]
    fn the_receive_of_a_lost_message_fails() {
        for posts_first in [true, false] {
            let mut rig = Rig::new();
            if posts_first {
                rig.post();
            }
            let mut claim = rig.begin();
            claim.put(&mut rig.domain, b"abc").unwrap();
            if !posts_first {
                rig.post();
            }
            claim.end(&mut rig.domain, Some(Error::CONNRESET));
            assert_eq!(rig.ended(), [Error::CONNRESET.code()]);
        }
        let mut rig = Rig::new();
        rig.post();
        rig.begin().end(&mut rig.domain, None);
        rig.begin().end(&mut rig.domain, Some(Error::CONNRESET));
        assert_eq!(rig.ended(), []);
    }

    #[test]
    fn a_closed_context_leaves_its_receive() {
        let mut rig = Rig::new();
        rig.post();
        let mut claim = rig.begin();
        claim.leave(1);
        assert!(claim.envelope().is_some());
        claim.leave(0);
        claim.put(&mut rig.domain, b"abcdef").unwrap();
        assert!(!claim.finish(&mut rig.domain, &SENDER));
        assert_eq!(rig.memory.bytes(0, 8), [0; 8]);
        assert_eq!(rig.ended(), []);
    }

    #[test]
    fn messages_of_a_lost_peer_are_forgotten() {
        let mut rig = Rig::new();
        let envelope = envelope();
        rig.domain.srxs[0].keep(envelope, Bytes::There);
        rig.domain.forget_claims(1, TOKEN);
        rig.domain.forget_claims(0, TOKEN + 1);
        assert_eq!(rig.domain.unexpected_len(0), 1);
        rig.domain.forget_claims(0, TOKEN);
        assert_eq!(rig.domain.unexpected_len(0), 0);
    }
}
