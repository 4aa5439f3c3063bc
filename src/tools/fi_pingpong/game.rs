// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The test itself: for each size the client sends and the server answers, turn by turn.

use std::thread;
use std::time::{Duration, Instant};

use crate::control::{Control, Peer, Role};
use crate::journal::note;
use crate::options::Options;
use crate::pattern::Pattern;
use crate::report::Row;
use crate::session::{Rest, Session};
use crate::spread::Spread;
use abi::*;
use calls::endpoint::Endpoint;
use calls::failure::{Failure, Result};
use calls::remote::{Access, Place};

/// The sizes if none is given, limited to those that the endpoint takes.
pub const SIZES: [usize; 6] = [64, 256, 1024, 4096, 65536, 1048576];

/// The last message of both sides.
pub const END: &[u8] = b"fin\0";

pub struct Game {
    endpoint: Endpoint,
    control: Control,
    sizes: Vec<usize>,
    iterations: u32,
    warmup: u32,
    window: u32,
    access: Option<Access>,
    place: Place,
    /// Whether the time of each transfer is recorded.
    spreads: bool,
    /// The data of both directions, if it is checked.
    patterns: Option<(Pattern, Pattern)>,
    /// Whether messages may be lost.
    unreliable: bool,
    /// Objects that stay open as long as the endpoint.
    _session: Rest,
}

impl Game {
    pub fn new(options: &Options, control: Control, session: Session) -> Result<Game> {
        let fits = |size: &usize| *size <= session.longest;
        let all = match options.operation {
            // A single number, and those of the other sizes that fit.
            operation if operation.is_atomic() => {
                [8].into_iter().chain(SIZES).filter(fits).collect()
            }
            _ => SIZES.into_iter().filter(fits).collect::<Vec<usize>>(),
        };
        let sizes = match options.size {
            Some(size) => vec![size],
            None => all,
        };
        if sizes.is_empty() {
            return Err(Failure::new("message sizes", FI_EMSGSIZE)
                .detail(format!("this endpoint takes at most {}", session.longest)));
        }
        Ok(Game {
            unreliable: session.about.endpoint == "dgram",
            _session: session.rest,
            endpoint: session.endpoint,
            control,
            sizes,
            iterations: options.iterations,
            warmup: options.warmup,
            window: options.window,
            access: options.operation.access(),
            place: session.place,
            spreads: options.percentiles || options.json,
            patterns: options.check.then(Default::default),
        })
    }

    pub fn sizes(&self) -> Vec<usize> {
        self.sizes.clone()
    }

    /// Runs all turns with messages of one size.
    pub fn round(&mut self, size: usize) -> Result<Row> {
        note!("size {size}");
        let role = self.control.role;
        self.control.meet(|| idle(&mut self.endpoint, role))?;
        let warmup = self.warmup;
        self.turns(size, warmup, None)?;
        let mut spread = self.spreads.then(Spread::new);
        let count = self.iterations;
        let start = Instant::now();
        self.turns(size, count, spread.as_mut())?;
        self.wait(size, |endpoint| endpoint.sent().then_some(()))?;
        let mut time = start.elapsed();
        if role == Role::Server && self.access.is_some() {
            self.serve_accesses(size)?;
            time = start.elapsed();
            // The serving side has measured nothing.
            spread = None;
        }
        let compared = self
            .control
            .compare(count, || idle(&mut self.endpoint, role));
        compared.map_err(|failure| failure.at(format!("end of size {size}")))?;
        let directions = if self.window > 1 || self.access.is_some() {
            1
        } else {
            2
        };
        Ok(Row {
            size,
            count,
            transfers: directions * u64::from(count),
            time,
            spread,
        })
    }

    /// Runs `count` turns of one size, in windows.
    fn turns(&mut self, size: usize, count: u32, mut spread: Option<&mut Spread>) -> Result {
        let mut turn = 0;
        while turn < count {
            let batch = self.window.min(count - turn);
            let start = spread.is_some().then(Instant::now);
            let played = match (self.control.role, self.access, self.window) {
                (Role::Server, Some(_), _) => return Ok(()),
                (Role::Client, Some(access), _) => self.access(access, size, batch),
                (Role::Client, None, 1) => self.send(size).and_then(|()| self.receive(size)),
                (Role::Server, None, 1) => self.receive(size).and_then(|()| self.send(size)),
                (Role::Client, None, _) => self.stream(size, batch),
                (Role::Server, None, _) => self.drain(size, batch),
            };
            if let Err(failure) = played {
                return Err(self.explain(failure.at(format!("message {turn} of size {size}"))));
            }
            if let (Some(spread), Some(start)) = (spread.as_deref_mut(), start) {
                let transfers = match (self.access, self.window) {
                    (None, 1) => 2,
                    _ => batch,
                };
                spread.add(start.elapsed() / transfers);
            }
            turn += batch;
        }
        Ok(())
    }

    /// Sends a window of messages and waits until the peer confirms their receipt.
    fn stream(&mut self, size: usize, batch: u32) -> Result {
        for _ in 0..batch {
            self.send(size)?;
        }
        self.receive_plain(WINDOW_DONE)
    }

    fn drain(&mut self, size: usize, batch: u32) -> Result {
        for _ in 0..batch {
            self.receive(size)?;
        }
        self.wait(size, |endpoint| endpoint.has_room().then_some(()))?;
        self.post(WINDOW_DONE)
    }

    /// Posts a window of accesses to the peer's memory and waits until all are complete.
    fn access(&mut self, access: Access, size: usize, batch: u32) -> Result {
        for _ in 0..batch {
            self.wait(size, |endpoint| endpoint.has_room().then_some(()))?;
            let mut watch = Watch::new(self.patience(size));
            while !self.endpoint.access(access, size, self.place)? {
                self.endpoint.progress()?;
                watch.tick(&self.control)?;
            }
        }
        self.wait(size, |endpoint| endpoint.sent().then_some(()))
    }

    /// Makes progress while the client accesses memory here, until the client sends a byte on the control connection.
    fn serve_accesses(&mut self, size: usize) -> Result {
        let deadline = Instant::now() + self.patience(size) + ACCESSES;
        while self.control.peer() == Peer::Silent {
            for _ in 0..POLLS {
                self.endpoint.progress()?;
            }
            if Instant::now() > deadline {
                return Err(Failure::new("waiting for the peer", FI_ETIMEDOUT));
            }
            thread::yield_now();
        }
        if self.access == Some(Access::WriteData) {
            let wanted = u64::from(self.warmup) + u64::from(self.iterations);
            self.wait(size, |endpoint| {
                (endpoint.announced() >= wanted).then_some(())
            })
            .map_err(|failure| failure.at("data of writes"))?;
            self.endpoint.forget_announced();
        }
        Ok(())
    }

    /// Adds the reason for a broken connection, if the control connection shows it: the provider does not know the
    /// reason.
    fn explain(&self, failure: Failure) -> Failure {
        let deadline = Instant::now() + BREATH;
        while Instant::now() < deadline {
            if self.control.peer() == Peer::Left {
                return failure.or_detail(PEER_ENDED);
            }
            thread::sleep(Duration::from_millis(1));
        }
        failure
    }

    fn send(&mut self, size: usize) -> Result {
        self.wait(size, |endpoint| endpoint.has_room().then_some(()))?;
        if let Some((mine, _)) = &mut self.patterns {
            mine.fill(&mut self.endpoint.outgoing()[..size]);
        }
        self.post(size)
    }

    /// Posts the outgoing buffer.
    fn post(&mut self, size: usize) -> Result {
        if self.endpoint.send(size)? {
            return Ok(());
        }
        let mut watch = Watch::new(self.patience(size));
        loop {
            self.endpoint.progress()?;
            if self.endpoint.send(size)? {
                return Ok(());
            }
            watch.tick(&self.control)?;
        }
    }

    fn receive(&mut self, size: usize) -> Result {
        let length = match self.wait(size, Endpoint::take_received) {
            Err(failure) if failure.code() == FI_ETRUNC => Err(failure.detail(OTHER_SIZE)),
            length => length,
        }?;
        if length != size {
            let found = format!("{length} bytes came where {size} belong: {OTHER_SIZE}");
            return Err(Failure::new("receiving", FI_EIO).detail(found));
        }
        if let Some((_, theirs)) = &mut self.patterns
            && let Some((at, wanted, found)) = theirs.check(&self.endpoint.incoming()[..size])
        {
            return Err(Failure::new("data", FI_EIO).detail(format!(
                "byte {at} is {found:#04x} where {wanted:#04x} belongs: is -c given on both sides?"
            )));
        }
        self.again(size)
    }

    /// Takes a message without checking its data.
    fn receive_plain(&mut self, size: usize) -> Result {
        let length = self.wait(size, Endpoint::take_received)?;
        if length != size {
            let found = format!("{length} bytes came where {size} belong");
            return Err(Failure::new("receiving", FI_EPROTO).detail(found));
        }
        self.again(size)
    }

    /// Posts the receive again.
    fn again(&mut self, size: usize) -> Result {
        let mut watch = Watch::new(self.patience(size));
        while !self.endpoint.receive()? {
            self.endpoint.progress()?;
            watch.tick(&self.control)?;
        }
        Ok(())
    }

    /// Exchanges the last messages with the peer.
    pub fn finish(mut self) -> Result {
        match self.exchange_end() {
            // The results are complete, and a datagram may be lost.
            Err(failure) if self.unreliable => note!("end: {failure}"),
            done => done?,
        }
        // The provider may have work left for the peer, which it does only while it is called.
        self.control.part();
        let deadline = Instant::now() + LINGER;
        while !self.control.peer_left() && Instant::now() < deadline {
            if self.endpoint.progress().is_err() {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        note!("end");
        Ok(())
    }

    fn exchange_end(&mut self) -> Result {
        let size = END.len();
        self.endpoint.outgoing()[..size].copy_from_slice(END);
        self.post(size)?;
        let length = self.wait(size, Endpoint::take_received)?;
        if length != size || &self.endpoint.incoming()[..size] != END {
            return Err(Failure::new("receiving", FI_EPROTO)
                .detail("another message where the end belongs"));
        }
        match self.wait(size, |endpoint| endpoint.sent().then_some(())) {
            // The peer leaves only after it has received everything.
            Err(_) if self.control.peer_left() => Ok(()),
            done => done,
        }
    }

    /// Reads completions until `done` returns a value.
    fn wait<T>(
        &mut self,
        size: usize,
        mut done: impl FnMut(&mut Endpoint) -> Option<T>,
    ) -> Result<T> {
        if let Some(found) = done(&mut self.endpoint) {
            return Ok(found);
        }
        let mut watch = Watch::new(self.patience(size));
        loop {
            self.endpoint.progress()?;
            if let Some(found) = done(&mut self.endpoint) {
                return Ok(found);
            }
            watch.tick(&self.control)?;
        }
    }

    /// Returns the time limit for a message of this size.
    fn patience(&self, size: usize) -> Duration {
        let base = match self.unreliable {
            true => Duration::from_secs(5),
            false => Duration::from_secs(15),
        };
        base + Duration::from_micros((size / SLOWEST) as u64)
    }
}

/// Makes progress while both sides use the control connection.
fn idle(endpoint: &mut Endpoint, role: Role) -> Result {
    endpoint.progress()?;
    // The client may receive the last message early; no other message can be in flight.
    match role {
        Role::Server if endpoint.has_received() => {
            Err(Failure::new("receiving", FI_EPROTO).detail(OTHER_COUNT))
        }
        _ => Ok(()),
    }
}

/// Checks now and then, while the caller polls, whether the time is over or the peer has ended.
struct Watch {
    polls: u32,
    limit: Duration,
    /// The start of polling, and the last check of the peer. The clock is not read for short waits.
    times: Option<(Instant, Instant)>,
    /// The time since which the peer has been in another step.
    elsewhere: Option<Instant>,
}

impl Watch {
    fn new(limit: Duration) -> Watch {
        Watch {
            polls: 0,
            limit,
            times: None,
            elsewhere: None,
        }
    }

    fn tick(&mut self, control: &Control) -> Result {
        self.polls = self.polls.wrapping_add(1);
        match self.polls % POLLS {
            0 => self.look(control),
            _ => Ok(()),
        }
    }

    #[cold]
    fn look(&mut self, control: &Control) -> Result {
        let now = Instant::now();
        let (start, looked) = self.times.get_or_insert((now, now));
        if now - *start > self.limit {
            return Err(Failure::new("waiting for the peer", FI_ETIMEDOUT));
        }
        if now - *start > SPIN {
            // Otherwise two busy processes on one processor would wait for each other's time slice.
            thread::yield_now();
        }
        if now - *looked > BREATH {
            *looked = now;
            if control.peer() != Peer::Silent {
                self.elsewhere.get_or_insert(now);
            }
        }
        // Messages that the peer has sent before may still be in flight.
        if self.elsewhere.is_none_or(|since| now - since < GRACE) {
            return Ok(());
        }
        let failure = Failure::new("waiting for the peer", FI_ECONNABORTED);
        Err(failure.detail(match control.peer() {
            Peer::Left => PEER_ENDED,
            _ => OTHER_COUNT,
        }))
    }
}

const PEER_ENDED: &str = "the peer has ended; its own output may say why";
const OTHER_SIZE: &str = "is -S the same on both sides?";
const OTHER_COUNT: &str =
    "the peer counts another number of messages: is -I the same on both sides?";

/// The length of the message behind a window.
const WINDOW_DONE: usize = 4;
/// Additional time for all accesses of one size.
const ACCESSES: Duration = Duration::from_secs(600);

/// Number of polls between two readings of the clock.
const POLLS: u32 = 256;
/// Shorter waits do not yield the processor.
const SPIN: Duration = Duration::from_micros(200);
const BREATH: Duration = Duration::from_millis(50);
const GRACE: Duration = Duration::from_secs(1);
/// Time limit for serving a peer that has not left.
const LINGER: Duration = Duration::from_secs(2);
/// The slowest transfer worth waiting for, in bytes per microsecond.
const SLOWEST: usize = 1;
