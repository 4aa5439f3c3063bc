// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| ironfabric_fuzz::rxd_peer(data));
