// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Tests of the whole library over its C ABI, as `client` calls it.

mod tcp;
mod udp;
