// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Passes this library's entries to objects of other libraries: a layered provider opens the provider below with them.
//!
//! Trusted with: the memory that `Info::write` has just created.

use crate::InfoList;
use base::info::Info;
use base::{Error, Result};

/// Opens an object with one of this library's entries. The entry contains no open objects, because they may be closed
/// by now.
pub fn with_entry<T>(entry: &Info, open: impl FnOnce(crate::Info<'_>) -> Result<T>) -> Result<T> {
    let mut entry = entry.clone();
    (entry.handle, entry.fabric.fabric, entry.domain.domain) = (0, 0, 0);
    let first = entry.write()?;
    // SAFETY: `write` has just created the entry, and it was not shared.
    let list = unsafe { InfoList::from_raw(first) };
    open(list.first().ok_or(Error::NODATA)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_of_ours_goes_to_c_without_open_objects() {
        let mut ours = Info::default();
        (ours.handle, ours.fabric.fabric, ours.domain.domain) = (1, 2, 3);
        ours.fabric.prov_name = Some(c"below".into());
        let seen = with_entry(&ours, |info| {
            let (raw, domain) = (info.raw(), info.domain().unwrap());
            let objects = [raw.handle.addr(), domain.domain.addr()];
            Ok((info.provider(), objects))
        });
        assert_eq!(seen, Ok((Some("below".to_owned()), [0, 0])));
    }
}
