// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Tests that arguments are read by the flags and results of their call.

use core::mem::zeroed;
use core::ptr::without_provenance_mut;

use super::super::call::UNFINISHED;
use super::*;

fn call<R>(
    slot: Slot,
    arguments: &[(Name, u64)],
    result: i64,
    look: impl FnOnce(&Call<'_>) -> R,
) -> R {
    let names: Vec<Name> = arguments.iter().map(|(name, _)| *name).collect();
    let mut values: Vec<u64> = arguments.iter().map(|(_, value)| *value).collect();
    look(&Call {
        slot,
        object: 1,
        result,
        format: FI_CQ_FORMAT_CONTEXT.0,
        domain: 2,
        app_api: release::API,
        names: names.leak(),
        values: &mut values,
        kept: Vec::new(),
    })
}

fn region(attr: &fi_mr_attr, flags: u64) -> (usize, usize, u32) {
    let attr = (&raw const *attr).number();
    let arguments = [(Name::attr, attr), (Name::flags, flags), (Name::mr, 0)];
    call(const { Slot::of("mr", "regattr") }, &arguments, 0, |call| {
        call.region()
    })
}

/// With FI_MR_DMABUF the union has one struct, whatever the count is.
#[test]
fn the_flags_of_a_registration_select_the_member_of_the_union() {
    let dmabuf = fi_mr_dmabuf {
        fd: 3,
        offset: 0x10,
        len: 77,
        base_addr: without_provenance_mut(0x1000),
    };
    let pieces = [0x2000, 0x3000].map(|base| iovec {
        iov_base: without_provenance_mut(base),
        iov_len: 5,
    });
    // SAFETY: all zero is a valid struct.
    let mut attr: fi_mr_attr = unsafe { zeroed() };
    attr.iov_count = 2;
    attr.iface = FI_HMEM_CUDA;
    attr.anonymous.dmabuf = &dmabuf;
    assert_eq!(region(&attr, FI_MR_DMABUF), (0x1010, 77, FI_HMEM_CUDA.0));
    attr.anonymous.mr_iov = pieces.as_ptr();
    assert_eq!(region(&attr, 0), (0x2000, 10, FI_HMEM_CUDA.0));
    attr.anonymous.dmabuf = core::ptr::null();
    assert_eq!(region(&attr, FI_MR_DMABUF).1, 0);
}

#[test]
fn as_many_entries_are_read_as_the_call_has_returned() {
    let entries = [7_usize, 8].map(|context| fi_cq_entry {
        op_context: without_provenance_mut(context),
    });
    let contexts = |result| {
        let buf = entries.as_ptr().number();
        let slot = const { Slot::of("cq", "read") };
        let arguments = [(Name::buf, buf), (Name::count, 2)];
        call(slot, &arguments, result, |call| {
            let all = call.completions();
            all.iter().map(|entry| entry.context).collect::<Vec<_>>()
        })
    };
    assert_eq!(contexts(UNFINISHED), [0; 0]);
    assert_eq!(contexts(1), [7]);
    assert_eq!(contexts(2), [7, 8]);
}
