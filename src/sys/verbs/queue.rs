// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Completion queues and their channels: ibv_create_cq(3), ibv_poll_cq(3), ibv_get_cq_event(3).

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicUsize, Ordering};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use super::abi::*;
use super::api::{api, api_to_destroy};
use super::device::{Device, status_text};
use nix::fcntl::{FcntlArg, OFlag, fcntl};

/// A completion queue, with a channel if threads may sleep until it has entries.
#[derive(Debug)]
pub struct CompletionQueue {
    raw: NonNull<ibv_cq>,
    poll: PollCq,
    notify: ReqNotifyCq,
    channel: Option<Channel>,
    capacity: AtomicUsize,
}

// SAFETY: the functions of a queue may be called by any thread.
unsafe impl Send for CompletionQueue {}
// SAFETY: as above.
unsafe impl Sync for CompletionQueue {}

/// A work completion.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Completion(ibv_wc);

/// The status of a completion, as `enum ibv_wc_status` numbers it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status(pub u32);

impl Status {
    pub const SUCCESS: Status = Status(0);
    /// The queue pair was in error state.
    pub const FLUSHED: Status = Status(5);

    pub fn text(self) -> String {
        status_text(self.0)
    }
}

/// The kinds of work completions on the receiving side.
pub const WORK_RECEIVE: u32 = 128;
pub const WORK_RECEIVE_WRITE: u32 = 129;

const WITH_IMMEDIATE: u32 = 2;

impl Completion {
    #[inline]
    pub fn id(&self) -> u64 {
        self.0.wr_id
    }

    #[inline]
    pub fn status(&self) -> Status {
        Status(self.0.status)
    }

    /// The kind of work, valid for successful completions.
    #[inline]
    pub fn work(&self) -> u32 {
        self.0.opcode
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.0.byte_len as usize
    }

    #[inline]
    pub fn immediate(&self) -> Option<u32> {
        (self.0.wc_flags & WITH_IMMEDIATE != 0).then(|| u32::from_be(self.0.imm_data))
    }

    /// The number of the queue pair.
    pub fn pair(&self) -> u32 {
        self.0.qp_num
    }
}

#[derive(Debug)]
struct Channel(NonNull<ibv_comp_channel>);

impl Channel {
    fn new(device: Device) -> io::Result<Channel> {
        // SAFETY: an open device.
        let raw = unsafe { (api().ibv_create_comp_channel)(device.raw()) };
        let channel = Channel(NonNull::new(raw).ok_or_else(io::Error::last_os_error)?);
        set_nonblocking(channel.as_fd())?;
        Ok(channel)
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel has an open descriptor as long as it exists.
        unsafe { BorrowedFd::borrow_raw((*self.0.as_ptr()).fd) }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        let Some(api) = api_to_destroy() else { return };
        // SAFETY: its queue is destroyed before: see `CompletionQueue::drop`.
        unsafe { (api.ibv_destroy_comp_channel)(self.0.as_ptr()) };
    }
}

pub(super) fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    let flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL)?);
    fcntl(fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    Ok(())
}

/// Completions that one poll takes at most.
const BATCH: usize = 16;

/// Room for the completions of one poll.
pub struct Completions([MaybeUninit<Completion>; BATCH]);

impl Completions {
    #[inline]
    pub fn new() -> Completions {
        Completions([const { MaybeUninit::uninit() }; BATCH])
    }
}

impl Default for Completions {
    fn default() -> Completions {
        Completions::new()
    }
}

impl CompletionQueue {
    /// Makes a queue of at least `size` entries. `waits`: with a channel. `vector` selects the interrupt.
    pub fn new(
        device: Device,
        size: usize,
        waits: bool,
        vector: usize,
    ) -> io::Result<CompletionQueue> {
        let unsupported = || io::Error::from_raw_os_error(libc::EOPNOTSUPP);
        let ops = device.ops();
        let poll = ops.poll_cq.ok_or_else(unsupported)?;
        let notify = ops.req_notify_cq.ok_or_else(unsupported)?;
        let channel = if waits {
            Some(Channel::new(device)?)
        } else {
            None
        };
        let raw_channel = channel.as_ref().map_or(ptr::null_mut(), |it| it.0.as_ptr());
        let number = |n: usize| c_int::try_from(n).unwrap_or(c_int::MAX);
        // SAFETY: an open device; the channel lives longer than the queue.
        let raw = unsafe {
            (api().ibv_create_cq)(
                device.raw(),
                number(size),
                ptr::null_mut(),
                raw_channel,
                number(vector),
            )
        };
        let raw = NonNull::new(raw).ok_or_else(io::Error::last_os_error)?;
        // SAFETY: made by the library.
        let capacity = usize::try_from(unsafe { (*raw.as_ptr()).cqe }).unwrap_or(0);
        let queue = CompletionQueue {
            raw,
            poll,
            notify,
            channel,
            capacity: AtomicUsize::new(capacity),
        };
        if queue.channel.is_some() {
            queue.arm()?;
        }
        Ok(queue)
    }

    pub(super) fn raw(&self) -> *mut ibv_cq {
        self.raw.as_ptr()
    }

    /// Number of completions for which there is room.
    pub fn capacity(&self) -> usize {
        // Relaxed: calls that change it are made under the lock of the caller's domain.
        self.capacity.load(Ordering::Relaxed)
    }

    /// Enlarges the queue if the driver can. Returns whether it has room for `size` completions.
    pub fn grow(&self, size: usize) -> bool {
        if size <= self.capacity() {
            return true;
        }
        let (Some(resize), Ok(number)) = (api().ibv_resize_cq, c_int::try_from(size)) else {
            return false;
        };
        // SAFETY: an existing queue; drivers guard it against other calls.
        if unsafe { resize(self.raw(), number) } == 0 {
            // SAFETY: as above.
            let capacity = usize::try_from(unsafe { (*self.raw()).cqe }).unwrap_or(0);
            self.capacity.store(capacity, Ordering::Relaxed);
        }
        size <= self.capacity()
    }

    /// Takes completions that have arrived, as many as `out` has room for.
    #[inline]
    pub fn poll<'a>(&self, out: &'a mut Completions) -> &'a [Completion] {
        let room = out.0.as_mut_ptr();
        // SAFETY: `Completion` is a transparent `ibv_wc`, and there is room for `BATCH` of them.
        let n = unsafe { (self.poll)(self.raw.as_ptr(), BATCH as c_int, room.cast()) };
        // A negative number is an error of the driver, which asynchronous events report.
        let n = usize::try_from(n).unwrap_or(0).min(BATCH);
        // SAFETY: the call has written the first `n`.
        unsafe { core::slice::from_raw_parts(room.cast(), n) }
    }

    /// Makes the channel's descriptor readable at the next completion.
    pub fn arm(&self) -> io::Result<()> {
        // SAFETY: an existing queue.
        super::check_number(unsafe { (self.notify)(self.raw.as_ptr(), 0) })
    }

    /// Removes and acknowledges the events of the channel. Returns their number.
    pub fn take_events(&self) -> usize {
        let Some(channel) = &self.channel else {
            return 0;
        };
        let mut count = 0;
        let (mut queue, mut context) = (ptr::null_mut(), ptr::null_mut::<c_void>());
        // SAFETY: an existing channel, whose descriptor does not block; its only queue is this one.
        while unsafe {
            (api().ibv_get_cq_event)(channel.0.as_ptr(), &raw mut queue, &raw mut context)
        } == 0
        {
            // SAFETY: the event above is of this queue. Destroying the queue waits until it is acknowledged.
            unsafe { (api().ibv_ack_cq_events)(queue, 1) };
            count += 1;
        }
        count
    }

    /// The descriptor of the channel.
    pub fn channel(&self) -> Option<BorrowedFd<'_>> {
        self.channel.as_ref().map(AsFd::as_fd)
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        let Some(api) = api_to_destroy() else { return };
        self.take_events();
        // SAFETY: queue pairs that use it hold it, so it is unused now. The channel is dropped afterwards.
        unsafe { (api.ibv_destroy_cq)(self.raw.as_ptr()) };
    }
}
