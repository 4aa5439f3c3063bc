// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Queue pairs, and the shared receive queue that some of them have: ibv_create_qp(3), ibv_create_srq(3).

use core::ffi::c_int;
use core::ptr::{self, NonNull};
use std::io;
use std::sync::Arc;

use super::abi::*;
use super::api::{api, api_to_destroy};
use super::check_number;
use super::device::Device;
use super::memory::ProtectionDomain;
use super::queue::CompletionQueue;
use super::request::{Receive, Request};

/// The kinds of queue pairs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum PairKind {
    Connected = IBV_QPT_RC,
    Datagram = IBV_QPT_UD,
}

/// Sizes of the queues of a pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PairLimits {
    pub sends: u32,
    pub receives: u32,
    pub send_pieces: u32,
    pub receive_pieces: u32,
    /// Most bytes that a request can carry itself.
    pub inline: u32,
}

impl PairLimits {
    fn raw(self) -> ibv_qp_cap {
        ibv_qp_cap {
            max_send_wr: self.sends,
            max_recv_wr: self.receives,
            max_send_sge: self.send_pieces,
            max_recv_sge: self.receive_pieces,
            max_inline_data: self.inline,
        }
    }

    fn of(raw: &ibv_qp_cap) -> PairLimits {
        PairLimits {
            sends: raw.max_send_wr,
            receives: raw.max_recv_wr,
            send_pieces: raw.max_send_sge,
            receive_pieces: raw.max_recv_sge,
            inline: raw.max_inline_data,
        }
    }
}

/// Queues that a new pair uses.
#[derive(Clone, Debug)]
pub struct PairQueues {
    pub send: Arc<CompletionQueue>,
    pub receive: Arc<CompletionQueue>,
    pub shared: Option<Arc<SharedReceives>>,
}

/// A queue pair.
#[derive(Debug)]
pub struct Pair {
    pub(super) raw: NonNull<ibv_qp>,
    pub(super) post_send: PostSend,
    post_recv: PostRecv,
    /// The connection that made it; otherwise it was made directly.
    owner: Option<NonNull<rdma_cm_id>>,
    limits: PairLimits,
    pub(super) kind: PairKind,
    _queues: PairQueues,
    _domain: Arc<ProtectionDomain>,
}

/// The port, and the key and partition of datagrams that a pair takes.
#[derive(Clone, Copy, Debug)]
pub struct DatagramAttributes {
    pub port: u8,
    pub key: u32,
    pub pkey_index: u16,
}

// SAFETY: the functions of a pair may be called by any thread.
unsafe impl Send for Pair {}
// SAFETY: as above.
unsafe impl Sync for Pair {}

/// The attributes with which a pair of these limits is made.
fn attributes(kind: PairKind, queues: &PairQueues, limits: PairLimits) -> ibv_qp_init_attr {
    let shared = queues.shared.as_ref();
    ibv_qp_init_attr {
        qp_context: ptr::null_mut(),
        send_cq: queues.send.raw(),
        recv_cq: queues.receive.raw(),
        srq: shared.map_or(ptr::null_mut(), |shared| shared.raw.as_ptr()),
        cap: limits.raw(),
        qp_type: kind as u32,
        sq_sig_all: 0,
    }
}

impl Pair {
    /// Makes the queue pair of a connection.
    ///
    /// # Safety
    /// `id` is an identifier with a device and without a pair, which is destroyed after the pair is dropped.
    pub(super) unsafe fn of_connection(
        id: NonNull<rdma_cm_id>,
        domain: &Arc<ProtectionDomain>,
        queues: &PairQueues,
        limits: PairLimits,
    ) -> io::Result<Pair> {
        let mut attributes = attributes(PairKind::Connected, queues, limits);
        // SAFETY: existing objects, which the pair holds.
        let result =
            unsafe { (api().rdma_create_qp)(id.as_ptr(), domain.raw(), &raw mut attributes) };
        super::check_errno(result)?;
        // SAFETY: the call above has set it.
        let raw = NonNull::new(unsafe { (*id.as_ptr()).qp }).ok_or_else(unsupported)?;
        let (post_send, post_recv) = functions(domain.device())?;
        Ok(Pair {
            raw,
            post_send,
            post_recv,
            owner: Some(id),
            limits: PairLimits::of(&attributes.cap),
            kind: PairKind::Connected,
            _queues: queues.clone(),
            _domain: domain.clone(),
        })
    }

    /// Makes a queue pair of datagrams, and starts it.
    pub fn of_datagrams(
        domain: &Arc<ProtectionDomain>,
        queues: &PairQueues,
        limits: PairLimits,
        datagrams: DatagramAttributes,
    ) -> io::Result<Pair> {
        let (post_send, post_recv) = functions(domain.device())?;
        let mut attributes = attributes(PairKind::Datagram, queues, limits);
        // SAFETY: existing objects, which the pair holds.
        let raw = unsafe { (api().ibv_create_qp)(domain.raw(), &raw mut attributes) };
        let pair = Pair {
            raw: NonNull::new(raw).ok_or_else(io::Error::last_os_error)?,
            post_send,
            post_recv,
            owner: None,
            limits: PairLimits::of(&attributes.cap),
            kind: PairKind::Datagram,
            _queues: queues.clone(),
            _domain: domain.clone(),
        };
        pair.start(datagrams)?;
        Ok(pair)
    }

    /// Moves a pair of datagrams to the error state, in which the adapter flushes everything that is posted.
    pub fn stop(&self) -> io::Result<()> {
        let mut attributes = ibv_qp_attr::default();
        attributes.qp_state = IBV_QPS_ERR;
        self.modify(&mut attributes, IBV_QP_STATE)
    }

    fn modify(&self, attributes: &mut ibv_qp_attr, mask: c_int) -> io::Result<()> {
        // SAFETY: an existing pair, and attributes of which those in the mask are read.
        check_number(unsafe { (api().ibv_modify_qp)(self.raw.as_ptr(), attributes, mask) })
    }

    /// Starts a pair of datagrams again that was stopped. Nothing may be posted that has not completed.
    pub fn restart(&self, datagrams: DatagramAttributes) -> io::Result<()> {
        let mut attributes = ibv_qp_attr::default();
        attributes.qp_state = IBV_QPS_RESET;
        self.modify(&mut attributes, IBV_QP_STATE)?;
        self.start(datagrams)
    }

    fn start(&self, datagrams: DatagramAttributes) -> io::Result<()> {
        let steps = [
            (
                IBV_QPS_INIT,
                IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY,
            ),
            (IBV_QPS_RTR, IBV_QP_STATE),
            (IBV_QPS_RTS, IBV_QP_STATE | IBV_QP_SQ_PSN),
        ];
        for (state, mask) in steps {
            let mut attributes = ibv_qp_attr::default();
            attributes.qp_state = state;
            attributes.port_num = datagrams.port;
            attributes.qkey = datagrams.key;
            attributes.pkey_index = datagrams.pkey_index;
            attributes.sq_psn = FIRST_PACKET;
            self.modify(&mut attributes, mask)?;
        }
        Ok(())
    }

    /// The limits that the driver has granted, which may exceed those requested.
    pub fn limits(&self) -> PairLimits {
        self.limits
    }

    /// Its number, which completions report.
    pub fn number(&self) -> u32 {
        // SAFETY: an existing pair.
        unsafe { (*self.raw.as_ptr()).qp_num }
    }

    /// Posts a request. Fails with `ENOMEM` if the queue is full.
    #[inline]
    pub fn post(&self, request: &mut Request<'_>) -> io::Result<()> {
        let mut bad = ptr::null_mut();
        if self.kind == PairKind::Datagram && !request.is_datagram() {
            return Err(unsupported());
        }
        // SAFETY: an existing pair, and a request with its pieces, and with an address if the pair needs one. For the
        // memory see the comment of `sys::verbs`.
        let result = unsafe { (self.post_send)(self.raw.as_ptr(), request.raw(), &raw mut bad) };
        match result {
            0 => Ok(()),
            number => check_number(number),
        }
    }

    /// Posts a receive. Fails with `ENOMEM` if the queue is full.
    #[inline]
    pub fn receive(&self, receive: &mut Receive) -> io::Result<()> {
        let mut bad = ptr::null_mut();
        // SAFETY: as in `post`.
        receive.with_raw(|wr| unsafe {
            check_number((self.post_recv)(self.raw.as_ptr(), wr, &raw mut bad))
        })
    }

    /// Sets the time that the peer waits before it repeats a message for which no receive was posted, in the units of
    /// ibv_modify_qp(3).
    pub fn set_rnr_timer(&self, timer: u8) -> io::Result<()> {
        let mut attributes = ibv_qp_attr::default();
        attributes.min_rnr_timer = timer;
        self.modify(&mut attributes, IBV_QP_MIN_RNR_TIMER)
    }
}

/// The number of the first packet of a pair of datagrams.
const FIRST_PACKET: u32 = 0xff_ffff;

pub(super) fn unsupported() -> io::Error {
    io::Error::from_raw_os_error(libc::EOPNOTSUPP)
}

fn functions(device: Device) -> io::Result<(PostSend, PostRecv)> {
    let ops = device.ops();
    let pair = ops.post_send.zip(ops.post_recv);
    pair.ok_or_else(unsupported)
}

impl Drop for Pair {
    fn drop(&mut self) {
        let Some(api) = api_to_destroy() else { return };
        match self.owner {
            // SAFETY: `of_connection`: the identifier still exists, and the pair is used no more.
            Some(id) => unsafe { (api.rdma_destroy_qp)(id.as_ptr()) },
            // SAFETY: made by the library, and used no more.
            None => _ = unsafe { (api.ibv_destroy_qp)(self.raw.as_ptr()) },
        }
    }
}

/// Makes a queue pair that is destroyed again, to find out what the device supports. Returns the number of bytes that
/// its requests can carry.
pub fn probe_inline(
    domain: &Arc<ProtectionDomain>,
    kind: PairKind,
    queue: &CompletionQueue,
    limits: PairLimits,
) -> io::Result<u32> {
    let mut attributes = ibv_qp_init_attr {
        qp_context: ptr::null_mut(),
        send_cq: queue.raw(),
        recv_cq: queue.raw(),
        srq: ptr::null_mut(),
        cap: limits.raw(),
        qp_type: kind as u32,
        sq_sig_all: 1,
    };
    // SAFETY: existing objects, which live longer than the pair.
    let raw = unsafe { (api().ibv_create_qp)(domain.raw(), &raw mut attributes) };
    let raw = NonNull::new(raw).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: made above, and not used.
    unsafe { (api().ibv_destroy_qp)(raw.as_ptr()) };
    Ok(attributes.cap.max_inline_data)
}

/// A receive queue that pairs share.
#[derive(Debug)]
pub struct SharedReceives {
    raw: NonNull<ibv_srq>,
    post: PostSrqRecv,
    _domain: Arc<ProtectionDomain>,
}

// SAFETY: as for `Pair`.
unsafe impl Send for SharedReceives {}
// SAFETY: as above.
unsafe impl Sync for SharedReceives {}

impl SharedReceives {
    pub fn new(
        domain: &Arc<ProtectionDomain>,
        size: u32,
        pieces: u32,
    ) -> io::Result<SharedReceives> {
        let post = domain.device().ops().post_srq_recv;
        let post = post.ok_or_else(unsupported)?;
        let mut attributes = ibv_srq_init_attr {
            srq_context: ptr::null_mut(),
            attr: ibv_srq_attr {
                max_wr: size,
                max_sge: pieces,
                srq_limit: 0,
            },
        };
        // SAFETY: an existing domain, which the queue holds.
        let raw = unsafe { (api().ibv_create_srq)(domain.raw(), &raw mut attributes) };
        let raw = NonNull::new(raw).ok_or_else(io::Error::last_os_error)?;
        Ok(SharedReceives {
            raw,
            post,
            _domain: domain.clone(),
        })
    }

    /// As `Pair::receive`.
    #[inline]
    pub fn receive(&self, receive: &mut Receive) -> io::Result<()> {
        let mut bad = ptr::null_mut();
        // SAFETY: as in `Pair::receive`.
        receive.with_raw(|wr| unsafe {
            check_number((self.post)(self.raw.as_ptr(), wr, &raw mut bad))
        })
    }
}

impl Drop for SharedReceives {
    fn drop(&mut self) {
        let Some(api) = api_to_destroy() else { return };
        // SAFETY: the pairs that use it hold it, so it is unused now.
        unsafe { (api.ibv_destroy_srq)(self.raw.as_ptr()) };
    }
}
