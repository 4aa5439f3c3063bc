// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//! Versions of symbols beside those of the default release. A node tells how long the structs are that its callers hand
//! in; what they get back is always the newest layout, of which they read the beginning.

mod fabric;
mod info;
