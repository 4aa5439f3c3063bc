// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! One look at the interfaces for all who ask during one call: several providers answer it, some more than once, and a
//! look costs a hundred microseconds.
#![forbid(unsafe_code)]

use core::cell::RefCell;
use core::marker::PhantomData;

use super::Address;

thread_local! {
    static SEEN: RefCell<Seen> = const { RefCell::new(Seen { calls: 0, addresses: None }) };
}

struct Seen {
    /// One may lie within another.
    calls: usize,
    addresses: Option<Vec<Address>>,
}

/// While it lives, this thread looks at the interfaces once at most.
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

/// What was seen during the call that is under way, or what `look` sees.
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
