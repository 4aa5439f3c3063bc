// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Tests a minimal transport: all optional calls return the defaults.

use super::*;
use crate::domain_state::Regions;
use crate::fabric::FabricShared;
use crate::reactor::Reactor;
use abi::FI_ADDR_NOTAVAIL;
use base::rights::KeyPolicy;
use base::{Access, IoVec, OpFlags, Registered};
use object::AddrForm;
use object::ops::transfer::What;
use sync::Serialized;
use sync::Uses;

/// A transport that accepts every operation of an endpoint and records it.
pub(crate) struct Bare {
    reactor: Reactor<()>,
    pub(crate) posted: Vec<usize>,
    /// Endpoints and indexes of the addresses that came or went.
    pub(crate) notified: Vec<(usize, u64)>,
}

static SOURCE: Source = Source::new(c"bare");

pub(crate) struct Texts;

impl Address for String {
    fn from_bytes(bytes: &[u8]) -> Option<String> {
        String::from_utf8(bytes.to_vec()).ok()
    }
    fn to_bytes(&self) -> Vec<u8> {
        self.as_bytes().to_vec()
    }
}

impl AddressFormat for Texts {
    type Addr = String;

    fn form(&self) -> AddrForm {
        AddrForm::Text
    }
    fn text(&self, bytes: &[u8]) -> String {
        String::from_utf8_lossy(bytes).into_owned()
    }
    fn parse(&self, text: &str) -> Option<String> {
        Some(text.to_owned())
    }
    fn resolve(&self, node: &str, service: &str) -> Result<String> {
        Ok(format!("{node}:{service}"))
    }
}

impl Addressing for Bare {
    type Addr = String;
    type Format = Texts;
}

impl Connects for Bare {}
impl Contexts for Bare {}
impl Groups for Bare {}
impl Multicast for Bare {}
impl Atomics for Bare {}
impl Prepares for Bare {}
impl Queues for Bare {}
impl Batches for Bare {}
impl Drains for Bare {}

impl Transport for Bare {
    type Fabric = ();

    const SOURCE: &'static Source = &SOURCE;
    const CQ_SIZE: usize = 8;

    fn open(_fabric: &(), _info: &Info, _: Serialized) -> Result<Bare> {
        Ok(Bare {
            reactor: Reactor::new(crate::clock::Monotonic)?,
            posted: Vec::new(),
            notified: Vec::new(),
        })
    }
    fn format(&self) -> Texts {
        Texts
    }
    fn poll_fd(&self) -> SharedFd {
        self.reactor.shared()
    }
    fn progress(&mut self, _domain: &mut DomainState<String>) {}
    fn open_ep(&mut self, _domain: &mut DomainState<String>, _ep: usize, _info: &Info) -> Result {
        Ok(())
    }
    fn enable_ep(&mut self, _domain: &mut DomainState<String>, _ep: usize) -> Result {
        Ok(())
    }
    fn close_ep(&mut self, _domain: &mut DomainState<String>, _ep: usize) {}
    fn name(&self, ep: usize) -> Result<Vec<u8>> {
        Ok(vec![ep as u8])
    }
    fn set_name(&mut self, _ep: usize, _addr: &[u8]) -> Result {
        Ok(())
    }
    fn av_inserted(&mut self, _domain: &mut DomainState<String>, ep: usize, index: u64) {
        self.notified.push((ep, index));
    }
    fn av_removed(
        &mut self,
        _domain: &mut DomainState<String>,
        ep: usize,
        index: u64,
        _addr: &String,
    ) {
        self.notified.push((ep, index));
    }
    fn transmit(
        &mut self,
        _domain: &mut DomainState<String>,
        ep: usize,
        _tx: &mut Tx<'_>,
    ) -> Result {
        self.posted.push(ep);
        Ok(())
    }
}

fn open() -> (Bare, DomainState<String>) {
    let domain = DomainState::new(Regions::new(KeyPolicy::default()));
    (
        Bare::open(&(), &Info::default(), sync::Serialized::by_test()).unwrap(),
        domain,
    )
}

#[test]
fn calls_of_parts_that_are_not_there_answer_so() {
    let (mut bare, mut domain) = open();
    let domain = &mut domain;
    let fabric = Arc::new(FabricShared::<Bare> {
        provider: (),
        api_version: 2 << 16,
        name: None,
        uses: Uses::default(),
    });
    let none = core::ptr::null_mut();
    assert_eq!(
        Bare::open_pep(&fabric, Info::default(), none),
        Err(Error::NOSYS)
    );
    assert_eq!(bare.connect(domain, 0, None, &[]), Err(Error::NOSYS));
    assert_eq!(bare.accept(domain, 0, &[]), Err(Error::NOSYS));
    assert_eq!(bare.shutdown(domain, 0), Err(Error::NOSYS));
    assert_eq!(bare.peer(0), Err(Error::NOSYS));
    assert_eq!(bare.socket(0).err(), Some(Error::NOSYS));
    assert_eq!(bare.own_rank(0, &[]), Err(Error::NOSYS));
    let group = "group".to_owned();
    let joined = bare.join_multicast(domain, 0, &group, Caps::SEND);
    assert_eq!(joined, Err(Error::NOSYS));
    assert_eq!(bare.set_keys(0, Vec::new()), Err(Error::NOSYS));
    assert_eq!(bare.permit_sharing(0, true), Err(Error::NOPROTOOPT));
    assert_eq!(bare.set_firewalled(0, true), Err(Error::NOPROTOOPT));
}

#[test]
fn nothing_is_held_back_or_owed() {
    let (mut bare, mut domain) = open();
    bare.flush(&mut domain);
    assert!(!bare.holds_back() && !bare.must_flush() && bare.held_back().is_none());
    assert!(!bare.owes(None, true) && bare.close_limit().is_zero());
}

#[test]
fn operations_of_contexts_are_those_of_endpoints() {
    let (mut bare, mut domain) = open();
    let mut tx = Tx {
        what: What::Msg,
        iov: IoVec::empty(),
        flags: OpFlags::empty(),
        dest: FI_ADDR_NOTAVAIL,
        context: object::ops::transfer::Context::default(),
        data: 0,
        tag: 0,
        target: &[],
    };
    assert_eq!(bare.transmit_from(&mut domain, 3, 3, &mut tx), Ok(()));
    assert_eq!(bare.posted, [3]);
}

#[test]
fn memory_is_registered_in_the_table_of_the_domain() {
    let (mut bare, mut domain) = open();
    let request = |requested_key| MrRequest {
        segments: vec![Registered::empty()],
        access: Access::REMOTE_WRITE,
        offset: 0,
        requested_key,
        flags: 0,
        context: 0,
        auth_key_size: 0,
        auth_key: None,
        keys_of: None,
        base: None,
        kind: hmem::Kind::Host,
        device: 0,
        buffer: None,
    };
    let first = bare.register(&mut domain, request(7)).unwrap();
    assert_eq!((first.region.key, first.desc), (7, 0));
    assert_eq!(
        bare.register(&mut domain, request(7)).err(),
        Some(Error::NOKEY)
    );
    assert!(bare.register(&mut domain, request(8)).is_ok());
}
