// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A live RDM endpoint of tcp whose peer sends any bytes in any pieces once it is connected. The endpoint has posted receives,
//! memory that peers may write and read, and atomic operations. It must go on for other peers, and end the connection of
//! this one within a limit. Each way of making progress has an endpoint of its own, because a fault can end a connection at
//! different points of a poll, a blocking read and the progress thread.

use std::ffi::CString;
use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::ptr;
use std::time::{Duration, Instant};

use crate::abi::*;
use crate::base::Caps;
use crate::base::info::{Hints, Info, Query};
use crate::engine::stream::proto::{CmKind, EXTENSIONS, RdmPrivate, encode_cm};
use crate::registry;
use crate::sys::addr;

/// Ways of making progress.
#[derive(Clone, Copy, PartialEq)]
enum Progress {
    Polling,
    BlockingReads,
    Automatic,
}

struct Target {
    progress: Progress,
    cq: *mut fid_cq,
    ep: *mut fid_ep,
    addr: SocketAddr,
    /// Buffer of all receives, and the region that peers may write and read.
    memory: &'static mut [u8; MEMORY],
    /// Pending receives: plain, tagged.
    posted: [usize; 2],
}

const MEMORY: usize = 4096;
/// Posted receives of each kind.
const RECEIVES: usize = 4;

/// Opens an endpoint that stays open until the process ends.
fn open(progress: Progress) -> Target {
    let hints = Hints {
        caps: Caps::MSG | Caps::TAGGED | Caps::RMA | Caps::ATOMIC,
        ..Hints::default()
    };
    let hints = Hints {
        ep: Some(crate::base::info::EpAttr {
            ep_type: FI_EP_RDM.0,
            ..Default::default()
        }),
        domain: Some(crate::base::info::DomainAttr {
            progress: match progress {
                Progress::Automatic => FI_PROGRESS_AUTO.0,
                _ => FI_PROGRESS_MANUAL.0,
            },
            ..Default::default()
        }),
        ..hints
    };
    let node = CString::new("127.0.0.1").expect("no zero in it");
    let query = Query {
        version: 2 << 16,
        node: Some(&node),
        service: None,
        flags: FI_SOURCE,
        hints: Some(&hints),
    };
    let info: Info = registry::getinfo(&query).expect("tcp").remove(0);
    let (fabric, _) =
        registry::open_fabric(&info.fabric, 2 << 16, 0, ptr::null_mut()).expect("a fabric");
    // SAFETY: objects are used as fi_domain(3) and fi_endpoint(3) say, through the tables that they come with.
    unsafe {
        let c_info = info.write().expect("memory");
        let (mut domain, mut cq, mut av, mut ep) = (
            ptr::null_mut(),
            ptr::null_mut(),
            ptr::null_mut(),
            ptr::null_mut(),
        );
        let none = ptr::null_mut();
        let open_domain = (*(*fabric).ops).domain.expect("domain");
        assert_eq!(open_domain(fabric, c_info, &mut domain, none), 0);
        let ops = &*(*domain).ops;
        let mut cq_attr: fi_cq_attr = std::mem::zeroed();
        cq_attr.format = FI_CQ_FORMAT_TAGGED;
        cq_attr.wait_obj = match progress {
            Progress::BlockingReads => FI_WAIT_UNSPEC,
            _ => FI_WAIT_NONE,
        };
        assert_eq!(
            ops.cq_open.expect("cq_open")(domain, &mut cq_attr, &mut cq, none),
            0
        );
        let mut av_attr: fi_av_attr = std::mem::zeroed();
        assert_eq!(
            ops.av_open.expect("av_open")(domain, &mut av_attr, &mut av, none),
            0
        );
        assert_eq!(
            ops.endpoint.expect("endpoint")(domain, c_info, &mut ep, none),
            0
        );
        let fid_ops = &*(*ep).fid.ops;
        let bind = fid_ops.bind.expect("bind");
        assert_eq!(
            bind(&mut (*ep).fid, &mut (*cq).fid, FI_TRANSMIT | FI_RECV),
            0
        );
        assert_eq!(bind(&mut (*ep).fid, &mut (*av).fid, 0), 0);
        let control = fid_ops.control.expect("control");
        assert_eq!(control(&mut (*ep).fid, FI_ENABLE as i32, none), 0);
        let memory: &'static mut [u8; MEMORY] = Box::leak(Box::new([0; MEMORY]));
        let mut mr = ptr::null_mut();
        let reg = (*(*domain).mr).reg.expect("reg");
        let access = FI_REMOTE_READ | FI_REMOTE_WRITE;
        let fid = &mut (*domain).fid;
        assert_eq!(
            reg(
                fid,
                memory.as_ptr().cast(),
                MEMORY,
                access,
                0,
                1,
                0,
                &mut mr,
                none
            ),
            0
        );
        let mut name = [0u8; 128];
        let mut len = name.len();
        let getname = (*(*ep).cm).getname.expect("getname");
        assert_eq!(
            getname(&mut (*ep).fid, name.as_mut_ptr().cast(), &mut len),
            0
        );
        Target {
            progress,
            cq,
            ep,
            addr: addr::from_bytes(&name[..len]).expect("its name"),
            memory,
            posted: [0; 2],
        }
    }
}

impl Target {
    /// Reads up to 16 completions, or one error. A blocking read waits for 1 ms.
    fn poll(&mut self) {
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
                    .for_each(|entry| self.took(entry.flags)),
                n if n == -(FI_EAVAIL as isize) => {
                    let mut error: fi_cq_err_entry = std::mem::zeroed();
                    assert_eq!(ops.readerr.expect("readerr")(self.cq, &mut error, 0), 1);
                    self.took(error.flags);
                }
                n => assert_eq!(n, -(FI_EAGAIN as isize)),
            }
        }
    }

    /// Counts the completion of a receive; operations of the peer complete, too.
    fn took(&mut self, flags: u64) {
        if flags & FI_RECV != 0 {
            self.posted[usize::from(flags & FI_TAGGED != 0)] -= 1;
        }
    }

    fn post(&mut self) {
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
                (*(*self.ep).tagged).recv.expect("trecv")(
                    self.ep,
                    base,
                    256,
                    none,
                    any,
                    0,
                    u64::MAX,
                    none,
                )
            };
            assert_eq!(rc, 0);
        }
        self.posted = [RECEIVES; 2];
    }
}

/// Bits of the first byte: 0 turns the extensions off, 1 and 2 choose the way of making progress, 6 and 7 are the number of
/// pieces less one in which the other bytes are sent.
pub fn peer(data: &[u8]) {
    thread_local! {
        static TARGETS: std::cell::RefCell<[Target; 3]> = std::cell::RefCell::new(
            [Progress::Polling, Progress::BlockingReads, Progress::Automatic].map(open));
    }
    let Some((&how, bytes)) = data.split_first() else {
        return;
    };
    TARGETS.with_borrow_mut(|targets| {
        let target = &mut targets[usize::from(how >> 1 & 3) % 3];
        target.post();
        let mut socket = TcpStream::connect(target.addr).expect("it listens");
        socket.set_nodelay(true).expect("TCP");
        let private = RdmPrivate {
            version: 1,
            checked: false,
            features: if how & 1 == 0 { EXTENSIONS } else { 0 },
            // Another peer each time; nobody connects to it.
            port: 1,
            pid: 1,
        };
        let first = encode_cm(CmKind::Request, &private.encode(), false, false);
        socket.write_all(&first).expect("a request");
        let pieces = usize::from(how >> 6) + 1;
        for piece in bytes.chunks(bytes.len().div_ceil(pieces).max(1)) {
            // The endpoint may have closed it.
            let _ = socket.write_all(piece);
            target.poll();
        }
        let _ = socket.shutdown(Shutdown::Write);
        // It ends the connection, whatever came.
        socket.set_nonblocking(true).expect("TCP");
        let start = Instant::now();
        let mut rest = [0; 4096];
        loop {
            // A message that no receive takes and that is too large to keep stays in the socket, and the end behind it.
            target.post();
            target.poll();
            match std::io::Read::read(&mut socket, &mut rest) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(_) => break,
            }
            assert!(
                start.elapsed() < Duration::from_secs(10),
                "it does not lose the peer"
            );
        }
    });
}
