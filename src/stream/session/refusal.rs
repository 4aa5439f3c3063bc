// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Accesses to registered memory that are not allowed. An endpoint of `sockets` answers with `Frame::Refused` if the
//! peer waits for an answer. Otherwise the connection ends, because nothing else shows the peer that its access has
//! failed. The connection also ends if an older version of this library gets the frame, because it does not support it.
//!
//! A connection between FI_EP_MSG endpoints ends in both cases, as it does in libfabric's tcp.

use crate::proto::{Frame, Refused};
use crate::session::exposed::Refusal;
use crate::session::receive::Fault;
use crate::session::receive_state::Sink;
use crate::session::{Cx, Ending, Session, State};
use abi::FI_EP_MSG;
use base::log::{Subsys, log_info};
use engine::transport::Address;

impl<A: Address> Session<A> {
    /// Refuses an access of the peer whose last `payload` bytes are still to come.
    #[cold]
    pub(super) fn refuse(
        &mut self,
        cx: &mut Cx<'_, A>,
        refusal: Refusal,
        payload: u64,
    ) -> core::result::Result<(), Fault> {
        let Refusal { answer, why } = refusal;
        let (Some(answer), true) = (answer, self.agreed.refuses) else {
            return Err(why);
        };
        log_info!(
            cx.common.source,
            Subsys::EpData,
            "{}: an access to memory is refused: {why}",
            self.peer.addr
        );
        match payload {
            0 => self.send_refusal(cx, answer),
            // The refusal is sent after the whole payload is read, because the peer uses its buffers until then.
            _ => self.rx.expect(cx, Sink::Refused(answer), payload, false),
        }
        Ok(())
    }

    /// Whether the peer may answer writes. A peer without the extensions is another implementation. This is unknown
    /// until the connection is up.
    pub fn may_answer_writes(&self) -> bool {
        self.agreed.extended || self.state != State::Up
    }

    /// Sends the answer to a refused access whose payload has arrived.
    #[cold]
    pub(super) fn send_refusal(&mut self, cx: &mut Cx<'_, A>, answer: Refused) {
        self.tx.out.answer(cx, &Frame::Refused(answer));
        if cx.domain.eps[self.peer.ep].ep_type == FI_EP_MSG.0 {
            self.tx.out.flush(cx);
            const REFUSED: Fault = Fault::Rule("an access to memory was refused");
            self.end(cx, Ending::Fault(REFUSED));
        }
    }
}
