// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! A call as hooks see it: the slot and its arguments.

use core::any::Any;
use core::ffi::{c_char, c_int};
use core::ptr;

use super::WITH_IFACE;
use abi::*;
use object::slots::each_table;

/// Callbacks of a hook for each call to an object of its fabric. Several threads may call them at the same time.
pub trait Watch: Send + Sync {
    /// Runs before the call. Its return value is passed to `after`.
    fn before(&self, _call: &mut Call<'_>) -> u64 {
        0
    }

    /// Runs after the call; `result` is the value that the call returns, or a negative error number.
    fn after(&self, call: &Call<'_>, before: u64, result: i64);

    /// Runs after an object inside, of this class (FI_CLASS_*), was closed.
    fn closed(&self, _object: usize, _class: u32) {}
}

macro_rules! slots {
    ($(
        $(#[$doc:meta])*
        $module:ident: $ops:ident in $holder:ident.$table:ident {
            $($age:ident $slot:ident $args:tt -> $return:ty [$($exported:ident)*];)*
        }
    )*) => {
        /// Table and slot of every call.
        const SLOTS: &[(&str, &str)] = &[$($((stringify!($module), stringify!($slot)),)*)*];
    };
}

each_table!(slots);

/// A slot of an ops table, as a number below [`Slot::COUNT`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot(u16);

impl Slot {
    pub const COUNT: usize = SLOTS.len();

    /// Returns the slot with this name in the table with this name; both as in `object::slots`.
    pub const fn of(table: &str, slot: &str) -> Slot {
        let mut number = 0;
        while number < SLOTS.len() {
            if is_same(SLOTS[number].0, table) && is_same(SLOTS[number].1, slot) {
                return Slot(number as u16);
            }
            number += 1;
        }
        panic!("no such slot");
    }

    pub fn all() -> impl Iterator<Item = Slot> {
        (0..Slot::COUNT).map(|number| Slot(number as u16))
    }

    pub fn number(self) -> usize {
        usize::from(self.0)
    }

    /// Whether the slot posts a data transfer.
    #[inline]
    pub fn transfers(self) -> bool {
        const TRANSFERS: [bool; Slot::COUNT] = {
            let mut transfers = [false; Slot::COUNT];
            let mut number = 0;
            while number < Slot::COUNT {
                let table = SLOTS[number].0;
                transfers[number] = is_same(table, "msg")
                    || is_same(table, "tagged")
                    || is_same(table, "rma")
                    || is_same(table, "atomic");
                transfers[number] &= !is_flush(SLOTS[number].1);
                number += 1;
            }
            transfers
        };
        TRANSFERS[self.number()]
    }

    pub fn table(self) -> &'static str {
        SLOTS[self.number()].0
    }

    /// Returns the name that hooks print: the public function without `fi_` if the slot has one, else table and slot.
    pub fn name(self) -> String {
        let (table, slot) = SLOTS[self.number()];
        match (table, slot) {
            ("rma", "inject" | "injectdata") => format!("{}_write{}", "inject", &slot[6..]),
            ("base" | "fabric" | "domain" | "ep" | "cm" | "msg" | "rma" | "collective", _) => {
                slot.to_owned()
            }
            ("wait", "wait") | ("poll", _) => slot.to_owned(),
            ("tagged", "trecv_flush") => slot.to_owned(),
            ("tagged", _) => format!("t{slot}"),
            ("atomic", _) => format!("atomic_{slot}"),
            (table, _) => format!("{table}_{slot}"),
        }
    }
}

/// Whether the slot starts operations that FI_MORE deferred. Such a slot transfers no data itself.
const fn is_flush(slot: &str) -> bool {
    is_same(slot, "recv_flush") || is_same(slot, "trecv_flush")
}

const fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if one.len() != other.len() {
        return false;
    }
    let mut place = 0;
    while place < one.len() {
        if one[place] != other[place] {
            return false;
        }
        place += 1;
    }
    true
}

macro_rules! names {
    ($($name:ident)*) => {
        /// The name of an argument, as `object::slots` has it.
        #[allow(non_camel_case_types, dead_code)] // The list has names that no hook uses.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Name { $($name,)* }
    };
}

names! {
    access addr addrlen arg attr auth_key auth_key_size av av_set bfid buf coll coll_addr command compare compare_count
    compare_desc comparev cond context count ctx data datatype desc dest_addr dom ep eq err_data event event_fid
    fi_addr fids flags handle ignore index info iov key len level mc mr msg name node nodecnt offset op ops
    op_type optlen optname optval param paramlen pep pollset prov_errno requested_key result result_count result_desc
    resultv rma_iov root_addr rx_ep sep service src src_addr stx svccnt tag threshold timeout tx_ep user_id value
    waitset wr wr_len xpu_cntr xpu_cq xpu_ep cntr cq
}

/// The result of a call that has not returned.
pub(super) const UNFINISHED: i64 = -1;

/// A call on an object that is wrapped. Its methods read memory by the types that the slot gives to the arguments, so
/// hooks cannot change the slot:
///
/// ```compile_fail,E0616
/// fn change(call: &mut client::wrap::Call<'_>) {
///     call.slot = client::wrap::Slot::of("mr", "regattr");
/// }
/// ```
///
/// For the same reason the number of entries that were read is that of the call itself:
///
/// ```compile_fail,E0061
/// fn more(call: &client::wrap::Call<'_>) -> usize {
///     call.completions(i64::MAX).len()
/// }
/// ```
pub struct Call<'a> {
    pub(super) slot: Slot,
    /// The object inside.
    pub(super) object: usize,
    /// The result, once the call inside has returned it; before that an error.
    pub(super) result: i64,
    /// For a completion queue, the format of its entries.
    pub(super) format: u32,
    /// For a call on an endpoint, its domain (the object inside).
    pub(super) domain: usize,
    /// The interface of the application, which determines the length of its structs.
    pub(super) app_api: u32,
    pub(super) names: &'static [Name],
    pub(super) values: &'a mut [u64],
    /// Memory behind arguments that were replaced. It is freed after the call inside has returned.
    pub(super) kept: Vec<Box<dyn Any>>,
}

impl Call<'_> {
    /// Whether the application's attributes of regions have `iface`, the kind of memory.
    pub(super) fn has_iface(&self) -> bool {
        self.app_api >= WITH_IFACE
    }

    pub fn slot(&self) -> Slot {
        self.slot
    }

    /// Returns the number of the object inside.
    pub fn object(&self) -> usize {
        self.object
    }

    /// Returns all arguments except the object, as numbers.
    pub fn arguments(&self) -> impl Iterator<Item = (Name, u64)> {
        self.names.iter().copied().zip(self.values.iter().copied())
    }

    /// Returns an argument as a number, or `None` if the call has none of that name.
    #[inline]
    pub fn argument(&self, which: Name) -> Option<u64> {
        let place = self.names.iter().position(|other| *other == which)?;
        self.values.get(place).copied()
    }
}

/// Conversion of an argument to a number and back.
pub(super) trait Raw {
    fn number(&self) -> u64;
    fn of_number(number: u64) -> Self;
}

macro_rules! raw {
    ($($type:ty)*) => { $(
        impl Raw for $type {
            #[inline]
            fn number(&self) -> u64 {
                *self as u64
            }
            #[inline]
            fn of_number(number: u64) -> $type {
                number as $type
            }
        }
    )* };
}
raw!(u64 usize u32 c_int);

macro_rules! raw_enums {
    ($($type:ident)*) => { $(
        impl Raw for $type {
            #[inline]
            fn number(&self) -> u64 {
                u64::from(self.0)
            }
            #[inline]
            fn of_number(number: u64) -> $type {
                $type(number as u32)
            }
        }
    )* };
}
raw_enums!(fi_datatype fi_op fi_collective_op fi_op_type);

impl<T> Raw for *const T {
    #[inline]
    fn number(&self) -> u64 {
        self.expose_provenance() as u64
    }
    #[inline]
    fn of_number(number: u64) -> *const T {
        ptr::with_exposed_provenance(number as usize)
    }
}

impl<T> Raw for *mut T {
    #[inline]
    fn number(&self) -> u64 {
        self.expose_provenance() as u64
    }
    #[inline]
    fn of_number(number: u64) -> *mut T {
        ptr::with_exposed_provenance_mut(number as usize)
    }
}

/// The return value of a slot, as a number.
pub(super) trait Outcome {
    fn number(&self) -> i64;
}

macro_rules! outcomes {
    ($($type:ty)*) => { $(
        impl Outcome for $type {
            #[inline]
            fn number(&self) -> i64 {
                *self as i64
            }
        }
    )* };
}
outcomes!(c_int isize u64);

impl Outcome for *const c_char {
    #[inline]
    fn number(&self) -> i64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_have_the_names_of_their_functions() {
        let name = |table, slot| Slot::of(table, slot).name();
        assert_eq!(name("tagged", "senddata"), "tsenddata");
        assert_eq!(name("tagged", "trecv_flush"), "trecv_flush");
        assert_eq!(name("ep", "tx_flush"), "tx_flush");
        assert_eq!(name("wr", "queue_tx"), "wr_queue_tx");
        assert_eq!(name("rma", "inject"), "inject_write");
        assert_eq!(name("rma", "injectdata"), "inject_writedata");
        assert_eq!(name("cntr", "adderr"), "cntr_adderr");
        assert_eq!(name("cq", "sreadfrom"), "cq_sreadfrom");
        assert_eq!(name("mr", "regattr"), "mr_regattr");
        assert_eq!(name("domain", "cq_open"), "cq_open");
        assert_eq!(Slot::of("msg", "send").table(), "msg");
        assert_eq!(Slot::all().count(), Slot::COUNT);
        let transfers = Slot::all().filter(|slot| slot.transfers()).count();
        assert_eq!(transfers, 9 + 9 + 9 + 13);
        assert!(Slot::of("tagged", "sendmsg").transfers() && !Slot::of("cq", "read").transfers());
    }
}
