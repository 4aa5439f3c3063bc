// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `va_start_stub!`: the body of a C function with a variable number of arguments.
//!
//! Rust cannot define one yet. The stub saves the argument registers, makes a `va_list` of them on its stack, as the
//! System V ABI lays it out, and passes the fixed arguments and a pointer to that list on to a Rust function.

#[cfg(not(target_arch = "x86_64"))]
compile_error!("the stubs for variadic functions are written for x86-64 only");

/// `va_start_stub!(handler, fixed = N, "mov ...")`: N integer arguments come before the variable ones; the last operand
/// puts the address of the list, which is in rax, where the handler's argument N + 1 belongs.
macro_rules! va_start_stub {
    ($handler:ident, fixed = $fixed:literal, $pass:literal) => {
        ::core::arch::naked_asm!(
            ".cfi_startproc",
            "sub rsp, 232",
            ".cfi_adjust_cfa_offset 232",
            // The register save area: six integer registers, then eight of floating point if al says there are any.
            "mov [rsp + 48], rdi",
            "mov [rsp + 56], rsi",
            "mov [rsp + 64], rdx",
            "mov [rsp + 72], rcx",
            "mov [rsp + 80], r8",
            "mov [rsp + 88], r9",
            "test al, al",
            "je 2f",
            "movaps [rsp + 96], xmm0",
            "movaps [rsp + 112], xmm1",
            "movaps [rsp + 128], xmm2",
            "movaps [rsp + 144], xmm3",
            "movaps [rsp + 160], xmm4",
            "movaps [rsp + 176], xmm5",
            "movaps [rsp + 192], xmm6",
            "movaps [rsp + 208], xmm7",
            "2:",
            // The list: offset of the next integer, offset of the next floating point register, the caller's stack
            // arguments, the save area.
            "mov dword ptr [rsp + 16], 8 * {fixed}",
            "mov dword ptr [rsp + 20], 48",
            "lea rax, [rsp + 240]",
            "mov [rsp + 24], rax",
            "lea rax, [rsp + 48]",
            "mov [rsp + 32], rax",
            "lea rax, [rsp + 16]",
            $pass,
            "call {handler}",
            "add rsp, 232",
            ".cfi_adjust_cfa_offset -232",
            "ret",
            ".cfi_endproc",
            fixed = const $fixed,
            handler = sym $handler,
        )
    };
}
