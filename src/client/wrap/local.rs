// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Local buffers of data transfers, and descriptors for buffers that have none: fi_msg(3), fi_tagged(3), fi_rma(3),
//! fi_atomic(3), "Local access" of fi_mr(3).
//!
//! Arrays and structs of the application are not written to: if one must change, the call gets a copy that lives as
//! long as the call. The arguments have not been checked yet. Invalid ones are passed on unchanged; the provider
//! rejects them.
//!
//! Trusted with: reading the vectors and structs that the pages describe.

use core::ffi::c_void;
use core::mem::offset_of;
use core::ptr;

use super::call::{Call, Name, Raw};
use super::region::{Buffer, Descriptor};
use abi::*;

/// Longer vectors are passed on unchanged, because the provider rejects them (iov_limit).
const MAX_COUNT: usize = 64;

/// Called with address and length of each buffer without a descriptor, the length as in `Buffer::size`.
type Give<'g> = dyn FnMut(usize, usize) -> Option<Descriptor> + 'g;

// A vector of elements has the shape of a vector of bytes.
const _: () = {
    assert!(offset_of!(fi_ioc, addr) == offset_of!(iovec, iov_base));
    assert!(offset_of!(fi_ioc, count) == offset_of!(iovec, iov_len));
    assert!(size_of::<fi_ioc>() == size_of::<iovec>());
};

impl Call<'_> {
    /// Calls `give` for each local buffer of a data transfer that has no descriptor, and inserts the descriptor that
    /// the buffer gets. Calls that take no descriptor are not changed.
    #[inline]
    pub fn give_descriptors(&mut self, mut give: impl FnMut(&mut Buffer<'_>)) {
        if !self.slot.transfers() {
            return;
        }
        if let Some(domain) = self.domain() {
            self.give_each(&mut |address, len| {
                let mut buffer = Buffer::new(domain, address, len);
                give(&mut buffer);
                buffer.given()
            });
        }
    }

    fn give_each(&mut self, give: &mut Give<'_>) {
        if self.argument(Name::msg).is_some() {
            // SAFETY: the struct of the page of the call.
            unsafe {
                match self.slot.table() {
                    "msg" => self.in_message::<fi_msg>(give),
                    // fi_tagged(3): with these flags the vector is ignored.
                    "tagged" if self.flags() & (FI_PEEK | FI_DISCARD) != 0 => (),
                    "tagged" => self.in_message::<fi_msg_tagged>(give),
                    "rma" => self.in_message::<fi_msg_rma>(give),
                    _ => self.in_message::<fi_msg_atomic>(give),
                }
            }
        } else if self.argument(Name::iov).is_some() {
            self.vector(Name::iov, Name::desc, Name::count, give);
        } else {
            self.buffer(Name::buf, Name::desc, give);
        }
        self.vector(Name::resultv, Name::result_desc, Name::result_count, give);
        self.buffer(Name::result, Name::result_desc, give);
        self.vector(
            Name::comparev,
            Name::compare_desc,
            Name::compare_count,
            give,
        );
        self.buffer(Name::compare, Name::compare_desc, give);
    }

    /// Handles a buffer that is an argument, if the call has this argument and its descriptor.
    fn buffer(&mut self, address: Name, descriptor: Name, give: &mut Give<'_>) {
        if let (Some(address), Some(0)) = (self.argument(address), self.argument(descriptor)) {
            let size = self.argument(Name::len).or(self.argument(Name::count));
            if let Some(given) = ask(give, address as usize, size.unwrap_or(0) as usize) {
                self.put(descriptor, given.0.as_ptr().number());
            }
        }
    }

    /// Handles a vector that is an argument, if the call has this argument.
    fn vector(&mut self, pieces: Name, array: Name, number: Name, give: &mut Give<'_>) {
        let arguments = (self.argument(pieces), self.argument(array));
        let (Some(iov), Some(desc)) = arguments else {
            return;
        };
        let count = self.argument(number).unwrap_or(0) as usize;
        let (iov, desc) = (Raw::of_number(iov), Raw::of_number(desc));
        // SAFETY: the pages above: the vector has `count` pieces, and `count` descriptors or none.
        if let Some(given) = unsafe { completed(iov, desc, count, give) } {
            let given = self.keep(given);
            self.put(array, given.number());
        }
    }

    /// Handles the vector of a message; if a descriptor is inserted, the call gets a copy of the message.
    ///
    /// # Safety
    /// The argument `msg` is such a struct or NULL.
    unsafe fn in_message<M: Message>(&mut self, give: &mut Give<'_>) {
        let message: *const M = Raw::of_number(self.argument(Name::msg).unwrap_or(0));
        // SAFETY: promised by the caller.
        let Some(message) = (unsafe { message.as_ref() }).copied() else {
            return;
        };
        let (iov, array, count) = message.vector();
        // SAFETY: the pages above: the vector has `count` pieces, and `count` descriptors or none.
        if let Some(given) = unsafe { completed(iov, array, count, give) } {
            let array = self.keep(given);
            let copy = self.keep(vec![message.with_desc(array)]);
            self.put(Name::msg, copy.number());
        }
    }

    fn flags(&self) -> u64 {
        self.argument(Name::flags).unwrap_or(0)
    }

    /// Replaces an argument.
    fn put(&mut self, which: Name, number: u64) {
        let place = self.names.iter().position(|other| *other == which);
        if let Some(value) = place.and_then(|place| self.values.get_mut(place)) {
            *value = number;
        }
    }

    /// Keeps an array for the duration of the call. Its elements stay in place when the `Vec` moves.
    fn keep<T: 'static>(&mut self, mut array: Vec<T>) -> *mut T {
        let elements = array.as_mut_ptr();
        self.kept.push(Box::new(array));
        elements
    }
}

/// Returns the descriptors of a vector including the ones that were missing, or None if none is added.
///
/// # Safety
/// Both are NULL or have `count` elements, unless `count` is above `MAX_COUNT`: then they are not read.
unsafe fn completed(
    iov: *const iovec,
    desc: *const *mut c_void,
    count: usize,
    give: &mut Give<'_>,
) -> Option<Vec<*mut c_void>> {
    if iov.is_null() || count > MAX_COUNT {
        return None;
    }
    let before = |place: usize| match desc.is_null() {
        true => ptr::null_mut(),
        // SAFETY: promised by the caller.
        false => unsafe { *desc.add(place) },
    };
    let mut after: Option<Vec<*mut c_void>> = None;
    for place in (0..count).filter(|place| before(*place).is_null()) {
        // SAFETY: promised by the caller.
        let piece = unsafe { *iov.add(place) };
        if let Some(given) = ask(give, piece.iov_base.addr(), piece.iov_len) {
            after.get_or_insert_with(|| (0..count).map(before).collect())[place] = given.0.as_ptr();
        }
    }
    after
}

/// Calls `give`; returns None for an empty buffer.
fn ask(give: &mut Give<'_>, address: usize, len: usize) -> Option<Descriptor> {
    match address == 0 || len == 0 {
        true => None,
        false => give(address, len),
    }
}

/// Members that all message structs have.
trait Message: Copy + 'static {
    fn vector(&self) -> (*const iovec, *const *mut c_void, usize);
    fn with_desc(self, desc: *mut *mut c_void) -> Self;
}

macro_rules! messages {
    ($($type:ident)*) => { $(
        impl Message for $type {
            fn vector(&self) -> (*const iovec, *const *mut c_void, usize) {
                (self.msg_iov.cast(), self.desc, self.iov_count)
            }

            fn with_desc(self, desc: *mut *mut c_void) -> $type {
                $type { desc, ..self }
            }
        }
    )* };
}

messages!(fi_msg fi_msg_tagged fi_msg_rma fi_msg_atomic);

#[cfg(test)]
mod tests {
    use core::ptr::NonNull;

    use super::super::call::Slot;
    use super::*;

    /// Buffers at and above this address are on a device; the descriptor of each is its address.
    const DEVICE: usize = 0x10_0000;

    fn on_device(address: usize, _len: usize) -> Option<Descriptor> {
        let pointer = NonNull::new(ptr::without_provenance_mut(address));
        pointer.filter(|_| address >= DEVICE).map(Descriptor)
    }

    /// Inserts descriptors and returns the result of `look`, which reads the arguments while the copies exist.
    fn after<R>(
        slot: Slot,
        arguments: &[(Name, u64)],
        look: impl FnOnce(&mut dyn FnMut(Name) -> u64) -> R,
    ) -> R {
        let names: Vec<Name> = arguments.iter().map(|(name, _)| *name).collect();
        let mut values: Vec<u64> = arguments.iter().map(|(_, value)| *value).collect();
        let mut call = Call {
            slot,
            object: 1,
            domain: 2,
            result: 0,
            format: 0,
            app_api: abi::release::API,
            names: names.leak(),
            values: &mut values,
            kept: Vec::new(),
        };
        call.give_each(&mut on_device);
        look(&mut |which| call.argument(which).unwrap())
    }

    fn piece(address: usize) -> iovec {
        iovec {
            iov_base: ptr::without_provenance_mut(address),
            iov_len: 8,
        }
    }

    /// # Safety
    /// The array has `count` numbers.
    unsafe fn numbers(array: u64, count: usize) -> Vec<usize> {
        let array: *const *mut c_void = Raw::of_number(array);
        // SAFETY: promised by the caller.
        (0..count)
            .map(|i| unsafe { *array.add(i) }.addr())
            .collect()
    }

    #[test]
    fn a_buffer_on_a_device_gets_a_descriptor_if_it_has_none() {
        let desc_of = |buf: usize, len, desc| {
            let arguments = [
                (Name::buf, buf as u64),
                (Name::len, len),
                (Name::desc, desc),
            ];
            after(Slot::of("tagged", "send"), &arguments, |value| {
                value(Name::desc)
            })
        };
        assert_eq!(desc_of(DEVICE, 8, 0), DEVICE as u64);
        assert_eq!(desc_of(DEVICE, 8, 7), 7);
        assert_eq!(desc_of(DEVICE, 0, 0), 0);
        assert_eq!((desc_of(DEVICE - 1, 8, 0), desc_of(0, 8, 0)), (0, 0));
    }

    #[test]
    fn a_call_without_descriptor_stays_as_it_is() {
        let arguments = [(Name::buf, DEVICE as u64), (Name::len, 8)];
        let buf = after(Slot::of("msg", "inject"), &arguments, |value| {
            value(Name::buf)
        });
        assert_eq!(buf, DEVICE as u64);
    }

    #[test]
    fn vectors_keep_the_descriptors_that_they_have() {
        let iov = [piece(DEVICE + 1), piece(16), piece(DEVICE + 3)];
        let slot = Slot::of("rma", "writev");
        let with = |desc: *const *mut c_void, count: u64| {
            let arguments = [
                (Name::iov, iov.as_ptr().number()),
                (Name::desc, desc.number()),
                (Name::count, count),
            ];
            after(slot, &arguments, |value| {
                let array = value(Name::desc);
                // SAFETY: NULL, or the array below, or a copy.
                let found = (array != 0 && count == 3).then(|| unsafe { numbers(array, 3) });
                (array == desc.number(), found)
            })
        };
        assert_eq!(
            with(ptr::null(), 3),
            (false, Some(vec![DEVICE + 1, 0, DEVICE + 3]))
        );
        let none = ptr::null_mut();
        let desc: [*mut c_void; 3] = [ptr::without_provenance_mut(5), none, none];
        assert_eq!(
            with(desc.as_ptr(), 3),
            (false, Some(vec![5, 0, DEVICE + 3]))
        );
        let desc: [*mut c_void; 3] = [ptr::without_provenance_mut(5); 3];
        assert_eq!(with(desc.as_ptr(), 3), (true, Some(vec![5; 3])));
        // More elements than memory can hold.
        assert_eq!(with(ptr::null(), u64::MAX), (true, None));
    }

    #[test]
    fn a_message_is_copied_with_its_vector() {
        let iov = [piece(16), piece(DEVICE)];
        let message = fi_msg_tagged {
            msg_iov: iov.as_ptr(),
            desc: ptr::null_mut(),
            iov_count: 2,
            addr: 3,
            tag: 4,
            ignore: 5,
            context: ptr::null_mut(),
            data: 6,
        };
        let number = (&raw const message).number();
        let with = |slot, flags| {
            let arguments = [(Name::msg, number), (Name::flags, flags)];
            after(Slot::of("tagged", slot), &arguments, |value| {
                let place: *const fi_msg_tagged = Raw::of_number(value(Name::msg));
                // SAFETY: the message above, or a copy.
                let copy = unsafe { *place };
                // SAFETY: as above.
                let given =
                    (place.number() != number).then(|| unsafe { numbers(copy.desc.number(), 2) });
                (
                    given,
                    copy.iov_count,
                    copy.addr,
                    copy.tag,
                    copy.ignore,
                    copy.data,
                )
            })
        };
        assert_eq!(with("sendmsg", 0), (Some(vec![0, DEVICE]), 2, 3, 4, 5, 6));
        assert_eq!(with("recvmsg", FI_PEEK), (None, 2, 3, 4, 5, 6));
        let empty = [(Name::msg, 0), (Name::flags, 0)];
        assert_eq!(
            after(Slot::of("msg", "sendmsg"), &empty, |value| value(Name::msg)),
            0
        );
    }

    #[test]
    fn operands_results_and_comparands_each_have_theirs() {
        let arguments = [
            (Name::buf, DEVICE as u64 + 1),
            (Name::count, 1),
            (Name::desc, 0),
            (Name::compare, DEVICE as u64 + 2),
            (Name::compare_desc, 0),
            (Name::result, DEVICE as u64 + 3),
            (Name::result_desc, 0),
        ];
        let found = after(Slot::of("atomic", "compwrite"), &arguments, |value| {
            [Name::desc, Name::compare_desc, Name::result_desc].map(value)
        });
        assert_eq!(found, [1, 2, 3].map(|i| DEVICE as u64 + i));
        let (iov, compare, result) = ([piece(16)], [piece(DEVICE + 2)], [piece(DEVICE + 3)]);
        let arguments = [
            (Name::iov, iov.as_ptr().number()),
            (Name::desc, 0),
            (Name::count, 1),
            (Name::comparev, compare.as_ptr().number()),
            (Name::compare_desc, 0),
            (Name::compare_count, 1),
            (Name::resultv, result.as_ptr().number()),
            (Name::result_desc, 0),
            (Name::result_count, 1),
        ];
        after(Slot::of("atomic", "compwritev"), &arguments, |value| {
            assert_eq!(value(Name::desc), 0);
            // SAFETY: arrays that are kept.
            unsafe {
                assert_eq!(numbers(value(Name::compare_desc), 1), [DEVICE + 2]);
                assert_eq!(numbers(value(Name::result_desc), 1), [DEVICE + 3]);
            }
        });
    }
}
