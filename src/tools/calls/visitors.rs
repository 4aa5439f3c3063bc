// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Connections that a listening program serves at the same time, each in a thread of its own with a deadline.
//!
//! Their number is limited. If there are too many, one is closed: the oldest of the address with the most connections,
//! but never the newest of all. So an address that opens many connections excludes only itself.
#![forbid(unsafe_code)]

use std::io;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The connections that are being served.
pub struct Visitors {
    most: usize,
    /// The connections, oldest first.
    open: Mutex<Vec<Visitor>>,
    /// Number of connections so far.
    admitted: AtomicU64,
}

struct Visitor {
    /// A second handle of the connection; shutting it down wakes up its thread.
    stream: TcpStream,
    from: IpAddr,
    number: u64,
    is_known: bool,
}

/// The place of one connection, until it is dropped.
pub struct Admission<'a> {
    visitors: &'a Visitors,
    number: u64,
}

impl Visitors {
    pub fn new(most: usize) -> Visitors {
        Visitors {
            most,
            open: Mutex::default(),
            admitted: AtomicU64::new(0),
        }
    }

    /// Adds a connection. Closes another one if there are too many.
    pub fn admit(&self, stream: &TcpStream) -> io::Result<Admission<'_>> {
        let (from, stream) = (stream.peer_addr()?.ip(), stream.try_clone()?);
        let mut open = self.lock();
        while open.len() >= self.most {
            let victim = victim(&open);
            close(&open.remove(victim));
        }
        let number = self.admitted.fetch_add(1, Ordering::Relaxed);
        open.push(Visitor {
            stream,
            from,
            number,
            is_known: false,
        });
        Ok(Admission {
            visitors: self,
            number,
        })
    }

    /// Closes the connections that have not proved to be visitors of the expected kind.
    pub fn close_unknown(&self) {
        let open = self.lock();
        open.iter()
            .filter(|visitor| !visitor.is_known)
            .for_each(close);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Visitor>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Admission<'_> {
    /// Marks the connection as a visitor of the expected kind.
    pub fn mark_known(&self) {
        let mut open = self.visitors.lock();
        let own = open
            .iter_mut()
            .find(|visitor| visitor.number == self.number);
        if let Some(visitor) = own {
            visitor.is_known = true;
        }
    }
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        self.visitors
            .lock()
            .retain(|visitor| visitor.number != self.number);
    }
}

/// Chooses the connection to close in favour of a new one.
fn victim(open: &[Visitor]) -> usize {
    let of_its_address = |from: IpAddr| open.iter().filter(|other| other.from == from).count();
    let most = open
        .iter()
        .map(|visitor| of_its_address(visitor.from))
        .max();
    let is_victim = |visitor: &Visitor| Some(of_its_address(visitor.from)) == most;
    open.iter().position(is_victim).unwrap_or_default()
}

/// Ends pending reads and writes of the thread that serves the connection.
fn close(visitor: &Visitor) {
    // Fails if the connection has ended already.
    let _ = visitor.stream.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpListener;
    use std::time::Duration;

    use super::*;

    struct Door(TcpListener);

    impl Door {
        /// Connects from an address of this host. Returns the visitor's end and the server's end.
        fn visit(&self, from: &str) -> (TcpStream, TcpStream) {
            let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
            let socket = socket.unwrap();
            let from: std::net::SocketAddr = (from.parse::<IpAddr>().unwrap(), 0).into();
            socket.bind(&from.into()).unwrap();
            socket
                .connect(&self.0.local_addr().unwrap().into())
                .unwrap();
            (socket.into(), self.0.accept().unwrap().0)
        }
    }

    fn door() -> Door {
        Door(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    fn is_open(visitor: &mut TcpStream) -> bool {
        let limit = Duration::from_millis(20);
        visitor.set_read_timeout(Some(limit)).unwrap();
        visitor.read(&mut [0]).is_err()
    }

    #[test]
    fn the_oldest_of_the_busiest_address_is_closed() {
        let (door, visitors) = (door(), Visitors::new(3));
        let from = ["127.0.0.2", "127.0.0.3", "127.0.0.3"];
        let mut all: Vec<_> = from.iter().map(|from| door.visit(from)).collect();
        let places: Vec<_> = all.iter().map(|(_, own)| visitors.admit(own)).collect();
        all.push(door.visit("127.0.0.3"));
        let newest = visitors.admit(&all[3].1).unwrap();
        let open: Vec<bool> = all.iter_mut().map(|(end, _)| is_open(end)).collect();
        assert_eq!(open, [true, false, true, true]);
        drop((places, newest));
        assert!(visitors.lock().is_empty());
    }

    #[test]
    fn known_connections_stay_open() {
        let (door, visitors) = (door(), Visitors::new(3));
        let (mut known, mut unknown) = (door.visit("127.0.0.1"), door.visit("127.0.0.1"));
        let place = visitors.admit(&known.1).unwrap();
        let other = visitors.admit(&unknown.1).unwrap();
        place.mark_known();
        visitors.close_unknown();
        assert!(is_open(&mut known.0) && !is_open(&mut unknown.0));
        drop((place, other));
    }
}
