// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! `struct fi_ops_av`: fi_av(3).

use core::ffi::{c_char, c_int, c_void};
use std::net::IpAddr;

use crate::AddrForm;
use crate::handle::{self, Kind};
use crate::ops::av_set::SetRequest;
use crate::ops::{FromCode, answer, object, status};
use crate::peer::members_of;
use crate::user::{self, Room};
use abi::*;
use base::{Error, Result, Secret};

/// Results of an insertion.
pub struct Inserted {
    /// `Ok(fi_addr)`, or why the address was refused.
    pub results: Vec<Result<u64>>,
    /// The call reports by an event instead of a count (FI_EVENT).
    pub by_event: bool,
}

/// Arguments of an insertion besides the addresses.
pub struct Insertion {
    pub flags: u64,
    pub context: usize,
    /// Identifiers for completions, one for each address, if any (FI_AV_USER_ID).
    pub user_ids: Vec<u64>,
    /// Handles of the keys of the addresses, one for each, if any (FI_AUTH_KEY).
    pub keys: Vec<u64>,
}

pub trait AvCalls: Kind<Head = fid_av> {
    fn addr_form(&self) -> AddrForm;
    fn insert(&self, addrs: &[&[u8]], insertion: Insertion) -> Result<Inserted>;
    /// Resolves names, one address each; a node without a service is an address in the format FI_ADDR_STR.
    fn insert_names(
        &self,
        names: &[(String, Option<String>)],
        insertion: Insertion,
    ) -> Result<Inserted>;
    fn remove(&self, addrs: &[u64], flags: u64) -> Result;
    /// Returns the address as the provider's bytes.
    fn lookup(&self, addr: u64) -> Result<Vec<u8>>;
    fn straddr(&self, addr: &[u8]) -> String;
    fn set_user_id(&self, addr: u64, id: u64, flags: u64) -> Result;
    fn open_set(&self, request: SetRequest, context: *mut c_void) -> Result<*mut fid_av_set>;
    /// Whether the vector belongs to another provider: fi_peer(3).
    fn is_peer(&self) -> bool {
        false
    }
    /// Returns the handle of the key. `NOSYS`: the domain has no keys in its address vectors.
    fn insert_auth_key(&self, key: &[u8], flags: u64) -> Result<u64>;
    /// Returns the key of a handle or of an address.
    fn lookup_auth_key(&self, addr: u64) -> Result<Secret>;
}

pub fn table<T: AvCalls>() -> &'static fi_ops_av {
    &fi_ops_av {
        size: size_of::<fi_ops_av>(),
        insert: Some(insert::<T>),
        insertsvc: Some(insertsvc::<T>),
        insertsym: Some(insertsym::<T>),
        remove: Some(remove::<T>),
        lookup: Some(lookup::<T>),
        straddr: Some(straddr::<T>),
        av_set: Some(av_set::<T>),
        insert_auth_key: Some(insert_auth_key::<T>),
        lookup_auth_key: Some(lookup_auth_key::<T>),
        set_user_id: Some(set_user_id::<T>),
        lookup2: Some(lookup2::<T>),
    }
}

/// # Safety
/// `av` must be NULL or an open address vector.
unsafe fn av<'a, T: AvCalls>(av: *mut fid_av) -> Result<&'a T> {
    // SAFETY: promised by the caller.
    object(unsafe { handle::get::<T, fid_av>(av) })
}

/// Checks the arguments of an insertion. FI_SYNC_ERR needs an array to write to, FI_AV_USER_ID and FI_AUTH_KEY one to
/// read from, unless there is nothing to insert.
///
/// # Safety
/// With FI_AV_USER_ID or FI_AUTH_KEY `fi_addr` must be NULL or have `count` elements.
unsafe fn insertion(
    flags: u64,
    context: *mut c_void,
    fi_addr: *mut fi_addr_t,
    count: usize,
) -> Result<Insertion> {
    let named = flags & (FI_AV_USER_ID | FI_AUTH_KEY) != 0;
    let no_room = flags & FI_SYNC_ERR != 0 && context.is_null();
    if count > 0 && (no_room || (named && fi_addr.is_null())) {
        return Err(Error::INVAL);
    }
    // No array is longer than memory.
    if count > isize::MAX as usize / size_of::<fi_addr_t>() {
        return Err(Error::INVAL);
    }
    let given = 0..if named { count } else { 0 };
    // SAFETY: promised by the caller; not NULL if there are elements.
    let given: Vec<u64> = given.map(|i| unsafe { *fi_addr.add(i) }).collect();
    let (user_ids, keys) = match flags & FI_AUTH_KEY {
        0 => (given, Vec::new()),
        _ => (Vec::new(), given),
    };
    Ok(Insertion {
        flags,
        context: context as usize,
        user_ids,
        keys,
    })
}

/// Writes addresses and errors as fi_av(3) requires; returns the number of inserted addresses.
///
/// # Safety
/// `fi_addr` must be NULL or have room for all results; with FI_SYNC_ERR `context` must be an array of as many int.
unsafe fn hand_out(
    inserted: Inserted,
    fi_addr: *mut fi_addr_t,
    flags: u64,
    context: *mut c_void,
) -> Result<usize> {
    let mut taken = 0;
    for (i, result) in inserted.results.iter().enumerate() {
        taken += usize::from(result.is_ok());
        if !fi_addr.is_null() {
            // SAFETY: room for each result.
            unsafe { fi_addr.add(i).write(result.unwrap_or(FI_ADDR_NOTAVAIL)) };
        }
        if flags & FI_SYNC_ERR != 0 && !context.is_null() {
            let code = result.err().map_or(0, Error::code);
            // SAFETY: fi_av(3): FI_SYNC_ERR: `context` is an array of `count` integers.
            unsafe { context.cast::<c_int>().add(i).write(code) };
        }
    }
    Ok(if inserted.by_event { 0 } else { taken })
}

unsafe extern "C" fn insert<T: AvCalls>(
    a: *mut fid_av,
    addr: *const c_void,
    count: usize,
    fi_addr: *mut fi_addr_t,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    // SAFETY: an open address vector.
    let result = unsafe { av::<T>(a) }.and_then(|av| {
        // SAFETY: fi_av(3): `fi_addr` is an array of `count` addresses.
        let insertion = unsafe { insertion(flags, context, fi_addr, count) }?;
        // SAFETY: fi_av(3): `addr` is an array of `count` addresses in the format of the domain, which the caller does
        // not change during the call.
        let addrs = unsafe { av.addr_form().read_array(addr, count) }?;
        let inserted = av.insert(&addrs, insertion)?;
        // SAFETY: `fi_addr` and `context` as fi_av(3) requires.
        unsafe { hand_out(inserted, fi_addr, flags, context) }
    });
    answer(result)
}

unsafe extern "C" fn insertsvc<T: AvCalls>(
    a: *mut fid_av,
    node: *const c_char,
    service: *const c_char,
    fi_addr: *mut fi_addr_t,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    // SAFETY: an open address vector.
    let result = unsafe { av::<T>(a) }.and_then(|av| {
        // SAFETY: terminated strings or NULL.
        let (node, service) = unsafe { (user::text(node)?, user::text(service)?) };
        let node = node.ok_or(Error::INVAL)?;
        // SAFETY: fi_av(3): `fi_addr` is an array of one address.
        let insertion = unsafe { insertion(flags, context, fi_addr, 1) }?;
        let names = [(node.to_owned(), service.map(str::to_owned))];
        let inserted = av.insert_names(&names, insertion)?;
        // SAFETY: room for one result.
        unsafe { hand_out(inserted, fi_addr, flags, context) }
    });
    answer(result)
}

unsafe extern "C" fn insertsym<T: AvCalls>(
    a: *mut fid_av,
    node: *const c_char,
    nodecnt: usize,
    service: *const c_char,
    svccnt: usize,
    fi_addr: *mut fi_addr_t,
    flags: u64,
    context: *mut c_void,
) -> c_int {
    // SAFETY: an open address vector.
    let result = unsafe { av::<T>(a) }.and_then(|av| {
        // SAFETY: terminated strings or NULL.
        let (node, service) = unsafe { (user::text(node)?, user::text(service)?) };
        let (Some(node), Some(service)) = (node, service) else {
            return Err(Error::INVAL);
        };
        let names = symmetric_names(node, nodecnt, service, svccnt)?;
        // SAFETY: fi_av(3): `fi_addr` is an array of `nodecnt * svccnt` addresses.
        let insertion = unsafe { insertion(flags, context, fi_addr, names.len()) }?;
        let names: Vec<_> = names.into_iter().map(|(n, s)| (n, Some(s))).collect();
        let inserted = av.insert_names(&names, insertion)?;
        // SAFETY: room for `nodecnt * svccnt` results.
        unsafe { hand_out(inserted, fi_addr, flags, context) }
    });
    answer(result)
}

/// fi_av(3), fi_av_insertsym: counts up the number at the end of the node name and the service number; all services for
/// each node.
fn symmetric_names(
    node: &str,
    nodecnt: usize,
    service: &str,
    svccnt: usize,
) -> Result<Vec<(String, String)>> {
    let count = nodecnt.checked_mul(svccnt).filter(|&n| n <= SYM_LIMIT);
    let count = count.ok_or(Error::INVAL)?;
    let first: u32 = service.parse().map_err(|_| Error::INVAL)?;
    if let Ok(ip) = node.parse::<IpAddr>() {
        return Ok(symmetric_addresses(ip, nodecnt, first, svccnt));
    }
    let digits = node.len() - node.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let (stem, number) = node.split_at(node.len() - digits);
    if digits == 0 && nodecnt > 1 {
        return Err(Error::INVAL);
    }
    let start: u64 = match digits {
        0 => 0,
        _ => number.parse().map_err(|_| Error::INVAL)?,
    };
    let mut names = Vec::with_capacity(count);
    for n in 0..nodecnt as u64 {
        let node = match digits {
            0 => stem.to_owned(),
            _ => format!("{stem}{:0digits$}", start + n),
        };
        for s in 0..svccnt as u32 {
            names.push((node.clone(), first.saturating_add(s).to_string()));
        }
    }
    Ok(names)
}

/// Counts up an address as one number over all its bytes.
fn symmetric_addresses(
    ip: IpAddr,
    nodecnt: usize,
    first: u32,
    svccnt: usize,
) -> Vec<(String, String)> {
    let counted = |n: usize| match ip {
        IpAddr::V4(ip) => IpAddr::V4(ip.to_bits().wrapping_add(n as u32).into()),
        IpAddr::V6(ip) => IpAddr::V6(ip.to_bits().wrapping_add(n as u128).into()),
    };
    let mut names = Vec::with_capacity(nodecnt * svccnt);
    for n in 0..nodecnt {
        for s in 0..svccnt as u32 {
            let service = first.saturating_add(s).to_string();
            names.push((counted(n).to_string(), service));
        }
    }
    names
}

/// Limit on addresses in one call; more are a caller's mistake.
const SYM_LIMIT: usize = 1 << 24;

unsafe extern "C" fn remove<T: AvCalls>(
    a: *mut fid_av,
    fi_addr: *mut fi_addr_t,
    count: usize,
    flags: u64,
) -> c_int {
    // SAFETY: an open address vector.
    let result = unsafe { av::<T>(a) }.and_then(|av| {
        // No array is longer than memory.
        if (fi_addr.is_null() && count > 0) || count > isize::MAX as usize / size_of::<u64>() {
            return Err(Error::INVAL);
        }
        // SAFETY: an array of `count` addresses.
        let addrs: Vec<u64> = (0..count).map(|i| unsafe { *fi_addr.add(i) }).collect();
        av.remove(&addrs, flags)
    });
    status(result)
}

unsafe extern "C" fn lookup<T: AvCalls>(
    a: *mut fid_av,
    fi_addr: fi_addr_t,
    addr: *mut c_void,
    addrlen: *mut usize,
) -> c_int {
    // SAFETY: an open address vector.
    let result = unsafe { av::<T>(a) }.and_then(|av| {
        if addrlen.is_null() {
            return Err(Error::INVAL);
        }
        let bytes = av.lookup(fi_addr)?;
        // SAFETY: `addrlen` has the size of the buffer at `addr`, and receives the size of the address.
        unsafe { fill_sized(&bytes, addr, addrlen) }.map(drop)
    });
    status(result)
}

/// fi_av_lookup2: flags request the address in a device's form, which no provider here has.
unsafe extern "C" fn lookup2<T: AvCalls>(
    a: *mut fid_av,
    fi_addr: fi_addr_t,
    addr: *mut c_void,
    addrlen: *mut usize,
    flags: u64,
    _: *mut fid_xpu_ctx,
) -> c_int {
    match flags {
        // SAFETY: the caller's promise, passed on.
        0 => unsafe { lookup::<T>(a, fi_addr, addr, addrlen) },
        _ => Error::NOSYS.negative(),
    }
}

/// Copies what fits and stores the needed length; returns whether everything fitted.
///
/// # Safety
/// `len` must point to the number of bytes at `base`.
pub(super) unsafe fn fill_sized(bytes: &[u8], base: *mut c_void, len: *mut usize) -> Result<bool> {
    // SAFETY: promised by the caller.
    unsafe {
        let room = len.replace(bytes.len());
        if base.is_null() && room > 0 && !bytes.is_empty() {
            return Err(Error::INVAL);
        }
        Ok(Room::new(base, room)?.fill(bytes) == bytes.len())
    }
}

unsafe extern "C" fn straddr<T: AvCalls>(
    a: *mut fid_av,
    addr: *const c_void,
    buf: *mut c_char,
    len: *mut usize,
) -> *const c_char {
    // SAFETY: an open address vector.
    let Ok(av) = (unsafe { av::<T>(a) }) else {
        return core::ptr::null();
    };
    if addr.is_null() || len.is_null() {
        return core::ptr::null();
    }
    // SAFETY: fi_av(3): `addr` is one address in the format of the domain, which the caller does not change during the
    // call.
    let Ok(bytes) = (unsafe { av.addr_form().read(addr) }) else {
        return core::ptr::null();
    };
    let mut text = av.straddr(bytes).into_bytes();
    text.push(0);
    // SAFETY: `len` has the size of the buffer at `buf`, and receives the size of the text.
    let room = unsafe { len.replace(text.len()) };
    if buf.is_null() {
        return core::ptr::null();
    }
    if room > 0 && room < text.len() {
        text.truncate(room);
        text[room - 1] = 0;
    }
    // SAFETY: `buf` has `room` bytes.
    if let Ok(mut room) = unsafe { Room::new(buf.cast(), room) } {
        room.fill(&text);
    }
    buf
}

unsafe extern "C" fn set_user_id<T: AvCalls>(
    a: *mut fid_av,
    fi_addr: fi_addr_t,
    user_id: fi_addr_t,
    flags: u64,
) -> c_int {
    // SAFETY: an open address vector.
    status(unsafe { av::<T>(a) }.and_then(|av| av.set_user_id(fi_addr, user_id, flags)))
}

unsafe extern "C" fn av_set<T: AvCalls>(
    a: *mut fid_av,
    attr: *mut fi_av_set_attr,
    set: *mut *mut fid_av_set,
    context: *mut c_void,
) -> c_int {
    // SAFETY: fi_av_set(3): an open address vector; `attr` is NULL or readable; `set` receives the handle.
    status(unsafe {
        av::<T>(a).and_then(|av| {
            let attr = user::opt(attr).ok_or(Error::INVAL)?;
            let mut request = SetRequest::read(attr);
            if attr.flags & FI_PEER != 0 && av.is_peer() {
                request.members = Some(members_of(context)?);
            }
            user::store(set, || av.open_set(request, context))
        })
    })
}

unsafe extern "C" fn insert_auth_key<T: AvCalls>(
    a: *mut fid_av,
    key: *const c_void,
    size: usize,
    fi_addr: *mut fi_addr_t,
    flags: u64,
) -> c_int {
    // SAFETY: an open address vector.
    status(unsafe { av::<T>(a) }.and_then(|av| {
        if key.is_null() || size == 0 || size > KEY_LIMIT {
            return Err(Error::INVAL);
        }
        // SAFETY: fi_av(3): `key` has `size` bytes, `fi_addr` receives the handle.
        unsafe {
            user::store(fi_addr, || {
                av.insert_auth_key(user::bytes(key, size)?, flags)
            })
        }
    }))
}

/// Limit on a key; no provider has longer ones.
const KEY_LIMIT: usize = 4096;

unsafe extern "C" fn lookup_auth_key<T: AvCalls>(
    a: *mut fid_av,
    fi_addr: fi_addr_t,
    key: *mut c_void,
    size: *mut usize,
) -> c_int {
    // SAFETY: an open address vector.
    status(unsafe { av::<T>(a) }.and_then(|av| {
        if size.is_null() {
            return Err(Error::INVAL);
        }
        let bytes = av.lookup_auth_key(fi_addr)?;
        // SAFETY: `size` has the size of the buffer at `key`, and receives the size of the key.
        unsafe { fill_sized(&bytes, key, size) }.map(drop)
    }))
}

/// Returns FI_ETOOSMALL if the buffer was too short.
pub(super) fn fitted<R: FromCode>(result: Result<bool>) -> R {
    status(result.and_then(|fits| if fits { Ok(()) } else { Err(Error::TOOSMALL) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symmetric_names_count_up_both_numbers() {
        let names = symmetric_names("node08", 3, "100", 2).unwrap();
        let names: Vec<_> = names.iter().map(|(n, s)| format!("{n}:{s}")).collect();
        let want = [
            "node08:100",
            "node08:101",
            "node09:100",
            "node09:101",
            "node10:100",
            "node10:101",
        ];
        assert_eq!(names, want);
        let carried = symmetric_names("127.0.0.255", 2, "1", 1).unwrap();
        assert_eq!(carried[1].0, "127.0.1.0");
        assert!(symmetric_names("node", 2, "100", 1).is_err());
        assert!(symmetric_names("node1", 1, "http", 1).is_err());
        assert!(symmetric_names("n1", usize::MAX, "1", 2).is_err());
        assert_eq!(
            symmetric_names("127.0.0.1", 1, "7", 1).unwrap()[0].0,
            "127.0.0.1"
        );
    }
}
