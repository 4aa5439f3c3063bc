// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Lets a process find out whether it can read another one's memory, and whether that process is still the same.

use std::sync::OnceLock;

use sys::random;

/// Random bytes and their address, which a process sends to others. They compare the bytes with what they read there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ProcessProbe {
    pub address: u64,
    pub bytes: [u8; ProcessProbe::LEN],
}

impl ProcessProbe {
    pub const LEN: usize = 16;

    pub fn own() -> ProcessProbe {
        static BYTES: OnceLock<[u8; ProcessProbe::LEN]> = OnceLock::new();
        let bytes = BYTES.get_or_init(|| {
            let mut bytes = [0; ProcessProbe::LEN];
            // Without random numbers the probe proves less, and nothing if the peer's bytes are the same.
            if let Ok(random) = random::unpredictable() {
                bytes.copy_from_slice(&random[..ProcessProbe::LEN]);
            }
            bytes
        });
        ProcessProbe {
            address: bytes.as_ptr() as u64,
            bytes: *bytes,
        }
    }
}
