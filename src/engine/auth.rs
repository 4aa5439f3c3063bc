// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Authorization keys: fi_domain(3), fi_endpoint(3), fi_mr(3), "auth_key". Determines which key an object has. The
//! transport checks that a peer has the same key.

use std::fmt;

use base::{Error, Result, Secret};

/// A key that is not empty. Never shown, neither in logs nor by `{:?}`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Key(Secret);

impl Key {
    /// The key of an attribute: `size` bytes, or the default if the attribute has none.
    ///
    /// `INVAL`: a size without a key, or a size above `most`, such as FI_AV_AUTH_KEY.
    pub fn given(
        size: usize,
        bytes: Option<&[u8]>,
        default: Option<&Key>,
        most: usize,
    ) -> Result<Option<Key>> {
        match (size, bytes) {
            (0, _) => Ok(default.cloned()),
            (1.., Some(bytes)) if bytes.len() == size && size <= most => {
                Ok(Some(Key(bytes.into())))
            }
            _ => Err(Error::INVAL),
        }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn secret(&self) -> &Secret {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_serves_where_none_is_given() {
        let default = Key::given(2, Some(b"ab"), None, 8).unwrap();
        assert_eq!(Key::given(0, None, default.as_ref(), 8), Ok(default));
        assert_eq!(Key::given(0, Some(b"ab"), None, 8), Ok(None));
    }

    #[test]
    fn a_size_without_its_key_is_fi_einval() {
        let key = |size, bytes: Option<&[u8]>| Key::given(size, bytes, None, 8).err();
        assert_eq!(key(8, Some(b"12345678")), None);
        assert_eq!(key(9, Some(b"123456789")), Some(Error::INVAL));
        assert_eq!(key(2, None), Some(Error::INVAL));
        assert_eq!(key(usize::MAX, None), Some(Error::INVAL));
    }

    #[test]
    fn a_key_is_not_shown() {
        let key = Key::given(6, Some(b"secret"), None, 8).unwrap();
        assert_eq!(format!("{key:?}"), "Some(Key)");
    }
}
