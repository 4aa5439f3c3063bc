// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The handle of a shared transmit context: fi_endpoint(3), fi_stx_context. Operations are posted to the endpoints that
//! share it, and complete at their queues. Connections have no queue that could be shared, so each endpoint has its own
//! limit of pending operations.

use core::ffi::c_void;
use std::sync::Arc;

use crate::domain::Engine;
use crate::transport::Transport;
use abi::*;
use base::info::TxAttr;
use base::{Error, Result};
use object::Kind;
use object::handle;
use object::ops;
use object::ops::ep::EpCalls;
use object::ops::options::{Opt, OptValue, Owner};
use sync::{Use, Uses};

pub struct SharedTx<T: Transport> {
    engine: Arc<Engine<T>>,
    attr: TxAttr,
    pub uses: Uses,
    _domain: Use,
}

impl<T: Transport> SharedTx<T> {
    pub fn open(
        engine: &Arc<Engine<T>>,
        attr: Option<TxAttr>,
        context: *mut c_void,
    ) -> Result<*mut fid_stx> {
        if engine.info.domain.max_ep_stx_ctx == 0 {
            return Err(Error::NOSYS);
        }
        let stx = SharedTx {
            engine: engine.clone(),
            attr: attr.unwrap_or_default(),
            uses: Uses::default(),
            _domain: engine.uses.take(),
        };
        Ok(handle::open(stx, FI_CLASS_STX_CTX, context, |fid| {
            fid_stx {
                fid,
                ops: core::ptr::from_ref(ops::ep::table::<SharedTx<T>>()).cast_mut(),
            }
        }))
    }

    /// fi_endpoint(3): an endpoint uses a subset of the context's attributes. Attributes that were not set allow all
    /// values.
    pub fn check(&self, engine: &Arc<Engine<T>>, ep: &TxAttr) -> Result {
        if !Arc::ptr_eq(engine, &self.engine) {
            return Err(Error::DOMAIN);
        }
        let most = &self.attr;
        let sizes = [
            (ep.inject_size, most.inject_size),
            (ep.size, most.size),
            (ep.iov_limit, most.iov_limit),
            (ep.rma_iov_limit, most.rma_iov_limit),
        ];
        let beyond = !most.caps.is_empty() && !most.caps.contains(ep.caps)
            || !most.msg_order.is_empty() && !most.msg_order.covers(ep.msg_order)
            || sizes.iter().any(|&(own, most)| most != 0 && own > most);
        match beyond {
            true => Err(Error::INVAL),
            false => Ok(()),
        }
    }
}

impl<T: Transport> Kind for SharedTx<T> {
    type Head = fid_stx;

    fn check_close(&self) -> Result {
        match self.uses.any() {
            true => Err(Error::BUSY),
            false => Ok(()),
        }
    }

    /// The context needs no enabling.
    fn enable(&self) -> Result {
        Ok(())
    }
}

impl<T: Transport> EpCalls for SharedTx<T> {
    fn is_owner(&self, _owner: Owner) -> bool {
        false
    }

    fn get_opt(&self, _opt: Opt) -> Result<OptValue> {
        Err(Error::NOPROTOOPT)
    }
}
