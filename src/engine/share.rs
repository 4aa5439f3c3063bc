// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The rule by which peers share memory that has a limit.

/// Whether a peer that uses `own` of the `used` bytes may use `cost` bytes more, if all peers together may use `limit`.
/// A peer may use `SHARE` times what it leaves to the others. Alone it can use nearly everything, and a later peer
/// still finds some left.
#[inline]
pub fn fits(own: usize, used: usize, cost: usize, limit: usize) -> bool {
    let left = limit.checked_sub(used.saturating_add(cost));
    left.is_some_and(|left| own.saturating_add(cost) / SHARE <= left)
}

const SHARE: usize = 8;
