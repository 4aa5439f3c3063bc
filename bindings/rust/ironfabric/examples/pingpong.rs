// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! pingpong [PROVIDER]: two processes exchange messages and measure the round trip.
//!
//! The program starts itself a second time. The two exchange their addresses over a pipe, because libfabric has no way
//! to find peers: MPI jobs use their launcher for that, services a configuration file.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Instant;

use ironfabric::*;

const ROUNDS: u32 = 10_000;
const SIZE: usize = 64;

struct Node {
    domain: Domain,
    queue: CompletionQueue,
    vector: AddressVector,
    endpoint: Endpoint,
}

impl Node {
    fn open(provider: &str) -> Result<Node> {
        let mut hints = Hints::new()
            .caps(Caps::MSG)
            .endpoint_type(EndpointType::Rdm)
            .provider(provider);
        if provider == "tcp" {
            hints = hints.source("127.0.0.1", None);
        }
        let info = hints.query()?.first().ok_or(Error::NODATA)?;
        let domain = Domain::open(&Fabric::open(&info)?, &info)?;
        let queue = CompletionQueue::open(&domain, QueueOptions::default())?;
        let vector = AddressVector::open(&domain, 1)?;
        let endpoint = domain
            .endpoint(&info)?
            .queue(&queue)?
            .address_vector(&vector)?
            .enable()?;
        Ok(Node {
            domain,
            queue,
            vector,
            endpoint,
        })
    }

    /// Sends a message. While the provider has no room, reads the queue.
    fn send(&mut self, mut buffer: Buffer, peer: Peer) -> Result<()> {
        while let Err(rejected) = self.endpoint.send(buffer, peer) {
            if !rejected.is_again() {
                return Err(rejected.error);
            }
            buffer = rejected.buffer;
            self.queue.read()?;
        }
        Ok(())
    }

    /// Waits until one send and one receive are complete; returns the buffers of both.
    fn wait(&mut self) -> Result<(Buffer, Buffer)> {
        let (mut sent, mut received) = (None, None);
        loop {
            for completion in self.queue.read()? {
                match completion.is_recv() {
                    true => received = completion.into_buffer(),
                    false => sent = completion.into_buffer(),
                }
            }
            if let (Some(_), Some(_)) = (&sent, &received) {
                return Ok((sent.take().unwrap(), received.take().unwrap()));
            }
        }
    }

    /// Plays all rounds. The first process begins each of them.
    fn play(&mut self, peer: Peer, begins: bool) -> Result<()> {
        let mut message = Buffer::new(&self.domain, SIZE)?;
        let mut room = Buffer::new(&self.domain, SIZE)?;
        for round in 0..ROUNDS {
            self.endpoint.recv(room, peer)?;
            if begins {
                message.copy_from(&round.to_le_bytes());
                self.send(message, peer)?;
                (message, room) = self.wait()?;
            } else {
                let received = loop {
                    if let Some(done) = self.queue.read()?.find(|done| done.is_recv()) {
                        break done.into_buffer().expect("a receive has a buffer");
                    }
                };
                message.copy_from(&received);
                self.send(message, peer)?;
                room = received;
                message = loop {
                    if let Some(done) = self.queue.read()?.next() {
                        break done.into_buffer().expect("a send has a buffer");
                    }
                };
            }
            assert_eq!(&room[..], round.to_le_bytes());
        }
        Ok(())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn address(line: &str) -> Address {
    let digits = line.trim().as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    Address::from(digits.map(byte).collect::<Vec<u8>>())
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let provider = words.next().unwrap_or_else(|| "tcp".into());
    let is_child = words.next().is_some();
    let mut node = Node::open(&provider)?;
    let own = hex(node.endpoint.address()?.as_bytes());
    let mut line = String::new();
    if is_child {
        println!("{own}");
        std::io::stdin().lock().read_line(&mut line)?;
        let peer = node.vector.insert(&address(&line))?;
        node.play(peer, false)?;
        return Ok(());
    }
    let mut child = Command::new(std::env::current_exe()?)
        .args([&provider, "child"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line)?;
    let peer = node.vector.insert(&address(&line))?;
    writeln!(child.stdin.take().unwrap(), "{own}")?;
    let begin = Instant::now();
    node.play(peer, true)?;
    println!(
        "{provider}: {:.2} us for a round trip",
        begin.elapsed().as_secs_f64() * 1e6 / f64::from(ROUNDS)
    );
    assert!(child.wait()?.success());
    Ok(())
}
