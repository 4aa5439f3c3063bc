// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! messages PROVIDER pingpong|rate SIZE ROUNDS: two endpoints of one process exchange messages. Prints nanoseconds
//! of the processor for each round. messages.c does the same in C, call for call.

use ironfabric::*;

const WINDOW: usize = 16;

struct Side<T: Threads> {
    endpoint: Endpoint<T>,
    queue: CompletionQueue<T>,
    peer: Peer,
    /// Messages that can be sent.
    free: Vec<Buffer<T>>,
    /// Messages that were received.
    received: Vec<Buffer<T>>,
}

impl<T: Threads> Side<T> {
    /// Reads completions.
    #[inline]
    fn progress(&mut self) {
        for done in self.queue.read().expect("a read") {
            let is_recv = done.is_recv();
            let buffer = done.into_buffer().expect("a buffer");
            match is_recv {
                true => self.received.push(buffer),
                false => self.free.push(buffer),
            }
        }
    }

    #[inline]
    fn post_receive(&mut self, mut buffer: Buffer<T>) {
        while let Err(rejected) = self.endpoint.recv(buffer, Peer::ANY) {
            assert!(rejected.is_again());
            buffer = rejected.buffer;
        }
    }

    #[inline]
    fn post_send(&mut self, to: &mut Side<T>) {
        let mut buffer = self.free.pop().expect("a free message");
        while let Err(rejected) = self.endpoint.send(buffer, self.peer) {
            assert!(rejected.is_again());
            buffer = rejected.buffer;
            to.progress();
            self.progress();
        }
    }

    #[inline]
    fn repost(&mut self) {
        let buffer = self.received.pop().expect("a received message");
        self.post_receive(buffer);
    }
}

fn pingpong<T: Threads>(a: &mut Side<T>, b: &mut Side<T>, rounds: u64) {
    for _ in 0..rounds {
        while a.free.is_empty() {
            a.progress();
        }
        a.post_send(b);
        while b.received.is_empty() {
            b.progress();
        }
        b.repost();
        while b.free.is_empty() {
            b.progress();
        }
        b.post_send(a);
        while a.received.is_empty() {
            a.progress();
        }
        a.repost();
    }
}

fn rate<T: Threads>(a: &mut Side<T>, b: &mut Side<T>, rounds: u64) {
    for _ in 0..rounds {
        while a.free.len() < WINDOW {
            a.progress();
        }
        for _ in 0..WINDOW {
            a.post_send(b);
        }
        while b.received.len() < WINDOW {
            b.progress();
        }
        for _ in 0..WINDOW {
            b.repost();
        }
    }
}

fn run<T: Threads>(hints: Hints, mode: &str, size: usize, rounds: u64) -> Result {
    let info = hints.query()?.first().ok_or(Error::NODATA)?;
    let domain = Domain::<T>::open(&Fabric::open(&info)?, &info)?;
    let vector = AddressVector::open(&domain, 0)?;
    let side = || -> Result<Side<T>> {
        let queue = CompletionQueue::open(&domain, QueueOptions::default())?;
        let endpoint = domain
            .endpoint(&info)?
            .queue(&queue)?
            .address_vector(&vector)?
            .enable()?;
        Ok(Side {
            peer: vector.insert(&endpoint.address()?)?,
            endpoint,
            queue,
            free: Vec::with_capacity(WINDOW),
            received: Vec::with_capacity(WINDOW),
        })
    };
    let (mut a, mut b) = (side()?, side()?);
    std::mem::swap(&mut a.peer, &mut b.peer);
    for side in [&mut a, &mut b] {
        for _ in 0..WINDOW {
            side.free.push(Buffer::new(&domain, size)?);
            side.post_receive(Buffer::new(&domain, size)?);
        }
    }
    let exchange = if mode == "rate" { rate } else { pingpong };
    pingpong(&mut a, &mut b, 10);
    exchange(&mut a, &mut b, rounds / 10);
    let begin = now();
    exchange(&mut a, &mut b, rounds);
    println!("{:.1}", (now() - begin) / rounds as f64);
    Ok(())
}

/// Returns the time of the processor in nanoseconds: other processes of a busy machine do not count.
fn now() -> f64 {
    let mut at = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the struct is written during the call.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut at) };
    at.tv_sec as f64 * 1e9 + at.tv_nsec as f64
}

fn main() -> Result {
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .collect();
    let [provider, mode, size, rounds] = &words[..] else {
        println!("usage: messages PROVIDER pingpong|rate SIZE ROUNDS");
        return Ok(());
    };
    let (size, rounds) = (
        size.parse().expect("a size"),
        rounds.parse().expect("a number"),
    );
    let mut hints = Hints::new()
        .caps(Caps::MSG)
        .endpoint_type(EndpointType::Rdm)
        .provider(provider);
    let node = (provider != "shm").then_some("127.0.0.1");
    hints = hints.source(node, None);
    match std::env::var_os("LOCAL") {
        Some(_) => run::<Local>(hints.local(), mode, size, rounds),
        None => run::<Shared>(hints, mode, size, rounds),
    }
}
