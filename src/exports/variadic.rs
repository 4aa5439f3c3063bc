// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `va_start_stub!`: the body of a C function with a variable number of arguments.
//!
//! Stable Rust cannot define such a function. The stub saves the argument registers, makes a `va_list` of them on its
//! stack, as the machine's C ABI defines it, and passes the fixed arguments and a pointer to that list to a Rust
//! function.

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the stubs for variadic functions are written for x86-64 and aarch64 only");

/// `va_start_stub!(handler, fixed = N)`: N arguments, all integers or pointers, come before the variable ones. The list
/// is the handler's argument N + 1. N is 4 or 6.
///
/// The form of the System V ABI.
#[cfg(target_arch = "x86_64")]
macro_rules! va_start_stub {
    ($handler:ident, fixed = 4) => {
        va_start_stub!($handler, 4, "mov r8, rax")
    };
    // The seventh argument is the first on the stack.
    ($handler:ident, fixed = 6) => {
        va_start_stub!($handler, 6, "mov [rsp], rax")
    };
    // The last operand moves the address of the list from rax to the place where the handler expects it.
    ($handler:ident, $fixed:literal, $pass:literal) => {
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

/// The same for the procedure call standard of aarch64.
#[cfg(target_arch = "aarch64")]
macro_rules! va_start_stub {
    ($handler:ident, fixed = $fixed:literal) => {
        ::core::arch::naked_asm!(
            ".cfi_startproc",
            "stp x29, x30, [sp, -240]!",
            ".cfi_adjust_cfa_offset 240",
            ".cfi_rel_offset x29, 0",
            ".cfi_rel_offset x30, 8",
            "mov x29, sp",
            // The save areas: eight integer registers, then eight of floating point. The handler's own arguments stay
            // in their registers.
            "stp x0, x1, [sp, 48]",
            "stp x2, x3, [sp, 64]",
            "stp x4, x5, [sp, 80]",
            "stp x6, x7, [sp, 96]",
            "stp q0, q1, [sp, 112]",
            "stp q2, q3, [sp, 144]",
            "stp q4, q5, [sp, 176]",
            "stp q6, q7, [sp, 208]",
            // The list: the caller's stack arguments, the ends of both save areas, and the distance of the next
            // argument of either kind from these ends.
            "add x9, sp, 240",
            "str x9, [sp, 16]",
            "add x10, sp, 112",
            "str x10, [sp, 24]",
            "str x9, [sp, 32]",
            "mov w9, {integers}",
            "str w9, [sp, 40]",
            "mov w9, -128",
            "str w9, [sp, 44]",
            "add x{fixed}, sp, 16",
            "bl {handler}",
            "ldp x29, x30, [sp], 240",
            ".cfi_adjust_cfa_offset -240",
            ".cfi_restore x29",
            ".cfi_restore x30",
            "ret",
            ".cfi_endproc",
            fixed = const $fixed,
            integers = const -8 * (8 - $fixed),
            handler = sym $handler,
        )
    };
}
