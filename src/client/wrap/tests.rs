// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Wrappers around mock objects, which behave differently from this library's providers.

use core::cell::Cell;
use core::ffi::{c_int, c_void};
use core::mem::{offset_of, zeroed};
use core::ptr::{self, null, null_mut};

use super::*;

/// The objects inside, one of each for a test.
struct Inside {
    fabric: *mut fid_fabric,
    domain: *mut fid_domain,
    eq: *mut fid_eq,
    pep: *mut fid_pep,
    ep: *mut fid_ep,
    mr: *mut fid_mr,
    mc: *mut fid_mc,
}

thread_local! {
    static INSIDE: Cell<*const Inside> = const { Cell::new(null()) };
    /// The next event and its entry.
    static EVENT: Cell<(u32, [u64; 3])> = const { Cell::new((0, [0; 3])) };
}

fn inside_of_test() -> &'static Inside {
    // SAFETY: set by `open` to a value that is never freed.
    unsafe { &*INSIDE.get() }
}

fn made<T>(object: T) -> *mut T {
    Box::into_raw(Box::new(object))
}

fn fid(class: u32) -> fid {
    // SAFETY: a table of NULLs except for these.
    let ops = fi_ops {
        size: size_of::<fi_ops>(),
        close: Some(close),
        control: Some(control),
        ..unsafe { zeroed() }
    };
    fid {
        fclass: class as usize,
        context: null_mut(),
        ops: made(ops),
    }
}

/// Returns the fabric as the application holds it, with `layers` around it; the innermost provider has this API
/// version.
fn open(layers: usize, api: u32) -> *mut fid_fabric {
    // SAFETY: tables of NULLs except for these, and heads with NULL for missing tables.
    let inside = unsafe {
        Inside {
            fabric: made(fid_fabric {
                fid: fid(FI_CLASS_FABRIC),
                ops: made(fi_ops_fabric {
                    size: size_of::<fi_ops_fabric>(),
                    domain: Some(open_domain),
                    eq_open: Some(open_eq),
                    passive_ep: Some(open_pep),
                    ..zeroed()
                }),
                api_version: 2 << 16,
            }),
            domain: made(fid_domain {
                fid: fid(FI_CLASS_DOMAIN),
                ops: made(fi_ops_domain {
                    // Ends before `endpoint2`.
                    size: offset_of!(fi_ops_domain, endpoint2),
                    endpoint: Some(open_ep),
                    ..zeroed()
                }),
                mr: made(fi_ops_mr {
                    size: size_of::<fi_ops_mr>(),
                    reg: Some(reg),
                    ..zeroed()
                }),
            }),
            eq: made(fid_eq {
                fid: fid(FI_CLASS_EQ),
                ops: made(fi_ops_eq {
                    size: size_of::<fi_ops_eq>(),
                    read: Some(read_event),
                    ..zeroed()
                }),
            }),
            pep: made(fid_pep {
                fid: fid(FI_CLASS_PEP),
                ..zeroed()
            }),
            ep: made(fid_ep {
                fid: fid(FI_CLASS_EP),
                cm: made(fi_ops_cm {
                    size: size_of::<fi_ops_cm>(),
                    join: Some(join),
                    ..zeroed()
                }),
                ..zeroed()
            }),
            mr: made(fid_mr {
                fid: fid(FI_CLASS_MR),
                mem_desc: null_mut(),
                key: FI_KEY_NOTAVAIL,
            }),
            mc: made(fid_mc {
                fid: fid(FI_CLASS_MC),
                fi_addr: FI_ADDR_NOTAVAIL,
            }),
        }
    };
    INSIDE.set(made(inside));
    // SAFETY: opened just now.
    let mut fabric = unsafe { Fabric::new(inside_of_test().fabric) }.unwrap();
    for _ in 0..layers {
        fabric = wrap_fabric(fabric, api, None);
    }
    fabric.raw()
}

const NOW: u32 = 2 << 16 | 6;

extern "C" fn close(_: *mut fid) -> c_int {
    0
}

/// FI_ENABLE sets the region's key.
unsafe extern "C" fn control(fid: *mut fid, _: c_int, _: *mut c_void) -> c_int {
    // SAFETY: an object of this test.
    unsafe {
        if (*fid).fclass as u32 == FI_CLASS_MR {
            (*fid.cast::<fid_mr>()).key = 9;
        }
    }
    0
}

unsafe extern "C" fn open_domain(
    _: *mut fid_fabric,
    _: *mut fi_info,
    domain: *mut *mut fid_domain,
    _: *mut c_void,
) -> c_int {
    // SAFETY: an output argument that the test passes.
    unsafe { *domain = inside_of_test().domain };
    0
}

unsafe extern "C" fn open_eq(
    _: *mut fid_fabric,
    _: *mut fi_eq_attr,
    eq: *mut *mut fid_eq,
    _: *mut c_void,
) -> c_int {
    // SAFETY: an output argument that the test passes.
    unsafe { *eq = inside_of_test().eq };
    0
}

unsafe extern "C" fn open_pep(
    _: *mut fid_fabric,
    _: *mut fi_info,
    pep: *mut *mut fid_pep,
    _: *mut c_void,
) -> c_int {
    // SAFETY: an output argument that the test passes.
    unsafe { *pep = inside_of_test().pep };
    0
}

unsafe extern "C" fn open_ep(
    _: *mut fid_domain,
    _: *mut fi_info,
    ep: *mut *mut fid_ep,
    _: *mut c_void,
) -> c_int {
    // SAFETY: an output argument that the test passes.
    unsafe { *ep = inside_of_test().ep };
    0
}

unsafe extern "C" fn reg(
    _: *mut fid,
    _: *const c_void,
    _: usize,
    _: u64,
    _: u64,
    _: u64,
    _: u64,
    mr: *mut *mut fid_mr,
    _: *mut c_void,
) -> c_int {
    // SAFETY: an output argument that the test passes.
    unsafe { *mr = inside_of_test().mr };
    0
}

unsafe extern "C" fn join(
    _: *mut fid_ep,
    _: *const c_void,
    _: u64,
    mc: *mut *mut fid_mc,
    _: *mut c_void,
) -> c_int {
    // SAFETY: an output argument that the test passes.
    unsafe { *mc = inside_of_test().mc };
    0
}

unsafe extern "C" fn read_event(
    _: *mut fid_eq,
    event: *mut u32,
    buf: *mut c_void,
    _: usize,
    _: u64,
) -> isize {
    let (kind, entry) = EVENT.get();
    // SAFETY: a buffer that the test passes.
    unsafe {
        *event = kind;
        buf.cast::<[u64; 3]>().write(entry);
    }
    size_of_val(&entry) as isize
}

/// Opens a domain of the fabric.
fn domain_of(fabric: *mut fid_fabric) -> *mut fid_domain {
    let mut domain = null_mut();
    // SAFETY: open objects.
    let code = unsafe { slots::fabric::domain(fabric, null_mut(), &raw mut domain, null_mut()) };
    assert_eq!(code, 0);
    domain
}

/// Returns the entry of an event as it is read.
fn event(fabric: *mut fid_fabric, kind: u32, entry: [u64; 3]) -> [u64; 3] {
    let (mut eq, mut got, mut room) = (null_mut(), 0, [0; 3]);
    EVENT.set((kind, entry));
    // SAFETY: open objects, and room for an event.
    unsafe {
        assert_eq!(
            slots::fabric::eq_open(fabric, null_mut(), &raw mut eq, null_mut()),
            0
        );
        let buf = (&raw mut room).cast();
        assert_eq!(
            slots::eq::read(eq, &raw mut got, buf, size_of_val(&room), 0),
            24
        );
    }
    assert_eq!(got, kind);
    room
}

#[test]
fn a_region_shows_the_key_that_it_gets_later() {
    let domain = domain_of(open(2, NOW));
    let mut mr: *mut fid_mr = null_mut();
    // SAFETY: open objects.
    unsafe {
        let made = slots::mr::reg(
            domain.cast(),
            null(),
            0,
            0,
            0,
            0,
            0,
            &raw mut mr,
            null_mut(),
        );
        assert_eq!((made, (*mr).key), (0, FI_KEY_NOTAVAIL));
        assert_eq!(
            slots::base::control(mr.cast(), FI_ENABLE as c_int, null_mut()),
            0
        );
        assert_eq!((*mr).key, 9);
    }
}

#[test]
fn a_group_has_its_address_when_its_event_has_come() {
    let fabric = open(2, NOW);
    let domain = domain_of(fabric);
    let (mut ep, mut mc): (*mut fid_ep, *mut fid_mc) = (null_mut(), null_mut());
    // SAFETY: open objects.
    unsafe {
        assert_eq!(
            slots::domain::endpoint(domain, null_mut(), &raw mut ep, null_mut()),
            0
        );
        assert_eq!(slots::cm::join(ep, null(), 0, &raw mut mc, null_mut()), 0);
        assert_eq!((*mc).fi_addr, FI_ADDR_NOTAVAIL);
        (*inside_of_test().mc).fi_addr = 7;
    }
    let entry = event(
        fabric,
        FI_JOIN_COMPLETE,
        [inside_of_test().mc.addr() as u64, 1, 2],
    );
    assert_eq!(entry, [mc.addr() as u64, 1, 2]);
    // SAFETY: an open object.
    assert_eq!(unsafe { (*mc).fi_addr }, 7);
}

#[test]
fn the_event_of_a_group_that_is_closed_changes_nothing() {
    let fabric = open(1, NOW);
    let domain = domain_of(fabric);
    let (mut ep, mut mc): (*mut fid_ep, *mut fid_mc) = (null_mut(), null_mut());
    // SAFETY: open objects.
    unsafe {
        assert_eq!(
            slots::domain::endpoint(domain, null_mut(), &raw mut ep, null_mut()),
            0
        );
        assert_eq!(slots::cm::join(ep, null(), 0, &raw mut mc, null_mut()), 0);
        (*inside_of_test().mc).fi_addr = 7;
        assert_eq!(slots::base::close(mc.cast()), 0);
    }
    // The queue of the next event is as large as the group was, and may get its address.
    let request = [inside_of_test().mc.addr() as u64, 1, 2];
    for _ in 0..8 {
        assert_eq!(event(fabric, FI_JOIN_COMPLETE, request)[1..], [1, 2]);
        let eq = outside(inside_of_test().eq.cast());
        // SAFETY: the queue is open.
        assert_ne!(unsafe { (*eq.cast::<fid_eq>()).ops }.addr(), 7);
    }
}

#[test]
fn the_entry_of_a_request_points_to_the_applications_objects() {
    let fabric = open(2, NOW);
    let domain = domain_of(fabric);
    let mut pep = null_mut();
    // SAFETY: open objects, and structs for which zeroes are values.
    let (info, fabric_attr, domain_attr) = unsafe {
        assert_eq!(
            slots::fabric::passive_ep(fabric, null_mut(), &raw mut pep, null_mut()),
            0
        );
        let fabric_attr = made(fi_fabric_attr {
            fabric: inside_of_test().fabric,
            ..zeroed()
        });
        let domain_attr = made(fi_domain_attr {
            domain: inside_of_test().domain,
            ..zeroed()
        });
        let info = made(fi_info {
            fabric_attr,
            domain_attr,
            ..zeroed()
        });
        (info, fabric_attr, domain_attr)
    };
    let request = [inside_of_test().pep.addr() as u64, info.addr() as u64, 0];
    assert_eq!(event(fabric, FI_CONNREQ, request)[0], pep.addr() as u64);
    // SAFETY: made above.
    unsafe {
        assert_eq!(
            ((*fabric_attr).fabric, (*domain_attr).domain),
            (fabric, domain)
        );
    }
    // Events that the application writes itself stay unchanged.
    let own = [pep.addr() as u64, 5, 6];
    assert_eq!(event(fabric, FI_CONNREQ, own), own);
}

#[test]
fn what_is_inside_and_outside_is_known_at_any_depth() {
    let fabric = open(3, NOW);
    let inner = inside_of_test().fabric;
    assert_eq!(outermost(inner.addr()), fabric.addr());
    assert_eq!(innermost(fabric.addr()), inner.addr());
    assert_eq!((outermost(77), innermost(77)), (77, 77));
    // SAFETY: open, and not used again.
    assert_eq!(unsafe { slots::base::close(fabric.cast()) }, 0);
    assert_eq!(
        (outermost(inner.addr()), innermost(fabric.addr())),
        (inner.addr(), fabric.addr())
    );
}

#[test]
fn what_lay_where_a_wrapper_lies_now_is_forgotten() {
    let mut fabric = open(1, NOW);
    for _ in 0..8 {
        let before = fabric.addr();
        // SAFETY: open, and not used again.
        assert_eq!(unsafe { slots::base::close(fabric.cast()) }, 0);
        wrappers().insert(before, 77);
        fabric = open(1, NOW);
        let shown = outermost(inside_of_test().fabric.addr());
        wrappers().remove(&before);
        assert_eq!(shown, fabric.addr());
    }
}

#[test]
fn what_is_not_there_inside_is_not_there_outside() {
    // The second is a provider whose endpoints end before their last table.
    for api in [NOW, 1 << 16 | 8] {
        let domain = domain_of(open(1, api));
        let mut ep: *mut fid_ep = null_mut();
        // SAFETY: open objects.
        unsafe {
            assert_eq!(
                slots::domain::endpoint(domain, null_mut(), &raw mut ep, null_mut()),
                0
            );
            if api != NOW {
                // The member is not a table, whatever its value.
                (*inside_of_test().ep).collective = ptr::without_provenance_mut(8);
            }
            assert_eq!(
                slots::collective::barrier(ep, 0, null_mut()),
                -FI_ENOSYS as isize
            );
            assert_eq!(
                slots::tagged::inject(ep, null(), 0, 0, 0),
                -FI_ENOSYS as isize
            );
            let again = slots::domain::endpoint2(domain, null_mut(), &raw mut ep, 0, null_mut());
            assert_eq!(again, -FI_ENOSYS);
        }
    }
}

const _: () = assert!(size_of::<fi_eq_cm_entry>() == 16);
