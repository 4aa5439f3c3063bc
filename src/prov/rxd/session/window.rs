// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Which packets of a sender are under way, which of them are lost, and how many there may be.
//!
//! A peer of this library keeps what comes out of order and says so; then exactly the packets are lost that three
//! younger transmissions have overtaken. Others drop what comes out of order and acknowledge the old: after three of
//! these everything behind is lost.
//!
//! How many may be under way follows losses (as NewReno): one more after each full round, 0.7 times as many after a
//! loss, and nearly none after silence. A first silence only has the oldest packet sent again: most silences are
//! peers that do not poll.
#![forbid(unsafe_code)]

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
    /// Which transmission its last one was.
    order: u64,
    state: State,
    again: bool,
}

pub struct Window {
    /// All packets before this one are acknowledged.
    acked: u64,
    flights: VecDeque<Flight>,
    /// In the state `Out`, and `Lost`.
    out: u32,
    lost: u32,
    /// Transmissions so far, and the youngest that has arrived.
    order: u64,
    arrived: u64,
    /// Packets that may be under way, and what counts for the next one more.
    congestion: u32,
    credit: u32,
    slow_start_until: u32,
    /// Losses before this packet belong to one that was heeded.
    recover: u64,
    /// Acknowledgements that have said nothing new, in a row; and what was acknowledged when they last meant a loss.
    repeats: u32,
    repeated: Option<u64>,
    rtt: Rtt,
    /// Since when there is no news, while packets are under way.
    silent_since: Option<Instant>,
    timeouts: u32,
    /// The peer keeps nothing that comes out of order, and says little of what has come.
    plain: bool,
    /// What is announced by the peer, and our own limit.
    peer: u32,
    most: u32,
}

/// What an acknowledgement has brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// Of packets that were never sent.
    Forged,
    /// Of the past.
    Old,
    Nothing,
    /// More packets are acknowledged.
    Progress,
}

impl Window {
    pub fn new(most: u32) -> Window {
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
            silent_since: None,
            timeouts: 0,
            plain: false,
            peer: most,
            most,
        }
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

    /// How often in a row nothing was heard.
    pub fn timeouts(&self) -> u32 {
        self.timeouts
    }

    pub fn set_plain(&mut self, plain: bool) {
        self.plain = plain;
    }

    /// Packets that may be under way. A plain peer acknowledges a message, or what fills its window: with less of that
    /// under way both would wait.
    fn limit(&self) -> u32 {
        match self.plain {
            true => self.most,
            false => self.congestion,
        }
    }

    /// Whether a packet that was never sent may leave.
    #[inline]
    pub fn has_room(&self) -> bool {
        // What the peer does not want is tried one by one.
        let most = self.peer.min(self.most).max(1);
        self.flights.len() < most as usize && self.out < self.limit()
    }

    /// The same once one more has left.
    pub fn will_have_room(&self) -> bool {
        let most = self.peer.min(self.most).max(1);
        self.flights.len() + 1 < most as usize && self.out + 1 < self.limit()
    }

    /// This packet is not what the peer has to have: it is sent again, changed.
    pub fn resend(&mut self, seq: u64) {
        if let Some(flight) = self.flights.get_mut((seq - self.acked) as usize)
            && flight.state == State::Out
        {
            flight.state = State::Lost;
            self.out -= 1;
            self.lost += 1;
        }
    }

    /// A lost packet that may be sent again.
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

    /// A packet has been sent: the next, or a lost one.
    pub fn sent(&mut self, seq: u64, now: Instant) {
        let at = (seq - self.acked) as usize;
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

    /// `beyond`: bit n says that packet `next` + 1 + n is here.
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
            // What is repeated now may be the answer to what was sent before the last loss.
            if self.repeats >= REPEATS && self.repeated != Some(self.acked) {
                self.repeated = Some(self.acked);
                self.lose_all();
                if self.acked >= self.recover {
                    self.shrink();
                }
            }
        }
        if reopened && let Some(first) = self.flights.front_mut() {
            // What the peer has dropped meanwhile.
            if first.state == State::Out {
                first.state = State::Lost;
                self.out -= 1;
                self.lost += 1;
            }
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

    /// Packets behind a gap.
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
        // Of a few no three can overtake one.
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

    fn lose_all(&mut self) {
        for flight in &mut self.flights {
            if flight.state == State::Out {
                flight.state = State::Lost;
                self.out -= 1;
                self.lost += 1;
            }
        }
    }

    /// As many more as this says have arrived while as many as may be were under way.
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
        // Where nothing waits, packets are lost for other reasons than that there are too many.
        let tenths = if self.rtt.is_queued() { 7 } else { 9 };
        self.slow_start_until = (self.congestion * tenths / 10).max(LEAST);
        self.congestion = self.slow_start_until;
        self.credit = 0;
        self.recover = self.next();
    }

    /// When something is to be sent again if nothing is heard.
    pub fn deadline(&self) -> Option<Instant> {
        let since = self.silent_since?;
        let patience = self.rtt.patience_after(self.timeouts);
        // Not all who have waited for the same come back at the same time.
        Some(since + patience + patience / 32 * (self.order % 8) as u32)
    }

    /// The deadline has come. False: the peer is given up.
    pub fn silence(&mut self, now: Instant) -> bool {
        self.timeouts += 1;
        self.silent_since = Some(now);
        match self.timeouts {
            // Nothing is left there of what came behind a gap.
            1 if self.plain => {
                self.lose_all();
                self.congestion = (self.congestion / 2).max(LEAST);
                self.repeated = None;
            }
            1 => {
                if let Some(first) = self.flights.front_mut()
                    && first.state == State::Out
                {
                    first.state = State::Lost;
                    self.out -= 1;
                    self.lost += 1;
                }
                // That one may leave, whatever else is under way.
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

    /// The peer lives, though it takes nothing.
    pub fn lives(&mut self) {
        self.timeouts = self.timeouts.min(PATIENT);
    }
}

/// The transmission by which a packet has arrived: of several the last, unless that is too young.
fn arrival(flight: &Flight, rtt: &Rtt, now: Instant) -> u64 {
    match flight.again && now.saturating_duration_since(flight.sent) < rtt.least() {
        true => 0,
        false => flight.order,
    }
}

/// Packets that may be under way to a peer of which nothing is known. A socket's buffer holds some ninety.
const FIRST: u32 = 32;
const LEAST: u32 = 2;
/// Younger transmissions that arrive before one is taken for lost.
const OVERTAKEN: u64 = 3;
/// Acknowledgements of the same.
const REPEATS: u32 = 3;
/// After so many silences in a row the peer is gone: `LONGEST` each, but for the first.
pub const MAX_TIMEOUTS: u32 = 50;
/// A peer that answers, and takes nothing, is asked this seldom.
const PATIENT: u32 = 8;
