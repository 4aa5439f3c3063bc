// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The messages of one endpoint that the owner moves: sends, and receives that wait for messages of any member.

use std::sync::Arc;

use slab::Slab;

use super::SOURCE;
use super::domain::{State, TAG};
use abi::{FI_ADDR_NOTAVAIL, FI_ADDR_UNSPEC};
use base::iovec::Span;
use base::log::{Subsys, log_warn};
use base::{Block, Error, Result};
use engine::domain_state::TxOp;
use engine::domain_state::peers::Transfer;
use engine::srx::MessageInfo;
use object::ops::transfer::{Tx, What};
use object::peer::{Message, PeerTransfer};

/// Receives that wait.
const RECEIVES: usize = 32;

pub struct Moved {
    owner: Arc<PeerTransfer>,
    operations: Slab<Operation>,
}

enum Operation {
    Send(TxOp),
    Receive(Block),
}

impl Moved {
    pub fn new(owner: Arc<PeerTransfer>) -> Moved {
        Moved {
            owner,
            operations: Slab::new(),
        }
    }

    /// Posts the receives.
    pub fn receive(&mut self, domain: &mut State, ep: usize) {
        for _ in 0..RECEIVES {
            self.post_receive(domain, ep);
        }
    }

    fn post_receive(&mut self, domain: &mut State, ep: usize) {
        let (block, room) = Block::with_room(Block::SIZE);
        let memory = room
            .into_one()
            .map_or(Span::default(), |piece| piece.span());
        let number = self.operations.insert(Operation::Receive(block));
        let message = Message {
            memory,
            addr: FI_ADDR_UNSPEC,
            tag: TAG,
            ignore: !TAG,
            is_receive: true,
            number,
        };
        self.transfer(domain, ep, message);
    }

    pub fn send(
        &mut self,
        domain: &mut State,
        ep: usize,
        dest: u64,
        tx: &mut Tx<'_>,
        op: TxOp,
    ) -> Result {
        // `messages` has taken one block.
        let piece = tx.iov.take().into_one().ok_or(Error::INVAL)?;
        let number = self.operations.insert(Operation::Send(op));
        let message = Message {
            memory: piece.span(),
            addr: dest,
            tag: TAG,
            ignore: 0,
            is_receive: false,
            number,
        };
        domain.eps[op.ep()].tx_pending += 1;
        self.transfer(domain, ep, message);
        Ok(())
    }

    fn transfer(&self, domain: &mut State, ep: usize, message: Message) {
        let owner = self.owner.clone();
        domain.peers.transfer([Transfer { ep, owner, message }]);
    }

    /// The owner has moved a message, or has failed to.
    pub fn ended(
        &mut self,
        domain: &mut State,
        ep: usize,
        number: usize,
        result: Result<(usize, u64)>,
    ) {
        let Some(operation) = self.operations.try_remove(number) else {
            return;
        };
        let block = match (operation, result) {
            (Operation::Send(op), Ok(_)) => return domain.complete_tx(&op),
            (Operation::Send(op), Err(error)) => return domain.fail_tx(&op, error),
            (Operation::Receive(block), _) => block,
        };
        match result {
            Ok((_, FI_ADDR_NOTAVAIL)) => log_warn!(
                &SOURCE,
                Subsys::EpData,
                "the owner does not tell who has sent a message, which is dropped"
            ),
            Ok((len, source)) => keep(domain, ep, &block.bytes(len), source),
            // The owner is closing.
            Err(Error::CANCELED) => return,
            Err(error) => {
                log_warn!(
                    &SOURCE,
                    Subsys::EpData,
                    "the owner receives nothing: {error}"
                );
                // The next receive would fail for the same reason.
                return block.leave();
            }
        }
        drop(block);
        self.post_receive(domain, ep);
    }
}

impl Drop for Moved {
    /// The owner may still write to the memory of its receives.
    fn drop(&mut self) {
        for operation in self.operations.drain() {
            if let Operation::Receive(block) = operation {
                block.leave();
            }
        }
    }
}

/// Leaves a message to the collectives of the endpoint.
fn keep(domain: &mut State, ep: usize, bytes: &[u8], source: u64) {
    let Some(&via) = domain.eps[ep].contexts.first() else {
        return;
    };
    let info = MessageInfo {
        what: What::Tagged,
        len: bytes.len() as u64,
        tag: TAG,
        data: None,
    };
    let srx = domain.eps[via].srx;
    let envelope = info.envelope(source, via, source);
    domain.srxs[srx].keep_whole(envelope, |to| to.extend_from_slice(bytes));
}
