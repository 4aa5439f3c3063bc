// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Fabric, domain, address vector, event queue: fi_fabric(3), fi_domain(3), fi_av(3), fi_eq(3).

use core::mem::{MaybeUninit, size_of};
use core::ptr;
use std::rc::Rc;
use std::time::Duration;

use super::exported;
use super::failure::{Failure, Result};
use super::info::{Info, InfoList};
use super::object::{Handle, check, entry};
use super::text;
use crate::abi::*;

pub struct Fabric {
    pub(super) raw: Handle<fid_fabric>,
}

impl Fabric {
    pub fn open(info: &Info) -> Result<Rc<Fabric>> {
        let mut fabric = ptr::null_mut();
        // SAFETY: the attributes live as long as the entry; `fabric` is written on success.
        let raw = unsafe {
            let attr = info.raw().fabric_attr;
            let code = exported::fi_fabric(attr, &raw mut fabric, ptr::null_mut());
            Handle::opened("fi_fabric", code, fabric)?
        };
        Ok(Rc::new(Fabric { raw }))
    }

    pub(super) fn ops(&self) -> &fi_ops_fabric {
        // SAFETY: an open fabric has its table.
        unsafe { &*(*self.raw.as_ptr()).ops }
    }
}

pub struct Domain {
    pub(super) raw: Handle<fid_domain>,
    /// Open as long as this.
    _fabric: Rc<Fabric>,
}

impl Domain {
    pub fn open(fabric: &Rc<Fabric>, info: &Info) -> Result<Rc<Domain>> {
        let open = entry("fi_domain", fabric.ops().domain)?;
        let mut domain = ptr::null_mut();
        // SAFETY: fabric and entry are valid; `domain` is written on success.
        let raw = unsafe {
            let fabric = fabric.raw.as_ptr();
            let code = open(fabric, info.as_ptr(), &raw mut domain, ptr::null_mut());
            Handle::opened("fi_domain", code, domain)?
        };
        Ok(Rc::new(Domain {
            raw,
            _fabric: fabric.clone(),
        }))
    }

    pub(super) fn ops(&self) -> &fi_ops_domain {
        // SAFETY: an open domain has its table.
        unsafe { &*(*self.raw.as_ptr()).ops }
    }
}

/// The peers of an endpoint without connections.
pub struct Av {
    pub(super) raw: Handle<fid_av>,
    _domain: Rc<Domain>,
}

impl Av {
    pub fn open(domain: &Rc<Domain>, kind: fi_av_type) -> Result<Rc<Av>> {
        let open = entry("fi_av_open", domain.ops().av_open)?;
        let mut attr = fi_av_attr {
            r#type: kind,
            rx_ctx_bits: 0,
            count: 1,
            ep_per_node: 0,
            name: ptr::null(),
            map_addr: ptr::null_mut(),
            flags: 0,
        };
        let mut av = ptr::null_mut();
        // SAFETY: the domain is open, the attributes are read during the call, `av` is written on success.
        let raw = unsafe {
            let domain = domain.raw.as_ptr();
            let code = open(domain, &raw mut attr, &raw mut av, ptr::null_mut());
            Handle::opened("fi_av_open", code, av)?
        };
        Ok(Rc::new(Av {
            raw,
            _domain: domain.clone(),
        }))
    }

    /// `address` in the format of the domain.
    pub fn insert(&self, address: &[u8]) -> Result<fi_addr_t> {
        // SAFETY: an open address vector has its table.
        let ops = unsafe { &*(*self.raw.as_ptr()).ops };
        let insert = entry("fi_av_insert", ops.insert)?;
        let mut handle = FI_ADDR_NOTAVAIL;
        // SAFETY: one address is there and room for one handle.
        let inserted = unsafe {
            let (av, address) = (self.raw.as_ptr(), address.as_ptr());
            insert(av, address.cast(), 1, &raw mut handle, 0, ptr::null_mut())
        };
        match inserted {
            1 => Ok(handle),
            0 => Err(Failure::new("fi_av_insert", FI_EADDRNOTAVAIL)),
            code => Err(Failure::new("fi_av_insert", code)),
        }
    }
}

/// Events of connections.
pub struct Eq {
    pub(super) raw: Handle<fid_eq>,
    _fabric: Rc<Fabric>,
}

pub enum Event {
    /// Somebody wants to connect; the entry is for the endpoint that accepts.
    Request(InfoList),
    Connected,
    Shutdown,
    Other(u32),
}

impl Eq {
    pub fn open(fabric: &Rc<Fabric>) -> Result<Rc<Eq>> {
        let open = entry("fi_eq_open", fabric.ops().eq_open)?;
        let mut attr = fi_eq_attr {
            size: 0,
            flags: 0,
            wait_obj: FI_WAIT_UNSPEC,
            signaling_vector: 0,
            wait_set: ptr::null_mut(),
        };
        let mut eq = ptr::null_mut();
        // SAFETY: the fabric is open, the attributes are read during the call, `eq` is written on success.
        let raw = unsafe {
            let fabric = fabric.raw.as_ptr();
            let code = open(fabric, &raw mut attr, &raw mut eq, ptr::null_mut());
            Handle::opened("fi_eq_open", code, eq)?
        };
        Ok(Rc::new(Eq {
            raw,
            _fabric: fabric.clone(),
        }))
    }

    fn ops(&self) -> &fi_ops_eq {
        // SAFETY: an open event queue has its table.
        unsafe { &*(*self.raw.as_ptr()).ops }
    }

    /// The next event, if one comes in time.
    pub fn wait(&self, limit: Duration) -> Result<Option<Event>> {
        let read = entry("fi_eq_sread", self.ops().sread)?;
        let timeout = i32::try_from(limit.as_millis()).unwrap_or(i32::MAX);
        let mut event = 0;
        // Private data of the connection, which nobody here sends, would follow the entry.
        let mut buffer = [MaybeUninit::<fi_eq_cm_entry>::uninit(); 32];
        // SAFETY: the queue is open and the buffer as long as said.
        let got = unsafe {
            let (data, length) = (buffer.as_mut_ptr().cast(), size_of_val(&buffer));
            read(self.raw.as_ptr(), &raw mut event, data, length, timeout, 0)
        };
        if got == -(FI_EAGAIN as isize) || got == -(FI_ETIMEDOUT as isize) {
            return Ok(None);
        }
        if got == -(FI_EINTR as isize) {
            return Ok(None);
        }
        if got == -(FI_EAVAIL as isize) {
            return Err(self.error());
        }
        if got < 0 {
            return Err(Failure::new("fi_eq_sread", got as i32));
        }
        match event {
            FI_CONNREQ if got as usize >= size_of::<fi_eq_cm_entry>() => {
                // SAFETY: for this event such an entry was written; its list is the reader's to free.
                let list = unsafe { InfoList::from_raw(buffer[0].assume_init().info) };
                Ok(Some(Event::Request(list)))
            }
            FI_CONNECTED => Ok(Some(Event::Connected)),
            FI_SHUTDOWN => Ok(Some(Event::Shutdown)),
            other => Ok(Some(Event::Other(other))),
        }
    }

    #[cold]
    fn error(&self) -> Failure {
        // SAFETY: zeros are valid for numbers and pointers.
        let mut entry: fi_eq_err_entry = unsafe { MaybeUninit::zeroed().assume_init() };
        let Some(read) = self.ops().readerr else {
            return Failure::new("fi_eq_readerr", FI_ENOSYS);
        };
        // SAFETY: the queue is open; the entry asks for no error data.
        let got = unsafe { read(self.raw.as_ptr(), &raw mut entry, 0) };
        if got < 0 {
            return Failure::new("fi_eq_readerr", got as i32);
        }
        let failure = Failure::new("connection", entry.err);
        let strerror = match self.ops().strerror {
            // A number of its own is what a provider may have more words for.
            Some(strerror) if entry.prov_errno.unsigned_abs() > FI_ERRNO_MAX as u32 => strerror,
            _ => return failure,
        };
        // SAFETY: number and data come from this queue; no buffer is given, so the text is the library's.
        let words = unsafe {
            let (queue, code, data) = (self.raw.as_ptr(), entry.prov_errno, entry.err_data);
            text::string(strerror(queue, code, data, ptr::null_mut(), 0))
        };
        match words {
            Some(words) => failure.detail(words),
            None => failure,
        }
    }
}

/// An endpoint that listens.
pub struct PassiveEp {
    raw: Handle<fid_pep>,
    _eq: Rc<Eq>,
    _fabric: Rc<Fabric>,
}

impl PassiveEp {
    pub fn listen(fabric: &Rc<Fabric>, info: &Info, eq: &Rc<Eq>) -> Result<PassiveEp> {
        let open = entry("fi_passive_ep", fabric.ops().passive_ep)?;
        let mut pep = ptr::null_mut();
        // SAFETY: fabric and entry are valid; `pep` is written on success.
        let raw = unsafe {
            let fabric = fabric.raw.as_ptr();
            let code = open(fabric, info.as_ptr(), &raw mut pep, ptr::null_mut());
            Handle::opened("fi_passive_ep", code, pep)?
        };
        raw.bind(&eq.raw, 0)?;
        // SAFETY: an open endpoint has its table.
        let cm = unsafe { &*(*raw.as_ptr()).cm };
        let listen = entry("fi_listen", cm.listen)?;
        // SAFETY: the endpoint is open.
        check("fi_listen", unsafe { listen(raw.as_ptr()) })?;
        Ok(PassiveEp {
            raw,
            _eq: eq.clone(),
            _fabric: fabric.clone(),
        })
    }

    pub fn address(&self) -> Result<Vec<u8>> {
        // SAFETY: an open endpoint has its table.
        let cm = unsafe { &*(*self.raw.as_ptr()).cm };
        address(cm, self.raw.fid())
    }
}

/// fi_getname(3): asked once for the length, then for the address.
pub(super) fn address(cm: &fi_ops_cm, fid: *mut fid) -> Result<Vec<u8>> {
    let name = entry("fi_getname", cm.getname)?;
    let mut address = vec![0u8; 0];
    for _ in 0..2 {
        let mut length = address.len();
        // SAFETY: the endpoint of this table is open, and so many bytes may be written.
        let code = unsafe { name(fid, address.as_mut_ptr().cast(), &raw mut length) };
        let fits = length <= address.len();
        address.resize(length, 0);
        match code {
            0 if fits => return Ok(address),
            0 => {}
            code if code == -FI_ETOOSMALL => {}
            code => return Err(Failure::new("fi_getname", code)),
        }
    }
    Err(Failure::new("fi_getname", FI_ETOOSMALL))
}
