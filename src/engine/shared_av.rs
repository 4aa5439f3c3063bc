// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Applies changes of named address vectors by other processes, and makes changes there: fi_av(3).

use crate::named_av::{Change, NamedAv};
use crate::peer_index::{inserted, removed};
use crate::transport::{DomainStateOf, Transport};
use base::{Error, Result};

/// Applies what other processes have inserted and removed. Does nothing if the vector is not shared.
pub fn renew<T: Transport>(transport: &mut T, domain: &mut DomainStateOf<T>, av: usize) -> Result {
    let news = domain.avs[av].read_news()?;
    for at in news.inserted {
        inserted(transport, domain, av, at);
    }
    for (at, addr) in news.removed {
        removed(transport, domain, av, at, &addr);
    }
    Ok(())
}

/// Makes changes that all processes see. There is one result per change: the index, and whether the address is new
/// there; or the address that was removed.
///
/// `ACCES`: the vector was opened read-only.
pub fn change<T: Transport>(
    transport: &mut T,
    domain: &mut DomainStateOf<T>,
    av: usize,
    changes: impl Iterator<Item = Result<Change<T::Addr>>>,
) -> Result<Vec<Result<u64>>> {
    let named = |domain: &DomainStateOf<T>, act: fn(&NamedAv) -> Result| {
        domain.avs[av].named.as_ref().map_or(Err(Error::INVAL), act)
    };
    named(domain, NamedAv::lock)?;
    let results = renew(transport, domain, av).map(|()| {
        let mut apply = |change| match change {
            Change::Insert(addr) => {
                let (at, new) = domain.avs[av].insert_named(addr)?;
                if new {
                    inserted(transport, domain, av, at);
                }
                Ok(at)
            }
            Change::Remove(at) => {
                if let Some(addr) = domain.avs[av].remove_named(at)? {
                    removed(transport, domain, av, at, &addr);
                }
                Ok(at)
            }
        };
        changes.map(|change| change.and_then(&mut apply)).collect()
    });
    named(domain, |named| {
        named.unlock();
        Ok(())
    })?;
    results
}
