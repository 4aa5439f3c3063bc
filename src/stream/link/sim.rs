// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A link for tests: bytes in flight between two sessions of one process. The test decides how many of them arrive, how
//! many are taken, and where the stream ends.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use sys::io_list::{GatherList, ScatterList};
use sys::socket::Moved;

/// One direction.
#[derive(Default)]
pub struct Wire {
    /// Bytes in flight.
    pub flying: VecDeque<u8>,
    pub arrived: VecDeque<u8>,
    /// Limit on bytes in flight or unread.
    pub room: usize,
    /// The stream ends here.
    pub is_cut: bool,
}

impl Wire {
    fn free(&self) -> usize {
        let taken = self.flying.len() + self.arrived.len();
        self.room.saturating_sub(taken)
    }
}

/// One end of a stream.
pub struct SimLink {
    pub out: Arc<Mutex<Wire>>,
    pub input: Arc<Mutex<Wire>>,
}

fn locked(wire: &Mutex<Wire>) -> MutexGuard<'_, Wire> {
    wire.lock().unwrap()
}

impl SimLink {
    /// Returns two ends with this much room in each direction.
    pub fn pair(room: usize) -> [SimLink; 2] {
        let wire = || {
            Arc::new(Mutex::new(Wire {
                room,
                ..Wire::default()
            }))
        };
        let (there, back) = (wire(), wire());
        let end = |out: &Arc<Mutex<Wire>>, input: &Arc<Mutex<Wire>>| SimLink {
            out: out.clone(),
            input: input.clone(),
        };
        [end(&there, &back), end(&back, &there)]
    }

    /// Delivers up to `n` bytes from this end; returns how many arrived.
    pub fn arrive(&self, n: usize) -> usize {
        let mut wire = locked(&self.out);
        let n = n.min(wire.flying.len());
        let bytes: Vec<u8> = wire.flying.drain(..n).collect();
        wire.arrived.extend(bytes);
        n
    }

    /// Delivers `n` of the bytes in flight from this end and ends the stream behind them.
    pub fn cut(&self, n: usize) {
        self.arrive(n);
        let mut wire = locked(&self.out);
        wire.flying.clear();
        wire.is_cut = true;
    }

    pub fn write(&self, bytes: &[u8]) -> io::Result<Moved> {
        let mut wire = locked(&self.out);
        if wire.is_cut {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let room = wire
            .room
            .saturating_sub(wire.flying.len() + wire.arrived.len());
        let n = room.min(bytes.len());
        wire.flying.extend(&bytes[..n]);
        Ok(match n {
            0 => Moved::Later,
            n => Moved::Bytes(n),
        })
    }

    pub fn write_list(&self, list: &GatherList<'_>) -> io::Result<Moved> {
        let room = locked(&self.out).free();
        self.write(&list.gather(room.max(1)))
    }

    pub fn read(&self, room: &mut [u8]) -> io::Result<Moved> {
        let mut wire = locked(&self.input);
        let n = room.len().min(wire.arrived.len());
        for (to, byte) in room.iter_mut().zip(wire.arrived.drain(..n)) {
            *to = byte;
        }
        Ok(match n {
            0 if wire.is_cut => Moved::End,
            0 => Moved::Later,
            n => Moved::Bytes(n),
        })
    }

    pub fn read_list(&self, list: &ScatterList<'_>) -> io::Result<Moved> {
        let mut bytes = vec![0; list.bytes()];
        let moved = self.read(&mut bytes)?;
        if let Moved::Bytes(n) = moved {
            list.scatter(&bytes[..n]);
        }
        Ok(moved)
    }

    /// Stops sending; bytes in flight still arrive.
    pub fn shutdown(&self) {
        locked(&self.out).is_cut = true;
    }

    pub fn unread(&self) -> usize {
        locked(&self.input).arrived.len()
    }
}
