// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The handle of a shared receive context: fi_endpoint(3), fi_srx_context.

use core::ffi::c_void;
use std::sync::{Arc, Weak};

use crate::domain::peers::{Caller, ServedSrx};
use crate::domain::{Engine, State};
use crate::ep_state::{check_source, directed, side_of, with_directed};
use crate::srx::{Arrivals, Srx};
use crate::transport::{DomainStateOf, Transport};
use abi::*;
use base::flags::flags;
use base::info::RxAttr;
use base::{Caps, Error, OpFlags, Result};
use object::Kind;
use object::handle;
use object::ops;
use object::ops::ep::EpCalls;
use object::ops::options::{Opt, OptValue, Owner};
use object::ops::transfer::{DataPath, Rx, Tx};
use object::peer::{PeerSrx, Place};
use sync::{Use, Uses};

pub struct SharedRx<T: Transport> {
    engine: Arc<Engine<T>>,
    id: usize,
    attr: RxAttr,
    many_tagged: bool,
    /// The object that the owner calls, if the receives belong to another provider.
    served: Option<Arc<ServedSrx<T>>>,
    /// Capabilities of receives, from the attributes of the context or, if it has none, of the domain.
    caps: Caps,
    pub uses: Uses,
    _domain: Use,
}

impl<T: Transport> SharedRx<T> {
    pub fn open(
        engine: &Arc<Engine<T>>,
        attr: Option<RxAttr>,
        owner: Option<PeerSrx>,
        context: *mut c_void,
    ) -> Result<*mut fid_ep> {
        // A stand-in for a context of another provider needs no support for shared contexts.
        if engine.info.domain.max_ep_srx_ctx == 0 && owner.is_none() {
            return Err(Error::NOSYS);
        }
        let mut attr = attr.unwrap_or_default();
        attr.op_flags &= !OpFlags::PEER;
        let own = attr.caps;
        let many_tagged = own.contains(Caps::TAGGED_MULTI_RECV);
        let mut caps = with_directed(match own.is_empty() {
            true => engine.info.caps,
            false => own,
        });
        // Connected endpoints have no address vector.
        if engine.info.ep.ep_type == FI_EP_MSG.0 {
            caps &= !flags!(Caps: DIRECTED_RECV | TAGGED_DIRECTED_RECV | EXACT_DIRECTED_RECV);
        }
        // fi_endpoint(3): a context serves the capabilities that its attributes name.
        let served = side_of(Caps::all(), own, Caps::RECV);
        let mut srx = Srx::new();
        srx.many_tagged = many_tagged;
        // The handle counts as a user.
        srx.eps = 1;
        let mut state = engine.lock()?;
        let id = state.domain.srxs.insert(srx);
        if owner.is_none()
            && let Err(error) = state.transport.open_srx(id, &attr)
        {
            state.domain.srxs.remove(id);
            return Err(error);
        }
        drop(state);
        let srx = SharedRx {
            served: None,
            engine: engine.clone(),
            id,
            attr,
            many_tagged,
            caps,
            uses: Uses::default(),
            _domain: engine.uses.take(),
        };
        if let Some(owner) = owner {
            return srx.import(owner);
        }
        let msg = match served.contains(Caps::MSG) {
            true => ops::msg::receive_table::<SharedRx<T>>(),
            false => &ops::msg::NONE,
        };
        let tagged = match served.contains(Caps::TAGGED) {
            true => ops::tagged::receive_table::<SharedRx<T>>(),
            false => &ops::tagged::NONE,
        };
        Ok(handle::open(srx, FI_CLASS_SRX_CTX, context, |fid| fid_ep {
            fid,
            ops: core::ptr::from_ref(ops::ep::table::<SharedRx<T>>()).cast_mut(),
            cm: core::ptr::from_ref(&ops::cm::NONE).cast_mut(),
            msg: core::ptr::from_ref(msg).cast_mut(),
            rma: core::ptr::from_ref(&ops::rma::NONE).cast_mut(),
            tagged: core::ptr::from_ref(tagged).cast_mut(),
            atomic: core::ptr::from_ref(&ops::atomic::NONE).cast_mut(),
            collective: core::ptr::from_ref(&ops::collective::NONE).cast_mut(),
            wr: core::ptr::from_ref(&ops::wr::NONE).cast_mut(),
        }))
    }

    /// fi_peer(3): the receives belong to the owner. The C object serves to bind endpoints, and is closed as usual.
    fn import(mut self, owner: PeerSrx) -> Result<*mut fid_ep> {
        let served = Arc::new(ServedSrx {
            engine: Arc::downgrade(&self.engine),
            id: self.id,
        });
        let as_served: Weak<ServedSrx<T>> = Arc::downgrade(&served);
        let place = Place::new(as_served)?;
        owner.serve();
        let arrivals = Box::new(Arrivals::new(
            Arc::new(owner),
            place,
            self.engine.takes_devices,
        ));
        let mut state = self.engine.lock()?;
        state.domain.srxs[self.id].arrivals = Some(arrivals);
        state.domain.peers.add_srx(self.id);
        drop(state);
        self.served = Some(served);
        let context = core::ptr::null_mut();
        Ok(handle::open(self, FI_CLASS_SRX_CTX, context, |fid| {
            fid_ep {
                fid,
                ops: core::ptr::from_ref(ops::ep::table::<SharedRx<T>>()).cast_mut(),
                cm: core::ptr::from_ref(&ops::cm::NONE).cast_mut(),
                msg: core::ptr::from_ref(&ops::msg::NONE).cast_mut(),
                rma: core::ptr::from_ref(&ops::rma::NONE).cast_mut(),
                tagged: core::ptr::from_ref(&ops::tagged::NONE).cast_mut(),
                atomic: core::ptr::from_ref(&ops::atomic::NONE).cast_mut(),
                collective: core::ptr::from_ref(&ops::collective::NONE).cast_mut(),
                wr: core::ptr::from_ref(&ops::wr::NONE).cast_mut(),
            }
        }))
    }

    /// Whether the receives belong to another provider.
    pub fn is_imported(&self) -> bool {
        self.served.is_some()
    }

    pub fn id_in(&self, engine: &Arc<Engine<T>>) -> Option<usize> {
        Arc::ptr_eq(engine, &self.engine).then_some(self.id)
    }

    /// fi_endpoint(3): an endpoint uses a subset of the context's attributes. Attributes that were not set allow all
    /// values.
    pub fn check(&self, ep: &RxAttr) -> Result {
        let most = &self.attr;
        let of_receives = |caps: Caps| (caps & OF_RECEIVES).bits();
        let caps = (of_receives(ep.caps), of_receives(most.caps));
        let bits = [caps, (ep.msg_order.bits(), most.msg_order.bits())];
        let sizes = [
            (ep.total_buffered_recv, most.total_buffered_recv),
            (ep.size, most.size),
            (ep.iov_limit, most.iov_limit),
        ];
        let beyond = bits.iter().any(|&(own, all)| all != 0 && own & !all != 0)
            || sizes.iter().any(|&(own, most)| most != 0 && own > most);
        match beyond {
            true => Err(Error::INVAL),
            false => Ok(()),
        }
    }
}

impl<T: Transport> Drop for SharedRx<T> {
    fn drop(&mut self) {
        if self.is_imported() {
            self.engine.deliver(Caller::Control);
        }
        let Ok(mut state) = self.engine.lock_to_close() else {
            return;
        };
        state.transport.close_srx(self.id);
        let srx = &mut state.domain.srxs[self.id];
        srx.eps -= 1;
        if srx.eps == 0 {
            state.domain.srxs.remove(self.id);
            state.domain.peers.forget_srx(self.id);
        }
    }
}

impl<T: Transport> Kind for SharedRx<T> {
    type Head = fid_ep;

    fn check_close(&self) -> Result {
        match self.uses.any() {
            true => Err(Error::BUSY),
            false => Ok(()),
        }
    }

    fn enable(&self) -> Result {
        Ok(())
    }
}

impl<T: Transport> EpCalls for SharedRx<T> {
    fn is_owner(&self, owner: Owner) -> bool {
        owner == Owner::Receiver
    }

    fn get_opt(&self, opt: Opt) -> Result<OptValue> {
        match opt {
            Opt::MinMultiRecv => Ok(OptValue::Size(
                self.engine.lock()?.domain.srxs[self.id].min_multi_recv,
            )),
            _ => Err(Error::NOPROTOOPT),
        }
    }

    fn set_opt(&self, opt: Opt, value: OptValue) -> Result {
        let mut state = self.engine.lock()?;
        match (opt, value) {
            (Opt::MinMultiRecv, OptValue::Size(size)) => {
                state.domain.srxs[self.id].min_multi_recv = size;
                Ok(())
            }
            _ => Err(Error::NOPROTOOPT),
        }
    }

    fn cancel(&self, context: usize) -> Result {
        // fi_endpoint(3): operations without a context cannot be cancelled.
        if context == 0 {
            return Ok(());
        }
        if T::POSTS_RECEIVES {
            return Err(Error::NOSYS);
        }
        let mut guard = self.engine.lock()?;
        let domain = &mut guard.domain;
        let Some((recv, what)) = domain.srxs[self.id].cancel(context) else {
            return Ok(());
        };
        if let Some(ep) = domain.reporter(self.id) {
            domain.receive_failed(ep, &recv, what, Error::CANCELED);
        }
        Ok(())
    }
}

impl<T: Transport> DataPath for SharedRx<T> {
    fn reads_descs(&self) -> bool {
        self.engine.reads_descs
    }

    fn transmit(&self, _tx: &mut Tx<'_>) -> Result {
        Err(Error::NOSYS)
    }

    fn receive(&self, mut rx: Rx) -> Result {
        let most = self.attr.iov_limit;
        if most != 0 && rx.iov.pieces() > most {
            return Err(Error::INVAL);
        }
        if self.engine.takes_devices {
            self.engine.mark(&mut rx.iov)?;
        }
        let mut guard = self.engine.lock()?;
        // Receives that wait for a counter must be posted to an endpoint.
        if rx.flags.contains(OpFlags::TRIGGER) {
            return Err(Error::BADFLAGS);
        }
        check_source(self.caps, &rx)?;
        let State { domain, transport } = &mut *guard;
        if T::POSTS_RECEIVES {
            return transport.receive_shared(domain, self.id, &mut rx);
        }
        let saved = domain.srxs[self.id].saved();
        domain.post_to(
            self.id,
            directed(self.caps, rx.what),
            None,
            &mut rx,
            T::source,
            &mut |domain: &mut DomainStateOf<T>, claimed| transport.claim(domain, claimed),
        )?;
        if domain.srxs[self.id].saved() < saved {
            transport.room_again(domain);
        }
        guard.run_triggers();
        guard.after_receive(&rx);
        Ok(())
    }

    /// No receive is ever deferred.
    fn start_receives(&self) -> Result {
        Ok(())
    }

    fn tx_flags(&self) -> OpFlags {
        OpFlags::empty()
    }

    /// The endpoint at which a message arrives decides whether its queue is selective.
    fn rx_flags(&self) -> OpFlags {
        self.attr.op_flags
    }

    fn takes_many_tagged(&self) -> bool {
        self.many_tagged
    }

    fn tx_implied(&self) -> OpFlags {
        OpFlags::empty()
    }

    fn rx_implied(&self) -> OpFlags {
        OpFlags::empty()
    }
}

/// Capabilities of a context that define what it receives; memory accesses belong to the endpoint.
const OF_RECEIVES: Caps = flags!(Caps:
    MSG | TAGGED | RECV | MULTI_RECV | TAGGED_MULTI_RECV | DIRECTED_RECV | TAGGED_DIRECTED_RECV
);
