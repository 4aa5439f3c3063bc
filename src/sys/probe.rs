// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Static probes (USDT) for bpftrace, perf, SystemTap and gdb: a `nop` where something happens, and a note in the file
//! that says where it is and in which registers the arguments are. Nobody is asked whether anybody traces.
//!
//! Not by the crate `probe`, whose assembly may read memory: the compiler would have to write all that is pending in
//! front of each probe.
//!
//! Trusted with: an instruction that does nothing, and data in a section that is not loaded.

#[cfg(target_arch = "x86_64")]
macro_rules! note {
    ($name:literal, $places:literal, $($argument:expr),+) => {
        // SAFETY: an instruction that does nothing. The note is data of the file, in a section that is not loaded.
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
                // Those who trace are not counted.
                ".8byte 0",
                ".asciz \"ironfabric\"",
                concat!(".asciz \"", $name, "\""),
                concat!(".asciz \"", $places, "\""),
                "994: .balign 4",
                ".popsection",
                // By it readers see how far from its place in the file an address is: so it lies where the code does,
                // and stays although nothing that is loaded names it.
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

/// Elsewhere there are none.
#[cfg(not(target_arch = "x86_64"))]
macro_rules! note {
    ($name:literal, $places:literal, $($argument:expr),+) => {{
        $(let _ = $argument;)+
    }};
}

/// An operation or a receive is posted by the application: the endpoint's handle, the context, who it is for or from,
/// and the tag, if it has one. All of that is at hand where a call begins.
#[inline(always)]
pub fn post(ep: usize, context: usize, peer: u64, tag: u64) {
    note!("post", "8@{} 8@{} 8@{} 8@{}", ep, context, peer, tag);
}

/// A message has met a plain receive: who sent it, by the number that its receives would name it by.
#[inline(always)]
pub fn matched(source: u64, tag: u64, bytes: u64) {
    note!("match", "8@{} 8@{} 8@{}", source, tag, bytes);
}

/// A completion queue gets an entry: its context, the error or 0, and the message's length.
#[inline(always)]
pub fn complete(context: u64, error: u64, bytes: u64) {
    note!("complete", "8@{} 8@{} 8@{}", context, error, bytes);
}

/// A connection is up: the endpoint's number in its domain, the connection's, and the peer's fi_addr.
#[cold]
#[inline(never)]
pub fn connect(ep: usize, conn: usize, peer: u64) {
    note!("connect", "8@{} 8@{} 8@{}", ep, conn, peer);
}

/// A connection that was up is lost, by this error.
#[cold]
#[inline(never)]
pub fn lose(ep: usize, conn: usize, peer: u64, error: u64) {
    note!("lose", "8@{} 8@{} 8@{} 8@{}", ep, conn, peer, error);
}
