// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Static probes (USDT) for bpftrace, perf, SystemTap and gdb: a `nop` at the traced place, and a note in the file with
//! its address and the registers of the arguments. The code does not check whether a tracer is attached.
//!
//! The crate `probe` is not used, because its assembly may read memory: the compiler would have to write all pending
//! values to memory before each probe.
//!
//! Trusted with: an instruction that does nothing, and data in a section that is not loaded.

#[cfg(target_arch = "x86_64")]
macro_rules! note {
    ($name:literal, $places:literal, $($argument:expr),+) => {
        // SAFETY: an instruction that does nothing. The note is data in a section that is not loaded.
        unsafe {
            core::arch::asm!(
                "990: nop",
                ".pushsection .note.stapsdt, \"?\", \"note\"",
                ".balign 4",
                ".4byte 992f - 991f, 994f - 993f, 3",
                "991: .asciz \"stapsdt\"",
                "992: .balign 4",
                "993: .8byte 990b",
                ".8byte _.stapsdt.base",
                // No semaphore that counts tracers.
                ".8byte 0",
                ".asciz \"ironfabric\"",
                concat!(".asciz \"", $name, "\""),
                concat!(".asciz \"", $places, "\""),
                "994: .balign 4",
                ".popsection",
                // Readers use its address to compute how far code was moved from its place in the file. So it lies
                // where the code does, and is kept although no loaded data refers to it.
                ".ifndef _.stapsdt.base",
                ".pushsection .stapsdt.base, \"axGR\", \"progbits\", .stapsdt.base, comdat",
                ".weak _.stapsdt.base",
                ".hidden _.stapsdt.base",
                "_.stapsdt.base: .space 1",
                ".size _.stapsdt.base, 1",
                ".popsection",
                ".endif",
                $(in(reg) $argument,)+
                options(att_syntax, nomem, nostack, preserves_flags)
            );
        }
    };
}

/// Other architectures have no probes.
#[cfg(not(target_arch = "x86_64"))]
macro_rules! note {
    ($name:literal, $places:literal, $($argument:expr),+) => {{
        $(let _ = $argument;)+
    }};
}

/// The application posts an operation or a receive. Arguments: the endpoint's handle, the context, the peer, and the
/// tag, if there is one. All of them are available at the start of a call.
#[inline(always)]
pub fn post(ep: usize, context: usize, peer: u64, tag: u64) {
    note!("post", "8@{} 8@{} 8@{} 8@{}", ep, context, peer, tag);
}

/// A message matches a posted receive. `source`: the number by which receives name its sender.
#[inline(always)]
pub fn matched(source: u64, tag: u64, bytes: u64) {
    note!("match", "8@{} 8@{} 8@{}", source, tag, bytes);
}

/// A completion queue gets an entry. Arguments: its context, the error or 0, and the message's length.
#[inline(always)]
pub fn complete(context: u64, error: u64, bytes: u64) {
    note!("complete", "8@{} 8@{} 8@{}", context, error, bytes);
}

/// A connection is up. Arguments: the endpoint's number in its domain, the connection's number, and the peer's fi_addr.
#[cold]
#[inline(never)]
pub fn connect(ep: usize, conn: usize, peer: u64) {
    note!("connect", "8@{} 8@{} 8@{}", ep, conn, peer);
}

/// An established connection is lost because of `error`.
#[cold]
#[inline(never)]
pub fn lose(ep: usize, conn: usize, peer: u64, error: u64) {
    note!("lose", "8@{} 8@{} 8@{} 8@{}", ep, conn, peer, error);
}
