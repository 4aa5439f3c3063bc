// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Offers of providers and hints of applications: fi_getinfo(3) as plain data, and its C form.
//!
//! `attr` has the data; `layout`, `read`, `write` and `list` convert it from and to C. A provider describes its kinds
//! of entries as `prototype`s; `check` compares them with hints, `fill` makes entries of them, `ip` and `local` find
//! their addresses, and `select` calls all three. `asked` adds attributes that an entry has only on request.

mod asked;
mod attr;
mod caps;
mod check;
mod check_context;
mod check_domain;
mod check_ep;
pub(crate) mod fields;
mod fill;
pub mod ip;
mod layout;
mod list;
pub mod local;
#[cfg(any(test, feature = "testing"))]
pub mod machine;
mod made;
mod member;
mod mr;
mod nic;
mod prototype;
mod query;
mod read;
mod reason;
mod release;
mod select;
#[cfg(test)]
mod tests;
mod write;

pub use asked::{AFTER_READS, Asked, offer_contexts};
pub use attr::{DomainAttr, EpAttr, FabricAttr, Hints, Info, RxAttr, TxAttr};
pub use check::check;
pub use fill::fill;
pub use layout::{LONGEST, Layout};
pub use list::{duplicate, duplicate_nic, write_all};
pub use made::Made;
pub use nic::{Card, Nic};
pub use prototype::{ALL_TAG_BITS, Prototype, since};
pub use query::Query;
pub use read::{Plain, grown};
pub use reason::{Reason, Refusal, Value};
pub use release::{close_nic, release};
pub use select::{Answer, Place, select, with_all};
