// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Datagrams of an endpoint that are held back for a moment, so that they leave together: one system call takes several
//! of them, and those of one size for one peer pass through the kernel as one (UDP_SEGMENT). They keep their order and
//! their boundaries.

use std::io;
use std::net::SocketAddr;

use super::SOURCE;
use super::payload::Payload;
use super::rx::read_errors;
use base::log::{Subsys, log_info, log_misuse};
use sys::datagram::{DatagramSocket, Run};

#[derive(Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    rows: Vec<Row>,
    /// Datagrams of at least this size are passed to the kernel one by one, because it refused to cut them.
    uncut: Option<usize>,
}

/// Datagrams for one peer: all have `size` bytes, except the last, which may be shorter.
#[derive(Clone, Copy)]
struct Row {
    to: SocketAddr,
    /// Range of the datagrams in `bytes`.
    start: usize,
    end: usize,
    size: usize,
    count: usize,
}

impl Outbox {
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The number of datagrams.
    pub fn len(&self) -> usize {
        self.rows.iter().map(|row| row.count).sum()
    }

    /// Returns true if there is room for a datagram.
    #[inline]
    pub fn has_room(&self, len: usize) -> bool {
        self.bytes.len() + len <= CAPACITY && self.rows.len() < ROWS
    }

    /// Adds a datagram. The caller has checked that there is room.
    #[inline]
    pub fn push(&mut self, to: &SocketAddr, payload: &impl Payload, cuts: bool) {
        let start = self.bytes.len();
        payload.copy_out(&mut self.bytes);
        let (end, size) = (self.bytes.len(), self.bytes.len() - start);
        if let Some(row) = self.rows.last_mut()
            && cuts
            && row.takes(to, size)
            && self.uncut.is_none_or(|uncut| row.size < uncut)
        {
            row.end = end;
            row.count += 1;
            return;
        }
        self.rows.push(Row {
            to: *to,
            start,
            end,
            size,
            count: 1,
        });
    }

    /// Sends the datagrams, as far as the kernel accepts them. A datagram that cannot be sent is lost.
    pub fn flush(&mut self, socket: &DatagramSocket) {
        let mut sent = 0;
        let mut errors = 0;
        // A single datagram, which no other one has joined.
        if let [row] = &self.rows[..]
            && row.count == 1
            && let Ok(true) = socket.send_bytes(&self.bytes[row.start..row.end], &row.to)
        {
            return self.forget(1);
        }
        while sent < self.rows.len() {
            let rows = self.rows[sent..].iter();
            match socket.send_runs(rows.map(|row| row.run(&self.bytes))) {
                Ok(0) => break,
                Ok(n) => {
                    sent += n;
                    errors = 0;
                }
                Err(error) => {
                    errors += 1;
                    sent += self.failed(socket, sent, &error, errors);
                }
            }
        }
        self.forget(sent);
    }

    /// Handles an error of the kernel for a row. Returns the number of rows that are done.
    #[cold]
    fn failed(
        &mut self,
        socket: &DatagramSocket,
        at: usize,
        error: &io::Error,
        errors: usize,
    ) -> usize {
        // The error may concern a datagram that was sent before.
        if read_errors(socket) && errors < TRIES {
            return 0;
        }
        let row = self.rows[at];
        if row.count == 1 {
            log_misuse!(
                &SOURCE,
                Subsys::EpData,
                "a datagram to {} is lost: {error}",
                row.to
            );
            return 1;
        }
        // The kernel does not cut datagrams that exceed the packet size of the network, nor any datagrams on some
        // routes.
        log_info!(
            &SOURCE,
            Subsys::EpData,
            "datagrams of {} bytes to {} go one by one from now on: {error}",
            row.size,
            row.to
        );
        self.uncut = Some(self.uncut.map_or(row.size, |uncut| uncut.min(row.size)));
        let single = |start: usize| Row {
            start,
            end: row.end.min(start + row.size),
            count: 1,
            ..row
        };
        let singles = (row.start..row.end).step_by(row.size).map(single);
        self.rows.splice(at..=at, singles);
        0
    }

    /// Removes the first rows, which are done.
    fn forget(&mut self, rows: usize) {
        if rows == self.rows.len() {
            self.rows.clear();
            self.bytes.clear();
            return;
        }
        let start = self.rows[rows].start;
        self.rows.drain(..rows);
        self.bytes.drain(..start);
        for row in &mut self.rows {
            row.start -= start;
            row.end -= start;
        }
    }
}

impl Row {
    /// Returns true if a datagram can be added to the row.
    #[inline]
    fn takes(&self, to: &SocketAddr, size: usize) -> bool {
        let len = self.end - self.start;
        let is_whole = self.count * self.size == len;
        is_whole
            && (1..=self.size).contains(&size)
            && self.count < MOST_CUT
            && len + size <= MOST_BYTES
            && self.to == *to
    }

    fn run<'a>(&self, bytes: &'a [u8]) -> Run<'a> {
        Run {
            to: self.to,
            bytes: &bytes[self.start..self.end],
            size: self.size,
        }
    }
}

/// Limits on the bytes, and the rows, that are held back.
const CAPACITY: usize = 128 << 10;
const ROWS: usize = 1024;
/// Limits of the kernel for one row: datagrams (UDP_MAX_SEGMENTS of older kernels), and bytes with their headers.
const MOST_CUT: usize = 64;
const MOST_BYTES: usize = 65000;
/// Limit on consecutive errors that may concern earlier datagrams.
const TRIES: usize = 4;

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::net::UdpSocket;

    use super::*;
    use base::iovec::lent::TestMemory;

    fn peer() -> (UdpSocket, SocketAddr) {
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        peer.set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let to = peer.local_addr().unwrap();
        (peer, to)
    }

    fn socket() -> DatagramSocket {
        DatagramSocket::bound("127.0.0.1:0".parse().unwrap()).unwrap()
    }

    fn receive(peer: &UdpSocket) -> Vec<u8> {
        let mut room = [0; 2048];
        let (len, _) = peer.recv_from(&mut room).unwrap();
        room[..len].to_vec()
    }

    #[test]
    fn datagrams_of_one_size_for_one_peer_are_a_row() {
        let ((x, to_x), (y, to_y)) = (peer(), peer());
        let memory = TestMemory::new((0..100).collect());
        let mut outbox = Outbox::default();
        let all = [
            (to_x, 8),
            (to_x, 8),
            (to_x, 3),
            (to_x, 8),
            (to_y, 8),
            (to_y, 0),
            (to_y, 1),
        ];
        for (to, len) in all {
            outbox.push(&to, &memory.iov(0, len), true);
        }
        let rows: Vec<_> = outbox
            .rows
            .iter()
            .map(|row| (row.size, row.count))
            .collect();
        assert_eq!(rows, [(8, 3), (8, 1), (8, 1), (0, 1), (1, 1)]);
        assert_eq!(outbox.len(), all.len());
        outbox.flush(&socket());
        assert!(outbox.is_empty() && outbox.bytes.is_empty());
        for (to, len) in all {
            let peer = if to == to_x { &x } else { &y };
            assert_eq!(receive(peer), memory.bytes(0, len));
        }
    }

    #[test]
    fn where_the_kernel_does_not_cut_each_goes_for_itself() {
        let memory = TestMemory::new(vec![7; 8]);
        let mut outbox = Outbox::default();
        let (_, to) = peer();
        for cuts in [false, false, true] {
            outbox.push(&to, &memory.iov(0, 8), cuts);
        }
        assert_eq!(outbox.rows.len(), 2);
        outbox.uncut = Some(8);
        outbox.push(&to, &memory.iov(0, 8), true);
        assert_eq!(outbox.rows.len(), 3);
    }

    #[test]
    fn a_row_is_no_longer_than_the_kernel_cuts() {
        let (_peer, to) = peer();
        let memory = TestMemory::new(vec![7; 4096]);
        let mut outbox = Outbox::default();
        (0..MOST_CUT + 1).for_each(|_| outbox.push(&to, &memory.iov(0, 1), true));
        (0..20).for_each(|_| outbox.push(&to, &memory.iov(0, 4096), true));
        let rows: Vec<_> = outbox
            .rows
            .iter()
            .map(|row| (row.size, row.count))
            .collect();
        assert_eq!(rows, [(1, MOST_CUT), (1, 1), (4096, 15), (4096, 5)]);
    }

    /// The kernel refuses a row with more datagrams than it cuts; the datagrams behind that row are still sent.
    #[test]
    fn what_the_kernel_does_not_cut_goes_one_by_one() {
        let (peer, to) = peer();
        let socket = socket();
        if !socket.cuts() {
            return;
        }
        let mut outbox = Outbox::default();
        let bytes: Vec<u8> = (0..200).collect();
        outbox.bytes = bytes.clone();
        let (start, end, size, count) = (0, 200, 1, 200);
        outbox.rows.push(Row {
            to,
            start,
            end,
            size,
            count,
        });
        outbox.push(&to, &TestMemory::new(b"next".to_vec()).iov(0, 4), true);
        outbox.flush(&socket);
        assert!(outbox.is_empty());
        assert_eq!(outbox.uncut, Some(1));
        for byte in bytes {
            assert_eq!(receive(&peer), [byte]);
        }
        assert_eq!(receive(&peer), b"next");
    }

    /// The datagram is lost, and those behind it are not.
    #[test]
    fn what_cannot_be_sent_stops_nothing() {
        let (peer, to) = peer();
        let memory = TestMemory::new(b"there".to_vec());
        let mut outbox = Outbox::default();
        for to in [
            to,
            "[::1]:9".parse().unwrap(),
            "127.0.0.1:0".parse().unwrap(),
            to,
        ] {
            outbox.push(&to, &memory.iov(0, 5), true);
        }
        outbox.flush(&socket());
        assert!(outbox.is_empty());
        assert_eq!([receive(&peer), receive(&peer)], [b"there", b"there"]);
    }
}
