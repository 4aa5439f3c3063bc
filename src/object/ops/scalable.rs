// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `struct fi_ops_ep` of a scalable endpoint, which opens contexts: fi_endpoint(3), fi_tx_context and fi_rx_context.

use core::ffi::{c_int, c_void};

use crate::handle::{self, Kind};
use crate::ops::ep::{self, EpCalls};
use crate::ops::{object, status};
use crate::user::store;
use abi::*;
use base::Result;
use base::info::{Layout, RxAttr, TxAttr};

/// Opens contexts; returns each handle with the attributes of the context.
pub trait ScalableCalls: EpCalls + Kind<Head = fid_ep> {
    fn api_version(&self) -> u32;
    fn open_tx(
        &self,
        index: c_int,
        attr: Option<TxAttr>,
        context: *mut c_void,
    ) -> Result<(*mut fid_ep, TxAttr)>;
    fn open_rx(
        &self,
        index: c_int,
        attr: Option<RxAttr>,
        context: *mut c_void,
    ) -> Result<(*mut fid_ep, RxAttr)>;
}

pub fn table<T: ScalableCalls>() -> &'static fi_ops_ep {
    const {
        &fi_ops_ep {
            tx_ctx: Some(tx_ctx::<T>),
            rx_ctx: Some(rx_ctx::<T>),
            ..*ep::table::<T>()
        }
    }
}

unsafe extern "C" fn tx_ctx<T: ScalableCalls>(
    sep: *mut fid_ep,
    index: c_int,
    attr: *mut fi_tx_attr,
    tx_ep: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    // SAFETY: fi_endpoint(3): an open scalable endpoint; `attr` is NULL, or readable and writable; `tx_ep` receives the
    // handle.
    status(unsafe {
        object(handle::get::<T, _>(sep)).and_then(|sep| {
            let layout = Layout::of_api(sep.api_version());
            let wanted = TxAttr::read(attr, layout);
            store(tx_ep, || {
                let (handle, assigned) = sep.open_tx(index, wanted, context)?;
                assigned.store(attr, layout);
                Ok(handle)
            })
        })
    })
}

unsafe extern "C" fn rx_ctx<T: ScalableCalls>(
    sep: *mut fid_ep,
    index: c_int,
    attr: *mut fi_rx_attr,
    rx_ep: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    // SAFETY: as in `tx_ctx`.
    status(unsafe {
        object(handle::get::<T, _>(sep)).and_then(|sep| {
            let layout = Layout::of_api(sep.api_version());
            let wanted = RxAttr::read(attr, layout);
            store(rx_ep, || {
                let (handle, assigned) = sep.open_rx(index, wanted, context)?;
                assigned.store(attr, layout);
                Ok(handle)
            })
        })
    })
}
