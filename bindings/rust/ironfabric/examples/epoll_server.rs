// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! epoll_server: a server that sends messages of many connections back, in one thread that sleeps in epoll. Three
//! clients in threads of the same process use it.
//!
//! The order before a thread sleeps is that of fi_poll(3): read every queue until it is empty, call `try_wait` on it,
//! and sleep only if all of them return true.

use std::collections::HashMap;
use std::time::Duration;

use ironfabric::*;
use rustix::event::{Timespec, epoll};

const MESSAGE: usize = 256;
const CLIENTS: usize = 3;
const ROUNDS: u8 = 100;

fn entry() -> Result<Info> {
    let hints = Hints::new()
        .caps(Caps::MSG)
        .endpoint_type(EndpointType::Msg)
        .provider("tcp");
    hints
        .source("127.0.0.1", None)
        .query()?
        .first()
        .ok_or(Error::NODATA)
}

struct Server {
    domain: Domain,
    events: EventQueue,
    queue: CompletionQueue,
    /// By the token of their buffers.
    connections: HashMap<u64, Endpoint>,
    accepted: u64,
}

impl Server {
    /// Serves an event. Returns whether there was one.
    fn event(&mut self) -> Result<bool> {
        match self.events.read()? {
            None => return Ok(false),
            Some(Event::Request(request)) => {
                let endpoint = request
                    .endpoint(&self.domain)?
                    .queue(&self.queue)?
                    .enable()?;
                let mut buffer = Buffer::new(&self.domain, MESSAGE)?;
                buffer.set_token(self.accepted);
                endpoint.recv(buffer, Peer::ANY)?;
                endpoint.accept(&[])?;
                self.connections.insert(self.accepted, endpoint);
                self.accepted += 1;
            }
            // Dropping the endpoint closes it. Its receive in flight is freed.
            Some(Event::Shutdown { endpoint }) => {
                self.connections.retain(|_, open| open.id() != endpoint)
            }
            Some(Event::Failed(failure)) => println!("a connection failed: {failure}"),
            Some(_) => {}
        }
        Ok(true)
    }

    /// Serves the completions that are there. Returns whether there were any.
    fn completions(&mut self) -> Result<bool> {
        let completions = match self.queue.read() {
            Ok(completions) => completions,
            // The receive of a connection that has ended.
            Err(ReadError::Operation(_)) => return Ok(true),
            Err(ReadError::Queue(error)) => return Err(error),
        };
        let mut any = false;
        for done in completions {
            any = true;
            let is_recv = done.is_recv();
            let buffer = done.into_buffer().expect("the buffer of the operation");
            let Some(endpoint) = self.connections.get(&buffer.token()) else {
                continue;
            };
            // The same buffer sends the answer, and then receives again.
            let posted = match is_recv {
                true => endpoint.send(buffer, Peer::CONNECTED),
                false => endpoint.recv(buffer, Peer::ANY),
            };
            if let Err(rejected) = posted {
                println!("a connection is lost: {rejected}");
            }
        }
        Ok(any)
    }

    fn run(&mut self) -> std::result::Result<(), Box<dyn std::error::Error>> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let fds = (
            self.events.wait_fd().expect("a descriptor"),
            self.queue.wait_fd().expect("a descriptor"),
        );
        epoll::add(
            &poll,
            &fds.0,
            epoll::EventData::new_u64(0),
            epoll::EventFlags::IN,
        )?;
        epoll::add(
            &poll,
            &fds.1,
            epoll::EventData::new_u64(1),
            epoll::EventFlags::IN,
        )?;
        let mut ready = Vec::with_capacity(4);
        let limit = Timespec::try_from(Duration::from_secs(10))?;
        while self.accepted < CLIENTS as u64 || !self.connections.is_empty() {
            if self.event()? | self.completions()? {
                continue;
            }
            if self.events.try_wait()? && self.queue.try_wait()? {
                ready.clear();
                epoll::wait(
                    &poll,
                    rustix::buffer::spare_capacity(&mut ready),
                    Some(&limit),
                )?;
            }
        }
        Ok(())
    }
}

fn client(address: &Address, number: u8) -> Result<()> {
    let info = entry()?;
    let fabric = Fabric::open(&info)?;
    let events = EventQueue::<Shared>::open(&fabric, Wait::Blocking)?;
    let domain = Domain::open(&fabric, &info)?;
    let mut queue = CompletionQueue::open(
        &domain,
        QueueOptions {
            wait: Wait::Blocking,
            ..Default::default()
        },
    )?;
    let endpoint = domain
        .endpoint(&info)?
        .event_queue(&events)?
        .queue(&queue)?
        .enable()?;
    endpoint.connect(address, &[])?;
    match events.sread(Some(Duration::from_secs(10)))? {
        Some(Event::Connected { .. }) => {}
        Some(Event::Failed(failure)) => return Err(failure.error),
        _ => return Err(Error::TIMEDOUT),
    }
    let (mut message, mut room) = (
        Buffer::new(&domain, MESSAGE)?,
        Buffer::new(&domain, MESSAGE)?,
    );
    for round in 0..ROUNDS {
        endpoint.recv(room, Peer::ANY)?;
        message.copy_from(&[number, round]);
        endpoint.send(message, Peer::CONNECTED)?;
        let (mut sent, mut received) = (None, None);
        while sent.is_none() || received.is_none() {
            for done in queue.sread(Some(Duration::from_secs(10)))? {
                match done.is_recv() {
                    true => received = done.into_buffer(),
                    false => sent = done.into_buffer(),
                }
            }
        }
        (message, room) = (sent.unwrap(), received.unwrap());
        assert_eq!(&room[..], [number, round]);
    }
    endpoint.shutdown()
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let info = entry()?;
    let fabric = Fabric::open(&info)?;
    let events = EventQueue::open(&fabric, Wait::Fd)?;
    let listener = PassiveEndpoint::listen(&events, &info)?;
    let domain = Domain::open(&fabric, &info)?;
    let queue = CompletionQueue::open(
        &domain,
        QueueOptions {
            wait: Wait::Fd,
            ..Default::default()
        },
    )?;
    let address = listener.address()?;
    println!("listening on {address}");
    let clients: Vec<_> = (0..CLIENTS as u8)
        .map(|number| {
            let address = address.clone();
            std::thread::spawn(move || client(&address, number))
        })
        .collect();
    Server {
        domain,
        events,
        queue,
        connections: HashMap::new(),
        accepted: 0,
    }
    .run()?;
    for client in clients {
        client.join().expect("a client")?;
    }
    println!("served {CLIENTS} clients");
    Ok(())
}
