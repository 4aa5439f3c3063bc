// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The state of a domain while its lock is held. What is logged meanwhile reaches callbacks of the application only
//! afterwards: they may call back into the same domain.
#![forbid(unsafe_code)]

use core::ops::{Deref, DerefMut};

use super::State;
use crate::base::log::{Deferral, defer};
use crate::engine::transport::Transport;
use crate::sync::Guard;

pub struct Locked<'a, T: Transport> {
    state: Guard<'a, State<T>>,
    /// Behind the guard: it ends when the lock is given back.
    _lines: Deferral,
}

impl<'a, T: Transport> Locked<'a, T> {
    #[inline(always)]
    pub(super) fn new(state: Guard<'a, State<T>>) -> Locked<'a, T> {
        Locked {
            state,
            _lines: defer(),
        }
    }
}

impl<T: Transport> Deref for Locked<'_, T> {
    type Target = State<T>;

    #[inline(always)]
    fn deref(&self) -> &State<T> {
        &self.state
    }
}

impl<T: Transport> DerefMut for Locked<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut State<T> {
        &mut self.state
    }
}
