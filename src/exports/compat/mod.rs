// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Symbol versions other than those of the default release. A version determines the length of the structs that its
//! callers pass. Returned structs always have the newest layout, of which older callers read the beginning.

mod fabric;
mod info;
