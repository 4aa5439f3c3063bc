// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Completion queues and shared receive contexts of the adapter: their sizes, and waking threads up.

use std::sync::Arc;

use super::super::SOURCE;
use super::{COMPLETIONS, Domain, Queue, Shared};
use base::info::RxAttr;
use base::log::{Subsys, log_info, log_warn};
use base::{Error, Result};
use engine::reactor::Token;
use engine::transport::NewQueue;
use sys::verbs::{self, CompletionQueue, PairQueues, SharedReceives};

/// Size of a shared receive context whose attributes have none.
const DEFAULT_RECEIVES: usize = 384;

/// Fewest entries of a completion queue: some drivers cannot enlarge one, and an endpoint of the default size needs
/// 768.
const FEWEST_ENTRIES: usize = 1024;

impl Domain {
    pub(super) fn open_queue(&mut self, at: usize, new: &NewQueue) -> Result {
        let size = self.clipped(new.size.max(FEWEST_ENTRIES));
        let vector = new.vector.unwrap_or(0);
        // The device has none with this number.
        if vector > 0 && vector >= self.adapter.device.vectors() {
            return Err(Error::INVAL);
        }
        let queue = CompletionQueue::new(self.adapter.device, size, new.waits, vector)?;
        if let Some(channel) = queue.channel() {
            let token = Token::new(COMPLETIONS, at);
            self.reactor.add(channel, token, true, false)?;
        }
        if self.queues.len() <= at {
            self.queues.resize_with(at + 1, || None);
        }
        self.queues[at] = Some(Queue {
            queue: Arc::new(queue),
            reserved: 0,
            used: 0,
            sharing: 0,
        });
        Ok(())
    }

    /// The size of a queue, reduced to what the device has. Requests for which it has no room wait.
    fn clipped(&self, size: usize) -> usize {
        let most = self.most_entries();
        if size > most {
            log_info!(
                &SOURCE,
                Subsys::Cq,
                "a completion queue of {size} entries gets the {most} that the device has"
            );
        }
        size.min(most)
    }

    fn most_entries(&self) -> usize {
        let most = usize::try_from(self.adapter.attributes.max_cqe);
        most.unwrap_or(0).max(1)
    }

    pub(super) fn close_queue(&mut self, at: usize) {
        let queue = self.queues.get_mut(at).and_then(Option::take);
        let channel = queue.as_ref().and_then(|queue| queue.queue.channel());
        // A child shares the set of descriptors that its parent sleeps on.
        if let Some(channel) = channel.filter(|_| verbs::is_here()) {
            self.reactor.remove(channel);
        }
    }

    /// Makes the descriptor readable at the next completion.
    pub(super) fn arm_queue(&mut self, at: usize) {
        let Some(Some(queue)) = self.queues.get(at) else {
            return;
        };
        if queue.queue.channel().is_none() {
            return;
        }
        queue.queue.take_events();
        if let Err(error) = queue.queue.arm() {
            log_warn!(
                &SOURCE,
                Subsys::Cq,
                "a completion queue was not armed: {error}"
            );
        }
    }

    /// Makes room for the requests of an endpoint in its queues, if the driver can enlarge them. Otherwise requests
    /// wait while a queue is full.
    pub(super) fn reserve(&mut self, ep: usize) -> Result {
        let endpoint = self.ep(ep)?;
        let (limits, shares) = (endpoint.limits, endpoint.shared.is_some());
        let (send, receive) = self.queues_of(ep)?;
        let most = self.most_entries();
        for (at, count) in [(send, limits.sends), (receive, limits.receives)] {
            let Some(Some(queue)) = self.queues.get_mut(at) else {
                continue;
            };
            queue.reserved += count as usize;
            queue.sharing += usize::from(shares);
            if !queue.queue.grow(queue.reserved.min(most)) {
                log_info!(
                    &SOURCE,
                    Subsys::Cq,
                    "a completion queue has {} entries for {} requests",
                    queue.queue.capacity(),
                    queue.reserved
                );
            }
        }
        Ok(())
    }

    pub(super) fn unreserve(&mut self, ep: usize) {
        let (Ok(endpoint), Ok((send, receive))) = (self.ep(ep), self.queues_of(ep)) else {
            return;
        };
        let (limits, shares) = (endpoint.limits, endpoint.shared.is_some());
        for (at, count) in [(send, limits.sends), (receive, limits.receives)] {
            if let Some(Some(queue)) = self.queues.get_mut(at) {
                queue.reserved = queue.reserved.saturating_sub(count as usize);
                queue.sharing = queue.sharing.saturating_sub(usize::from(shares));
            }
        }
    }

    pub(super) fn queues_of(&self, ep: usize) -> Result<(usize, usize)> {
        let endpoint = self.ep(ep)?;
        Ok((endpoint.send_queue, endpoint.receive_queue))
    }

    /// The queues for the pair of an endpoint.
    pub(super) fn pair_queues(&self, ep: usize) -> Result<PairQueues> {
        let (send, receive) = self.queues_of(ep)?;
        let queue = |at: usize| {
            let queue = self.queues.get(at).and_then(Option::as_ref);
            queue.map(|queue| queue.queue.clone()).ok_or(Error::NOCQ)
        };
        let shared = match self.ep(ep)?.shared {
            None => None,
            Some(srx) => {
                let shared = self.shared.get(srx).and_then(Option::as_ref);
                Some(shared.ok_or(Error::INVAL)?.queue.clone())
            }
        };
        Ok(PairQueues {
            send: queue(send)?,
            receive: queue(receive)?,
            shared,
        })
    }

    pub(super) fn open_shared(&mut self, srx: usize, attr: &RxAttr) -> Result {
        let or = |n: usize, default: usize| if n == 0 { default } else { n };
        let size = or(attr.size, DEFAULT_RECEIVES);
        let pieces = or(attr.iov_limit, 1);
        let number = |n: usize| u32::try_from(n).map_err(|_| Error::INVAL);
        let queue = SharedReceives::new(&self.protection, number(size)?, number(pieces)?)?;
        if self.shared.len() <= srx {
            self.shared.resize_with(srx + 1, || None);
        }
        self.shared[srx] = Some(Shared {
            queue: Arc::new(queue),
            size,
            receives: slab::Slab::new(),
        });
        Ok(())
    }

    pub(super) fn close_shared(&mut self, srx: usize) {
        if let Some(shared) = self.shared.get_mut(srx) {
            *shared = None;
        }
    }
}
