// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The end of a session, and the reason that the operations with it report.

use core::fmt;

use super::outgoing::Sent;
use super::{Cause, Cx, Over, Session, State, Wire};
use crate::rxm::SOURCE;
use base::Error;
use base::log::{Subsys, log_failure, log_info};

impl Session {
    /// Ends the connection after the packets that have already arrived are handled: `Common::ending`.
    #[cold]
    pub fn end_later<W: Wire>(&mut self, cx: &mut Cx<'_, W>, error: Error) {
        self.link.end_later(cx, error);
    }

    /// Resumes receiving from the peer.
    pub fn resume<W: Wire>(&mut self, cx: &mut Cx<'_, W>) {
        self.link.resume(cx.wire);
    }

    /// Ends the session: everything that depended on the connection fails, with the fate of the peer as the reason.
    #[cold]
    pub fn lost<W: Wire>(&mut self, cx: &mut Cx<'_, W>, error: Error, what: &dyn fmt::Display) {
        // An earlier packet may have ended it already.
        if self.state() == State::Over {
            return;
        }
        let was_up = self.state() == State::Up;
        self.connection.set_state(cx.common, State::Over);
        let sentence = format!("{} {what}", self.link.peer());
        let outer = cx.domain.losses.begin(&sentence);
        self.fail_all(cx, Some(error));
        if was_up && is_silence(error) {
            self.link.fail_receives(cx.domain, error);
        }
        match cx.domain.losses.end(outer) {
            0 if was_up => log_info!(&SOURCE, Subsys::EpData, "{sentence}"),
            0 => {}
            failed => log_failure!(
                &SOURCE,
                Subsys::EpData,
                "{sentence}: operations with it fail: {failed}"
            ),
        }
        self.link.close(cx.wire);
        let (id, cause) = (self.link.id(), Cause::Lost);
        cx.common.over.push(Over { id, cause });
    }

    /// Ends the session silently, because its endpoint is closed.
    pub fn drop_all<W: Wire>(&mut self, cx: &mut Cx<'_, W>) {
        if self.state() == State::Over {
            return;
        }
        self.connection.set_state(cx.common, State::Over);
        self.fail_all(cx, None);
        self.link.close(cx.wire);
        let (id, cause) = (self.link.id(), Cause::Closed);
        cx.common.over.push(Over { id, cause });
    }

    /// Ends everything that depends on the connection. Without an error it ends silently.
    fn fail_all<W: Wire>(&mut self, cx: &mut Cx<'_, W>, error: Option<Error>) {
        // Packets that arrived earlier are still delivered.
        self.deliver_rest(cx);
        // Its entries in the lists of `Common` have no effect from now on.
        self.inbox.unstall();
        self.outgoing.fail_all(cx, error);
        self.incoming.fail_all(&self.link, cx.domain, error);
    }

    /// Ends the session if a packet that the peer needs could not be sent.
    pub(super) fn end_if_unsent<W: Wire>(&mut self, cx: &mut Cx<'_, W>, sent: Sent) {
        if let Err(unsent) = sent {
            self.lost(cx, unsent.error(), &unsent);
        }
    }
}

/// Whether the peer's host does not answer at all, not even with a refusal.
pub fn is_silence(error: Error) -> bool {
    matches!(error, Error::TIMEDOUT | Error::HOSTUNREACH)
}
