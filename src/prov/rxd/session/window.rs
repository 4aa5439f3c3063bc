// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Tracks the packets that a sender has in flight: which are lost, and how many there may be.
//!
//! A peer of this library keeps packets that arrive out of order and reports them. A packet is then lost if three later
//! transmissions have overtaken it. Other libraries drop packets out of order and acknowledge the last packet in order:
//! after three such acknowledgements, everything after it is lost.
//!
//! The congestion window follows losses (as NewReno): it grows by one packet per full round trip, shrinks to 0.7 after
//! a loss, and to nearly nothing after repeated timeouts. The first timeout only retransmits the oldest packet, because
//! most timeouts are caused by peers that do not poll.

use core::time::Duration;
use std::collections::VecDeque;
use std::time::Instant;

use super::rtt::Rtt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Out,
    Lost,
    /// The peer has it.
    Here,
}

#[derive(Clone, Copy, Debug)]
struct Flight {
    sent: Instant,
    /// The order number of its last transmission.
    order: u64,
    state: State,
    again: bool,
}

pub struct Window {
    /// All packets before this one are acknowledged.
    acked: u64,
    flights: VecDeque<Flight>,
    /// Packets in state `Out`, and in state `Lost`.
    out: u32,
    lost: u32,
    /// Number of transmissions, and the order number of the latest one that has arrived.
    order: u64,
    arrived: u64,
    /// Congestion window in packets, and acknowledged packets that count towards its next increase.
    congestion: u32,
    credit: u32,
    slow_start_until: u32,
    /// Losses before this packet belong to a loss that was already handled.
    recover: u64,
    /// Repeated acknowledgements in a row; and the acknowledged number at which they last indicated a loss.
    repeats: u32,
    repeated: Option<u64>,
    rtt: Rtt,
    /// Time of the first packet, until one is acknowledged; and the time that took, until it is taken.
    began: Option<Instant>,
    first: Option<Duration>,
    /// Time of the last progress, while packets are in flight.
    silent_since: Option<Instant>,
    timeouts: u32,
    /// The peer keeps nothing that arrives out of order, and acknowledges rarely.
    plain: bool,
    /// The window announced by the peer, and our own limit.
    peer: u32,
    most: u32,
    /// A random number, which gives each session deadlines of its own.
    salt: u32,
}

/// Result of processing an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// The acknowledgement names packets that were never sent.
    Forged,
    /// The acknowledgement is older than one already processed.
    Old,
    Nothing,
    /// More packets are acknowledged.
    Progress,
}

impl Window {
    /// `salt` is a random number.
    pub fn new(most: u32, salt: u32) -> Window {
        Window {
            acked: 0,
            flights: VecDeque::new(),
            out: 0,
            lost: 0,
            order: 0,
            arrived: 0,
            congestion: FIRST.min(most),
            credit: 0,
            slow_start_until: most,
            recover: 0,
            repeats: 0,
            repeated: None,
            rtt: Rtt::default(),
            began: None,
            first: None,
            silent_since: None,
            timeouts: 0,
            plain: false,
            peer: most,
            most,
            salt,
        }
    }

    /// Sets the first retransmission timeout by the times in which other peers have answered.
    #[inline]
    pub fn expect(&mut self, others: &Rtt) {
        self.rtt.expect(others);
    }

    /// Returns the time after which the first packet was acknowledged, once. Retransmissions are included.
    #[inline]
    pub fn take_first(&mut self) -> Option<Duration> {
        self.first.take()
    }

    #[inline]
    pub fn acked(&self) -> u64 {
        self.acked
    }

    /// The first packet that was never sent.
    #[inline]
    pub fn next(&self) -> u64 {
        self.acked + self.flights.len() as u64
    }

    /// Number of timeouts in a row.
    pub fn timeouts(&self) -> u32 {
        self.timeouts
    }

    pub fn set_plain(&mut self, plain: bool) {
        self.plain = plain;
    }

    /// Most packets in flight. A plain peer acknowledges only whole messages or full windows, so a smaller limit would
    /// block both sides.
    fn limit(&self) -> u32 {
        // One packet probes a closed window.
        if self.is_closed() {
            return 1;
        }
        match self.plain {
            true => self.most,
            false => self.congestion,
        }
    }

    /// Whether the peer has announced that it takes nothing now.
    fn is_closed(&self) -> bool {
        self.peer == 0
    }

    /// Whether a packet that was never sent may leave.
    #[inline]
    pub fn has_room(&self) -> bool {
        // If the peer's window is closed, one packet at a time probes it.
        let most = self.peer.min(self.most).max(1);
        self.flights.len() < most as usize && self.out < self.limit()
    }

    /// The same after one more packet.
    pub fn will_have_room(&self) -> bool {
        let most = self.peer.min(self.most).max(1);
        self.flights.len() + 1 < most as usize && self.out + 1 < self.limit()
    }

    /// Replaces a packet that was sent already: it is sent again with new contents.
    pub fn resend(&mut self, seq: u64) {
        if let Some(flight) = self.flights.get_mut((seq - self.acked) as usize)
            && flight.state == State::Out
        {
            flight.state = State::Lost;
            self.out -= 1;
            self.lost += 1;
        }
    }

    /// The next lost packet that may be sent again.
    pub fn next_lost(&self) -> Option<u64> {
        if self.lost == 0 || self.out >= self.limit() {
            return None;
        }
        let at = self
            .flights
            .iter()
            .position(|flight| flight.state == State::Lost)?;
        Some(self.acked + at as u64)
    }

    /// Records that a packet was sent: the next one, or a lost one.
    pub fn sent(&mut self, seq: u64, now: Instant) {
        let at = (seq - self.acked) as usize;
        if self.order == 0 {
            self.began = Some(now);
        }
        self.order += 1;
        let flight = Flight {
            sent: now,
            order: self.order,
            state: State::Out,
            again: at < self.flights.len(),
        };
        match self.flights.get_mut(at) {
            Some(place) => {
                self.lost -= u32::from(place.state == State::Lost);
                self.out -= u32::from(place.state == State::Out);
                *place = flight;
            }
            None => self.flights.push_back(flight),
        }
        self.out += 1;
        self.silent_since.get_or_insert(now);
    }

    /// Processes an acknowledgement. `beyond`: bit n is set if packet `next` + 1 + n has arrived.
    pub fn acknowledged(&mut self, next: u64, window: u32, beyond: u64, now: Instant) -> News {
        if next > self.next() {
            return News::Forged;
        }
        if next < self.acked {
            return News::Old;
        }
        let reopened = self.peer == 0 && window > 0;
        self.peer = window;
        let full = self.out >= self.congestion;
        let news = (next - self.acked) as usize;
        self.release(news, now);
        if news > 0 {
            if let Some(began) = self.began.take() {
                self.first = Some(now.saturating_duration_since(began));
            }
            self.repeats = 0;
            self.timeouts = 0;
            self.silent_since = (!self.flights.is_empty()).then_some(now);
            if full && self.acked >= self.recover {
                self.grow(news as u32);
            }
        }
        if !self.plain {
            self.mark_arrived(beyond, now);
            self.find_overtaken();
        } else if news == 0 && window > 0 && !self.flights.is_empty() {
            self.repeats += 1;
            // Repetitions at the same number may still result from packets that were sent before the last loss.
            if self.repeats >= REPEATS && self.repeated != Some(self.acked) {
                self.repeated = Some(self.acked);
                self.lose_all();
                if self.acked >= self.recover {
                    self.shrink();
                }
            }
        }
        if reopened {
            // The peer dropped this packet while its window was closed.
            self.lose_first();
        }
        match news {
            0 => News::Nothing,
            _ => News::Progress,
        }
    }

    fn release(&mut self, count: usize, now: Instant) {
        let mut sample = None;
        for flight in self.flights.drain(..count) {
            match flight.state {
                State::Out => self.out -= 1,
                State::Lost => self.lost -= 1,
                State::Here => continue,
            }
            if !flight.again {
                sample = Some(now.saturating_duration_since(flight.sent));
            }
            self.arrived = self.arrived.max(arrival(&flight, &self.rtt, now));
        }
        self.acked += count as u64;
        if let Some(sample) = sample {
            self.rtt.measured(sample);
        }
    }

    /// Marks packets that arrived behind a gap.
    fn mark_arrived(&mut self, mut beyond: u64, now: Instant) {
        while beyond != 0 {
            let at = beyond.trailing_zeros() as usize + 1;
            beyond &= beyond - 1;
            let Some(flight) = self.flights.get_mut(at) else {
                return;
            };
            match flight.state {
                State::Out => self.out -= 1,
                State::Lost => self.lost -= 1,
                State::Here => continue,
            }
            flight.state = State::Here;
            self.arrived = self.arrived.max(arrival(flight, &self.rtt, now));
        }
    }

    fn find_overtaken(&mut self) {
        if self.flights.is_empty() {
            return;
        }
        let mut is_new = false;
        // With few packets in flight fewer than three can overtake one.
        let enough = OVERTAKEN.min(self.flights.len() as u64 - 1).max(1);
        for (i, flight) in self.flights.iter_mut().enumerate() {
            if flight.state == State::Out && flight.order + enough <= self.arrived {
                flight.state = State::Lost;
                self.out -= 1;
                self.lost += 1;
                is_new |= self.acked + i as u64 >= self.recover;
            }
        }
        if is_new {
            self.shrink();
        }
    }

    fn lose_first(&mut self) {
        if let Some(first) = self.flights.front_mut()
            && first.state == State::Out
        {
            first.state = State::Lost;
            self.out -= 1;
            self.lost += 1;
        }
    }

    fn lose_all(&mut self) {
        for flight in &mut self.flights {
            if flight.state == State::Out {
                flight.state = State::Lost;
                self.out -= 1;
                self.lost += 1;
            }
        }
    }

    /// Grows the window after `news` packets were acknowledged while the window was full.
    fn grow(&mut self, news: u32) {
        if self.congestion < self.slow_start_until {
            self.congestion = (self.congestion + news).min(self.slow_start_until);
            return;
        }
        self.credit += news;
        if self.credit >= self.congestion {
            self.credit -= self.congestion;
            self.congestion = (self.congestion + 1).min(self.most);
        }
    }

    fn shrink(&mut self) {
        // If nothing waits in a queue, the loss has another cause than congestion.
        let tenths = if self.rtt.is_queued() { 7 } else { 9 };
        self.slow_start_until = (self.congestion * tenths / 10).max(LEAST);
        self.congestion = self.slow_start_until;
        self.credit = 0;
        self.recover = self.next();
    }

    /// Time at which a retransmission is due unless an acknowledgement arrives.
    pub fn deadline(&self) -> Option<Instant> {
        let since = self.silent_since?;
        let patience = match self.is_closed() {
            true => self.rtt.patience_closed(self.timeouts),
            false => self.rtt.patience_after(self.timeouts),
        };
        // Spreads the retransmissions of senders that lost packets at the same time.
        let part = self.salt.wrapping_add(self.order as u32) % 16;
        Some(since + patience + patience / 32 * part)
    }

    /// Moves the deadline, because acknowledgements may wait unread.
    pub fn postpone(&mut self, by: Duration) {
        if let Some(since) = &mut self.silent_since {
            *since += by;
        }
    }

    /// Handles a timeout. Returns false if the peer is given up.
    pub fn silence(&mut self, now: Instant) -> bool {
        self.timeouts += 1;
        self.silent_since = Some(now);
        if self.is_closed() {
            self.lose_first();
            return self.timeouts <= MAX_TIMEOUTS;
        }
        match self.timeouts {
            // A plain peer has kept nothing that arrived behind a gap.
            1 if self.plain => {
                self.lose_all();
                self.congestion = (self.congestion / 2).max(LEAST);
                self.repeated = None;
            }
            1 => {
                self.lose_first();
                // The oldest packet may be sent again, however many are in flight.
                self.congestion = self.congestion.max(self.out + 1);
            }
            _ => {
                self.repeated = None;
                if self.timeouts == 2 {
                    self.slow_start_until = (self.congestion / 2).max(LEAST);
                }
                self.lose_all();
                self.congestion = LEAST;
                self.credit = 0;
                self.recover = self.next();
            }
        }
        self.timeouts <= MAX_TIMEOUTS
    }

    /// The peer is alive although it accepts nothing.
    pub fn lives(&mut self) {
        self.timeouts = self.timeouts.min(PATIENT);
    }
}

/// The transmission by which a packet has arrived: the last one, unless that was too recent.
fn arrival(flight: &Flight, rtt: &Rtt, now: Instant) -> u64 {
    match flight.again && now.saturating_duration_since(flight.sent) < rtt.least() {
        true => 0,
        false => flight.order,
    }
}

/// First congestion window, as that of TCP (RFC 6928). The buffer of a socket holds about 90 packets, and many peers
/// may send their first packets to one endpoint at the same time.
const FIRST: u32 = 10;
const LEAST: u32 = 2;
/// Later transmissions that must arrive before a packet counts as lost.
const OVERTAKEN: u64 = 3;
/// Repeated acknowledgements that indicate a loss.
const REPEATS: u32 = 3;
/// Timeouts in a row after which the peer is gone: `LONGEST` each, except the first ones.
pub const MAX_TIMEOUTS: u32 = 50;
/// Cap of the timeout count while a peer answers but accepts nothing; it limits the backoff.
const PATIENT: u32 = 8;
