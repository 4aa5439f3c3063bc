// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Collectives of transports that have no frames of their own: each frame travels in messages, which go to a receive
//! context of the endpoint that the application does not see. docs/wire/collectives.md
//!
//! A collective has succeeded when the messages that it has sent are complete, so that the application may end or
//! close the endpoint.

mod numbering;
mod packet;
mod post;

use core::mem;

use self::post::Post;
use crate::coll::Token;
use crate::domain_state::DomainState;
use crate::ep_state::Role;
use crate::peer::post::Posts;
use crate::transport::{Address, DomainStateOf};
use base::{Caps, Error, Result};
use object::ops::transfer::What;

/// How messages of collectives differ from those of the application.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub what: What,
    pub tag: u64,
    /// The number of the peer's receive context.
    pub context: u8,
}

/// A transport whose endpoints carry collectives in messages.
pub trait Carries: Posts {
    const TARGET: Target;

    fn messages(&mut self) -> &mut Messages<Self::Addr>;
    /// Most bytes of one message, such that it arrives as a whole.
    fn packet(&self) -> usize;
}

/// The messages of a domain's endpoints.
pub struct Messages<A> {
    posts: Vec<Post<A>>,
}

impl<A> Default for Messages<A> {
    fn default() -> Self {
        Messages { posts: Vec::new() }
    }
}

impl<A: Address> Messages<A> {
    /// Whether there is nothing to poll.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.posts.is_empty()
    }

    /// Whether messages wait until the transport takes more.
    pub fn has_unsent(&self) -> bool {
        self.posts.iter().any(Post::has_unsent)
    }

    /// Like `close`, if operations that are not complete may still read their memory, which is then not used again.
    pub fn abandon(&mut self, domain: &mut DomainState<A>, ep: usize) {
        if let Some(post) = self.posts.iter_mut().find(|post| post.ep() == ep) {
            post.leave_memory();
        }
        self.close(domain, ep);
    }

    /// Called after the endpoint was closed: no operation of it uses any memory.
    pub fn close(&mut self, domain: &mut DomainState<A>, ep: usize) {
        domain.groups.forget(ep);
        if let Some(at) = self.posts.iter().position(|post| post.ep() == ep) {
            self.posts.swap_remove(at).close(domain);
        }
    }
}

/// Prepares an endpoint that is being enabled, if it has the capability. Up to `limit` bytes of frames that arrive
/// early are kept.
pub fn open<T: Carries>(
    transport: &mut T,
    domain: &mut DomainStateOf<T>,
    ep: usize,
    limit: usize,
) -> Result {
    let state = &domain.eps[ep];
    // Contexts of the application have the numbers that a scalable endpoint would need.
    if state.role == Role::Endpoint && state.caps.contains(Caps::COLLECTIVE) {
        let post = Post::open(T::SOURCE, &T::TARGET, domain, ep)?;
        transport.messages().posts.push(post);
        domain.groups.open_lane(ep, limit, packet::HEADER);
        domain.groups.defer_losses(ep);
    }
    Ok(())
}

/// Joins a group whose number a member chooses: `Groups::NAMELESS`.
pub fn join<T: Carries>(
    transport: &mut T,
    domain: &mut DomainStateOf<T>,
    ep: usize,
    (number, alone): (u64, bool),
    token: Token,
) {
    let posts = &mut transport.messages().posts;
    match posts.iter_mut().find(|post| post.ep() == ep) {
        Some(post) => post.join(domain, number, alone, token),
        None => domain.collective_over(ep, token, Err(Error::INVAL)),
    }
    poll(transport, domain);
}

/// Moves the collectives of all endpoints on.
#[inline]
pub fn poll<T: Carries>(transport: &mut T, domain: &mut DomainStateOf<T>) {
    if !transport.messages().is_empty() {
        poll_all(transport, domain);
    }
}

#[inline(never)]
fn poll_all<T: Carries>(transport: &mut T, domain: &mut DomainStateOf<T>) {
    // A transport may poll while a message is posted; that poll finds nothing.
    let mut all = mem::take(transport.messages());
    for post in &mut all.posts {
        post.poll(transport, domain);
    }
    *transport.messages() = all;
}
