// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Frames that wait for the link, in order.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{STAGE_FULL, STAGE_LIMIT};
use crate::proto::{self, MAX_HEADER};
use crate::session::receive_state::{Regions, names};
use base::IoVec;
use base::iovec::CopySource;
use engine::cntr::Counter;
use engine::domain_state::TxOp;
use engine::mr::Region;
use engine::peer::handover::Handover;
use hmem::transit::Ahead;
use sys::io_list::GatherList;

/// Maximum of empty staging buffers that are kept for reuse.
const SPARE_BUFFERS: usize = 16;

/// Frames that wait for the link.
#[derive(Default)]
pub struct FrameQueue {
    /// In order; the first may be partly written.
    frames: VecDeque<Out>,
    /// Bytes in staging buffers.
    staged: usize,
    /// Answers to reads that are sent without a copy.
    answers: usize,
    /// Bytes in staging buffers that answer requests of the peer.
    owed: usize,
}

enum Out {
    /// Frames copied together.
    Staged {
        bytes: Vec<u8>,
        done: usize,
        /// Bytes of `FrameQueue::owed` among them.
        owed: usize,
    },
    /// A frame whose payload is sent without a copy.
    Frame(Box<OutFrame>),
}

pub struct OutFrame {
    header: [u8; MAX_HEADER],
    header_len: u8,
    header_done: u8,
    payload: IoVec,
    /// Bytes of the payload that were read from a device.
    ahead: Option<Box<Ahead>>,
    after: After,
}

/// Action when the kernel has taken a frame.
pub(super) enum After {
    Nothing,
    /// The operation has succeeded.
    Complete(TxOp),
    /// The operation, which waits for an acknowledgement, succeeds when the peer answers.
    Acknowledged(TxOp),
    /// The frame ends a read response of these regions: the peer's read is counted.
    Answered(Regions, u64),
}

impl OutFrame {
    /// Whether the frame carries the bytes of a message that the peer requested.
    fn is_data(&self) -> bool {
        proto::is_rendezvous_data(&self.header)
    }

    /// Returns the bytes of the frame, if none has been written.
    #[inline]
    fn whole(&self) -> Option<usize> {
        let len = usize::from(self.header_len) + self.payload.remaining();
        (self.header_done == 0).then_some(len)
    }
}

impl FrameQueue {
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.frames.len()
    }

    /// Returns the number of bytes in staging buffers.
    #[inline]
    pub fn staged(&self) -> usize {
        self.staged
    }

    /// Returns the queued bytes that answer requests of the peer. An answer that is sent without a copy counts with the
    /// size of its frame. Operations of this side do not count: two peers that wait for each other to take those would
    /// both stop reading.
    #[inline]
    pub fn answers(&self) -> usize {
        self.owed + self.answers * size_of::<OutFrame>()
    }

    /// Adds a frame whose payload is sent without a copy. `done` bytes of its header are written already.
    pub(super) fn push(
        &mut self,
        header: &[u8; MAX_HEADER],
        (len, done): (usize, usize),
        payload: IoVec,
        after: After,
    ) {
        if let After::Answered(..) = after {
            self.answers += 1;
        }
        self.frames.push_back(Out::Frame(Box::new(OutFrame {
            header: *header,
            header_len: len as u8,
            header_done: done as u8,
            payload,
            ahead: None,
            after,
        })));
    }

    /// Adds a long staged frame.
    pub(super) fn push_bytes(&mut self, bytes: Vec<u8>) {
        self.staged += bytes.len();
        self.frames.push_back(Out::Staged {
            bytes,
            done: 0,
            owed: 0,
        });
    }

    /// Copies a frame of `total` bytes behind the staged ones, if they are last and take it.
    #[inline(always)]
    pub(super) fn gather(
        &mut self,
        header: &[u8],
        payload: &impl CopySource,
        total: usize,
    ) -> bool {
        match self.frames.back_mut() {
            Some(Out::Staged { bytes, .. })
                if bytes.len() + total <= STAGE_FULL && self.staged < STAGE_FULL =>
            {
                bytes.extend_from_slice(header);
                payload.copy_out(bytes);
                self.staged += total;
                true
            }
            _ => false,
        }
    }

    /// Copies a frame behind the staged ones; `copy` appends its `len` bytes. Takes a new staging buffer from `spare`
    /// if necessary.
    #[inline]
    pub(super) fn stage(
        &mut self,
        spare: &mut Vec<Vec<u8>>,
        len: usize,
        copy: impl FnOnce(&mut Vec<u8>),
    ) {
        let fits = match self.frames.back() {
            Some(Out::Staged { bytes, .. }) => bytes.len() + len <= bytes.capacity(),
            _ => false,
        };
        if !fits {
            let mut bytes = spare.pop().unwrap_or_default();
            bytes.clear();
            bytes.reserve(len.max(STAGE_FULL + STAGE_LIMIT));
            self.frames.push_back(Out::Staged {
                bytes,
                done: 0,
                owed: 0,
            });
        }
        if let Some(Out::Staged { bytes, .. }) = self.frames.back_mut() {
            copy(bytes);
        }
        self.staged += len;
    }

    /// Counts the last staged bytes as an answer to a request of the peer.
    pub(super) fn owe(&mut self, len: usize) {
        if let Some(Out::Staged { owed, .. }) = self.frames.back_mut() {
            *owed += len;
            self.owed += len;
        }
    }

    /// Whether the first frame is sent without a copy.
    pub(super) fn starts_uncopied(&self) -> bool {
        matches!(self.frames.front(), Some(Out::Frame(_)))
    }

    /// Returns header, payload and length of the first frame, if it is not staged and none of it has been written.
    #[inline]
    pub(super) fn first_whole(&self) -> Option<(&[u8], &IoVec, usize)> {
        let Some(Out::Frame(frame)) = self.frames.front() else {
            return None;
        };
        let len = frame.whole()?;
        if frame.payload.is_device() {
            return None;
        }
        let header = &frame.header[..frame.header_len.into()];
        Some((header, &frame.payload, len))
    }

    /// Returns the next bytes to write. A frame of up to `longest_whole` bytes goes into a record of its own.
    #[inline]
    pub(super) fn parts(&mut self, longest_whole: usize) -> GatherList<'_> {
        let mut list = GatherList::new();
        for out in &mut self.frames {
            if list.is_full() {
                break;
            }
            match out {
                Out::Frame(frame)
                    if list.bytes() > 0
                        && frame.whole().is_some_and(|len| len <= longest_whole) =>
                {
                    break;
                }
                // Its parts are read for one list at a time.
                Out::Frame(frame) if list.bytes() > 0 && frame.payload.is_device() => break,
                Out::Staged { bytes, done, .. } => {
                    list.push(&bytes[*done..]);
                }
                Out::Frame(frame) => {
                    let (done, len) = (frame.header_done.into(), frame.header_len.into());
                    list.push(&frame.header[done..len]);
                    let wanted = frame.payload.remaining();
                    let added = match frame.payload.is_device() {
                        true => {
                            let ahead = frame.ahead.get_or_insert_default();
                            frame.payload.append_ahead(&mut list, ahead)
                        }
                        false => frame.payload.append_to(&mut list, usize::MAX),
                    };
                    if added < wanted {
                        break;
                    }
                }
            }
        }
        list
    }

    /// Removes `n` bytes after the kernel has taken them, and passes the actions of complete frames to `finish`. Empty
    /// staging buffers go to `spare`.
    pub(super) fn written(
        &mut self,
        mut n: usize,
        spare: &mut Vec<Vec<u8>>,
        mut finish: impl FnMut(After),
    ) {
        while let Some(out) = self.frames.front_mut() {
            match out {
                Out::Staged { bytes, done, owed } => {
                    let part = n.min(bytes.len() - *done);
                    *done += part;
                    n -= part;
                    self.staged -= part;
                    if *done < bytes.len() {
                        return;
                    }
                    self.owed -= *owed;
                    let bytes = std::mem::take(bytes);
                    // A buffer that was made for a large message, injected by default, is not worth keeping.
                    if spare.len() < SPARE_BUFFERS && bytes.capacity() <= 2 * STAGE_FULL {
                        spare.push(bytes);
                    }
                    self.frames.pop_front();
                }
                Out::Frame(frame) => {
                    let part = n.min(usize::from(frame.header_len - frame.header_done));
                    frame.header_done += part as u8;
                    n -= part;
                    let part = n.min(frame.payload.remaining());
                    frame.payload.advance(part);
                    n -= part;
                    if frame.header_done < frame.header_len || frame.payload.remaining() > 0 {
                        return;
                    }
                    let Some(Out::Frame(frame)) = self.frames.pop_front() else {
                        return;
                    };
                    if let After::Answered(..) = frame.after {
                        self.answers -= 1;
                    }
                    finish(frame.after);
                }
            }
        }
    }
}

/// Operations of frames.
impl FrameQueue {
    /// Returns the operations that complete when their frames have left.
    pub(super) fn completing(&self) -> impl Iterator<Item = &TxOp> {
        self.frames.iter().filter_map(|out| match out {
            Out::Frame(frame) => match &frame.after {
                After::Complete(op) => Some(op),
                _ => None,
            },
            Out::Staged { .. } => None,
        })
    }

    /// Returns the operations of frames, except of staged ones.
    pub fn operations(&self) -> impl Iterator<Item = &TxOp> {
        self.frames.iter().filter_map(|out| match out {
            Out::Frame(frame) => match &frame.after {
                After::Complete(op) | After::Acknowledged(op) => Some(op),
                _ => None,
            },
            Out::Staged { .. } => None,
        })
    }

    /// Whether a queued answer reads from this region.
    pub fn reads(&self, region: &Arc<Region<Arc<Counter>>>) -> bool {
        let reads = |out: &Out| match out {
            Out::Frame(frame) => match &frame.after {
                After::Answered(regions, _) => names(regions, region),
                After::Nothing | After::Complete(_) | After::Acknowledged(_) => false,
            },
            Out::Staged { .. } => false,
        };
        self.frames.iter().any(reads)
    }

    /// Returns a number that changes while the bytes of a long message leave.
    pub fn transfer(&self) -> u64 {
        match self.frames.front() {
            Some(Out::Frame(frame)) => frame.payload.remaining() as u64,
            Some(Out::Staged { done, .. }) => *done as u64,
            None => 0,
        }
    }

    /// Removes the last frame of which nothing has been sent and whose operation is meant.
    pub(super) fn take_unsent(&mut self, is_meant: impl Fn(&TxOp) -> bool) -> Option<After> {
        let unsent = |out: &Out| match out {
            // The peer has requested this message and waits for its bytes.
            Out::Frame(frame) if frame.header_done == 0 && !frame.is_data() => match frame.after {
                After::Complete(op) | After::Acknowledged(op) => is_meant(&op),
                _ => false,
            },
            _ => false,
        };
        let at = self.frames.iter().rposition(unsent)?;
        match self.frames.remove(at) {
            Some(Out::Frame(frame)) => Some(frame.after),
            _ => None,
        }
    }

    /// Copies the frames of a transmit context that closes, so that its memory is not used any more. Its
    /// operations without an answer are over then.
    pub(super) fn copy_frames_of(&mut self, handover: &mut Handover) {
        for out in &mut self.frames {
            let Out::Frame(frame) = out else {
                continue;
            };
            match &frame.after {
                After::Complete(op) if handover.is_its(op) => handover.drop_one(),
                After::Acknowledged(op) if handover.is_its(op) => {}
                After::Nothing => {}
                _ => continue,
            }
            let header = usize::from(frame.header_done)..usize::from(frame.header_len);
            let mut bytes = frame.header[header].to_vec();
            frame.payload.copy_out(&mut bytes);
            self.staged += bytes.len();
            *out = Out::Staged {
                bytes,
                done: 0,
                owed: 0,
            };
        }
    }
}

// The limits on answers assume this size of a queued frame.
const _: () = assert!(size_of::<OutFrame>() <= 320);

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(queue: &mut FrameQueue, n: usize) -> usize {
        let (mut spare, mut finished) = (Vec::new(), 0);
        queue.written(n, &mut spare, |_| finished += 1);
        finished
    }

    #[test]
    fn answers_count_until_the_link_has_taken_them() {
        let mut queue = FrameQueue::default();
        let mut spare = Vec::new();
        queue.stage(&mut spare, 10, |out| out.extend([0; 10]));
        queue.owe(10);
        assert_eq!((queue.staged(), queue.answers()), (10, 10));
        let after = After::Answered(Regions::default(), 0);
        queue.push(&[0; MAX_HEADER], (16, 0), IoVec::empty(), after);
        assert_eq!(queue.answers(), 10 + size_of::<OutFrame>());
        assert_eq!(taken(&mut queue, 9), 0);
        assert_eq!(
            (queue.staged(), queue.answers()),
            (1, 10 + size_of::<OutFrame>())
        );
        assert_eq!(taken(&mut queue, 1), 0);
        assert_eq!(queue.answers(), size_of::<OutFrame>());
        assert_eq!(taken(&mut queue, 16), 1);
        assert!(queue.is_empty() && queue.answers() == 0);
    }

    #[test]
    fn a_frame_of_one_record_is_not_written_with_others() {
        let mut queue = FrameQueue::default();
        let mut spare = Vec::new();
        queue.stage(&mut spare, 5, |out| out.extend([0; 5]));
        queue.push(&[0; MAX_HEADER], (8, 0), IoVec::empty(), After::Nothing);
        queue.push(&[0; MAX_HEADER], (9, 3), IoVec::empty(), After::Nothing);
        assert_eq!(queue.parts(8).bytes(), 5);
        assert_eq!(queue.parts(0).bytes(), 5 + 8 + 6);
        assert!(!queue.starts_uncopied() && queue.first_whole().is_none());
        taken(&mut queue, 5);
        assert_eq!(queue.first_whole().map(|(.., len)| len), Some(8));
        taken(&mut queue, 8);
        assert!(queue.starts_uncopied() && queue.first_whole().is_none());
    }
}
