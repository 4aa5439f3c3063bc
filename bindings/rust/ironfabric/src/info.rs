// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Hints and entries: fi_getinfo(3).

use core::ffi::{CStr, c_char, c_int, c_void};
use core::fmt;
use core::ptr::{self, NonNull};
use std::ffi::CString;
use std::sync::Arc;

use bitflags::bitflags;
use ironfabric_sys::*;

use crate::Address;
use crate::error::{Error, Result, status};
use crate::handle::{Local, Shared, Threads};

bitflags! {
    /// Capabilities: fi_getinfo(3), `caps`. `SEND`, `RECV`, `READ`, `WRITE` and the remote ones narrow the others.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
    pub struct Caps: u64 {
        /// Messages without tags: fi_msg(3).
        const MSG = FI_MSG;
        /// Messages with tags: fi_tagged(3).
        const TAGGED = FI_TAGGED;
        /// Access to memory of peers: fi_rma(3).
        const RMA = FI_RMA;
        /// Atomic operations: fi_atomic(3). This crate has no calls for them yet.
        const ATOMIC = FI_ATOMIC;
        /// Sending.
        const SEND = FI_SEND;
        /// Receiving.
        const RECV = FI_RECV;
        /// Reading memory of peers.
        const READ = FI_READ;
        /// Writing memory of peers.
        const WRITE = FI_WRITE;
        /// Peers read memory of this process.
        const REMOTE_READ = FI_REMOTE_READ;
        /// Peers write memory of this process.
        const REMOTE_WRITE = FI_REMOTE_WRITE;
        /// Completions name the sender: [`Completion::source`](crate::Completion::source).
        const SOURCE = FI_SOURCE;
        /// Receives can be limited to one sender.
        const DIRECTED_RECV = FI_DIRECTED_RECV;
        /// Accesses by peers count on a counter of the target.
        const RMA_EVENT = FI_RMA_EVENT;
        /// Peers on this host.
        const LOCAL_COMM = FI_LOCAL_COMM;
        /// Peers on other hosts.
        const REMOTE_COMM = FI_REMOTE_COMM;
        const _ = !0;
    }
}

bitflags! {
    /// Duties for registered memory: fi_mr(3), `mr_mode`. The crate fulfils those of [`MrMode::SUPPORTED`].
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
    pub struct MrMode: c_int {
        /// Buffers of local operations are registered; a [`Buffer`](crate::Buffer) is, where required.
        const LOCAL = FI_MR_LOCAL;
        /// Peers name memory by its virtual address; [`RemoteMemory`](crate::RemoteMemory) contains it.
        const VIRT_ADDR = FI_MR_VIRT_ADDR;
        /// Memory has physical pages when it is registered; the crate's memory has.
        const ALLOCATED = FI_MR_ALLOCATED;
        /// The provider chooses the keys.
        const PROV_KEY = FI_MR_PROV_KEY;
        const _ = !0;
    }
}

impl MrMode {
    /// The modes that this crate supports. Hints offer all of them.
    pub const SUPPORTED: MrMode = MrMode::LOCAL
        .union(MrMode::VIRT_ADDR)
        .union(MrMode::ALLOCATED)
        .union(MrMode::PROV_KEY);
}

/// Kind of endpoint: fi_endpoint(3), `type`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum EndpointType {
    /// Reliable messages of any size to any peer of an address vector (`FI_EP_RDM`).
    Rdm,
    /// Unreliable datagrams of limited size (`FI_EP_DGRAM`).
    Dgram,
    /// A connection to one peer (`FI_EP_MSG`).
    Msg,
}

impl EndpointType {
    fn raw(self) -> fi_ep_type {
        match self {
            EndpointType::Rdm => FI_EP_RDM,
            EndpointType::Dgram => FI_EP_DGRAM,
            EndpointType::Msg => FI_EP_MSG,
        }
    }
}

/// The requirements of a program: a builder for the hints of fi_getinfo(3).
///
/// Requirements that are not set leave the choice to the provider. The default thread model is [`Shared`].
///
/// ```
/// use ironfabric::{Caps, EndpointType, Hints};
/// # fn main() -> ironfabric::Result {
/// let list = Hints::new()
///     .caps(Caps::MSG | Caps::TAGGED)
///     .endpoint_type(EndpointType::Rdm)
///     .provider("tcp")
///     .source("127.0.0.1", None)
///     .query()?;
/// let info = list.first().expect("query fails if nothing matches");
/// assert_eq!(info.endpoint_type(), Some(EndpointType::Rdm));
/// assert!(info.provider().starts_with("tcp"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Hints {
    caps: Caps,
    endpoint_type: Option<EndpointType>,
    provider: Option<String>,
    fabric: Option<String>,
    domain: Option<String>,
    threading: fi_threading,
    manual_progress: Option<bool>,
    inject_size: usize,
    max_message: usize,
    tx_size: usize,
    rx_size: usize,
    cq_data_size: usize,
    message_order: u64,
    node: Option<String>,
    service: Option<String>,
    flags: u64,
}

impl Default for Hints {
    fn default() -> Hints {
        Hints::new()
    }
}

impl Hints {
    /// Makes hints without requirements.
    pub fn new() -> Hints {
        Hints {
            caps: Caps::empty(),
            endpoint_type: None,
            provider: None,
            fabric: None,
            domain: None,
            threading: FI_THREAD_SAFE,
            manual_progress: None,
            inject_size: 0,
            max_message: 0,
            tx_size: 0,
            rx_size: 0,
            cq_data_size: 0,
            message_order: 0,
            node: None,
            service: None,
            flags: 0,
        }
    }

    /// Requires these capabilities.
    pub fn caps(mut self, caps: Caps) -> Hints {
        self.caps = caps;
        self
    }

    /// Requires this kind of endpoint.
    pub fn endpoint_type(mut self, kind: EndpointType) -> Hints {
        self.endpoint_type = Some(kind);
        self
    }

    /// Requires a provider, such as "tcp" or "verbs;ofi_rxm". A list has commas; a leading "^" excludes its providers.
    pub fn provider(mut self, name: &str) -> Hints {
        self.provider = Some(name.into());
        self
    }

    /// Requires the fabric of this name.
    pub fn fabric(mut self, name: &str) -> Hints {
        self.fabric = Some(name.into());
        self
    }

    /// Requires the domain of this name: usually a network interface.
    pub fn domain(mut self, name: &str) -> Hints {
        self.domain = Some(name.into());
        self
    }

    /// Requires that domains may be used by any thread. The default.
    pub fn shared(mut self) -> Hints {
        self.threading = Shared::LEVEL;
        self
    }

    /// Allows providers that need no locks, for [`Domain<Local>`](crate::Domain).
    pub fn local(mut self) -> Hints {
        self.threading = Local::LEVEL;
        self
    }

    /// Requires that the calls of this process drive all progress (`true`), or that the provider does (`false`).
    pub fn manual_progress(mut self, manual: bool) -> Hints {
        self.manual_progress = Some(manual);
        self
    }

    /// Requires that messages of this many bytes can be injected.
    pub fn inject_size(mut self, bytes: usize) -> Hints {
        self.inject_size = bytes;
        self
    }

    /// Requires messages of up to this many bytes.
    pub fn max_message(mut self, bytes: usize) -> Hints {
        self.max_message = bytes;
        self
    }

    /// Requires room for this many operations in flight that send, read or write.
    pub fn tx_size(mut self, operations: usize) -> Hints {
        self.tx_size = operations;
        self
    }

    /// Requires room for this many posted receives.
    pub fn rx_size(mut self, receives: usize) -> Hints {
        self.rx_size = receives;
        self
    }

    /// Requires this many bytes, up to 8, of data that operations carry into the completion of the peer.
    pub fn cq_data_size(mut self, bytes: usize) -> Hints {
        self.cq_data_size = bytes;
        self
    }

    /// Requires that messages to one peer are received in the order in which they were sent (`FI_ORDER_SAS`).
    pub fn ordered(mut self) -> Hints {
        self.message_order |= FI_ORDER_SAS;
        self
    }

    /// Sets the local address: a host name or numeric address, and a port or service name.
    pub fn source<'a>(mut self, node: impl Into<Option<&'a str>>, service: Option<&str>) -> Hints {
        self.node = node.into().map(Into::into);
        self.service = service.map(Into::into);
        let is_given = self.node.is_some() || self.service.is_some();
        self.flags = if is_given { FI_SOURCE } else { 0 };
        self
    }

    /// Sets the address of the peer; [`Info::destination`] returns it in the provider's format.
    pub fn destination(mut self, node: &str, service: &str) -> Hints {
        self.node = Some(node.into());
        self.service = Some(service.into());
        self.flags = 0;
        self
    }

    /// Returns the entries that match, best first; `NODATA` if there are none, or if no libfabric can be loaded.
    pub fn query(&self) -> Result<InfoList> {
        let library = library()?;
        let text = |text: &Option<String>| -> Result<Option<CString>> {
            let text = text.as_deref().map(CString::new).transpose();
            text.map_err(|_| Error::INVAL)
        };
        let (node, service) = (text(&self.node)?, text(&self.service)?);
        // SAFETY: fi_getinfo(3): NULL gives an empty entry or NULL.
        let hints = List::new(unsafe { (library.dupinfo)(ptr::null()) }).ok_or(Error::NOMEM)?;
        let mut first = ptr::null_mut();
        // SAFETY: the entry is new, so this is the only access; its parts are NULL or structs of it. The strings are
        // from malloc, as the library frees them. The members exist since version 1.5. `first` is written on success.
        unsafe {
            let info = hints.0.as_ptr();
            (*info).caps = self.caps.bits();
            (*info).mode = FI_CONTEXT | FI_CONTEXT2;
            let (tx, rx, ep) = ((*info).tx_attr, (*info).rx_attr, (*info).ep_attr);
            let (domain, fabric) = ((*info).domain_attr, (*info).fabric_attr);
            if [
                tx.cast::<c_void>(),
                rx.cast(),
                ep.cast(),
                domain.cast(),
                fabric.cast(),
            ]
            .iter()
            .any(|part| part.is_null())
            {
                return Err(Error::NOMEM);
            }
            (*tx).inject_size = self.inject_size;
            (*tx).size = self.tx_size;
            (*tx).msg_order = self.message_order;
            (*rx).size = self.rx_size;
            (*rx).msg_order = self.message_order;
            (*ep).r#type = self.endpoint_type.map_or(FI_EP_UNSPEC, EndpointType::raw);
            (*ep).max_msg_size = self.max_message;
            (*domain).threading = self.threading;
            (*domain).av_type = FI_AV_TABLE;
            // Otherwise a program that posts too much could overrun a queue.
            (*domain).resource_mgmt = FI_RM_ENABLED;
            (*domain).mr_mode = MrMode::SUPPORTED.bits();
            (*domain).cq_data_size = self.cq_data_size;
            (*domain).anonymous.progress = match self.manual_progress {
                Some(true) => FI_PROGRESS_MANUAL,
                Some(false) => FI_PROGRESS_AUTO,
                None => FI_PROGRESS_UNSPEC,
            };
            (*domain).name = duplicate(text(&self.domain)?)?;
            (*fabric).name = duplicate(text(&self.fabric)?)?;
            (*fabric).prov_name = duplicate(text(&self.provider)?)?;
            let pointer =
                |text: &Option<CString>| text.as_ref().map_or(ptr::null(), |text| text.as_ptr());
            let version = (library.version)().min(NEWEST);
            status((library.getinfo)(
                version,
                pointer(&node),
                pointer(&service),
                self.flags,
                info,
                &raw mut first,
            ))?;
        }
        let list = List::new(first).ok_or(Error::NODATA)?;
        Ok(InfoList(Arc::new(list)))
    }
}

/// The newest version of the interface that this crate was written for.
const NEWEST: u32 = FI_MAJOR_VERSION << 16 | FI_MINOR_VERSION;

/// The oldest version whose structs have all members that this crate reads.
const OLDEST: u32 = 1 << 16 | 14;

/// Returns the libfabric of the process.
pub(crate) fn library() -> Result<&'static Library> {
    let library = Library::get().map_err(|_| Error::NODATA)?;
    // SAFETY: fi_version(3) has no requirements.
    match unsafe { (library.version)() } {
        OLDEST.. => Ok(library),
        _ => Err(Error::NODATA),
    }
}

/// Returns a copy of a string that `free` releases; NULL for none.
fn duplicate(text: Option<CString>) -> Result<*mut c_char> {
    let Some(text) = text else {
        return Ok(ptr::null_mut());
    };
    // SAFETY: a string that ends with 0.
    let copy = unsafe { libc::strdup(text.as_ptr()) };
    match copy.is_null() {
        true => Err(Error::NOMEM),
        false => Ok(copy),
    }
}

/// An owned list of the library.
pub(crate) struct List(NonNull<fi_info>);

// SAFETY: this value owns the list, and shared references only read it.
unsafe impl Send for List {}
// SAFETY: the same.
unsafe impl Sync for List {}

impl List {
    fn new(first: *mut fi_info) -> Option<List> {
        NonNull::new(first).map(List)
    }

    /// Copies one entry.
    pub fn copy(info: &Info) -> Result<List> {
        // SAFETY: the entry is an unchanged one of a library's list.
        List::new(unsafe { (library()?.dupinfo)(info.raw()) }).ok_or(Error::NOMEM)
    }

    pub fn get(&self) -> *mut fi_info {
        self.0.as_ptr()
    }
}

impl Drop for List {
    fn drop(&mut self) {
        if let Ok(library) = Library::get() {
            // SAFETY: the library allocated the list, and this is the last value that refers to it.
            unsafe { (library.freeinfo)(self.0.as_ptr()) }
        }
    }
}

/// The entries that match some hints, best first.
#[derive(Clone)]
pub struct InfoList(Arc<List>);

impl InfoList {
    /// Returns the best entry.
    pub fn first(&self) -> Option<Info> {
        self.iter().next()
    }

    /// Returns all entries.
    pub fn iter(&self) -> Infos {
        Infos {
            list: self.0.clone(),
            next: self.0.get(),
        }
    }
}

impl IntoIterator for InfoList {
    type Item = Info;
    type IntoIter = Infos;

    fn into_iter(self) -> Infos {
        self.iter()
    }
}

impl IntoIterator for &InfoList {
    type Item = Info;
    type IntoIter = Infos;

    fn into_iter(self) -> Infos {
        self.iter()
    }
}

impl fmt::Debug for InfoList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Iterator over the entries of an [`InfoList`].
pub struct Infos {
    list: Arc<List>,
    next: *mut fi_info,
}

// SAFETY: `next` is NULL or an entry of `list`, which is only read.
unsafe impl Send for Infos {}
// SAFETY: the same.
unsafe impl Sync for Infos {}

impl Iterator for Infos {
    type Item = Info;

    fn next(&mut self) -> Option<Info> {
        let raw = NonNull::new(self.next)?;
        // SAFETY: an entry of the list, which `self` keeps.
        self.next = unsafe { raw.as_ref().next };
        let list = self.list.clone();
        Some(Info { raw, _list: list })
    }
}

/// One entry: a way to communicate that a provider offers. `Display` is the text of `fi_tostr`.
#[derive(Clone)]
pub struct Info {
    raw: NonNull<fi_info>,
    _list: Arc<List>,
}

// SAFETY: an entry of a list that the value keeps; entries are only read.
unsafe impl Send for Info {}
// SAFETY: the same.
unsafe impl Sync for Info {}

impl Info {
    /// Takes over a list of the library; `None` if it is NULL.
    ///
    /// # Safety
    /// The list belongs to this value alone, and `handle` of its first entry is NULL.
    pub(crate) unsafe fn owned(first: *mut fi_info) -> Option<Info> {
        let list = List::new(first)?;
        Some(Info {
            raw: list.0,
            _list: Arc::new(list),
        })
    }

    /// Returns the C struct, for calls that this crate does not have. It lives as long as the value, and must not be
    /// changed.
    pub fn raw(&self) -> *mut fi_info {
        self.raw.as_ptr()
    }

    pub(crate) fn get(&self) -> &fi_info {
        // SAFETY: an entry of a list that `self` keeps, and that is never changed. The members that this crate reads
        // are the same in all versions since 1.5.
        unsafe { self.raw.as_ref() }
    }

    fn tx(&self) -> Option<&fi_tx_attr> {
        // SAFETY: NULL or a part of the entry. Newer members at its end are not read.
        unsafe { self.get().tx_attr.as_ref() }
    }

    fn rx(&self) -> Option<&fi_rx_attr> {
        // SAFETY: as in `tx`.
        unsafe { self.get().rx_attr.as_ref() }
    }

    pub(crate) fn domain_attr(&self) -> Option<*const fi_domain_attr> {
        let attr = self.get().domain_attr.cast_const();
        (!attr.is_null()).then_some(attr)
    }

    pub(crate) fn ep_attr(&self) -> Option<*const fi_ep_attr> {
        let attr = self.get().ep_attr.cast_const();
        (!attr.is_null()).then_some(attr)
    }

    /// Returns the capabilities.
    pub fn caps(&self) -> Caps {
        Caps::from_bits_retain(self.get().caps)
    }

    /// Returns the kind of endpoint; `None` for kinds that this crate does not know.
    pub fn endpoint_type(&self) -> Option<EndpointType> {
        // SAFETY: a part of the entry; the member is the first.
        match self.ep_attr().map(|attr| unsafe { (*attr).r#type })? {
            FI_EP_RDM => Some(EndpointType::Rdm),
            FI_EP_DGRAM => Some(EndpointType::Dgram),
            FI_EP_MSG => Some(EndpointType::Msg),
            _ => None,
        }
    }

    /// Returns the largest size of a message, in bytes.
    pub fn max_message(&self) -> usize {
        // SAFETY: a part of the entry; the member exists in all versions.
        self.ep_attr()
            .map_or(0, |attr| unsafe { (*attr).max_msg_size })
    }

    /// Returns the largest size of an injected message, in bytes.
    pub fn inject_size(&self) -> usize {
        self.tx().map_or(0, |tx| tx.inject_size)
    }

    /// Returns how many operations that send, read or write may be in flight.
    pub fn tx_size(&self) -> usize {
        self.tx().map_or(0, |tx| tx.size)
    }

    /// Returns how many receives may be posted.
    pub fn rx_size(&self) -> usize {
        self.rx().map_or(0, |rx| rx.size)
    }

    /// Returns how many bytes of data an operation can carry into the completion of the peer: 0 to 8.
    pub fn cq_data_size(&self) -> usize {
        // SAFETY: a part of the entry; the member exists in all versions.
        self.domain_attr()
            .map_or(0, |attr| unsafe { (*attr).cq_data_size })
    }

    /// Returns the duties for registered memory.
    pub fn mr_mode(&self) -> MrMode {
        // SAFETY: a part of the entry; the member exists in all versions.
        let mode = self
            .domain_attr()
            .map_or(0, |attr| unsafe { (*attr).mr_mode });
        MrMode::from_bits_retain(mode)
    }

    /// Returns the name of the provider; layers are joined by ";".
    pub fn provider(&self) -> &str {
        // SAFETY: as `string` requires; the attributes are NULL or a part of the entry.
        unsafe {
            string(
                self,
                self.get().fabric_attr.as_ref().map(|attr| attr.prov_name),
            )
        }
    }

    /// Returns the name of the fabric.
    pub fn fabric(&self) -> &str {
        // SAFETY: as in `provider`.
        unsafe { string(self, self.get().fabric_attr.as_ref().map(|attr| attr.name)) }
    }

    /// Returns the name of the domain.
    pub fn domain(&self) -> &str {
        // SAFETY: as in `provider`; the member exists in all versions.
        unsafe { string(self, self.domain_attr().map(|attr| (*attr).name)) }
    }

    /// Returns the local address, if the entry has one.
    pub fn source(&self) -> Option<Address> {
        // SAFETY: the length belongs to the address.
        unsafe { bytes(self.get().src_addr, self.get().src_addrlen) }
    }

    /// Returns the address of the peer, if hints named one.
    pub fn destination(&self) -> Option<Address> {
        // SAFETY: the length belongs to the address.
        unsafe { bytes(self.get().dest_addr, self.get().dest_addrlen) }
    }
}

/// Returns a string of an entry; "" if it is absent or not UTF-8.
///
/// # Safety
/// `text` is NULL or a string that belongs to the entry.
unsafe fn string(_info: &Info, text: Option<*mut c_char>) -> &str {
    match text {
        // SAFETY: promised by the caller.
        Some(text) if !text.is_null() => unsafe { CStr::from_ptr(text) }.to_str().unwrap_or(""),
        _ => "",
    }
}

/// Returns a copy of an address.
///
/// # Safety
/// `at` is NULL or has `len` bytes.
unsafe fn bytes(at: *const c_void, len: usize) -> Option<Address> {
    if at.is_null() {
        return None;
    }
    // SAFETY: promised by the caller.
    let bytes = unsafe { core::slice::from_raw_parts(at.cast::<u8>(), len) };
    Some(Address::from(bytes.to_vec()))
}

impl fmt::Display for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = vec![0 as c_char; 8192];
        let written = Library::get()
            .ok()
            .and_then(|library| library.tostr_r)
            .map(|tostr| {
                // SAFETY: fi_fabric(3): the data is of this type, and the text with its end fits into the buffer.
                unsafe {
                    tostr(
                        text.as_mut_ptr(),
                        text.len(),
                        self.raw().cast(),
                        FI_TYPE_INFO,
                    )
                }
            });
        match written {
            // SAFETY: the call has written a string.
            Some(_) => f.write_str(&unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy()),
            None => write!(f, "{self:?}"),
        }
    }
}

impl fmt::Debug for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Info")
            .field("provider", &self.provider())
            .field("fabric", &self.fabric())
            .field("domain", &self.domain())
            .field("endpoint_type", &self.endpoint_type())
            .finish_non_exhaustive()
    }
}
