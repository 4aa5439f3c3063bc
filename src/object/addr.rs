// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Addresses in C's memory. No call gives their length: it follows from their bytes and format.

use core::ffi::{CStr, c_void};
use core::slice;

use base::{Error, Result};
use sys::addr::len_at;

/// How to find the end of an address.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AddrForm {
    /// `struct sockaddr_in` or `struct sockaddr_in6`: the length follows from the family at the start.
    Socket,
    /// A string including its terminating zero (FI_ADDR_STR).
    Text,
    /// A struct of this many bytes.
    Bytes(usize),
    /// A name of lnx: a head, and parts whose lengths it gives. See docs/wire/lnx.md.
    Linked,
}

/// The places in a name of lnx.
pub mod linked {
    /// Bytes of the host name, and of the fabric name of a part.
    pub const NAME: usize = 64;
    /// Bytes of the head: the host name, the number of parts, and `MARK` if an extension follows.
    pub const HEAD: usize = NAME + 8;
    /// Bytes of the head of a part: the fabric name, and the number of bytes of its address.
    pub const PART: usize = NAME + 8;
    /// Parts at most, and bytes of an address.
    pub const PARTS: usize = 1024;
    pub const ADDRESS: usize = 4096;
    /// In the last bytes of the head, and of its host name: after the parts there is an extension, which begins with
    /// its length in bytes (32 bits).
    pub const MARK: [u8; 4] = *b"+ifb";
    /// Bytes of an extension at most.
    pub const EXTENSION: usize = 65536;
    /// The start of a name in the short form, followed by its length in one byte. No host name starts like this.
    pub const SHORT: [u8; 4] = *b"\x01lnx";
}

impl AddrForm {
    /// Returns the bytes of one address, or none if its family is unknown.
    ///
    /// # Safety
    /// `addr` must be NULL or an address of this form, readable and unchanged for `'a`.
    pub unsafe fn read<'a>(self, addr: *const c_void) -> Result<&'a [u8]> {
        if addr.is_null() {
            return Err(Error::INVAL);
        }
        match self {
            AddrForm::Socket => {
                // SAFETY: promised by the caller: an address, which has as many bytes as its family says.
                Ok(unsafe { slice::from_raw_parts(addr.cast(), len_at(addr.cast())) })
            }
            // SAFETY: promised by the caller: an address, which has this many bytes.
            AddrForm::Bytes(len) => Ok(unsafe { slice::from_raw_parts(addr.cast(), len) }),
            // SAFETY: promised by the caller: a name whose parts are as long as it says.
            AddrForm::Linked => unsafe { read_linked(addr.cast()) },
            // SAFETY: promised by the caller: a terminated string.
            AddrForm::Text => Ok(unsafe { CStr::from_ptr(addr.cast()) }.to_bytes_with_nul()),
        }
    }

    /// Returns the addresses of an array: sockets of one family, structs, or strings, one directly after the other.
    /// fi_av(3) describes pointers to strings, but programs and libfabric use this form.
    ///
    /// # Safety
    /// `addrs` must be NULL or an array of `count` addresses of this form, readable and unchanged for `'a`.
    pub unsafe fn read_array<'a>(
        self,
        addrs: *const c_void,
        count: usize,
    ) -> Result<Vec<&'a [u8]>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        // SAFETY: promised by the caller: there is at least one.
        let first = unsafe { self.read(addrs) }?;
        // No array is longer than memory.
        let most = isize::MAX as usize;
        let is_even = !matches!(self, AddrForm::Text | AddrForm::Linked);
        if is_even && first.len().checked_mul(count).is_none_or(|len| len > most) {
            return Err(Error::INVAL);
        }
        let mut at = addrs;
        let mut next = || {
            let bytes = match self {
                // SAFETY: promised by the caller: all addresses of the array are as long as the first.
                AddrForm::Socket | AddrForm::Bytes(_) => unsafe {
                    slice::from_raw_parts(at.cast(), first.len())
                },
                // SAFETY: promised by the caller: at most `count` addresses are read.
                AddrForm::Text | AddrForm::Linked => unsafe { self.read(at) }?,
            };
            // SAFETY: not beyond the end of this address, which is in the array.
            at = unsafe { at.byte_add(bytes.len()) };
            Ok(bytes)
        };
        (0..count).map(|_| next()).collect()
    }
}

/// Returns the bytes of a name of lnx; `INVAL` if its numbers make no sense.
///
/// # Safety
/// A name of this form, readable and unchanged for `'a`.
unsafe fn read_linked<'a>(addr: *const u8) -> Result<&'a [u8]> {
    use linked::*;
    // SAFETY: the caller's promise: the name has at least the bytes that it says it has up to here.
    let upto = |len: usize| unsafe { slice::from_raw_parts(addr, len) };
    let word = |bytes: &[u8]| bytes.first_chunk().map(|&bytes| u32::from_ne_bytes(bytes));
    if upto(SHORT.len()) == SHORT {
        let len = upto(SHORT.len() + 1)[SHORT.len()].into();
        return match len > SHORT.len() {
            true => Ok(upto(len)),
            false => Err(Error::INVAL),
        };
    }
    let head = upto(HEAD);
    let parts = word(&head[NAME..]).ok_or(Error::INVAL)? as usize;
    if parts > PARTS {
        return Err(Error::INVAL);
    }
    let mut len = HEAD;
    for _ in 0..parts {
        let part = &upto(len + PART)[len..];
        let bytes = part[NAME..].first_chunk().ok_or(Error::INVAL)?;
        let bytes = u64::from_ne_bytes(*bytes);
        len += PART
            + usize::try_from(bytes)
                .unwrap_or(usize::MAX)
                .min(ADDRESS + 1);
        if bytes > ADDRESS as u64 {
            return Err(Error::INVAL);
        }
    }
    if head[NAME + 4..] == MARK && head[NAME - 4..NAME] == MARK {
        let extension = word(&upto(len + 4)[len..]).ok_or(Error::INVAL)? as usize;
        if !(4..=EXTENSION).contains(&extension) {
            return Err(Error::INVAL);
        }
        len += extension;
    }
    Ok(upto(len))
}

#[cfg(test)]
mod tests {
    use core::ptr::null;

    use super::*;
    use sys::addr::to_bytes;

    #[test]
    fn strings_follow_one_another() {
        let array = b"fi_shm://a\0fi_shm://bbbb\0\0c\0further";
        // SAFETY: four strings.
        let found = unsafe { AddrForm::Text.read_array(array.as_ptr().cast(), 4) }.unwrap();
        let expected: [&[u8]; 4] = [b"fi_shm://a\0", b"fi_shm://bbbb\0", b"\0", b"c\0"];
        assert_eq!(found, expected);
    }

    #[test]
    fn sockets_are_as_long_as_the_first() {
        let of = |text: &str| to_bytes(&text.parse().unwrap());
        for (a, b) in [("10.0.0.1:1", "10.0.0.2:2"), ("[::1]:1", "[::2]:2")] {
            let array = [of(a), of(b)].concat();
            // SAFETY: two addresses of one family.
            let found = unsafe { AddrForm::Socket.read_array(array.as_ptr().cast(), 2) }.unwrap();
            assert_eq!(found, [of(a), of(b)]);
            // SAFETY: as above.
            let first = unsafe { AddrForm::Socket.read(array.as_ptr().cast()) };
            assert_eq!(first, Ok(&*of(a)));
        }
    }

    #[test]
    fn structs_have_their_size() {
        let array: [u8; 6] = [1, 2, 3, 4, 5, 6];
        let form = AddrForm::Bytes(3);
        // SAFETY: two structs.
        let found = unsafe { form.read_array(array.as_ptr().cast(), 2) }.unwrap();
        assert_eq!(found, [&array[..3], &array[3..]]);
        // SAFETY: refused before more than the first is read.
        let found = unsafe { form.read_array(array.as_ptr().cast(), usize::MAX / 2) };
        assert_eq!(found, Err(Error::INVAL));
    }

    /// A name of lnx with these addresses.
    fn name(addresses: &[&[u8]], extension: Option<u32>) -> Vec<u8> {
        let mut bytes = vec![b'h'; linked::NAME];
        bytes.extend((addresses.len() as u32).to_ne_bytes());
        bytes.extend([7; 4]);
        if extension.is_some() {
            bytes[60..64].copy_from_slice(&linked::MARK);
            bytes[68..].copy_from_slice(&linked::MARK);
        }
        for address in addresses {
            bytes.extend([b'f'; linked::NAME]);
            bytes.extend((address.len() as u64).to_ne_bytes());
            bytes.extend(*address);
        }
        if let Some(len) = extension {
            bytes.extend(len.to_ne_bytes());
            bytes.resize(bytes.len() + (len as usize).saturating_sub(4).min(99), 5);
        }
        bytes
    }

    #[test]
    fn names_of_lnx_end_where_they_say() {
        let short = [&linked::SHORT[..], &[9, 1, 2, 3, 4]].concat();
        let names = [
            name(&[b"abc", b""], None),
            short,
            name(&[], Some(20)),
            name(&[b"x"], None),
        ];
        let mut array = names.concat();
        array.extend([9; 80]);
        // SAFETY: four names.
        let found = unsafe { AddrForm::Linked.read_array(array.as_ptr().cast(), 4) }.unwrap();
        assert_eq!(found, names);
        let mut many = name(&[], None);
        many[64..68].copy_from_slice(&4096_u32.to_ne_bytes());
        let mut long = name(&[b"x"], None);
        long[136..144].copy_from_slice(&u64::MAX.to_ne_bytes());
        let empty = [&linked::SHORT[..], &[4]].concat();
        for wrong in [
            many,
            long,
            name(&[], Some(3)),
            name(&[], Some(1 << 20)),
            empty,
        ] {
            // SAFETY: nothing behind the wrong number is read.
            let found = unsafe { AddrForm::Linked.read(wrong.as_ptr().cast()) };
            assert_eq!(found, Err(Error::INVAL));
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let array = to_bytes(&"10.0.0.1:1".parse().unwrap());
        for form in [AddrForm::Socket, AddrForm::Text, AddrForm::Bytes(4)] {
            // SAFETY: NULL is allowed.
            assert_eq!(unsafe { form.read(null()) }, Err(Error::INVAL));
            // SAFETY: as above.
            assert_eq!(unsafe { form.read_array(null(), 1) }, Err(Error::INVAL));
            // SAFETY: as above.
            assert_eq!(unsafe { form.read_array(null(), 0) }, Ok(Vec::new()));
        }
        // SAFETY: refused before more than the first is read.
        let found = unsafe { AddrForm::Socket.read_array(array.as_ptr().cast(), usize::MAX / 2) };
        assert_eq!(found, Err(Error::INVAL));
        let unknown = [0; 16];
        // SAFETY: of an unknown family only the family field is read.
        let found = unsafe { AddrForm::Socket.read_array(unknown.as_ptr().cast(), 2) };
        assert_eq!(found, Ok(vec![&[][..]; 2]));
    }
}
