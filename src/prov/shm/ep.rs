// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Endpoints: opening and naming.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::shm::addr::Name;
use crate::shm::info::SHM_INJECT;
use crate::shm::kind::SHM as SOURCE;
use crate::shm::net::{Connections, ShmListener, Site};
use abi::*;
use base::info::Info;
use base::iovec::IOV_LIMIT;
use base::log::{Subsys, log_info, log_warn};
use base::{Error, Result};
use engine::transport::Address;
use stream::ep::Ep;
use sys::local;
use sys::random::unpredictable;
use sys::socket::Socket;

/// A queue with more operations than this is a caller's mistake.
const MAX_QUEUE: usize = 1 << 24;

impl Connections {
    pub(super) fn open_endpoint(&self, ep: usize, info: &Info) -> Result<Ep<Connections>> {
        match fi_ep_type(info.ep.ep_type) {
            FI_EP_RDM => {}
            FI_EP_MSG | FI_EP_DGRAM => return Err(Error::NOSYS),
            _ => return Err(Error::INVAL),
        }
        let iovs = [info.tx.iov_limit, info.tx.rma_iov_limit, info.rx.iov_limit];
        if info.tx.size > MAX_QUEUE
            || info.rx.size > MAX_QUEUE
            || info.tx.inject_size > SHM_INJECT
            || iovs.iter().any(|&limit| limit > IOV_LIMIT)
            || info.handle != 0
        {
            return Err(Error::INVAL);
        }
        let site = &self.site;
        let given = match &info.src_addr {
            Some(bytes) => Name::from_bytes(bytes).ok_or(Error::INVAL)?,
            None => Name::of_process(site.kind, std::process::id()),
        };
        let name = given.of_endpoint(site.kind, site.uid, next_index())?;
        let (listener, local) = listen(site, name)?;
        log_info!(&SOURCE, Subsys::EpCtrl, "RDM endpoint {ep} on {local}");
        let own = ShmListener::new(site.shm_listener(&local));
        Ok(Ep::new(own, true, local, Some(listener)))
    }

    pub(super) fn rename_endpoint(&self, endpoint: &mut Ep<Connections>, bytes: &[u8]) -> Result {
        let name = Name::from_bytes(bytes).ok_or(Error::INVAL)?;
        let shm_listener = self.site.shm_listener(&name);
        if name != endpoint.local {
            let listener = local::listen(&shm_listener)?;
            endpoint.own = ShmListener::new(shm_listener);
            endpoint.listener = Some(listener);
            endpoint.local = name;
        }
        Ok(())
    }
}

/// Opens the listener of an endpoint with this name, or with a similar one if it is in use.
fn listen(site: &Site, wanted: Name) -> Result<(Socket, Name)> {
    let mut name = wanted.clone();
    for _ in 0..TRIES {
        match local::listen(&site.shm_listener(&name)) {
            Ok(listener) => return Ok((listener, name)),
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {}
            Err(error) => {
                log_warn!(&SOURCE, Subsys::EpCtrl, "cannot open {name}: {error}");
                return Err(error.into());
            }
        }
        let random = unpredictable()?;
        let number = u32::from_ne_bytes([random[0], random[1], random[2], random[3]]);
        name = wanted.another(number)?;
    }
    Err(Error::ADDRINUSE)
}

const TRIES: usize = 8;

/// Returns the next number of an endpoint in this process.
fn next_index() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    // Relaxed: only the uniqueness of the numbers matters.
    NEXT.fetch_add(1, Ordering::Relaxed)
}
