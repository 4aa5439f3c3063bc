// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Round trips between the owned description and the C lists.

use core::ptr::{null, null_mut};
use std::sync::Arc;

use super::*;
use crate::{Caps, CompOrder, Mode, MrMode, MsgOrder, OpFlags, Result, Secret};

/// Bits without a name and one with a name; all are returned.
const UNNAMED_MODE: Mode = Mode::from_bits_retain(1 << 63 | 1 << 59 | 1);
const UNNAMED: Caps = Caps::from_bits_retain(1 << 63 | 1 << 1 | 1);

fn full() -> Info {
    Info {
        caps: UNNAMED,
        mode: UNNAMED_MODE,
        addr_format: 3,
        src_addr: Some(vec![1, 2, 3, 4]),
        dest_addr: Some(vec![]),
        handle: 0,
        tx: TxAttr {
            op_flags: OpFlags::from_bits_retain(1 << 63 | 1 << 24),
            msg_order: MsgOrder::from_bits_retain(1 << 63 | 1),
            comp_order: CompOrder::from_bits_retain(1 << 62 | 1 << 16),
            inject_size: 5,
            tclass: 6,
            ..TxAttr::default()
        },
        rx: RxAttr {
            iov_limit: 7,
            ..RxAttr::default()
        },
        ep: EpAttr {
            ep_type: 3,
            mem_tag_format: u64::MAX,
            auth_key_size: 3,
            auth_key: Some(Secret::from(&[9, 8, 7][..])),
            max_tx_wr_size: 16,
            max_rx_wr_size: 17,
            ..EpAttr::default()
        },
        domain: DomainAttr {
            name: Some(c"eth0".into()),
            control_progress: 1,
            progress: 2,
            mr_mode: MrMode::all(),
            cntr_cnt: 10,
            auth_key_size: 2,
            auth_key: Some(Secret::from(&[1, 2][..])),
            tclass: 11,
            max_ep_auth_key: 12,
            max_group_id: 13,
            max_cntr_value: 14,
            max_err_cntr_value: 15,
            ..DomainAttr::default()
        },
        fabric: FabricAttr {
            name: Some(c"192.0.2.0/24".into()),
            prov_name: Some(c"tcp".into()),
            prov_version: 206 << 16,
            api_version: 2 << 16 | 6,
            ..FabricAttr::default()
        },
        made: None,
        nic: None,
    }
}

#[test]
fn what_is_written_reads_back() {
    let info = full();
    let entry = info.write().unwrap();
    // SAFETY: just written, in the newest layout; freed once, after the last read.
    let back = unsafe {
        let back = Info::read(entry, Layout::CURRENT).unwrap();
        release(entry);
        back
    };
    assert_eq!(back, info);
}

#[test]
fn a_copy_through_an_old_layout_has_a_zero_tail() {
    let entry = full().write().unwrap();
    // SAFETY: as above.
    let (copy, back) = unsafe {
        let copy = duplicate(entry, Layout::FABRIC_1_0).unwrap();
        (copy, Info::read(copy, Layout::CURRENT).unwrap())
    };
    // SAFETY: as above.
    unsafe {
        release(entry);
        release(copy);
    }
    let mut expected = full();
    expected.tx.tclass = 0;
    expected.ep.auth_key_size = 0;
    expected.ep.auth_key = None;
    expected.ep.max_tx_wr_size = 0;
    expected.ep.max_rx_wr_size = 0;
    expected.domain = DomainAttr {
        name: expected.domain.name,
        control_progress: 1,
        progress: 2,
        mr_mode: MrMode::all(),
        ..DomainAttr::default()
    };
    assert_eq!(back, expected);
}

#[test]
fn duplicating_null_makes_an_empty_entry_with_all_parts() {
    // SAFETY: null is allowed; the result is freed once.
    unsafe {
        let entry = duplicate(null(), Layout::CURRENT).unwrap();
        let raw = *entry;
        assert!(!raw.tx_attr.is_null() && !raw.rx_attr.is_null() && !raw.ep_attr.is_null());
        assert!(!raw.domain_attr.is_null() && !raw.fabric_attr.is_null());
        assert!(raw.nic.is_null() && raw.next.is_null() && raw.src_addr.is_null());
        assert_eq!(Info::read(entry, Layout::CURRENT), Ok(Info::default()));
        release(entry);
    }
}

#[test]
fn missing_parts_stay_missing_in_a_copy() {
    // SAFETY: `empty` outlives both calls; the copy is freed once.
    unsafe {
        let empty: abi::fi_info = core::mem::zeroed();
        let copy = duplicate(&empty, Layout::CURRENT).unwrap();
        assert!((*copy).tx_attr.is_null() && (*copy).domain_attr.is_null());
        assert_eq!(Hints::read(copy, Layout::CURRENT), Ok(Hints::default()));
        release(copy);
    }
}

#[test]
fn lists_keep_their_order() {
    let mut second = full();
    second.caps = Caps::from_bits_retain(77);
    let list = write_all(&[full(), second]).unwrap();
    // SAFETY: the list was just written and is freed once.
    unsafe {
        assert_eq!((*list).caps, UNNAMED.bits());
        assert_eq!((*(*list).next).caps, 77);
        assert!((*(*list).next).next.is_null());
        release(list);
    }
    assert!(write_all(&[]).unwrap().is_null());
}

#[test]
fn an_old_reader_touches_only_its_bytes() {
    // A struct of the old size at the end of a heap block, so that heap checkers detect a read behind it.
    let old = Box::new([0xffu8; Layout::FABRIC_1_0.tx]);
    // SAFETY: 72 readable bytes.
    let attr: abi::fi_tx_attr =
        unsafe { read::grown(old.as_ptr().cast(), Layout::FABRIC_1_0.tx) }.unwrap();
    assert_eq!(
        (attr.caps, attr.rma_iov_limit, attr.tclass),
        (u64::MAX, usize::MAX, 0)
    );
}

#[test]
fn the_nic_is_copied_and_closed_by_its_maker() {
    use core::ffi::{c_int, c_void};
    use core::ptr::null_mut;
    use std::sync::atomic::{AtomicUsize, Ordering};
    static OPEN: AtomicUsize = AtomicUsize::new(0);

    unsafe extern "C" fn close(fid: *mut abi::fid) -> c_int {
        OPEN.fetch_sub(1, Ordering::Relaxed);
        // SAFETY: made by `nic` below.
        drop(unsafe { Box::from_raw(fid.cast::<abi::fid_nic>()) });
        0
    }
    unsafe extern "C" fn control(_: *mut abi::fid, command: c_int, arg: *mut c_void) -> c_int {
        assert_eq!(command, abi::FI_DUP.cast_signed());
        // SAFETY: FI_DUP passes the address of a pointer.
        unsafe { *arg.cast::<*mut abi::fid_nic>() = nic() };
        0
    }
    static OPS: abi::fi_ops = abi::fi_ops {
        size: size_of::<abi::fi_ops>(),
        close: Some(close),
        bind: None,
        control: Some(control),
        ops_open: None,
        tostr: None,
        ops_set: None,
    };
    fn nic() -> *mut abi::fid_nic {
        OPEN.fetch_add(1, Ordering::Relaxed);
        Box::into_raw(Box::new(abi::fid_nic {
            fid: abi::fid {
                fclass: abi::FI_CLASS_NIC as usize,
                context: null_mut(),
                ops: core::ptr::from_ref(&OPS).cast_mut(),
            },
            device_attr: null_mut(),
            bus_attr: null_mut(),
            link_attr: null_mut(),
            prov_attr: null_mut(),
        }))
    }

    struct Maker;
    impl Card for Maker {
        fn copy(&self) -> Result<*mut abi::fid_nic> {
            Ok(nic())
        }
    }

    let entry = full().write().unwrap();
    // SAFETY: the entry belongs to this test, and each list is freed once.
    unsafe {
        (*entry).nic = nic();
        let copy = duplicate(entry, Layout::CURRENT).unwrap();
        assert!(!(*copy).nic.is_null() && (*copy).nic != (*entry).nic);
        let old = duplicate(entry, Layout::FABRIC_1_1).unwrap();
        assert!((*old).nic.is_null(), "headers of that time have no nic");
        release(old);
        release(copy);
        // Each C entry of a layered provider has its own copy.
        let above = Info {
            nic: Some(Nic::of(Arc::new(Maker))),
            ..full()
        };
        release(entry);
        let (first, second) = (above.write().unwrap(), above.clone().write().unwrap());
        assert!(!(*first).nic.is_null() && (*first).nic != (*second).nic);
        assert_eq!(OPEN.load(Ordering::Relaxed), 2);
        release(first);
        release(second);
    }
    assert_eq!(OPEN.load(Ordering::Relaxed), 0);
}

#[test]
fn parts_of_a_plug_in_become_as_long_as_now() {
    let sizes = |caps: u64, len: usize| {
        let entry = full().write().unwrap();
        let part = sys::heap::copy(&vec![7; len]).unwrap();
        // SAFETY: the entry belongs to this test, its parts are from the heap; `Made` releases all.
        unsafe {
            sys::heap::release((*entry).ep_attr);
            (*entry).ep_attr = part.as_ptr().cast();
            (*(*entry).ep_attr).auth_key = null_mut();
            (*entry).caps = caps;
            let _made = Made::new(entry, Layout::FABRIC_1_10).unwrap();
            assert!(sys::heap::room((*entry).ep_attr) >= Layout::CURRENT.ep);
            let attr = &*(*entry).ep_attr;
            assert_eq!(attr.xpu_ctx.addr(), 0x0707_0707_0707_0707);
            (attr.max_tx_wr_size, attr.max_rx_wr_size)
        }
    };
    let (short, whole) = (Layout::FABRIC_1_10.ep, Layout::CURRENT.ep);
    let sevens = 0x0707_0707_0707_0707;
    assert_eq!(sizes(abi::FI_MSG, short), (0, 0));
    assert_eq!(sizes(abi::FI_MSG | abi::FI_WR, short), (0, 0));
    assert_eq!(sizes(abi::FI_MSG, whole), (0, 0));
    assert_eq!(
        sizes(abi::FI_MSG | abi::FI_WR, whole),
        (sevens, sevens),
        "what the maker has written stays"
    );
}
