// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! What a provider offers and what an application asks for: fi_getinfo(3) as plain data, and its C form.

mod attr;
mod layout;
mod list;
mod query;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub use attr::{DomainAttr, EpAttr, FabricAttr, Hints, Info, RxAttr, TxAttr};
pub use layout::Layout;
pub use list::{duplicate, release, write_all};
pub use query::Query;
