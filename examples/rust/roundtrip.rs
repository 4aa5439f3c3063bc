// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Two endpoints communicate over tcp, from Rust over the C ABI: every function, also those that are inline in C, is a
//! symbol of the library (node FABRIC_RS_1.0), so no C compiler and no bindings generator takes part.
//!
//!     rustc -L FOLDER examples/rust/roundtrip.rs && LD_LIBRARY_PATH=FOLDER ./roundtrip
//!
//! FOLDER has libfabric.so and libfabric.so.1. The declarations cover the parts of rdma/*.h that this program uses.
#![allow(non_camel_case_types)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::time::{Duration, Instant};

type Fid = *mut c_void;

/// The start of `struct fi_ep_attr`.
#[repr(C)]
struct fi_ep_attr {
    ep_type: c_int,
}

/// The start of `struct fi_fabric_attr`.
#[repr(C)]
struct fi_fabric_attr {
    fabric: Fid,
    name: *mut c_char,
    prov_name: *mut c_char,
}

#[repr(C)]
struct fi_info {
    next: *mut fi_info,
    caps: u64,
    mode: u64,
    addr_format: u32,
    src_addrlen: usize,
    dest_addrlen: usize,
    src_addr: *mut c_void,
    dest_addr: *mut c_void,
    handle: Fid,
    tx_attr: *mut c_void,
    rx_attr: *mut c_void,
    ep_attr: *mut fi_ep_attr,
    domain_attr: *mut c_void,
    fabric_attr: *mut fi_fabric_attr,
    nic: Fid,
}

#[repr(C)]
#[derive(Default)]
struct fi_cq_attr {
    size: usize,
    flags: u64,
    format: c_int,
    wait_obj: c_int,
    signaling_vector: c_int,
    wait_cond: c_int,
    wait_set: usize,
}

#[repr(C)]
#[derive(Default)]
struct fi_av_attr {
    av_type: c_int,
    rx_ctx_bits: c_int,
    count: usize,
    ep_per_node: usize,
    name: usize,
    map_addr: usize,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct fi_cq_tagged_entry {
    op_context: usize,
    flags: u64,
    len: usize,
    buf: usize,
    data: u64,
    tag: u64,
}

#[link(name = "fabric")]
unsafe extern "C" {
    fn fi_version() -> u32;
    fn fi_strerror(errnum: c_int) -> *const c_char;
    fn fi_allocinfo() -> *mut fi_info;
    fn fi_freeinfo(info: *mut fi_info);
    fn fi_getinfo(
        version: u32,
        node: *const c_char,
        service: *const c_char,
        flags: u64,
        hints: *const fi_info,
        info: *mut *mut fi_info,
    ) -> c_int;
    fn fi_fabric(attr: *mut fi_fabric_attr, fabric: *mut Fid, context: *mut c_void) -> c_int;
    fn fi_domain(fabric: Fid, info: *mut fi_info, domain: *mut Fid, context: *mut c_void) -> c_int;
    fn fi_endpoint(domain: Fid, info: *mut fi_info, ep: *mut Fid, context: *mut c_void) -> c_int;
    fn fi_cq_open(domain: Fid, attr: *mut fi_cq_attr, cq: *mut Fid, context: *mut c_void) -> c_int;
    fn fi_av_open(domain: Fid, attr: *mut fi_av_attr, av: *mut Fid, context: *mut c_void) -> c_int;
    fn fi_ep_bind(ep: Fid, other: Fid, flags: u64) -> c_int;
    fn fi_enable(ep: Fid) -> c_int;
    fn fi_getname(ep: Fid, addr: *mut c_void, len: *mut usize) -> c_int;
    fn fi_av_insert(
        av: Fid,
        addr: *const c_void,
        count: usize,
        fi_addr: *mut u64,
        flags: u64,
        context: *mut c_void,
    ) -> c_int;
    fn fi_tsend(
        ep: Fid,
        buf: *const c_void,
        len: usize,
        desc: *mut c_void,
        to: u64,
        tag: u64,
        context: usize,
    ) -> isize;
    fn fi_trecv(
        ep: Fid,
        buf: *mut c_void,
        len: usize,
        desc: *mut c_void,
        from: u64,
        tag: u64,
        ignore: u64,
        context: usize,
    ) -> isize;
    fn fi_cq_read(cq: Fid, entry: *mut fi_cq_tagged_entry, count: usize) -> isize;
    fn fi_close(fid: Fid) -> c_int;
    fn strdup(text: *const c_char) -> *mut c_char;
}

const FI_TAGGED: u64 = 1 << 3;
const FI_RECV: u64 = 1 << 10;
const FI_TRANSMIT: u64 = 1 << 11;
const FI_SOURCE: u64 = 1 << 57;
const FI_EP_RDM: c_int = 3;
const FI_CQ_FORMAT_TAGGED: c_int = 4;
const FI_AV_TABLE: c_int = 2;
const FI_EAGAIN: isize = 11;
const FI_ADDR_UNSPEC: u64 = u64::MAX;

/// Ends the program with the library's error text.
fn must(what: &str, result: isize) {
    if result < 0 {
        // SAFETY: fi_errno(3): a string for every number.
        let words = unsafe { CStr::from_ptr(fi_strerror(-result as c_int)) };
        eprintln!("{what}: {}", words.to_string_lossy());
        std::process::exit(1);
    }
}

/// Returns an object from an open function whose last but one argument receives it.
fn opened(what: &str, open: impl FnOnce(*mut Fid, *mut c_void) -> c_int) -> Fid {
    let mut fid = null_mut();
    must(what, open(&mut fid, null_mut()) as isize);
    fid
}

struct Side {
    ep: Fid,
    cq: Fid,
    av: Fid,
}

impl Side {
    /// # Safety
    /// `domain` is open and `info` an entry for it.
    unsafe fn open(domain: Fid, info: *mut fi_info) -> Side {
        let mut cq_attr = fi_cq_attr {
            format: FI_CQ_FORMAT_TAGGED,
            ..Default::default()
        };
        let mut av_attr = fi_av_attr {
            av_type: FI_AV_TABLE,
            ..Default::default()
        };
        // SAFETY: the objects are open, and the attributes live during the calls.
        unsafe {
            let side = Side {
                ep: opened("fi_endpoint", |fid, context| {
                    fi_endpoint(domain, info, fid, context)
                }),
                cq: opened("fi_cq_open", |fid, context| {
                    fi_cq_open(domain, &mut cq_attr, fid, context)
                }),
                av: opened("fi_av_open", |fid, context| {
                    fi_av_open(domain, &mut av_attr, fid, context)
                }),
            };
            must(
                "fi_ep_bind",
                fi_ep_bind(side.ep, side.cq, FI_TRANSMIT | FI_RECV) as isize,
            );
            must("fi_ep_bind", fi_ep_bind(side.ep, side.av, 0) as isize);
            must("fi_enable", fi_enable(side.ep) as isize);
            side
        }
    }

    /// Inserts the other side into this side's address vector and returns its number.
    fn meet(&self, other: &Side) -> u64 {
        let (mut name, mut len, mut number) = ([0u8; 128], 128, FI_ADDR_UNSPEC);
        // SAFETY: both sides are open, `name` has `len` bytes.
        unsafe {
            must(
                "fi_getname",
                fi_getname(other.ep, name.as_mut_ptr().cast(), &mut len) as isize,
            );
            let inserted =
                fi_av_insert(self.av, name.as_ptr().cast(), 1, &mut number, 0, null_mut());
            assert_eq!(inserted, 1, "fi_av_insert");
        }
        number
    }

    fn look(&self) -> Option<fi_cq_tagged_entry> {
        let mut entry = fi_cq_tagged_entry::default();
        // SAFETY: the queue has entries of this format.
        match unsafe { fi_cq_read(self.cq, &mut entry, 1) } {
            1 => Some(entry),
            n if n == -FI_EAGAIN => None,
            n => {
                must("fi_cq_read", n);
                None
            }
        }
    }

    fn close(self) {
        for fid in [self.ep, self.cq, self.av] {
            // SAFETY: open, and not used any more.
            must("fi_close", unsafe { fi_close(fid) } as isize);
        }
    }
}

/// Reads both queues until the side has its completion.
fn wait(sides: &[Side; 2], which: usize, context: usize) -> fi_cq_tagged_entry {
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut found = None;
    while found.is_none() {
        assert!(Instant::now() < deadline, "no completion in 20 s");
        sides[1 - which].look();
        found = sides[which].look();
    }
    let entry = found.expect("the loop ends with one");
    assert_eq!(entry.op_context, context);
    entry
}

fn main() {
    let (message, mut room) = (*b"from Rust, over the C ABI", [0u8; 64]);
    let node = c"127.0.0.1";
    // SAFETY: fi_getinfo(3), fi_domain(3), fi_endpoint(3), fi_tagged(3); buffers live until their completions.
    unsafe {
        let version = fi_version();
        println!("libfabric {}.{}", version >> 16, version & 0xffff);
        let hints = fi_allocinfo();
        (*hints).caps = FI_TAGGED;
        (*(*hints).ep_attr).ep_type = FI_EP_RDM;
        (*(*hints).fabric_attr).prov_name = strdup(CString::new("tcp").expect("text").as_ptr());
        let mut info = null_mut();
        must(
            "fi_getinfo",
            fi_getinfo(2 << 16, node.as_ptr(), null(), FI_SOURCE, hints, &mut info) as isize,
        );
        fi_freeinfo(hints);
        let fabric = opened("fi_fabric", |fid, context| {
            fi_fabric((*info).fabric_attr, fid, context)
        });
        let domain = opened("fi_domain", |fid, context| {
            fi_domain(fabric, info, fid, context)
        });
        let sides = [Side::open(domain, info), Side::open(domain, info)];
        let to = sides[0].meet(&sides[1]);
        let receive = fi_trecv(
            sides[1].ep,
            room.as_mut_ptr().cast(),
            room.len(),
            null_mut(),
            FI_ADDR_UNSPEC,
            7,
            0,
            2,
        );
        must("fi_trecv", receive);
        must(
            "fi_tsend",
            fi_tsend(
                sides[0].ep,
                message.as_ptr().cast(),
                message.len(),
                null_mut(),
                to,
                7,
                1,
            ),
        );
        let entry = wait(&sides, 1, 2);
        assert_eq!((entry.len, entry.tag), (message.len(), 7));
        assert_eq!(room[..entry.len], message);
        println!("{}", String::from_utf8_lossy(&room[..entry.len]));
        let [a, b] = sides;
        a.close();
        b.close();
        must("fi_close", fi_close(domain) as isize);
        must("fi_close", fi_close(fabric) as isize);
        fi_freeinfo(info);
    }
}
