// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The hook `hmem`: gives data transfers descriptors of device memory that the program has not registered. fi_hook(7).
//!
//! When an operation first names memory of a CUDA device, the hook registers the whole allocation with the domain
//! inside, and all operations on it get the region's descriptor. The program does not see this. A region stays until
//! its memory is found to be freed, or its domain is closed.
//!
//! The hook leaves alone: descriptors given by the program; host memory, including memory that a driver moves (managed
//! memory); calls without a descriptor (fi_inject); collectives and deferred work. Interfaces before 1.9 do not
//! distinguish kinds of memory, so nothing is registered there.
//!
//! The thread of the operation registers the region. If threads must call one object one at a time (FI_THREAD_FID and
//! the like), the provider has to serialize registrations itself.

use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use base::Error;
use base::log::{Source, Subsys, log_info, log_warn};
use base::settings::Settings;
use base::text::error_words;
use client::wrap::{Buffer, Call, Domain, Region, Slot, Watch};
use hmem::cuda::{Allocation, Cuda};

/// Returns `None` if device memory cannot be detected: calls then go straight through.
pub fn start(hooked: &'static Source) -> Option<Box<dyn Watch>> {
    if !Settings::get().wants_hmem("cuda") {
        log_info!(
            hooked,
            Subsys::Mr,
            "hmem: FI_HMEM does not name cuda, and no other device memory can be found"
        );
        return None;
    }
    match Cuda::driver() {
        Ok(cuda) => Some(Box::new(Hmem {
            hooked,
            cuda,
            domains: Mutex::default(),
            keys: AtomicU64::new(0),
        })),
        Err(why) => {
            log_info!(
                hooked,
                Subsys::Mr,
                "hmem: there is no device memory to be found: {why}"
            );
            None
        }
    }
}

struct Hmem {
    hooked: &'static Source,
    cuda: &'static Cuda,
    /// By wrapped domain. No call is made while the lock is held.
    domains: Mutex<BTreeMap<usize, Allocations<Region>>>,
    /// Number of keys that were taken so far.
    keys: AtomicU64,
}

impl Watch for Hmem {
    fn before(&self, call: &mut Call<'_>) -> u64 {
        if call.slot() == const { Slot::of("base", "close") } {
            // A domain cannot be closed while its regions are open. If the close fails because it is busy, they are
            // registered again.
            let regions = self.domains().remove(&call.object());
            drop(regions);
        }
        call.give_descriptors(|buffer| {
            self.describe(buffer);
        });
        0
    }

    fn after(&self, _call: &Call<'_>, _before: u64, _result: i64) {}
}

impl Hmem {
    fn domains(&self) -> MutexGuard<'_, BTreeMap<usize, Allocations<Region>>> {
        self.domains.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn describe(&self, buffer: &mut Buffer<'_>) -> Option<()> {
        let id = self.cuda.device_memory(buffer.address())?;
        if self.describe_known(id, buffer).is_none() {
            self.first_use(buffer.domain(), id, buffer.address())?;
            self.describe_known(id, buffer)?;
        }
        Some(())
    }

    /// Records an allocation, with a region if it can be registered.
    #[cold]
    fn first_use(&self, domain: Domain<'_>, id: u64, address: usize) -> Option<()> {
        let allocation = self.cuda.allocation(address)?;
        let mut domains = self.domains();
        let allocations = domains.entry(domain.object()).or_default();
        let gone = allocations.clear(allocation.base, allocation.len, id);
        drop(domains);
        drop(gone);
        let region = match allocation.managed {
            true => None,
            false => self.register(domain, &allocation),
        };
        let mut domains = self.domains();
        let allocations = domains.entry(domain.object()).or_default();
        let gone = allocations.insert(allocation.base, allocation.len, id, region);
        let asked = allocations.take_due();
        drop(domains);
        drop(gone);
        self.forget_freed(domain.object(), &asked);
        Some(())
    }

    /// Gives a buffer the descriptor of its allocation, if the allocation has one; `None` if the allocation is unknown.
    fn describe_known(&self, id: u64, buffer: &mut Buffer<'_>) -> Option<()> {
        let (address, len) = (buffer.address(), buffer.size());
        let mut domains = self.domains();
        let allocations = domains.get_mut(&buffer.domain().object())?;
        let (base, known) = allocations.find(address, id)?;
        let Some(region) = &known.region else {
            return Some(());
        };
        if len <= known.len - (address - base) {
            buffer.give(region);
            return Some(());
        }
        let (told, whole) = (known.told, known.len);
        known.told = true;
        drop(domains);
        if !told {
            log_warn!(
                self.hooked,
                Subsys::Mr,
                "hmem: {len} bytes at {address:#x} reach beyond the allocation of {whole} bytes at {base:#x}; such \
                 buffers get no descriptor"
            );
        }
        Some(())
    }

    fn register(&self, domain: Domain<'_>, allocation: &Allocation) -> Option<Region> {
        let &Allocation {
            base, len, ordinal, ..
        } = allocation;
        // Relaxed: only the uniqueness of the numbers matters.
        let number = self.keys.fetch_add(1, Ordering::Relaxed);
        let mut result = Err(Error::NOKEY);
        for key in keys(number) {
            result = domain.register_cuda(base, len, ordinal, key);
            if !matches!(
                result,
                Err(Error::NOKEY | Error::KEYREJECTED | Error::INVAL)
            ) {
                break;
            }
        }
        match result {
            Ok(region) => Some(region),
            Err(error) => {
                log_warn!(
                    self.hooked,
                    Subsys::Mr,
                    "hmem: {len} bytes at {base:#x} of CUDA device {ordinal} cannot be registered ({}); operations on \
                     them get no descriptor",
                    error_words(error.code())
                );
                None
            }
        }
    }

    /// Closes regions of memory that was freed.
    fn forget_freed(&self, domain: usize, asked: &[(usize, u64)]) {
        if asked.is_empty() {
            return;
        }
        let freed = asked.iter().copied();
        let freed = freed.filter(|(base, id)| self.cuda.device_memory(*base) != Some(*id));
        let freed: Vec<_> = freed.collect();
        let mut domains = self.domains();
        let allocations = domains.get_mut(&domain);
        let regions = allocations.map(|allocations| allocations.remove(&freed));
        drop(domains);
        drop(regions);
    }
}

/// Returns keys to try one after the other: far from those that programs choose, in lengths that providers accept. The
/// keys are not used, but two regions of a domain must not have the same one. Without FI_MR_PROV_KEY a provider refuses
/// a duplicate with -FI_ENOKEY or -FI_EKEYREJECTED: fi_mr(3).
fn keys(number: u64) -> impl Iterator<Item = u64> {
    [64, 32, 16].into_iter().map(move |bits| {
        let last = u64::MAX >> (64 - bits);
        // FI_KEY_NOTAVAIL has all bits set.
        last - 1 - number % (last / 2)
    })
}

/// Allocations of device memory that a domain has used, each with its region; they do not overlap.
struct Allocations<R> {
    by_base: BTreeMap<usize, Known<R>>,
    /// When this many are known, the hook looks for freed ones.
    limit: usize,
}

struct Known<R> {
    id: u64,
    len: usize,
    /// `None` if it cannot or need not be registered.
    region: Option<R>,
    /// Whether the log has reported a buffer that exceeds the allocation.
    told: bool,
}

const FIRST_LIMIT: usize = 64;

impl<R> Default for Allocations<R> {
    fn default() -> Allocations<R> {
        Allocations {
            by_base: BTreeMap::new(),
            limit: FIRST_LIMIT,
        }
    }
}

impl<R> Allocations<R> {
    /// Returns base and entry of the allocation of an address, unless the entry is of an earlier allocation at that
    /// place.
    fn find(&mut self, address: usize, id: u64) -> Option<(usize, &mut Known<R>)> {
        let (base, known) = self.by_base.range_mut(..=address).next_back()?;
        (known.id == id && address - base < known.len).then_some((*base, known))
    }

    /// Removes the allocations that overlap this one: they have been freed.
    fn clear(&mut self, base: usize, len: usize, id: u64) -> Vec<Known<R>> {
        let below = self.by_base.range(..base.saturating_add(len)).rev();
        let overlapping = below.take_while(|(start, old)| **start + old.len > base);
        let others = overlapping.filter(|(_, old)| old.id != id);
        let others: Vec<usize> = others.map(|(start, _)| *start).collect();
        let taken = others.iter().filter_map(|start| self.by_base.remove(start));
        taken.collect()
    }

    /// Inserts an allocation and returns the entries that it replaces. If another thread has inserted the same one,
    /// that entry stays and the new one is returned.
    fn insert(&mut self, base: usize, len: usize, id: u64, region: Option<R>) -> Vec<Known<R>> {
        let new = Known {
            id,
            len,
            region,
            told: false,
        };
        if self.by_base.get(&base).is_some_and(|old| old.id == id) {
            return vec![new];
        }
        let gone = self.clear(base, len, id);
        self.by_base.insert(base, new);
        gone
    }

    /// Returns base and number of all allocations if there are many now; the caller removes the freed ones.
    fn take_due(&mut self) -> Vec<(usize, u64)> {
        if self.by_base.len() < self.limit {
            return Vec::new();
        }
        self.limit *= 2;
        let all = self.by_base.iter();
        all.map(|(base, known)| (*base, known.id)).collect()
    }

    fn remove(&mut self, freed: &[(usize, u64)]) -> Vec<Known<R>> {
        let mut removed = Vec::new();
        for (base, id) in freed {
            if self.by_base.get(base).is_some_and(|known| known.id == *id) {
                removed.extend(self.by_base.remove(base));
            }
        }
        self.limit = self.by_base.len().saturating_mul(2).max(FIRST_LIMIT);
        removed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns allocations of 0x100 bytes at these addresses, numbered from 1; the region is the number.
    fn of(bases: &[usize]) -> Allocations<u64> {
        let mut allocations = Allocations::default();
        for (base, id) in bases.iter().zip(1..) {
            assert!(allocations.insert(*base, 0x100, id, Some(id)).is_empty());
        }
        allocations
    }

    fn regions(known: Vec<Known<u64>>) -> Vec<u64> {
        known.iter().filter_map(|known| known.region).collect()
    }

    #[test]
    fn an_address_is_found_in_its_allocation() {
        let mut allocations = of(&[0x1000, 0x1100, 0x2000]);
        let mut find = |address, id| allocations.find(address, id).map(|(base, _)| base);
        assert_eq!(find(0x1000, 1), Some(0x1000));
        assert_eq!(find(0x10ff, 1), Some(0x1000));
        assert_eq!(find(0x1100, 2), Some(0x1100));
        assert_eq!(
            (find(0xfff, 1), find(0x1200, 2), find(0x2100, 3)),
            (None, None, None)
        );
    }

    #[test]
    fn memory_at_a_place_that_was_used_before_is_new() {
        let mut allocations = of(&[0x1000]);
        assert!(allocations.find(0x1000, 9).is_none());
        assert_eq!(regions(allocations.insert(0x1000, 0x80, 9, Some(9))), [1]);
        let (base, known) = allocations.find(0x1010, 9).unwrap();
        assert_eq!((base, known.len, known.region), (0x1000, 0x80, Some(9)));
        assert!(allocations.find(0x10f0, 1).is_none());
    }

    #[test]
    fn what_a_new_one_overlaps_has_been_freed() {
        let mut allocations = of(&[0x1000, 0x1100, 0x1200, 0x1300]);
        let mut removed = regions(allocations.insert(0x10f0, 0x200, 9, Some(9)));
        removed.sort();
        assert_eq!(removed, [1, 2, 3]);
        assert!(allocations.find(0x1300, 4).is_some() && allocations.find(0x12ef, 9).is_some());
    }

    #[test]
    fn of_two_threads_that_register_the_same_the_first_counts() {
        let mut allocations = of(&[0x1000]);
        assert_eq!(
            regions(allocations.insert(0x1000, 0x100, 1, Some(77))),
            [77]
        );
        assert_eq!(allocations.find(0x1000, 1).unwrap().1.region, Some(1));
    }

    #[test]
    fn many_are_asked_after_now_and_then() {
        let bases: Vec<usize> = (0..FIRST_LIMIT - 1).map(|i| 0x1000 * (i + 1)).collect();
        let mut allocations = of(&bases);
        assert!(allocations.take_due().is_empty());
        allocations.insert(0xff_0000, 0x100, 1000, None);
        let asked = allocations.take_due();
        assert_eq!((asked.len(), asked[0]), (FIRST_LIMIT, (0x1000, 1)));
        assert!(allocations.take_due().is_empty());
        // One of them has been replaced meanwhile.
        assert_eq!(
            regions(allocations.remove(&[(0x1000, 1), (0x2000, 77), (0x3000, 3)])),
            [1, 3]
        );
        assert_eq!(allocations.by_base.len(), FIRST_LIMIT - 2);
        assert_eq!(allocations.limit, 2 * (FIRST_LIMIT - 2));
    }

    #[test]
    fn keys_differ_and_are_of_three_lengths() {
        let mut all: Vec<u64> = (0..1000).flat_map(keys).collect();
        assert_eq!(all[..3], [u64::MAX - 1, 0xffff_fffe, 0xfffe]);
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 3000);
        assert!(keys(u64::MAX).all(|key| key > 0x7000));
    }
}
