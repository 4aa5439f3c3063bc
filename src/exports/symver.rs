// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `symver!`: puts an exported function into its version node.
//!
//! The macro must be in the module of its function: rustc emits a module's functions and its assembler into one object,
//! and a compat version in another object would be dropped without a message. The nodes are declared in
//! src/abi/libfabric.map; ctests/symbols.sh compares the exported symbols with a committed list.

/// `symver!(fi_name @@ "NODE")` makes a `#[unsafe(no_mangle)]` function the default version of its name.
///
/// `symver!(function as fi_name @ "NODE", "NODE")` gives an old version of `fi_name` to a private function.
///
/// The plug-in has no nodes, because it exports only `fi_prov_ini`.
#[cfg(feature = "plugin")]
macro_rules! symver {
    ($($anything:tt)*) => {};
}

#[cfg(not(feature = "plugin"))]
macro_rules! symver {
    // `remove` leaves only `name@@NODE` in the object, so that GNU ld accepts the same objects too.
    ($function:ident @@ $node:literal) => {
        ::core::arch::global_asm!(
            concat!(".symver {0}, ", stringify!($function), "@@", $node, ", remove"),
            sym $function,
        );
    };
    // An alias, not `.symver`: rustc makes a `sym` operand local, and a `.symver` of it would be local too.
    ($function:ident as $name:ident @ $($node:literal),+) => { $(
        ::core::arch::global_asm!(
            concat!(".globl \"", stringify!($name), "@", $node, "\""),
            concat!(".set \"", stringify!($name), "@", $node, "\", {}"),
            sym $function,
        );
    )+ };
}
