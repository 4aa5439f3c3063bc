// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What the kernels of two ranks exchange, and the buffers of a stream at one end.

use std::sync::{Arc, Mutex, PoisonError};

use crate::kernel::Window;
use crate::network::Load;
use stream::link::sim::{SimLink, Wire};

pub enum Kind {
    Syn,
    /// The listener's kernel has accepted the connection.
    Accepted,
    /// The messages by which both providers agree.
    Hello,
    Welcome,
    /// This connection is not needed, because the other side's own is used.
    Busy,
    Data(Vec<u8>),
    /// The receiver has taken so many bytes.
    Window(usize),
    End,
}

pub struct Segment {
    pub kind: Kind,
    flow: u64,
}

impl Segment {
    pub fn new(from: u32, to: u32, kind: Kind) -> Segment {
        let flow = u64::from(from) << 32 | u64::from(to);
        Segment { kind, flow }
    }
}

impl Load for Segment {
    fn bytes(&self) -> usize {
        match &self.kind {
            Kind::Data(bytes) => bytes.len(),
            Kind::Hello | Kind::Welcome | Kind::Busy => 64,
            _ => 0,
        }
    }

    fn flow(&self) -> Option<u64> {
        Some(self.flow)
    }

    fn is_of_kernel(&self) -> bool {
        matches!(self.kind, Kind::Window(_) | Kind::Accepted)
    }
}

/// The kernel's buffers of one end of a stream.
pub struct Stream {
    out: Arc<Mutex<Wire>>,
    input: Arc<Mutex<Wire>>,
    window: Window,
    /// Bytes that arrived here.
    arrived: usize,
}

impl Stream {
    pub fn new(size: usize) -> (SimLink, Stream) {
        let [link, _] = SimLink::pair(size);
        let (out, input) = (link.out.clone(), link.input.clone());
        let stream = Stream {
            out,
            input,
            window: Window::new(size),
            arrived: 0,
        };
        (link, stream)
    }

    /// Takes the bytes that the session has written.
    pub fn take(&mut self) -> Vec<u8> {
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = Vec::from(std::mem::take(&mut out.flying));
        self.window.sent(bytes.len());
        out.room = self.window.room();
        bytes
    }

    pub fn acknowledged(&mut self, bytes: usize) {
        self.window.acknowledged(bytes);
        let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        out.room = self.window.room();
    }

    pub fn arrive(&mut self, bytes: Vec<u8>) {
        self.arrived += bytes.len();
        let mut input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
        input.arrived.extend(bytes);
    }

    /// Frees the buffers.
    pub fn release(&mut self) {
        for wire in [&self.out, &self.input] {
            *wire.lock().unwrap_or_else(PoisonError::into_inner) = Wire::default();
        }
    }

    /// Bytes taken since the last notice, if they are enough for another one.
    pub fn taken(&mut self) -> Option<usize> {
        let input = self.input.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = self.arrived - input.arrived.len();
        drop(input);
        self.window.notice(taken)
    }
}
