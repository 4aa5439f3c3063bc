// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Caches the list of interfaces during one call of the application: several providers need it, some more than once,
//! and reading it costs a hundred microseconds.
#![forbid(unsafe_code)]

use core::cell::RefCell;
use core::marker::PhantomData;

use super::Address;

thread_local! {
    static SEEN: RefCell<Seen> = const { RefCell::new(Seen { calls: 0, addresses: None }) };
}

struct Seen {
    /// Number of `OneLook`s of this thread, which may be nested.
    calls: usize,
    addresses: Option<Vec<Address>>,
}

/// While a value exists, this thread reads the list of interfaces at most once.
pub struct OneLook(PhantomData<*const ()>);

impl OneLook {
    pub fn begin() -> OneLook {
        SEEN.with_borrow_mut(|seen| seen.calls += 1);
        OneLook(PhantomData)
    }
}

impl Drop for OneLook {
    fn drop(&mut self) {
        SEEN.with_borrow_mut(|seen| {
            seen.calls -= 1;
            if seen.calls == 0 {
                seen.addresses = None;
            }
        });
    }
}

/// Returns the addresses that were read during the present call, or calls `look`.
pub(super) fn known_or(look: impl Fn() -> Vec<Address>) -> Vec<Address> {
    SEEN.with_borrow_mut(|seen| match (seen.calls, &mut seen.addresses) {
        (0, _) => look(),
        (_, known) => known.get_or_insert_with(look).clone(),
    })
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use super::*;

    #[test]
    fn each_call_looks_once() {
        let looks = Cell::new(0);
        let ask = || {
            known_or(|| {
                looks.set(looks.get() + 1);
                Vec::new()
            })
        };
        ask();
        ask();
        assert_eq!(looks.get(), 2);
        {
            let _outer = OneLook::begin();
            ask();
            {
                let _inner = OneLook::begin();
                ask();
            }
            ask();
            assert_eq!(looks.get(), 3);
        }
        let _next = OneLook::begin();
        ask();
        assert_eq!(looks.get(), 4);
    }
}
