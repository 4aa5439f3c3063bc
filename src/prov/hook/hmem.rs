// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! The hook `hmem`: gives data transfers descriptors of device memory that the program has not registered. fi_hook(7).
//!
//! Memory of a CUDA device is registered with the domain inside when an operation first names it, whole allocations at
//! a time, and all operations on it get the region's descriptor. The program sees nothing of it. A region stays until
//! its memory is found to be freed, or its domain is closed.
//!
//! Left alone are descriptors that the program gives; memory of the host, also such as a driver moves (managed memory);
//! calls that take no descriptor (fi_inject); collectives and deferred work. Interfaces before 1.9 have no kinds of
//! memory; there nothing is registered.
//!
//! A region is registered in the thread of the operation. Where threads are to call one object one at a time
//! (FI_THREAD_FID and the like), the provider has to order registrations itself.

use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::base::Error;
use crate::base::log::{Source, Subsys, log_info, log_warn};
use crate::base::settings::Settings;
use crate::base::text::error_words;
use crate::ffi::wrap::{Call, Descriptor, Domain, Region, Slot, Watch};
use crate::hmem::cuda::{Allocation, Cuda};

/// Nothing, if there is no device memory to be found: then calls go straight through.
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
    /// By the domains inside. No call is made while it is locked.
    domains: Mutex<BTreeMap<usize, Allocations<Region>>>,
    /// How many have been asked for.
    keys: AtomicU64,
}

impl Watch for Hmem {
    fn before(&self, call: &mut Call<'_>) -> u64 {
        if call.slot == const { Slot::of("base", "close") } {
            // With its regions open, a domain could not be closed. Those of one that is busy are registered anew.
            let regions = self.domains().remove(&call.object);
            drop(regions);
        }
        call.give_descriptors(|domain, address, len| self.descriptor(domain, address, len));
        0
    }

    fn after(&self, _call: &Call<'_>, _before: u64, _result: i64) {}
}

impl Hmem {
    fn domains(&self) -> MutexGuard<'_, BTreeMap<usize, Allocations<Region>>> {
        self.domains.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    fn descriptor(&self, domain: Domain<'_>, address: usize, len: usize) -> Option<Descriptor> {
        let id = self.cuda.device_memory(address)?;
        if let Some(known) = self.known(domain.object(), id, address, len) {
            return known;
        }
        self.first_use(domain, id, address)?;
        self.known(domain.object(), id, address, len)?
    }

    /// Makes an allocation known, with a region if it can have one.
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

    /// What operations on a buffer get, if its allocation is known: a descriptor, or nothing.
    fn known(
        &self,
        domain: usize,
        id: u64,
        address: usize,
        len: usize,
    ) -> Option<Option<Descriptor>> {
        let mut domains = self.domains();
        let (base, known) = domains.get_mut(&domain)?.find(address, id)?;
        let Some(region) = &known.region else {
            return Some(None);
        };
        if len <= known.len - (address - base) {
            return Some(region.descriptor());
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
        Some(None)
    }

    fn register(&self, domain: Domain<'_>, allocation: &Allocation) -> Option<Region> {
        let &Allocation {
            base, len, ordinal, ..
        } = allocation;
        // Relaxed: numbers that differ.
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

    /// Closes regions of memory that is not there any more.
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

/// Keys to try, one after the other: far from those that programs choose, and of lengths that providers take. Nobody
/// uses them, but no two regions of a domain may have the same. Without FI_MR_PROV_KEY a provider refuses one with
/// -FI_ENOKEY or -FI_EKEYREJECTED: fi_mr(3).
fn keys(number: u64) -> impl Iterator<Item = u64> {
    [64, 32, 16].into_iter().map(move |bits| {
        let last = u64::MAX >> (64 - bits);
        // FI_KEY_NOTAVAIL has all bits set.
        last - 1 - number % (last / 2)
    })
}

/// Allocations of device memory that a domain has seen, with a region each; they do not overlap.
struct Allocations<R> {
    by_base: BTreeMap<usize, Known<R>>,
    /// With so many, those are looked for that have been freed.
    limit: usize,
}

struct Known<R> {
    id: u64,
    len: usize,
    /// Nothing, if it cannot or need not be registered.
    region: Option<R>,
    /// The log has a line of a buffer that is not within it.
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
    /// Base and more of the allocation of an address; not one that has been at the same place before.
    fn find(&mut self, address: usize, id: u64) -> Option<(usize, &mut Known<R>)> {
        let (base, known) = self.by_base.range_mut(..=address).next_back()?;
        (known.id == id && address - base < known.len).then_some((*base, known))
    }

    /// Takes out those that overlap this one: they have been freed.
    fn clear(&mut self, base: usize, len: usize, id: u64) -> Vec<Known<R>> {
        let below = self.by_base.range(..base.saturating_add(len)).rev();
        let overlapping = below.take_while(|(start, old)| **start + old.len > base);
        let others = overlapping.filter(|(_, old)| old.id != id);
        let others: Vec<usize> = others.map(|(start, _)| *start).collect();
        let taken = others.iter().filter_map(|start| self.by_base.remove(start));
        taken.collect()
    }

    /// What goes for this one. If another thread has put in the same, that stays, and this one goes.
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

    /// Base and number of all, if there are many now: whoever gets them removes those that have been freed.
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

    /// Allocations of 0x100 bytes at these places, numbered from 1 on; the region is the number.
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
        // One of them is another by now.
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
