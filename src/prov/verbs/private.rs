// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Private data of connection messages. Adapters pad it, so its length is in front of it. A request between addresses
//! of AF_IB begins with a header of the kernel's connection manager.

use super::ib;
use base::{Error, Result};

/// Most bytes of the application's data.
pub const MOST: usize = 55;

/// Bytes of the header between addresses of AF_IB.
const HEADER: usize = 36;

/// Encodes data of the application.
pub fn encode(data: &[u8]) -> Result<Vec<u8>> {
    let len = u8::try_from(data.len()).ok().filter(|_| data.len() <= MOST);
    let mut bytes = vec![len.ok_or(Error::INVAL)?];
    bytes.extend(data);
    Ok(bytes)
}

/// Encodes the data of a request between these addresses.
pub fn encode_request(data: &[u8], src: &[u8], dest: &[u8]) -> Result<Vec<u8>> {
    let encoded = encode(data)?;
    let (true, Some(from), Some(to)) = (ib::is_address(src), ib::gid_of(src), ib::gid_of(dest))
    else {
        return Ok(encoded);
    };
    // The first byte belongs to the kernel. The zero behind it is the IP version, so that no IPoIB is used.
    let mut bytes = vec![0, 0];
    bytes.extend(ib::port_of(src).to_be_bytes());
    bytes.extend(from);
    bytes.extend(to);
    bytes.extend(encoded);
    Ok(bytes)
}

/// Decodes data of the peer. A length that exceeds the bytes is reduced to them.
pub fn decode(bytes: &[u8]) -> &[u8] {
    let Some((&len, data)) = bytes.split_first() else {
        return &[];
    };
    &data[..usize::from(len).min(data.len())]
}

/// Decodes the data of a request to the address `to`.
pub fn decode_request<'a>(bytes: &'a [u8], to: &[u8]) -> &'a [u8] {
    match ib::is_address(to) && bytes.len() > HEADER {
        true => decode(&bytes[HEADER..]),
        false => decode(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_is_removed_and_lengths_are_bounded() {
        assert_eq!(encode(b"ab").unwrap(), [2, b'a', b'b']);
        assert_eq!(encode(&[0; 56]), Err(Error::INVAL));
        let mut block = encode(b"hello").unwrap();
        block.resize(56, 0);
        assert_eq!(decode(&block), b"hello");
        assert_eq!(decode(&[200, 1, 2]), [1, 2]);
        assert_eq!(decode(&[]), b"");
    }

    #[test]
    fn requests_between_infiniband_addresses_have_a_header() {
        let gid = core::array::from_fn(|i| i as u8 + 1);
        let addr = ib::address(0xffff, &gid, 1);
        let bytes = encode_request(b"x", &addr, &addr).unwrap();
        assert_eq!(bytes.len(), HEADER + 2);
        assert_eq!(
            (bytes[..4].to_vec(), bytes[4..20].to_vec()),
            (vec![0; 4], gid.to_vec())
        );
        assert_eq!(decode_request(&bytes, &addr), b"x");
        assert_eq!(decode_request(&[1, 9], &[2, 0]), [9]);
    }
}
