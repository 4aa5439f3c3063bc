// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Live RDM endpoints for the targets whose peer sends arbitrary bytes. An endpoint has posted receives, memory that
//! peers may write and read, and atomic operations. It must continue to serve other peers, and end the connection of a
//! hostile peer within a limit. Each way of making progress has a separate endpoint, because a fault can end a
//! connection at different points of a poll, a blocking read and the progress thread.

use std::ffi::{CString, c_void};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::ptr;
use std::time::{Duration, Instant};

use abi::*;
use base::Caps;
use base::info::{DomainAttr, EpAttr, FabricAttr, Hints, Info, Query};
use sys::addr;

/// Ways of making progress.
#[derive(Clone, Copy, PartialEq)]
pub enum Progress {
    Polling,
    BlockingReads,
    Automatic,
}

impl Progress {
    pub const ALL: [Progress; 3] = [
        Progress::Polling,
        Progress::BlockingReads,
        Progress::Automatic,
    ];

    /// Index of an endpoint in the order of `ALL`, chosen by bits 1 and 2 of a target's first byte.
    pub fn index(how: u8) -> usize {
        usize::from(how >> 1 & 3) % Progress::ALL.len()
    }
}

pub struct Live {
    progress: Progress,
    cq: *mut fid_cq,
    ep: *mut fid_ep,
    pub addr: SocketAddr,
    /// Buffer of all receives, and the region that peers may write and read.
    memory: &'static mut [u8; MEMORY],
    /// Pending receives: plain, tagged.
    posted: [usize; 2],
    /// Messages with the tag of well-behaved peers that have arrived.
    honest: usize,
}

/// Tag of the messages of well-behaved peers.
pub const HONEST_TAG: u64 = 0x5afe_c0de_0dd5_eed5;

const MEMORY: usize = 4096;
/// Posted receives of each kind.
const RECEIVES: usize = 4;
/// Time within which the endpoint must react.
const LIMIT: Duration = Duration::from_secs(10);

fn hints(provider: &str, progress: Progress) -> Hints {
    Hints {
        caps: Caps::MSG | Caps::TAGGED | Caps::RMA | Caps::ATOMIC,
        ep: Some(EpAttr {
            ep_type: FI_EP_RDM.0,
            ..Default::default()
        }),
        domain: Some(DomainAttr {
            progress: match progress {
                Progress::Automatic => FI_PROGRESS_AUTO.0,
                _ => FI_PROGRESS_MANUAL.0,
            },
            ..Default::default()
        }),
        fabric: Some(FabricAttr {
            prov_name: Some(CString::new(provider).expect("no zero in it")),
            ..Default::default()
        }),
        ..Hints::default()
    }
}

impl Live {
    /// Opens an endpoint that stays open until the process ends.
    pub fn open(provider: &str, progress: Progress) -> Live {
        let node = CString::new("127.0.0.1").expect("no zero in it");
        let query = Query {
            version: 2 << 16,
            node: Some(&node),
            service: None,
            flags: FI_SOURCE,
            hints: Some(&hints(provider, progress)),
        };
        crate::library::install();
        let info: Info = registry::getinfo(&query).expect(provider).remove(0);
        let (fabric, _) =
            registry::open_fabric(&info.fabric, 2 << 16, 0, ptr::null_mut()).expect("a fabric");
        let none = ptr::null_mut();
        // SAFETY: objects are used as fi_domain(3) and fi_endpoint(3) describe, through the tables that they come with.
        unsafe {
            let c_info = info.write().expect("memory");
            let mut domain = ptr::null_mut();
            let open_domain = (*(*fabric).ops).domain.expect("domain");
            assert_eq!(open_domain(fabric, c_info, &mut domain, none), 0);
            let (cq, ep) = open_endpoint(domain, c_info, progress);
            let memory: &'static mut [u8; MEMORY] = Box::leak(Box::new([0; MEMORY]));
            let mut mr = ptr::null_mut();
            let reg = (*(*domain).mr).reg.expect("reg");
            let (fid, base) = (&mut (*domain).fid, memory.as_ptr().cast());
            let access = FI_REMOTE_READ | FI_REMOTE_WRITE;
            assert_eq!(reg(fid, base, MEMORY, access, 0, 1, 0, &mut mr, none), 0);
            let mut name = [0u8; 128];
            let mut len = name.len();
            let getname = (*(*ep).cm).getname.expect("getname");
            let out = name.as_mut_ptr().cast();
            assert_eq!(getname(&mut (*ep).fid, out, &mut len), 0);
            Live {
                progress,
                cq,
                ep,
                addr: addr::from_bytes(&name[..len]).expect("its name"),
                memory,
                posted: [0; 2],
                honest: 0,
            }
        }
    }

    /// Reads up to 16 completions, or one error. A blocking read waits for 1 ms.
    pub fn poll(&mut self) {
        // SAFETY: the queue is open and has entries of this format.
        unsafe {
            let ops = &*(*self.cq).ops;
            let mut entries: [fi_cq_tagged_entry; 16] = std::mem::zeroed();
            let buf = entries.as_mut_ptr().cast();
            let n = match self.progress {
                Progress::BlockingReads => {
                    ops.sread.expect("sread")(self.cq, buf, 16, ptr::null(), 1)
                }
                _ => ops.read.expect("read")(self.cq, buf, 16),
            };
            match n {
                n if n > 0 => entries[..n as usize]
                    .iter()
                    .for_each(|entry| self.count(entry.flags, entry.tag)),
                n if n == -(FI_EAVAIL as isize) => {
                    let mut error: fi_cq_err_entry = std::mem::zeroed();
                    assert_eq!(ops.readerr.expect("readerr")(self.cq, &mut error, 0), 1);
                    self.count(error.flags, 0);
                }
                // The timer of libFuzzer is a signal.
                n if n == -(FI_EINTR as isize) && self.progress == Progress::BlockingReads => {}
                n => assert_eq!(n, -(FI_EAGAIN as isize)),
            }
        }
    }

    /// Counts the completion of a receive. Operations of the peer complete, too.
    fn count(&mut self, flags: u64, tag: u64) {
        if flags & FI_RECV != 0 {
            self.posted[usize::from(flags & FI_TAGGED != 0)] -= 1;
            self.honest += usize::from(tag == HONEST_TAG);
        }
    }

    /// Posts receives in place of those that have completed.
    pub fn post(&mut self) {
        let (base, none) = (self.memory.as_mut_ptr().cast(), ptr::null_mut());
        let any = FI_ADDR_UNSPEC;
        for _ in self.posted[0]..RECEIVES {
            // SAFETY: the endpoint is open, and the memory stays.
            let rc = unsafe {
                (*(*self.ep).msg).recv.expect("recv")(self.ep, base, 256, none, any, none)
            };
            assert_eq!(rc, 0);
        }
        for _ in self.posted[1]..RECEIVES {
            // SAFETY: the same.
            let rc = unsafe {
                let recv = (*(*self.ep).tagged).recv.expect("trecv");
                recv(self.ep, base, 256, none, any, 0, u64::MAX, none)
            };
            assert_eq!(rc, 0);
        }
        self.posted = [RECEIVES; 2];
    }

    /// Makes progress until a condition holds.
    pub fn until(&mut self, what: &str, mut is_matched: impl FnMut(&Live) -> bool) {
        let start = Instant::now();
        while !is_matched(self) {
            assert!(start.elapsed() < LIMIT, "{what}: not within {LIMIT:?}");
            self.post();
            self.poll();
        }
    }

    /// Reads that many bytes from a peer's socket while the endpoint makes progress.
    pub fn answer(&mut self, mut socket: &TcpStream, bytes: &mut [u8]) {
        socket.set_nonblocking(true).expect("TCP");
        let mut len = 0;
        self.until("an answer", |_| {
            match socket.read(&mut bytes[len..]) {
                Ok(0) => panic!("it ends the connection instead of an answer"),
                Ok(read) => len += read,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            len == bytes.len()
        });
    }

    /// Sends bytes from a peer's socket. The endpoint may have closed its side.
    pub fn feed(&mut self, mut socket: &TcpStream, mut bytes: &[u8]) {
        socket.set_nonblocking(true).expect("TCP");
        self.until("room for more bytes", |_| {
            match socket.write(bytes) {
                Ok(len) => bytes = &bytes[len..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => bytes = &[],
            }
            bytes.is_empty()
        });
    }

    /// Waits until the endpoint ends the connection. A message that is too large to keep stays in the socket until a
    /// receive takes it, and the end of the connection is behind the message.
    pub fn ends(&mut self, mut socket: &TcpStream) {
        socket.set_nonblocking(true).expect("TCP");
        let mut rest = [0; 4096];
        self.until("the end of the connection", |_| {
            match socket.read(&mut rest) {
                Ok(len) => len == 0,
                Err(error) => error.kind() != ErrorKind::WouldBlock,
            }
        });
    }

    /// Sends a message with `HONEST_TAG` from a well-behaved peer's socket, and checks that it arrives.
    pub fn receives_over(&mut self, socket: &TcpStream, message: &[u8]) {
        let before = self.honest;
        self.feed(socket, message);
        self.until("a message of a well-behaved peer", |live| {
            live.honest > before
        });
    }

    /// Messages with `HONEST_TAG` that have arrived.
    pub fn honest(&self) -> usize {
        self.honest
    }
}

/// A completion queue, and an enabled endpoint that is bound to it and to an address vector.
///
/// # Safety
///
/// The domain is open, and the information is of its provider.
unsafe fn open_endpoint(
    domain: *mut fid_domain,
    info: *mut fi_info,
    progress: Progress,
) -> (*mut fid_cq, *mut fid_ep) {
    let none: *mut c_void = ptr::null_mut();
    let (mut cq, mut av, mut ep) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
    // SAFETY: the caller's promise; the rest is as in `Live::open`.
    unsafe {
        let ops = &*(*domain).ops;
        let mut cq_attr: fi_cq_attr = std::mem::zeroed();
        cq_attr.format = FI_CQ_FORMAT_TAGGED;
        cq_attr.wait_obj = match progress {
            Progress::BlockingReads => FI_WAIT_UNSPEC,
            _ => FI_WAIT_NONE,
        };
        let mut av_attr: fi_av_attr = std::mem::zeroed();
        let (cq_open, av_open) = (ops.cq_open.expect("cq"), ops.av_open.expect("av"));
        assert_eq!(cq_open(domain, &mut cq_attr, &mut cq, none), 0);
        assert_eq!(av_open(domain, &mut av_attr, &mut av, none), 0);
        let endpoint = ops.endpoint.expect("endpoint");
        assert_eq!(endpoint(domain, info, &mut ep, none), 0);
        let (fid_ops, fid) = (&*(*ep).fid.ops, &mut (*ep).fid);
        let (bind, control) = (fid_ops.bind.expect("bind"), fid_ops.control.expect("ctl"));
        assert_eq!(bind(fid, &mut (*cq).fid, FI_TRANSMIT | FI_RECV), 0);
        assert_eq!(bind(fid, &mut (*av).fid, 0), 0);
        assert_eq!(control(fid, FI_ENABLE as i32, none), 0);
    }
    (cq, ep)
}
