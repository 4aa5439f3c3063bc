// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Flags passed from C to an operation and back: no bit is lost.

use super::*;
use base::Error;

/// Bits without a name, and one with a name.
const UNNAMED: u64 = 1 << 62 | 1 << 40 | FI_COMPLETION;

#[test]
fn default_flags_come_back_as_they_were_set() {
    let b = Bench::new();
    // SAFETY: `new` opened it.
    let control = unsafe { (*(*b.ep).fid.ops).control.unwrap() };
    let ask = |command: core::ffi::c_uint, flags: &mut u64| {
        // SAFETY: fi_control(3): both commands take the address of a uint64_t.
        unsafe { control(b.ep.cast(), command.cast_signed(), (&raw mut *flags).cast()) }
    };
    assert_eq!(ask(FI_SETOPSFLAG, &mut { UNNAMED }), 0);
    let mut flags = FI_TRANSMIT;
    assert_eq!(ask(FI_GETOPSFLAG, &mut flags), 0);
    assert_eq!(flags, UNNAMED);
    let t = msg::table::<Probe>();
    assert_eq!(call!(t, send, b.ep, null(), 0, NO, 0, NO), 0);
    assert_eq!(b.probe().flags.load(Ordering::Relaxed), UNNAMED);
}

#[test]
fn a_call_with_a_flag_that_nobody_knows_is_refused() {
    let b = Bench::new();
    let message = fi_msg {
        msg_iov: null(),
        desc: null_mut(),
        iov_count: 0,
        addr: 0,
        context: NO,
        data: 0,
    };
    let t = msg::table::<Probe>();
    let refused = Error::BADFLAGS.negative() as isize;
    // The library marks operations with the last one itself.
    for bit in [40, 62, OpFlags::AFTER_READS.bits().trailing_zeros()] {
        let code = call!(t, sendmsg, b.ep, &message, 1 << bit);
        assert_eq!(code, refused, "bit {bit}");
        let code = call!(t, recvmsg, b.ep, &message, 1 << bit);
        assert_eq!(code, refused, "bit {bit}");
    }
    assert_eq!(call!(t, sendmsg, b.ep, &message, FI_COMPLETION), 0);
}
