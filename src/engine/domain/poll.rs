// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Poll sets: fi_poll(3).

use std::sync::{Arc, Mutex, PoisonError};

use crate::domain::Engine;
use crate::transport::Transport;
use abi::*;
use base::{Error, Result};
use object::Kind;
use object::handle;
use object::ops;
use object::ops::poll::PollCalls;
use sync::Use;

pub struct PollSet {
    /// Handles, in the order in which they were added.
    members: Mutex<Vec<usize>>,
    _domain: Use,
}

impl PollSet {
    pub fn open<T: Transport>(engine: &Arc<Engine<T>>) -> Result<*mut fid_poll> {
        let set = PollSet {
            members: Mutex::default(),
            _domain: engine.uses.take(),
        };
        let none = core::ptr::null_mut();
        Ok(handle::open(set, FI_CLASS_POLL, none, |fid| fid_poll {
            fid,
            ops: core::ptr::from_ref(ops::poll::table::<PollSet>()).cast_mut(),
        }))
    }
}

impl Kind for PollSet {
    type Head = fid_poll;

    fn check_close(&self) -> Result {
        match self.members().is_empty() {
            true => Ok(()),
            false => Err(Error::BUSY),
        }
    }
}

impl PollCalls for PollSet {
    fn add(&self, member: usize) -> Result {
        let mut members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        if !members.contains(&member) {
            members.push(member);
        }
        Ok(())
    }

    fn del(&self, member: usize) -> Result {
        let mut members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        let at = members.iter().position(|&m| m == member);
        members.remove(at.ok_or(Error::INVAL)?);
        Ok(())
    }

    fn members(&self) -> Vec<usize> {
        let members = self.members.lock().unwrap_or_else(PoisonError::into_inner);
        members.clone()
    }
}
