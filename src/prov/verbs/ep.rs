// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! One connected endpoint: the identifier of its connection, and records of the requests that it has posted.

use super::credits::Credits;
use super::datagram::Datagrams;
use super::ticket::{Holder, Kind, LAST_NUMBER, Ticket};
use base::info::Info;
use base::{Error, Result};
use engine::domain_state::{AdapterReceive, TxOp};
use sys::io_list::GatherList;
use sys::verbs::{Batch, Destination, Id, Pair, PairLimits, Receive, Request};

/// How far a connection has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    Idle,
    /// fi_connect: the device, then the route, then the peer's answer are awaited.
    ResolvingAddress,
    ResolvingRoute,
    Connecting,
    /// Opened for a connection request that fi_accept has not answered.
    Requested,
    Accepting,
    Connected,
    /// A datagram endpoint that is enabled.
    Open,
    /// A datagram endpoint whose pair has failed. It starts again when everything posted was flushed.
    Broken,
    /// The connection has ended.
    Ended,
    /// The connection could not be established.
    Failed,
}

impl State {
    /// The state in logs.
    pub fn words(self) -> &'static str {
        match self {
            State::Idle => "not connected",
            State::ResolvingAddress => "finds the device",
            State::ResolvingRoute => "finds the route",
            State::Connecting => "connecting",
            State::Requested => "opened for a connection request",
            State::Accepting => "accepting",
            State::Connected => "connected",
            State::Open => "open",
            State::Broken => "failed, starts again",
            State::Ended => "connection ended",
            State::Failed => "not connected: the attempt failed",
        }
    }
}

pub struct Ep {
    pub holder: Holder,
    pub state: State,
    /// `None` once the endpoint is closed, and in datagram endpoints.
    pub id: Option<Id>,
    pub datagrams: Option<Datagrams>,
    /// The source address that the application requested.
    pub src: Option<Vec<u8>>,
    pub dest: Option<Vec<u8>>,
    pub limits: PairLimits,
    /// Private data for the request.
    pub private: Vec<u8>,
    /// Numbers of completion queues in the domain.
    pub send_queue: usize,
    pub receive_queue: usize,
    /// The shared receive context.
    pub shared: Option<usize>,
    pub sends: Line<TxOp>,
    pub receives: Line<AdapterReceive>,
    /// Receives that were posted before there was a queue pair.
    pub early: Vec<Receive>,
    /// Receives of the peer, and receives of this side of which the peer does not know.
    pub credits: Credits,
    /// Requests that FI_MORE has deferred.
    pub batch: Batch,
    /// Requests since the last one whose success the adapter reports.
    pub unsignalled: usize,
    /// A marker is in flight: `domain::drain`.
    pub marker: bool,
    /// It was reported that the peer cannot be reached.
    pub was_unreachable: bool,
    /// fi_shutdown was called.
    pub is_shut_down: bool,
    /// The end of the connection was reported.
    pub has_ended: bool,
}

impl Ep {
    pub fn new(holder: Holder, info: &Info) -> Ep {
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Ep {
            holder,
            state: State::Idle,
            id: None,
            datagrams: None,
            src: info.src_addr.clone(),
            dest: info.dest_addr.clone(),
            limits: PairLimits {
                sends: number(info.tx.size),
                receives: number(info.rx.size),
                send_pieces: number(info.tx.iov_limit).max(1),
                receive_pieces: number(info.rx.iov_limit).max(1),
                inline: number(info.tx.inject_size),
            },
            private: Vec::new(),
            send_queue: 0,
            receive_queue: 0,
            shared: None,
            sends: Line::new(),
            receives: Line::new(),
            early: Vec::new(),
            credits: Credits::default(),
            batch: Batch::default(),
            unsignalled: 0,
            marker: false,
            was_unreachable: false,
            is_shut_down: false,
            has_ended: false,
        }
    }

    /// The queue pair, once there is one.
    #[inline]
    pub fn any_pair(&self) -> Option<&Pair> {
        match &self.datagrams {
            None => self.id.as_ref().and_then(Id::pair),
            Some(datagrams) => datagrams.pair.as_ref(),
        }
    }

    /// Whether everything posted has completed.
    pub fn is_drained(&self) -> bool {
        self.sends.len() == 0 && self.receives.len() == 0
    }

    /// The queue pair, if operations may be posted: from fi_accept on, or from the end of fi_connect on. Afterwards the
    /// adapter flushes them.
    #[inline]
    pub fn pair(&self) -> Result<&Pair> {
        let is_up = matches!(
            self.state,
            State::Accepting | State::Connected | State::Ended | State::Open
        );
        let pair = self.any_pair().filter(|_| is_up);
        pair.ok_or(Error::OPBADSTATE)
    }

    /// Whether the connection has ended and everything posted was flushed. What is posted now is refused here, because
    /// not every adapter flushes it.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.state == State::Ended && self.is_drained()
    }

    /// Whether an event of the connection manager will change the state.
    pub fn awaits_event(&self) -> bool {
        matches!(
            self.state,
            State::ResolvingAddress | State::ResolvingRoute | State::Connecting | State::Accepting
        )
    }

    /// Posts a request, which carries bytes itself if they are given, and is a datagram if it has a destination.
    pub fn post_now(
        &self,
        request: Request<'static>,
        carried: Option<&GatherList<'_>>,
        to: Option<&Destination>,
    ) -> Result {
        let mut request: Request<'_> = request;
        if let Some(to) = to {
            request.datagram(to);
        }
        if let Some(list) = carried
            && !request.inline(list)
        {
            return Err(Error::INVAL);
        }
        self.pair()?.post(&mut request).map_err(full_is_again)
    }

    /// Posts the requests of the batch. On failure returns how many were not posted, and the error.
    pub fn post_batch(&mut self) -> core::result::Result<(), (usize, Error)> {
        let mut batch = std::mem::take(&mut self.batch);
        let count = batch.len();
        let result = match self.pair() {
            Ok(pair) => batch
                .post(pair)
                .map_err(|(refused, error)| (refused.len(), error.into())),
            Err(error) => Err((count, error)),
        };
        batch.clear();
        self.batch = batch;
        result
    }

    /// Counts a request whose success is reported, or is not.
    #[inline]
    pub fn signalled(&mut self, is_reported: bool) {
        self.unsignalled = match is_reported {
            true => 0,
            false => self.unsignalled + 1,
        };
    }

    #[inline]
    pub fn ticket(&self, kind: Kind, number: u32) -> u64 {
        let holder = self.holder;
        Ticket {
            kind,
            holder,
            number,
        }
        .word()
    }

    /// How many requests may pass without a report of success: one of each part of the queue is reported, so that the
    /// others are known to be complete.
    #[inline]
    pub fn must_signal(&self) -> bool {
        let size = self.limits.sends as usize;
        // The empty write that can follow others (`domain::drain`) is no datagram.
        self.datagrams.is_some()
            || self.unsignalled + 1 >= (size / 2).clamp(1, MOST_UNSIGNALLED)
            || self.sends.len() + 1 >= size
    }
}

/// A full queue has room later.
pub fn full_is_again(error: std::io::Error) -> Error {
    match Error::from(error) {
        Error::NOMEM => Error::AGAIN,
        error => error,
    }
}

/// Limit on consecutive requests whose success is not reported.
const MOST_UNSIGNALLED: usize = 64;

/// Records of requests in the order of their queue, in which the adapter completes them.
pub struct Line<R> {
    /// A record's place is its number modulo the length, which is a power of two.
    records: Vec<R>,
    /// The number of the oldest one.
    first: u32,
    len: usize,
}

impl<R: Copy> Line<R> {
    fn new() -> Line<R> {
        Line {
            records: Vec::new(),
            first: 0,
            len: 0,
        }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn place(&self, number: u32) -> usize {
        number as usize & self.records.len().wrapping_sub(1)
    }

    /// The number of the next record.
    #[inline]
    pub fn next(&self) -> u32 {
        self.first.wrapping_add(self.len as u32) & LAST_NUMBER
    }

    /// The number of the newest record.
    pub fn last(&self) -> Option<u32> {
        (self.len > 0).then(|| self.next().wrapping_sub(1) & LAST_NUMBER)
    }

    /// The records, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &R> {
        (0..self.len).map(|n| &self.records[self.place(self.first.wrapping_add(n as u32))])
    }

    #[inline]
    pub fn push(&mut self, record: R) {
        if self.len == self.records.len() {
            self.grow(record);
        }
        let place = self.place(self.next());
        if let Some(room) = self.records.get_mut(place) {
            *room = record;
        }
        self.len += 1;
    }

    /// `some` fills the new places.
    #[cold]
    fn grow(&mut self, some: R) {
        let mut records = vec![some; (self.records.len() * 2).max(FIRST_ROOM)];
        let mask = records.len() - 1;
        for (n, record) in self.iter().enumerate() {
            records[self.first.wrapping_add(n as u32) as usize & mask] = *record;
        }
        self.records = records;
    }

    /// Removes the newest record, whose request was not posted after all.
    pub fn pop_newest(&mut self) -> Option<R> {
        let record = self.records.get(self.place(self.last()?)).copied();
        self.len -= 1;
        record
    }

    #[inline]
    pub fn pop(&mut self) -> Option<R> {
        if self.len == 0 {
            return None;
        }
        let record = self.records.get(self.place(self.first)).copied();
        self.first = self.first.wrapping_add(1) & LAST_NUMBER;
        self.len -= 1;
        record
    }

    /// Number of records up to this number, which included; `None` if there is no such record.
    #[inline]
    pub fn count_to(&self, number: u32) -> Option<usize> {
        let count = super::ticket::distance(self.first, number) + 1;
        (count <= self.len).then_some(count)
    }
}

/// Records for which there is room at first.
const FIRST_ROOM: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_completion_covers_the_records_before_it() {
        let mut line = Line::new();
        line.first = LAST_NUMBER;
        for record in [1, 2, 3] {
            line.push(record);
        }
        assert_eq!((line.next(), line.len()), (2, 3));
        assert_eq!((line.last(), line.iter().sum()), (Some(1), 6));
        assert_eq!(line.count_to(1), Some(3));
        assert_eq!(line.count_to(LAST_NUMBER), Some(1));
        assert_eq!(line.count_to(2), None);
        assert_eq!((line.pop(), line.count_to(0)), (Some(1), Some(1)));
        assert_eq!(line.count_to(LAST_NUMBER), None);
        for record in 4..1000 {
            line.push(record);
            assert_eq!(line.pop(), Some(record - 2));
            line.push(record);
            assert_eq!(line.pop_newest(), Some(record));
        }
        for record in 1000..1100 {
            line.push(record);
        }
        assert_eq!(line.len(), 102);
        assert!(line.iter().copied().eq(998..1100));
    }
}
