// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The thread of a name server. It blocks on no client: sockets do not block, a client has a time limit, and there is a
//! limit on clients. Only processes of this host can change the table.

use core::time::Duration;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Instant;

use super::super::SOURCE;
use super::message::{LONGEST, Message};
use super::{ANY, Name};
use base::Error;
use base::log::{Subsys, log_info, log_warn};
use slab::Slab;
use sys::event::{BATCH, Epoll, EventFd, Ready, sleep_on};
use sys::fork::Birth;
use sys::thread::spawn;

/// Time limit for the message of a client.
const LIMIT: Duration = Duration::from_secs(2);
/// Clients at the same time. The thread does not accept more.
const CLIENTS: usize = 256;
/// Addresses in the table.
const NAMES: usize = 1 << 16;
/// Pause after a connection could not be accepted, because the process has no descriptors left.
const PAUSE: Duration = Duration::from_millis(100);

/// Keeps the server of this process running. It is empty if another process of this host serves.
pub struct Serving {
    _server: Option<Arc<Server>>,
}

struct Server {
    stop: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
    birth: Birth,
}

/// The server of this process, if it has one.
fn current() -> MutexGuard<'static, Weak<Server>> {
    static CURRENT: Mutex<Weak<Server>> = Mutex::new(Weak::new());
    CURRENT.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Serving {
    pub fn begin(port: u16) -> Serving {
        let mut current = current();
        let running = current.upgrade();
        if let Some(server) = running.filter(|server| server.birth.is_here()) {
            return Serving {
                _server: Some(server),
            };
        }
        let started = Server::start(port).inspect_err(|error| {
            log_info!(&SOURCE, Subsys::Domain, "no name server here: {error}");
        });
        let server = started.ok().map(Arc::new);
        *current = server.as_ref().map(Arc::downgrade).unwrap_or_default();
        Serving { _server: server }
    }
}

impl Server {
    fn start(port: u16) -> io::Result<Server> {
        let listener = listen(port)?;
        let stop = Arc::new(EventFd::new()?);
        let service = Service::new(listener, stop.clone())?;
        let thread = spawn("fi-verbs-names", move || service.run())?;
        Ok(Server {
            stop,
            thread: Some(thread),
            birth: Birth::here(),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A child process has no such thread.
        if !self.birth.is_here() {
            return;
        }
        // A server that is started meanwhile waits until the port is free.
        let _current = current();
        self.stop.set();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Listens at all addresses of IPv4, on hosts without these at those of IPv6.
fn listen(port: u16) -> io::Result<TcpListener> {
    let v4 = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port));
    let listener = match v4 {
        Err(error) if error.kind() != ErrorKind::AddrInUse => {
            TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))
        }
        result => result,
    }?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

struct Service {
    listener: TcpListener,
    stop: Arc<EventFd>,
    epoll: Epoll,
    clients: Slab<Client>,
    names: BTreeMap<i32, Name>,
}

struct Client {
    stream: TcpStream,
    is_local: bool,
    bytes: Vec<u8>,
    until: Instant,
}

/// The tokens of the listener and of the event that ends the thread. Those of clients follow.
const LISTENER: u64 = 0;
const STOP: u64 = 1;
const FIRST_CLIENT: u64 = 2;

impl Service {
    fn new(listener: TcpListener, stop: Arc<EventFd>) -> io::Result<Service> {
        let epoll = Epoll::new()?;
        epoll.add(&listener, LISTENER, true, false)?;
        epoll.add(&*stop, STOP, true, false)?;
        Ok(Service {
            listener,
            stop,
            epoll,
            clients: Slab::new(),
            names: BTreeMap::new(),
        })
    }

    fn run(mut self) {
        loop {
            match sleep_on(&[self.epoll.as_fd()], self.patience()) {
                Err(error) if error.kind() != ErrorKind::Interrupted => {
                    return log_warn!(&SOURCE, Subsys::Domain, "the name server ends: {error}");
                }
                _ => {}
            }
            let mut ready = [Ready::default(); BATCH];
            let count = self.epoll.poll(&mut ready);
            for event in &ready[..count] {
                match event.token {
                    LISTENER => self.accept(),
                    STOP => return,
                    client => self.serve((client - FIRST_CLIENT) as usize),
                }
            }
            self.end_late_clients();
        }
    }

    /// The time until the first client has to be ended.
    fn patience(&self) -> Option<Duration> {
        let first = self.clients.iter().map(|(_, client)| client.until).min()?;
        Some(first.saturating_duration_since(Instant::now()))
    }

    fn accept(&mut self) {
        loop {
            match self.listener.accept() {
                Ok((stream, from)) => self.add(stream, from),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if is_of_client(&error) => {}
                Err(_) => {
                    let _ = sleep_on(&[self.stop.as_fd()], Some(PAUSE));
                    return;
                }
            }
        }
    }

    fn add(&mut self, stream: TcpStream, from: SocketAddr) {
        if self.clients.len() >= CLIENTS || stream.set_nonblocking(true).is_err() {
            return;
        }
        let place = self.clients.vacant_entry();
        let token = place.key() as u64 + FIRST_CLIENT;
        if self.epoll.add(&stream, token, true, false).is_ok() {
            place.insert(Client {
                stream,
                is_local: from.ip().to_canonical().is_loopback(),
                bytes: Vec::with_capacity(LONGEST),
                until: Instant::now() + LIMIT,
            });
        }
    }

    fn serve(&mut self, at: usize) {
        let Some(client) = self.clients.get_mut(at) else {
            return;
        };
        let Some(message) = client.read() else {
            return;
        };
        if let Ok(message) = message
            && let Some(answer) = self.apply(message, at)
        {
            let client = &mut self.clients[at];
            // A new connection has room for an answer. A client that does not take it gets none.
            let _ = client.stream.write(&answer.encode());
        }
        self.end(at);
    }

    fn apply(&mut self, message: Message, at: usize) -> Option<Message> {
        let may_change = self.clients[at].is_local;
        let names = &mut self.names;
        match message {
            Message::Add(service, name) if may_change => {
                if names.len() < NAMES || names.contains_key(&service) {
                    names.insert(service, name);
                }
                None
            }
            Message::Delete(service, name) if may_change => {
                if names.get(&service) == Some(&name) {
                    names.remove(&service);
                }
                None
            }
            Message::Query(service) => Some(answer(names, service)),
            _ => None,
        }
    }

    fn end(&mut self, at: usize) {
        let client = self.clients.remove(at);
        self.epoll.remove(&client.stream);
    }

    fn end_late_clients(&mut self) {
        let now = Instant::now();
        let late = self
            .clients
            .iter()
            .filter(|(_, client)| client.until <= now);
        let late: Vec<usize> = late.map(|(at, _)| at).collect();
        late.into_iter().for_each(|at| self.end(at));
    }
}

/// A query for any service finds the first one. A service that was added as any service is found by each number.
fn answer(names: &BTreeMap<i32, Name>, service: i32) -> Message {
    let exact = names.get_key_value(&service);
    let found = match service {
        ANY => exact.or_else(|| names.first_key_value()),
        _ => exact.or_else(|| names.get_key_value(&ANY)),
    };
    match found {
        Some((&ANY, name)) => Message::Found(service, *name),
        Some((&found, name)) => Message::Found(found, *name),
        None => Message::Failed(Error::NOENT.negative()),
    }
}

fn is_of_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Interrupted | ErrorKind::ConnectionAborted | ErrorKind::ConnectionReset
    )
}

impl Client {
    /// Reads what has arrived. Nothing if more is awaited; an error if no message will come.
    fn read(&mut self) -> Option<Result<Message, ()>> {
        loop {
            let mut part = [0; LONGEST];
            match self.stream.read(&mut part) {
                Ok(0) => return Some(Err(())),
                Ok(count) => self.bytes.extend(&part[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Some(Err(())),
            }
            if let Some(decided) = Message::decode(&self.bytes).transpose() {
                return Some(decided);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::client::{Registered, query};
    use super::*;

    /// A server at a port that the kernel has chosen.
    fn server() -> (Server, u16) {
        let listener = listen(0).unwrap();
        let port = listener.local_addr().unwrap().port();
        let stop = Arc::new(EventFd::new().unwrap());
        let service = Service::new(listener, stop.clone()).unwrap();
        let thread = spawn("fi-verbs-names", move || service.run()).unwrap();
        let (thread, birth) = (Some(thread), Birth::here());
        #[rustfmt::skip]
        let server = Server { stop, thread, birth };
        (server, port)
    }

    fn ask(port: u16, service: i32) -> Option<Name> {
        query(("127.0.0.1", port), service).unwrap()
    }

    #[test]
    fn a_name_is_found_until_it_is_dropped() {
        let (server, port) = server();
        assert_eq!(ask(port, 7), None);
        let seven = Registered::add(port, 7, [7; 32]).unwrap();
        assert_eq!(
            (ask(port, 7), ask(port, ANY)),
            (Some([7; 32]), Some([7; 32]))
        );
        assert_eq!(ask(port, 8), None);
        let any = Registered::add(port, ANY, [1; 32]).unwrap();
        assert_eq!((ask(port, 8), ask(port, 7)), (Some([1; 32]), Some([7; 32])));
        drop(seven);
        drop(any);
        assert_eq!((ask(port, 7), ask(port, ANY)), (None, None));
        drop(server);
        assert!(
            query(("127.0.0.1", port), 7).is_err(),
            "the thread has ended"
        );
        assert!(Registered::add(port, 7, [7; 32]).is_none());
    }

    #[test]
    fn slow_and_hostile_clients_stop_nobody() {
        let (server, port) = server();
        let connect = || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        let mut slow: Vec<TcpStream> = (0..20).map(|_| connect()).collect();
        for stream in &mut slow {
            stream.write_all(&[0, 2, 0]).unwrap();
        }
        let mut wrong = connect();
        wrong.write_all(&[9; 200]).unwrap();
        let mut large = connect();
        let _ = large.write_all(&vec![0; 1 << 20]);
        drop(connect());
        let name = Registered::add(port, 7, [7; 32]).unwrap();
        assert_eq!(ask(port, 7), Some([7; 32]));
        // The server ends a client that does not finish its message.
        let first = &mut slow[0];
        first.set_read_timeout(Some(10 * LIMIT)).unwrap();
        assert!(matches!(first.read(&mut [0; 1]), Ok(0)));
        drop(name);
        drop(server);
    }
}
